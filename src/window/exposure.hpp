// Post, start, complete and wait: how ranks tell each other of exposure epochs. Signals lie in a
// segment, where each member's slice holds, at a place of the window's own,
//
//   posts      how often somebody posted to this member: it sleeps on this counter in start
//   completes  how often somebody completed an access to this member: it sleeps on it in wait
//   posted[i]  1 if the member at position i has posted to this one, and it has not started since
//
// A post is a put of one byte with a notification, a complete is a notification alone. Both travel
// in the order of the rank's other operations on that member, so what was issued before complete is
// done when wait has seen it. A rank posts to another once between two of its starts, so one byte
// is enough.
//
// Who writes: the owner clears posted[i], the poster at position i sets it. The counters are only
// added to. The poster's byte is visible before its count (put_notify).
#pragma once

#include <cstdint>
#include <span>

#include "job/group.hpp"
#include "job/segment.hpp"

namespace skerry::window {

class Exposure {
 public:
  static uint64_t slice_bytes(int32_t members) {
    return posted_at + static_cast<uint64_t>(members);
  }
  // The members' signals lie at byte `at` of their slices, all zero.
  void open(job::Group& group, job::Segment& signals, uint64_t at) {
    group_ = &group;
    signals_ = &signals;
    at_ = at;
  }

  // Between post and the end of all that it allowed.
  bool is_open() const { return is_open_; }
  Status post(std::span<const Rank> ranks);
  // Waits until all of them have posted to this rank; takes their posts.
  Status await_posts(std::span<const Rank> ranks);
  Status complete(std::span<const Rank> ranks);
  // Waits, but no longer than this (negative: as long as it takes), until all that this rank posted
  // to have completed. *done: they have.
  Status wait(int64_t longest_ns, bool* done);

 private:
  static constexpr uint64_t posts_at = 0, completes_at = 64, posted_at = 128;
  Status send(Rank rank, uint64_t offset, uint64_t bytes, uint64_t counter);

  job::Group* group_ = nullptr;
  job::Segment* signals_ = nullptr;
  uint64_t at_ = 0;
  bool is_open_ = false;
  uint64_t completes_expected_ = 0;  // over all epochs
};

}  // namespace skerry::window
