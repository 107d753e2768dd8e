#include "job/one_way.hpp"

#include <bit>
#include <utility>

#include "core/pure/assert.hpp"
#include "core/pure/copy_bytes.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "job/segment.hpp"

namespace skerry::job {

uint32_t OneWay::branches() const {
  return static_cast<uint32_t>(std::bit_width(places_.leaders.size() - 1));
}

// What fails while the slots are made is told by a broadcast, which does without them.
Status OneWay::prepare(Group& group, int32_t place, const std::function<Places()>& places,
                       bool* ready) {
  const bool may_make = slots_ == nullptr && !refused_ && !preparing_;
  if (may_make && ++unprepared_ > calls_before) {
    place_ = place;
    places_ = places();
    const uint64_t bytes = messages_at() + slots() * message_bytes;
    preparing_ = true;
    const Status made = Segment::alloc(group, place_ >= 0 ? bytes : 0, purpose_group, &slots_);
    preparing_ = false;
    if (made.code() == Code::no_memory) refused_ = true;
    else SKERRY_TRY(made);
    if (slots_ == nullptr) {
      places_ = {};
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
  places_ = {};
  return status;
}

// ---- messages ---------------------------------------------------------------------------------

int32_t OneWay::relative_to(NodeId root) const {
  const auto leaders = static_cast<int32_t>(places_.leaders.size());
  return (place_ - places_.place_of[static_cast<size_t>(root)] + leaders) % leaders;
}

Rank OneWay::leader_at(int32_t relative, NodeId root) const {
  const auto place = static_cast<size_t>(relative + places_.place_of[static_cast<size_t>(root)]);
  return places_.leaders[place % places_.leaders.size()];
}

Status OneWay::send(Rank to, uint32_t branch, const std::byte* data, uint64_t bytes) {
  SKERRY_INVARIANT(call_ > 0 && call_ <= most_calls && bytes <= most_bytes,
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

// ---- the trees --------------------------------------------------------------------------------

// It hears from the one whose lowest set bit is taken away, and passes on to those with one bit
// more below that. The largest part of the tree first.
Status OneWay::broadcast(std::byte* buffer, uint64_t bytes, NodeId root) {
  const int32_t me = relative_to(root);
  uint32_t below = branches();
  if (me != 0) {
    below = static_cast<uint32_t>(std::countr_zero(static_cast<uint32_t>(me)));
    const std::byte* came = nullptr;
    SKERRY_TRY(take(leader_at(me - (1 << below), root), below, &came));
    copy_bytes(buffer, came, bytes);
  }
  for (uint32_t branch = below; branch-- > 0;)
    if (const int32_t child = me + (1 << branch);
        child < static_cast<int32_t>(places_.leaders.size()))
      SKERRY_TRY(send(leader_at(child, root), branch, buffer, bytes));
  return slots_->job().engine().push_out();
}

// The same tree upwards.
Status OneWay::reduce(const Reduction& how, std::byte* buffer, uint64_t bytes, NodeId root) {
  const int32_t me = relative_to(root);
  for (uint32_t branch = 0; branch < branches(); ++branch) {
    const int32_t other = me ^ (1 << branch);
    if (other < me) {
      SKERRY_TRY(send(leader_at(other, root), branch, buffer, bytes));
      return slots_->job().engine().push_out();
    }
    if (other >= static_cast<int32_t>(places_.leaders.size())) continue;
    const std::byte* came = nullptr;
    SKERRY_TRY(take(leader_at(other, root), branch, &came));
    how.combine(buffer, came, bytes);
  }
  return {};
}

}  // namespace skerry::job
