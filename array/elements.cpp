// Elements anywhere in an array, each named by its index: gather, scatter, scatter_acc.
#include <cstring>

#include "impl.hpp"

namespace sk {
inline namespace v0 {

using detail::Batch;
using detail::Kind;
using Impl = AnyArray::Impl;

namespace detail {

Patch element_at(std::span<const std::int64_t> index) {
  Patch element(index, index);
  for (int d = 0; d < element.dims; ++d) ++element.hi[static_cast<std::size_t>(d)];
  return element;
}

std::size_t check_indices(const Impl& a, std::span<const std::int64_t> indices) {
  const auto dims = static_cast<std::size_t>(a.layout.dims());
  if (indices.size() % dims != 0)
    throw Error(SKERRY_ERR_INVALID, std::to_string(indices.size()) + " indices for elements of " +
                                        std::to_string(dims) + " dimensions: give all of each");
  for (std::size_t i = 0; i < indices.size(); ++i)
    if (indices[i] < 0 || indices[i] >= a.layout.shape()[i % dims])
      a.check_patch(element_at(indices.subspan(i - i % dims, dims)));  // throws
  return indices.size() / dims;
}

}  // namespace detail

namespace {

// Which block holds each element, and where. Nothing has moved when it throws.
struct Places {
  std::vector<int> blocks;
  std::vector<std::uint64_t> offsets;  // bytes, in the holder's slice
  std::vector<std::size_t> counts;     // elements by block
  std::vector<std::int64_t> tiles;     // that a mirror would need

  Places(const Impl& a, Kind kind, std::span<const std::int64_t> indices) {
    const std::size_t n = detail::check_indices(a, indices);
    const auto dims = static_cast<std::size_t>(a.layout.dims());
    blocks.resize(n);
    offsets.resize(n);
    counts.resize(static_cast<std::size_t>(a.layout.blocks()));
    std::vector<Patch> boxes(counts.size());
    for (std::size_t b = 0; b < boxes.size(); ++b) boxes[b] = a.layout.block(static_cast<int>(b));
    const auto* map = kind == Kind::get && !a.all_local ? &a.traffic.tiles(a).map : nullptr;
    for (std::size_t i = 0; i < n; ++i) {
      const auto index = indices.subspan(i * dims, dims);
      const int b = a.layout.block_of(index);
      const Patch& box = boxes[static_cast<std::size_t>(b)];
      std::int64_t at = 0;
      for (std::size_t d = 0; d < dims; ++d)
        at = at * box.extent(static_cast<int>(d)) + index[d] - box.lo[d];
      blocks[i] = b;
      offsets[i] = static_cast<std::uint64_t>(at) * a.element_bytes;
      ++counts[static_cast<std::size_t>(b)];
      if (map == nullptr || a.local_block(b)) continue;
      const std::int64_t tile = map->tile_of(b, box, index);
      if (!a.traffic.is_marked(tile)) tiles.push_back(tile);
    }
  }
};

// The pieces of one block's elements. The vector operations do not write what they only read.
std::vector<skerry_piece> pieces_of(const Impl& a, const Places& places, std::size_t block,
                                    const void* values) {
  std::vector<skerry_piece> pieces;
  pieces.reserve(places.counts[block]);
  auto* at = static_cast<std::byte*>(const_cast<void*>(values));
  for (std::size_t i = 0; i < places.blocks.size(); ++i, at += a.element_bytes)
    if (places.blocks[i] == static_cast<int>(block))
      pieces.push_back({at, places.offsets[i], a.element_bytes});
  return pieces;
}

// Calls fn(rank, its pieces) for each block that this process can touch, or for each other one.
template <class Fn>
void for_blocks(const Impl& a, const Places& places, bool local, const void* values, Fn&& fn) {
  for (std::size_t b = 0; b < places.counts.size(); ++b)
    if (places.counts[b] != 0 && (a.local_block(static_cast<int>(b)) != nullptr) == local)
      fn(a.rank_of_block(static_cast<int>(b)), pieces_of(a, places, b, values));
}

// Starts what crosses nodes, does what is local while that travels, and waits.
template <class Start, class Local>
void move_elements(const Impl& a, Kind kind, const Places& places, const void* values,
                   Start&& start, Local&& local) {
  a.watched(kind, [&] {
    Batch batch(a.group.job());
    for_blocks(a, places, false, values, [&](int rank, const std::vector<skerry_piece>& pieces) {
      a.traffic.count(kind, pieces.size() * a.element_bytes);
      check(start(a.segment->get(), rank, pieces.data(), pieces.size(), batch.add()));
    });
    if (!places.tiles.empty()) a.traffic.mark(a, places.tiles);
    local();
    batch.wait();
  });
}

// Calls fn(element in the array, its value) for what this process can touch.
template <class Fn>
void copy_local(const Impl& a, const Places& places, const void* values, Fn&& fn) {
  std::vector<std::byte*> bases(places.counts.size());  // null: not in this process's reach
  for (std::size_t b = 0; b < bases.size(); ++b)
    if (const auto* block = a.local_block(static_cast<int>(b))) bases[b] = block->data;
  auto* at = static_cast<std::byte*>(const_cast<void*>(values));
  for (std::size_t i = 0; i < places.blocks.size(); ++i, at += a.element_bytes)
    if (std::byte* base = bases[static_cast<std::size_t>(places.blocks[i])])
      fn(base + places.offsets[i], at, a.element_bytes);
}

}  // namespace

void AnyArray::gather(std::span<const std::int64_t> indices, void* out) const {
  const Impl& a = impl();
  const Places places(a, Kind::get, indices);
  move_elements(a, Kind::get, places, out, skerry_get_vector_nb, [&] {
    copy_local(a, places, out, [](const std::byte* there, std::byte* here, std::uint64_t bytes) {
      std::memcpy(here, there, bytes);
    });
  });
  a.context->gets.add(1);
}

void AnyArray::scatter(std::span<const std::int64_t> indices, const void* values) const {
  const Impl& a = impl();
  const Places places(a, Kind::put, indices);
  move_elements(a, Kind::put, places, values, skerry_put_vector_nb, [&] {
    copy_local(a, places, values, [](std::byte* there, const std::byte* here, std::uint64_t bytes) {
      std::memcpy(there, here, bytes);
    });
  });
  a.context->puts.add(1);
}

void AnyArray::scatter_acc(std::span<const std::int64_t> indices, const void* values,
                           const void* alpha) const {
  const Impl& a = impl();
  detail::check_arithmetic(a, "scatter_acc");
  const Places places(a, Kind::acc, indices);
  const int type = static_cast<int>(a.type);
  const auto start = [&](skerry_segment* segment, int rank, const skerry_piece* pieces,
                         std::size_t count, skerry_handle* handle) {
    return skerry_acc_vector_nb(segment, rank, type, alpha, pieces, count, handle);
  };
  // Inside the node, too, the runtime adds: it is atomic with the data server's updates.
  move_elements(a, Kind::acc, places, values, start, [&] {
    for_blocks(a, places, true, values, [&](int rank, const std::vector<skerry_piece>& pieces) {
      check(skerry_acc_vector(a.segment->get(), rank, type, alpha, pieces.data(), pieces.size()));
    });
  });
  a.context->accs.add(1);
}

}  // namespace v0
}  // namespace sk
