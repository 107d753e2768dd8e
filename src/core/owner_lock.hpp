// Waiting for an OwnerWord. Without contention it takes one compare-and-swap to lock and one
// exchange to unlock. With contention a thread spins briefly, then sleeps and watches for the
// owner's death. For critical sections of microseconds: a stripe's 4 KiB, a queue's few words.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/futex.hpp"
#include "core/pure/owner_word.hpp"

namespace skerry {

// What a waiter watches besides the word. A null field is not watched (single-process tests).
struct OwnerWatch {
  const std::atomic<uint32_t>* abort = nullptr;                    // not 0: the job is ending
  bool (*is_dead)(const void* context, uint32_t owner) = nullptr;  // has this owner died?
  const void* context = nullptr;
  bool takes_over = false;  // the lock of a dead owner becomes the caller's: never owner_dead
};

LockResult lock_word_contended(OwnerWord& word, uint32_t owner, const OwnerWatch& watch);

inline LockResult lock_word(OwnerWord& word, uint32_t owner, const OwnerWatch& watch) {
  if (word.try_lock(owner)) [[likely]]
    return LockResult::locked;
  return lock_word_contended(word, owner, watch);
}

// Never waits. Fails with busy or owner_dead.
LockResult try_lock_word(OwnerWord& word, uint32_t owner, const OwnerWatch& watch);

inline void unlock_word(OwnerWord& word) {
  if (word.release()) [[unlikely]]
    futex_wake(&word.value, 1);
}

}  // namespace skerry
