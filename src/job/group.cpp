#include "job/group.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "job/job.hpp"

namespace skerry::job {

// ---- members ----------------------------------------------------------------------------------

Group::Group(Job& job, placement::Members members)
    : reserve_(job),
      survivors_(*this, job.options().goes_on),
      job_(&job),
      members_(std::move(members)),
      index_(members_.index_of(job.rank())),
      node_(*this) {}

Group::OnNode Group::on_node(NodeId node, Rank rank) const {
  const placement::NodeMap& map = job_->map();
  if (is_world_)
    return {map.node_size(node), map.node_of(rank) == node ? map.index_in_node(rank) : 0};
  const std::vector<Rank> there = members_on(node);
  return {static_cast<int32_t>(there.size()),
          static_cast<int32_t>(std::ranges::lower_bound(there, rank) - there.begin())};
}

std::vector<Rank> Group::members_on(NodeId node) const {
  std::vector<Rank> found;
  const placement::NodeMap& map = job_->map();
  for (int32_t k = 0; k < map.node_size(node); ++k)
    if (const Rank rank = map.node_rank(node, k); index_of(rank) >= 0) found.push_back(rank);
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
  size_t levels() const {  // below the tops
    size_t found = 0;
    for (size_t last = count - 1; last >= tops; last = parent(last)) ++found;
    return found;
  }
};

// The nodes with members, in the order in which their first members come. Per node of the job, and
// only while the tree is built; nothing per rank.
struct Nodes {
  std::vector<int32_t> place;  // by node; -1: no member there
  std::vector<Rank> first;     // by place, as are
  std::vector<size_t> size;    // the members there
};

Nodes nodes_of(const placement::NodeMap& map, const placement::Members& members, bool is_world) {
  Nodes found;
  found.place.assign(static_cast<size_t>(map.nodes()), -1);
  const auto add = [&](NodeId node, Rank rank, int32_t count) {
    int32_t& place = found.place[static_cast<size_t>(node)];
    if (place < 0) {
      place = static_cast<int32_t>(found.first.size());
      found.first.push_back(rank);
      found.size.push_back(0);
    }
    found.size[static_cast<size_t>(place)] += static_cast<size_t>(count);
  };
  if (is_world)  // nodes are numbered by their lowest ranks
    for (NodeId n = 0; const auto& [leader, ranks] : map.all_sizes()) add(n++, leader, ranks);
  else
    for (int32_t i = 0; i < members.size(); ++i)
      add(map.node_of(members.rank_of(i)), members.rank_of(i), 1);
  return found;
}

// Of members that outlive it.
auto leaders_of(const placement::NodeMap& map, const placement::Members& members, bool is_world) {
  return [&map, &members, is_world]() -> Leaders {
    Nodes nodes = nodes_of(map, members, is_world);
    return {std::move(nodes.first), std::move(nodes.place)};
  };
}

}  // namespace

std::map<Rank, uint64_t> Group::build_tree() {
  const Nodes nodes = nodes_of(job_->map(), members_, is_world_);
  constexpr size_t inner = 4, outer = 3;
  static_assert(inner + outer <= max_children);
  const size_t count = nodes.first.size();
  nodes_ = static_cast<int32_t>(count);
  // A level costs two crossings between nodes, a second top one.
  const Heap one{count, outer, 1}, two{count, outer, 2};
  const Heap& leaders = one.levels() <= two.levels() ? one : two;
  const auto my_node = static_cast<size_t>(nodes.place[static_cast<size_t>(job_->node())]);
  std::vector<Rank> local = members_on(job_->node());
  std::ranges::sort(local, {}, [&](Rank rank) { return index_of(rank); });
  const Heap inside{local.size(), inner, 1};
  const size_t my_place = static_cast<size_t>(std::find(local.begin(), local.end(), job_->rank()) -
                                              local.begin());
  const bool leads = my_place == 0;
  ring_.open(*departure_, nodes_, leads ? static_cast<int32_t>(my_node) : -1,
             nodes.first[(my_node + count - 1) % count], nodes.first[(my_node + 1) % count]);
  for (OneWay& way : one_way_) way.set_departure(*departure_);
  // Children: those inside the node first, then (for a node leader) the leaders below. A child's
  // slot at its parent follows the same order.
  for (size_t c = 0; c < inside.children(my_place); ++c)
    children_.push_back(local[inside.first_child(my_place) + c]);
  leaders_below_ = leads ? static_cast<int32_t>(leaders.children(my_node)) : 0;
  for (size_t c = 0; leads && c < leaders.children(my_node); ++c)
    children_.push_back(nodes.first[leaders.first_child(my_node) + c]);
  children_to_.assign(children_.rbegin(), children_.rend());
  if (!leads) {
    parent_ = local[inside.parent(my_place)];
    child_slot_ = inside.slot(my_place);
  } else if (my_node >= leaders.tops) {
    const size_t above = leaders.parent(my_node);
    parent_ = nodes.first[above];
    child_slot_ = Heap{nodes.size[above], inner, 1}.children(0) + leaders.slot(my_node);
  } else if (leaders.tops == 2) {
    const size_t other = 1 - my_node;
    other_top_ = nodes.first[other];
    other_children_ = Heap{nodes.size[other], inner, 1}.children(0) + leaders.children(other);
    is_first_top_ = my_node == 0;
  }
  std::map<Rank, uint64_t> areas;
  for (size_t p = 0; p < local.size(); ++p)
    areas[local[p]] = up_data(inside.children(p) + (p == 0 ? leaders.children(my_node) : 0), 0);
  if (leaders.tops == 2 && my_node < 2) areas[local[0]] += 2 * depth * slot_bytes;
  if (is_on_one_node())
    for (auto& [rank, bytes] : areas) bytes = Flags::part_bytes;
  SKERRY_INVARIANT(
      children_.size() <= max_children && (parent_ == no_rank || other_top_ == no_rank),
      "counters are there for all below, and only a top has another one");
  return areas;
}

// In a job that goes on a call with halves has no time for members that leave: they are found here.
Status Group::begin_long(bool* ready) {
  *ready = false;
  if (survivors_.goes_on()) SKERRY_TRY(sweep(Sweep{}));
  if (leaver_ != no_rank) return {};
  SKERRY_TRY(node_.prepare());
  return ring_.prepare(*this, leaders_of(job_->map(), members_, is_world_), ready);
}

Status Group::begin_along(uint64_t bytes, bool* ready) {
  *ready = false;
  const bool pays = is_long(bytes) || (!survivors_.goes_on() && ring_.pays(bytes));
  return pays ? begin_long(ready) : Status();
}

Status Group::begin_one_way(uint64_t bytes, OneWay** way) {
  *way = nullptr;
  if (bytes == 0 || bytes > OneWay::most_bytes(nodes_) || leaver_ != no_rank) return {};
  if (survivors_.goes_on()) return {};  // where a death must fail the same call on all that live
  OneWay& wanted = one_way_[static_cast<size_t>(OneWay::kind_of(bytes))];
  const auto leaders = leaders_of(job_->map(), members_, is_world_);
  bool ready = false;
  SKERRY_TRY(wanted.prepare(*this, ring_.place(), leaders, &ready));
  if (!ready) return {};
  if (bytes > NodeCollectives::short_bytes && size() > nodes_) SKERRY_TRY(node_.prepare());
  if (wanted.is_due()) SKERRY_TRY(sweep(Sweep{}));
  wanted.begin();
  *way = &wanted;
  return {};
}

Status Group::open_area(SegmentId id) {
  addresses_ = Addresses(job_->address_secret(), id.packed());
  const std::map<Rank, uint64_t> areas = build_tree();
  SKERRY_TRY(Segment::open(*this, id, areas, &area_));
  departure_->open(*area_, gone_at);
  std::vector<Flags::Member> here;
  for (const auto& [rank, bytes] : areas) here.push_back({rank, area_->local(rank)->base});
  std::ranges::sort(here, {}, [&](const Flags::Member& m) { return index_of(m.rank); });
  const auto own = std::ranges::find(here, job_->rank(), &Flags::Member::rank);
  const auto position = static_cast<uint32_t>(own - here.begin());
  node_.open(std::move(here), position);
  return {};
}

Status Group::close_area() {
  SKERRY_INVARIANT(area_ != nullptr, "an area is closed once");
  reserve_.clear();
  Status status = node_.close();
  status.also(ring_.close());
  for (OneWay& one : one_way_) status.also(one.close());
  status.also(area_->close());
  job_->objects().discard(std::exchange(area_, nullptr));
  return status;
}

Group* Group::keep(std::unique_ptr<Group> group) {
  Job& job = *group->job_;
  SKERRY_INVARIANT(group->area_ != nullptr && !group->freed_, "only a whole group is kept");
  Group* const kept = job.objects().keep(std::move(group));
  kept->area_->set_group(*kept);
  kept->node_.set_group(*kept);
  kept->survivors_.set_group(*kept);
  kept->reserve_.set_group(*kept);
  return kept;
}

std::unique_ptr<Group> Group::stand_in(Job& job) {
  auto made = std::make_unique<Group>(job, placement::Members());
  made->freed_ = true;
  return made;
}

Status Group::create_world(Job& job, Group** group) {
  auto world = std::make_unique<Group>(job, placement::Members::all(job.size()));
  world->is_world_ = true;
  world->ends_by_leave_ = !job.options().goes_on;
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
  uint64_t kept;         // memory of a freed group that was split off like this; 0: none
  int32_t kept_members;  // of that group
};

// Whether what freed groups left serves all members of a split, so that no area is new. All members
// see the same cards in the same order: they agree.
class KeptOfAll {
 public:
  void take(const Card& card) {
    if (card.color < 0 || !serves_) return;
    const auto there = std::ranges::find(colors_, card.color, &Color::color);
    if (there != colors_.end()) {
      ++there->members;
      serves_ = there->kept == card.kept;
    } else {
      colors_.push_back({card.color, card.kept, card.kept_members, 1});
      serves_ = card.kept != 0 && colors_.size() <= most_colors;
    }
  }
  bool serves() const {
    return serves_ && std::ranges::all_of(colors_, [](const Color& one) {
             return one.members == one.kept_members;
           });
  }

 private:
  struct Color {
    int32_t color;
    uint64_t kept;
    int32_t kept_members, members;
  };
  static constexpr size_t most_colors = 16;  // with more, members agree as if none served
  std::vector<Color> colors_;
  bool serves_ = true;
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
    all_keep_ = all_keep_ && card.kept != 0 && (ranks_.size() == 0 || card.kept == kept_);
    kept_ = card.kept;
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
  bool all_keep() const { return all_keep_; }  // the same

 private:
  const int32_t color_;
  placement::Sequence keys_, ranks_;  // in order of the parent's members
  std::pair<int32_t, Rank> last_;
  bool in_order_ = true, all_keep_ = true;
  uint64_t kept_ = 0;  // the last one's
  Rank lowest_ = no_rank;
  uint32_t generation_ = 0;  // the lowest rank's
};

}  // namespace

// What is left of a freed group, if all its members keep it and are these. If not, it goes: on
// others it has gone, or soon will.
std::unique_ptr<Group> Group::use_again(std::unique_ptr<Group> kept, bool all_keep,
                                        const placement::Members& members) {
  if (kept == nullptr) return nullptr;
  if (!all_keep || kept->members_ != members) {
    (void)kept->close_area();
    return nullptr;
  }
  kept->freed_ = false;
  return kept;
}

Status Group::split(Group& parent, int color, int key, Group** group) {
  Job& job = *parent.job_;
  const Origin origin{parent.area_->id().packed(), color, key};
  // Taken before the others hear of it: another thread might take it meanwhile, or push it out.
  std::unique_ptr<Group> kept;
  if (color >= 0)
    kept = job.objects().take_group([&](const Group& other) { return other.origin_ == origin; });
  const Card mine{color, key, color < 0 ? 0 : job.next_generation(), job.rank(),
                  kept == nullptr ? 0 : kept->area_->id().packed(),
                  kept == nullptr ? 0 : kept->size()};
  CardsOf cards(color);
  KeptOfAll kept_of_all;
  const Status told = parent.collect(
      mine, 0, parent.size(), [&](std::span<const Card> passing, int32_t) {
        for (const Card& card : passing) {
          kept_of_all.take(card);
          if (color >= 0) cards.take(card);
        }
      });
  if (!told.ok()) {
    if (kept != nullptr) job.objects().keep_group(std::move(kept));
    return told;
  }
  const bool kept_serves = kept_of_all.serves();
  Status opened;
  std::unique_ptr<Group> made;
  if (color >= 0) {
    const SegmentId id = cards.id();
    const bool all_keep = cards.all_keep();
    placement::Members members(std::move(cards).members());
    made = use_again(std::move(kept), all_keep, members);
    if (made == nullptr) {
      SKERRY_INVARIANT(!kept_serves, "what all members of a color keep has them as its members");
      made = std::make_unique<Group>(job, std::move(members));
      opened = made->open_area(id);
    }
    made->origin_ = origin;
  }
  if (kept_serves) {  // the areas were in use before: nobody waits for another to open one
    *group = made ? keep(std::move(made)) : nullptr;
    return {};
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

// What members without a tree yet tell each other.
struct Fare {
  int32_t code;         // of a failure, negative; 0: none
  uint32_t generation;  // 0 from all but one member
  uint64_t kept;        // memory of a freed group of the same members; 0: none
};

// *fare in: the caller's generation and memory; out: the generation that one member gave, and the
// memory if all have the same. All get the failure of the first in order of position.
Status agree_through(const Exchange& exchange, const Status& mine, Fare* fare) {
  fare->code = static_cast<int32_t>(mine.code());
  std::vector<std::byte> all;
  SKERRY_TRY(exchange.gather(std::as_bytes(std::span(fare, 1)), &all));
  const std::span fares(reinterpret_cast<const Fare*>(all.data()), all.size() / sizeof *fare);
  const auto first = std::ranges::find_if(fares, [](const Fare& one) { return one.code < 0; });
  if (first == fares.end()) {
    for (const Fare& one : fares) {
      fare->generation |= one.generation;
      if (one.kept != fares.front().kept) fare->kept = 0;
    }
    return {};
  }
  // Its text, which nobody else gives.
  constexpr size_t most_text_bytes = 504;
  std::string text;
  if (first - fares.begin() == exchange.position) text = mine.message().substr(0, most_text_bytes);
  const auto code = static_cast<Code>(first->code);
  SKERRY_TRY(exchange.gather(std::as_bytes(std::span(text)), &all));
  return Status(code, std::string(reinterpret_cast<const char*>(all.data()), all.size()));
}

}  // namespace

Status Group::create(Job& job, std::span<const Rank> ranks, const Exchange& exchange,
                     Group** group) {
  placement::Sequence sequence;
  Status status;
  for (const Rank rank : ranks) {
    sequence.add(rank);
    if ((rank < 0 || rank >= job.size()) && status.ok())
      status = error(Code::invalid, "rank ", rank, " does not exist: this job has ranks 0 to ",
                     job.size() - 1);
  }
  auto made = std::make_unique<Group>(job, placement::Members(std::move(sequence)));
  if (const Rank twice = made->members_.find_double(); status.ok() && twice != no_rank)
    status = error(Code::invalid, "rank ", twice, " is named twice");
  if (status.ok() && made->index_ != exchange.position)
    status = error(Code::invalid, "rank ", job.rank(), " is at position ", exchange.position,
                   " of the exchange, but ranks says position ", made->index_);
  std::unique_ptr<Group> kept = job.objects().take_group(  // as in split
      [&](const Group& other) { return other.members_ == made->members_; });
  // What the lowest member names the group by.
  Fare fare{0, made->lowest() == job.rank() ? job.next_generation() : 0,
            kept == nullptr ? 0 : kept->area_->id().packed()};
  if (const Status told = agree_through(exchange, status, &fare); !told.ok()) {
    if (kept != nullptr) job.objects().keep_group(std::move(kept));
    return told;
  }
  if (auto taken = use_again(std::move(kept), fare.kept != 0, made->members_); taken != nullptr) {
    *group = keep(std::move(taken));
    return {};
  }
  status = made->open_area(SegmentId{static_cast<uint32_t>(made->lowest()), fare.generation});
  const bool opened = status.ok();
  Fare none{};
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
  Status synced = job_->background().free_twin(*this);
  synced.also(ring_.take_owed());  // while those that send it are in a call
  synced.also(sync());
  if (survivors_.ends_after(synced)) return synced;
  SKERRY_INVARIANT(!freed_, "a group is freed once");
  // Whatever else was reported belongs to earlier requests: the others free it, so this member
  // does.
  if (kept_ != nullptr) kept_->group_freed();
  freed_ = true;
  std::vector<std::byte>().swap(buffer_);
  if (segments_ > 0) {  // segments that live on need the members, nothing else
    SKERRY_TRY(close_area());
    return synced;
  }
  kept_.reset();
  Status closed = node_.close();  // what long collectives need comes again with them
  closed.also(ring_.close());
  for (OneWay& one : one_way_) closed.also(one.close());
  SKERRY_TRY(closed);
  std::unique_ptr<Group> kept;
  {
    const std::lock_guard guard(job_->objects().mutex());  // another thread counts what is kept
    kept = std::make_unique<Group>(std::move(*this));
  }
  area_ = nullptr;
  job_->objects().keep_group(std::move(kept));
  return synced;
}

}  // namespace skerry::job
