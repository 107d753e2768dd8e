#include "placement/members.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/pure/assert.hpp"

namespace skerry::placement {
namespace {

// So many runs are looked through one after the other.
constexpr size_t few_runs = 8;

Rank lowest_of(const Sequence::Run& run) {
  return run.step >= 0 ? run.first : run.first + run.step * (run.count - 1);
}
Rank highest_of(const Sequence::Run& run) {
  return run.step >= 0 ? run.first + run.step * (run.count - 1) : run.first;
}
// -1: not in it.
int32_t position_in(const Sequence::Run& run, Rank rank) {
  const int64_t distance = int64_t{rank} - run.first;
  if (run.count == 1 || run.step == 0) return distance == 0 ? run.position : -1;
  const int64_t steps = distance / run.step;
  if (distance % run.step != 0 || steps < 0 || steps >= run.count) return -1;
  return run.position + static_cast<int32_t>(steps);
}

}  // namespace

void Sequence::add(int32_t value) {
  if (!runs_.empty()) {
    Run& last = runs_.back();
    const int64_t step = last.count == 1 ? int64_t{value} - last.first : last.step;
    const int64_t next = int64_t{last.first} + step * last.count;
    if (next == value && step == static_cast<int32_t>(step)) {
      last.step = static_cast<int32_t>(step);
      ++last.count;
      ++size_;
      return;
    }
  }
  runs_.push_back({size_++, value, 0, 1});
}

int32_t Sequence::at(int32_t position) const {
  SKERRY_INVARIANT(position >= 0 && position < size_, "what is asked for is in the sequence");
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), position,
                                      [](int32_t p, const Run& run) { return p < run.position; });
  const Run& run = *(after - 1);
  return static_cast<int32_t>(run.first + int64_t{run.step} * (position - run.position));
}

Members Members::all(Rank count) {
  Sequence ranks;
  if (count > 0) ranks.add_run(0, 1, count);
  return Members(std::move(ranks));
}

Members::Members(Sequence ranks) : size_(ranks.size()), sequence_(std::move(ranks)) {
  if (size_ == 0) return;
  lowest_ = lowest_of(sequence_.runs().front());
  highest_ = lowest_;
  for (const Sequence::Run& run : sequence_.runs()) {
    lowest_ = std::min(lowest_, lowest_of(run));
    highest_ = std::max(highest_, highest_of(run));
  }
  SKERRY_INVARIANT(lowest_ <= highest_ && size_ > 0, "the bounds are of what is there");
  if (sequence_.runs().size() > few_runs) index_ranks();
}

void Members::index_ranks() {
  ranks_.reserve(static_cast<size_t>(size_));
  for (const Sequence::Run& run : sequence_.runs())
    for (int32_t i = 0; i < run.count; ++i) ranks_.push_back(run.first + run.step * i);
  SKERRY_INVARIANT(ranks_.size() == static_cast<size_t>(size_), "every rank is in one run");
  sequence_ = Sequence();
  positions_.resize(ranks_.size());
  std::iota(positions_.begin(), positions_.end(), 0);
  std::ranges::sort(positions_, {}, [&](int32_t i) { return ranks_[static_cast<size_t>(i)]; });
}

int32_t Members::index_of(Rank rank) const {
  if (rank < lowest_ || rank > highest_ || size_ == 0) return -1;
  if (!ranks_.empty()) {
    const auto rank_at = [&](int32_t i) { return ranks_[static_cast<size_t>(i)]; };
    const auto found = std::ranges::lower_bound(positions_, rank, {}, rank_at);
    return found != positions_.end() && rank_at(*found) == rank ? *found : -1;
  }
  for (const Sequence::Run& run : sequence_.runs())
    if (const int32_t position = position_in(run, rank); position >= 0) return position;
  return -1;
}

Rank Members::find_double() const {
  for (int32_t i = 0; i < size_; ++i)
    if (const Rank rank = rank_of(i); index_of(rank) != i) return rank;
  return no_rank;
}

}  // namespace skerry::placement
