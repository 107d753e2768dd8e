#include "core/owner_lock.hpp"

namespace skerry {

namespace {

// From a dead owner, whose word has `value`. The waiters bit stays: somebody may sleep.
bool take_over(OwnerWord& word, uint32_t value, uint32_t owner) {
  return word.value.compare_exchange_strong(value, (owner + 1) | OwnerWord::waiters_bit,
                                            std::memory_order_acquire, std::memory_order_relaxed);
}

}  // namespace

LockResult try_lock_word(OwnerWord& word, uint32_t owner, const OwnerWatch& watch) {
  if (word.try_lock(owner)) return LockResult::locked;
  uint32_t value = word.value.load(std::memory_order_relaxed);
  const bool dead = value != 0 && watch.is_dead != nullptr &&
                    watch.is_dead(watch.context, OwnerWord::owner_of(value));
  if (!dead) return LockResult::busy;
  if (!watch.takes_over) return LockResult::owner_dead;
  return take_over(word, value, owner) ? LockResult::locked : LockResult::busy;
}

LockResult lock_word_contended(OwnerWord& word, uint32_t owner, const OwnerWatch& watch) {
  for (uint32_t i = spin_limit(); i > 0; --i) {
    spin_pause();
    // Look before trying: a failed compare-and-swap takes the cache line from the holder.
    if (word.value.load(std::memory_order_relaxed) == 0 && word.try_lock(owner))
      return LockResult::locked;
  }
  for (;;) {
    uint32_t value = word.value.load(std::memory_order_relaxed);
    if (value == 0) {
      // Taken with the waiters bit set: other threads may still sleep, and the exchange that woke
      // us has erased their bit. This costs at most one needless wake.
      if (word.value.compare_exchange_weak(value, (owner + 1) | OwnerWord::waiters_bit,
                                           std::memory_order_acquire, std::memory_order_relaxed)) {
        return LockResult::locked;
      }
      continue;
    }
    if ((value & OwnerWord::waiters_bit) == 0) {
      if (!word.value.compare_exchange_weak(value, value | OwnerWord::waiters_bit,
                                            std::memory_order_relaxed))
        continue;
      value |= OwnerWord::waiters_bit;
    }
    if (watch.abort != nullptr && watch.abort->load(std::memory_order_acquire) != 0)
      return LockResult::aborted;
    if (watch.is_dead != nullptr && watch.is_dead(watch.context, OwnerWord::owner_of(value))) {
      if (!watch.takes_over) return LockResult::owner_dead;
      if (take_over(word, value, owner)) return LockResult::locked;
      continue;
    }
    futex_wait(&word.value, value, wait_slice_ns);
  }
}

}  // namespace skerry
