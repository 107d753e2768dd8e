// The ranks of a group by position, compressed: a million ranks in arithmetic order (the world, a
// row, a column, the leaders of nodes) cost 16 bytes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/pure/ids.hpp"

namespace skerry::placement {

// Numbers by position, kept as runs first, first + step, first + 2 step ...
class Sequence {
 public:
  struct Run {
    int32_t position;  // of its first number
    int32_t first;
    int32_t step;
    int32_t count;
    friend bool operator==(const Run&, const Run&) = default;
  };
  void add(int32_t value);
  // first, first + step, ..., as one run.
  void add_run(int32_t first, int32_t step, int32_t count) {
    runs_.push_back({size_, first, step, count});
    size_ += count;
  }
  int32_t size() const { return size_; }
  // `position`: in [0, size). O(log runs).
  int32_t at(int32_t position) const;
  const std::vector<Run>& runs() const { return runs_; }
  // Built by the same calls.
  friend bool operator==(const Sequence&, const Sequence&) = default;
  uint64_t bytes() const { return runs_.capacity() * sizeof(Run); }  // beside this object

 private:
  std::vector<Run> runs_;  // by position
  int32_t size_ = 0;
};

// The members of a group: different ranks, in any order. More than a few runs of them cost 8 bytes
// for each rank.
class Members {
 public:
  Members() = default;
  // Position is rank.
  static Members all(Rank count);
  explicit Members(Sequence ranks);

  int32_t size() const { return size_; }
  Rank rank_of(int32_t index) const {  // no_rank if out of range
    if (index < 0 || index >= size_) return no_rank;
    return ranks_.empty() ? sequence_.at(index) : ranks_[static_cast<size_t>(index)];
  }
  int32_t index_of(Rank rank) const;       // -1 if not a member
  Rank lowest() const { return lowest_; }  // no_rank if empty
  uint64_t bytes() const {                 // beside this object
    return sequence_.bytes() + (ranks_.capacity() + positions_.capacity()) * sizeof(Rank);
  }
  // The same ranks in the same order, from sequences built alike.
  friend bool operator==(const Members&, const Members&) = default;
  // A rank that is named twice; no_rank: none is.
  Rank find_double() const;

 private:
  void index_ranks();

  int32_t size_ = 0;
  Rank lowest_ = no_rank;
  Rank highest_ = no_rank;
  Sequence sequence_;               // of ranks; empty: see ranks_
  std::vector<Rank> ranks_;         // in many runs: by position; otherwise empty
  std::vector<int32_t> positions_;  // of ranks_, by rank
};

}  // namespace skerry::placement
