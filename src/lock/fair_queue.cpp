#include "core/pure/rule.hpp"
#include "lock/protocol.hpp"

namespace skerry::lock {

namespace {

class FairQueue final : public Protocol {
 public:
  Request request(Mutex& mutex, const Waiter& waiter, WaiterPool& pool,
                  Caller& caller) const override {
    const uint32_t given_back = pool.freed().load(std::memory_order_relaxed);
    switch (lock_request(mutex, waiter, pool, caller)) {
      case LockAnswer::granted:
        // It may have taken a record, and needed none after all.
        if (pool.freed().load(std::memory_order_relaxed) != given_back) caller.record_freed();
        return Request::granted;
      case LockAnswer::queued: return Request::queued;
      case LockAnswer::recursive: return Request::recursive;
      case LockAnswer::no_record: return Request::no_record;
      case LockAnswer::damaged: return Request::damaged;
      case LockAnswer::contended:
      case LockAnswer::guard_failed: break;
    }
    return Request::no_guard;
  }

  Release release(Mutex& mutex, Holder holder, WaiterPool& pool, Caller& caller) const override {
    switch (try_unlock(mutex, holder)) {
      case UnlockAnswer::released: return Release::released;
      case UnlockAnswer::not_holder: return Release::not_holder;
      case UnlockAnswer::contended:
      case UnlockAnswer::handed_over:
      case UnlockAnswer::guard_failed:
      case UnlockAnswer::damaged: break;
    }
    if (!caller.acquire(mutex.guard)) return Release::no_guard;
    if (!shares(holder) && may_open(mutex, pool, caller)) {
      Waiter invited;
      if (invite_guarded(mutex, holder, pool, &invited)) {
        caller.release(mutex.guard);
        caller.tell(invited);
        return Release::released;
      }
    }
    // Under the guard the queue stays as it is: those that are first now get the mutex.
    uint32_t record = mutex.first;
    const uint32_t batch = next_batch(mutex, pool);
    for (uint32_t i = batch == damaged_batch ? 0 : batch; i > 0; --i, record = pool.next_of(record))
      if (!caller.reaches(pool.at(record).waiter)) {
        caller.release(mutex.guard);
        return Release::out_of_reach;
      }
    Handed handed;
    const UnlockAnswer answer = unlock_guarded(mutex, holder, pool, &handed);
    caller.release(mutex.guard);
    if (answer == UnlockAnswer::not_holder) return Release::not_holder;
    if (answer == UnlockAnswer::damaged) return Release::damaged;
    if (answer == UnlockAnswer::handed_over) {
      for (Waiter next; handed.next(pool, &next);) {
        caller.tell(next);
        if (!SKERRY_RULE(tell_the_batch)) break;
      }
      caller.record_freed();
    }
    return Release::released;
  }

  // The first waiter wants it for itself, and all that wait can be invited: an acquisition of
  // another node takes so long that newcomers would get thousands meanwhile.
  static bool may_open(const Mutex& mutex, WaiterPool& pool, const Caller& caller) {
    if (!pool.has(mutex.first) || shares(pool.at(mutex.first).waiter.holder)) return false;
    uint32_t steps = 0;
    for (uint32_t record = mutex.first; record != 0; record = pool.next_of(record))
      if (!pool.has(record) || ++steps > pool.size() || !caller.invites(pool.at(record).waiter))
        return false;
    return true;
  }

  static Turn turn_of(Take taken, Caller& caller) {
    switch (taken) {
      case Take::no: return Turn::not_yet;
      case Take::yes: break;
      case Take::damaged: return Turn::damaged;
    }
    caller.record_freed();
    return Turn::granted;
  }

  Turn try_turn(Mutex& mutex, Holder holder, WaiterPool& pool, Caller& caller) const override {
    const uint64_t owner = mutex.word.load(std::memory_order_acquire) & ~open_word;
    if (owner == holder) return Turn::granted;  // handed over
    if (owner != 0) return Turn::not_yet;
    if (!caller.acquire(mutex.guard)) return Turn::no_guard;
    const Take taken = take_guarded(mutex, holder, pool);
    caller.release(mutex.guard);
    return turn_of(taken, caller);
  }

  Turn rest(Mutex& mutex, const Waiter& waiter, bool impatient, WaiterPool& pool,
            Caller& caller) const override {
    if (!caller.acquire(mutex.guard)) return Turn::no_guard;
    const Take taken = rest_guarded(mutex, waiter, impatient, pool);
    caller.release(mutex.guard);
    return turn_of(taken, caller);
  }

  Holds holds(Mutex& mutex, Holder holder, WaiterPool& pool, Caller& caller) const override {
    if (!shares(holder))
      return (mutex.word.load(std::memory_order_acquire) & ~open_word) == holder ? Holds::yes
                                                                                 : Holds::no;
    // The word does not name its sharers. One that asked, and does not wait, has it.
    if (!caller.acquire(mutex.guard)) return Holds::no_guard;
    const bool waits = SKERRY_RULE(sharers_may_wait) && waits_guarded(mutex, holder, pool);
    caller.release(mutex.guard);
    return waits ? Holds::no : Holds::yes;
  }
};

}  // namespace

const Protocol& fair_queue() {
  static const FairQueue protocol;
  return protocol;
}

}  // namespace skerry::lock
