// Mutexes with a fair queue and direct hand-over, as events on shared memory: (state, request) to
// (state, answer). One holder may have it for itself, or several may share it. Nothing here waits,
// wakes or sends. A rank asks for a lock of its own node, and the data server for ranks of other
// nodes. Both call the same functions; what differs between them is the Caller that they bring. The
// journey of a lock:
//
//   asked        a rank of the lock's node tries the word itself (job/mutexes.cpp); one of another
//     |          node sends a request, and its data server asks in its name (host/requests.cpp). A
//     |          short epoch of a window first asks without queueing (Applier::locked)
//     |-> taken  the word was free: one compare-and-swap (try_lock)
//   queued       a record stands in the mutex's queue, the word has its queued bit (request);
//     |          without a record or the guard a server keeps the request and tries again
//     |          (LockRequests::retry), a rank sleeps until a record is free (host/wait.hpp)
//   granted      release() picks the next holder under the guard and writes it into the word; or
//     |          leaves the mutex open and invites the first waiter
//   told         Caller::tell, without the guard: fills the waiter's completion slot if it is of
//     |          this node (memory/slots.hpp); Server::grant (server/apply_locks.cpp) answers one
//     of |          another node
//   taken        the waiter wakes and has it; an invited one tries for it (try_turn) or sleeps
//     |          again (rest)
//   passed on    its unlock is release() again. If the next waiter is out of a rank's reach, the
//                node's data server releases in the rank's name (UnlockAnswer::out_of_reach)
//
//   lost connection   a request or its grant was lost: after the break the origin asks again, and
//                     holds() says whether it was granted meanwhile. A grant to a rank without a
//                     connection goes through its own node's server (server/relay.cpp)
//   dead holder       nobody hands over any more, and the job ends (job/deaths.cpp), or its
//                     survivors are told; every wait here ends with it. A death under the guard is
//                     found by the next that wants the guard (no_guard): it names its owner
//                     (core/owner_lock.hpp). In a job that goes on without its dead the node's data
//                     server takes them out of every mutex (bury), and the next holder learns of
//                     it (take_death)
//
// Without contention the word alone decides: one compare-and-swap to lock, one to unlock. With
// contention the word carries `queued_bit`, and then only the holder of the guard changes it. A
// newcomer's compare-and-swap expects 0 (or sharers and no bit), an unlocker's expects its holder
// without the bit. Unlock hands the mutex to the first waiter, and it is never free in between. One
// exception: of several sharers, all but the last count themselves out of a word with the bit
// without the guard. The guard's holder never changes a word that has several sharers, but by
// atomic operations on its bit.
//
// To hand over to a sleeper costs a wake-up each time. So an unlocker may *invite* the first waiter
// instead, if that looks at the word itself (a rank of the mutex's node) and wants it for exclusive
// use. The word then carries `invited_bit` beside `queued_bit`. While it does, the mutex may be
// free (`open_word`), exclusive newcomers may pass the queue, and holders unlock by a
// compare-and-swap. The invited waiter is awake and tries, too. If it does not succeed, it takes
// the bit away with the guard and sleeps again, so no wake-up is lost. Bounded: after `most_passes`
// newcomers, or when the waiter says that it has waited too long, an unlock hands over again
// (docs/design/0036-bounded-passing.md).
//
// Sharers and exclusive holders take turns as the queue has them. A sharer never overtakes a
// waiter, and a hand-over to a sharer takes along those that stand directly behind it. So a waiter
// for exclusive use waits for one batch of sharers at most. One exception: a sharer with
// `joins_bit` holds other locks already. It joins present sharers though others wait, so that
// requesters that share several locks never wait for each other
// (docs/design/0028-sharers-that-join.md).
//
// A process that may write to the mutex's memory can write nonsense. A record number that the pool
// does not have, or a queue without an end, is answered `damaged`. That is an error of the request,
// not a crash of the process that serves others.
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
  std::atomic<uint32_t> died;  // bury: 1 + the rank that died as its holder; the next holder: 0
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
  WaiterRecord& at(uint32_t record) const { return records_[record]; }
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

// `no_guard`, `no_record` and the errors: nothing was changed.
enum class LockAnswer : uint8_t {
  granted,
  queued,     // Caller::tell will say when to look, whichever process unlocks. Requesters that
              // Caller::invites allows, and do not share, then call try_turn; others have it
  contended,  // without the guard alone: it is held
  recursive,  // error: this holder has it already
  no_record,  // there is no record for one more waiter. Ask again
  no_guard,   // Caller::acquire said no
  damaged,    // error: somebody wrote over the lock's memory, see above
};

enum class UnlockAnswer : uint8_t {
  released,      // free, still shared by others, or handed to the next waiters, which were told,
                 // or open for the next waiter, which was told, and for newcomers
  contended,     // without the guard alone: somebody waits; nothing was changed
  out_of_reach,  // nothing was changed: among the next waiters is one that only the lock's data
                 // server can tell. It must release the lock in this holder's name
  not_holder,    // error: this holder does not have it
  no_guard,
  damaged,
};

// Who asks: a rank or a data server.
class Caller {
 public:
  explicit Caller(const WaiterPool& records) : pool(records) {}
  virtual ~Caller() = default;
  // Takes the guard in the caller's way: a rank sleeps for it, a data server tries once. False: not
  // now (busy, its owner died, or the job is ending).
  virtual bool acquire(OwnerWord& guard) = 0;
  virtual void release(OwnerWord& guard) = 0;
  // Can this caller tell `waiter` that the lock is its own now? A data server reaches everybody, a
  // rank those of its own node.
  virtual bool reaches(const Waiter& waiter) const = 0;
  // Tells it. Called without the guard.
  virtual void tell(const Waiter& waiter) = 0;
  // Can it invite `waiter`: is that one of the lock's node, that calls try_turn when it is told?
  virtual bool invites(const Waiter& waiter) const = 0;
  // A waiter's record was given back: requesters that sleep for one may look again. Called
  // without the guard.
  virtual void record_freed() = 0;

  WaiterPool pool;  // of the lock's node
};

// ---- with a guard that the caller takes ----
LockAnswer request(Mutex& mutex, const Waiter& waiter, Caller& caller);  // never contended
UnlockAnswer release(Mutex& mutex, Holder holder, Caller& caller);       // never contended
// A waiter of the lock's node that was told tries to get it, as often as it likes: granted, queued
// (others were faster), no_guard, damaged.
LockAnswer try_turn(Mutex& mutex, Holder holder, Caller& caller);
// It did not get it, and sleeps again: `waiter` names the new use of its slot. queued: the next
// unlock invites it again, or hands over if it is `impatient`. Otherwise as try_turn.
LockAnswer rest(Mutex& mutex, const Waiter& waiter, bool impatient, Caller& caller);
// Has a request that was queued been granted meanwhile? Asked of one that was not released since:
// granted, queued, no_guard.
LockAnswer holds(Mutex& mutex, Holder holder, Caller& caller);

// Takes ranks that died out of the mutex: out of its queue, and as its holder. Then the next waiter
// gets it and is told, or it is free. The caller's acquire takes over a guard whose owner died, at
// whatever step of a change that was; for these steps see bury in mutex.cpp. The dead hold nothing
// in common with others: a mutex with sharers is left as it is. False: no guard.
using IsDead = bool (*)(const void* context, Rank rank);
bool bury(Mutex& mutex, Caller& caller, IsDead is_dead, const void* context);
// Of a holder, once: the rank that died while it held the mutex before; no_rank: none did.
inline Rank take_death(Mutex& mutex) {
  return static_cast<Rank>(mutex.died.exchange(0, std::memory_order_relaxed)) - 1;
}

// ---- without the guard: any thread, at most one compare-and-swap that succeeds ----

// A word with sharers does not say who they are. It cannot tell that one of them asks again, or
// that an unlocker is none of them. Who tries one of these has most often failed at the shortest
// way below, so it looks first: a compare-and-swap that fails takes the line from the holder.
LockAnswer try_share(Mutex& mutex, Holder holder, bool* others = nullptr);  // *others: there are
bool pass_queue(Mutex& mutex, Holder holder);  // of an open word; it may change meanwhile
bool leave_open(Mutex& mutex, Holder holder);  // the mutex, whose first waiter is invited
UnlockAnswer try_unshare(Mutex& mutex);
inline LockAnswer try_lock(Mutex& mutex, Holder holder) {  // granted, contended, recursive
  if (shares(holder)) return try_share(mutex, holder);
  uint64_t value = mutex.word.load(std::memory_order_relaxed);
  if (value == 0 && mutex.word.compare_exchange_strong(value, holder, std::memory_order_acquire,
                                                       std::memory_order_relaxed))
    return LockAnswer::granted;
  if (value == open_word && pass_queue(mutex, holder)) return LockAnswer::granted;
  return (value & ~open_word) == holder ? LockAnswer::recursive : LockAnswer::contended;
}
inline UnlockAnswer try_unlock(Mutex& mutex,
                               Holder holder) {  // released, contended, not_holder
  if (shares(holder)) return try_unshare(mutex);
  uint64_t value = mutex.word.load(std::memory_order_relaxed);
  if (value == holder && mutex.word.compare_exchange_strong(value, 0, std::memory_order_release,
                                                            std::memory_order_relaxed))
    return UnlockAnswer::released;
  if (value == (holder | open_word) && leave_open(mutex, holder)) return UnlockAnswer::released;
  return (value & ~open_word) == holder ? UnlockAnswer::contended : UnlockAnswer::not_holder;
}

// The most frequent case of both for an exclusive holder, without any call. The word that it met:
// 0, it is locked now; `holder`, it is unlocked; others, nothing has happened. Only the holder
// looks first: it has the word's line.
inline uint64_t lock_if_free(Mutex& mutex, Holder holder) {
  uint64_t met = 0;
  mutex.word.compare_exchange_strong(met, holder, std::memory_order_acquire,
                                     std::memory_order_relaxed);
  return met;
}
inline uint64_t unlock_unasked(Mutex& mutex, Holder holder) {
  uint64_t met = mutex.word.load(std::memory_order_relaxed);
  if (met == holder)
    mutex.word.compare_exchange_strong(met, 0, std::memory_order_release,
                                       std::memory_order_relaxed);
  return met;
}

}  // namespace skerry::lock
