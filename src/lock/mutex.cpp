#include "lock/mutex.hpp"

#include "core/pure/assert.hpp"
#include "core/pure/rule.hpp"

namespace skerry::lock {

// ---- pool -------------------------------------------------------------------------------------

uint32_t WaiterPool::take() {
  uint64_t head = head_->free_list.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != 0) {
    if (!has(static_cast<uint32_t>(head))) [[unlikely]]
      return static_cast<uint32_t>(head);
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

// The queue is empty, or its ends are records.
bool has_sound_ends(const Mutex& mutex, const WaiterPool& pool) {
  return mutex.first == 0 || (pool.has(mutex.first) && pool.has(mutex.last));
}

// Another waiter is first now, or none.
void set_first(Mutex& mutex, uint32_t record) {
  mutex.first = record;
  mutex.passes.store(0, std::memory_order_relaxed);
  mutex.impatient.store(0, std::memory_order_relaxed);
}

bool must_hand_over(const Mutex& mutex) {
  return SKERRY_RULE(bounded_passing) &&
         (mutex.passes.load(std::memory_order_relaxed) >= most_passes ||
          mutex.impatient.load(std::memory_order_relaxed) != 0);
}

}  // namespace

bool pass_queue(Mutex& mutex, Holder holder) {
  const uint32_t passes = mutex.passes.load(std::memory_order_relaxed);
  if (passes >= most_passes && SKERRY_RULE(bounded_passing)) return false;
  uint64_t value = open_word;
  if (!mutex.word.compare_exchange_strong(value, holder | open_word, std::memory_order_acquire,
                                          std::memory_order_relaxed))
    return false;
  mutex.passes.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool leave_open(Mutex& mutex, Holder holder) {
  if (must_hand_over(mutex)) return false;
  uint64_t value = holder | open_word;
  return mutex.word.compare_exchange_strong(value, open_word, std::memory_order_release,
                                            std::memory_order_relaxed);
}

LockAnswer try_share(Mutex& mutex, Holder holder, bool* others) {
  uint64_t value = mutex.word.load(std::memory_order_relaxed);
  const uint64_t closed = SKERRY_RULE(sharers_queue) ? shared_bit | queued_bit : shared_bit;
  while (value == 0 || (value & closed) == shared_bit) {
    const uint64_t more = value == 0 ? shared_bit | 1 : value + 1;
    if (mutex.word.compare_exchange_weak(value, more, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
      if (others != nullptr) *others = static_cast<uint32_t>(value) != 0;
      return LockAnswer::granted;
    }
  }
  return (value & shared_bit) == 0 && same_requester(value & ~open_word, holder)
             ? LockAnswer::recursive
             : LockAnswer::contended;
}

UnlockAnswer try_unshare(Mutex& mutex) {
  uint64_t value = mutex.word.load(std::memory_order_relaxed);
  while ((value & shared_bit) != 0 && static_cast<uint32_t>(value) != 0) {
    const bool last = static_cast<uint32_t>(value) == 1;
    if (last && (value & queued_bit) != 0) return UnlockAnswer::contended;
    const uint64_t less = last && (value & biased_bit) == 0 ? 0 : value - 1;
    if (mutex.word.compare_exchange_weak(value, less, std::memory_order_release,
                                         std::memory_order_relaxed))
      return UnlockAnswer::released;
  }
  return UnlockAnswer::not_holder;
}

namespace {

// One more beside present sharers, whoever waits. With the guard, so that the last of them cannot
// hand the lock over meanwhile.
bool join_guarded(Mutex& mutex) {
  uint64_t value = mutex.word.load(std::memory_order_relaxed);
  while ((value & shared_bit) != 0)
    if (mutex.word.compare_exchange_weak(value, value + 1, std::memory_order_acquire,
                                         std::memory_order_relaxed))
      return true;
  return false;
}

}  // namespace

LockAnswer lock_guarded(Mutex& mutex, const Waiter& waiter, WaiterPool& pool) {
  uint32_t record = 0;
  uint64_t value = 0;
  for (;;) {
    if (!shares(waiter.holder)) revoke_bias(mutex, pool.lines());
    LockAnswer quick = try_lock(mutex, waiter.holder);
    if (quick == LockAnswer::contended && joins(waiter.holder) && SKERRY_RULE(sharers_join) &&
        join_guarded(mutex))
      quick = LockAnswer::granted;
    if (quick != LockAnswer::contended) {
      if (record != 0) pool.give_back(record);
      return quick;
    }
    value = mutex.word.load(std::memory_order_relaxed);
    if ((value & queued_bit) == 0 && (value == 0 || (shares(waiter.holder) && shares(value))))
      continue;                      // it can be had after all
    if (is_biased(value)) continue;  // once more: a queue and a bias exclude each other
    // The record first: once the bit is set, unlock relies on a queue that is not empty (it waits
    // for the guard, but must find somebody).
    if (record == 0 && (record = pool.take()) == 0) return LockAnswer::no_record;
    if (!pool.has(record) || !has_sound_ends(mutex, pool)) [[unlikely]] {
      if (pool.has(record)) pool.give_back(record);
      return LockAnswer::damaged;
    }
    if ((value & queued_bit) != 0) break;
    if (mutex.word.compare_exchange_weak(value, value | queued_bit, std::memory_order_relaxed))
      break;
  }
  WaiterRecord& mine = pool.at(record);
  mine.waiter = waiter;
  set_next(mine, 0);
  if (mutex.first == 0) {
    set_first(mutex, record);
  } else {
    set_next(pool.at(mutex.last), record);
  }
  mutex.last = record;
  return LockAnswer::queued;
}

uint32_t next_batch(const Mutex& mutex, WaiterPool& pool) {
  uint32_t count = 0;
  for (uint32_t record = mutex.first; record != 0; record = pool.next_of(record)) {
    if (!pool.has(record) || count == pool.size()) [[unlikely]]
      return damaged_batch;
    if (count > 0 && !shares(pool.at(record).waiter.holder)) break;
    ++count;
    if (!shares(pool.at(record).waiter.holder)) break;
  }
  return count;
}

UnlockAnswer unlock_guarded(Mutex& mutex, Holder holder, WaiterPool& pool, Handed* handed) {
  // Other sharers may have come or gone meanwhile.
  const UnlockAnswer quick = try_unlock(mutex, holder);
  if (quick != UnlockAnswer::contended) return quick;
  // Acquire: what the sharers before us did, which counted themselves out, goes along with our
  // store.
  (void)mutex.word.load(std::memory_order_acquire);
  const uint32_t batch = next_batch(mutex, pool);
  // A mutex with the queued bit has a queue.
  if (batch == 0 || batch == damaged_batch) [[unlikely]]
    return UnlockAnswer::damaged;
  const Holder first = pool.at(mutex.first).waiter.holder;
  uint32_t rest = mutex.first;
  for (uint32_t i = 0; i < batch; ++i) rest = pool.next_of(rest);
  if (rest != 0 && !pool.has(rest)) [[unlikely]]
    return UnlockAnswer::damaged;
  handed->record_ = mutex.first;
  handed->left_ = batch;
  if (SKERRY_RULE(hand_over)) set_first(mutex, rest);
  // Release: what the old holder did is visible to the new ones, however they learn of the grant.
  // A store is enough: with the bit set nobody but the holders and we may change the word, and the
  // last holder is the caller.
  mutex.word.store(
      (shares(first) ? shared_bit | handed->left_ : first) | (mutex.first != 0 ? queued_bit : 0),
      std::memory_order_release);
  return UnlockAnswer::handed_over;
}

bool Handed::next(WaiterPool& pool, Waiter* waiter) {
  if (left_ == 0 || !pool.has(record_)) return false;
  const uint32_t record = record_;
  *waiter = pool.at(record).waiter;
  record_ = pool.next_of(record);
  --left_;
  pool.give_back(record);
  return true;
}

bool invite_guarded(Mutex& mutex, Holder holder, WaiterPool& pool, Waiter* invited) {
  const uint64_t value = mutex.word.load(std::memory_order_relaxed);
  // With the bit it is awake, and the mutex can be left open without the guard.
  if (value != (holder | queued_bit) || must_hand_over(mutex) || !pool.has(mutex.first))
    return false;
  *invited = pool.at(mutex.first).waiter;
  // A store is enough: with queued_bit alone nobody but the holder, and that is the caller, changes
  // the word without the guard.
  mutex.word.store(open_word, std::memory_order_release);
  return true;
}

Take take_guarded(Mutex& mutex, Holder holder, WaiterPool& pool) {
  uint64_t value = mutex.word.load(std::memory_order_acquire);
  if ((value & ~open_word) == holder) return Take::yes;
  if (value != open_word) return Take::no;
  const uint32_t record = mutex.first;
  // The first waiter is the invited one.
  if (!pool.has(record) || pool.at(record).waiter.holder != holder) [[unlikely]]
    return Take::damaged;
  const uint32_t rest = pool.next_of(record);
  if (rest != 0 && !pool.has(rest)) [[unlikely]]
    return Take::damaged;
  if (!mutex.word.compare_exchange_strong(value, holder | (rest != 0 ? queued_bit : 0),
                                          std::memory_order_acquire, std::memory_order_relaxed))
    return Take::no;  // a newcomer was faster
  set_first(mutex, rest);
  pool.give_back(record);
  return Take::yes;
}

Take rest_guarded(Mutex& mutex, const Waiter& waiter, bool impatient, WaiterPool& pool) {
  for (;;) {
    if (const Take taken = take_guarded(mutex, waiter.holder, pool); taken != Take::no)
      return taken;
    if (!pool.has(mutex.first)) [[unlikely]]
      return Take::damaged;
    uint64_t value = mutex.word.load(std::memory_order_relaxed);
    if ((value & ~open_word) == 0) continue;
    // Before the bit is gone: the unlocker that finds none reads both.
    pool.at(mutex.first).waiter = waiter;
    if (impatient) mutex.impatient.store(1, std::memory_order_relaxed);
    if (mutex.word.compare_exchange_strong(value, value & ~invited_bit, std::memory_order_relaxed))
      return Take::no;
  }
}

bool waits_guarded(const Mutex& mutex, Holder holder, WaiterPool& pool) {
  uint32_t steps = 0;
  for (uint32_t record = mutex.first; pool.has(record) && steps < pool.size();
       record = pool.next_of(record), ++steps)
    if (pool.at(record).waiter.holder == holder) return true;
  return false;
}

}  // namespace skerry::lock
