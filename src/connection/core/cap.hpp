// Which partner gets a connection under a cap, and which one makes way for it. Pure: the
// driver tells what happened and performs what is answered; the time is an argument.
//
//   open(claim)   -> waits in the queue
//   ask()         -> granted: connect | evict: *victim makes way; connect if that
//                    freed a slot, otherwise ask again
//                    hasten: somebody is leaving already | wait: nobody may be evicted yet
//   hold(claim, occupied | leaving | none)    it opens | says good-bye | has gone
//
// Slots. A connection that opens or is open occupies one of `limit` slots. One that drains or
// closes is leaving and occupies none, so that a newcomer opens while its victim closes. At most
// one is evicted at a time: while one leaves, no other has to. Several may still leave together,
// because servers ask for connections when they like. A newcomer then waits until it makes those
// that are there at most `limit` + 1.
//
// Pinning. A victim must have been of use: a connection is never evicted while it is *busy* (still
// opening, sending again after a break, in the middle of a transfer). One that is *unproven*
// (nothing has come back on it, and somebody waits for that) is pinned until something comes back,
// or, with Patience, for a time. Otherwise two threads, or two slow origins, could evict each other
// for ever and neither would get anything done.
//
// Driven by the engine (its connections to data servers) and by share (trunks to other nodes). Not
// thread safe: its owner's lock guards it. Allocates only when it has more claims, or is impatient
// with a higher partner, than ever before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pure/rule.hpp"
#include "connection/core/machine.hpp"
#include "connection/core/victim.hpp"
#include "core/pure/assert.hpp"
#include "core/pure/status.hpp"

namespace skerry::connection {

class Cap {
 public:
  enum class Hold : uint8_t {
    none,      // no connection
    occupied,  // opening or open: it has a slot
    leaving,   // draining or closing: its slot is somebody else's already
  };
  // What may be told of a connection when a victim is chosen.
  enum class Standing : uint8_t {
    settled,   // may be evicted
    unproven,  // nothing has come back yet and somebody waits for it
    busy,      // evicting it would lose or delay what is half done
  };
  enum class Answer : uint8_t {
    granted,  // there is a slot: connect
    evict,    // *victim makes way: evict it; connect if that freed a slot, or ask again
    hasten,   // somebody is leaving: end that if it can be ended, and ask again; otherwise denied()
    wait,     // everybody is pinned; the next answer that comes back changes that
  };

  // One connection's part. Its driver embeds it in its own record, whose address does not change
  // while it waits or holds anything.
  struct Claim {
    explicit Claim(Partner p = 0) : partner(p) {}
    Partner partner;         // its name for the victim policy
    Hold hold = Hold::none;  // written by Cap
    bool waits = false;      // in the queue; written by Cap
    int64_t since_ns = 0;    // occupied: opening, then open since; leaving: since. Written by Cap
  };

  struct Counters {
    uint64_t evicted = 0;              // made way for another
    uint64_t peak = 0;                 // most that held a slot or were leaving at a time
    uint64_t setup_ns = 0;             // from each connect to its answer, summed
    uint64_t teardown_ns = 0;          // from each good-bye to its end, summed
    uint64_t teardown_exposed_ns = 0;  // of that, what somebody waited for
    uint64_t teardowns_hidden = 0;     // good-byes that kept nobody waiting
  };

  // How long an unproven connection is pinned. Most: 0: until it is proven. Otherwise the time of
  // each partner starts at `least_ns`, doubles when its connection is evicted unproven, up to
  // `most_ns`, and halves when it is proven: short where those that wait for each other's slots
  // must be parted, long enough for an answer of one whose answers take long.
  struct Patience {
    int64_t least_ns = 0;
    int64_t most_ns = 0;
  };
  Cap() = default;
  explicit Cap(Patience patience) : patience_(patience) {}

  // From now on at most `limit` slots (0: no limit), victims chosen by `policy`. `partners`: as
  // many different ones as there can be, which bounds the tables. Connections beyond the limit
  // leave as their slots are needed. The caller then readmits every claim that holds a slot.
  // Errors: config (no such policy); nothing changed.
  Status set_limit(uint32_t limit, std::string_view policy, uint32_t partners);
  // Likewise, with a policy of the caller's, made for that many connections: the simulator's
  // optimum, which no name stands for. Before anything holds a slot.
  void set_limit(uint32_t limit, std::unique_ptr<VictimPolicy> policy) {
    SKERRY_ASSERT(occupied_ == 0 && policy->capacity() >= limit, "it has room for all");
    policy_ = std::move(policy);
    limit_ = limit;
  }
  void readmit(const Claim& claim) {
    if (policy_ && claim.hold == Hold::occupied) policy_->opened(claim.partner);
  }

  // ---- the queue of those that want a connection -----------------------------------------------
  void open(Claim& claim) {
    if (claim.waits) return;
    claim.waits = true;
    queue_.push_back(&claim);
  }
  void withdraw(Claim& claim);
  bool anyone_waits() const { return !queue_.empty(); }
  // Calls serve(claim) for each that waits, in the order of asking; serve may open and withdraw
  // any. Called from within serve: another round follows the present one.
  template <class Serve>
  void serve_queue(Serve&& serve);

  // ---- slots -----------------------------------------------------------------------------------
  bool at_limit() const {
    return SKERRY_RULE(connection_limit) && limit_ != 0 && occupied_ >= limit_;
  }
  // Together with those that leave there are as many as there may be.
  bool too_many_leave() const {
    return SKERRY_RULE(connection_limit) && limit_ != 0 && occupied_ + leaving_.size() > limit_;
  }
  // May one more connect? standing(partner, &since_ns) -> Standing; since_ns: of its claim.
  template <class StandingOf>
  Answer ask(int64_t now_ns, StandingOf&& standing, Partner* victim);
  // What was asked of it was answered: it is no longer unproven.
  void proven(const Claim& claim) {
    if (claim.partner < doublings_.size() && doublings_[claim.partner] > 0)
      --doublings_[claim.partner];
  }
  int64_t patience_ns(Partner partner) const {
    const int doublings = partner < doublings_.size() ? doublings_[partner] : 0;
    return std::min(patience_.least_ns << doublings, patience_.most_ns);
  }
  // Somebody is kept waiting by those that leave.
  void denied(int64_t now_ns);
  // The connection goes over to another hold. `evicted`: it makes way for another.
  void hold(Claim& claim, Hold to, int64_t now_ns, bool evicted = false);
  // It opened: the set-up is over.
  void connected(Claim& claim, int64_t now_ns) {
    SKERRY_INVARIANT(claim.hold == Hold::occupied, "it has a slot since it connects");
    counters_.setup_ns += static_cast<uint64_t>(now_ns - claim.since_ns);
    claim.since_ns = now_ns;
  }
  // Choosing and saying good-bye took so long, while a newcomer waited.
  void exposed(int64_t ns) { counters_.teardown_exposed_ns += static_cast<uint64_t>(ns); }
  // A request goes to it.
  void used(const Claim& claim) {
    if (policy_) policy_->used(claim.partner);
  }

  uint32_t limit() const { return limit_; }  // 0: none
  uint32_t occupied() const { return occupied_; }
  uint32_t leaving() const { return static_cast<uint32_t>(leaving_.size()); }
  // Those that leave, in no order. hold() changes it.
  const std::vector<Claim*>& leavers() const { return leaving_; }
  // After Answer::wait: when an unproven connection may be evicted; INT64_MAX: no time helps.
  int64_t look_again_ns() const { return look_again_ns_; }
  const Counters& counters() const { return counters_; }
  uint64_t policy_bytes() const { return policy_ ? policy_->bytes() : 0; }

 private:
  template <class StandingOf>
  std::optional<Partner> choose(int64_t now_ns, StandingOf&& standing, bool unproven_too);

  Patience patience_;
  std::vector<uint8_t> doublings_;        // of that, by partner; beyond its end: none
  std::unique_ptr<VictimPolicy> policy_;  // null: no limit
  uint32_t limit_ = 0;                    // 0: none
  uint32_t occupied_ = 0;
  std::vector<Claim*> leaving_;
  std::vector<Claim*> queue_;  // oldest first
  size_t next_ = 0;            // while serving: the next of queue_
  bool serving_ = false;
  bool again_ = false;
  bool leave_awaited_ = false;   // somebody was denied since the last one began to leave
  int64_t denied_since_ns_ = 0;  // since when somebody is kept waiting by those that leave; 0: no
  int64_t look_again_ns_ = INT64_MAX;
  Counters counters_;
};

// The hold that a connection in this state has.
constexpr Cap::Hold hold_of(State state) {
  switch (state) {
    case State::idle: return Cap::Hold::none;
    case State::opening:
    case State::open: return Cap::Hold::occupied;
    case State::draining:
    case State::closing: return Cap::Hold::leaving;
  }
  return Cap::Hold::none;
}

template <class Serve>
void Cap::serve_queue(Serve&& serve) {
  again_ = true;
  if (serving_) return;
  serving_ = true;
  while (again_) {
    again_ = false;
    for (next_ = 0; next_ < queue_.size();) serve(*queue_[next_++]);
  }
  serving_ = false;
}

// A settled one or, `unproven_too`, one whose time is up; that sets look_again_ns_.
template <class StandingOf>
std::optional<Partner> Cap::choose(int64_t now_ns, StandingOf&& standing, bool unproven_too) {
  return policy_->choose([&](Partner partner) {
    int64_t since_ns = 0;
    switch (standing(partner, &since_ns)) {
      case Standing::settled: return false;
      case Standing::busy: return true;
      case Standing::unproven: break;
    }
    if (!unproven_too) return true;
    const int64_t until_ns = since_ns + patience_ns(partner);
    if (until_ns > now_ns) look_again_ns_ = std::min(look_again_ns_, until_ns);
    return until_ns > now_ns;
  });
}

template <class StandingOf>
Cap::Answer Cap::ask(int64_t now_ns, StandingOf&& standing, Partner* victim) {
  if (!at_limit() && !too_many_leave()) return Answer::granted;
  if (!leaving_.empty()) return Answer::hasten;
  look_again_ns_ = INT64_MAX;
  auto chosen = choose(now_ns, standing, false);
  if (!chosen && patience_.most_ns != 0) {
    chosen = choose(now_ns, standing, true);
    if (chosen) {
      doublings_.resize(std::max<size_t>(doublings_.size(), *chosen + size_t{1}));
      if (patience_ns(*chosen) < patience_.most_ns) ++doublings_[*chosen];
    }
  }
  if (!chosen) return Answer::wait;
  *victim = *chosen;
  return Answer::evict;
}

}  // namespace skerry::connection
