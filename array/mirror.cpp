// Mirrors: read-only copies of a distributed array, one in each node's shared memory.
//
// A node's copy has a slot for each tile (tiles.hpp) of the array. What is in a slot is the array
// as it was at the last refresh. The owners' node keeps the slots of its own blocks filled: they
// are what it gives out. Other nodes fetch from these slots, never from the blocks themselves. So
// the owner knows what was given out, and by comparing its block with it, what has changed since.
//
// The state of a tile goes from absent to coming to present. A reader that turns it from absent to
// coming (compare-and-swap) fetches the tile. Readers that find it coming wait, but only for a
// while: should the fetching process have died, they fetch what they need for themselves. Refresh
// turns tiles absent, while no rank of the node reads: it ends with a sync of the node.
//
// Memory order: the data of a slot are written before its state is stored (release), and read after
// it is loaded (acquire). Between nodes and for the owners' slots, collectives order.
#include <cassert>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "impl.hpp"

namespace sk {
inline namespace v0 {

using detail::Batch;
using detail::Strides;
using Tile = layout::TileMap::Tile;

namespace {

enum State : std::uint8_t { absent = 0, coming = 1, present = 2 };

constexpr std::uint64_t page_bytes = 4096;
constexpr std::int64_t first_pause_ns = 20'000, longest_pause_ns = 1'000'000;
constexpr std::int64_t patience_ns = 100'000'000;  // for another process's fetch

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

// Of a mirror's tiles: those of a matrix are whole pages.
std::int64_t tile_edge(std::uint64_t element_bytes) { return element_bytes < 4 ? 64 : 32; }

// The most bytes that a tile has.
std::uint64_t most_bytes(const layout::Distribution& layout, std::uint64_t element_bytes) {
  const std::int64_t edge = tile_edge(element_bytes);
  std::uint64_t bytes = element_bytes;
  const int last = layout.dims() - 1;
  for (int d = 0; d <= last; ++d) {
    const auto bounds = layout.bounds(d);
    std::int64_t longest = 1;
    for (std::size_t i = 1; i < bounds.size(); ++i)
      longest = std::max(longest, bounds[i] - bounds[i - 1]);
    if (last == 0) longest = std::min(longest, edge * edge);
    else if (d == 0 || d == last) longest = std::min(longest, edge);
    bytes *= static_cast<std::uint64_t>(longest);
  }
  return bytes;
}

// Makes `to` equal to `from`; returns whether it was not.
bool renew(const Patch& box, std::uint64_t element_bytes, const std::byte* from,
           const Strides& from_strides, std::byte* to, const Strides& to_strides) {
  const skerry_strided shape = detail::strided(box, element_bytes, from_strides, to_strides);
  std::array<std::uint64_t, SKERRY_MAX_LEVELS> index{};
  bool changed = false;
  for (;;) {
    std::int64_t here = 0, there = 0;
    for (int k = 0; k < shape.levels; ++k) {
      const auto at = static_cast<std::int64_t>(index[static_cast<std::size_t>(k)]);
      here += at * shape.origin_stride[k];
      there += at * shape.target_stride[k];
    }
    if (std::memcmp(to + there, from + here, shape.block_bytes) != 0) {
      std::memcpy(to + there, from + here, shape.block_bytes);
      changed = true;
    }
    int k = 0;
    while (k < shape.levels && ++index[static_cast<std::size_t>(k)] == shape.count[k])
      index[static_cast<std::size_t>(k++)] = 0;
    if (k == shape.levels) return changed;
  }
}

}  // namespace

namespace detail {

MirrorTiles::MirrorTiles(const AnyArray::Impl& of)
    : map(of.layout, tile_edge(of.element_bytes)),
      slot_bytes(round_up(most_bytes(of.layout, of.element_bytes), page_bytes)) {}

std::vector<MirrorTiles::Fetch> MirrorTiles::fetches(const AnyArray::Impl& of,
                                                     std::span<const std::int64_t> wanted) const {
  std::vector<Fetch> all;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto [block, box] = map.place(wanted[i]);
    // In the slice of the first member of its owner's node.
    const int host = of.nodes->rank(of.nodes->find(of.rank_of_block(block)).first, 0);
    if (i == 0 || wanted[i] != wanted[i - 1] + 1 || all.back().bytes % slot_bytes != 0 ||
        host != all.back().host)
      all.push_back({i, i, host, 0});
    all.back().end = i + 1;
    all.back().bytes += static_cast<std::uint64_t>(box.elements()) * of.element_bytes;
  }
  return all;
}

}  // namespace detail

struct Mirror::Impl : detail::MirrorTiles {
  std::shared_ptr<const AnyArray::Impl> array;  // its segment may have been freed
  Segment slots;   // sparse; all in the slice of each node's first member
  Segment states;  // of a first member: the tiles' states; of all members: see marks_at
  std::byte* first_slot = nullptr;  // of the own node
  std::uint8_t* first_state = nullptr;

  explicit Impl(const std::shared_ptr<const AnyArray::Impl>& of) : MirrorTiles(*of), array(of) {
    const auto& nodes = *array->nodes;
    const bool hosts = nodes.own_index() == 0;
    const auto count = static_cast<std::uint64_t>(map.tiles());
    slots = Segment::sparse(array->group, hosts ? count * slot_bytes : 0);
    states = Segment(array->group, marks_at(nodes.own_index()) + marks_bytes(array->own_block));
    const int host = nodes.rank(nodes.own_node(), 0);
    first_slot = slots.pointer(host);
    first_state = states.pointer<std::uint8_t>(host);
  }

  std::atomic_ref<std::uint8_t> state(std::int64_t tile) const {
    return std::atomic_ref(first_state[tile]);
  }
  std::byte* slot(std::int64_t tile) const {
    return first_slot + static_cast<std::uint64_t>(tile) * slot_bytes;
  }
  // Marks: one bit for each tile of a member's block, set if it changed.
  std::uint64_t marks_at(int index) const {
    return index == 0 ? round_up(static_cast<std::uint64_t>(map.tiles()), 64) : 0;
  }
  std::uint64_t marks_bytes(int block) const {
    const Patch patch = array->layout.block(block);
    if (patch.empty()) return 0;
    const auto [low, high] = map.range(patch);
    return static_cast<std::uint64_t>(high - low + 7) / 8;
  }
  bool wait_for(std::int64_t tile) const;
  std::int64_t update_own() const;
  void claim(const Patch& box, std::vector<std::int64_t>& wanted) const;
  void fetch(const std::vector<std::int64_t>& wanted) const;
  void copy(const Patch& box, std::byte* out, const Strides& origin) const;
  void forget_changed() const;
};

// Brings the slots of the own block up to date and marks those that changed; returns how many.
std::int64_t Mirror::Impl::update_own() const {
  const auto* own = array->own();
  if (!own) return 0;
  auto* const marks = states.local<std::uint8_t>() + marks_at(array->nodes->own_index());
  std::memset(marks, 0, marks_bytes(array->own_block));
  const Strides strides{own->strides};
  std::int64_t changed = 0;
  map.for_each(own->patch, [&](const Tile& tile) {
    if (renew(tile.whole, array->element_bytes,
              own->data + detail::offset_in(own->patch, tile.whole, strides), strides,
              slot(tile.number), detail::dense_strides(tile.whole, array->element_bytes))) {
      marks[tile.in_block / 8] |= static_cast<std::uint8_t>(1 << tile.in_block % 8);
      ++changed;
    }
    state(tile.number).store(present, std::memory_order_release);
  });
  return changed;
}

// Turns absent tiles of a box to coming; the caller fetches them.
void Mirror::Impl::claim(const Patch& box, std::vector<std::int64_t>& wanted) const {
  map.for_each(box, [&](const Tile& tile) {
    std::uint8_t seen = state(tile.number).load(std::memory_order_acquire);
    if (seen == absent && state(tile.number).compare_exchange_strong(seen, coming))
      wanted.push_back(tile.number);
  });
}

// The caller has claimed them, or takes them over.
void Mirror::Impl::fetch(const std::vector<std::int64_t>& wanted) const {
  if (wanted.empty()) return;
  std::uint64_t moved = 0;
  try {
    Batch batch(array->group.job());
    for (const Fetch& each : fetches(*array, wanted)) {
      const auto offset = static_cast<std::uint64_t>(wanted[each.first]) * slot_bytes;
      check(skerry_get_nb(slots.get(), each.host, offset, first_slot + offset, each.bytes,
                          batch.add()));
      moved += each.bytes;
    }
    batch.wait();
  } catch (...) {
    for (const auto tile : wanted) state(tile).store(absent, std::memory_order_release);
    throw;
  }
  for (const auto tile : wanted) state(tile).store(present, std::memory_order_release);
  array->context->mirror_moved.add(moved);
}

// False: nobody has brought it in time.
bool Mirror::Impl::wait_for(std::int64_t tile) const {
  std::int64_t waited_ns = 0;
  for (std::int64_t pause_ns = first_pause_ns; waited_ns < patience_ns;
       pause_ns = std::min(2 * pause_ns, longest_pause_ns)) {
    if (state(tile).load(std::memory_order_acquire) == present) return true;
    const timespec pause{0, static_cast<long>(pause_ns)};
    nanosleep(&pause, nullptr);
    waited_ns += pause_ns;
  }
  return state(tile).load(std::memory_order_acquire) == present;
}

void Mirror::Impl::copy(const Patch& box, std::byte* out, const Strides& origin) const {
  map.for_each(box, [&](const Tile& tile) {
    // Another process was to bring it. If it died, this one does. If it is merely slow, both write
    // the same bytes: what the tile's owner gave out stands until the next refresh.
    if (state(tile.number).load(std::memory_order_acquire) != present && !wait_for(tile.number))
      fetch({tile.number});
    const Strides dense = detail::dense_strides(tile.whole, array->element_bytes);
    detail::copy_box(tile.part, array->element_bytes,
                     slot(tile.number) + detail::offset_in(tile.whole, tile.part, dense), dense,
                     out + detail::offset_in(box, tile.part, origin), origin);
  });
}

// The members of the node share the other nodes' blocks, and forget which tiles of them changed.
void Mirror::Impl::forget_changed() const {
  const auto& nodes = *array->nodes;
  const int sharers = nodes.node_size(nodes.own_node());
  struct Marks {
    std::int64_t first, end;  // tiles
    std::vector<std::uint8_t> bits;
  };
  std::vector<Marks> all;
  Batch batch(array->group.job());
  for (int b = nodes.own_index(); b < array->layout.blocks(); b += sharers) {
    const Patch patch = array->layout.block(b);
    if (patch.empty()) continue;
    const auto [node, index] = nodes.find(array->rank_of_block(b));
    if (node == nodes.own_node()) continue;
    const auto [low, high] = map.range(patch);
    if (std::all_of(first_state + low, first_state + high, [](auto one) { return one == absent; }))
      continue;
    Marks& marks = all.emplace_back(Marks{low, high, std::vector<std::uint8_t>(marks_bytes(b))});
    check(skerry_get_nb(states.get(), nodes.rank(node, index), marks_at(index), marks.bits.data(),
                        marks.bits.size(), batch.add()));
  }
  batch.wait();
  for (const Marks& marks : all)
    for (std::int64_t i = 0; i < marks.end - marks.first; ++i)
      if (marks.bits[static_cast<std::size_t>(i / 8)] >> (i % 8) & 1)
        state(marks.first + i).store(absent, std::memory_order_relaxed);
}

// ---- the class ----------------------------------------------------------------------------------

Mirror::Mirror() = default;
Mirror::Mirror(const AnyArray& array) : exceptions_(std::uncaught_exceptions()) {
  const AnyArray::Impl& source = array.impl();
  if (source.mirrored())
    throw Error(SKERRY_ERR_INVALID,
                "this array has a copy on every node already: mirror a distributed one");
  impl_ = std::make_shared<Impl>(array.impl_);
  source.group.sync();  // what was written is there
  impl_->update_own();
  source.group.sync();
}
Mirror::Mirror(Mirror&& other) noexcept
    : impl_(std::move(other.impl_)), exceptions_(other.exceptions_) {}
Mirror& Mirror::operator=(Mirror&& other) noexcept {
  std::swap(impl_, other.impl_);
  std::swap(exceptions_, other.exceptions_);
  return *this;
}
Mirror::~Mirror() {
  if (impl_) detail::end_owner(*this, exceptions_);
}

void Mirror::free() {
  impl();  // throws if there is nothing to free
  const auto mine = std::exchange(impl_, nullptr);
  assert(freed() && mine->slots);
  mine->slots.free();
  mine->states.free();
}

void Mirror::release() noexcept {
  if (!impl_) return;
  impl_->slots.release();
  impl_->states.release();
  impl_.reset();
}

bool Mirror::freed() const noexcept { return !impl_ || !impl_->slots; }

Mirror::Impl& Mirror::impl() const {
  if (freed()) [[unlikely]]
    throw Error(SKERRY_ERR_FREED,
                "this mirror was freed or never made, or its job has ended: use it before that");
  return *impl_;
}

Type Mirror::type() const { return impl().array->type; }
std::span<const std::int64_t> Mirror::shape() const { return impl().array->layout.shape(); }

void Mirror::get(const Patch& patch, void* out, std::span<const std::int64_t> given) const {
  const Impl& m = impl();
  const AnyArray::Impl& a = *m.array;
  a.check_patch(patch);
  if (patch.empty()) return;
  const Strides origin = detail::origin_strides(patch, a.element_bytes, given);
  std::vector<std::int64_t> wanted;
  m.claim(patch, wanted);
  m.fetch(wanted);
  m.copy(patch, static_cast<std::byte*>(out), origin);
}

void Mirror::gather(std::span<const std::int64_t> indices, void* out) const {
  const Impl& m = impl();
  const AnyArray::Impl& a = *m.array;
  const std::size_t count = detail::check_indices(a, indices);  // before anything is claimed
  const auto dims = static_cast<std::size_t>(a.layout.dims());
  const auto element = [&](std::size_t i) {
    return detail::element_at(indices.subspan(i * dims, dims));
  };
  std::vector<std::int64_t> wanted;
  for (std::size_t i = 0; i < count; ++i) m.claim(element(i), wanted);
  std::sort(wanted.begin(), wanted.end());
  m.fetch(wanted);
  auto* const base = static_cast<std::byte*>(out);
  for (std::size_t i = 0; i < count; ++i) m.copy(element(i), base + i * a.element_bytes, {});
}

void Mirror::refresh() const {
  const Impl& m = impl();
  const AnyArray::Impl& a = *m.array;
  if (!*a.segment)
    throw Error(SKERRY_ERR_FREED, "the mirrored array was freed: refresh before that");
  a.group.sync();  // what was written is there, and nobody reads the mirror
  const std::int64_t changed = m.update_own();
  skerry_job* const job = a.group.job();
  check(skerry_fence_node(job, skerry_node_of(job, skerry_rank(job))));
  // Everybody's slots and marks are ready, and everybody knows whether there is anything to do.
  if (a.group.allreduce(changed) > 0 && a.nodes->nodes() > 1) m.forget_changed();
  a.node_group.sync();
}

}  // namespace v0
}  // namespace sk
