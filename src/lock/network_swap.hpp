// A compare-and-swap of a lock's network word over connections that break. The adapter may or may
// not have done one whose connection broke; it is asked once more, and what it finds tells. Pure.
#pragma once

#include "lock/machine.hpp"

namespace skerry::lock::machine {

class NetworkSwap {
 public:
  // In a row. An adapter that answers none of so many breaks the connection itself each time.
  static constexpr int most_broken = 64;

  NetworkSwap(const Action& action, const Config& config)
      : action_(action), takes_free_(is_free(config, action.expected)) {}

  // The connection broke under an attempt. False: no other is worth while.
  bool may_repeat() { return ++broken_ < most_broken; }

  // What the word was before it, from what the last attempt found. Only who is named by `expected`
  // takes the lock away from there: another value means that a broken attempt did it. Where a free
  // lock is taken only the requester that takes it, or the manager, writes `value`.
  uint64_t before(uint64_t found) const {
    const bool was_done = broken_ > 0 && (takes_free_ ? found == action_.value
                                                      : found != action_.expected);
    return was_done ? action_.expected : found;
  }

 private:
  const Action action_;
  const bool takes_free_;
  int broken_ = 0;
};

}  // namespace skerry::lock::machine
