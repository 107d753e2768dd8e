#include "job/ring.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/pure/assert.hpp"
#include "core/pure/copy_bytes.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "job/segment.hpp"

namespace skerry::job {

static_assert(Ring::piece_bytes(0, 8) == 8 && Ring::piece_bytes(65536, 1) == 65536,
              "what fits a slot goes at once");
static_assert(Ring::piece_bytes(65600, 8) == 32832, "in two that are about alike");
static_assert(Ring::piece_bytes(1 << 20, 40000) == 40000, "a unit for each message at least");
static_assert(Ring::piece_bytes(1 << 20, 8, 4) * 4 <= Ring::message_bytes(8 * 4), "with its parts");

// One call of a leader. It lends the server once, and not for each message. Afterwards neither a
// server nor the replay log knows of the program's buffer.
class Ring::Call {
 public:
  // `sends`: messages, of data that stays where it is meanwhile; 0: of other data.
  Call(Ring& ring, uint64_t sends) : ring_(ring) {
    server_.emplace(job());
    if (sends > 2 * ring.along_) ring.staying_ = ring.sent_ + sends - ring.along_;
  }
  // After an error the message that a fence would wait for may not have been sent. An empty one
  // behind all others takes its place.
  ~Call() {
    server_.reset();
    constexpr std::byte nothing{};
    if (ring_.staying_ != 0)
      (void)ring_.slots_->put_notify(ring_.right_, counter_at, {&nothing, 0}, {counter_at, 0});
    (void)forget_sent();
    if (ring_.landings_ != nullptr) job().node_servers()->withdraw_landings(ring_.slots_->id());
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The last messages are out: nobody waits for this rank while it computes.
  Status finish() {
    SKERRY_TRY(job().engine().push_out());
    return forget_sent();
  }

 private:
  Job& job() const { return ring_.slots_->job(); }
  // The other node's server may be lent to a leader that waits for ours in the same way: so this
  // one is given back first.
  Status forget_sent() {
    server_.reset();
    if (std::exchange(ring_.staying_, 0) == 0) return {};
    constexpr bool tells = false;  // of the program's own operations
    return job().engine().fence_node(job().map().node_of(ring_.right_), tells);
  }

  Ring& ring_;
  std::optional<Job::Borrowed> server_;
};

void Ring::open(Departure& departure, int32_t nodes, int32_t place, Rank left, Rank right) {
  departure_ = &departure;
  nodes_ = nodes;
  along_ = std::clamp<uint64_t>(most_slots / static_cast<uint64_t>(nodes), 1, most_along);
  window_ = std::min(along_, most_window);
  place_ = place;
  left_ = left;
  right_ = right;
}

// Under a cap each partner of a doubling would cost an eviction, where the ring has one neighbour.
Status Ring::prepare(Group& group, const std::function<Leaders()>& leaders, bool* ready) {
  if (slots_ == nullptr && !refused_) {
    int32_t capped = group.job().has_cap();  // of any member
    if (Doubling::serves(nodes_))
      SKERRY_TRY(group.reduce(ElementType::int32, Operation::max, &capped, 1, no_rank));
    const bool doubles = Doubling::serves(nodes_) && capped == 0;
    uint64_t bytes = doubling_at() + (doubles ? Doubling::slots_bytes(nodes_) : 0);
    if (!leads()) bytes = 0;
    const Status made = Segment::alloc(group, bytes, purpose_group, &slots_);
    if (made.code() == Code::no_memory) refused_ = true;
    else SKERRY_TRY(made);
    if (slots_ != nullptr) {
      group.forget_segment();  // it is the group's own
      auto [at, place_of] = leaders();
      place_of_ = std::move(place_of);
      doubles_ = doubles;
      if (doubles_ && leads())
        doubling_.open(*departure_, *slots_, doubling_counters_at, doubling_at(), std::move(at),
                       place_);
      NodeServers* const servers = slots_->job().node_servers();
      landings_ = leads() && servers != nullptr ? &servers->landings() : nullptr;
    }
  }
  *ready = slots_ != nullptr;
  return {};
}

Status Ring::close() {
  if (slots_ == nullptr) return {};
  Job& job = slots_->job();
  const Status status = slots_->close();
  job.objects().discard(std::exchange(slots_, nullptr));
  place_of_ = {};
  landings_ = nullptr;
  doubles_ = false;
  // The next slots, of a group that is used again, count anew.
  sent_ = taken_ = owed_ = unprepared_ = 0;
  return status;
}

Status Ring::send(std::span<const std::byte> data, uint64_t count) {
  sent_ += count;
  SKERRY_INVARIANT(sent_ <= taken_ + along_ && data.size() <= slot_bytes,
                   "no more under way than there is room for, and it fits");
  static constexpr std::byte nothing{};
  if (data.empty()) data = {&nothing, 0};
  // Who never looks at what was acknowledged seems about to run out of credits, and is sent an
  // acknowledgement for every message.
  if (sent_ % sends_a_look < count) slots_->job().engine().look();
  // What comes round says that it arrived. Only the last message that stays is waited for.
  return slots_->put_notify(right_, slot_of(sent_ - 1), data, {counter_at, count},
                            sent_ == staying_, sent_ <= staying_);
}

Status Ring::take(const std::byte** data) {
  SKERRY_TRY(departure_->wait(*slots_, counter_at, taken_ + 1, left_));
  const uint64_t slot = slot_of(taken_++);
  if (landings_ != nullptr) *data = landings_->take({slots_->id(), slots_->job().rank(), slot});
  if (landings_ == nullptr || *data == nullptr) *data = slots_->own() + slot;
  return {};
}

template <class Into>
void Ring::announce(uint64_t messages, const Into& into) {
  if (landings_ == nullptr) return;
  const uint64_t end = std::min(call_began_ + messages, taken_ + along_);
  for (; announced_ < end; ++announced_) {
    const std::span<std::byte> to = into(announced_ - call_began_);
    if (to.empty()) continue;
    landings_->announce({slots_->id(), slots_->job().rank(), slot_of(announced_)}, left_,
                        to.data(), to.size());
  }
}

Status Ring::take_owed() {
  const std::byte* nothing = nullptr;
  for (; owed_ > 0; --owed_) SKERRY_TRY(take(&nothing));
  announced_ = call_began_ = taken_;
  return {};
}

// Block b of a piece is summed from the node at place b + 1 on to the one at place b, in this
// order; so all nodes get the same bits.
Status Ring::allreduce(const Reduction& how, std::byte* buffer, uint64_t bytes) {
  if (doubles_ && Doubling::fits(bytes, how.unit())) return doubling_.allreduce(how, buffer, bytes);
  const auto nodes = static_cast<uint64_t>(nodes_), me = static_cast<uint64_t>(place_);
  const uint64_t turns = 2 * (nodes - 1), unit = how.unit();
  const uint64_t most = window_ * nodes * (message_bytes(unit) / unit), all = bytes / unit;
  const uint64_t passes = (all + most - 1) / most;  // of about the same size
  const uint64_t of_pass = (all + passes - 1) / passes;
  // No more than its size asks for: a message costs more than what overlaps in smaller ones.
  const uint64_t pieces = (of_pass * window_ + most - 1) / most, blocks = pieces * nodes;
  Call call(*this, passes * turns * pieces);
  SKERRY_TRY(take_owed());
  const auto block_of = [&](uint64_t pass, uint64_t piece, uint64_t turn) {
    const uint64_t b = piece * nodes + (me + 2 * nodes - turn) % nodes;
    const uint64_t begin = all * pass / passes, units = all * (pass + 1) / passes - begin;
    const uint64_t from = begin + units * b / blocks, to = begin + units * (b + 1) / blocks;
    return std::span(buffer + from * unit, (to - from) * unit);
  };
  const auto sum_of = [&](uint64_t k) -> std::span<std::byte> {
    const uint64_t pass = k / (turns * pieces), turn = k / pieces % turns + 1;
    return turn < nodes ? std::span<std::byte>() : block_of(pass, k % pieces, turn + 1);
  };
  for (uint64_t piece = 0; piece < pieces; ++piece) SKERRY_TRY(send(block_of(0, piece, 1)));
  for (uint64_t pass = 0; pass < passes; ++pass)
    for (uint64_t turn = 1; turn <= turns; ++turn)
      for (uint64_t piece = 0; piece < pieces; ++piece) {
        const std::byte* came = nullptr;  // first parts of sums, then sums
        announce(passes * turns * pieces, sum_of);
        SKERRY_TRY(take(&came));
        const auto into = block_of(pass, piece, turn + 1);
        if (turn < nodes) how.combine(into.data(), came, into.size());
        else if (came != into.data()) copy_bytes(into.data(), came, into.size());
        if (turn < turns) SKERRY_TRY(send(into));
        else if (pass + 1 < passes) SKERRY_TRY(send(block_of(pass + 1, piece, 1)));
      }
  return call.finish();
}

// The last leader, to the left of the first, sends as many messages without data: they say that the
// parts have come round. The first one sends no more than a window ahead of them.
Status Ring::pass_along(int32_t first, uint64_t parts, const OwnPart& own, const TookPart& took,
                        const IntoPart& into, bool stays) {
  Call call(*this, stays ? parts : 0);
  const bool is_last = (place_ + 1) % nodes_ == first;
  const std::byte* came = nullptr;
  if (place_ == first) {
    for (uint64_t p = 0; p < parts; ++p) {
      for (; sent_ == taken_ + along_; --owed_) SKERRY_TRY(take(&came));
      SKERRY_TRY(send(own(p)));
      ++owed_;
    }
    return call.finish();
  }
  SKERRY_TRY(take_owed());
  const uint64_t together = (along_ + 1) / 2;  // one wake-up of the first for so many
  uint64_t untold = 0;
  for (uint64_t p = 0; p < parts; ++p) {
    announce(parts, into);
    SKERRY_TRY(take(&came));
    const std::span<const std::byte> next = took(p, came);
    if (!is_last) {
      SKERRY_TRY(send(next));
    } else if (++untold == together || p + 1 == parts) {
      SKERRY_TRY(send({}, std::exchange(untold, 0)));
    }
  }
  return call.finish();
}

Status Ring::broadcast(std::byte* buffer, uint64_t bytes, int32_t root) {
  const uint64_t most = piece_bytes(bytes, 1);
  const auto part = [&](uint64_t p) {
    return std::span(buffer + p * most, std::min(most, bytes - p * most));
  };
  const auto took = [&](uint64_t p, const std::byte* came) {
    if (came != part(p).data()) copy_bytes(part(p).data(), came, part(p).size());
    return part(p);
  };
  return pass_along(root, (bytes + most - 1) / most, part, took, part, true);
}

Status Ring::reduce(const Reduction& how, std::byte* buffer, uint64_t bytes, int32_t root) {
  const uint64_t most = piece_bytes(bytes, how.unit());
  const auto part = [&](uint64_t p) {
    return std::span(buffer + p * most, std::min(most, bytes - p * most));
  };
  std::vector<std::byte> sum(place_ == root ? 0 : std::min(most, bytes));
  const auto took = [&](uint64_t p, const std::byte* came) -> std::span<const std::byte> {
    const std::span<std::byte> mine = part(p);
    if (place_ == root) {
      how.combine(mine.data(), came, mine.size());
      return {};
    }
    copy_bytes(sum.data(), mine.data(), mine.size());
    how.combine(sum.data(), came, mine.size());
    return {sum.data(), mine.size()};
  };
  const auto nowhere = [](uint64_t) { return std::span<std::byte>(); };
  return pass_along((root + 1) % nodes_, (bytes + most - 1) / most, part, took, nowhere, false);
}

Status Ring::pass_on(int32_t first, uint64_t pieces,
                     const std::function<std::span<const std::byte>(Block)>& pack,
                     const std::function<void(Block, const std::byte*)>& unpack,
                     const std::function<std::span<std::byte>(Block)>& land, bool stays) {
  const auto turns = static_cast<uint64_t>(nodes_ - 1), window_turns = window_ * turns;
  Call call(*this, stays ? pieces * turns : 0);
  SKERRY_TRY(take_owed());
  const auto block = [&](uint64_t piece, int32_t turn) {
    return Block{piece, (first + 2 * nodes_ - turn) % nodes_};
  };
  const auto into = [&](uint64_t k) {
    const uint64_t from = k / window_turns * window_, of_turn = std::min(window_, pieces - from);
    const uint64_t at = k % window_turns;
    return land(block(from + at % of_turn, static_cast<int32_t>(at / of_turn) + 1));
  };
  const auto begin = [&](uint64_t piece) {
    return piece < pieces ? send(pack(block(piece, 0))) : Status();
  };
  for (uint64_t piece = 0; piece < window_; ++piece) SKERRY_TRY(begin(piece));
  for (uint64_t from = 0; from < pieces; from += window_)
    for (int32_t turn = 1; turn < nodes_; ++turn)
      for (uint64_t piece = from; piece < std::min(pieces, from + window_); ++piece) {
        const std::byte* came = nullptr;
        announce(pieces * turns, into);
        SKERRY_TRY(take(&came));
        if (came != land(block(piece, turn)).data()) unpack(block(piece, turn), came);
        SKERRY_TRY(turn + 1 < nodes_ ? send(pack(block(piece, turn))) : begin(piece + window_));
      }
  return call.finish();
}

}  // namespace skerry::job
