// merge: sums the nodes' copies of a mirrored array, so that all are equal.
//
// Every process is responsible for its own block of its node's copy, tile by tile (tiles.hpp). A
// flag per tile and node says whether the tile is non-zero there. Each process reads all nodes'
// flags of its tiles. From the same flags every node decides the same contributors:
//
//   no node        The tile is zero everywhere: nothing moves.
//   one node       The others fetch it from there: one crossing.
//   several nodes  One of them, the tile's *home*, fetches the others' tiles and sums them (first
//                  phase). The rest fetch the sum (second phase). Homes are spread evenly: of a
//                  full array each of K nodes receives and sends twice its K-1 K-ths.
//
// Sums are taken in the order of nodes, by one process per tile, so that all copies agree to the
// bit.
//
// No data is lost to a race. A process writes only its own block. In the first phase it writes only
// tiles whose home it is, or to which it contributes nothing, and no other process reads those in
// that phase. All processes enter and leave the second phase together.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>

#include "impl.hpp"

namespace sk {
inline namespace v0 {

namespace {

using detail::Batch;
using detail::Strides;
using Impl = AnyArray::Impl;

// Bytes fetched before they are summed; two such portions are under way at a time.
constexpr std::uint64_t portion_bytes = 8u << 20;

bool all_zero(const std::byte* at, std::size_t bytes) {
  std::uint64_t seen = 0;
  for (; bytes >= 64; bytes -= 64, at += 64) {
    std::uint64_t words[8];
    std::memcpy(words, at, sizeof(words));
    for (auto word : words) seen |= word;
    if (seen) return false;
  }
  for (; bytes > 0; --bytes, ++at) seen |= static_cast<std::uint64_t>(*at);
  return seen == 0;
}

// Whether the box is zero, row by row of its last dimension.
bool box_is_zero(const Patch& box, std::uint64_t element_bytes, const std::byte* at,
                 const Strides& strides) {
  const skerry_strided shape = detail::strided(box, element_bytes, strides, strides);
  std::array<std::uint64_t, SKERRY_MAX_LEVELS> index{};
  for (;;) {
    std::int64_t offset = 0;
    for (int k = 0; k < shape.levels; ++k)
      offset += static_cast<std::int64_t>(index[static_cast<std::size_t>(k)]) *
                shape.origin_stride[k];
    if (!all_zero(at + offset, shape.block_bytes)) return false;
    int k = 0;
    while (k < shape.levels && ++index[static_cast<std::size_t>(k)] == shape.count[k])
      index[static_cast<std::size_t>(k++)] = 0;
    if (k == shape.levels) return true;
  }
}

template <class T>
void add_box(const Patch& box, std::byte* to, const Strides& to_strides, const std::byte* from,
             const Strides& from_strides) {
  const skerry_strided shape = detail::strided(box, sizeof(T), from_strides, to_strides);
  std::array<std::uint64_t, SKERRY_MAX_LEVELS> index{};
  for (;;) {
    std::int64_t there = 0, here = 0;
    for (int k = 0; k < shape.levels; ++k) {
      there += static_cast<std::int64_t>(index[static_cast<std::size_t>(k)]) *
               shape.target_stride[k];
      here += static_cast<std::int64_t>(index[static_cast<std::size_t>(k)]) *
              shape.origin_stride[k];
    }
    auto* sum = reinterpret_cast<T*>(to + there);
    const auto* part = reinterpret_cast<const T*>(from + here);
    for (std::uint64_t i = 0; i < shape.block_bytes / sizeof(T); ++i)
      sum[i] = detail::sum_of(sum[i], part[i]);
    int k = 0;
    while (k < shape.levels && ++index[static_cast<std::size_t>(k)] == shape.count[k])
      index[static_cast<std::size_t>(k++)] = 0;
    if (k == shape.levels) return;
  }
}

class Merge {
 public:
  explicit Merge(const Impl& a)
      : a_(a),
        nodes_(a.nodes->nodes()),
        self_(a.nodes->own_node()),
        max_box_(static_cast<std::int64_t>(portion_bytes / a.element_bytes)) {
    for (int node = 0; node < nodes_; ++node) {
      const int members = a.nodes->node_size(node);
      if (members != a.nodes->node_size(self_) && !other_layouts_.contains(members))
        other_layouts_.emplace(members, layout::Distribution(a.layout.shape(), a.options, members));
    }
  }

  void run() {
    a_.node_group.sync();  // what this node's members wrote is there
    mark();
    a_.group.sync();  // and so are all flags
    if (a_.own()) {
      read_flags();
      plan();
      sum();
    }
    a_.group.sync();  // sums are complete
    fetch(second_);
    a_.group.sync();  // and no rank reads this node's copy any more
    a_.context->merge_moved.add(moved_);
    a_.context->merge_skipped.add(whole_ > moved_ ? whole_ - moved_ : 0);
  }

 private:
  const layout::Distribution& layout_of(int node) const {
    const int members = a_.nodes->node_size(node);
    return members == a_.nodes->node_size(self_) ? a_.layout : other_layouts_.at(members);
  }

  std::uint8_t* own_flags() const {
    return reinterpret_cast<std::uint8_t*>(a_.segment->pointer(a_.nodes->rank(self_, 0))) +
           layout::flags_offset(a_.layout, a_.element_bytes);
  }

  // Sets the flags of the tiles in the own block. If nodes differ in size, a tile may span several
  // members' blocks: then flags are cleared first and only ever set; otherwise each tile is written
  // by one member.
  void mark() const {
    const bool shared = !a_.nodes->equal_sizes();
    if (shared) {
      if (a_.own_block == 0)
        std::memset(own_flags(), 0, static_cast<std::size_t>(a_.tiles->tiles()));
      a_.node_group.barrier();
    }
    const auto* own = a_.own();
    if (!own) return;
    const Strides strides{own->strides};
    std::uint8_t* flags = own_flags();
    a_.tiles->for_each(own->patch, [&](const layout::TileMap::Tile& tile) {
      const bool zero = box_is_zero(tile.part, a_.element_bytes,
                                    own->data + detail::offset_in(own->patch, tile.part, strides),
                                    strides);
      std::atomic_ref<std::uint8_t> flag(flags[tile.number]);
      if (!zero) flag.store(1, std::memory_order_relaxed);
      else if (!shared) flag.store(0, std::memory_order_relaxed);
    });
  }

  void read_flags() {
    const auto [low, high] = a_.tiles->range(a_.own()->patch);
    first_flag_ = low;
    const auto count = static_cast<std::size_t>(high - low);
    flags_.assign(static_cast<std::size_t>(nodes_), std::vector<std::uint8_t>(count));
    Batch batch(a_.group.job());
    for (int step = 1; step < nodes_; ++step) {
      const int node = (self_ + step) % nodes_;
      const auto offset = layout::flags_offset(layout_of(node), a_.element_bytes) +
                          static_cast<std::uint64_t>(low);
      check(skerry_get_nb(a_.segment->get(), a_.nodes->rank(node, 0), offset,
                          flags_[static_cast<std::size_t>(node)].data(), count, batch.add()));
    }
    std::memcpy(flags_[static_cast<std::size_t>(self_)].data(), own_flags() + low, count);
    batch.wait();
  }

  // A box this process fetches from one node straight into its own block (key: the node) or sums up
  // (key: index in sets_).
  void plan() {
    layout::BoxJoiner first(max_box_), second(max_box_), sums(max_box_);
    std::unordered_map<std::string, int> known;
    std::string set(static_cast<std::size_t>(nodes_), '\0');
    std::vector<int> contributors;
    a_.tiles->for_each(a_.own()->patch, [&](const layout::TileMap::Tile& tile) {
      contributors.clear();
      for (int node = 0; node < nodes_; ++node) {
        const bool has = flags_[static_cast<std::size_t>(node)]
                               [static_cast<std::size_t>(tile.number - first_flag_)] != 0;
        set[static_cast<std::size_t>(node)] = static_cast<char>(has);
        if (has) contributors.push_back(node);
      }
      const auto count = static_cast<std::int64_t>(contributors.size());
      const auto bytes = static_cast<std::uint64_t>(tile.part.elements()) * a_.element_bytes;
      const bool home_of_full = tile.in_block * nodes_ / tile.of_block == self_;
      whole_ += home_of_full ? bytes * static_cast<std::uint64_t>(nodes_ - 1) : bytes;
      if (count == 0) return;
      assert(contributors.size() <= static_cast<std::size_t>(nodes_));
      const int
          home = contributors[static_cast<std::size_t>(tile.in_block * count / tile.of_block)];
      if (home != self_) {
        (count == 1 ? first : second).add(tile.part, home);
        moved_ += bytes;
      } else if (count > 1) {
        const auto [entry, added] = known.try_emplace(set, static_cast<int>(sets_.size()));
        assert(added == (static_cast<std::size_t>(entry->second) == sets_.size()));
        if (added) sets_.push_back(contributors);
        sums.add(tile.part, entry->second);
        moved_ += bytes * static_cast<std::uint64_t>(count - 1);
      }
    });
    first_ = first.take();
    second_ = second.take();
    sums_ = sums.take();
  }

  // Starts fetching `box` from the copy of `node` to `to`, where `to_strides` apply.
  void start_get(int node, const Patch& box, std::byte* to, const Strides& to_strides,
                 Batch& batch) const {
    const auto& layout = layout_of(node);
    layout.for_each_block(box, [&](int b, const Patch& part) {
      const Patch block = layout.block(b);
      const Strides target = detail::dense_strides(block, a_.element_bytes);
      const skerry_strided shape = detail::strided(part, a_.element_bytes, to_strides, target);
      check(skerry_get_strided_nb(
          a_.segment->get(), a_.nodes->rank(node, b),
          static_cast<std::uint64_t>(detail::offset_in(block, part, target)),
          to + detail::offset_in(box, part, to_strides), &shape, batch.add()));
    });
  }

  void start_fetch(const std::vector<layout::BoxJoiner::Joined>& boxes, Batch& batch) const {
    if (boxes.empty()) return;
    const auto* own = a_.own();
    const Strides strides{own->strides};
    for (const auto& joined : boxes)
      start_get(joined.key, joined.box,
                own->data + detail::offset_in(own->patch, joined.box, strides), strides, batch);
  }
  void fetch(const std::vector<layout::BoxJoiner::Joined>& boxes) const {
    Batch batch(a_.group.job());
    start_fetch(boxes, batch);
    batch.wait();
  }

  // The first phase. While one portion is summed, the next is under way.
  struct Portion {
    explicit Portion(skerry_job* job) : batch(job) {}
    Batch batch;
    std::vector<std::byte> memory;
    std::size_t first = 0, last = 0;  // boxes of sums_
  };
  void sum() {
    Batch direct(a_.group.job());
    start_fetch(first_, direct);
    Portion portions[2]{Portion(a_.group.job()), Portion(a_.group.job())};
    std::size_t next = 0;
    const auto start = [&](Portion& portion) {
      portion.first = next;
      std::uint64_t bytes = 0;
      for (; next < sums_.size(); ++next) {
        const std::uint64_t more = temporary_bytes(sums_[next]);
        if (bytes != 0 && bytes + more > portion_bytes) break;
        bytes += more;
      }
      portion.last = next;
      portion.memory.resize(bytes);
      std::byte* at = portion.memory.data();
      for (std::size_t i = portion.first; i < portion.last; ++i)
        for (int node : sets_[static_cast<std::size_t>(sums_[i].key)]) {
          if (node == self_) continue;
          start_get(node, sums_[i].box, at, detail::dense_strides(sums_[i].box, a_.element_bytes),
                    portion.batch);
          at += static_cast<std::uint64_t>(sums_[i].box.elements()) * a_.element_bytes;
        }
    };
    start(portions[0]);
    for (int turn = 0; portions[turn].first < portions[turn].last; turn ^= 1) {
      start(portions[turn ^ 1]);
      portions[turn].batch.wait();
      add(portions[turn]);
    }
    direct.wait();
  }
  std::uint64_t temporary_bytes(const layout::BoxJoiner::Joined& sum) const {
    return static_cast<std::uint64_t>(sum.box.elements()) * a_.element_bytes *
           (sets_[static_cast<std::size_t>(sum.key)].size() - 1);
  }

  void add(const Portion& portion) const {
    const auto* own = a_.own();
    const Strides strides{own->strides};
    const std::byte* at = portion.memory.data();
    std::vector<std::byte> before;  // the sum over the nodes before this one, if there are any
    for (std::size_t i = portion.first; i < portion.last; ++i) {
      const Patch& box = sums_[i].box;
      const Strides dense = detail::dense_strides(box, a_.element_bytes);
      const auto bytes = static_cast<std::size_t>(box.elements()) * a_.element_bytes;
      std::byte* sum = own->data + detail::offset_in(own->patch, box, strides);
      detail::with_type(a_.type, [&](auto element) {
        using T = decltype(element);
        bool have_before = false;
        for (int node : sets_[static_cast<std::size_t>(sums_[i].key)]) {
          if (node == self_) {
            if (have_before) add_box<T>(box, sum, strides, before.data(), dense);
            continue;
          }
          if (node > self_) {
            add_box<T>(box, sum, strides, at, dense);
          } else if (!have_before) {
            before.assign(at, at + bytes);
            have_before = true;
          } else {
            add_box<T>(box, before.data(), dense, at, dense);
          }
          at += bytes;
        }
      });
    }
  }

  const Impl& a_;
  const int nodes_, self_;
  const std::int64_t max_box_;  // elements
  std::map<int, layout::Distribution>
      other_layouts_;  // of nodes whose number of members, the key, is not this node's
  std::vector<std::vector<std::uint8_t>> flags_;  // by node, of tiles first_flag_ and on
  std::int64_t first_flag_ = 0;
  std::vector<std::vector<int>>
      sets_;  // nodes that contribute, ascending; the own node is among them
  std::vector<layout::BoxJoiner::Joined>
      first_;  // fetched in the first phase; key: from which node
  std::vector<layout::BoxJoiner::Joined>
      second_;  // fetched in the second phase; key: from which node
  std::vector<layout::BoxJoiner::Joined> sums_;  // summed here; key: index in sets_
  std::uint64_t moved_ = 0;                      // bytes fetched
  std::uint64_t whole_ = 0;                      // bytes that merging without flags would fetch
};

}  // namespace

void AnyArray::merge() const {
  const Impl& a = impl();
  detail::check_arithmetic(a, "merge");
  if (!a.tiles) {
    a.scope().sync();
    return;
  }
  Merge(a).run();
}

}  // namespace v0
}  // namespace sk
