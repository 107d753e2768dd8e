#include "job/group.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "job/job.hpp"

namespace skerry::job {

// ---- members ----------------------------------------------------------------------------------

int32_t Group::index_of(Rank rank) const {
  if (is_world_) return rank >= 0 && rank < size_ ? rank : -1;
  const auto found = std::lower_bound(
      by_rank_.begin(), by_rank_.end(), rank,
      [&](int32_t i, Rank r) { return ranks_[static_cast<size_t>(i)] < r; });
  return found != by_rank_.end() && ranks_[static_cast<size_t>(*found)] == rank ? *found : -1;
}

Rank Group::rank_of(int32_t index) const {
  if (index < 0 || index >= size_) return no_rank;
  return is_world_ ? index : ranks_[static_cast<size_t>(index)];
}

// ---- making and freeing -----------------------------------------------------------------------

namespace {

struct Heap {
  size_t count;
  size_t fan_out;
  size_t tops;  // places 0 ... tops - 1 have nobody above

  size_t parent(size_t place) const { return (place - tops) / fan_out; }
  size_t slot(size_t place) const {
    return (place - tops) % fan_out;
  }  // among its parent's children
  size_t first_child(size_t place) const { return std::min(count, place * fan_out + tops); }
  size_t children(size_t place) const { return first_child(place + 1) - first_child(place); }
};

}  // namespace

std::map<Rank, uint64_t> Group::build_tree(std::span<const Rank> members) {
  // Node by node in order of first appearance; inside a node in group order.
  std::vector<std::vector<Rank>> nodes;
  std::map<NodeId, size_t> place;
  for (const Rank rank : members) {
    const auto [entry, is_new] = place.try_emplace(job_->map().node_of(rank), nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[entry->second].push_back(rank);
  }
  constexpr size_t inner = 4, outer = 2;
  static_assert(inner + outer <= max_children);
  // Two tops take one crossing between nodes less, unless the nodes just fill a heap with one.
  const Heap leaders{nodes.size(), outer, std::has_single_bit(nodes.size() + 1) ? 1U : 2U};
  const size_t my_node = place.at(job_->node());
  const auto& local = nodes[my_node];
  const Heap inside{local.size(), inner, 1};
  const size_t my_place = static_cast<size_t>(std::find(local.begin(), local.end(), job_->rank()) -
                                              local.begin());
  const bool leads = my_place == 0;
  // Children: those inside the node first, then (for a node leader) the leaders below. A child's
  // slot at its parent follows the same order.
  for (size_t c = 0; c < inside.children(my_place); ++c)
    children_.push_back(local[inside.first_child(my_place) + c]);
  leaders_below_ = leads ? static_cast<int32_t>(leaders.children(my_node)) : 0;
  for (size_t c = 0; leads && c < leaders.children(my_node); ++c)
    children_.push_back(nodes[leaders.first_child(my_node) + c].front());
  children_to_.assign(children_.rbegin(), children_.rend());
  if (!leads) {
    parent_ = local[inside.parent(my_place)];
    child_slot_ = inside.slot(my_place);
  } else if (my_node >= leaders.tops) {
    const auto& above = nodes[leaders.parent(my_node)];
    parent_ = above.front();
    child_slot_ = Heap{above.size(), inner, 1}.children(0) + leaders.slot(my_node);
  } else if (leaders.tops == 2) {
    const auto& other = nodes[1 - my_node];
    other_top_ = other.front();
    other_children_ = Heap{other.size(), inner, 1}.children(0) + leaders.children(1 - my_node);
    is_first_top_ = my_node == 0;
  }
  std::map<Rank, uint64_t> areas;
  for (size_t p = 0; p < local.size(); ++p)
    areas[local[p]] = up_data(inside.children(p) + (p == 0 ? leaders.children(my_node) : 0), 0);
  if (leaders.tops == 2 && my_node < 2) areas[local[0]] += 2 * depth * slot_bytes;
  if (members.size() == 1) areas[local[0]] = counters_bytes;
  return areas;
}

Status Group::open_area(SegmentId id, std::span<const Rank> members) {
  const std::map<Rank, uint64_t> areas = build_tree(members);
  return Segment::open(*this, id, areas, &area_);
}

Status Group::close_area() {
  const Status status = area_->close();
  job_->discard(std::exchange(area_, nullptr), &job_->segments_);
  return status;
}

Group* Group::keep(std::unique_ptr<Group> group) {
  Job& job = *group->job_;
  Group* const kept = job.keep(std::move(group), &job.groups_);
  kept->area_->set_group(*kept);
  return kept;
}

std::unique_ptr<Group> Group::stand_in(Job& job) {
  auto made = std::make_unique<Group>();
  made->job_ = &job;
  made->freed_ = true;
  return made;
}

Status Group::create_world(Job& job, Group** group) {
  auto world = std::make_unique<Group>();
  world->job_ = &job;
  world->is_world_ = true;
  world->size_ = job.size();
  world->index_ = job.rank();
  world->lowest_ = 0;
  std::vector<Rank> members(static_cast<size_t>(job.size()));
  for (Rank r = 0; r < job.size(); ++r) members[static_cast<size_t>(r)] = r;
  SKERRY_TRY(world->open_area(SegmentId{0, 1}, members));
  *group = keep(std::move(world));
  return {};
}

Status Group::split(Group& parent, int color, int key, Group** group) {
  Job& job = *parent.job_;
  struct Card {
    int32_t color;
    int32_t key;
    uint32_t generation;
    int32_t rank;
  };
  const Card mine{color, key, color < 0 ? 0 : job.next_generation(), job.rank()};
  std::vector<Card> cards(static_cast<size_t>(parent.size_));
  SKERRY_TRY(parent.allgather(&mine, sizeof mine, cards.data()));

  Status opened;
  std::unique_ptr<Group> made;
  if (color >= 0) {
    std::erase_if(cards, [&](const Card& card) { return card.color != color; });
    std::stable_sort(cards.begin(), cards.end(), [](const Card& a, const Card& b) {
      return a.key != b.key ? a.key < b.key : a.rank < b.rank;
    });
    made = std::make_unique<Group>();
    made->job_ = &job;
    for (const Card& card : cards) made->ranks_.push_back(card.rank);
    made->index_members();
    const Card& first = cards[static_cast<size_t>(made->by_rank_.front())];
    opened = made->open_area(SegmentId{static_cast<uint32_t>(first.rank), first.generation},
                             made->ranks_);
  }
  if (Status agreed = parent.agree(opened);  // also the barrier after which every area may be used
      !agreed.ok()) {
    if (made && opened.ok()) (void)made->close_area();
    return agreed;
  }
  *group = made ? keep(std::move(made)) : nullptr;
  return {};
}

void Group::index_members() {
  size_ = static_cast<int32_t>(ranks_.size());
  by_rank_.resize(ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) by_rank_[i] = static_cast<int32_t>(i);
  std::sort(by_rank_.begin(), by_rank_.end(), [&](int32_t a, int32_t b) {
    return ranks_[static_cast<size_t>(a)] < ranks_[static_cast<size_t>(b)];
  });
  lowest_ = ranks_[static_cast<size_t>(by_rank_.front())];
  index_ = index_of(job_->rank());
}

Status Group::create(Job& job, std::span<const Rank> ranks, const Exchange& exchange,
                     Group** group) {
  struct Report {
    int32_t code;
    uint32_t generation;  // what the lowest member names the group by
    char text[504];
  };
  std::vector<Report> reports(ranks.size());
  // Every member tells how it fared; all take the first failure in order of position.
  const auto agree_on = [&](const Status& mine, uint32_t generation) -> Status {
    Report report{static_cast<int32_t>(mine.code()), generation, {}};
    mine.message().copy(report.text, sizeof report.text - 1);
    SKERRY_TRY(exchange.allgather(std::as_bytes(std::span(&report, 1)),
                                  reinterpret_cast<std::byte*>(reports.data())));
    for (const Report& theirs : reports)
      if (theirs.code != 0) return Status(static_cast<Code>(theirs.code), theirs.text);
    return {};
  };
  auto made = std::make_unique<Group>();
  made->job_ = &job;
  made->ranks_.assign(ranks.begin(), ranks.end());
  made->index_members();
  Status status;
  for (size_t i = 0; i < ranks.size() && status.ok(); ++i) {
    const Rank rank = made->ranks_[static_cast<size_t>(made->by_rank_[i])];
    if (rank < 0 || rank >= job.size())
      status = error(Code::invalid, "rank ", rank, " does not exist: this job has ranks 0 to ",
                     job.size() - 1);
    else if (i > 0 && made->ranks_[static_cast<size_t>(made->by_rank_[i - 1])] == rank)
      status = error(Code::invalid, "rank ", rank, " is named twice");
  }
  if (status.ok() && made->index_ != exchange.position)
    status = error(Code::invalid, "rank ", job.rank(), " is at position ", exchange.position,
                   " of the exchange, but ranks says position ", made->index_);
  SKERRY_TRY(agree_on(status, made->lowest_ == job.rank() ? job.next_generation() : 0));
  const SegmentId id{static_cast<uint32_t>(made->lowest_),
                     reports[static_cast<size_t>(made->by_rank_.front())].generation};
  status = made->open_area(id, made->ranks_);
  const bool opened = status.ok();
  if (Status agreed = agree_on(status, 0);
      !agreed.ok()) {  // also the barrier after which every area may be used
    if (opened) (void)made->close_area();
    return agreed;
  }
  *group = keep(std::move(made));
  return {};
}

Status Group::free() {
  if (is_world_) return error(Code::invalid, "the world group cannot be freed");
  const Status synced = sync();
  if (synced.code() == Code::peer_dead || synced.code() == Code::network) return synced;
  freed_ = true;  // whatever else was reported belongs to earlier requests: the others free it, so
                  // this member does
  SKERRY_TRY(close_area());
  std::vector<std::byte>().swap(buffer_);  // segments that live on need the members, nothing else
  return synced;
}

// ---- the sweep --------------------------------------------------------------------------------

Status Group::send(Rank rank, uint64_t offset, std::span<const std::byte> data, uint64_t counter) {
  operation::Side to, from;
  to.offset = offset;
  from.base = const_cast<std::byte*>(data.data());
  to.bytes = from.bytes = data.size();
  const operation::Notify notify{counter, 1};
  return area_->put(rank, to, from, &notify, operation::Mode::blocking, nullptr);
}

Status Group::receive(uint64_t counter, uint64_t at_least) {
  return area_->wait_counter(counter, at_least, -1, nullptr);
}

namespace {

uint64_t length_of(const std::byte* message) {
  uint64_t length;
  std::memcpy(&length, message, sizeof length);
  return length;
}

}  // namespace

// At a top: what the other has gathered joins what this one has, in the same order at both.
void Group::join_tops(const Sweep& what, std::byte* mine, std::byte* theirs) const {
  const uint64_t my_length = length_of(mine), their_length = length_of(theirs);
  if (their_length == 0) return;
  if (my_length != 0 && is_first_top_) return what.combine(mine + 8, theirs + 8, their_length);
  if (my_length != 0) what.combine(theirs + 8, mine + 8, their_length);
  std::memcpy(mine, theirs, 8 + their_length);
}

Status Group::sweep(const Sweep& what) {
  job_->local_counters().collectives.fetch_add(1, std::memory_order_relaxed);
  const uint64_t step = chunk_bytes / what.unit * what.unit;
  const uint64_t chunks = std::max<uint64_t>(1, (what.bytes + step - 1) / step);
  std::byte* const area = area_->own();
  buffer_.resize(std::max(buffer_.size(), std::min<uint64_t>(chunks, depth) * slot_bytes));
  const auto own_message = [&](uint64_t t) { return buffer_.data() + t % depth * slot_bytes; };
  auto up = [&](uint64_t t) -> Status {
    const uint64_t s = chunk_ + t;
    const uint64_t from = t * step;
    const uint64_t bytes = std::min(step, what.bytes - std::min(what.bytes, from));
    std::byte* const message = own_message(t);
    uint64_t length = what.contribute && what.contribute(message + 8, from, bytes) ? bytes : 0;
    for (uint32_t c = 0; c < children_.size(); ++c) {
      // Slots at a parent are dense within the node and follow there for leaders: the order of
      // children_ is the order of slots.
      SKERRY_TRY(receive(up_counter(c), s + 1));
      const std::byte* const theirs = area + up_data(c, s);
      const uint64_t their_length = length_of(theirs);
      if (their_length == 0) continue;
      if (length != 0) what.combine(message + 8, theirs + 8, their_length);
      else std::memcpy(message + 8, theirs + 8, their_length);
      length = their_length;
    }
    std::memcpy(message, &length, sizeof length);
    if (other_top_ != no_rank)
      return send(other_top_, top_data(other_children_, s), {message, 8 + length}, down_counter);
    return parent_ == no_rank ? Status()
                              : send(parent_, up_data(child_slot_, s), {message, 8 + length},
                                     up_counter(child_slot_));
  };
  auto result = [&](uint64_t t) -> const std::byte* {
    return parent_ == no_rank ? own_message(t) : area + down_data(chunk_ + t);
  };
  // Down go the chunks [t, end).
  auto down = [&](uint64_t t, uint64_t end) -> Status {
    if (parent_ != no_rank || other_top_ != no_rank)
      SKERRY_TRY(receive(down_counter, chunk_ + end));
    for (uint64_t d = t; other_top_ != no_rank && d < end; ++d)
      join_tops(what, own_message(d), area + top_data(children_.size(), chunk_ + d));
    // Leaders of other nodes first, they have further to go; and by turns from either end: under a
    // cap, the connection used last is there for the next burst.
    std::reverse(children_to_.begin(), children_to_.begin() + leaders_below_);
    for (const Rank child : children_to_)
      for (uint64_t d = t; d < end; ++d)
        SKERRY_TRY(send(child, down_data(chunk_ + d), {result(d), 8 + length_of(result(d))},
                        down_counter));
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
    for (uint64_t s = t; s < end; ++s) SKERRY_TRY(up(s));
    SKERRY_TRY(down(t, end));
  }
  chunk_ += chunks;
  return {};
}

// ---- collectives ------------------------------------------------------------------------------

Status Group::barrier() { return sweep(Sweep{}); }

// A request that was refused is reported by the fence, but the others wait for this member all the
// same. Only where nothing can come of a barrier any more is there none.
Status Group::sync() {
  const Status fenced = job_->engine().fence_all();
  if (fenced.code() == Code::peer_dead || fenced.code() == Code::network) return fenced;
  SKERRY_TRY(barrier());
  return fenced;
}

Status Group::broadcast(void* buffer, uint64_t bytes, Rank root) {
  Sweep sweep_of;
  sweep_of.bytes = bytes;
  const bool mine = job_->rank() == root;
  if (mine)
    sweep_of.contribute = [&](std::byte* chunk, uint64_t from, uint64_t n) {
      std::memcpy(chunk, static_cast<const std::byte*>(buffer) + from, n);
      return n > 0;
    };
  else
    sweep_of.deliver = [&](const std::byte* chunk, uint64_t from, uint64_t n) {
      std::memcpy(static_cast<std::byte*>(buffer) + from, chunk, n);
    };
  return sweep(sweep_of);
}

// The type has the reduction.
Status Group::reduce(ElementType type, Reduction reduction, void* buffer, uint64_t count,
                     Rank root) {
  Sweep sweep_of;
  sweep_of.bytes = count * element_bytes(type);
  sweep_of.unit = element_bytes(type);
  auto* const bytes = static_cast<std::byte*>(buffer);
  sweep_of.contribute = [&](std::byte* chunk, uint64_t from, uint64_t n) {
    std::memcpy(chunk, bytes + from, n);
    prepare(type, reduction, chunk, n);
    return true;
  };
  sweep_of.combine = [&](std::byte* into, const std::byte* from, uint64_t n) {
    combine(type, reduction, into, from, n);
  };
  if (root == no_rank || root == job_->rank())
    sweep_of.deliver = [&](const std::byte* chunk, uint64_t from, uint64_t n) {
      std::memcpy(bytes + from, chunk, n);
    };
  return sweep(sweep_of);
}

Status Group::allreduce(ElementType type, Reduction reduction, void* buffer, uint64_t count) {
  return reduce(type, reduction, buffer, count, no_rank);
}

// A sum in which every byte has one contributor: members fill their own part of zeros and parts are
// or-ed. Moves size x bytes over each edge, twice what a gather and a broadcast along the same tree
// would move up.
Status Group::allgather(const void* in, uint64_t bytes, void* out) {
  Sweep sweep_of;
  sweep_of.bytes = bytes * static_cast<uint64_t>(size_);
  const uint64_t mine_from = bytes * static_cast<uint64_t>(index_);
  sweep_of.contribute = [&](std::byte* chunk, uint64_t from, uint64_t n) {
    std::memset(chunk, 0, n);
    const uint64_t low = std::max(from, mine_from), high = std::min(from + n, mine_from + bytes);
    if (low >= high) return false;
    std::memcpy(chunk + (low - from), static_cast<const std::byte*>(in) + (low - mine_from),
                high - low);
    return true;
  };
  sweep_of.combine = [](std::byte* into, const std::byte* from, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) into[i] |= from[i];
  };
  sweep_of.deliver = [&](const std::byte* chunk, uint64_t from, uint64_t n) {
    std::memcpy(static_cast<std::byte*>(out) + from, chunk, n);
  };
  return sweep(sweep_of);
}

Status Group::agree(const Status& mine) {
  int32_t first = mine.ok() ? size_ : index_;
  SKERRY_TRY(allreduce(ElementType::int32, Reduction::min, &first, 1));
  if (first == size_) return {};
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
