#include "lock/mutex.hpp"

#include "core/pure/assert.hpp"
#include "core/pure/rule.hpp"

namespace skerry::lock {

std::string_view to_string(LockAnswer answer) {
  switch (answer) {
    case LockAnswer::granted: return "granted";
    case LockAnswer::queued: return "queued";
    case LockAnswer::recursive: return "recursive";
    case LockAnswer::no_record: return "no record";
    case LockAnswer::contended: return "contended";
    case LockAnswer::guard_failed: return "guard failed";
  }
  return "unknown";
}

std::string_view to_string(UnlockAnswer answer) {
  switch (answer) {
    case UnlockAnswer::released: return "released";
    case UnlockAnswer::handed_over: return "handed over";
    case UnlockAnswer::not_holder: return "not holder";
    case UnlockAnswer::contended: return "contended";
    case UnlockAnswer::guard_failed: return "guard failed";
  }
  return "unknown";
}

// ---- pool -------------------------------------------------------------------------------------

uint32_t WaiterPool::take() {
  uint64_t head = head_->free_list.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != 0) {
    // The record may be taken and used by another meanwhile: then `next` is nonsense, and the count
    // in the head makes the exchange fail.
    const uint32_t next = __atomic_load_n(&records_[static_cast<uint32_t>(head)].next,
                                          __ATOMIC_RELAXED);
    const uint64_t changed = (((head >> 32) + 1) << 32) | next;
    if (head_->free_list.compare_exchange_weak(head, changed, std::memory_order_acquire,
                                               std::memory_order_acquire)) {
      return static_cast<uint32_t>(head);
    }
  }
  uint32_t used = head_->ever_used.load(std::memory_order_relaxed);
  while (used < count_) {
    if (head_->ever_used.compare_exchange_weak(used, used + 1, std::memory_order_relaxed))
      return used + 1;
  }
  return 0;
}

void WaiterPool::give_back(uint32_t record) {
  uint64_t head = head_->free_list.load(std::memory_order_relaxed);
  uint64_t changed = 0;
  do {
    __atomic_store_n(&records_[record].next, static_cast<uint32_t>(head), __ATOMIC_RELAXED);
    changed = (((head >> 32) + 1) << 32) | record;
  } while (!head_->free_list.compare_exchange_weak(head, changed, std::memory_order_release,
                                                   std::memory_order_relaxed));
  // Sequentially consistent, as the starving's own count: either they see this record or the giver
  // sees them.
  head_->freed.fetch_add(1, std::memory_order_seq_cst);
}

// ---- mutex ------------------------------------------------------------------------------------

namespace {

void set_next(WaiterRecord& record, uint32_t next) {
  __atomic_store_n(&record.next, next, __ATOMIC_RELAXED);
}
uint32_t next_of(const WaiterRecord& record) {
  return __atomic_load_n(&record.next, __ATOMIC_RELAXED);
}

}  // namespace

LockAnswer try_lock(Mutex& mutex, Holder holder) {
  uint64_t value = 0;
  if (mutex.word.compare_exchange_strong(value, holder, std::memory_order_acquire,
                                         std::memory_order_relaxed))
    return LockAnswer::granted;
  return (value & ~queued_bit) == holder ? LockAnswer::recursive : LockAnswer::contended;
}

UnlockAnswer try_unlock(Mutex& mutex, Holder holder) {
  uint64_t value = holder;
  if (mutex.word.compare_exchange_strong(value, 0, std::memory_order_release,
                                         std::memory_order_relaxed))
    return UnlockAnswer::released;
  return value == (holder | queued_bit) ? UnlockAnswer::contended : UnlockAnswer::not_holder;
}

LockAnswer lock_guarded(Mutex& mutex, const Waiter& waiter, WaiterPool& pool) {
  uint32_t record = 0;
  uint64_t value = mutex.word.load(std::memory_order_relaxed);
  for (;;) {
    if ((value & ~queued_bit) == waiter.holder) {
      if (record != 0) pool.give_back(record);
      return LockAnswer::recursive;
    }
    if (value == 0) {
      if (!mutex.word.compare_exchange_weak(value, waiter.holder, std::memory_order_acquire,
                                            std::memory_order_relaxed))
        continue;
      if (record != 0) pool.give_back(record);
      return LockAnswer::granted;
    }
    // The record first: once the bit is set, unlock relies on a queue that is not empty (it waits
    // for the guard, but must find somebody).
    if (record == 0 && (record = pool.take()) == 0) return LockAnswer::no_record;
    if ((value & queued_bit) != 0) break;
    if (mutex.word.compare_exchange_weak(value, value | queued_bit, std::memory_order_relaxed))
      break;
  }
  WaiterRecord& mine = pool.at(record);
  mine.waiter = waiter;
  set_next(mine, 0);
  if (mutex.first == 0) {
    mutex.first = record;
  } else {
    set_next(pool.at(mutex.last), record);
  }
  mutex.last = record;
  return LockAnswer::queued;
}

UnlockAnswer unlock_guarded(Mutex& mutex, Holder holder, WaiterPool& pool, Waiter* next) {
  const UnlockAnswer quick = try_unlock(mutex,
                                        holder);  // the waiters may have cancelled meanwhile
  if (quick != UnlockAnswer::contended) return quick;
  const uint32_t record = mutex.first;
  SKERRY_ASSERT(record != 0, "a mutex with the queued bit has a queue");
  WaiterRecord& first = pool.at(record);
  *next = first.waiter;
  if (SKERRY_RULE(hand_over)) mutex.first = next_of(first);
  // Release: what the old holder did is visible to the new one, however it learns of the grant.
  mutex.word.store(next->holder | (mutex.first != 0 ? queued_bit : 0), std::memory_order_release);
  pool.give_back(record);
  return UnlockAnswer::handed_over;
}

bool cancel_guarded(Mutex& mutex, Holder holder, WaiterPool& pool) {
  uint32_t before = 0;
  for (uint32_t record = mutex.first; record != 0;
       before = record, record = next_of(pool.at(record))) {
    if (pool.at(record).waiter.holder != holder) continue;
    const uint32_t after = next_of(pool.at(record));
    if (before == 0) {
      mutex.first = after;
    } else {
      set_next(pool.at(before), after);
    }
    if (after == 0) mutex.last = before;
    // The last waiter gone: the holder may unlock by itself again. Only the guard's holder changes
    // a word that has the bit.
    if (mutex.first == 0) mutex.word.fetch_and(~queued_bit, std::memory_order_relaxed);
    pool.give_back(record);
    return true;
  }
  return false;
}

}  // namespace skerry::lock
