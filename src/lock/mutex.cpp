#include "lock/mutex.hpp"

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
  // Without an atomic addition: as long as we hold it nobody else changes the count.
  mutex.passes.store(mutex.passes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
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

// Adds one sharer beside those that hold the lock, though others wait. The caller holds the guard,
// so that the last sharer cannot hand the lock over meanwhile.
bool join_guarded(Mutex& mutex) {
  uint64_t value = mutex.word.load(std::memory_order_relaxed);
  while ((value & shared_bit) != 0)
    if (mutex.word.compare_exchange_weak(value, value + 1, std::memory_order_acquire,
                                         std::memory_order_relaxed))
      return true;
  return false;
}

// The guard of a mutex, taken in the caller's way. `ok`: it is held, until this goes.
struct Guarded {
  Guarded(Mutex& mutex, Caller& by) : guard(mutex.guard), caller(by), ok(by.acquire(guard)) {}
  Guarded(const Guarded&) = delete;
  ~Guarded() {
    if (ok) caller.release(guard);
  }
  OwnerWord& guard;
  Caller& caller;
  const bool ok;
};

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
    // Once more: a queue and a bias exclude each other.
    if (is_biased(value)) continue;
    // The record first: once the bit is set, unlock relies on a queue that is not empty. It waits
    // for the guard, but must find somebody.
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
  // A process killed here leaves no record in the queue that is not filled.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (mutex.first == 0) set_first(mutex, record);
  else set_next(pool.at(mutex.last), record);
  mutex.last = record;
  return LockAnswer::queued;
}

// The first waiter wants it for itself, and all that wait can be invited: an acquisition of
// another node takes a round trip, in which newcomers would get thousands.
bool may_open(const Mutex& mutex, const Caller& caller) {
  const WaiterPool& pool = caller.pool;
  if (!pool.has(mutex.first) || shares(pool.at(mutex.first).waiter.holder)) return false;
  uint32_t steps = 0;
  for (uint32_t record = mutex.first; record != 0; record = pool.next_of(record))
    if (!pool.has(record) || ++steps > pool.size() || !caller.invites(pool.at(record).waiter))
      return false;
  return true;
}

// Instead of a hand-over, by an exclusive holder: leaves the mutex open. The first waiter is
// *invited, and must be told. False: it must be handed over, or nobody waits.
bool invite_guarded(Mutex& mutex, Holder holder, const Caller& caller, Waiter* invited) {
  if (shares(holder) || !may_open(mutex, caller)) return false;
  // With the bit it is awake, and the mutex can be left open without the guard.
  if (mutex.word.load(std::memory_order_relaxed) != (holder | queued_bit) || must_hand_over(mutex))
    return false;
  *invited = caller.pool.at(mutex.first).waiter;
  // A store is enough: with queued_bit alone nobody but the holder, and that is the caller, changes
  // the word without the guard.
  mutex.word.store(open_word, std::memory_order_release);
  return true;
}

// The waiters that the next hand-over takes: the first, or all sharers at the queue's head. Behind
// them is record `rest`.
struct Batch {
  uint32_t count = 0;  // 0: the queue is damaged; a mutex with the queued bit has one
  uint32_t rest = 0;
  bool in_reach = true;  // of the caller, all of them
};
Batch next_batch(const Mutex& mutex, const Caller& caller) {
  const WaiterPool& pool = caller.pool;
  Batch batch;
  for (batch.rest = mutex.first; batch.rest != 0; batch.rest = pool.next_of(batch.rest)) {
    if (!pool.has(batch.rest) || batch.count == pool.size()) [[unlikely]]
      return {};
    const Waiter& waiter = pool.at(batch.rest).waiter;
    const bool alone = !shares(waiter.holder);
    if (batch.count > 0 && (alone || !shares(pool.at(mutex.first).waiter.holder))) break;
    ++batch.count;
    batch.in_reach = batch.in_reach && caller.reaches(waiter);
  }
  return batch;
}

// With the queued bit in the word, by its last holder.
void hand_over(Mutex& mutex, const Batch& batch, const WaiterPool& pool) {
  // Acquire: what the sharers before us did, which counted themselves out, goes along with our
  // store.
  (void)mutex.word.load(std::memory_order_acquire);
  const Holder first = pool.at(mutex.first).waiter.holder;
  const bool waits_more = (SKERRY_RULE(hand_over) ? batch.rest : mutex.first) != 0;
  // Release: what the old holder did is visible to the new ones, however they learn of the grant.
  // A store is enough: with the bit set nobody but the holders and we may change the word, and the
  // last holder is the caller.
  mutex.word.store(
      (shares(first) ? shared_bit | batch.count : first) | (waits_more ? queued_bit : 0),
      std::memory_order_release);
  // After the word: should this process die in between, the new holder is found in both (bury), and
  // is never in neither.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (SKERRY_RULE(hand_over)) set_first(mutex, batch.rest);
}

// An invited waiter tries. granted: it has the mutex now, or was handed it meanwhile.
LockAnswer take_guarded(Mutex& mutex, Holder holder, WaiterPool& pool) {
  uint64_t value = mutex.word.load(std::memory_order_acquire);
  if ((value & ~open_word) == holder) return LockAnswer::granted;
  if (value != open_word) return LockAnswer::queued;
  const uint32_t record = mutex.first;
  // The first waiter is the invited one.
  if (!pool.has(record) || pool.at(record).waiter.holder != holder) [[unlikely]]
    return LockAnswer::damaged;
  const uint32_t rest = pool.next_of(record);
  if (rest != 0 && !pool.has(rest)) [[unlikely]]
    return LockAnswer::damaged;
  if (!mutex.word.compare_exchange_strong(value, holder | (rest != 0 ? queued_bit : 0),
                                          std::memory_order_acquire, std::memory_order_relaxed))
    return LockAnswer::queued;  // a newcomer was faster
  set_first(mutex, rest);
  pool.give_back(record);
  return LockAnswer::granted;
}

// It gives up for now, as `waiter`.
LockAnswer rest_guarded(Mutex& mutex, const Waiter& waiter, bool impatient, WaiterPool& pool) {
  for (;;) {
    const LockAnswer taken = take_guarded(mutex, waiter.holder, pool);
    if (taken != LockAnswer::queued) return taken;
    if (!pool.has(mutex.first)) [[unlikely]]
      return LockAnswer::damaged;
    uint64_t value = mutex.word.load(std::memory_order_relaxed);
    if ((value & ~open_word) == 0) continue;
    // Before the bit is gone: the unlocker that finds none reads both.
    pool.at(mutex.first).waiter = waiter;
    if (impatient) mutex.impatient.store(1, std::memory_order_relaxed);
    if (mutex.word.compare_exchange_strong(value, value & ~invited_bit, std::memory_order_relaxed))
      return LockAnswer::queued;
  }
}

bool waits_guarded(const Mutex& mutex, Holder holder, const WaiterPool& pool) {
  uint32_t steps = 0;
  for (uint32_t record = mutex.first; pool.has(record) && steps < pool.size();
       record = pool.next_of(record), ++steps)
    if (pool.at(record).waiter.holder == holder) return true;
  return false;
}

template <class Take>
LockAnswer take_turn(Mutex& mutex, Caller& caller, Take&& take) {
  LockAnswer taken = LockAnswer::no_guard;
  if (const Guarded guarded(mutex, caller); guarded.ok) taken = take();
  if (taken == LockAnswer::granted) caller.record_freed();
  return taken;
}

}  // namespace

// ---- after a death ----------------------------------------------------------------------------

namespace {

// The waiters of a queue that may have been left half changed, without the dead and without one
// that has the mutex already. Records of those are given back.
void clean_queue(Mutex& mutex, WaiterPool& pool, IsDead is_dead, const void* context) {
  const uint32_t first_before = mutex.first;
  const Holder owner = mutex.word.load(std::memory_order_acquire) & ~open_word;
  uint32_t last = 0, steps = 0, behind = 0;
  for (uint32_t record = mutex.first; pool.has(record) && steps < pool.size();
       record = behind, ++steps) {
    behind = pool.next_of(record);
    const Holder waits = pool.at(record).waiter.holder;
    const bool leaves = SKERRY_RULE(dead_leave_queue) && is_dead(context, rank_of(waits));
    if (leaves || waits == owner) {
      if (last == 0) mutex.first = behind;
      else set_next(pool.at(last), behind);
      pool.give_back(record);
      continue;
    }
    last = record;
  }
  // A link behind the last that is no record: cut off.
  if (last == 0) mutex.first = 0;
  else set_next(pool.at(last), 0);
  mutex.last = last;
  if (mutex.first != first_before) set_first(mutex, mutex.first);
}

}  // namespace

// The steps at which a process may have died under the guard, and what is found then:
//   queueing      the bit without a waiter, or the own record linked: the record goes
//   handing over  the word names the new holder, who may be queued still: its record goes
//   inviting      the mutex is open, and the invited sleeps: it is handed over instead
//   taking        the own holder in the word, and the own record
// A holder that was written into the word and not told looks for itself (host/wait.hpp).
bool bury(Mutex& mutex, Caller& caller, IsDead is_dead, const void* context) {
  WaiterPool& pool = caller.pool;
  Waiter next;
  {
    const Guarded guarded(mutex, caller);
    if (!guarded.ok) return false;
    uint64_t value = mutex.word.load(std::memory_order_acquire);
    if ((value & shared_bit) != 0) return true;
    const uint32_t first_before = mutex.first;
    clean_queue(mutex, pool, is_dead, context);
    const bool same_first = mutex.first == first_before && mutex.first != 0;
    // Holders and newcomers change an open word meanwhile.
    for (;;) {
      const Holder owner = value & ~open_word;
      const bool has_died = owner != 0 && SKERRY_RULE(locks_go_on) &&
                            is_dead(context, rank_of(owner));
      if (has_died && SKERRY_RULE(tell_owner_died))
        mutex.died.store(static_cast<uint32_t>(rank_of(owner)) + 1, std::memory_order_relaxed);
      uint64_t wanted = 0;
      const bool hands_over = mutex.first != 0 && (owner == 0 || has_died);
      if (hands_over) {
        const uint32_t rest = pool.next_of(mutex.first);
        wanted = pool.at(mutex.first).waiter.holder | (rest != 0 ? queued_bit : 0);
      } else if (owner != 0 && !has_died) {
        wanted = owner | (mutex.first != 0 ? queued_bit : 0) |
                 (same_first ? value & invited_bit : 0);
      }
      if (!mutex.word.compare_exchange_strong(value, wanted, std::memory_order_acq_rel,
                                              std::memory_order_acquire))
        continue;
      if (!hands_over) return true;
      const uint32_t record = mutex.first;
      next = pool.at(record).waiter;
      set_first(mutex, pool.next_of(record));
      pool.give_back(record);
      break;
    }
  }
  caller.tell(next);
  caller.record_freed();
  return true;
}

// ---- with a guard that the caller takes --------------------------------------------------------

LockAnswer request(Mutex& mutex, const Waiter& waiter, Caller& caller) {
  const LockAnswer quick = try_lock(mutex, waiter.holder);
  if (quick != LockAnswer::contended) return quick;
  const uint32_t given_back = caller.pool.freed().load(std::memory_order_relaxed);
  LockAnswer answer = LockAnswer::no_guard;
  if (const Guarded guarded(mutex, caller); guarded.ok)
    answer = lock_guarded(mutex, waiter, caller.pool);
  // It may have taken a record, and needed none after all.
  if (answer == LockAnswer::granted &&
      caller.pool.freed().load(std::memory_order_relaxed) != given_back)
    caller.record_freed();
  return answer;
}

UnlockAnswer release(Mutex& mutex, Holder holder, Caller& caller) {
  UnlockAnswer quick = try_unlock(mutex, holder);
  if (quick != UnlockAnswer::contended) return quick;
  WaiterPool& pool = caller.pool;
  Waiter next;
  Batch batch;
  uint32_t record = 0;
  {
    const Guarded guarded(mutex, caller);
    if (!guarded.ok) return UnlockAnswer::no_guard;
    // Other sharers may have come or gone meanwhile.
    quick = try_unlock(mutex, holder);
    if (quick != UnlockAnswer::contended) return quick;
    if (!invite_guarded(mutex, holder, caller, &next)) {
      // Under the guard the queue stays as it is: those that are first now get the mutex.
      batch = next_batch(mutex, caller);
      if (batch.count == 0) [[unlikely]]
        return UnlockAnswer::damaged;
      if (!batch.in_reach) return UnlockAnswer::out_of_reach;
      record = mutex.first;
      hand_over(mutex, batch, pool);
    }
  }
  if (batch.count == 0) {
    caller.tell(next);
    return UnlockAnswer::released;
  }
  // Their records left the queue and are ours. Each is given back before its waiter is told, which
  // may ask again at once.
  while (batch.count-- > 0 && pool.has(record)) {
    next = pool.at(record).waiter;
    const uint32_t behind = pool.next_of(record);
    pool.give_back(record);
    caller.tell(next);
    if (!SKERRY_RULE(tell_the_batch)) break;
    record = behind;
  }
  caller.record_freed();
  return UnlockAnswer::released;
}

LockAnswer try_turn(Mutex& mutex, Holder holder, Caller& caller) {
  const uint64_t owner = mutex.word.load(std::memory_order_acquire) & ~open_word;
  if (owner == holder) return LockAnswer::granted;  // handed over
  if (owner != 0) return LockAnswer::queued;
  return take_turn(mutex, caller, [&] { return take_guarded(mutex, holder, caller.pool); });
}

LockAnswer rest(Mutex& mutex, const Waiter& waiter, bool impatient, Caller& caller) {
  return take_turn(mutex, caller,
                   [&] { return rest_guarded(mutex, waiter, impatient, caller.pool); });
}

LockAnswer holds(Mutex& mutex, Holder holder, Caller& caller) {
  if (!shares(holder))
    return (mutex.word.load(std::memory_order_acquire) & ~open_word) == holder ? LockAnswer::granted
                                                                               : LockAnswer::queued;
  // The word does not name its sharers. One that asked, and does not wait, has it.
  const Guarded guarded(mutex, caller);
  if (!guarded.ok) return LockAnswer::no_guard;
  return SKERRY_RULE(sharers_may_wait) && waits_guarded(mutex, holder, caller.pool)
             ? LockAnswer::queued
             : LockAnswer::granted;
}

}  // namespace skerry::lock
