#include "job/group.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "core/pure/assert.hpp"
#include "job/job.hpp"
#include "job/message.hpp"

namespace skerry::job {

// ---- members ----------------------------------------------------------------------------------

void Group::set_members(placement::Members members) {
  members_ = std::move(members);
  index_ = index_of(job_->rank());
}

Group::OnNode Group::on_node(NodeId node, Rank rank) const {
  const placement::NodeMap& map = job_->map();
  const int32_t ranks = map.node_size(node);
  if (is_world_) return {ranks, map.node_of(rank) == node ? map.index_in_node(rank) : 0};
  OnNode found;
  for (int32_t k = 0; k < ranks; ++k) {
    const Rank other = map.node_rank(node, k);
    if (index_of(other) < 0) continue;
    ++found.count;
    if (other < rank) ++found.before;
  }
  return found;
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

// The nodes with members in the order in which their first members come. Per node of the job, and
// only while the tree is built; nothing per rank.
class NodesOf {
 public:
  NodesOf(const placement::NodeMap& map, const placement::Members& members, bool is_world)
      : map_(map), is_world_(is_world) {
    if (is_world) return;  // nodes are numbered by their lowest ranks
    place_.assign(static_cast<size_t>(map.nodes()), -1);
    for (int32_t i = 0; i < members.size(); ++i) {
      const Rank rank = members.rank_of(i);
      int32_t& place = place_[static_cast<size_t>(map.node_of(rank))];
      if (place < 0) {
        place = static_cast<int32_t>(first_.size());
        first_.push_back(rank);
        size_.push_back(0);
      }
      ++size_[static_cast<size_t>(place)];
    }
  }
  size_t count() const { return is_world_ ? static_cast<size_t>(map_.nodes()) : first_.size(); }
  size_t place(NodeId node) const {
    return static_cast<size_t>(is_world_ ? node : place_[static_cast<size_t>(node)]);
  }
  Rank first(size_t place) const {
    return is_world_ ? map_.leader(static_cast<NodeId>(place)) : first_[place];
  }
  size_t size(size_t place) const {
    return static_cast<size_t>(is_world_ ? map_.node_size(static_cast<NodeId>(place))
                                         : size_[place]);
  }

 private:
  const placement::NodeMap& map_;
  const bool is_world_;
  std::vector<int32_t> place_;  // by node; -1: no member there
  std::vector<Rank> first_;
  std::vector<int32_t> size_;
};

// Of one node, in the order of the group.
std::vector<Rank> members_on(const placement::NodeMap& map, NodeId node, const Group& group) {
  std::vector<Rank> local;
  for (int32_t k = 0; k < map.node_size(node); ++k)
    if (const Rank rank = map.node_rank(node, k); group.index_of(rank) >= 0) local.push_back(rank);
  std::ranges::sort(local, {}, [&](Rank rank) { return group.index_of(rank); });
  return local;
}

}  // namespace

std::map<Rank, uint64_t> Group::build_tree() {
  const NodesOf nodes(job_->map(), members_, is_world_);
  constexpr size_t inner = 4, outer = 2;
  static_assert(inner + outer <= max_children);
  // Two tops take one crossing between nodes less, unless the nodes just fill a heap with one.
  const Heap leaders{nodes.count(), outer, std::has_single_bit(nodes.count() + 1) ? 1U : 2U};
  const size_t my_node = nodes.place(job_->node());
  const std::vector<Rank> local = members_on(job_->map(), job_->node(), *this);
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
    children_.push_back(nodes.first(leaders.first_child(my_node) + c));
  children_to_.assign(children_.rbegin(), children_.rend());
  if (!leads) {
    parent_ = local[inside.parent(my_place)];
    child_slot_ = inside.slot(my_place);
  } else if (my_node >= leaders.tops) {
    const size_t above = leaders.parent(my_node);
    parent_ = nodes.first(above);
    child_slot_ = Heap{nodes.size(above), inner, 1}.children(0) + leaders.slot(my_node);
  } else if (leaders.tops == 2) {
    const size_t other = 1 - my_node;
    other_top_ = nodes.first(other);
    other_children_ = Heap{nodes.size(other), inner, 1}.children(0) + leaders.children(other);
    is_first_top_ = my_node == 0;
  }
  std::map<Rank, uint64_t> areas;
  for (size_t p = 0; p < local.size(); ++p)
    areas[local[p]] = up_data(inside.children(p) + (p == 0 ? leaders.children(my_node) : 0), 0);
  if (leaders.tops == 2 && my_node < 2) areas[local[0]] += 2 * depth * slot_bytes;
  if (size() == 1) areas[local[0]] = counters_bytes;
  return areas;
}

Status Group::open_area(SegmentId id) {
  addresses_ = Addresses(job_->address_secret(), id.packed());
  const std::map<Rank, uint64_t> areas = build_tree();
  return Segment::open(*this, id, areas, &area_);
}

Status Group::close_area() {
  const Status status = area_->close();
  job_->objects().discard(std::exchange(area_, nullptr));
  return status;
}

Group* Group::keep(std::unique_ptr<Group> group) {
  Job& job = *group->job_;
  Group* const kept = job.objects().keep(std::move(group));
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
  world->set_members(placement::Members::all(job.size()));
  SKERRY_TRY(world->open_area(SegmentId{0, 1}));
  *group = keep(std::move(world));
  return {};
}

namespace {

struct Card {  // what a member says of itself when a group is split
  int32_t color;
  int32_t key;
  uint32_t generation;
  int32_t rank;
};

// The cards of one color as they pass by. Keys usually come in order, and then neither they nor the
// ranks take memory by the member.
class CardsOf {
 public:
  explicit CardsOf(int32_t color) : color_(color) {}
  void take(const Card& card) {
    if (card.color != color_) return;
    if (ranks_.size() == 0 || card.rank < lowest_) {
      lowest_ = card.rank;
      generation_ = card.generation;
    }
    const std::pair place{card.key, card.rank};
    in_order_ = in_order_ && (ranks_.size() == 0 || last_ < place);
    last_ = place;
    keys_.add(card.key);
    ranks_.add(card.rank);
  }
  placement::Sequence members() && {
    if (in_order_) return std::move(ranks_);
    std::vector<std::pair<int32_t, Rank>> cards;
    cards.reserve(static_cast<size_t>(ranks_.size()));
    for (int32_t i = 0; i < ranks_.size(); ++i) cards.emplace_back(keys_.at(i), ranks_.at(i));
    std::ranges::sort(cards);
    placement::Sequence sorted;
    for (const auto& [key, rank] : cards) sorted.add(rank);
    return sorted;
  }
  SegmentId id() const { return {static_cast<uint32_t>(lowest_), generation_}; }

 private:
  const int32_t color_;
  placement::Sequence keys_, ranks_;  // in order of the parent's members
  std::pair<int32_t, Rank> last_;
  bool in_order_ = true;
  Rank lowest_ = no_rank;
  uint32_t generation_ = 0;  // the lowest rank's
};

}  // namespace

Status Group::split(Group& parent, int color, int key, Group** group) {
  Job& job = *parent.job_;
  const Card mine{color, key, color < 0 ? 0 : job.next_generation(), job.rank()};
  CardsOf cards(color);
  SKERRY_TRY(parent.collect(&mine, sizeof mine, 0, parent.size(),
                            [&](const std::byte* data, int32_t, int32_t count) {
                              for (; color >= 0 && count > 0; --count, data += sizeof(Card)) {
                                Card card;
                                std::memcpy(&card, data, sizeof card);
                                cards.take(card);
                              }
                            }));
  Status opened;
  std::unique_ptr<Group> made;
  if (color >= 0) {
    made = std::make_unique<Group>();
    made->job_ = &job;
    const SegmentId id = cards.id();
    made->set_members(placement::Members(std::move(cards).members()));
    opened = made->open_area(id);
  }
  if (Status agreed = parent.agree(opened);  // also the barrier after which every area may be used
      !agreed.ok()) {
    if (made && opened.ok()) (void)made->close_area();
    return agreed;
  }
  *group = made ? keep(std::move(made)) : nullptr;
  return {};
}

namespace {

// Members without a tree yet tell each other how they fared: 4 bytes each. *generation in: the
// caller's, 0 from all but one member; out: that one's. All get the failure of the first in order
// of position.
Status agree_through(const Exchange& exchange, const Status& mine, uint32_t* generation) {
  constexpr uint32_t failed = uint32_t{1} << 31;
  const auto count = static_cast<size_t>(exchange.count);
  const uint32_t word = mine.ok() ? *generation & ~failed
                                  : failed | static_cast<uint32_t>(mine.code());
  std::vector<uint32_t> words(count);
  SKERRY_TRY(exchange.allgather(std::as_bytes(std::span(&word, 1)),
                                reinterpret_cast<std::byte*>(words.data())));
  const auto first = std::ranges::find_if(words, [](uint32_t w) { return (w & failed) != 0; });
  if (first == words.end()) {
    *generation = std::accumulate(words.begin(), words.end(), 0U, std::bit_or<>());
    return {};
  }
  // Its text, in pieces that take a mebibyte from all together, or little more.
  constexpr size_t text_bytes = 504;
  const auto code = static_cast<Code>(*first & ~failed);
  const auto at = static_cast<size_t>(first - words.begin());
  const size_t piece = std::clamp<size_t>((size_t{1} << 20) / count, 4, text_bytes);
  std::string text;
  std::vector<std::byte> all(piece * count);
  for (size_t from = 0; from < text_bytes; from += piece) {
    std::vector<std::byte> part(piece);
    if (from < mine.message().size())
      mine.message().copy(reinterpret_cast<char*>(part.data()), piece, from);
    SKERRY_TRY(exchange.allgather(part, all.data()));
    text.append(reinterpret_cast<const char*>(all.data() + at * piece), piece);
  }
  return Status(code, text.c_str());
}

}  // namespace

Status Group::create(Job& job, std::span<const Rank> ranks, const Exchange& exchange,
                     Group** group) {
  auto made = std::make_unique<Group>();
  made->job_ = &job;
  placement::Sequence sequence;
  Status status;
  for (const Rank rank : ranks) {
    sequence.add(rank);
    if ((rank < 0 || rank >= job.size()) && status.ok())
      status = error(Code::invalid, "rank ", rank, " does not exist: this job has ranks 0 to ",
                     job.size() - 1);
  }
  made->set_members(placement::Members(std::move(sequence)));
  if (const Rank twice = made->members_.find_double(); status.ok() && twice != no_rank)
    status = error(Code::invalid, "rank ", twice, " is named twice");
  if (status.ok() && made->index_ != exchange.position)
    status = error(Code::invalid, "rank ", job.rank(), " is at position ", exchange.position,
                   " of the exchange, but ranks says position ", made->index_);
  // What the lowest member names the group by.
  uint32_t generation = made->lowest() == job.rank() ? job.next_generation() : 0;
  SKERRY_TRY(agree_through(exchange, status, &generation));
  status = made->open_area(SegmentId{static_cast<uint32_t>(made->lowest()), generation});
  const bool opened = status.ok();
  uint32_t none = 0;
  if (Status agreed = agree_through(exchange, status, &none);
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
  if (kept_ != nullptr) kept_->group_freed();
  SKERRY_TRY(close_area());
  std::vector<std::byte>().swap(buffer_);  // segments that live on need the members, nothing else
  return synced;
}

// ---- the sweep --------------------------------------------------------------------------------

Status Group::send(Rank rank, uint64_t offset, std::span<const std::byte> data, uint64_t counter) {
  return area_->put_notify(rank, offset, data, {counter, 1});
}

Status Group::receive(uint64_t counter, uint64_t at_least) {
  return area_->wait_counter(counter, at_least, -1, nullptr);
}

// At a top: what the other has gathered joins what this one has, in the same order at both.
void Group::join_tops(const Sweep& what, std::byte* mine, std::byte* theirs) const {
  const uint64_t my_length = length_of(mine), their_length = length_of(theirs);
  const uint64_t who = callers(head_of(mine), head_of(theirs));
  if (!are_apart(who) && their_length != 0) {
    if (my_length != 0 && is_first_top_) {
      what.combine(mine + 8, theirs + 8, their_length);
    } else {
      if (my_length != 0) what.combine(theirs + 8, mine + 8, their_length);
      std::memcpy(mine + 8, theirs + 8, their_length);
    }
  }
  set_head(mine, who | std::max(my_length, their_length));
}

// Whether all members are in the same kind of collective. The answer is the same on all.
Status Group::check_together(const std::byte* message) {
  if (are_apart(head_of(message))) leaver_ = leaver_of(head_of(message));
  if (leaver_ == no_rank) return {};
  return error(Code::invalid, "rank ", leaver_,
               " leaves the job (finalize, or the end of its program) while others are in another "
               "collective call: all ranks make the same collective calls, finalize last");
}

// Chunk s of the tree: what this member gives, [from, from + bytes), joins what came from below.
Status Group::send_up(const Sweep& what, std::byte* message, uint64_t s, uint64_t from,
                      uint64_t bytes) {
  uint64_t length = what.contribute && what.contribute(message + 8, from, bytes) ? bytes : 0;
  uint64_t who = what.leaves ? static_cast<uint64_t>(job_->rank() + 1) << leaver_shift : some_stay;
  for (uint32_t c = 0; c < children_.size(); ++c) {
    // Slots at a parent are dense within the node and follow there for leaders: the order of
    // children_ is the order of slots.
    SKERRY_TRY(receive(up_counter(c), s + 1));
    const std::byte* const theirs = area_->own() + up_data(c, s);
    const uint64_t their_length = length_of(theirs);
    who = callers(who, head_of(theirs));
    if (their_length == 0 || are_apart(who)) continue;
    if (length != 0) what.combine(message + 8, theirs + 8, their_length);
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
  if (leaver_ != no_rank) return check_together(area_->own());
  job_->local_counters().collectives.fetch_add(1, std::memory_order_relaxed);
  const memory::CallSpan call(&job_->spans(), memory::SpanKind::collective, no_rank, what.bytes);
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
  auto result = [&](uint64_t t) -> const std::byte* {
    return parent_ == no_rank ? own_message(t) : area + down_data(chunk_ + t);
  };
  // Chunk t tells whether all members are in the same collective. If not, it is the last.
  auto has_come = [&](uint64_t t) -> Status {
    if (parent_ != no_rank || other_top_ != no_rank)
      SKERRY_TRY(receive(down_counter, chunk_ + t + 1));
    if (other_top_ != no_rank)
      join_tops(what, own_message(t), area + top_data(children_.size(), chunk_ + t));
    return {};
  };
  // Down go the chunks [t, end).
  auto down = [&](uint64_t t, uint64_t end) -> Status {
    SKERRY_TRY(has_come(t));
    if (are_apart(head_of(result(t)))) end = t + 1;
    for (uint64_t d = t + 1; d < end; ++d) SKERRY_TRY(has_come(d));
    // Leaders of other nodes first, they have further to go; and by turns from either end: under a
    // cap, the connection used last is there for the next burst.
    std::reverse(children_to_.begin(), children_to_.begin() + leaders_below_);
    for (const Rank child : children_to_)
      for (uint64_t d = t; d < end; ++d)
        SKERRY_TRY(send(child, down_data(chunk_ + d), {result(d), 8 + length_of(result(d))},
                        down_counter));
    SKERRY_TRY(check_together(result(t)));
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
  return {};
}

// ---- collectives ------------------------------------------------------------------------------

Status Group::barrier() { return sweep(Sweep{}); }

Status Group::leave() {
  Sweep last;
  last.leaves = true;
  return sweep(last);
}

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
    skerry::job::combine(type, reduction, into, from, n);
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
Status Group::collect(const void* mine, uint64_t bytes, int32_t first, int32_t end,
                      const Take& take) {
  SKERRY_ASSERT(bytes <= chunk_bytes, "what a member gives passes by in one piece");
  if (first >= end) return {};
  Sweep sweep_of;
  sweep_of.bytes = bytes * static_cast<uint64_t>(end - first);
  sweep_of.unit = bytes;
  const bool gives = index_ >= first && index_ < end;
  const uint64_t mine_from = gives ? bytes * static_cast<uint64_t>(index_ - first) : 0;
  sweep_of.contribute = [&](std::byte* chunk, uint64_t from, uint64_t n) {
    if (!gives || mine_from < from || mine_from >= from + n) return false;
    std::memset(chunk, 0, n);
    std::memcpy(chunk + (mine_from - from), mine, bytes);
    return true;
  };
  sweep_of.combine = [](std::byte* into, const std::byte* from, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) into[i] |= from[i];
  };
  sweep_of.deliver = [&](const std::byte* chunk, uint64_t from, uint64_t n) {
    take(chunk, first + static_cast<int32_t>(from / bytes), static_cast<int32_t>(n / bytes));
  };
  return sweep(sweep_of);
}

// Parts may be longer than a chunk here: they are taken apart.
Status Group::allgather(const void* in, uint64_t bytes, void* out) {
  Sweep sweep_of;
  sweep_of.bytes = bytes * static_cast<uint64_t>(size());
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

Status Group::combine_bytes(void* value, uint64_t bytes,
                            const std::function<void(std::byte*, const std::byte*)>& merge) {
  Sweep sweep_of;
  sweep_of.bytes = sweep_of.unit = bytes;
  sweep_of.contribute = [&](std::byte* chunk, uint64_t, uint64_t n) {
    std::memcpy(chunk, value, n);
    return true;
  };
  sweep_of.combine = [&](std::byte* into, const std::byte* from, uint64_t) { merge(into, from); };
  sweep_of.deliver = [&](const std::byte* chunk, uint64_t, uint64_t n) {
    std::memcpy(value, chunk, n);
  };
  return sweep(sweep_of);
}

Status Group::agree(const Status& mine) {
  int32_t first = mine.ok() ? size() : index_;
  SKERRY_TRY(allreduce(ElementType::int32, Reduction::min, &first, 1));
  return explain(first, mine);
}

Status Group::explain(int32_t first, const Status& mine) {
  if (first == size()) return {};
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
