// Mutexes with a fair queue and direct hand-over, as events on shared memory: (state, request) to
// (state, answer). One holder may have it for itself, or several may share it. Nothing here waits,
// wakes or sends; callers act on the answers. All memory is zeroed to begin with, and zero means
// free.
//
// Without contention the word alone decides: one compare-and-swap to lock, one to unlock. With
// contention the word carries `queued_bit`, and then only the holder of the guard changes it: a
// newcomer's compare-and-swap expects 0 (or sharers and no bit), an unlocker's expects its holder
// without the bit. Unlock hands the mutex to the first waiter, and it is never free in between. One
// exception: of several sharers, all but the last count themselves out of a word with the bit
// without the guard. The guard's holder never changes a word that has several sharers, but by
// atomic operations on its bit.
//
// To hand over to a sleeper costs a wake-up each time. So an unlocker may *invite* the first waiter
// instead, if that is one that looks at the word itself (a rank of the mutex's node) and wants it
// for exclusive use. The word then carries `invited_bit` beside `queued_bit`. While it does, the
// mutex may be free (`open_word`), exclusive newcomers may pass the queue, and holders unlock by a
// compare-and-swap. The invited waiter is awake and tries, too. If it does not succeed, it takes
// the bit away with the guard and sleeps again, so no wake-up is lost. Bounded: after `most_passes`
// newcomers, or when the waiter says that it has waited too long, an unlock hands over again
// (docs/design/0036-bounded-passing.md).
//
// Sharers and exclusive holders take turns as the queue has them: a sharer never overtakes a
// waiter, and a hand-over to a sharer takes along those that stand directly behind it. So a waiter
// for exclusive use waits for one batch of sharers at most. One exception: a sharer with
// `joins_bit` holds other locks already. It joins present sharers, whoever waits, so that
// requesters that share several locks never wait for each other
// (docs/design/0028-sharers-that-join.md).
//
// Whoever may write to the mutex's memory can write nonsense. A record number that the pool does
// not have, or a queue without an end, is answered `damaged`: an error of the request, not a crash
// of the process that serves others.
//
// The guard is held for a few dozen instructions; it names its owner, so that a death inside is
// found (core/owner_lock.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/pure/ids.hpp"
#include "core/pure/owner_word.hpp"
#include "lock/readers.hpp"

namespace skerry::lock {

constexpr uint64_t queued_bit = uint64_t{1} << 63;        // in the word
constexpr uint64_t shared_bit = uint64_t{1} << 62;        // in the word and in a Holder
constexpr uint64_t invited_bit = uint64_t{1} << 31;       // in the word, see above
constexpr uint64_t open_word = queued_bit | invited_bit;  // free, and the first waiter tries
// In the word, beside shared_bit and a count that may be 0: more may share it (readers.hpp). Never
// with queued_bit. Without shared_bit it is one of a Holder's rank.
constexpr uint64_t biased_bit = uint64_t{1} << 40;
constexpr bool is_biased(uint64_t word) {
  return (word & (shared_bit | biased_bit)) == (shared_bit | biased_bit);
}
constexpr uint64_t joins_bit = uint64_t{1} << 31;  // in a Holder that asks to share, see above

// One holder or waiter: its rank, a number that tells the threads of that rank apart, and
// `shared_bit` if it shares the lock or asks to. Never 0.
using Holder = uint64_t;
constexpr Rank most_holder_ranks = 0x3fff'ffff;
constexpr uint32_t most_holder_thread = 0x7fff'ffff;
constexpr Holder make_holder(Rank rank, uint32_t thread) {
  return ((static_cast<uint64_t>(static_cast<uint32_t>(rank)) + 1) << 32) |
         (thread & most_holder_thread);
}
constexpr Rank rank_of(Holder holder) {
  return static_cast<Rank>(((holder >> 32) & 0x3fff'ffff) - 1);
}
constexpr uint32_t thread_of(Holder holder) {
  return static_cast<uint32_t>(holder) & most_holder_thread;
}
constexpr bool shares(Holder holder) { return (holder & shared_bit) != 0; }
constexpr bool joins(Holder holder) { return (holder & joins_bit) != 0; }
// The same requester, however it asks.
constexpr bool same_requester(Holder a, Holder b) {
  return ((a ^ b) & ~(shared_bit | joins_bit)) == 0;
}

struct Waiter {
  Holder holder = 0;
  uint64_t reply[2] =
      {};  // where its grant goes (rank and slot, tag); means something to the caller only
};
// The grant goes to completion slot `slot` (1, 2, ...) of `rank`, in its use `tag`.
constexpr Waiter make_waiter(Holder holder, Rank rank, uint32_t slot, uint32_t tag) {
  return {holder, {static_cast<uint64_t>(static_cast<uint32_t>(rank)) << 32 | slot, tag}};
}
constexpr uint32_t slot_of(const Waiter& waiter) { return static_cast<uint32_t>(waiter.reply[0]); }
constexpr uint32_t tag_of(const Waiter& waiter) { return static_cast<uint32_t>(waiter.reply[1]); }

struct alignas(64) Mutex {
  std::atomic<uint64_t> word;  // 0 or open_word: free; otherwise the Holder, or shared_bit and the
                               // number of sharers; with queued_bit if a waiter is queued. Lockers,
                               // unlockers; see above
  OwnerWord guard;  // owner: member index of the node that hosts the mutex (its data server acts as
                    // its process)
  uint32_t first;   // guard's holder: record of the first waiter; 0: none
  uint32_t last;    // guard's holder: record of the last waiter; meaningful if first is not 0
  std::atomic<uint32_t> passes;  // how many newcomers passed the first waiter. Such a newcomer, as
                                 // it holds the mutex; the guard's holder when another is first
  std::atomic<uint32_t> impatient;    // guard's holder: 1: the first waiter waited too long
  std::atomic<uint32_t> met_sharers;  // sharers: how many met others; revokers of the bias: 0
  std::atomic<uint64_t> name;         // the first that biases it: its name among the node's locks,
                                      // never changed again; 0: none
};
static_assert(sizeof(Mutex) == 64);

// How many newcomers may pass a first waiter that was invited. At 60 ns each they take less than
// what the waiter bears by itself (host/wait.hpp); a simulation can reach its own limit.
#ifdef SKERRY_SIMULATED
constexpr uint32_t most_passes = 1;
#else
constexpr uint32_t most_passes = 10'000;
#endif

// Records of waiters, shared by all mutexes of a node. Bounded: when it is exhausted a request is
// answered `no_record`; a server then keeps the request itself, a local caller sleeps on `freed`.
// (Fairness holds among those that have a record.)
struct alignas(32) WaiterRecord {
  Waiter waiter;  // the holder that took the record
  // guard's holder: next in the mutex's queue; 0: last. While free: next free record.
  uint32_t next;
  uint32_t reserved;  // 0
};
constexpr uint64_t waiter_record_bytes = 32;
static_assert(sizeof(WaiterRecord) == waiter_record_bytes);

class WaiterPool {
 public:
  // `memory`: (records + 1) x waiter_record_bytes, zeroed when new, 32-byte aligned, shared by all
  // processes that use the mutexes. `lines`: what the same processes share by flags.
  WaiterPool(std::byte* memory, uint32_t records, const ReaderLines& lines = {})
      : head_(reinterpret_cast<Head*>(memory)),
        records_(reinterpret_cast<WaiterRecord*>(memory)),
        count_(records),
        lines_(lines) {}
  const ReaderLines& lines() const { return lines_; }

  uint32_t take();  // 0: exhausted; one that the pool does not have: its list is damaged
  void give_back(uint32_t record);
  bool has(uint32_t record) const { return record - 1 < count_; }  // 0: no
  uint32_t size() const { return count_; }
  WaiterRecord& at(uint32_t record) { return records_[record]; }
  // Of a record in a mutex's queue: the one behind it, 0 at the end. With that mutex's guard.
  uint32_t next_of(uint32_t record) const {
    return __atomic_load_n(&records_[record].next, __ATOMIC_RELAXED);
  }

  // Counts records given back: a futex word for requesters that got `no_record`. They add
  // themselves to `starving` before they look again. The process that gave a record back wakes the
  // word if starving is not 0.
  std::atomic<uint32_t>& freed() { return head_->freed; }
  std::atomic<uint32_t>& starving() { return head_->starving; }

 private:
  struct Head {                       // lies in the place of record 0
    std::atomic<uint64_t> free_list;  // takers and givers: changes << 32 | first free record (0:
                                      // none); the count prevents ABA
    // takers: records 1..ever_used were taken at least once; the rest is fresh.
    std::atomic<uint32_t> ever_used;
    std::atomic<uint32_t> freed;     // givers
    std::atomic<uint32_t> starving;  // requesters that wait for a record
  };
  static_assert(sizeof(Head) <= waiter_record_bytes);

  Head* head_;
  WaiterRecord* records_;
  uint32_t count_;
  ReaderLines lines_;
};

enum class LockAnswer : uint8_t {
  granted,
  queued,        // the grant comes to Waiter::reply
  recursive,     // error: this holder has it already
  no_record,     // the pool is exhausted: try again later
  contended,     // try_lock only: it is held; nothing was changed
  guard_failed,  // with a guard that gave up (owner dead, job ending, or busy and the caller
                 // must not wait): nothing was changed
  damaged,       // error: its queue names no record, see above; nothing was changed
};

enum class UnlockAnswer : uint8_t {
  released,
  handed_over,  // the waiters in *handed hold it now: tell them
  not_holder,   // error: the caller does not hold it
  contended,    // try_unlock only: somebody waits; nothing was changed
  guard_failed,
  damaged,
};

// Waiters that were handed the mutex. Their records left the queue and are the caller's, which
// takes one after the other; each is given back as it is taken.
class Handed {
 public:
  bool next(WaiterPool& pool, Waiter* waiter);

 private:
  friend UnlockAnswer unlock_guarded(Mutex&, Holder, WaiterPool&, Handed*);
  uint32_t record_ = 0;  // of the next one
  uint32_t left_ = 0;
};

// ---- without the guard: any thread, one compare-and-swap (sharers: one that succeeds) ----
// A word with sharers does not say who they are: it cannot tell that one of them asks again, or
// that an unlocker is none of them.
LockAnswer try_share(Mutex& mutex, Holder holder, bool* others = nullptr);  // *others: there are
bool pass_queue(Mutex& mutex, Holder holder);  // of an open word; it may change meanwhile
bool leave_open(Mutex& mutex, Holder holder);  // the mutex, whose first waiter is invited
UnlockAnswer try_unshare(Mutex& mutex);
inline LockAnswer try_lock(Mutex& mutex, Holder holder) {  // granted, contended, recursive
  if (shares(holder)) return try_share(mutex, holder);
  uint64_t value = 0;
  if (mutex.word.compare_exchange_strong(value, holder, std::memory_order_acquire,
                                         std::memory_order_relaxed)) [[likely]]
    return LockAnswer::granted;
  if (value == open_word && pass_queue(mutex, holder)) return LockAnswer::granted;
  return (value & ~open_word) == holder ? LockAnswer::recursive : LockAnswer::contended;
}
inline UnlockAnswer try_unlock(Mutex& mutex,
                               Holder holder) {  // released, contended, not_holder
  if (shares(holder)) return try_unshare(mutex);
  uint64_t value = holder;
  if (mutex.word.compare_exchange_strong(value, 0, std::memory_order_release,
                                         std::memory_order_relaxed)) [[likely]]
    return UnlockAnswer::released;
  if (value == (holder | open_word) && leave_open(mutex, holder)) return UnlockAnswer::released;
  return (value & ~open_word) == holder ? UnlockAnswer::contended : UnlockAnswer::not_holder;
}

// The most frequent case of both for an exclusive holder, without any call.
inline bool lock_free(Mutex& mutex, Holder holder) {
  uint64_t value = 0;
  return mutex.word.compare_exchange_strong(value, holder, std::memory_order_acquire,
                                            std::memory_order_relaxed);
}
inline bool unlock_unasked(Mutex& mutex, Holder holder) {
  return mutex.word.compare_exchange_strong(holder, 0, std::memory_order_release,
                                            std::memory_order_relaxed);
}

// ---- with the guard held ----
LockAnswer lock_guarded(Mutex& mutex, const Waiter& waiter,
                        WaiterPool& pool);  // granted, queued, recursive, no_record, damaged
// How many waiters the next hand-over takes: 1, or all sharers at the queue's head. 0: nobody
// waits.
constexpr uint32_t damaged_batch = UINT32_MAX;  // the queue is damaged
uint32_t next_batch(const Mutex& mutex, WaiterPool& pool);
UnlockAnswer unlock_guarded(Mutex& mutex, Holder holder, WaiterPool& pool,
                            Handed* handed);  // released, handed_over, not_holder, damaged
// Instead of a hand-over, by an exclusive holder: leaves the mutex open. The first waiter is
// *invited, and must be told. False: it must be handed over, or nobody waits.
bool invite_guarded(Mutex& mutex, Holder holder, WaiterPool& pool, Waiter* invited);
// An invited waiter tries. Yes: it has the mutex now, or was handed it meanwhile.
enum class Take : uint8_t { no, yes, damaged };
Take take_guarded(Mutex& mutex, Holder holder, WaiterPool& pool);
// It gives up for now, as `waiter` (a new use of its slot); the next unlock invites it again, or
// hands over if it is `impatient`. Yes: it has the mutex after all.
Take rest_guarded(Mutex& mutex, const Waiter& waiter, bool impatient, WaiterPool& pool);
// Does it wait in the queue?
bool waits_guarded(const Mutex& mutex, Holder holder, WaiterPool& pool);
// ---- both in one ----
// guard.acquire(OwnerWord&) -> bool takes the guard in the caller's way (sleeping, or one attempt);
// guard.release(OwnerWord&) gives it back.
template <class Guard>
LockAnswer lock_request(Mutex& mutex, const Waiter& waiter, WaiterPool& pool, Guard&& guard) {
  const LockAnswer quick = try_lock(mutex, waiter.holder);
  if (quick != LockAnswer::contended) return quick;
  if (!guard.acquire(mutex.guard)) return LockAnswer::guard_failed;
  const LockAnswer answer = lock_guarded(mutex, waiter, pool);
  guard.release(mutex.guard);
  return answer;
}

}  // namespace skerry::lock
