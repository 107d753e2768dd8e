// The locks of a window under one of the machine protocols (SKERRY_LOCK): the driver of src/lock's
// machines in a job. One lock for each member. Memory: a slice of lock::machine::Home for each, in
// a segment.
//
// A requester's machine runs in its own process. Words of its own node it changes by the processor.
// Words of other nodes the data server there changes for it, by a read-modify-write, which is an
// atomic of the processor as well: everything is coherent.
//
// Where the adapters of all members have atomics `migrating` runs in the domain `nic`. The adapter
// alone changes words with the label `network`, those of the own node through its loopback. Data
// servers run managers, and count sharers.
//
// Messages to requesters and the manager: docs/design/0025-lock-protocols.md. A manager that pauses
// is let go on by those that wait for it: a waiter looks again after a pause of its own. Each
// message is an ordinary request: it takes effect once, over breaks and closed connections.
//
// Protocols that grant one requester at a time get shared holders by a count beside their own lock.
// Exclusive: takes that lock, then waits until the count is 0. Shared: takes it, counts itself in,
// gives it back; holds by its count, and counts itself out in the end. A waiting exclusive
// requester has the protocol's lock, so later sharers stand behind it and it cannot starve. (The
// oldest readers-writers solution: Courtois, Heymans, Parnas, CACM 1971, with the writer inside the
// turnstile.) A protocol may know from its own words that nobody is counted in. Then the count is
// not looked at, which by the adapter would take as long as the lock.
#pragma once

#include <cstdint>
#include <memory>
#include <random>

#include "job/group.hpp"
#include "job/segment.hpp"
#include "lock/asking.hpp"
#include "lock/home.hpp"

namespace skerry::window {

// Of all members' locks. Nothing changes after create.
struct MachineLocks {
  // Collective over the group; all members have the same choice, of a protocol with machines.
  static Status create(job::Group& group, const lock::Choice& choice,
                       std::unique_ptr<MachineLocks>* locks);

  job::Job* job = nullptr;
  job::Group* group = nullptr;
  job::Segment* segment = nullptr;
  const lock::machine::Machines* machines = nullptr;
  lock::machine::Config config;
  lock::machine::Home mine;     // this rank's slice: its mail
  lock::machine::Home on_node;  // of the lowest member of this node: cohorts' tails
};

// This rank's requester of a member's lock. One call at a time: a lock belongs to the rank, and a
// thread that finds it held is told so before.
class MachineLock {
 public:
  MachineLock(const MachineLocks& locks, Rank rank);
  // Blocks until it is held. Errors: those of the job's end; it is then unusable.
  Status lock(bool shared);
  Status unlock();
  // Is its lock the adapter's to give, so that accesses under it need no data server either?
  bool is_of_adapter() const { return locks_.config.domain == lock::machine::Domain::nic; }

 private:
  using Action = lock::machine::Action;
  using Event = lock::machine::Event;

  Status take(bool shared);
  Status give_back();
  Status drive(Event event);
  Status count_sharers(uint64_t change, uint64_t* before);
  Status perform(const Action& action, uint64_t* before);
  Status perform_by_adapter(const Action& action, uint64_t* before);
  Status load_by_adapter(uint8_t word, uint64_t* value);
  Status ask(const Action& action);
  Status perform_for_manager(const Action& action, lock::machine::Asking* asking);
  Status send(const Event& event, lock::machine::Rest* rest);
  Status ask_here(const Event& event, lock::machine::Rest* rest);
  Status ask_there(const Event& event, lock::machine::Rest* rest);
  Status tell(const lock::machine::Tell& tell);
  Status pause(const Action& action);
  Status await(Event* event);
  Status sleep(uint64_t mail, int64_t longest_ns);
  bool take_mail(Event* event);
  Action longer_pause();

  const MachineLocks& locks_;
  const Rank rank_;       // whose lock
  const uint32_t index_;  // its number among the group's locks
  const lock::machine::Requester me_;
  const lock::machine::Home home_;  // of the lock; null: on another node
  lock::machine::MachineBytes client_;
  bool counted_ = false;  // held by a count of sharers, without the protocol's own lock
  bool has_no_sharers_ = false;  // the protocol's lock, when it was granted: see Action::granted
  uint64_t mail_ = 0;     // taken out of memory and not delivered yet
  uint8_t attempt_ = 0;   // longer_pause
  std::minstd_rand random_;
  Status broken_;  // not ok: it failed in the middle of something
};

}  // namespace skerry::window
