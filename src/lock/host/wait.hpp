// How a rank waits for a lock of its own node. Who gets it is decided in src/lock; how a rank
// sleeps is its own business.
#pragma once

#include "core/futex.hpp"
#include "memory/slots.hpp"
#include "lock/host/locks.hpp"

namespace skerry::lock {

enum class LockWait : uint8_t {
  granted,
  recursive,   // the holder has it already
  ended,       // the job is ending
  owner_died,  // a rank died while it changed the lock's queue
  damaged,     // somebody wrote over the lock's memory
};

// A waiter that was told to look tries for so long before it sleeps again; one that comes before it
// queues up.
constexpr int64_t lock_spin_ns = 20'000;
// A waiter that was first for so long, and was passed by others, is handed the lock.
constexpr int64_t lock_patience_ns = 1'000'000;

// Runs ready() for a moment, and gives way at every turn. The last result.
template <class Ready>
bool spin_for_lock(Ready&& ready) {
  static IdleCoreSpin spin;
  return spin_limit() == 0 ? ready() : spin.spin<1>(ready, lock_spin_ns);
}

// What a queued waiter does until it has the lock. `asleep()` returns when its slot is filled.
template <class Asleep>
LockWait wait_for_turn(Mutex& mutex, Waiter waiter, memory::CompletionSlot& slot, WaiterPool& pool,
                       LockCaller& caller, Asleep&& asleep) {
  int64_t told_first_ns = 0;
  for (;;) {
    if (asleep(waiter) == WaitResult::aborted) return LockWait::ended;
    if (shares(waiter.holder)) return LockWait::granted;
    if (told_first_ns == 0) told_first_ns = monotonic_ns();
    Turn turn = Turn::not_yet;
    spin_for_lock([&] {
      turn = fair_queue().try_turn(mutex, waiter.holder, pool, caller);
      return turn != Turn::not_yet;
    });
    if (turn == Turn::not_yet) {
      const bool impatient = monotonic_ns() - told_first_ns >= lock_patience_ns;
      waiter = make_waiter(waiter.holder, rank_of(waiter.holder), slot_of(waiter),
                           memory::arm_slot(slot));
      turn = fair_queue().rest(mutex, waiter, impatient, pool, caller);
    }
    switch (turn) {
      case Turn::granted: return LockWait::granted;
      case Turn::not_yet: break;
      case Turn::no_guard: return LockWait::owner_died;
      case Turn::damaged: return LockWait::damaged;
    }
  }
}

// Waits for `lock` in the name of `holder`, with a completion slot that the caller borrowed:
// `slot`, number `slot_index` (0, 1, ...) of the caller's. `sleep(wait)` calls wait(until_ns) until
// it does not time out, and returns the last result; it may do other work in between.
template <class Sleep>
LockWait wait_for_lock(Mutex& mutex, Holder holder, Rank rank, uint32_t slot_index,
                       memory::CompletionSlot& slot, const memory::Control& control,
                       LockCaller& caller, Sleep&& sleep) {
  WaiterPool pool = waiter_pool(control);
  if (spin_for_lock([&] {
        const uint64_t word = mutex.word.load(std::memory_order_relaxed);
        return (shares(holder) || word == 0 || word == open_word) &&
               try_lock(mutex, holder) == LockAnswer::granted;
      }))
    return LockWait::granted;
  const Waiter waiter = make_waiter(holder, rank, slot_index + 1, memory::arm_slot(slot));
  const auto asleep = [&](const Waiter& now) {
    const uint32_t done = memory::CompletionSlot::make_word(tag_of(now), memory::SlotState::done);
    return sleep(no_deadline, [&](int64_t until_ns) {
      return wait_until(
          &slot.word, [&](uint32_t word) { return word == done; }, until_ns, control.abort_flag());
    });
  };
  for (;;) {
    const uint32_t given_back = pool.freed().load(std::memory_order_acquire);
    switch (fair_queue().request(mutex, waiter, pool, caller)) {
      case Request::granted: return LockWait::granted;
      case Request::recursive: return LockWait::recursive;
      case Request::queued:
        switch (wait_for_turn(mutex, waiter, slot, pool, caller, asleep)) {
          case LockWait::granted: return LockWait::granted;
          case LockWait::recursive:
          case LockWait::ended: return LockWait::ended;
          case LockWait::damaged: return LockWait::damaged;
          case LockWait::owner_died: break;
        }
        return control.is_aborted() ? LockWait::ended : LockWait::owner_died;
      case Request::no_record:
        pool.starving().fetch_add(1, std::memory_order_seq_cst);
        if (pool.freed().load(std::memory_order_seq_cst) == given_back) {
          const auto for_record = [&](int64_t until_ns) {
            return wait_until(
                &pool.freed(), [&](uint32_t freed) { return freed != given_back; }, until_ns,
                control.abort_flag());
          };
          (void)sleep(deadline_after(wait_slice_ns), for_record);
        }
        pool.starving().fetch_sub(1, std::memory_order_relaxed);
        if (control.is_aborted()) return LockWait::ended;
        break;
      case Request::damaged: return LockWait::damaged;
      case Request::no_guard: return control.is_aborted() ? LockWait::ended : LockWait::owner_died;
    }
  }
}

}  // namespace skerry::lock
