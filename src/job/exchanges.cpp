// Collectives in which every member gets something of its own: alltoall, reduce_scatter, scan.
//
// On one node the last two are gathers of which each member reads what concerns it: one copy to a
// board, one pass over what others gave. Between nodes a long reduce_scatter goes round the ring
// once; otherwise they are made of an allreduce and of allgathers, in pieces.
//
// An alltoall goes through the boards of all nodes. Every member writes what it has for each other
// one. All meet. Every member gets what the others have for it, and all meet again.
#include <algorithm>
#include <vector>

#include "core/pure/assert.hpp"
#include "core/pure/copy_bytes.hpp"
#include "job/group.hpp"
#include "job/job.hpp"

namespace skerry::job {

Status Group::exchange(const Parts& in, const std::byte* from, const Parts& out, std::byte* to) {
  const auto members = static_cast<uint64_t>(size());
  uint64_t most = 0;  // of all pairs
  for (int32_t i = 0; i < size(); ++i) most = std::max({most, in.bytes(i), out.bytes(i)});
  // Also the barrier in which a member that leaves the job is found.
  SKERRY_TRY(reduce(ElementType::uint64, Operation::max, &most, 1, no_rank));
  if (most == 0) return {};
  constexpr bool again = true;
  SKERRY_TRY(node_.prepare(again));
  Segment* const boards = node_.boards();
  if (boards == nullptr)
    return error(Code::no_memory, "an alltoall needs a board of ", NodeCollectives::board_bytes,
                 " bytes on every member, and some node has no memory for them");
  const uint64_t room = NodeCollectives::board_bytes / members / 8 * 8;
  if (room == 0)
    return error(Code::unsupported, "an alltoall in a group of ", members, " members: at most ",
                 NodeCollectives::board_bytes / 8);
  const auto part = [](const Parts& parts, int32_t i, uint64_t at, uint64_t n) {
    return std::min(n, parts.bytes(i) - std::min(parts.bytes(i), at));
  };
  const auto place = [&](int32_t i) { return static_cast<uint64_t>(i) * room; };
  // A request of the program's that was refused earlier may be reported here. The others go on, so
  // this member does.
  Status first;
  for (uint64_t at = 0; at < most; at += room) {
    for (int32_t i = 0; i < size(); ++i)
      copy_bytes(boards->own() + place(i), from + in.offset(i) + at, part(in, i, at, room));
    SKERRY_TRY(barrier());
    // By turns, so that not all ask the same member at once.
    for (int32_t turn = 0; turn < size(); ++turn) {
      const int32_t i = (index_ + turn) % size();
      origin::Side there, here;
      there.offset = place(index_);
      here.base = to + out.offset(i) + at;
      there.bytes = here.bytes = part(out, i, at, room);
      if (here.bytes == 0) continue;
      first.also(boards->issue(
          origin::Access::get(boards->target(rank_of(i)), there, here, origin::Mode::implicit)));
    }
    first.also(job_->engine().wait_implicit());
    if (survivors_.ends_before(first)) return first;  // otherwise the barrier says so to all
    SKERRY_TRY(barrier());  // all have read this member's board
  }
  return first;
}

Status Group::reduce_scatter(ElementType type, Operation reduction, const std::byte* in,
                             std::byte* out, uint64_t count) {
  const uint64_t bytes = count * element_bytes(type), all = bytes * static_cast<uint64_t>(size());
  const Reduction how = Reduction::of(type, reduction);
  const uint64_t low = bytes * static_cast<uint64_t>(index_), high = low + bytes;
  if (!is_on_one_node()) {
    std::vector<std::byte> sum(in, in + all);
    if (is_long(all)) {
      bool ready = false;
      SKERRY_TRY(begin_long(&ready));
      if (ready)
        return apart(all, [&] { return scatter_by_ring(how, sum.data(), out, bytes); });
    }
    SKERRY_TRY(reduce(how, sum.data(), all, no_rank));
    copy_bytes(out, sum.data() + low, bytes);
    return {};
  }
  return in_node(all, [&] {
    const auto take = [&](uint32_t member, const std::byte* data, uint64_t from, uint64_t n) {
      const uint64_t first = std::max(from, low), end = std::min(from + n, high);
      if (first >= end) return;
      if (member == 0) copy_bytes(out + (first - low), data + (first - from), end - first);
      else how.combine(out + (first - low), data + (first - from), end - first);
    };
    SKERRY_TRY(node_.gather(in, all, take));
    if (size() == 1) how.normalise(out, bytes);
    return Status();
  });
}

Status Group::scan(ElementType type, Operation reduction, std::byte* buffer, uint64_t count,
                   bool inclusive) {
  const Reduction how = Reduction::of(type, reduction);
  const uint64_t bytes = count * how.unit();
  std::vector<std::byte> before;  // what comes before this member, of the present piece
  const int32_t last = inclusive ? index_ : index_ - 1;
  const auto take = [&](int32_t member, const std::byte* data, uint64_t from, uint64_t n) {
    if (member <= last && member == 0) before.assign(data, data + n);
    else if (member <= last) how.combine(before.data(), data, n);
    // What this member gave to the piece is read by itself no more.
    if (member == std::max(index_, last) && last >= 0) {
      if (last == 0) how.normalise(before.data(), n);
      copy_bytes(buffer + from, before.data(), n);
    }
  };
  if (is_on_one_node())
    return in_node(bytes, [&] {
      return node_.gather(buffer, bytes,
                          [&](uint32_t member, const std::byte* data, uint64_t from, uint64_t n) {
                            take(static_cast<int32_t>(member), data, from, n);
                          });
    });
  constexpr uint64_t most_bytes = 1 << 20;
  const auto members = static_cast<uint64_t>(size());
  const uint64_t piece = std::max<uint64_t>(1, most_bytes / members / how.unit()) * how.unit();
  std::vector<std::byte> all(std::min(piece, bytes) * members);
  for (uint64_t from = 0; from < bytes; from += piece) {
    const uint64_t n = std::min(piece, bytes - from);
    SKERRY_TRY(allgather(buffer + from, n, all.data()));
    for (int32_t m = 0; m <= index_; ++m)
      take(m, all.data() + static_cast<uint64_t>(m) * n, from, n);
  }
  return {};
}

}  // namespace skerry::job
