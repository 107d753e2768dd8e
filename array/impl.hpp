// What an array is inside: its layout, its segment, and where the blocks are that this process can
// touch directly. Immutable after construction, so that any number of threads may use it; the
// exceptions are marked.
#pragma once

#include <atomic>
#include <cassert>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>

#include "distribution.hpp"
#include "skerry/array.hpp"
#include "tiles.hpp"

namespace sk {
inline namespace v0 {

namespace detail {

// Counted per process; written by every thread that uses arrays. Plain load and store instead of a
// locked add: with several threads a count may be missed, which statistics can bear and a 0.2 us
// patch access cannot.
struct Tally {
  std::atomic<std::uint64_t> value{0};
  void add(std::uint64_t n) {
    value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

// Which members of a group share which node. Nodes are numbered 0.. among those that have members,
// ascending.
class NodeMap {
 public:
  explicit NodeMap(const Group& group);
  int nodes() const {
    return static_cast<int>(members_.empty() ? counts_.size() : members_.size());
  }
  int own_node() const { return own_node_; }
  int own_index() const { return own_index_; }  // among the members on the own node
  int node_size(int node) const { return counts_[static_cast<std::size_t>(node)]; }
  int rank(int node, int index) const;  // job rank of a member
  // Position of a job rank: {node, index}, or {-1, -1} if it is no member.
  std::pair<int, int> find(int rank) const;
  bool equal_sizes() const;

 private:
  skerry_job* job_;
  std::vector<int> counts_;  // members per node
  std::vector<std::vector<int>>
      members_;  // job ranks by node; empty: the group has all ranks, the job's own tables serve
  int own_node_ = 0, own_index_ = 0;
};

// Collective. Throws INVALID on every member if one has `refused`, or if `what` differs between
// members. A member that threw alone would leave the others waiting.
void agree(const Group& group, std::span<const std::int64_t> what, const std::string& refused,
           const char* differ);

// The tiles of a distributed array as its mirrors fetch them. Each has a slot of whole pages.
struct MirrorTiles {
  explicit MirrorTiles(const AnyArray::Impl& of);
  layout::TileMap map;
  std::uint64_t slot_bytes;

  // One get of slots `first` to `end` of the tiles named, from the slice of rank `host`.
  struct Fetch {
    std::size_t first, end;
    int host;
    std::uint64_t bytes;
  };
  // The fewest for tiles of ascending numbers: neighbours come together that fill their slots, and
  // whose owners share a node.
  std::vector<Fetch> fetches(const AnyArray::Impl& of, std::span<const std::int64_t> wanted) const;
};

enum class Kind { get, put, acc };

// What Traffic counts, and which tiles were got. Only operations between nodes come here.
class TrafficCount {
 public:
  struct Tallies {
    Tally parts, bytes, ns, nb_bytes;
  };
  Tallies& operator[](Kind kind) { return tallies_[static_cast<std::size_t>(kind)]; }
  void count(Kind kind, std::uint64_t bytes) {
    (*this)[kind].parts.add(1);
    (*this)[kind].bytes.add(bytes);
  }
  const MirrorTiles& tiles(const AnyArray::Impl& of);
  // For a tile that a call got something of, once tiles() was asked for: a mirror would have it
  // already.
  bool is_marked(std::int64_t tile) {
    return std::atomic_ref(marks_[static_cast<std::size_t>(tile)]).load(std::memory_order_relaxed);
  }
  // One call got something of these tiles, which were not marked.
  void mark(const AnyArray::Impl& of, std::vector<std::int64_t> numbers);
  Traffic read(const AnyArray::Impl& of);
  void clear();

 private:
  std::array<Tallies, 3> tallies_;
  std::once_flag once_;  // of the following two, made when a tile is marked or all are read
  std::optional<MirrorTiles> tiles_;
  // By tile, by any thread, through atomic_ref. 1: got; 2: and a mirror's fetch would begin here.
  std::vector<std::uint8_t> marks_;
};

// A group's nodes, and the group of its members on the own node (on one node: the group itself).
struct NodeGroups {
  std::shared_ptr<const NodeMap> nodes;
  Group node_group;
};

// Shared by all arrays of a job; hangs off JobState::arrays.
struct ArrayContext {
  Tally gets, puts, accs, merge_moved, merge_skipped, mirror_moved;
  std::mutex mutex;                 // guards `world`
  std::optional<NodeGroups> world;  // empty until the first array over all ranks
};
ArrayContext& array_context(const JobRef& job);
// Collective over the group, except when it is the world and not the first time. The caller frees
// the node group of other groups.
NodeGroups node_groups(const Group& group);

}  // namespace detail

struct AnyArray::Impl {
  // One block of this node that this process can load and store directly.
  struct LocalBlock {
    Patch patch;
    std::byte* data = nullptr;                     // never null: empty blocks are left out
    std::array<std::int64_t, max_dims> strides{};  // bytes
  };

  Group group;       // all members
  Group node_group;  // the members on the own node
  std::shared_ptr<const detail::NodeMap> nodes;
  detail::ArrayContext* context = nullptr;  // of the job; outlives the array's use
  Type type = Type::float64;
  std::uint64_t element_bytes = 8;
  ArrayOptions options;
  Placement placement = Placement::distributed;
  layout::Distribution layout;     // over the group, or over the own node's members if mirrored
  int own_block = 0;               // may be >= layout.blocks(): holds nothing
  std::optional<Segment> segment;  // always there after construction
  // Of a mirrored array on several nodes: how merge divides it into tiles, the same on every node.
  // Otherwise empty.
  std::optional<layout::TileMap> tiles;
  std::vector<int> local_index;  // block numbers that `locals` describe, ascending
  std::vector<LocalBlock> locals;
  bool all_local = false;  // every block is in `locals`
  mutable detail::TrafficCount traffic;
  // where the last patch was found; only a hint, written by any thread
  mutable std::atomic<int> last_local{0};

  Impl(const Group& members, Type element_type, std::span<const std::int64_t> shape,
       const ArrayOptions& wanted);

  bool mirrored() const { return placement == Placement::mirrored; }
  // The ranks that may touch the same data: all members, or the node's.
  const Group& scope() const { return mirrored() ? node_group : group; }
  int rank_of_block(int b) const;  // job rank
  const LocalBlock* local_block(int b) const;
  const LocalBlock* own() const { return local_block(own_block); }
  void check_patch(const Patch& patch) const;  // throws RANGE
  // Runs a blocking transfer, and counts how long it took if some of it crossed nodes.
  template <class Fn>
  void watched(detail::Kind kind, Fn&& transfer) const;
};

template <class Fn>
void AnyArray::Impl::watched(detail::Kind kind, Fn&& transfer) const {
  if (all_local) return transfer();
  auto& tallies = traffic[kind];
  const std::uint64_t before = tallies.bytes.value;
  const auto begin = std::chrono::steady_clock::now();
  transfer();
  if (tallies.bytes.value != before)
    tallies.ns.add(static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count()));
}

namespace detail {

Patch element_at(std::span<const std::int64_t> index);
// How many elements these name. Throws INVALID, RANGE.
std::size_t check_indices(const AnyArray::Impl& a, std::span<const std::int64_t> indices);

struct Strides {
  std::array<std::int64_t, max_dims> bytes{};
};
Strides dense_strides(const Patch& patch, std::uint64_t element_bytes);
// The caller's strides, or dense ones if empty. Throws INVALID if they cannot be used.
Strides origin_strides(const Patch& patch, std::uint64_t element_bytes,
                       std::span<const std::int64_t> given);
inline std::int64_t offset_in(const Patch& outer, const Patch& inner, const Strides& strides) {
  std::int64_t offset = 0;
  for (int d = 0; d < outer.dims; ++d) {
    const auto k = static_cast<std::size_t>(d);
    offset += (inner.lo[k] - outer.lo[k]) * strides.bytes[k];
  }
  return offset;
}
// A box of `patch`'s extents as a strided transfer; neighbouring levels that are contiguous on both
// sides are joined.
skerry_strided strided(const Patch& patch, std::uint64_t element_bytes, const Strides& origin,
                       const Strides& target);
void copy_box(const Patch& box, std::uint64_t element_bytes, const std::byte* from,
              const Strides& from_strides, std::byte* to, const Strides& to_strides);

// The end of an array or mirror. It is freed only if all members can be expected to do so: not
// while an exception passes that came after it was made (`exceptions`: how many there were then).
template <class Owner>
void end_owner(Owner& owner, int exceptions) {
  if (std::uncaught_exceptions() != exceptions || owner.freed()) return owner.release();
  try {
    owner.free();
  } catch (const Error&) {  // a member died: the runtime reports it
  }
  assert(owner.freed());
}

// Non-blocking transfers that are waited for together; the destructor waits, so an error in between
// cannot leave one behind.
class Batch {
 public:
  explicit Batch(skerry_job* job) : job_(job) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch();
  skerry_handle* add() { return &handles_.emplace_back(0); }
  void wait();
  std::vector<skerry_handle> take() { return std::exchange(handles_, {}); }

 private:
  skerry_job* job_;
  std::vector<skerry_handle> handles_;  // 0: issuing it failed
};

// Calls fn with a value of the array's C++ element type, which is one that computes.
template <class Fn>
decltype(auto) with_type(Type type, Fn&& fn) {
  switch (type) {
    case Type::int8: return fn(std::int8_t{});
    case Type::int16: return fn(std::int16_t{});
    case Type::int32: return fn(std::int32_t{});
    case Type::int64: return fn(std::int64_t{});
    case Type::uint8: return fn(std::uint8_t{});
    case Type::uint16: return fn(std::uint16_t{});
    case Type::uint32: return fn(std::uint32_t{});
    case Type::uint64: return fn(std::uint64_t{});
    case Type::float32: return fn(float{});
    case Type::float64: return fn(double{});
    case Type::complex64: return fn(std::complex<float>{});
    case Type::complex128: return fn(std::complex<double>{});
    case Type::boolean: break;
  }
  throw Error(SKERRY_ERR_INTERNAL, std::string("arithmetic on ") + to_string(type));
}

// Integers wrap around, without undefined overflow.
template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else return a + b;
}
template <class T>
T product_of(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else return a * b;
}
// Throws INVALID for what computes with an array of bool.
void check_arithmetic(const AnyArray::Impl& a, const char* what);

}  // namespace detail
}  // namespace v0
}  // namespace sk
