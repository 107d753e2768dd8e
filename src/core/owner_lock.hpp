// OwnerLock: a lock word in shared memory that says who holds it, so that a death inside the critical section is found.
//
// Word: 0 free; else bits 0..30 = owner + 1, bit 31 = somebody may be sleeping. `owner` is a member index of the node (or any small
// number the watch understands). One compare-and-swap to take, one exchange to give back; spin briefly, then sleep.
// The critical sections it is meant for last microseconds: a stripe's 4 KiB, a mutex queue's few words.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/futex.hpp"

namespace skerry {

enum class LockResult : uint8_t {
  locked,
  busy,        // somebody else holds it (only from attempts that must not wait)
  owner_dead,  // its owner died inside: what it guards may be half written, and the lock is never free again
  aborted,     // the job is ending
};
std::string_view to_string(LockResult result);

// What a waiter watches besides the word. Everything may be null: then nothing is watched (single-process tests).
struct OwnerWatch {
  const std::atomic<uint32_t>* abort = nullptr;                       // not 0: the job is ending
  bool (*is_dead)(const void* context, uint32_t owner) = nullptr;     // has this owner died?
  const void* context = nullptr;
};

class OwnerLock {
 public:
  static constexpr uint32_t waiters_bit = 1u << 31;

  bool try_lock(uint32_t owner) {
    uint32_t expected = 0;
    return word_.compare_exchange_strong(expected, owner + 1, std::memory_order_acquire, std::memory_order_relaxed);
  }

  LockResult lock(uint32_t owner, const OwnerWatch& watch, Sharing sharing) {
    if (try_lock(owner)) [[likely]] return LockResult::locked;
    return lock_contended(owner, watch, sharing);
  }

  void unlock(Sharing sharing) {
    if ((word_.exchange(0, std::memory_order_release) & waiters_bit) != 0) [[unlikely]] wake(sharing);
  }

  bool is_locked() const { return word_.load(std::memory_order_relaxed) != 0; }
  // Of a locked word.
  uint32_t owner() const { return (word_.load(std::memory_order_relaxed) & ~waiters_bit) - 1; }

  // After an attempt that may not wait found the lock busy: is that because its owner died?
  bool owner_is_dead(const OwnerWatch& watch) const;

 private:
  LockResult lock_contended(uint32_t owner, const OwnerWatch& watch, Sharing sharing);
  void wake(Sharing sharing);

  std::atomic<uint32_t> word_{0};  // written by whoever takes, waits for or gives back the lock; zero pages are free locks
};
static_assert(sizeof(OwnerLock) == 4);

}  // namespace skerry
