// Pure: how merge divides a mirrored array into tiles. Tiles are small boxes, the same on every
// node even if the nodes' layouts differ. A tile that is zero on a node need not be moved.
// Neighbouring tiles that move alike are joined into few large boxes.
#pragma once

#include <cstdint>
#include <vector>

#include "distribution.hpp"

namespace sk::layout {

// Tiles are this many indices long along the first and the last dimension, and whole along others:
// 8 KiB of doubles in a matrix. Small enough to tell a triangle or a screened block from a full
// matrix, large enough that its flag costs nothing.
inline constexpr std::int64_t tile_edge = 32;

class TileMap {
 public:
  // Tiles are cut from the blocks of `canonical`, which every node derives from the first node's
  // layout.
  explicit TileMap(Distribution canonical, std::int64_t edge = tile_edge);
  std::int64_t tiles() const { return first_.back(); }
  // Numbers of the tiles that may hold some of `box`: [first, last).
  std::pair<std::int64_t, std::int64_t> range(const Patch& box) const;

  struct Tile {
    std::int64_t number;    // 0..tiles()-1
    std::int64_t in_block;  // 0..of_block-1, row-major in its block
    std::int64_t of_block;
    Patch part;   // the part of it in the requested box
    Patch whole;  // all of it
  };
  struct Place {
    int block;
    Patch box;
  };
  Place place(std::int64_t number) const;
  // The number of the tile that holds an element of block b, whose box is `block`.
  std::int64_t tile_of(int b, const Patch& block, std::span<const std::int64_t> index) const {
    const auto last = index.size() - 1;
    const std::int64_t first = first_[static_cast<std::size_t>(b)];
    const std::int64_t row = (index[0] - block.lo[0]) / edge(block.dims);
    if (last == 0) return first + row;
    return first + row * columns(block) + (index[last] - block.lo[last]) / edge_;
  }
  // Calls fn(Tile) for every tile that holds some of `box`, in ascending order of numbers.
  template <class Fn>
  void for_each(const Patch& box, Fn&& fn) const;

 private:
  // A vector's tiles have as many elements as a matrix's.
  std::int64_t edge(int dims) const { return dims == 1 ? edge_ * edge_ : edge_; }
  std::int64_t rows(const Patch& block) const {
    return (block.extent(0) + edge(block.dims) - 1) / edge(block.dims);
  }
  std::int64_t columns(const Patch& block) const {
    return block.dims == 1 ? 1 : (block.extent(block.dims - 1) + edge_ - 1) / edge_;
  }

  Distribution canonical_;
  std::int64_t edge_;
  std::vector<std::int64_t> first_;  // number of each block's first tile; one more at the end
};

template <class Fn>
void TileMap::for_each(const Patch& box, Fn&& fn) const {
  const auto last = static_cast<std::size_t>(box.dims - 1);
  canonical_.for_each_block(box, [&](int b, const Patch& inside) {
    const Patch block = canonical_.block(b);
    const std::int64_t across = columns(block), all = rows(block) * across;
    const std::int64_t step = edge(box.dims);
    // The k-th along dimension d, and what of it is in the box.
    const auto cut = [&](Tile& tile, std::size_t d, std::int64_t k) {
      tile.whole.lo[d] = block.lo[d] + k * step;
      tile.whole.hi[d] = std::min(block.hi[d], tile.whole.lo[d] + step);
      tile.part.lo[d] = std::max(inside.lo[d], tile.whole.lo[d]);
      tile.part.hi[d] = std::min(inside.hi[d], tile.whole.hi[d]);
    };
    for (std::int64_t r = (inside.lo[0] - block.lo[0]) / step;
         r * step + block.lo[0] < inside.hi[0]; ++r) {
      Tile tile{0, 0, all, inside, block};
      cut(tile, 0, r);
      if (box.dims == 1) {
        tile.in_block = r;
        tile.number = first_[static_cast<std::size_t>(b)] + r;
        fn(tile);
        continue;
      }
      for (std::int64_t c = (inside.lo[last] - block.lo[last]) / step;
           c * step + block.lo[last] < inside.hi[last]; ++c) {
        cut(tile, last, c);
        tile.in_block = r * across + c;
        tile.number = first_[static_cast<std::size_t>(b)] + tile.in_block;
        fn(tile);
      }
    }
  });
}

// Where a node's flags lie in the slice of its first member: behind that member's block.
std::uint64_t flags_offset(const Distribution& node_layout, std::uint64_t element_bytes);

// Joins boxes of equal `key` into larger ones, of at most `max_elements` each.
class BoxJoiner {
 public:
  explicit BoxJoiner(std::int64_t max_elements) : max_elements_(max_elements) {}
  void add(const Patch& box, int key);  // in row-major order of neighbours
  struct Joined {
    Patch box;
    int key;
  };
  std::vector<Joined> take();

 private:
  void close_run();
  std::int64_t max_elements_;
  bool open_ = false;           // run_ holds something
  Joined run_{};                // grows along the last dimension
  std::vector<Joined> joined_;  // grow along the first dimension
  std::size_t recent_ = 0;      // index in joined_ from which a box may still grow
};

}  // namespace sk::layout
