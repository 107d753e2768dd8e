// Shared holders for the protocols that grant one requester at a time (has_readers says no): a
// count of sharers beside the protocol's own lock, which is here the *inner* lock.
//
//   exclusive: takes the inner lock, then waits until the count is 0. Gives the inner lock back.
//   shared:    takes the inner lock, counts itself in, gives the inner lock back. Holds by its
//              count, and counts itself out in the end.
//
// A waiting exclusive requester holds the inner lock, so later sharers stand behind it and it
// cannot starve. A sharer keeps the place in line that the inner protocol gave it. The price: one
// load more for an exclusive lock, two atomics for a shared one. (The oldest readers-writers
// solution: Courtois, Heymans, Parnas, CACM 1971, with the writer inside the turnstile.)
//
//   word      label    value
//   sharers   network  how many hold it shared
//
// Protocols with readers of their own pass through unchanged.
#pragma once

#include "lock/machines.hpp"

namespace skerry::lock::machine {

constexpr uint8_t sharers_word = 3;  // behind the words of every protocol

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
  Action locked(const Config& config);
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
