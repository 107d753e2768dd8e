// The one-sided protocol: network compare-and-swap on one word, and again after a pause
// (Santhanaraman et al., section 3, figure 2; their earlier paper at IPDPS 2008). No process of the
// lock's node takes part. Not fair, and every failed attempt is network traffic.
//
// The word: 0 .. P-1 the holder, P free.
#pragma once

#include "lock/machine.hpp"

namespace skerry::lock::machine {

class OneSidedClient {
 public:
  explicit OneSidedClient(const Self& self) : me_(self.me), local_(self.local) {}
  Action step(const Event& event, const Config& config);

 private:
  enum class State : uint8_t { idle, trying, pausing, held, releasing };
  Action attempt(const Config& config);

  Requester me_;
  State state_ = State::idle;
  bool local_;
  uint8_t attempt_ = 0;  // failed ones of this request, bounded
  uint8_t unused_ = 0;
};

}  // namespace skerry::lock::machine
