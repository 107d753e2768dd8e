// Node cohorts: each node has a queue of its own in its own memory, and the front of it gets the
// lock from the manager on the lock's node for the whole node. The node hands over inside, by the
// processor alone, at most Config::hand_overs times in a row while others may wait; then it gives
// the lock back. The manager serves nodes in the order of their requests, so that no node starves,
// and a node's queue is fair. (Lock cohorting: Dice, Marathe, Shavit, PPoPP 2012; bounded passing
// over the network: RMA-MCS's locality threshold, arXiv 2010.09854, section 3.2.)
//
// The lock may be given back by another requester of the node than the one that asked for it. An
// MCS queue of nodes cannot do that without records of nodes; a manager can, and one message each
// way is what its hand-over costs.
//
//   word   place, label   value
//   tail   node, cpu      0 nobody of this node; otherwise the last in line, its number + 1
//
// What is passed inside a node: how many hand-overs the node may still do, + 1; 0: the manager
// granted it anew. At the bound the lock goes back with a message that asks for it again in the
// name of the next in line ("renew"): the node keeps a place in the manager's queue, however slow
// its next requester is.
#pragma once

#include "lock/machine.hpp"
#include "locks/queue.hpp"
#include "locks/two_sided.hpp"

namespace skerry::lock::machine {

class CohortClient {
 public:
  explicit CohortClient(const Self& self) : place_(self.me) {}
  Action step(const Event& event, const Config& config);
  bool in_line() const { return place_.joined(); }

 private:
  enum class State : uint8_t {
    idle,
    joining,  // the node's queue
    asking,   // the manager, for the node
    waiting,  // for the manager's grant
    held,
    leaving,  // the node's queue
    giving_back,
  };
  Action on_front(const Config& config);
  Action unlock(const Config& config);
  Action on_leaving(const Action& action);

  QueuePlace place_;
  uint32_t left_ = 0;  // hand-overs that the node may still do
  State state_ = State::idle;
  uint8_t unused_[3] = {};
};

// The manager is the two-sided one: a queue of nodes instead of requesters.
using CohortManager = TwoSidedManager;

}  // namespace skerry::lock::machine
