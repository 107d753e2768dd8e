#include "job/ring.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/pure/assert.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "job/segment.hpp"

namespace skerry::job {

void Ring::open(int32_t nodes, int32_t place, Rank right) {
  nodes_ = nodes;
  place_ = place;
  right_ = right;
}

Status Ring::prepare(Group& group, bool* ready) {
  if (slots_ == nullptr && !refused_) {
    const uint64_t bytes = leads() ? slots_at + static_cast<uint64_t>(nodes_) * slot_bytes : 0;
    const Status made = Segment::alloc(group, bytes, purpose_group, &slots_);
    if (made.code() == Code::no_memory) refused_ = true;
    else SKERRY_TRY(made);
    if (slots_ != nullptr) group.forget_segment();  // it is the group's own
  }
  *ready = slots_ != nullptr;
  return {};
}

Status Ring::close() {
  if (slots_ == nullptr) return {};
  Job& job = slots_->job();
  const Status status = slots_->close();
  job.objects().discard(std::exchange(slots_, nullptr));
  sent_ = taken_ = 0;  // the next slots, of a group that is used again, count anew
  return status;
}

Status Ring::send(std::span<const std::byte> data) {
  SKERRY_INVARIANT(sent_ == taken_ && data.size() <= slot_bytes, "by turns, and it fits");
  const uint64_t slot = sent_++ % static_cast<uint64_t>(nodes_);
  static constexpr std::byte nothing{};
  if (data.empty()) data = {&nothing, 0};
  constexpr bool is_fenced = false;  // what comes round says that it arrived
  return slots_->put_notify(right_, slots_at + slot * slot_bytes, data, {counter_at, 1}, is_fenced);
}

Status Ring::take(const std::byte** data) {
  const uint64_t slot = taken_++ % static_cast<uint64_t>(nodes_);
  *data = slots_->own() + slots_at + slot * slot_bytes;
  constexpr bool from_nodes = true;
  return slots_->wait_counter(counter_at, taken_, -1, nullptr, from_nodes);
}

// Block b of a piece is summed from the node at place b + 1 on to the one at place b, in this
// order; so all nodes get the same bits.
Status Ring::allreduce(const Reduction& how, std::byte* buffer, uint64_t bytes) {
  const auto nodes = static_cast<uint64_t>(nodes_), me = static_cast<uint64_t>(place_);
  const uint64_t block = slot_bytes / how.unit() * how.unit();
  for (uint64_t from = 0; from < bytes; from += nodes * block) {
    const uint64_t units = std::min(nodes * block, bytes - from) / how.unit();
    const auto edge = [&](uint64_t b) { return from + units * b / nodes * how.unit(); };
    const auto block_of = [&](uint64_t b) {
      return std::span(buffer + edge(b % nodes), edge(b % nodes + 1) - edge(b % nodes));
    };
    const std::byte* came = nullptr;
    for (uint64_t t = 0; t + 1 < nodes; ++t) {  // reduce-scatter
      SKERRY_TRY(send(block_of(me + 2 * nodes - 1 - t)));
      SKERRY_TRY(take(&came));
      const auto mine = block_of(me + 2 * nodes - 2 - t);
      how.combine(mine.data(), came, mine.size());
    }
    for (uint64_t t = 0; t + 1 < nodes; ++t) {  // all-gather
      SKERRY_TRY(send(block_of(me + nodes - t)));
      SKERRY_TRY(take(&came));
      const auto theirs = block_of(me + nodes - 1 - t);
      std::memcpy(theirs.data(), came, theirs.size());
    }
  }
  return {};
}

Status Ring::broadcast(std::byte* buffer, uint64_t bytes, int32_t root) {
  const auto nodes = static_cast<int64_t>(nodes_);
  const int64_t distance = (place_ - root + nodes) % nodes;
  const auto pieces = static_cast<int64_t>((bytes + slot_bytes - 1) / slot_bytes);
  const auto piece = [&](int64_t p) {
    const uint64_t from = static_cast<uint64_t>(p) * slot_bytes;
    return std::span(buffer + from, std::min(slot_bytes, bytes - from));
  };
  const auto exists = [&](int64_t p) { return p >= 0 && p < pieces; };
  for (int64_t turn = 0; turn < pieces + nodes - 2; ++turn) {
    const int64_t out = turn - distance, in = turn - distance + 1;
    SKERRY_TRY(send(exists(out) && distance + 1 < nodes ? piece(out) : std::span<std::byte>()));
    const std::byte* came = nullptr;
    SKERRY_TRY(take(&came));
    if (distance > 0 && exists(in)) std::memcpy(piece(in).data(), came, piece(in).size());
  }
  return {};
}

Status Ring::pass_on(int32_t first, const std::function<uint64_t(int32_t, std::byte*)>& pack,
                     const std::function<void(int32_t, const std::byte*)>& unpack) {
  std::vector<std::byte> block(slot_bytes);
  for (int32_t turn = 0; turn + 1 < nodes_; ++turn) {
    const int32_t out = (first + 2 * nodes_ - turn) % nodes_, in = (out + nodes_ - 1) % nodes_;
    SKERRY_TRY(send(std::span(block).first(pack(out, block.data()))));
    const std::byte* came = nullptr;
    SKERRY_TRY(take(&came));
    unpack(in, came);
  }
  return {};
}

}  // namespace skerry::job
