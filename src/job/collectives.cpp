// The sweep, and the collectives that are made of it: see the top of group.hpp.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/pure/assert.hpp"
#include "core/pure/copy_bytes.hpp"
#include "job/group.hpp"
#include "job/job.hpp"

namespace skerry::job {
namespace {

// ---- messages ---------------------------------------------------------------------------------

// The first word of a message: how many bytes follow, and who is in which collective below.
//
//   bit 63: some stay | 55 to 24: rank + 1 of one that leaves the job, 0: none | 23 to 0: length
constexpr uint64_t some_stay = uint64_t{1} << 63;
constexpr uint64_t length_mask = (uint64_t{1} << 24) - 1;
constexpr int leaver_shift = 24;

uint64_t head_of(const std::byte* message) {
  uint64_t head;
  std::memcpy(&head, message, sizeof head);
  return head;
}
void set_head(std::byte* message, uint64_t head) { std::memcpy(message, &head, sizeof head); }
uint64_t length_of(const std::byte* message) { return head_of(message) & length_mask; }
Rank leaver_of(uint64_t head) {
  return static_cast<Rank>(((head & ~some_stay) >> leaver_shift)) - 1;
}

// Without the length.
uint64_t callers(uint64_t a, uint64_t b) {
  const uint64_t leaver = std::max(a & ~some_stay & ~length_mask, b & ~some_stay & ~length_mask);
  return leaver | ((a | b) & some_stay);
}
bool are_apart(uint64_t head) { return (head & some_stay) != 0 && leaver_of(head) != no_rank; }

// Whether all members are in the same kind of collective: the same answer on all.
Status check_together(const std::byte* message, Rank* leaver) {
  if (!are_apart(head_of(message))) return {};
  *leaver = leaver_of(head_of(message));
  return departed(*leaver);
}

// ---- what sweeps of whole buffers give and take -----------------------------------------------

auto copy_from(const void* buffer) {
  return [buffer](std::byte* chunk, uint64_t from, uint64_t bytes) {
    copy_bytes(chunk, static_cast<const std::byte*>(buffer) + from, bytes);
    return true;
  };
}

auto copy_to(void* buffer) {
  return [buffer](const std::byte* chunk, uint64_t from, uint64_t bytes) {
    copy_bytes(static_cast<std::byte*>(buffer) + from, chunk, bytes);
  };
}

// What two members gave becomes one. A call to which one member gives at most combines nothing. The
// others hear of such a mistake when this member leaves the job.
using Combine = std::function<void(std::byte* into, const std::byte* from, uint64_t bytes)>;
Status join(const Combine& combine, std::byte* into, const std::byte* from, uint64_t bytes) {
  if (combine == nullptr) [[unlikely]]
    return error(Code::invalid,
                 "other ranks are in a collective call in which all give something, this one is in "
                 "a barrier, a sync or a broadcast: all ranks make the same collective calls");
  combine(into, from, bytes);
  return {};
}

// ---- between nodes -----------------------------------------------------------------------------

// `between` brings it from the leader of the root's node to all others; null: this is no leader.
Status broadcast_by_node(const Job& job, NodeCollectives& node, std::byte* buffer, uint64_t bytes,
                         Rank root, const std::function<Status()>& between) {
  uint32_t from = 0;  // who has it on this node
  const bool is_here = job.map().node_of(root) == job.node();
  while (is_here && node.rank_of(from) != root) ++from;
  if (is_here && node.count() > 1) SKERRY_TRY(node.broadcast(buffer, bytes, from));
  if (between != nullptr) SKERRY_TRY(between());
  return is_here || node.count() == 1 ? Status() : node.broadcast(buffer, bytes, from);
}

// Buffers of others than the root stay as they are.
Status reduce_one_way(const Job& job, NodeCollectives& node, OneWay* leader, const Reduction& how,
                      std::byte* buffer, uint64_t bytes, Rank root) {
  constexpr uint32_t first = 0;
  alignas(64) std::byte sum[OneWay::most_bytes(1)];
  const NodeId to = job.map().node_of(root);
  copy_bytes(sum, buffer, bytes);
  if (node.count() > 1) SKERRY_TRY(node.reduce(how, sum, bytes, &first));
  if (leader != nullptr) SKERRY_TRY(leader->reduce(how, sum, bytes, to));
  if (to == job.node() && node.count() > 1) SKERRY_TRY(node.broadcast(sum, bytes, first));
  if (job.rank() == root) copy_bytes(buffer, sum, bytes);
  return {};
}

// The same for long ones, in pieces that all nodes make alike, also those of one member: elsewhere
// members that do not get the sum need room for it. `place`: of the root's node.
Status reduce_to_root(const Job& job, NodeCollectives& node, Ring& ring, const Reduction& how,
                      std::byte* buffer, uint64_t bytes, Rank root, int32_t place) {
  constexpr uint32_t first = 0;
  constexpr uint64_t messages = 17;  // a megabyte is one piece
  const uint64_t most = messages * Ring::message_bytes(how.unit()), unit = how.unit();
  const uint64_t pieces = std::max<uint64_t>(1, (bytes + most - 1) / most);
  const uint64_t piece = (bytes / unit + pieces - 1) / pieces * unit;
  const bool is_there = job.map().node_of(root) == job.node();
  const bool is_alone = node.count() == 1;
  std::vector<std::byte> room(is_alone || job.rank() == root ? 0 : std::min(piece, bytes));
  for (uint64_t from = 0; from < bytes; from += piece) {
    const uint64_t n = std::min(piece, bytes - from);
    if (is_alone) {
      SKERRY_TRY(ring.reduce(how, buffer + from, n, place));
      continue;
    }
    std::byte* const sum = room.empty() ? buffer + from : room.data();
    if (!room.empty()) copy_bytes(sum, buffer + from, n);
    SKERRY_TRY(node.reduce(how, sum, n, &first));
    if (ring.leads()) SKERRY_TRY(ring.reduce(how, sum, n, place));
    if (is_there) SKERRY_TRY(node.broadcast(sum, n, first));
  }
  return {};
}

// The members of the node at each place.
std::vector<std::vector<int32_t>> indices_by_place(const Group& group, const Ring& ring) {
  std::vector<std::vector<int32_t>> places(static_cast<size_t>(ring.nodes()));
  for (int32_t i = 0; i < group.size(); ++i) {
    const NodeId node = group.job().map().node_of(group.rank_of(i));
    places[static_cast<size_t>(ring.place_of(node))].push_back(i);
  }
  return places;
}

// Members of a node need not lie side by side, and nodes may have different numbers of them.
struct Blocks {
  std::vector<int32_t> order;    // of all parts, by place
  std::vector<uint64_t> begins;  // of each place, and the end: so many parts lie before it
};

Blocks blocks_of(const Group& group, const Ring& ring) {
  Blocks blocks{{}, {0}};
  for (const auto& members : indices_by_place(group, ring)) {
    blocks.order.insert(blocks.order.end(), members.begin(), members.end());
    blocks.begins.push_back(blocks.order.size());
  }
  return blocks;
}

// Leaders: the parts of all members, of `bytes` bytes each. Those of this node are there.
Status gather_by_doubling(const Ring& ring, Doubling& doubling, const Blocks& blocks,
                          std::byte* parts, uint64_t bytes) {
  const auto& [order, begins] = blocks;
  const auto block_at = [&](uint64_t block) { return begins[block] * bytes; };
  if (std::ranges::is_sorted(order)) return doubling.gather(parts, block_at);
  std::vector<std::byte> room(order.size() * bytes);
  const auto part = [&](uint64_t k) { return parts + static_cast<uint64_t>(order[k]) * bytes; };
  const auto mine = static_cast<size_t>(ring.place());
  for (uint64_t k = begins[mine]; k < begins[mine + 1]; ++k)
    copy_bytes(room.data() + k * bytes, part(k), bytes);
  SKERRY_TRY(doubling.gather(room.data(), block_at));
  for (uint64_t k = 0; k < order.size(); ++k)
    copy_bytes(part(k), room.data() + k * bytes, bytes);
  return {};
}

Status reduce_by_ring(NodeCollectives& node, Ring& ring, const Reduction& how, std::byte* buffer,
                      uint64_t bytes) {
  constexpr uint32_t leader = 0;
  if (node.count() > 1) SKERRY_TRY(node.reduce(how, buffer, bytes, &leader));
  if (ring.leads()) SKERRY_TRY(ring.allreduce(how, buffer, bytes));
  return node.count() > 1 ? node.broadcast(buffer, bytes, leader) : Status();
}

}  // namespace

Status check_reduction(ElementType type, int reduction) {
  constexpr int most = static_cast<int>(Operation::bit_xor);
  if (reduction < 0 || reduction > most)
    return error(Code::invalid, "reduction ", reduction, ": give a skerry_operation, 0 to ", most,
                 " (a reduction cannot replace)");
  return check_operation(type, static_cast<Operation>(reduction));
}

// ---- the sweep --------------------------------------------------------------------------------

// Who names one that leaves sends nothing more. So it counts for all that the recipient, which may
// be in another collective, waits for at once.
Status Group::send(Rank rank, uint64_t offset, std::span<const std::byte> data, uint64_t counter) {
  const bool is_last = leaver_of(head_of(data.data())) != no_rank;
  const bool is_fenced = is_last;  // of others what comes back says that they arrived
  return area_->put_notify(rank, offset, data, {counter, is_last ? depth : 1}, is_fenced);
}

// Who knows that somebody leaves does not wait for long: for one that comes later the message with
// that name is there.
Status Group::receive(const Sweep& what, uint64_t counter, uint64_t at_least, Sender from,
                      bool* is_late) {
  *is_late = false;
  if (ends_by_leave_) {
    constexpr int64_t known_ns = 2'000'000'000;
    const int64_t timeout_ns = what.leaver != no_rank ? known_ns : -1;
    const Status status =
        area_->wait_counter(counter, at_least, timeout_ns, nullptr, from.is_elsewhere);
    *is_late = status.code() == Code::timeout;
    return *is_late ? Status() : status;
  }
  const Status status =
      departure_->wait_in_sweep(counter, at_least, from.rank, from.is_elsewhere);
  if (!status.ok() && departure_->leaver() != no_rank) part_with(departure_->leaver());
  return status;
}

void Group::part_with(Rank leaver, bool now) {
  (void)job_->engine().fence_all(true);
  if (leaver_ == no_rank) leaver_ = leaver;
  node_.part_with(leaver);
  if (!is_on_one_node()) departure_->tell(leaver, now);
}

// At a top: what the other has gathered joins what this one has, in the same order at both.
Status Group::join_tops(const Sweep& what, std::byte* mine, std::byte* theirs) const {
  const uint64_t my_length = length_of(mine), their_length = length_of(theirs);
  const uint64_t who = callers(head_of(mine), head_of(theirs));
  if (!are_apart(who) && their_length != 0) {
    if (my_length != 0 && is_first_top_) {
      SKERRY_TRY(join(what.combine, mine + 8, theirs + 8, their_length));
    } else {
      if (my_length != 0) SKERRY_TRY(join(what.combine, theirs + 8, mine + 8, their_length));
      std::memcpy(mine + 8, theirs + 8, their_length);
    }
  }
  SKERRY_INVARIANT(
      my_length == their_length || my_length == 0 || their_length == 0 || are_apart(who),
      "all who give give as much");
  set_head(mine, who | std::max(my_length, their_length));
  return {};
}

// Chunk s of the tree: what this member gives, [from, from + bytes), joins what came from below.
Status Group::send_up(const Sweep& what, std::byte* message, uint64_t s, uint64_t from,
                      uint64_t bytes) {
  uint64_t length = what.contribute && what.contribute(message + 8, from, bytes) ? bytes : 0;
  const Rank leaver = what.leaves ? job_->rank() : what.leaver;
  uint64_t who = static_cast<uint64_t>(leaver + 1) << leaver_shift;
  if (!what.leaves) who |= some_stay;
  for (uint32_t c = 0; c < children_.size(); ++c) {
    // Slots at a parent are dense within the node and follow there for leaders: the order of
    // children_ is the order of slots.
    const bool is_leader = c + static_cast<size_t>(leaders_below_) >= children_.size();
    bool is_late = false;
    SKERRY_TRY(receive(what, up_counter(c), s + 1, {children_[c], is_leader}, &is_late));
    if (is_late) continue;
    const std::byte* const theirs = area_->own() + up_data(c, s);
    const uint64_t their_length = length_of(theirs);
    who = callers(who, head_of(theirs));
    if (their_length == 0 || are_apart(who)) continue;
    SKERRY_INVARIANT(length == 0 || length == their_length, "all who give give as much");
    if (length != 0) SKERRY_TRY(join(what.combine, message + 8, theirs + 8, their_length));
    else std::memcpy(message + 8, theirs + 8, their_length);
    length = their_length;
  }
  set_head(message, who | length);
  if (other_top_ != no_rank)
    return send(other_top_, top_data(other_children_, s), {message, 8 + length}, down_counter);
  return parent_ == no_rank ? Status()
                            : send(parent_, up_data(child_slot_, s), {message, 8 + length},
                                   up_counter(child_slot_));
}

Status Group::sweep(const Sweep& what) {
  if (survivors_.goes_on() && !what.is_half) [[unlikely]] {
    const bool brings_data = what.contribute || what.deliver;
    return survivors_.settle(brings_data ? Survivors::Call::brings_data : Survivors::Call::barrier,
                             [&] {
                               Sweep half = what;
                               half.is_half = true;
                               return sweep(half);
                             });
  }
  if (leaver_ != no_rank) return departed(leaver_);
  const memory::CallSpan call(counted(), memory::SpanKind::collective, no_rank, what.bytes);
  const Job::Borrowed server(*job_);
  SKERRY_ASSERT(what.unit > 0 && what.unit <= chunk_bytes, "a unit goes in one chunk");
  const uint64_t step = chunk_bytes / what.unit * what.unit;
  const uint64_t chunks = std::max<uint64_t>(1, (what.bytes + step - 1) / step);
  std::byte* const area = area_->own();
  buffer_.resize(std::max(buffer_.size(), std::min<uint64_t>(chunks, depth) * slot_bytes));
  const auto own_message = [&](uint64_t t) { return buffer_.data() + t % depth * slot_bytes; };
  auto up = [&](uint64_t t) {
    const uint64_t from = t * step;
    return send_up(what, own_message(t), chunk_ + t, from,
                   std::min(step, what.bytes - std::min(what.bytes, from)));
  };
  bool is_late = false;  // what comes from above
  auto result = [&](uint64_t t) -> const std::byte* {
    return parent_ == no_rank || is_late ? own_message(t) : area + down_data(chunk_ + t);
  };
  // Down go the chunks [t, end), after one wait for all: each wait may be a sleep. Chunk t tells
  // whether all members are in the same collective. If not, it is the last.
  auto down = [&](uint64_t t, uint64_t end) -> Status {
    if (const Rank above = parent_ != no_rank ? parent_ : other_top_; above != no_rank)
      SKERRY_TRY(receive(what, down_counter, chunk_ + end, {above, ring_.leads()}, &is_late));
    for (uint64_t d = t; d < end; ++d) {
      if (other_top_ != no_rank && !is_late)
        SKERRY_TRY(
            join_tops(what, own_message(d), area + top_data(children_.size(), chunk_ + d)));
      if (are_apart(head_of(result(d)))) end = d + 1;
    }
    // Leaders of other nodes first, they have further to go; and by turns from either end: under a
    // cap, the connection used last is there for the next burst.
    std::reverse(children_to_.begin(), children_to_.begin() + leaders_below_);
    for (const Rank child : children_to_)
      for (uint64_t d = t; d < end; ++d)
        SKERRY_TRY(send(child, down_data(chunk_ + d), {result(d), 8 + length_of(result(d))},
                        down_counter));
    SKERRY_TRY(check_together(result(t), &leaver_));
    for (uint64_t d = t; what.deliver && d < end; ++d)
      if (const uint64_t length = length_of(result(d)); length > 0)
        what.deliver(result(d) + 8, d * step, length);
    return {};
  };
  // As many chunks as there are buffers go up before they come down: under a cap below the number
  // of neighbours every change of direction costs an eviction. All members alike, or one would wait
  // for a chunk from above before it sends what those above wait for.
  for (uint64_t t = 0; t < chunks; t += depth) {
    const uint64_t end = std::min(t + depth, chunks);
    // A member that leaves sends one chunk, so nothing may wait for its second.
    bool together = true;
    for (uint64_t s = t; s < end && together; ++s) {
      SKERRY_TRY(up(s));
      together = !are_apart(head_of(own_message(s)));
    }
    SKERRY_TRY(down(t, end));
  }
  chunk_ += chunks;
  for (OneWay& one : one_way_) one.note_meeting();
  return {};
}

// ---- what is no sweep, between nodes ----------------------------------------------------------

// Those that wait for a member see that it leaves the job. They tell those that wait for them. In
// the world they come to the sweep that the leaver is in. Members that only gave come to it with
// their next call, or wait elsewhere for one that does. So the wait of those that know has a limit.
Status Group::apart(uint64_t bytes, const std::function<Status()>& what) {
  if (survivors_.goes_on()) return survivors_.settle(Survivors::Call::brings_data, what);
  const memory::CallSpan call(counted(), memory::SpanKind::collective, no_rank, bytes);
  departure_->begin_call();
  const Status status = what();
  const Rank leaver = departure_->leaver() != no_rank ? departure_->leaver() : node_.leaver();
  if (leaver == no_rank) [[likely]]
    return status;
  part_with(leaver, true);
  if (ends_by_leave_) {
    leaver_ = no_rank;
    Sweep meeting;
    meeting.leaver = leaver;
    const Status met = sweep(meeting);
    leaver_ = leaver;
    if (met.code() == Code::peer_dead) return met;
  }
  return departed(leaver_);
}

// Every member has a part of `bytes` bytes from `base` on. The leaders pass them round the ring in
// pieces of whole units: each begins with the parts of the node at place `first`.
Status Group::pass_parts(std::byte* base, uint64_t bytes, uint64_t unit, int32_t first,
                         const TakePart& take, bool replaces) {
  const std::vector<std::vector<int32_t>> places = indices_by_place(*this, ring_);
  uint64_t most = 1;
  for (const auto& members : places) most = std::max<uint64_t>(most, members.size());
  const uint64_t piece = Ring::piece_bytes(bytes, unit, most);
  SKERRY_INVARIANT(piece * most <= Ring::slot_bytes,
                   "a message holds a unit for each member of a node");
  const auto part = [&](int32_t i, uint64_t from) {
    return base + static_cast<uint64_t>(i) * bytes + from;
  };
  std::vector<std::byte> room(most > 1 ? Ring::slot_bytes : 0);  // of members' parts together
  const auto pack = [&](Ring::Block block) -> std::span<const std::byte> {
    const auto& members = places[static_cast<size_t>(block.place)];
    const uint64_t from = block.piece * piece, n = std::min(piece, bytes - from);
    if (members.size() == 1) return {part(members[0], from), n};
    for (size_t m = 0; m < members.size(); ++m)
      copy_bytes(room.data() + m * n, part(members[m], from), n);
    return {room.data(), n * members.size()};
  };
  const auto unpack = [&](Ring::Block block, const std::byte* data) {
    const uint64_t from = block.piece * piece, n = std::min(piece, bytes - from);
    for (const int32_t i : places[static_cast<size_t>(block.place)]) {
      take(part(i, from), data, n);
      data += n;
    }
  };
  const auto land = [&](Ring::Block block) -> std::span<std::byte> {
    const auto& members = places[static_cast<size_t>(block.place)];
    if (!replaces || members.size() != 1) return {};
    const uint64_t from = block.piece * piece;
    return {part(members[0], from), std::min(piece, bytes - from)};
  };
  return ring_.pass_on(first, (bytes + piece - 1) / piece, pack, unpack, land,
                       replaces && most == 1);
}

// Each part goes round once, and ends at the leader of the node whose member it is for.
Status Group::scatter_by_ring(const Reduction& how, std::byte* sum, std::byte* out,
                              uint64_t bytes) {
  constexpr uint32_t leader = 0;
  const auto part = [&](int32_t index) { return sum + static_cast<uint64_t>(index) * bytes; };
  if (node_.count() > 1)
    SKERRY_TRY(node_.reduce(how, sum, bytes * static_cast<uint64_t>(size()), &leader));
  if (ring_.leads())
    SKERRY_TRY(pass_parts(sum, bytes, how.unit(),
                          (ring_.place() + ring_.nodes() - 1) % ring_.nodes(),
                          [&](std::byte* into, const std::byte* from, uint64_t n) {
                            how.combine(into, from, n);
                          },
                          false));
  for (uint32_t member = 0; node_.count() > 1 && member < node_.count(); ++member)
    SKERRY_TRY(node_.broadcast(part(index_of(node_.rank_of(member))), bytes, leader));
  copy_bytes(out, part(index_), bytes);
  return {};
}

Status Group::gather_by_ring(const std::byte* mine, uint64_t bytes, std::byte* out) {
  const auto place = [&](uint32_t member) {
    return out + static_cast<uint64_t>(index_of(node_.rank_of(member))) * bytes;
  };
  if (node_.count() > 1) SKERRY_TRY(node_.gather_to(mine, bytes, place));
  else std::memmove(place(0), mine, bytes);
  const uint64_t all = bytes * static_cast<uint64_t>(size());
  if (ring_.leads()) {
    Doubling* const doubling = all <= Doubling::most_bytes ? ring_.doubling() : nullptr;
    const Blocks blocks = doubling != nullptr ? blocks_of(*this, ring_) : Blocks{};
    SKERRY_TRY(Doubling::fits(blocks.begins, bytes)
                   ? gather_by_doubling(ring_, *doubling, blocks, out, bytes)
                   : pass_parts(out, bytes, 1, ring_.place(), copy_bytes, true));
  }
  return node_.count() > 1 ? node_.broadcast(out, all, 0) : Status();
}

// ---- collectives ------------------------------------------------------------------------------

memory::Spans* Group::counted() {
  job_->local_counters().collectives.fetch_add(1, std::memory_order_relaxed);
  return &job_->spans();
}

Status Group::barrier() {
  if (is_on_one_node()) return in_node(0, [&] { return node_.barrier(); });
  return sweep(Sweep{});
}

Status Group::leave() {
  if (is_on_one_node()) return in_node(0, [&] { return node_.leave(); });
  if (leaver_ == no_rank) {
    (void)ring_.take_owed();  // the sweep tells of what is wrong
    part_with(job_->rank());
    leaver_ = no_rank;
  }
  Sweep last;
  last.leaves = true;
  return sweep(last);
}

// A request that was refused is reported by the fence, but the others wait for this member all the
// same. Only where nothing can come of a barrier any more is there none.
Status Group::sync() {
  const Status fenced = job_->engine().fence_all();
  if (survivors_.ends_before(fenced)) return fenced;
  SKERRY_TRY(barrier());
  return fenced;
}

Status Group::broadcast(void* buffer, uint64_t bytes, Rank root) {
  if (is_on_one_node())
    return in_node(bytes, [&] {
      return survivors_.rooted(node_.broadcast(static_cast<std::byte*>(buffer), bytes,
                                               static_cast<uint32_t>(index_of(root))));
    });
  auto* const data = static_cast<std::byte*>(buffer);
  const auto by_node = [&](const std::function<Status()>& between) {
    return broadcast_by_node(*job_, node_, data, bytes, root, ring_.leads() ? between : nullptr);
  };
  OneWay* way = nullptr;
  SKERRY_TRY(begin_one_way(bytes, &way));
  if (way != nullptr)
    return apart(bytes, [&] {
      return by_node([&] { return way->broadcast(data, bytes, job_->map().node_of(root)); });
    });
  bool ready = false;
  SKERRY_TRY(begin_along(bytes, &ready));
  if (ready) {
    const int32_t place = ring_.place_of(job_->map().node_of(root));
    return apart(bytes,
                 [&] { return by_node([&] { return ring_.broadcast(data, bytes, place); }); });
  }
  Sweep sweep_of;
  sweep_of.bytes = bytes;
  if (job_->rank() == root) sweep_of.contribute = copy_from(buffer);
  else sweep_of.deliver = copy_to(buffer);
  return sweep(sweep_of);
}

Status Group::reduce(ElementType type, Operation reduction, void* buffer, uint64_t count,
                     Rank root) {
  return reduce(Reduction::of(type, reduction), static_cast<std::byte*>(buffer),
                count * element_bytes(type), root);
}

Status Group::reduce(const Reduction& how, std::byte* buffer, uint64_t bytes, Rank root) {
  if (is_on_one_node())
    return in_node(bytes, [&] {
      const auto at = static_cast<uint32_t>(index_of(root));
      if (root == no_rank) return node_.reduce(how, buffer, bytes, nullptr);
      return survivors_.rooted(node_.reduce(how, buffer, bytes, &at));
    });
  constexpr int32_t rounds = 2;  // for the sums, and to hand them out
  if (root == no_rank && (is_long(bytes, rounds) || (!survivors_.goes_on() && ring_.sums(bytes)))) {
    bool ready = false;
    SKERRY_TRY(begin_long(&ready));
    if (ready)
      return apart(bytes, [&] { return reduce_by_ring(node_, ring_, how, buffer, bytes); });
  }
  if (root != no_rank) {
    OneWay* way = nullptr;
    SKERRY_TRY(begin_one_way(bytes, &way));
    if (way != nullptr)
      return apart(bytes, [&] {
        return reduce_one_way(*job_, node_, ring_.leads() ? way : nullptr, how, buffer, bytes,
                              root);
      });
    bool ready = false;
    SKERRY_TRY(begin_along(bytes, &ready));
    if (ready) {
      const int32_t place = ring_.place_of(job_->map().node_of(root));
      return apart(bytes, [&] {
        return reduce_to_root(*job_, node_, ring_, how, buffer, bytes, root, place);
      });
    }
  }
  Sweep sweep_of;
  sweep_of.bytes = bytes;
  sweep_of.unit = how.unit();
  sweep_of.contribute = copy_from(buffer);
  sweep_of.combine = [&](std::byte* into, const std::byte* from, uint64_t n) {
    how.combine(into, from, n);
  };
  if (root == no_rank || root == job_->rank()) sweep_of.deliver = copy_to(buffer);
  return sweep(sweep_of);
}

// A sum in which every byte has one contributor: members fill their own part of zeros and parts are
// or-ed. Moves size x bytes over each edge, twice what a gather and a broadcast along the same tree
// would move up. A part may be longer than a chunk, and is taken apart then.
Status Group::gather(const void* mine, uint64_t bytes, int32_t first, int32_t end, uint64_t unit,
                     Deliver deliver) {
  if (first >= end) return {};
  SKERRY_INVARIANT(first >= 0 && end <= size(), "parts are of members");
  if (is_on_one_node())
    return in_node(bytes, [&] {
      const auto take = [&](uint32_t member, const std::byte* data, uint64_t from, uint64_t n) {
        const auto m = static_cast<int32_t>(member);
        if (m >= first && m < end)
          deliver(data, static_cast<uint64_t>(m - first) * bytes + from, n);
      };
      return node_.gather(static_cast<const std::byte*>(mine), bytes, take);
    });
  Sweep sweep_of;
  sweep_of.unit = unit;
  sweep_of.deliver = std::move(deliver);
  sweep_of.bytes = bytes * static_cast<uint64_t>(end - first);
  const bool gives = index_ >= first && index_ < end;
  const uint64_t mine_from = gives ? bytes * static_cast<uint64_t>(index_ - first) : 0;
  sweep_of.contribute = [&](std::byte* chunk, uint64_t from, uint64_t n) {
    const uint64_t low = std::max(from, mine_from), high = std::min(from + n, mine_from + bytes);
    if (!gives || low >= high) return false;
    std::memset(chunk, 0, n);
    std::memcpy(chunk + (low - from), static_cast<const std::byte*>(mine) + (low - mine_from),
                high - low);
    return true;
  };
  sweep_of.combine = [](std::byte* into, const std::byte* from, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) into[i] |= from[i];
  };
  return sweep(sweep_of);
}

Status Group::allgather(const void* in, uint64_t bytes, void* out) {
  const uint64_t all = bytes * static_cast<uint64_t>(size());
  if (!is_on_one_node() && all != 0 &&
      (is_long(all) || (!survivors_.goes_on() && ring_.gathers(all, size() == nodes_)))) {
    bool ready = false;
    SKERRY_TRY(begin_long(&ready));
    if (ready)
      return apart(all, [&] {
        return gather_by_ring(static_cast<const std::byte*>(in), bytes,
                              static_cast<std::byte*>(out));
      });
  }
  if (!is_on_one_node()) return gather(in, bytes, 0, size(), 1, copy_to(out));
  return in_node(bytes, [&] {
    return node_.gather_to(
        static_cast<const std::byte*>(in), bytes,
        [&](uint32_t member) { return static_cast<std::byte*>(out) + member * bytes; });
  });
}

Status Group::combine_bytes(void* value, uint64_t bytes,
                            const std::function<void(std::byte*, const std::byte*)>& merge) {
  if (is_on_one_node())
    return in_node(bytes, [&] {
      using Merge = std::remove_cvref_t<decltype(merge)>;
      const auto call = [](void* context, std::byte* into, const std::byte* from, uint64_t) {
        (*static_cast<const Merge*>(context))(into, from);
      };
      const Reduction how(bytes, call, const_cast<Merge*>(&merge));
      return node_.reduce(how, static_cast<std::byte*>(value), bytes, nullptr);
    });
  Sweep sweep_of;
  sweep_of.bytes = sweep_of.unit = bytes;
  sweep_of.contribute = copy_from(value);
  sweep_of.combine = [&](std::byte* into, const std::byte* from, uint64_t) { merge(into, from); };
  sweep_of.deliver = copy_to(value);
  return sweep(sweep_of);
}

Status Group::agree(const Status& mine) {
  int32_t first = mine.ok() ? size() : index_;
  SKERRY_TRY(reduce(ElementType::int32, Operation::min, &first, 1, no_rank));
  return explain(first, mine);
}

Status Group::explain(int32_t first, const Status& mine) {
  if (first == size()) return {};
  SKERRY_INVARIANT(first >= 0 && first < size() && (first != index_ || !mine.ok()),
                   "who failed first is a member that failed");
  struct Report {
    int32_t code;
    char text[1020];
  } report{};
  if (first == index_) {
    report.code = static_cast<int32_t>(mine.code());
    mine.message().copy(report.text, sizeof report.text - 1);
  }
  SKERRY_TRY(broadcast(&report, sizeof report, rank_of(first)));
  return Status(static_cast<Code>(report.code), report.text);
}

}  // namespace skerry::job
