// Post, start, complete and wait: how ranks tell each other of exposure epochs. Signals lie in a
// segment, where each member's slice holds, at a place of the window's own,
//
//   posts      how often somebody posted to this member: it sleeps on this counter in start
//   completes  how often somebody completed an access to this member: it sleeps on it in wait
//   posted[i]  1 if the member at position i has posted to this one, and it has not started since
//   boxes[i]   in small groups: a put of the member at position i, which this one's wait takes out
//
// A post is a put of one byte with a notification, a complete is a notification alone. Both travel
// in the order of the rank's other operations on that member, so what was issued before complete is
// done when wait has seen it. A rank posts to another once between two of its starts, so one byte
// is enough.
//
// A box saves a system call: memory that the program gave is reached by loads and stores in its
// owner's process alone. So the first put of an epoch to such a member on this node waits at its
// origin. If another access follows, it is done first, as any put (Epochs::put_kept). If not, it
// goes into the box with the complete. Nobody may look for it before the target's wait.
//
// Who writes: the owner clears posted[i], the poster at position i sets it. The origin at position
// i fills boxes[i] before its complete, the owner empties it before its next post. The counters are
// only added to. The poster's byte and the box are visible before the count (put_notify).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "job/group.hpp"
#include "job/segment.hpp"

namespace skerry::window {

class Exposure {
 public:
  static uint64_t slice_bytes(int32_t members) {
    const auto count = static_cast<uint64_t>(members);
    return members <= most_boxes ? boxes_at(count) + count * sizeof(Box) : posted_at + count;
  }
  // The members' signals lie at byte `at` of their slices, all zero.
  // `given`: this member's, if the program gave it in one piece, otherwise null.
  void open(job::Group& group, job::Segment& signals, uint64_t at, std::byte* given) {
    group_ = &group;
    signals_ = &signals;
    at_ = at;
    given_ = given;
  }

  // Between post and the end of all that it allowed.
  bool is_open() const { return is_open_; }
  Status post(std::span<const Rank> ranks);
  // Waits until all of them have posted to this rank; takes their posts.
  Status await_posts(std::span<const Rank> ranks);
  Status complete(std::span<const Rank> ranks);

  struct Box {
    static constexpr uint64_t most_bytes = 48;
    uint64_t offset;
    uint32_t bytes;  // 0: empty
    uint32_t reserved;
    std::byte data[most_bytes];
  };
  // Keeps a put of 1 to Box::most_bytes to a member of this node until complete. False: it is to be
  // done now.
  bool keep(Rank rank, uint64_t offset, const void* data, uint64_t bytes);
  bool keeps_any() const { return !kept_.empty(); }
  // Another access to this rank comes: what is kept for it is to be done before. False: nothing is.
  // No more is kept until the next start.
  bool give_up(Rank rank, Box* box);
  // Waits, but no longer than this (negative: as long as it takes), until all that this rank posted
  // to have completed. *done: they have.
  Status wait(int64_t longest_ns, bool* done);

 private:
  static constexpr uint64_t posts_at = 0, completes_at = 64, posted_at = 128;
  static constexpr int32_t most_boxes = 16;  // in larger groups they would take too much
  static_assert(sizeof(Box) == 64);
  static constexpr uint64_t boxes_at(uint64_t members) {
    return (posted_at + members + 63) / 64 * 64;
  }
  Box& box(std::byte* slice, int32_t position) const {
    const auto count = static_cast<uint64_t>(group_->size());
    return reinterpret_cast<Box*>(slice + at_ + boxes_at(count))[position];
  }
  Status send(Rank rank, uint64_t offset, uint64_t bytes, uint64_t counter);
  void take_out();

  job::Group* group_ = nullptr;
  job::Segment* signals_ = nullptr;
  uint64_t at_ = 0;
  std::byte* given_ = nullptr;  // null: none that boxes are for
  bool is_open_ = false;
  std::vector<Rank> posted_to_;  // of the present exposure
  struct Kept {
    Rank rank;
    Box box;
  };
  std::vector<Kept> kept_;   // at most one for each rank
  bool keeps_more_ = false;  // in this epoch of start
  uint64_t completes_expected_ = 0;  // over all epochs
};

}  // namespace skerry::window
