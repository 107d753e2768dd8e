// How a rank waits for a lock of its own node. Who gets it is decided in src/lock; how a rank
// sleeps is its own business.
#pragma once

#include "core/futex.hpp"
#include "core/pure/rule.hpp"
#include "lock/host/requests.hpp"
#include "memory/slots.hpp"

namespace skerry::lock {

// A waiter that is woken to look tries for lock_spin_ns, then sleeps again. A newcomer tries for
// the same time, then queues up.
constexpr int64_t lock_spin_ns = 20'000;
// A waiter that has been first in the queue for lock_patience_ns is handed the lock, so that
// newcomers cannot pass it for ever.
constexpr int64_t lock_patience_ns = 1'000'000;

// Runs ready() for a moment, and gives way at every turn. The last result.
template <class Ready>
bool spin_for_lock(Ready&& ready) {
  static IdleCoreSpin spin;
  return spin_limit() == 0 ? ready() : spin.spin<1>(ready, lock_spin_ns);
}

// What a queued waiter does until it has the lock. `asleep(waiter)` returns when its slot is
// filled; false: the job is ending.
template <class Asleep>
LockAnswer wait_for_turn(Mutex& mutex, Waiter waiter, memory::CompletionSlot& slot,
                         LockCaller& caller, Asleep&& asleep) {
  int64_t told_first_ns = 0;
  for (;;) {
    if (!asleep(waiter)) return LockAnswer::no_guard;
    if (shares(waiter.holder)) return LockAnswer::granted;
    if (told_first_ns == 0) told_first_ns = monotonic_ns();
    LockAnswer turn = LockAnswer::queued;
    spin_for_lock([&] {
      turn = try_turn(mutex, waiter.holder, caller);
      return turn != LockAnswer::queued;
    });
    if (turn == LockAnswer::queued) {
      const bool impatient = monotonic_ns() - told_first_ns >= lock_patience_ns;
      waiter = make_waiter(waiter.holder, rank_of(waiter.holder), slot_of(waiter),
                           memory::arm_slot(slot));
      turn = rest(mutex, waiter, impatient, caller);
    }
    if (turn != LockAnswer::queued) return turn;
  }
}

// Waits for `mutex` in the name of `holder`, with a completion slot that the caller borrowed:
// `slot`, number `slot_index` (0, 1, ...) of the holder's rank. `sleep(until_ns, wait)` calls
// wait(until_ns) until it does not time out, and returns the last result; it may do other work in
// between. Returns granted, recursive, damaged, or no_guard: the job is ending, or a rank died
// while it changed the lock's queue.
template <class Sleep>
LockAnswer wait_for_lock(Mutex& mutex, Holder holder, uint32_t slot_index,
                         memory::CompletionSlot& slot, LockCaller& caller, Sleep&& sleep) {
  if (spin_for_lock([&] {
        const uint64_t word = mutex.word.load(std::memory_order_relaxed);
        return (shares(holder) || word == 0 || word == open_word) &&
               try_lock(mutex, holder) == LockAnswer::granted;
      }))
    return LockAnswer::granted;
  // Until `word` is ready, or the job ends.
  const auto sleep_on = [&](std::atomic<uint32_t>* word, int64_t until_ns, auto&& ready) {
    return sleep(until_ns, [&](int64_t slice_ns) {
      return wait_until(word, ready, slice_ns, caller.control().abort_flag());
    });
  };
  const auto asleep = [&](const Waiter& now) {
    const uint32_t done = memory::CompletionSlot::make_word(tag_of(now), memory::SlotState::done);
    const std::atomic<uint32_t>& deaths = caller.control().header().deaths;
    // The process that handed it over may have died before it told.
    const auto is_untold = [&] {
      return SKERRY_RULE(look_untold) && deaths.load(std::memory_order_acquire) != 0 &&
             (mutex.word.load(std::memory_order_acquire) & ~open_word) == holder;
    };
    const auto is_done = [&](uint32_t word) { return word == done || is_untold(); };
    return sleep_on(&slot.word, no_deadline, is_done) != WaitResult::aborted;
  };
  const Waiter waiter = make_waiter(holder, rank_of(holder), slot_index + 1,
                                    memory::arm_slot(slot));
  WaiterPool& pool = caller.pool;
  for (;;) {
    const uint32_t given_back = pool.freed().load(std::memory_order_acquire);
    const LockAnswer answer = request(mutex, waiter, caller);
    if (answer == LockAnswer::queued) return wait_for_turn(mutex, waiter, slot, caller, asleep);
    if (answer != LockAnswer::no_record) return answer;
    pool.starving().fetch_add(1, std::memory_order_seq_cst);
    if (pool.freed().load(std::memory_order_seq_cst) == given_back)
      (void)sleep_on(&pool.freed(), deadline_after(wait_slice_ns),
                     [&](uint32_t freed) { return freed != given_back; });
    pool.starving().fetch_sub(1, std::memory_order_relaxed);
    if (caller.control().is_aborted()) return LockAnswer::no_guard;
  }
}

}  // namespace skerry::lock
