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
// (nothing has come back on it, and a thread waits for it to open) is pinned until something comes
// back, or, with Patience, for a time. Otherwise two threads, or two slow origins, could evict each
// other for ever and neither would get anything done.
//
// Driven by the engine (its connections to data servers) and by share (trunks to other nodes). Not
// thread safe: its owner's lock guards it. Allocates only when it has more claims, or knows more
// partners, than ever before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pure/rule.hpp"
#include "connection/machine.hpp"
#include "core/pure/assert.hpp"
#include "core/pure/container_bytes.hpp"
#include "core/pure/status.hpp"

namespace skerry::connection {

// ---- victims ----------------------------------------------------------------------------------
// Which connection goes when the cap is reached (A. Vishnu, M. Krishnan, P. Balaji: "Dynamic
// Time-Variant Connection Management for PGAS Models on InfiniBand"). A policy is a function of
// what is noted of a partner. The partner that is worth least makes way.

using Partner = uint32_t;  // dense number of a data server or a node, 0..

// What is known of a partner, also across its connections. Time is logical: it advances when the
// partner changes, so a burst of requests to one server counts as one use.
struct Uses {
  uint64_t last = 0;       // time of the newest one; opening a connection is one. 0: none
  uint64_t before = 0;     // of the one before that; 0: none
  uint32_t teardowns = 0;  // times it made way; a break or a server's wish is held against nobody
};

struct Worth {
  uint64_t major = 0;
  uint64_t minor = 0;
  friend constexpr auto operator<=>(const Worth&, const Worth&) = default;
};

// What a partner is worth now. Distinct for partners with distinct `last`, so that the choice does
// not depend on the order in which they are looked at.
using Policy = std::function<Worth(Partner, const Uses&, uint64_t now)>;

// `policy` null: only checked. Errors: config (no such policy; which there are).
Status find_policy(std::string_view name, Policy* policy = nullptr);

// ---- slots ------------------------------------------------------------------------------------

class Cap {
 public:
  enum class Hold : uint8_t {
    none,      // no connection
    occupied,  // opening or open: it has a slot
    leaving,   // draining or closing: its slot is somebody else's already
  };
  // What may be told of a connection when a victim is chosen.
  enum class Standing : uint8_t {
    unused,    // nobody is on it: see ask
    settled,   // may be evicted
    unproven,  // nothing has come back yet, and a thread waits for it to open
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
    Partner partner;         // whom it leads to; several claims of one may leave, one is occupied
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
  // each partner starts at `least_ns`. It doubles when its connection is evicted unproven, up to
  // `most_ns`, and halves when it is proven. So it is short where partners that wait for each
  // other's slots must be parted, and long enough where a partner's answers take long.
  struct Patience {
    int64_t least_ns = 0;
    int64_t most_ns = 0;
  };
  Cap() = default;
  explicit Cap(Patience patience) : patience_(patience) {}

  // From now on at most `limit` slots (0: no limit), victims chosen by this policy. Connections
  // beyond the limit leave as their slots are needed. Errors: config (no such policy); nothing
  // changed.
  Status set_limit(uint32_t limit, std::string_view policy);
  void set_limit(uint32_t limit, Policy policy);

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
    return SKERRY_RULE(connection_limit) && limit_ != 0 && holders_.size() >= limit_;
  }
  // Together with those that leave there are as many as there may be.
  bool too_many_leave() const {
    return SKERRY_RULE(connection_limit) && limit_ != 0 &&
           holders_.size() + leaving_.size() > limit_;
  }
  // May one more connect? standing(claim) -> Standing, of one that is occupied. `unused_first`: at
  // the limit an unused one goes before any other, even while others leave.
  template <class StandingOf>
  Answer ask(int64_t now_ns, StandingOf&& standing, Claim** victim, bool unused_first = false);
  // What was asked of it was answered: it is no longer unproven.
  void proven(const Claim& claim) {
    if (claim.partner < known_.size() && known_[claim.partner].doublings > 0)
      --known_[claim.partner].doublings;
  }
  int64_t patience_ns(Partner partner) const {
    const int doublings = partner < known_.size() ? known_[partner].doublings : 0;
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
  // Choosing and saying good-bye took `ns`, while a newcomer waited.
  void exposed(int64_t ns) { counters_.teardown_exposed_ns += static_cast<uint64_t>(ns); }
  // A request goes to it. A repeated use of the same partner is one comparison.
  void used(const Claim& claim) {
    if (limit_ != 0 && claim.partner != newest_) note_use(claim.partner);
  }

  uint32_t limit() const { return limit_; }  // 0: none
  uint32_t occupied() const { return static_cast<uint32_t>(holders_.size()); }
  uint32_t leaving() const { return static_cast<uint32_t>(leaving_.size()); }
  // Those that leave, in no order. hold() changes it.
  const std::vector<Claim*>& leavers() const { return leaving_; }
  // After Answer::wait: when an unproven connection may be evicted; INT64_MAX: no time helps.
  int64_t look_again_ns() const { return look_again_ns_; }
  const Counters& counters() const { return counters_; }
  // What is known of partners.
  uint64_t memory_bytes() const { return vector_bytes(known_); }

 private:
  // Of a partner: its uses while there is a limit.
  struct Known : Uses {
    uint8_t doublings = 0;  // of the patience with it
  };
  static_assert(sizeof(Known) == 24);
  static constexpr Partner nobody = ~Partner{0};

  Known& know(Partner partner) {
    if (partner >= known_.size()) known_.resize(partner + size_t{1});
    return known_[partner];
  }
  void note_use(Partner partner);
  template <class StandingOf>
  Claim* find_unused(StandingOf&& standing) const {
    const auto found = std::ranges::find_if(
        holders_, [&](const Claim* claim) { return standing(*claim) == Standing::unused; });
    return found == holders_.end() ? nullptr : *found;
  }
  template <class StandingOf>
  Claim* choose(int64_t now_ns, StandingOf&& standing, bool unproven_too);

  Patience patience_;
  Policy policy_;
  std::vector<Known> known_;     // by partner
  uint64_t uses_ = 0;            // logical time: see Uses
  Partner newest_ = nobody;      // the one used last
  uint32_t limit_ = 0;           // 0: none
  std::vector<Claim*> holders_;  // those that are occupied, in no order
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

// The one that is worth least: a settled one or, `unproven_too`, one whose time is up; that sets
// look_again_ns_. Null: all are pinned. A few ns for each that is open: small beside any teardown.
template <class StandingOf>
Cap::Claim* Cap::choose(int64_t now_ns, StandingOf&& standing, bool unproven_too) {
  const auto is_pinned = [&](const Claim& claim) {
    switch (standing(claim)) {
      case Standing::unused:
      case Standing::settled: return false;
      case Standing::busy: return true;
      case Standing::unproven: break;
    }
    if (!unproven_too) return true;
    const int64_t until_ns = claim.since_ns + patience_ns(claim.partner);
    if (until_ns > now_ns) look_again_ns_ = std::min(look_again_ns_, until_ns);
    return until_ns > now_ns;
  };
  Claim* victim = nullptr;
  Worth least;
  for (Claim* const claim : holders_) {
    const Worth worth = policy_(claim->partner, known_[claim->partner], uses_);
    if ((victim != nullptr && worth >= least) || is_pinned(*claim)) continue;
    victim = claim;
    least = worth;
  }
  return victim;
}

template <class StandingOf>
Cap::Answer Cap::ask(int64_t now_ns, StandingOf&& standing, Claim** victim, bool unused_first) {
  if (!at_limit() && !too_many_leave()) return Answer::granted;
  if (unused_first && at_limit() && (*victim = find_unused(standing)) != nullptr)
    return Answer::evict;
  if (!leaving_.empty()) return Answer::hasten;
  look_again_ns_ = INT64_MAX;
  *victim = choose(now_ns, standing, false);
  if (*victim == nullptr && patience_.most_ns != 0) {
    *victim = choose(now_ns, standing, true);
    if (*victim != nullptr && patience_ns((*victim)->partner) < patience_.most_ns)
      ++known_[(*victim)->partner].doublings;
  }
  return *victim == nullptr ? Answer::wait : Answer::evict;
}

}  // namespace skerry::connection
