#include "connection/core/cap.hpp"

namespace skerry::connection {

Status Cap::set_limit(uint32_t limit, std::string_view policy, uint32_t partners) {
  SKERRY_TRY(VictimPolicy::check_name(policy));
  // Until those beyond a lower limit have left there are more than it allows; there are never more
  // than partners, however high it is.
  const uint32_t capacity = std::max({std::min(limit, partners), occupied_, 1u});
  policy_ = limit == 0 ? nullptr : VictimPolicy::make(policy, capacity);
  limit_ = limit;
  return {};
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
    SKERRY_ASSERT(occupied_ > 0, "slots are given back once");
    --occupied_;
    if (policy_) policy_->closed(claim.partner, evicted);
    if (evicted) ++counters_.evicted;
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
    ++occupied_;
    if (policy_) policy_->opened(claim.partner);
  } else if (to == Hold::leaving) {
    leaving_.push_back(&claim);
    leave_awaited_ = false;
  }
  claim.since_ns = now_ns;
  counters_.peak = std::max<uint64_t>(counters_.peak, occupied_ + leaving_.size());
}

}  // namespace skerry::connection
