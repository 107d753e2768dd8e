// Elements anywhere in an array, each named by its index: gather, scatter, scatter_acc.
#include <cstring>

#include "impl.hpp"

namespace sk {
inline namespace v0 {

using detail::Batch;

namespace {

using Impl = AnyArray::Impl;

// Which block holds each element, and where. Nothing has moved when it throws.
struct Places {
  std::vector<int> blocks;
  std::vector<std::uint64_t> offsets;  // bytes, in the holder's slice
  std::vector<std::size_t> counts;     // elements by block

  Places(const Impl& a, std::span<const std::int64_t> indices) {
    const auto dims = static_cast<std::size_t>(a.layout.dims());
    if (indices.size() % dims != 0)
      throw Error(SKERRY_ERR_INVALID, std::to_string(indices.size()) + " indices for elements of " +
                                          std::to_string(dims) + " dimensions: give all of each");
    const std::size_t n = indices.size() / dims;
    blocks.resize(n);
    offsets.resize(n);
    counts.resize(static_cast<std::size_t>(a.layout.blocks()));
    std::vector<Patch> boxes(counts.size());
    for (std::size_t b = 0; b < boxes.size(); ++b) boxes[b] = a.layout.block(static_cast<int>(b));
    for (std::size_t i = 0; i < n; ++i) {
      const auto index = indices.subspan(i * dims, dims);
      for (std::size_t d = 0; d < dims; ++d)
        if (index[d] < 0 || index[d] >= a.layout.shape()[d]) refuse(a, index);
      const int b = a.layout.block_of(index);
      const Patch& box = boxes[static_cast<std::size_t>(b)];
      std::int64_t at = 0;
      for (std::size_t d = 0; d < dims; ++d)
        at = at * box.extent(static_cast<int>(d)) + index[d] - box.lo[d];
      blocks[i] = b;
      offsets[i] = static_cast<std::uint64_t>(at) * a.element_bytes;
      ++counts[static_cast<std::size_t>(b)];
    }
  }

 private:
  [[noreturn]] static void refuse(const Impl& a, std::span<const std::int64_t> index) {
    Patch element(index, index);
    for (int d = 0; d < element.dims; ++d) ++element.hi[static_cast<std::size_t>(d)];
    a.check_patch(element);  // throws: it names the array's shape
    throw Error(SKERRY_ERR_INTERNAL, "an index outside the array passed its check");
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

// Copies by fn(element in the array, its value) what this process can touch, while what is
// elsewhere travels.
template <class Start, class Copy>
void move_elements(const Impl& a, const Places& places, const void* values, Start&& start,
                   Copy&& copy) {
  Batch batch(a.group.job());
  for (std::size_t b = 0; b < places.counts.size(); ++b)
    if (places.counts[b] != 0 && !a.local_block(static_cast<int>(b))) {
      const auto pieces = pieces_of(a, places, b, values);
      check(start(a.segment->get(), a.rank_of_block(static_cast<int>(b)), pieces.data(),
                  pieces.size(), batch.add()));
    }
  std::vector<std::byte*> bases(places.counts.size());  // null: not in this process's reach
  for (std::size_t b = 0; b < bases.size(); ++b)
    if (const auto* block = a.local_block(static_cast<int>(b))) bases[b] = block->data;
  auto* at = static_cast<std::byte*>(const_cast<void*>(values));
  for (std::size_t i = 0; i < places.blocks.size(); ++i, at += a.element_bytes)
    if (std::byte* base = bases[static_cast<std::size_t>(places.blocks[i])])
      copy(base + places.offsets[i], at, a.element_bytes);
  batch.wait();
}

}  // namespace

void AnyArray::gather(std::span<const std::int64_t> indices, void* out) const {
  const Impl& a = impl();
  move_elements(a, Places(a, indices), out, skerry_get_vector_nb,
                [](const std::byte* there, std::byte* here, std::uint64_t bytes) {
                  std::memcpy(here, there, bytes);
                });
  a.context->gets.add(1);
}

void AnyArray::scatter(std::span<const std::int64_t> indices, const void* values) const {
  const Impl& a = impl();
  move_elements(a, Places(a, indices), values, skerry_put_vector_nb,
                [](std::byte* there, const std::byte* here, std::uint64_t bytes) {
                  std::memcpy(there, here, bytes);
                });
  a.context->puts.add(1);
}

void AnyArray::scatter_acc(std::span<const std::int64_t> indices, const void* values,
                           const void* alpha) const {
  const Impl& a = impl();
  detail::check_arithmetic(a, "scatter_acc");
  const Places places(a, indices);
  Batch batch(a.group.job());
  // What crosses nodes first, so that it travels while the rest is added. Inside the node, too, the
  // runtime adds: it is atomic with the data server's updates.
  for (const bool local : {false, true})
    for (std::size_t b = 0; b < places.counts.size(); ++b) {
      if (places.counts[b] == 0 || (a.local_block(static_cast<int>(b)) != nullptr) != local)
        continue;
      const auto pieces = pieces_of(a, places, b, values);
      const int rank = a.rank_of_block(static_cast<int>(b)), type = static_cast<int>(a.type);
      check(local ? skerry_acc_vector(a.segment->get(), rank, type, alpha, pieces.data(),
                                      pieces.size())
                  : skerry_acc_vector_nb(a.segment->get(), rank, type, alpha, pieces.data(),
                                         pieces.size(), batch.add()));
    }
  batch.wait();
  a.context->accs.add(1);
}

}  // namespace v0
}  // namespace sk
