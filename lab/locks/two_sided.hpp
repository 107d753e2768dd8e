// The two-sided protocol: a lock manager on the lock's node queues all requests and grants them in
// the order of their arrival (Santhanaraman et al., "Natively Supporting True One-sided
// Communication in MPI on Multi-core Systems with InfiniBand", section 3, figure 1). Beyond the
// paper: shared requests that stand next to each other are granted together.
//
// No words: all state is the manager's. It does not look at who gives the lock back, so that the
// cohorts' manager is the same one.
#pragma once

#include "lock/machine.hpp"

namespace skerry::lock::machine {

class TwoSidedClient {
 public:
  explicit TwoSidedClient(const Self& self) : me_(self.me) {}
  Action step(const Event& event, const Config& config);
  // Has its place among the waiters, or holds: nobody overtakes it without bound. From here a
  // message that is under way counts as not yet in line.
  bool in_line() const { return state_ != State::idle; }

 private:
  enum class State : uint8_t { idle, asking, waiting, held, releasing };
  Requester me_;
  State state_ = State::idle;
  Mode mode_ = Mode::exclusive;  // of the request
  uint8_t unused_[2] = {};
};

class TwoSidedManager {
 public:
  Action step(const Event& event, const Config& config, Links links);

 private:
  Action grant_next(Links links);

  RequesterQueue queue_;
  uint32_t holders_ = 0;  // several only if shared
  bool shared_ = false;   // how they hold it
  uint8_t unused_[3] = {};
};

}  // namespace skerry::lock::machine
