#include "distribution.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

namespace sk {
inline namespace v0 {

std::string to_string(const Patch& patch) {
  std::string text = "[";
  for (int d = 0; d < patch.dims; ++d) {
    const auto k = static_cast<std::size_t>(d);
    text += (d ? ", " : "") + std::to_string(patch.lo[k]) + ":" + std::to_string(patch.hi[k]);
  }
  return text + "]";
}

const char* to_string(Placement placement) {
  switch (placement) {
    case Placement::distributed: return "distributed";
    case Placement::mirrored: return "mirrored";
  }
  return "unknown placement";
}

}  // namespace v0

namespace layout {

std::string invalid_shape(std::span<const std::int64_t> shape, std::uint64_t element_bytes) {
  if (shape.empty() || shape.size() > max_dims)
    return "an array has 1 to 7 dimensions: got " + std::to_string(shape.size());
  std::uint64_t bytes = element_bytes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0)
      return "the length of dimension " + std::to_string(d) +
             " is negative: " + std::to_string(shape[d]);
    if (shape[d] == 0) bytes = 0;
    else if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(shape[d]), &bytes) ||
             bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return "dimension " + std::to_string(d) + " is " + std::to_string(shape[d]) +
             " long: with it the array has more than 2^63 bytes";
  }
  return {};
}

std::string invalid_grid(std::span<const std::int64_t> shape, std::span<const int> grid) {
  if (grid.empty()) return {};
  if (grid.size() != shape.size())
    return "the grid has " + std::to_string(grid.size()) + " dimensions, the array " +
           std::to_string(shape.size()) + ": give one number of blocks per dimension";
  for (int n : grid)
    if (n < 1)
      return "the grid has " + std::to_string(n) + " blocks along a dimension: give at least 1";
  return {};
}

std::string invalid_starts(std::span<const std::int64_t> shape, const Starts& starts) {
  if (starts.empty()) return {};
  if (starts.size() != shape.size())
    return "block starts are given for " + std::to_string(starts.size()) + " dimensions of " +
           std::to_string(shape.size()) + ": give one list per dimension";
  for (std::size_t d = 0; d < starts.size(); ++d) {
    const auto& list = starts[d];
    const std::string where = "block starts of dimension " + std::to_string(d);
    if (list.empty() || list[0] != 0) return where + " must begin with 0";
    for (std::size_t i = 1; i < list.size(); ++i)
      if (list[i] <= list[i - 1])
        return where + " must ascend: " + std::to_string(list[i - 1]) + " is followed by " +
               std::to_string(list[i]);
    if (list.back() >= std::max<std::int64_t>(shape[d], 1))
      return where + ": the last, " + std::to_string(list.back()) + ", lies outside the length " +
             std::to_string(shape[d]);
  }
  return {};
}

namespace {

struct GridSearch {
  std::span<const std::int64_t> shape, limit;
  std::vector<int> grid, best;
  double best_cost = std::numeric_limits<double>::infinity();

  // Tries every way to write `rest` as a product over dimensions d and later.
  void visit(std::size_t d, int rest) {
    if (d + 1 == grid.size()) {
      if (rest > limit[d]) return;
      grid[d] = rest;
      double cost = 0;  // surface of a block divided by its volume, times two
      for (std::size_t k = 0; k < grid.size(); ++k)
        cost += grid[k] / static_cast<double>(std::max<std::int64_t>(shape[k], 1));
      if (cost < best_cost * (1 - 1e-12)) best_cost = cost, best = grid;
      return;
    }
    // More along the first dimension is tried first: between equals, whole rows stay together.
    for (int n = rest; n >= 1; --n)
      if (rest % n == 0 && n <= limit[d]) grid[d] = n, visit(d + 1, rest / n);
  }
};

}  // namespace

std::vector<int> choose_grid(std::span<const std::int64_t> shape,
                             std::span<const std::int64_t> limit, int members) {
  GridSearch search{shape, limit, std::vector<int>(shape.size(), 1), {}};
  std::int64_t most = 1;  // blocks there can be; stops multiplying once there are enough
  for (std::int64_t n : limit)
    most = most > members ? most : most * std::min<std::int64_t>(n, members);
  for (int used = static_cast<int>(std::min<std::int64_t>(most, members)); used > 1; --used) {
    search.visit(0, used);
    if (!search.best.empty()) return search.best;
  }
  return std::vector<int>(shape.size(), 1);
}

std::vector<std::int64_t> join_starts(std::span<const std::int64_t> starts, std::int64_t length,
                                      int parts) {
  const int n = static_cast<int>(starts.size());
  std::vector<std::int64_t> joined;
  int at = 0;
  for (int i = 0; i < parts; ++i) {
    // The start nearest to an even cut that leaves at least one block for each part, before and
    // after.
    const double even = static_cast<double>(length) * i / parts;
    const int highest = n - (parts - i);
    while (at < highest && (static_cast<double>(starts[static_cast<std::size_t>(at)]) < even) &&
           std::abs(static_cast<double>(starts[static_cast<std::size_t>(at) + 1]) - even) <=
               std::abs(static_cast<double>(starts[static_cast<std::size_t>(at)]) - even))
      ++at;
    assert(at < n && (joined.empty() || joined.back() < starts[static_cast<std::size_t>(at)]));
    joined.push_back(starts[static_cast<std::size_t>(at)]);
    ++at;
  }
  return joined;
}

Distribution::Distribution(std::span<const std::int64_t> shape, const ArrayOptions& options,
                           int members)
    : shape_(shape.begin(), shape.end()) {
  std::vector<std::int64_t> limit(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d)
    limit[d] = options.starts.empty() ? std::max<std::int64_t>(shape[d], 1)
                                      : static_cast<std::int64_t>(options.starts[d].size());
  std::int64_t given = 1;
  for (std::size_t d = 0; d < options.grid.size(); ++d)
    given *= std::min<std::int64_t>(options.grid[d], limit[d]);
  if (!options.grid.empty() && given <= members) {
    for (std::size_t d = 0; d < shape.size(); ++d)
      grid_.push_back(static_cast<int>(std::min<std::int64_t>(options.grid[d], limit[d])));
  } else {
    std::int64_t most = 1;  // blocks there could be: as given, if there is a member for each
    for (std::int64_t n : limit) most = most > members ? most : most * n;
    if (!options.starts.empty() && most <= members) grid_.assign(limit.begin(), limit.end());
    else grid_ = choose_grid(shape, limit, members);
  }
  blocks_ = std::accumulate(grid_.begin(), grid_.end(), 1, std::multiplies<>());
  assert(grid_.size() == shape.size() && blocks_ <= members);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> bound;
    if (options.starts.empty())
      for (int i = 0; i < grid_[d]; ++i)  // shape * i / grid, without overflow of the product
        bound.push_back(shape[d] / grid_[d] * i + shape[d] % grid_[d] * i / grid_[d]);
    else bound = join_starts(options.starts[d], shape[d], grid_[d]);
    bound.push_back(shape[d]);
    assert(std::ranges::is_sorted(bound) && bound.size() == static_cast<std::size_t>(grid_[d]) + 1);
    bounds_.push_back(std::move(bound));
  }
}

Patch Distribution::block(int b) const {
  Patch patch;
  patch.dims = dims();
  if (b < 0 || b >= blocks_) return patch;
  for (int d = patch.dims - 1; d >= 0; --d) {
    const auto k = static_cast<std::size_t>(d);
    const auto at = static_cast<std::size_t>(b % grid_[k]);
    b /= grid_[k];
    patch.lo[k] = bounds_[k][at];
    patch.hi[k] = bounds_[k][at + 1];
  }
  return patch;
}

int Distribution::coordinate(int d, std::int64_t index) const {
  const auto& bound = bounds_[static_cast<std::size_t>(d)];
  return static_cast<int>(std::upper_bound(bound.begin(), bound.end() - 1, index) - bound.begin()) -
         1;
}

int Distribution::block_of(std::span<const std::int64_t> index) const {
  int b = 0;
  for (int d = 0; d < dims(); ++d)
    b = b * grid_[static_cast<std::size_t>(d)] + coordinate(d, index[static_cast<std::size_t>(d)]);
  return b;
}

bool Distribution::contains(const Patch& patch) const {
  if (patch.dims != dims()) return false;
  for (int d = 0; d < patch.dims; ++d) {
    const auto k = static_cast<std::size_t>(d);
    if (patch.lo[k] < 0 || patch.hi[k] < patch.lo[k] || patch.hi[k] > shape_[k]) return false;
  }
  return true;
}

}  // namespace layout
}  // namespace sk
