// How a rank waits for a lock of its own node. Who gets it is decided in src/lock; how a rank
// sleeps is its own business.
#pragma once

#include "core/futex.hpp"
#include "memory/slots.hpp"
#include "server/locks.hpp"

namespace skerry::server {

enum class LockWait : uint8_t {
  granted,
  recursive,   // the holder has it already
  ended,       // the job is ending
  owner_died,  // a rank died while it changed the lock's queue
};

// Waits for `lock` in the name of `holder`, with a completion slot that the caller borrowed:
// `slot`, number `slot_index` (0, 1, ...) of the caller's. `sleep(wait)` calls wait(until_ns) until
// it does not time out, and returns the last result; it may do other work in between.
template <class Sleep>
LockWait wait_for_lock(lock::Mutex& mutex, lock::Holder holder, Rank rank, uint32_t slot_index,
                       memory::CompletionSlot& slot, const memory::Control& control,
                       LockCaller& caller, Sleep&& sleep) {
  lock::WaiterPool pool = waiter_pool(control);
  const uint32_t tag = memory::arm_slot(slot);
  const uint32_t done = memory::CompletionSlot::make_word(tag, memory::SlotState::done);
  const lock::Waiter waiter = lock::make_waiter(holder, rank, slot_index + 1, tag);
  for (;;) {
    const uint32_t given_back = pool.freed().load(std::memory_order_acquire);
    switch (lock::fair_queue().request(mutex, waiter, pool, caller)) {
      case lock::Request::granted: return LockWait::granted;
      case lock::Request::recursive: return LockWait::recursive;
      case lock::Request::queued: {
        const auto asleep = [&](int64_t until_ns) {
          return wait_until(
              &slot.word, [&](uint32_t word) { return word == done; }, until_ns,
              control.abort_flag(), Sharing::node);
        };
        return sleep(no_deadline, asleep) == WaitResult::aborted ? LockWait::ended
                                                                 : LockWait::granted;
      }
      case lock::Request::no_record:
        pool.starving().fetch_add(1, std::memory_order_seq_cst);
        if (pool.freed().load(std::memory_order_seq_cst) == given_back) {
          const auto asleep = [&](int64_t until_ns) {
            return wait_until(
                &pool.freed(), [&](uint32_t freed) { return freed != given_back; }, until_ns,
                control.abort_flag(), Sharing::node);
          };
          (void)sleep(deadline_after(wait_slice_ns), asleep);
        }
        pool.starving().fetch_sub(1, std::memory_order_relaxed);
        if (control.is_aborted()) return LockWait::ended;
        break;
      case lock::Request::no_guard:
        return control.is_aborted() ? LockWait::ended : LockWait::owner_died;
    }
  }
}

}  // namespace skerry::server
