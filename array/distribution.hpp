// Pure: which block of an array holds which indices. A process grid of blocks, numbered row-major;
// block b belongs to the b-th of the ranks that share the array. No ranks, memory or communication
// here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "skerry/array.hpp"

namespace sk::layout {

using Starts = std::vector<std::vector<std::int64_t>>;

// Why these options cannot describe an array of this shape; empty if they can.
std::string invalid_shape(std::span<const std::int64_t> shape, std::uint64_t element_bytes);
std::string invalid_grid(std::span<const std::int64_t> shape, std::span<const int> grid);
std::string invalid_starts(std::span<const std::int64_t> shape, const Starts& starts);

// The grid of at most `members` blocks, at most `limit[d]` along dimension d, that uses the most
// members and among those has the least surface per block.
std::vector<int> choose_grid(std::span<const std::int64_t> shape,
                             std::span<const std::int64_t> limit, int members);

// Joins neighbouring blocks until `parts` are left, of nearly equal length; boundaries are taken
// from `starts`.
std::vector<std::int64_t> join_starts(std::span<const std::int64_t> starts, std::int64_t length,
                                      int parts);

class Distribution {
 public:
  Distribution() = default;
  // Regular or irregular blocks for `members` ranks; the arguments must have passed the checks
  // above. A given grid that has more blocks than `members` is replaced by a chosen one (a mirrored
  // array's nodes may be of different sizes).
  Distribution(std::span<const std::int64_t> shape, const ArrayOptions& options, int members);

  int dims() const { return static_cast<int>(shape_.size()); }
  std::span<const std::int64_t> shape() const { return shape_; }
  std::span<const int> grid() const { return grid_; }
  // grid[d] + 1 ascending numbers, the last being the length of dimension d.
  std::span<const std::int64_t> bounds(int d) const { return bounds_[static_cast<std::size_t>(d)]; }
  int blocks() const { return blocks_; }
  // Empty for b >= blocks(): that member holds nothing.
  Patch block(int b) const;
  int block_of(std::span<const std::int64_t> index) const;
  bool contains(const Patch& patch) const;

  // Calls fn(block, part) for each block that holds some of `patch`, in ascending order. `patch`
  // lies inside the array.
  template <class Fn>
  void for_each_block(const Patch& patch, Fn&& fn) const;

 private:
  int coordinate(int d, std::int64_t index) const;

  std::vector<std::int64_t> shape_;
  std::vector<int> grid_;
  Starts bounds_;
  int blocks_ = 0;
};

template <class Fn>
void Distribution::for_each_block(const Patch& patch, Fn&& fn) const {
  if (patch.empty()) return;
  int first[max_dims]{}, last[max_dims]{}, at[max_dims]{};
  const int n = dims();
  for (int d = 0; d < n; ++d) {
    const auto k = static_cast<std::size_t>(d);
    at[d] = first[d] = coordinate(d, patch.lo[k]);
    last[d] = coordinate(d, patch.hi[k] - 1);
  }
  for (;;) {
    int b = 0;
    Patch part;
    part.dims = n;
    for (int d = 0; d < n; ++d) {
      const auto k = static_cast<std::size_t>(d);
      const auto& bound = bounds_[k];
      b = b * grid_[k] + at[d];
      part.lo[k] = std::max(patch.lo[k], bound[static_cast<std::size_t>(at[d])]);
      part.hi[k] = std::min(patch.hi[k], bound[static_cast<std::size_t>(at[d]) + 1]);
    }
    if (!part.empty()) fn(b, part);
    int d = n - 1;
    while (d >= 0 && at[d] == last[d]) at[d] = first[d], --d;
    if (d < 0) return;
    ++at[d];
  }
}

}  // namespace sk::layout
