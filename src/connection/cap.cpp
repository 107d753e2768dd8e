#include "connection/cap.hpp"

namespace skerry::connection {

// ---- victims ----------------------------------------------------------------------------------

namespace {

// The least recently used one goes.
Worth lru(Partner, const Uses& uses, uint64_t) { return {uses.last, 0}; }

// The paper's LRU-M: one LRU queue per number of teardowns, the victim is the tail of the lowest
// queue that is not empty. The queues are kept as an order, by teardowns and then by last use:
// using a connection stays one store, and choosing looks at every open one.
Worth lru_m(Partner, const Uses& uses, uint64_t) { return {uses.teardowns, uses.last}; }

// Evicts the connection whose next use is expected to be farthest away, judged by the interval
// between its last two uses. One idle for less than that interval is expected back when the
// interval is over. One idle for longer has broken its rhythm and is expected to stay away for as
// long again. This recognises a counter that is asked regularly, and partners that come round in a
// circle wider than the cap (neighbours, blocks in order). There least recently used always evicts
// the wrong one.
Worth reuse(Partner, const Uses& uses, uint64_t now) {
  constexpr uint64_t unknown = uint64_t{1} << 40;  // used once: farther away than anything known,
                                                   // the one used longest ago first
  const uint64_t age = now - uses.last;
  if (uses.before == 0) return {~(unknown + age), uses.last};
  const uint64_t interval = uses.last - uses.before;
  return {~(age < interval ? interval - age : age), uses.last};
}

constexpr std::pair<std::string_view, Worth (*)(Partner, const Uses&, uint64_t)> policies[] = {
    {"lru", lru}, {"lru_m", lru_m}, {"reuse", reuse}};

}  // namespace

Status find_policy(std::string_view name, Policy* policy) {
  std::string known;
  for (const auto& [known_name, worth] : policies) {
    if (known_name == name) {
      if (policy != nullptr) *policy = worth;
      return {};
    }
    known += concat(known.empty() ? "" : ", ", known_name);
  }
  return error(Code::config, "SKERRY_VICTIM=", name,
               ": there is no policy of that name; give one of ", known);
}

// ---- slots ------------------------------------------------------------------------------------

Status Cap::set_limit(uint32_t limit, std::string_view policy) {
  Policy found;
  SKERRY_TRY(find_policy(policy, &found));
  set_limit(limit, std::move(found));
  return {};
}

void Cap::set_limit(uint32_t limit, Policy policy) {
  policy_ = std::move(policy);
  if (limit_ == 0 && limit != 0)  // their uses were not noted
    for (const Claim* const claim : holders_) note_use(claim->partner);
  limit_ = limit;
}

void Cap::note_use(Partner partner) {
  Uses& uses = know(partner);
  uses.before = std::exchange(uses.last, ++uses_);
  newest_ = partner;
}

void Cap::withdraw(Claim& claim) {
  if (!claim.waits) return;
  claim.waits = false;
  const auto found = std::find(queue_.begin(), queue_.end(), &claim);
  SKERRY_ASSERT(found != queue_.end(), "what waits is in the queue");
  if (static_cast<size_t>(found - queue_.begin()) < next_) --next_;
  queue_.erase(found);
}

void Cap::denied(int64_t now_ns) {
  if (leaving_.empty()) return;
  leave_awaited_ = true;
  if (denied_since_ns_ == 0) denied_since_ns_ = now_ns;
}

void Cap::hold(Claim& claim, Hold to, int64_t now_ns, bool evicted) {
  const Hold from = std::exchange(claim.hold, to);
  if (from == to) return;
  SKERRY_INVARIANT(!evicted || (from == Hold::occupied && to == Hold::leaving),
                   "only what has a slot makes way");
  if (from == Hold::occupied) {
    const size_t erased = std::erase(holders_, &claim);
    SKERRY_ASSERT(erased == 1, "slots are given back once");
    if (evicted) {
      ++counters_.evicted;
      ++know(claim.partner).teardowns;
    }
  } else if (from == Hold::leaving) {
    std::erase(leaving_, &claim);
    if (leaving_.empty() && denied_since_ns_ != 0)
      exposed(now_ns - std::exchange(denied_since_ns_, 0));
    if (to == Hold::none) {
      counters_.teardown_ns += static_cast<uint64_t>(now_ns - claim.since_ns);
      if (!leave_awaited_) ++counters_.teardowns_hidden;
    }
  }
  if (to == Hold::occupied) {
    holders_.push_back(&claim);
    if (limit_ != 0) note_use(claim.partner);
  } else if (to == Hold::leaving) {
    leaving_.push_back(&claim);
    leave_awaited_ = false;
  }
  claim.since_ns = now_ns;
  counters_.peak = std::max<uint64_t>(counters_.peak, holders_.size() + leaving_.size());
}

}  // namespace skerry::connection
