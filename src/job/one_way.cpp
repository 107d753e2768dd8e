#include "job/one_way.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/pure/assert.hpp"
#include "core/pure/copy_bytes.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "job/segment.hpp"

namespace skerry::job {

// What fails while the slots are made is told by a broadcast, which does without them.
Status OneWay::prepare(Group& group, int32_t place, const std::function<Leaders()>& leaders_of,
                       bool* ready) {
  const bool may_make = slots_ == nullptr && !refused_ && !preparing_;
  if (may_make && ++unprepared_ > calls_before) {
    place_ = place;
    all_ = leaders_of();
    preparing_ = true;
    int32_t of_any_member[] = {group.job().has_cap(), group.job().is_crowded()};
    Status made = group.reduce(ElementType::int32, Operation::max, of_any_member, 2, no_rank);
    const auto [is_capped, is_crowded] = of_any_member;
    choose_shapes(is_capped != 0, is_crowded != 0);
    refused_ = kind_ == Kind::large && is_capped != 0;
    const uint64_t bytes = messages_at() + slots() * slot_bytes();
    if (made.ok() && !refused_)
      made = Segment::alloc(group, place_ >= 0 ? bytes : 0, purpose_group, &slots_);
    preparing_ = false;
    if (made.code() == Code::no_memory) refused_ = true;
    else SKERRY_TRY(made);
    if (slots_ == nullptr) {
      all_ = {};
    } else {
      group.forget_segment();  // it is the group's own
      taken_.assign(place_ >= 0 ? slots() : 0, 0);
    }
  }
  *ready = slots_ != nullptr;
  return {};
}

Status OneWay::close() {
  unprepared_ = call_ = 0;
  if (slots_ == nullptr) return {};
  Job& job = slots_->job();
  const Status status = slots_->close();
  job.objects().discard(std::exchange(slots_, nullptr));
  all_ = {};
  return status;
}

// ---- messages ---------------------------------------------------------------------------------

uint32_t OneWay::relative_to(NodeId root) const {
  const auto from = static_cast<uint32_t>(all_.place_of[static_cast<size_t>(root)]);
  return (static_cast<uint32_t>(place_) + leaders() - from) % leaders();
}

Rank OneWay::leader_at(uint32_t relative, NodeId root) const {
  const auto from = static_cast<uint32_t>(all_.place_of[static_cast<size_t>(root)]);
  return all_.at[(relative + from) % leaders()];
}

void OneWay::choose_shapes(bool is_capped, bool is_crowded) {
  const bool is_chain = kind_ == Kind::large && static_cast<int32_t>(leaders()) <= most_in_chain;
  const bool is_flat = kind_ == Kind::tiny && leaders() <= most_below + 1 && !is_capped;
  up_ = is_chain ? Shape::chain : is_flat ? Shape::flat : Shape::binomial;
  down_ = is_flat && is_crowded ? Shape::binomial : up_;
  const uint64_t fit = most_slots_bytes / (branches() * slot_bytes());
  calls_ = static_cast<uint32_t>(std::clamp<uint64_t>(fit, least_calls, most_calls));
}

uint64_t OneWay::slot_bytes() const {
  switch (kind_) {
    case Kind::tiny: return 64 + tiny_bytes;
    case Kind::small: return 64 + short_bytes;
    case Kind::large: return 64 + most_bytes(static_cast<int32_t>(leaders()));
  }
  return 0;
}

Status OneWay::send(Rank to, uint32_t branch, const std::byte* data, uint64_t bytes) {
  SKERRY_INVARIANT(call_ > 0 && call_ <= calls_ && bytes + 64 <= slot_bytes(),
                   "a call has begun, and its message fits");
  constexpr bool is_fenced = false;  // the next meeting says that it arrived
  return slots_->put_notify(to, message(branch), {data, bytes}, {counter(branch), 1}, is_fenced);
}

// *data: what has come, until the next meeting.
Status OneWay::take(Rank from, uint32_t branch, const std::byte** data) {
  const uint64_t awaited = taken_[slot(branch)] + 1;
  SKERRY_TRY(departure_->wait(*slots_, counter(branch), awaited, from));
  taken_[slot(branch)] = awaited;
  *data = slots_->own() + message(branch);
  return {};
}

// ---- the tree ---------------------------------------------------------------------------------

// In a binomial tree branch b of a place leads to the one with bit b set as well. It is below the
// lowest bit that the place has itself.
uint32_t OneWay::Tree::branches_below(uint32_t at) const {
  if (shape_ == Shape::chain) return 1;
  if (at != 0) return shape_ == Shape::flat ? 0 : branch_to(at);
  return shape_ == Shape::flat ? leaders_ - 1 : static_cast<uint32_t>(std::bit_width(leaders_ - 1));
}
uint32_t OneWay::Tree::child(uint32_t at, uint32_t branch) const {
  return shape_ == Shape::binomial ? at + (1U << branch) : at + branch + 1;
}
uint32_t OneWay::Tree::parent(uint32_t at) const {
  if (shape_ == Shape::chain) return at - 1;
  return shape_ == Shape::flat ? 0 : at & (at - 1);
}
uint32_t OneWay::Tree::branch_to(uint32_t at) const {
  if (shape_ == Shape::chain) return 0;
  return shape_ == Shape::flat ? at - 1 : static_cast<uint32_t>(std::countr_zero(at));
}

// The largest part of the tree first.
Status OneWay::broadcast(std::byte* buffer, uint64_t bytes, NodeId root) {
  const Tree tree(down_, leaders());
  const uint32_t me = relative_to(root);
  if (me != 0) {
    const std::byte* came = nullptr;
    SKERRY_TRY(take(leader_at(tree.parent(me), root), tree.branch_to(me), &came));
    copy_bytes(buffer, came, bytes);
  }
  for (uint32_t branch = tree.branches_below(me); branch-- > 0;)
    if (const uint32_t below = tree.child(me, branch); below < leaders())
      SKERRY_TRY(send(leader_at(below, root), branch, buffer, bytes));
  return slots_->job().engine().push_out();
}

Status OneWay::reduce(const Reduction& how, std::byte* buffer, uint64_t bytes, NodeId root) {
  const Tree tree(up_, leaders());
  const uint32_t me = relative_to(root);
  for (uint32_t branch = 0; branch < tree.branches_below(me); ++branch) {
    const uint32_t below = tree.child(me, branch);
    if (below >= leaders()) continue;
    const std::byte* came = nullptr;
    SKERRY_TRY(take(leader_at(below, root), branch, &came));
    how.combine(buffer, came, bytes);
  }
  if (me == 0) return {};
  SKERRY_TRY(send(leader_at(tree.parent(me), root), tree.branch_to(me), buffer, bytes));
  return slots_->job().engine().push_out();
}

}  // namespace skerry::job
