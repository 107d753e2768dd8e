// Tasks that members draw from one another.
//
// Every member has a queue: tiles of a box, in an order that all know. A counter says how many of a
// queue are taken; a draw adds to it atomically and so takes the next ones, each once. The counters
// of a node's members lie side by side in the slice of its first member: one get shows how much is
// left on a node. Counters only grow, so a queue that was found empty stays empty.
#include "skerry/tasks.hpp"

#include <algorithm>
#include <cassert>

#include "impl.hpp"

namespace sk {
inline namespace v0 {

namespace tasks {

using Edges = std::array<std::int64_t, max_dims>;

// Tiles `first` to `first + count` of a box, row-major.
struct Queue {
  Patch box;
  Edges edge{};
  std::int64_t first = 0, count = 0;

  std::int64_t across(int d) const {
    const auto n = edge[static_cast<std::size_t>(d)];
    return (box.extent(d) + n - 1) / n;
  }
  std::int64_t all() const {
    std::int64_t n = 1;
    for (int d = 0; d < box.dims; ++d) n *= across(d);
    return n;
  }
  Patch operator[](std::int64_t i) const {
    Patch tile = box;
    i += first;
    for (int d = box.dims - 1; d >= 0; --d) {
      const auto k = static_cast<std::size_t>(d);
      tile.lo[k] = box.lo[k] + i % across(d) * edge[k];
      tile.hi[k] = std::min(box.hi[k], tile.lo[k] + edge[k]);
      i /= across(d);
    }
    return tile;
  }
};

}  // namespace tasks

namespace {

using tasks::Edges;
using tasks::Queue;

constexpr int tiles_of_a_block = 5;  // as a power of two

// The wanted edges, or some that divide a box into 2^5 tiles for each member.
Edges edges_for(const Patch& box, std::span<const std::int64_t> wanted, int members) {
  Edges edge{};
  for (int d = 0; d < box.dims; ++d) {
    const auto k = static_cast<std::size_t>(d);
    edge[k] = std::max<std::int64_t>(1, box.extent(d));
    if (!wanted.empty()) edge[k] = std::min(edge[k], wanted[k]);
  }
  if (!wanted.empty()) return edge;
  int halvings = tiles_of_a_block;
  while (1 << (halvings - tiles_of_a_block) < members) ++halvings;
  for (int i = 0; i < halvings; ++i) {
    auto& longest = *std::max_element(edge.begin(), edge.begin() + box.dims);
    longest = (longest + 1) / 2;
  }
  return edge;
}

Patch whole(std::span<const std::int64_t> shape) {
  const Edges zero{};
  return {std::span(zero.data(), shape.size()), shape};
}

// Even parts of the tiles of one box.
std::vector<Queue> shared(const Patch& box, const Edges& edge, int members) {
  std::vector<Queue> queues;
  Queue everything{box, edge};
  const std::int64_t all = box.empty() ? 0 : everything.all();
  for (int i = 0; i < members; ++i) {
    everything.first = all * i / members;
    everything.count = all * (i + 1) / members - everything.first;
    queues.push_back(everything);
  }
  assert(queues.empty() || everything.first + everything.count == all);
  return queues;
}

void check_work(const Group& group, std::span<const std::int64_t> what, const char* refusal) {
  detail::agree(group, what, refusal,
                "the members gave sk::Tasks different work: all give the same");
}

}  // namespace

struct Tasks::Impl {
  Group group;
  std::vector<Queue> queues;            // by member
  std::vector<std::vector<int>> nodes;  // members that may have something left, nearest node first
  std::vector<std::pair<int, std::uint64_t>> at;  // by member: rank and offset of its counter
  Segment counters;
  int me = 0;
  std::int64_t own_seen = 0;  // of the own queue known to be taken; below its length: draw there
  std::vector<Patch> ready;   // drawn and not yet given out, the next one last

  Impl(const Group& members, std::vector<Queue> work) : group(members), queues(std::move(work)) {
    const detail::NodeMap map(group);
    me = group.index(skerry_rank(group.job()));
    at.resize(static_cast<std::size_t>(group.size()));
    for (int step = 0; step < map.nodes(); ++step) {
      const int node = (map.own_node() + step) % map.nodes();
      auto& here = nodes.emplace_back();
      for (int i = 0; i < map.node_size(node); ++i) {
        here.push_back(group.index(map.rank(node, i)));
        at[static_cast<std::size_t>(here.back())] = {
            map.rank(node, 0), static_cast<std::uint64_t>(i) * sizeof(std::int64_t)};
      }
    }
    counters = Segment(group, map.own_index() == 0 ? nodes[0].size() * sizeof(std::int64_t) : 0);
  }

  const Queue& queue(int member) const { return queues[static_cast<std::size_t>(member)]; }

  std::vector<std::int64_t> taken(const std::vector<int>& members) const {
    std::vector<std::int64_t> counts(members.size());
    const auto& [rank, offset] = at[static_cast<std::size_t>(members[0])];
    counters.get(rank, offset, std::span<std::int64_t>(counts));
    return counts;
  }

  std::int64_t take(int member, std::int64_t seen) {
    const Queue& from = queue(member);
    const auto parts = static_cast<std::int64_t>(2 * queues.size());
    const std::int64_t n = std::max<std::int64_t>(1, (from.count - seen) / parts);
    const auto& [rank, offset] = at[static_cast<std::size_t>(member)];
    const auto begin = counters.fetch_add<std::int64_t>(rank, offset, n);
    assert(begin >= 0 && n > 0);  // it only grows, also beyond the queue's end
    for (std::int64_t i = std::min(begin + n, from.count) - 1; i >= begin; --i)
      ready.push_back(from[i]);
    return begin + n;
  }

  // Draws once, or finds out that a node has nothing left. False: nobody has.
  bool draw() {
    if (own_seen < queue(me).count) {
      own_seen = take(me, own_seen);
      return true;
    }
    if (nodes.empty()) return false;
    const std::vector<int>& members = nodes.front();
    const std::vector<std::int64_t> counts = taken(members);
    // Members look from different places on, so that equal queues get different helpers.
    std::size_t best = 0;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::size_t k = (i + static_cast<std::size_t>(me)) % members.size();
      const std::int64_t left = queue(members[k]).count - counts[k];
      if (left > most) most = left, best = k;
    }
    assert(best < members.size());
    if (most == 0) nodes.erase(nodes.begin());
    else take(members[best], counts[best]);
    return true;
  }
};

Tasks::Tasks(const AnyArray& array, std::span<const std::int64_t> tile) {
  const Group& group = array.group();
  const char* refusal = "";
  if (!tile.empty() && (tile.size() != static_cast<std::size_t>(array.dims()) ||
                        std::any_of(tile.begin(), tile.end(), [](auto n) { return n < 1; })))
    refusal = "a tile needs one edge per dimension, each at least 1";
  check_work(group, tile, refusal);
  std::vector<Queue> queues;
  const Patch everything = whole(array.shape());
  if (array.placement() == Placement::mirrored) {
    queues = shared(everything, edges_for(everything, tile, group.size()), group.size());
  } else {
    for (int i = 0; i < group.size(); ++i) {
      Queue own{array.distribution(group.rank(i)), {}};
      own.edge = edges_for(own.box, tile, 1);
      own.count = own.box.empty() ? 0 : own.all();
      queues.push_back(own);
    }
  }
  impl_ = std::make_unique<Impl>(group, std::move(queues));
}

Tasks::Tasks(const Group& group, std::int64_t count) {
  check_work(group, std::span(&count, 1), count < 0 ? "the number of tasks is negative" : "");
  impl_ = std::make_unique<Impl>(group, shared({0, count}, {1}, group.size()));
}

Tasks::Tasks(Tasks&&) noexcept = default;
Tasks& Tasks::operator=(Tasks&&) noexcept = default;
Tasks::~Tasks() = default;

std::optional<Patch> Tasks::next() {
  while (impl_->ready.empty())
    if (!impl_->draw()) return std::nullopt;
  const Patch tile = impl_->ready.back();
  impl_->ready.pop_back();
  return tile;
}

std::int64_t Tasks::size() const {
  std::int64_t n = 0;
  for (const Queue& each : impl_->queues) n += each.count;
  return n;
}

std::int64_t Tasks::drawn() const {
  std::int64_t left = 0;  // of members that are not known to have nothing left
  for (const auto& members : impl_->nodes) {
    const auto counts = impl_->taken(members);
    for (std::size_t i = 0; i < members.size(); ++i)
      left += std::max<std::int64_t>(0, impl_->queue(members[i]).count - counts[i]);
  }
  return size() - left;
}

}  // namespace v0
}  // namespace sk
