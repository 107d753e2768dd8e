// Where a session is in sending again what a broken connection may have lost. Pure: the driver
// sends what the cursor points to and tells it; when the fabric is full it stops, and goes on
// later.
//
//   start() -> requests: those of the replay log, oldest first
//           -> parked:   requests that wait for something else than the network, in slots (locks)
//           -> idle
//
// A break while it runs stops it; the next connection starts it again from the front.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/pure/assert.hpp"
#include "session/replay_log.hpp"

namespace skerry::session {

class ReplayCursor {
 public:
  enum class Phase : uint8_t { idle, requests, parked };
  // What has to be sent again.
  enum class Scope : uint8_t {
    all,     // a connection broke
    queued,  // nothing was lost: requests from `from` on were never sent
  };

  void start(uint64_t from, Scope scope) {
    SKERRY_ASSERT(from > 0, "requests are numbered from 1");
    phase_ = Phase::requests;
    scope_ = scope;
    number_ = from;
    slot_ = 0;
  }
  void stop() { phase_ = Phase::idle; }
  bool running() const { return phase_ != Phase::idle; }
  Phase phase() const { return phase_; }

  // The next request of the log to look at; 0: it is through. `log` null: nothing is kept.
  uint64_t next(const ReplayLog* log) {
    SKERRY_INVARIANT(running(), "nothing is looked at unless something is to be sent again");
    if (phase_ != Phase::requests || log == nullptr || log->empty()) return 0;
    // What was acknowledged meanwhile is not kept any more.
    number_ = std::max(number_, log->first_number());
    return number_ <= log->last_number() ? number_ : 0;
  }
  void passed(uint64_t number) {
    SKERRY_ASSERT(phase_ == Phase::requests && number == number_, "one after the other");
    ++number_;
  }
  // The log is through. The next slot to look at, of `slots`; equal to `slots`: all are through.
  uint32_t next_slot(uint32_t slots) {
    if (phase_ == Phase::requests) {
      phase_ = Phase::parked;
      slot_ = scope_ == Scope::all ? 0 : slots;
    }
    return slot_;
  }
  void passed_slot() {
    SKERRY_ASSERT(phase_ == Phase::parked, "slots come after the log");
    ++slot_;
  }

 private:
  uint64_t number_ = 0;  // requests: the next one to look at
  uint32_t slot_ = 0;    // parked: the next one to look at
  Phase phase_ = Phase::idle;
  Scope scope_ = Scope::all;
};

}  // namespace skerry::session
