#include "lock/protocol.hpp"

namespace skerry::lock {

std::string_view to_string(Request answer) {
  switch (answer) {
    case Request::granted: return "granted";
    case Request::queued: return "queued";
    case Request::recursive: return "recursive";
    case Request::no_record: return "no record";
    case Request::no_guard: return "no guard";
  }
  return "unknown";
}

std::string_view to_string(Release answer) {
  switch (answer) {
    case Release::released: return "released";
    case Release::out_of_reach: return "out of reach";
    case Release::not_holder: return "not holder";
    case Release::no_guard: return "no guard";
  }
  return "unknown";
}

namespace {

class FairQueue final : public Protocol {
 public:
  Request request(Mutex& mutex, const Waiter& waiter, WaiterPool& pool,
                  Caller& caller) const override {
    switch (lock_request(mutex, waiter, pool, caller)) {
      case LockAnswer::granted: return Request::granted;
      case LockAnswer::queued: return Request::queued;
      case LockAnswer::recursive: return Request::recursive;
      case LockAnswer::no_record: return Request::no_record;
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
      case UnlockAnswer::guard_failed: break;
    }
    if (!caller.acquire(mutex.guard)) return Release::no_guard;
    // Under the guard the queue stays as it is: the waiter that is first now gets the mutex.
    if (mutex.first != 0 && !caller.reaches(pool.at(mutex.first).waiter)) {
      caller.release(mutex.guard);
      return Release::out_of_reach;
    }
    Waiter next;
    const UnlockAnswer answer = unlock_guarded(mutex, holder, pool, &next);
    caller.release(mutex.guard);
    if (answer == UnlockAnswer::not_holder) return Release::not_holder;
    if (answer == UnlockAnswer::handed_over) {
      caller.tell(next);
      caller.record_freed();
    }
    return Release::released;
  }

  bool holds(const Mutex& mutex, Holder holder) const override {
    return (mutex.word.load(std::memory_order_acquire) & ~queued_bit) == holder;
  }
};

}  // namespace

const Protocol& fair_queue() {
  static const FairQueue protocol;
  return protocol;
}

}  // namespace skerry::lock
