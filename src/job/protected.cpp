#include "job/protected.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>

#include "job/group.hpp"
#include "job/job.hpp"
#include "job/segment.hpp"

namespace skerry::job {

namespace {

constexpr uint64_t tile_bytes = 4096;
constexpr uint64_t piece_bytes = uint64_t{1} << 20;  // that are brought back at once

// The bytes of all parts, one behind the other, a tile at a time.
class Tiles {
 public:
  explicit Tiles(const std::vector<std::span<std::byte>>& parts) : parts_(parts) {}
  // Valid until the next call. Empty: there are no more.
  std::span<const std::byte> next() {
    size_t filled = 0;
    while (part_ < parts_.size() && filled < tile_bytes) {
      const auto rest = parts_[part_].subspan(at_);
      const size_t some = std::min<size_t>(rest.size(), tile_bytes - filled);
      at_ += some;
      if (some == tile_bytes) return rest.first(some);
      std::ranges::copy(rest.first(some), buffer_.begin() + static_cast<ptrdiff_t>(filled));
      filled += some;
      if (some == rest.size()) {
        ++part_;
        at_ = 0;
      }
    }
    return {buffer_.data(), filled};
  }

 private:
  const std::vector<std::span<std::byte>>& parts_;
  size_t part_ = 0, at_ = 0;
  std::array<std::byte, tile_bytes> buffer_;
};

Status move(wire::Kind kind, Segment& segment, Rank rank, uint64_t offset,
            std::span<const std::byte> data) {
  SKERRY_TRY(segment.check(rank, offset, data.size()));
  origin::Access access;
  access.kind = kind;
  access.target = segment.target(rank);
  access.remote.offset = offset;
  access.local.base = const_cast<std::byte*>(data.data());
  access.remote.bytes = access.local.bytes = data.size();
  return segment.issue(access);
}

template <class T>
Status gather(Group& group, const T& mine, std::vector<T>* all) {
  all->resize(static_cast<size_t>(group.size()));
  return group.allgather(&mine, sizeof(T), all->data());
}

Status fence(Job& job) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return job.engine().fence_all();
}

uint64_t total_of(const std::vector<std::span<std::byte>>& parts) {
  uint64_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  return bytes;
}

}  // namespace

Protected::Protected(Group& group, int distance)
    : group_(Shelf<Group>::handle_of(&group)),
      distance_(distance),
      is_to_join_(group.job().spares_.is_one() && &group == &group.job().world()) {}

Group& Protected::group() const { return *Shelf<Group>::object_of(group_); }

// ---- saving -----------------------------------------------------------------------------------

Status Protected::save(int64_t step) {
  const uint64_t length = total_of(parts_);
  SKERRY_TRY(check_terms({length, step, is_running_ ? steps_ : 0, is_running_ ? every_ : 0}));
  if (copies_ == nullptr || copies_->bytes != length) {
    std::shared_ptr<Copies> made;
    SKERRY_TRY(make_copies(length, &made));
    if (copies_ != nullptr && copies_ != state_)
      (void)group().job().objects().free(copies_->segment);
    copies_ = std::move(made);
  }
  Copies& copies = *copies_;
  const int slot = state_ == copies_ ? 1 - copies.slot : 0;
  Status written = write(copies, slot, std::exchange(copies.is_torn, true));
  if (written.ok()) written = fence(group().job());
  SKERRY_TRY(agree(written));
  copies.is_torn = false;
  copies.slot = slot;
  step_ = step;
  ++number_;
  bytes_ = length;
  places_ = group().size();
  const std::shared_ptr<Copies> before = std::exchange(state_, copies_);
  Objects& objects = group().job().objects();
  if (before != nullptr && before != copies_ && !before->is_abandoned)
    (void)objects.free(before->segment);
  if (Segment* const held = std::exchange(held_, nullptr); held != nullptr)
    (void)objects.free(held);
  return part();
}

// Otherwise some members save where others work, and their collectives meet. All find it alike.
Status Protected::check_terms(const Terms& mine) const {
  std::vector<Terms> all;
  SKERRY_TRY(gather(group(), mine, &all));
  const auto other = std::ranges::find_if(all, [&](const Terms& each) { return each != mine; });
  if (other == all.end()) return {};
  const Rank rank = group().rank_of(static_cast<int32_t>(other - all.begin()));
  if (other->steps != mine.steps || other->every != mine.every)
    return error(Code::invalid, "the members run different loops: this rank one of ", mine.steps,
                 " steps that saves before every ", mine.every, ", rank ", rank, " one of ",
                 other->steps, " and ", other->every, " (0: none). Give the same on each");
  if (other->step != mine.step)
    return error(Code::invalid, "the members save different steps: this rank ", mine.step,
                 ", rank ", rank, " ", other->step, ". Give the same on each");
  return error(Code::invalid, "the members protect different numbers of bytes: this rank ",
               mine.bytes, ", rank ", rank, " ", other->bytes, ". Add as many on each");
}

// By position; -1: none.
Status Protected::partners(std::vector<int32_t>* found) const {
  const Group& members = group();
  const placement::NodeMap& map = members.job().map();
  std::map<NodeId, std::vector<int32_t>> by_node;
  for (int32_t m = 0; m < members.size(); ++m)
    by_node[map.node_of(members.rank_of(m))].push_back(m);
  found->assign(static_cast<size_t>(members.size()), -1);
  if (distance_ == 0) return {};
  if (by_node.size() == 1) {
    if (members.job().views_.deaths() == 0)
      return error(Code::invalid,
                   "no partner: the group is on one node. With distance 0 copies stay on it");
    return {};
  }
  std::vector<const std::vector<int32_t>*> nodes;
  for (const auto& [node, there] : by_node) nodes.push_back(&there);
  const size_t step = static_cast<size_t>(distance_ - 1) % (nodes.size() - 1) + 1;
  for (size_t at = 0; at < nodes.size(); ++at) {
    const std::vector<int32_t>& there = *nodes[(at + step) % nodes.size()];
    for (size_t i = 0; i < nodes[at]->size(); ++i)
      (*found)[static_cast<size_t>((*nodes[at])[i])] = there[i % there.size()];
  }
  return {};
}

// Collective.
Status Protected::make_copies(uint64_t length, std::shared_ptr<Copies>* made) const {
  auto copies = std::make_shared<Copies>();
  copies->bytes = length;
  copies->room = (length + 63) / 64 * 64;
  std::vector<int32_t> to;
  SKERRY_TRY(partners(&to));
  std::vector<uint64_t> used(to.size(), 2 * copies->room);
  for (size_t m = 0; m < to.size(); ++m) {
    Source& source = copies->sources.emplace_back();
    source.own = {group().rank_of(static_cast<int32_t>(m)), 0};
    if (to[m] < 0) continue;
    uint64_t& there = used[static_cast<size_t>(to[m])];
    source.partner = {group().rank_of(to[m]), there};
    there += 2 * copies->room;
  }
  copies->me = static_cast<size_t>(group().index());
  SKERRY_TRY(Segment::alloc(group(), used[copies->me], purpose_program, &copies->segment));
  *made = std::move(copies);
  return {};
}

// Tiles that differ from the copy before the last. Ends before they have arrived.
Status Protected::write(Copies& copies, int into, bool everything) const {
  const uint64_t begin = static_cast<uint64_t>(into) * copies.room;
  std::byte* const mine = copies.segment->own() + begin;
  const Place& partner = copies.sources[copies.me].partner;
  Tiles tiles(parts_);
  uint64_t at = 0;
  for (auto tile = tiles.next(); !tile.empty(); at += tile.size(), tile = tiles.next()) {
    // A state that was broken off may have changed the copy here and not there.
    if (!everything && std::memcmp(mine + at, tile.data(), tile.size()) == 0) continue;
    std::ranges::copy(tile, mine + at);
    if (partner.rank != no_rank)
      SKERRY_TRY(move(wire::Kind::put, *copies.segment, partner.rank, partner.offset + begin + at,
                      {mine + at, tile.size()}));
  }
  return {};
}

// One answer for all. An error of one member is one of all, which wait for it.
Status Protected::agree(const Status& mine) {
  struct Mark {
    int64_t status;
    int32_t leaves, may_grow;
  };
  Group& members = group();
  const Mark mark{static_cast<int64_t>(mine.code()), members.job().views_.leaves() ? 1 : 0,
                  members.survivors_.spares() > 0 && (divide_ != nullptr || !is_running_) ? 1 : 0};
  std::vector<Mark> marks;
  SKERRY_TRY(gather(members, mark, &marks));
  SKERRY_TRY(mine);
  leaving_.clear();
  may_grow_ = false;
  for (size_t m = 0; m < marks.size(); ++m) {
    const Rank rank = members.rank_of(static_cast<int32_t>(m));
    if (marks[m].leaves != 0) leaving_.push_back(rank);
    may_grow_ = may_grow_ || marks[m].may_grow != 0;
    if (marks[m].status == 0) continue;
    return error(static_cast<Code>(marks[m].status), "rank ", rank,
                 " refused its part: see its message");
  }
  return {};
}

// The state is whole: ranks whose host is drained leave, or spares come in. Nobody leaves if all
// copies of some member would go with the nodes that are left by their leaders. All members find
// the same.
Status Protected::part() const {
  if (leaving_.empty() && may_grow_)
    return error(Code::peer_dead, "spares have come, and take the places of the dead");
  if (leaving_.empty() || distance_ == 0 || std::ssize(leaving_) == group().size()) return {};
  const auto goes = [&](const Place& place) {
    return place.rank == no_rank || std::ranges::count(leaving_, leader_of(place)) != 0;
  };
  if (std::ranges::any_of(state_->sources, [&](const Source& each) {
        return goes(each.own) && goes(each.partner);
      }))
    return {};
  if (std::ranges::count(leaving_, group().job().rank()) != 0) {
    std::fflush(nullptr);
    _exit(0);
  }
  return error(Code::peer_dead, "ranks leave, since their host is drained");
}

// With whom its memory goes.
Rank Protected::leader_of(const Place& place) const {
  const placement::NodeMap& map = group().job().map();
  return map.leader(map.node_of(place.rank));
}

// ---- recovering -------------------------------------------------------------------------------

Status Protected::recover(int64_t timeout_ns) {
  for (;;) {
    Job& job = group().job();
    Group* full = nullptr;
    Status status = group().survivors_.refill(timeout_ns, &full);
    bool is_final = !status.ok() && (job.spares_.is_unneeded() || !job.check_abort().ok());
    if (status.ok()) {
      group_ = Shelf<Group>::handle_of(full);
      // Of a group in which somebody died: they stay in memory until the job ends.
      for (const auto& each : {copies_, state_})
        if (each != nullptr) each->is_abandoned = true;
      held_ = nullptr;
      copies_ = nullptr;
      status = bring_back(&is_final);
      if (status.ok()) is_to_join_ = false;
    }
    // Otherwise it was another death.
    if (status.code() != Code::peer_dead || is_final) return status;
  }
}

// Nodes that a member knows to be lost, ascending: the same on all. Collective.
Status Protected::lost_nodes(std::vector<NodeId>* lost) const {
  Job& job = group().job();
  std::vector<int32_t> is_lost(static_cast<size_t>(job.map().nodes()));
  for (const Rank rank : job.views_.dead()) {
    const NodeId node = job.map().node_of(rank);
    if (job.map().leader(node) == rank) is_lost[static_cast<size_t>(node)] = 1;
  }
  SKERRY_TRY(group().reduce(ElementType::int32, Operation::max, is_lost.data(), is_lost.size(),
                            no_rank));
  for (size_t n = 0; n < is_lost.size(); ++n)
    if (is_lost[n] != 0) lost->push_back(static_cast<NodeId>(n));
  return {};
}

Status Protected::bring_back(bool* is_lost) {
  std::vector<Has> all;
  const Has mine{state_ != nullptr ? number_ : 0, step_, bytes_, places_,
                 is_running_ ? before_loop_ : 0};
  SKERRY_TRY(gather(group(), mine, &all));
  const Has last = *std::ranges::max_element(all, {}, &Has::number);
  if (last.number == 0) return {};  // nothing was saved yet
  if (last.number <= std::ranges::max(all, {}, &Has::before_loop).before_loop) {
    *is_lost = true;
    return error(Code::peer_dead, "a rank died before the first state of the loop was complete");
  }
  std::vector<Rank> holders;
  for (size_t m = 0; m < all.size(); ++m)
    if (all[m].number == last.number) holders.push_back(group().rank_of(static_cast<int32_t>(m)));
  const auto members = static_cast<int64_t>(all.size());
  const auto rounds = static_cast<uint64_t>((last.places + members - 1) / members);
  SKERRY_TRY(Segment::alloc(group(), rounds * last.bytes, purpose_program, &held_));
  std::vector<NodeId> lost;
  SKERRY_TRY(lost_nodes(&lost));
  int32_t worst = -1;
  Status given;
  if (state_ != nullptr) given = give(holders, lost, last, &worst);
  if (given.ok()) given = fence(group().job());
  SKERRY_TRY(agree(given));
  SKERRY_TRY(group().reduce(ElementType::int32, Operation::max, &worst, 1, no_rank));
  if (worst >= 0) {
    *is_lost = true;
    return error(Code::peer_dead, "what the member at position ", worst,
                 " had protected is lost: its node and its partner's are");
  }
  number_ = last.number;
  step_ = last.step;
  bytes_ = last.bytes;
  places_ = static_cast<int32_t>(last.places);
  return {};
}

// Puts what this rank is to bring to where read() finds it. *lost_place: one without a copy; as it
// was if there is none.
Status Protected::give(std::span<const Rank> holders, std::span<const NodeId> lost,
                       const Has& last, int32_t* lost_place) const {
  Job& job = group().job();
  const auto lives = [&](const Place& place) {
    return place.rank != no_rank &&
           !std::ranges::binary_search(lost, job.map().node_of(place.rank));
  };
  std::vector<std::byte> buffer(std::min(piece_bytes, last.bytes));
  const int32_t members = group().size();
  for (int32_t place = 0; place < last.places; ++place) {
    const Source& source = state_->sources[static_cast<size_t>(place)];
    if (!lives(source.own) && !lives(source.partner)) {
      *lost_place = place;
      return {};
    }
    const Place& from = lives(source.own) ? source.own : source.partner;
    const bool holds = std::ranges::count(holders, from.rank) != 0;
    const Rank giver = holds ? from.rank : holders[static_cast<size_t>(place) % holders.size()];
    if (giver != job.rank()) continue;
    const uint64_t to = static_cast<uint64_t>(place / members) * last.bytes;
    for (uint64_t at = 0; at < last.bytes; at += piece_bytes) {
      const std::span part(buffer.data(), std::min(piece_bytes, last.bytes - at));
      SKERRY_TRY(move(wire::Kind::get, *state_->segment, from.rank,
                      from.offset + state_->begin() + at, part));
      SKERRY_TRY(move(wire::Kind::put, *held_, group().rank_of(place % members), to + at, part));
    }
  }
  return {};
}

Status Protected::read(int32_t place, uint64_t offset, std::span<std::byte> to) const {
  if (place < 0 || place >= places_ || offset > bytes_ || to.size() > bytes_ - offset)
    return error(Code::invalid, to.size(), " bytes at offset ", as_written(offset),
                 " of position ", place, ": the state has ", places_, " positions, from 0 on, of ",
                 bytes_, " bytes");
  if (held_ == nullptr) {
    const Place& own = state_->sources[static_cast<size_t>(place)].own;
    return move(wire::Kind::get, *state_->segment, own.rank, own.offset + state_->begin() + offset,
                to);
  }
  const int32_t members = group().size();
  return move(wire::Kind::get, *held_, group().rank_of(place % members),
              static_cast<uint64_t>(place / members) * bytes_ + offset, to);
}

// ---- the loop ---------------------------------------------------------------------------------

Status Protected::next(uint64_t steps, uint64_t every, bool has_died, uint64_t* step) {
  const bool begins = !std::exchange(is_running_, true);
  if (begins) {
    at_ = 0;
    steps_ = steps;
    every_ = every;
    before_loop_ = number_;
    has_died = has_died || is_to_join_;
  } else if (!has_died) {
    ++at_;
  }
  for (;;) {
    Status status;
    bool is_lost = false;
    if (steps != steps_ || every != every_) {
      status = error(Code::invalid, "steps ", steps, " and every ", every, " in a loop of ", steps_,
                     " and ", every_, ": give the same in each call");
    } else if (has_died) {
      status = go_back(&is_lost);
    } else if ((at_ % every == 0 || at_ == steps) &&
               (begins || step_ != static_cast<int64_t>(at_))) {
      // A state of step 0 that is there when a loop begins is an earlier one's.
      status = save(static_cast<int64_t>(at_));
    }
    if (status.ok()) break;
    has_died = status.code() == Code::peer_dead && !is_lost;
    if (has_died) continue;
    is_running_ = false;
    return status;
  }
  is_running_ = at_ != steps;
  *step = at_;
  return {};
}

Status Protected::go_back(bool* is_lost) {
  *is_lost = true;  // what recover() could not mend
  SKERRY_TRY(recover(-1));
  ++recoveries_;
  if (step_ < 0)
    return error(Code::peer_dead, "a rank died before the first state was complete");
  *is_lost = false;
  at_ = static_cast<uint64_t>(step_);
  // What one could not take ends the loop on all.
  SKERRY_TRY(agree(take(is_lost)));
  return save(step_);  // with partners of the new group
}

Status Protected::take(bool* is_lost) {
  if (group().size() != places_) {
    if (divide_ != nullptr) return divide_();
    *is_lost = true;
    return error(Code::peer_dead, "the group has ", group().size(), " members now, and ", places_,
                 " have protected: give a function that divides the state among them, or start "
                 "the job with --spares");
  }
  if (const uint64_t length = total_of(parts_); length != bytes_)
    return error(Code::invalid, "what this rank protects has ", length, " bytes, the last state ",
                 bytes_, ": a rank died before the next state, from which on counts what is added "
                 "or forgotten");
  uint64_t at = 0;
  for (const auto& part : parts_) {
    SKERRY_TRY(read(group().index(), at, part));
    at += part.size();
  }
  return {};
}

Status Protected::free() {
  Objects& objects = group().job().objects();
  const bool is_idle = group().is_freed();  // all have freed it, and no call uses the copies since
  Status status;
  for (const auto& each : {copies_, copies_ == state_ ? nullptr : state_})
    if (each != nullptr && !each->is_abandoned) status.also(objects.free(each->segment, is_idle));
  if (held_ != nullptr) status.also(objects.free(held_, is_idle));
  copies_ = state_ = nullptr;
  held_ = nullptr;
  return status;
}

}  // namespace skerry::job
