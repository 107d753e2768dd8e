// Where the payloads of announced puts go instead of into their segment: straight into a buffer of
// the leader's program, which saves a copy. A leader says so in advance for places of its own
// slice (job/ring.hpp). It alone can: the data servers run in its process.
//
// Who comes first, the message or the announcement, does not matter: take() tells where the payload
// went. A server asks begin() before the payload's first byte, and the notification comes after the
// last. So who takes after the notification has the answer.
//
// Guarded by a mutex: a rank announces and takes, the servers' threads ask.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/thread.hpp"

namespace skerry::server {

class Landings {
 public:
  // Shorter payloads are not looked up: a copy costs less.
  static constexpr uint64_t least_bytes = 8 * 1024;
  struct Place {
    SegmentId segment;
    Rank rank = no_rank;  // the leader, whose slice it is
    uint64_t offset = 0;
    bool operator==(const Place&) const = default;
  };

  // By the leader. The next payload for this place, of exactly so many bytes of that sender, is
  // wanted at `to`. The one before was taken.
  void announce(const Place& place, Rank sender, std::byte* to, uint64_t bytes) {
    if (bytes < least_bytes) return;
    const std::lock_guard guard(mutex_);
    expected_.push_back({place, sender, to, bytes, false});
    any_.store(true, std::memory_order_relaxed);
  }
  // By the leader, after the notification: where the payload is, if that is where it was wanted;
  // null: it is in the segment. It is announced no more.
  std::byte* take(const Place& place) {
    // What this thread announced is there, so it sees its own `true`, or a later one.
    if (!any_.load(std::memory_order_relaxed)) return nullptr;
    const std::lock_guard guard(mutex_);
    const auto found = find(place);
    if (found == expected_.end()) return nullptr;
    std::byte* const landed = found->begun ? found->to : nullptr;
    *found = expected_.back();
    expected_.pop_back();
    if (expected_.empty()) any_.store(false, std::memory_order_relaxed);
    return landed;
  }
  // Nothing of this segment is announced any more. True: payloads may be on their way to what was.
  // The servers that receive them must be told (Server::forget) before the buffers go.
  [[nodiscard]] bool withdraw(SegmentId segment) {
    if (!any_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard guard(mutex_);
    bool any_begun = false;
    std::erase_if(expected_, [&](const Expected& e) {
      if (e.place.segment != segment) return false;
      any_begun |= e.begun;
      return true;
    });
    if (expected_.empty()) any_.store(false, std::memory_order_relaxed);
    return any_begun;
  }

  // By a server's thread: where the payload goes; null: into the segment. A put that comes again
  // after a break asks again.
  std::byte* begin(const Place& place, Rank sender, uint64_t bytes) {
    // An announcement that this misses is one that comes too late.
    if (bytes < least_bytes || !any_.load(std::memory_order_relaxed)) return nullptr;
    const std::lock_guard guard(mutex_);
    const auto found = find(place);
    if (found == expected_.end() || found->sender != sender || found->bytes != bytes)
      return nullptr;
    found->begun = true;
    return found->to;
  }

 private:
  struct Expected {
    Place place;
    Rank sender;
    std::byte* to;
    uint64_t bytes;
    bool begun;
  };
  std::vector<Expected>::iterator find(const Place& place) {
    return std::find_if(expected_.begin(), expected_.end(),
                        [&](const Expected& e) { return e.place == place; });
  }

  Mutex mutex_;
  std::atomic<bool> any_{false};  // a hint: written under the mutex
  std::vector<Expected> expected_;
};

}  // namespace skerry::server
