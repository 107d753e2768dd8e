// The journey of a lock, for the fair queue:
//
//   asked        a rank of the lock's node tries the word itself (job/mutexes.cpp); one of another
//     |          node sends a request, and its data server asks in its name (host/locks.cpp)
//     |-> taken  the word was free: one compare-and-swap (try_lock)
//   queued       a record stands in the mutex's queue, the word has its queued bit (lock_guarded);
//     |          without a record or the guard a server keeps the request and tries again
//     |          (Locks::retry), a rank sleeps until a record is free (host/wait.hpp)
//   granted      release() picks the next holder under the guard and writes it into the word
//     |          (unlock_guarded); or leaves the mutex open and invites the first waiter
//   told         Caller::tell, without the guard: fills the waiter's completion slot if it is of
//     |          this node (memory/slots.hpp); Server::grant answers one of another node
//   taken        the waiter wakes and has it; an invited one tries for it (try_turn) or sleeps
//     |          again (rest)
//   passed on    its unlock is release() again. If the next waiter is out of a rank's reach, the
//                node's data server releases in the rank's name (Release::out_of_reach)
//
//   lost connection   a request or its grant was lost: after the break the origin asks again, and
//                     holds() says whether it was granted meanwhile. A grant to a rank without a
//                     connection goes through its own node's server (server/relay.cpp)
//   dead holder       nobody hands over any more, and the job ends (job/deaths.cpp), or its
//                     survivors are told; every wait here ends with it. A death under the guard is
//                     found by the next that wants the guard (no_guard)
//
// Where a lock of the fair queue is granted; machines have their own (machine.hpp). A rank that
// asks for a lock of its own node and the data server that asks for a rank of another node call the
// same functions; what differs between them is the Caller that they bring.
//
// Pure: nothing here waits, wakes or sends by itself.
#pragma once

#include "lock/mutex.hpp"

namespace skerry::lock {

// What a protocol needs from its driver: a rank or the data server.
class Caller {
 public:
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
  // Can it invite `waiter`: is that one of the lock's node, that calls Protocol::try_turn when it
  // is told?
  virtual bool invites(const Waiter& waiter) const = 0;
  // A waiter's record was given back: requesters that sleep for one may look again. Called
  // without the guard.
  virtual void record_freed() = 0;
};

enum class Request : uint8_t {
  granted,
  queued,     // Caller::tell will say when to look, whichever process unlocks. Requesters that
              // Caller::invites allows, and do not share, then call try_turn; others have it
  recursive,  // error: this holder has it already
  no_record,  // nothing was changed: there is no record for one more waiter. Ask again
  no_guard,   // nothing was changed: Caller::acquire said no
  damaged,    // error: somebody wrote over the lock's memory; nothing was changed
};

enum class Release : uint8_t {
  released,      // free, still shared by others, or handed to the next waiters, which were told,
                 // or open for the next waiter, which was told, and for newcomers
  out_of_reach,  // nothing was changed: among the next waiters is one that only the lock's data
                 // server can tell. It must release the lock in this holder's name
  not_holder,    // error: this holder does not have it
  no_guard,      // nothing was changed: Caller::acquire said no
  damaged,       // error: somebody wrote over the lock's memory; nothing was changed
};

enum class Holds : uint8_t { no, yes, no_guard };

enum class Turn : uint8_t {
  granted,
  not_yet,   // others were faster
  no_guard,  // nothing was changed: Caller::acquire said no
  damaged,   // error: somebody wrote over the lock's memory
};

class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual Request request(Mutex& mutex, const Waiter& waiter, WaiterPool& pool,
                          Caller& caller) const = 0;
  virtual Release release(Mutex& mutex, Holder holder, WaiterPool& pool, Caller& caller) const = 0;
  // A waiter of the lock's node that was told tries to get it, as often as it likes.
  virtual Turn try_turn(Mutex& mutex, Holder holder, WaiterPool& pool, Caller& caller) const = 0;
  // It did not, and sleeps again: `waiter` names the new use of its slot. not_yet: it will be told.
  // `impatient`: then it has the lock.
  virtual Turn rest(Mutex& mutex, const Waiter& waiter, bool impatient, WaiterPool& pool,
                    Caller& caller) const = 0;
  // Has a request that was queued been granted meanwhile? Asked of one that was not released since.
  virtual Holds holds(Mutex& mutex, Holder holder, WaiterPool& pool, Caller& caller) const = 0;
};

// First come, first served, handed over directly (mutex.hpp).
const Protocol& fair_queue();

}  // namespace skerry::lock
