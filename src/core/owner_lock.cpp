#include "core/owner_lock.hpp"

namespace skerry {

std::string_view to_string(LockResult result) {
  switch (result) {
    case LockResult::locked: return "locked";
    case LockResult::busy: return "busy";
    case LockResult::owner_dead: return "owner dead";
    case LockResult::aborted: return "aborted";
  }
  return "unknown";
}

bool OwnerLock::owner_is_dead(const OwnerWatch& watch) const {
  if (watch.is_dead == nullptr) return false;
  const uint32_t value = word_.load(std::memory_order_relaxed) & ~waiters_bit;
  return value != 0 && watch.is_dead(watch.context, value - 1);
}

LockResult OwnerLock::lock_contended(uint32_t owner, const OwnerWatch& watch, Sharing sharing) {
  for (uint32_t i = spin_limit(); i > 0; --i) {
    spin_pause();
    // Look before trying: a failed compare-and-swap takes the cache line from the holder.
    if (word_.load(std::memory_order_relaxed) == 0 && try_lock(owner)) return LockResult::locked;
  }
  for (;;) {
    uint32_t value = word_.load(std::memory_order_relaxed);
    if (value == 0) {
      // Taken with the waiters bit set: others may sleep still, and the exchange that woke us has erased their bit. The price is at
      // most one needless wake.
      if (word_.compare_exchange_weak(value, (owner + 1) | waiters_bit, std::memory_order_acquire, std::memory_order_relaxed)) {
        return LockResult::locked;
      }
      continue;
    }
    if ((value & waiters_bit) == 0) {
      if (!word_.compare_exchange_weak(value, value | waiters_bit, std::memory_order_relaxed)) continue;
      value |= waiters_bit;
    }
    if (watch.abort != nullptr && watch.abort->load(std::memory_order_acquire) != 0) return LockResult::aborted;
    if (watch.is_dead != nullptr && watch.is_dead(watch.context, (value & ~waiters_bit) - 1)) return LockResult::owner_dead;
    futex_wait(&word_, value, wait_slice_ns, sharing);
  }
}

void OwnerLock::wake(Sharing sharing) { futex_wake(&word_, 1, sharing); }

}  // namespace skerry
