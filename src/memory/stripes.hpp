// Stripes: the one table of locks per node under which accumulate and read-modify-write happen,
// from local ranks and data servers alike, so that all of them are atomic together.
//
// Which stripe guards a byte: (seed of the segment and rank + offset in the slice / 4096) mod 1024.
// Every process and server of the node computes the same, although they map the slice at different
// addresses. Consecutive pages have consecutive stripes: a long accumulate meets all stripes in
// turn, and two ranks' slices of one segment start at unrelated stripes.
//
// Rules: a thread holds at most one stripe at a time, for at most 4 KiB of work and without a
// system call. (The one exception, an element that straddles two stripes, locks both in ascending
// order: no dead lock is possible.)
#pragma once

#include <cstdint>

#include "core/pure/ordering.hpp"
#include "core/pure/status.hpp"
#include "memory/control.hpp"

namespace skerry::memory {

constexpr uint64_t stripe_bytes = 4096;

enum class Patience : uint8_t {
  wait,      // a rank's own thread: sleep until the stripe is free
  try_once,  // a data server: a short spin, never asleep; on busy it parks the session and comes
             // back
};

// Equal for all processes of the job.
constexpr uint32_t stripe_seed(SegmentId id, Rank rank) {
  uint64_t mixed = id.packed() * 0x9e37'79b9'7f4a'7c15 +
                   static_cast<uint32_t>(rank) * 0xc2b2'ae3d'27d4'eb4fULL;
  mixed ^= mixed >> 32;
  mixed *= 0xd6e8'feb8'6659'fd93;
  return static_cast<uint32_t>(mixed >> 32);
}

constexpr uint32_t stripe_index(uint32_t seed, uint64_t offset) {
  return (seed + static_cast<uint32_t>(offset / stripe_bytes)) & (stripe_count - 1);
}

// One locker's view of the table. Immutable after construction, so any number of threads may share
// it.
class Stripes {
 public:
  // `owner`: the member index that signs. `watch` is copied; its targets must outlive this object.
  Stripes(Stripe* table, uint32_t owner, const OwnerWatch& watch)
      : table_(table), owner_(owner), watch_(watch) {}

  LockResult lock(uint32_t index, Patience patience) const {
    if (table_[index].word.try_lock(owner_)) [[likely]]
      return LockResult::locked;
    return lock_busy(index, patience);
  }
  // What was done under the stripe is visible to all before this thread loads again.
  void unlock(uint32_t index) const {
    unlock_word(table_[index].word);
    full_fence_after_rmw();  // the word was exchanged
  }

  // The error for a lock that failed: peer_dead with the owner and the stripe; internal for busy.
  Status explain(LockResult result, uint32_t index) const;

 private:
  LockResult lock_busy(uint32_t index, Patience patience) const;

  Stripe* table_;
  uint32_t owner_;
  OwnerWatch watch_;
};

}  // namespace skerry::memory
