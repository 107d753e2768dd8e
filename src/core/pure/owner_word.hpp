// OwnerWord: the word of a lock in shared memory. It names its owner, so that a death inside the
// critical section is found. This file never waits; core/owner_lock.hpp does.
//
// 0: free. Otherwise bits 0..30 = owner + 1, bit 31 = a thread may be sleeping. `owner` is a small
// number, usually a member index of the node.
#pragma once

#include <atomic>
#include <cstdint>

namespace skerry {

enum class LockResult : uint8_t {
  locked,
  busy,        // another owner holds it (only from attempts that must not wait)
  owner_dead,  // its owner died inside: what it guards may be half written, and the lock is never
               // free again
  aborted,     // the job is ending
};

struct OwnerWord {
  static constexpr uint32_t waiters_bit = 1U << 31;
  static constexpr uint32_t owner_of(uint32_t value) {
    return (value & ~waiters_bit) - 1;
  }  // of a value that is not 0

  bool try_lock(uint32_t owner) {
    uint32_t expected = 0;
    return value.compare_exchange_strong(expected, owner + 1, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  // True: a thread may be sleeping and must be woken (one is enough).
  [[nodiscard]] bool release() {
    return (value.exchange(0, std::memory_order_release) & waiters_bit) != 0;
  }

  std::atomic<uint32_t> value{0};  // written when the lock is taken, waited for or released; zeroed
                                   // memory is a free lock
};
static_assert(sizeof(OwnerWord) == 4);

}  // namespace skerry
