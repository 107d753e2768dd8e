// The locks of a window under one of the machine protocols (SKERRY_LOCK): the driver of src/lock's
// machines in a job. One lock for each member. Memory: a slice of lock::machine::Home for each, in
// a segment.
//
// Who does what:
// - A requester's machine runs in its own process. Words of its own node it changes by the
//   processor; words of other nodes the data server there changes for it (a read-modify-write,
//   which is an atomic of the processor as well: everything is coherent).
// - A message to a requester is an addition to a word of its mail, by a notification: it wakes the
//   recipient, which sleeps on that word.
// - A manager lies in the memory of the lock's node. A requester of that node runs its steps
//   itself, under a guard; for one of another node the data server runs them and answers with the
//   messages to send. The requester whose message caused them sends them, in both cases. So no
//   server sends anything by itself, and the lock's owner is never needed.
// - A manager that pauses is let go on by those that wait for it: a waiter looks again after a
//   pause of its own. Only `migrating` has such a manager.
//
// Messages are ordinary requests: each takes effect once, over breaks and closed connections.
#pragma once

#include <cstdint>
#include <memory>

#include "job/group.hpp"
#include "job/segment.hpp"
#include "lock/choice.hpp"
#include "lock/home.hpp"

namespace skerry::window {

class MachineLock;

class MachineLocks {
 public:
  // Collective over the group; all members have the same choice, of a protocol with machines.
  static Status create(job::Group& group, const lock::Choice& choice,
                       std::unique_ptr<MachineLocks>* locks);
  // This rank's requester of a member's lock.
  std::unique_ptr<MachineLock> requester_of(Rank rank) const;
  job::Segment& segment() const { return *segment_; }

 private:
  friend class MachineLock;
  job::Job* job_ = nullptr;
  job::Group* group_ = nullptr;
  job::Segment* segment_ = nullptr;
  const lock::machine::Machines* machines_ = nullptr;
  lock::machine::Config config_;
  lock::machine::Home mine_;     // this rank's slice: its mail
  lock::machine::Home on_node_;  // of the lowest member of this node: cohorts' tails
};

// One at a time: a lock belongs to the rank, and a thread that finds it held is told so before.
class MachineLock {
 public:
  MachineLock(const MachineLocks& locks, Rank rank);
  // Blocks until it is held. Errors: those of the job's end; it is then unusable.
  Status lock(bool shared);
  Status unlock();
  // Does giving it back send messages to ranks of other nodes than the lock's? Then whatever was
  // done under it must have taken effect before.
  bool tells_directly() const;

 private:
  using Action = lock::machine::Action;
  using Event = lock::machine::Event;

  Status drive(Event event);
  Status perform(const Action& action, uint64_t* before);
  Status ask(const Action& action);
  Status ask_here(const Event& event, lock::machine::Rest* rest);
  Status ask_there(const Event& event, lock::machine::Rest* rest);
  Status tell(const lock::machine::Tell& tell);
  Status pause(const Action& action);
  Status await(Event* event);
  Status sleep(int64_t longest_ns);
  bool take_mail(Event* event);
  uint64_t random();

  const MachineLocks& locks_;
  const Rank rank_;       // whose lock
  const uint32_t index_;  // its number among the group's locks
  const lock::machine::Requester me_;
  const lock::machine::Home home_;  // of the lock; null: on another node
  lock::machine::SharingClient client_;
  lock::machine::Mail mail_;  // taken out of memory and not delivered yet
  uint8_t attempt_ = 0;       // await: looks at a manager that may pause
  uint64_t random_ = 0;
  Status broken_;  // not ok: it failed in the middle of something
};

}  // namespace skerry::window
