// A fair queue with direct hand-over: the MCS lock (Mellor-Crummey and Scott, TOCS 1991) over the
// network, as in RMA-MCS (Schmid, Besta, Hoefler, arXiv 2010.09854, section 3.2) and DecLock
// (arXiv 2505.17641), which hand over by a message to the next holder as well. One atomic to join,
// one message to hand over, no retries: waiters sleep.
//
// The word: 0 free, otherwise the last in line, its number + 1. What an MCS lock writes into a
// neighbour's record (link, grant) is a message here.
#pragma once

#include "lock/machine.hpp"

namespace skerry::lock::machine {

// One requester's place in one queue; protocols of several queues are built of it. Drive it with
// the actions' results and messages until it answers granted (it is in front) or released (it
// left).
class QueuePlace {
 public:
  struct Where {
    Unit unit;
    Place place;
    uint8_t word;
    bool has_swap;  // otherwise a loop of compare-and-swaps exchanges: unfair to those that join
  };
  explicit QueuePlace(Requester me) : me_(me) {}

  Action join(const Where& where);  // the next event: its result
  // Leaves the front. The next one gets `pass` with the grant.
  Action leave(const Where& where, uint32_t pass);
  // Leaves the front without a message to the next one: the caller tells next().
  Action leave_untold(const Where& where);
  Action step(const Event& event, const Where& where);

  bool joined() const { return state_ != State::out && state_ != State::joining; }
  // When it has left: the number + 1 of the one who stood behind; 0: nobody did.
  uint32_t next() const { return next_; }
  bool was_first() const { return first_; }  // nobody was in line when it joined
  uint32_t passed() const { return pass_; }  // by the one before it, unless it was first

 private:
  enum class State : uint8_t {
    out,
    joining,
    linking,  // tells the one before it
    waiting,
    front,
    leaving,
    awaiting_link,  // the next one has joined and its message is under way
    handing_over,
  };
  Action hand_over();
  Action on_joined(uint64_t before, const Where& where);

  Requester me_;
  uint32_t next_ = 0;   // number + 1 of the one behind; 0: not known
  uint32_t guess_ = 0;  // joining by compare-and-swap: what the word is expected to hold
  uint32_t pass_ = 0;   // before the front: what was passed to it; after: what it passes on
  State state_ = State::out;
  bool first_ = false;
  bool untold_ = false;  // leaving: without a message
  uint8_t unused_ = 0;
};

class QueueClient {
 public:
  explicit QueueClient(const Self& self) : place_(self.me), local_(self.local) {}
  Action step(const Event& event, const Config& config);
  bool in_line() const { return place_.joined(); }

 private:
  enum class State : uint8_t { idle, locking, held, unlocking };
  QueuePlace place_;
  State state_ = State::idle;
  bool local_;
  uint8_t unused_[2] = {};
};

}  // namespace skerry::lock::machine
