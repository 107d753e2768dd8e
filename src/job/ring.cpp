#include "job/ring.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/pure/assert.hpp"
#include "core/pure/copy_bytes.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "job/segment.hpp"

namespace skerry::job {

void Ring::open(int32_t nodes, int32_t place, Rank right) {
  nodes_ = nodes;
  window_ = std::clamp<uint64_t>(most_slots / static_cast<uint64_t>(nodes), 1, most_window);
  place_ = place;
  right_ = right;
}

Status Ring::prepare(Group& group, bool* ready) {
  if (slots_ == nullptr && !refused_) {
    const uint64_t slots = static_cast<uint64_t>(nodes_) * window_;
    const uint64_t bytes = leads() ? slots_at + slots * slot_bytes : 0;
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
  SKERRY_INVARIANT(sent_ < taken_ + window_ && data.size() <= slot_bytes,
                   "no more under way than there is room for, and it fits");
  const uint64_t slot = sent_++ % (static_cast<uint64_t>(nodes_) * window_);
  static constexpr std::byte nothing{};
  if (data.empty()) data = {&nothing, 0};
  constexpr bool is_fenced = false;  // what comes round says that it arrived
  return slots_->put_notify(right_, slots_at + slot * slot_bytes, data, {counter_at, 1}, is_fenced);
}

Status Ring::take(const std::byte** data) {
  const uint64_t slot = taken_++ % (static_cast<uint64_t>(nodes_) * window_);
  *data = slots_->own() + slots_at + slot * slot_bytes;
  constexpr bool from_nodes = true;
  return slots_->wait_counter(counter_at, taken_, -1, nullptr, from_nodes);
}

Status Ring::finish() { return slots_->job().engine().push_out(); }

// Block b of a piece is summed from the node at place b + 1 on to the one at place b, in this
// order; so all nodes get the same bits.
Status Ring::allreduce(const Reduction& how, std::byte* buffer, uint64_t bytes) {
  const auto nodes = static_cast<uint64_t>(nodes_), me = static_cast<uint64_t>(place_);
  const uint64_t turns = 2 * (nodes - 1), unit = how.unit();
  const uint64_t most = window_ * nodes * (slot_bytes / unit), all = bytes / unit;
  const uint64_t passes = (all + most - 1) / most;  // of about the same size
  for (uint64_t pass = 0, next = 0; pass < passes; ++pass) {
    const uint64_t begin = next;
    next = begin + (all - begin) / (passes - pass);
    const uint64_t from = begin * unit, units = next - begin;
    // No more than its size asks for: a message costs more than what overlaps in smaller ones.
    const uint64_t pieces = (units * window_ + most - 1) / most, blocks = pieces * nodes;
    const auto edge = [&](uint64_t b) { return from + units * b / blocks * unit; };
    const auto block_of = [&](uint64_t piece, uint64_t place) {
      const uint64_t b = piece * nodes + place % nodes;
      return std::span(buffer + edge(b), edge(b + 1) - edge(b));
    };
    for (uint64_t turn = 0; turn <= turns; ++turn)
      for (uint64_t piece = 0; piece < pieces; ++piece) {
        if (turn > 0) {  // what the last turn brought: first parts of sums, then sums
          const std::byte* came = nullptr;
          SKERRY_TRY(take(&came));
          const auto into = block_of(piece, me + 2 * nodes - 1 - turn);
          if (turn < nodes) how.combine(into.data(), came, into.size());
          else copy_bytes(into.data(), came, into.size());
        }
        if (turn < turns) SKERRY_TRY(send(block_of(piece, me + 2 * nodes - 1 - turn)));
      }
  }
  return finish();
}

Status Ring::broadcast(std::byte* buffer, uint64_t bytes, int32_t root) {
  const auto nodes = static_cast<int64_t>(nodes_);
  const int64_t distance = (place_ - root + nodes) % nodes;
  const auto parts = static_cast<int64_t>((bytes + slot_bytes - 1) / slot_bytes);
  const auto part_at = [&](int64_t p) {
    const uint64_t from = static_cast<uint64_t>(p) * slot_bytes;
    return std::span(buffer + from, std::min(slot_bytes, bytes - from));
  };
  const auto exists = [&](int64_t p) { return p >= 0 && p < parts; };
  const int64_t messages = parts + nodes - 2;  // message k of a leader brings part k - distance
  const int64_t ahead = distance == 0 ? static_cast<int64_t>(window_) : 1;
  int64_t taken = 0;
  const auto take_part = [&]() -> Status {
    const std::byte* came = nullptr;
    SKERRY_TRY(take(&came));
    const int64_t p = taken++ - distance + 1;
    if (distance > 0 && exists(p)) copy_bytes(part_at(p).data(), came, part_at(p).size());
    return {};
  };
  for (int64_t k = 0; k < messages; ++k) {
    while (taken + ahead <= k) SKERRY_TRY(take_part());
    const int64_t p = k - distance;
    SKERRY_TRY(send(exists(p) && distance + 1 < nodes ? part_at(p) : std::span<std::byte>()));
  }
  while (taken < messages) SKERRY_TRY(take_part());
  return finish();
}

Status Ring::pass_on(int32_t first, uint64_t pieces,
                     const std::function<std::span<const std::byte>(Block)>& pack,
                     const std::function<void(Block, const std::byte*)>& unpack) {
  for (uint64_t from = 0; from < pieces; from += window_)
    for (int32_t turn = 0; turn < nodes_; ++turn)
      for (uint64_t piece = from; piece < std::min(pieces, from + window_); ++piece) {
        const Block block{piece, (first + 2 * nodes_ - turn) % nodes_};
        if (turn > 0) {
          const std::byte* came = nullptr;
          SKERRY_TRY(take(&came));
          unpack(block, came);
        }
        if (turn + 1 < nodes_) SKERRY_TRY(send(pack(block)));
      }
  return finish();
}

}  // namespace skerry::job
