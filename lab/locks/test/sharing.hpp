// Shared holders by a count beside the protocol's own lock, as window/machine_locks.cpp has them in
// a job; here as a machine, so that the explorer sees every interleaving. The protocol's lock is
// here the *inner* lock. Protocols with readers of their own pass through unchanged.
#pragma once

#include "lock/home.hpp"
#include "locks/parties.hpp"

namespace skerry::lock::machine {

class SharingClient {
 public:
  SharingClient(const Machines& machines, const Self& self)
      : inner_(machines, self), local_(self.local), passes_(machines.has_readers) {}
  Action step(const Event& event, const Config& config);
  const Client& inner() const { return inner_; }
  // All of it beside `inner`, as one number: two equal machines do the same.
  uint32_t key() const {
    return static_cast<uint32_t>(state_) << 16 | static_cast<uint32_t>(attempt_) << 8 |
           (shared_ ? 1u : 0u);
  }

 private:
  enum class State : uint8_t {
    idle,
    locking,  // the inner lock
    looking,  // exclusive, with the inner lock: are there sharers?
    pausing,
    held,
    unlocking,
    counting_in,    // shared, with the inner lock
    passing,        // shared: gives the inner lock back
    held_by_count,  // shared
    counting_out,
  };
  Action locked(bool has_no_sharers, const Config& config);
  Action look(const Config& config);
  Action count(int64_t change, const Config& config) const;
  Action inner_unlock(State state, const Config& config);
  Action follow(const Action& action, const Config& config);

  Client inner_;
  State state_ = State::idle;
  bool local_;
  bool passes_;  // the protocol has readers of its own
  bool shared_ = false;
  uint8_t attempt_ = 0;
};

}  // namespace skerry::lock::machine
