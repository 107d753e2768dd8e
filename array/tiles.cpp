#include "tiles.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace sk::layout {

TileMap::TileMap(Distribution canonical, std::int64_t edge)
    : canonical_(std::move(canonical)), edge_(edge) {
  first_.push_back(0);
  for (int b = 0; b < canonical_.blocks(); ++b) {
    const Patch block = canonical_.block(b);
    first_.push_back(first_.back() + (block.empty() ? 0 : rows(block) * columns(block)));
  }
}

std::pair<std::int64_t, std::int64_t> TileMap::range(const Patch& box) const {
  std::int64_t low = tiles(), high = 0;
  canonical_.for_each_block(box, [&](int b, const Patch&) {
    low = std::min(low, first_[static_cast<std::size_t>(b)]);
    high = std::max(high, first_[static_cast<std::size_t>(b) + 1]);
  });
  return {std::min(low, high), high};
}

TileMap::Place TileMap::place(std::int64_t number) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), number);
  const int b = static_cast<int>(after - first_.begin()) - 1;
  Patch box = canonical_.block(b);
  const auto cut = [&](int d, std::int64_t k) {
    const auto i = static_cast<std::size_t>(d);
    box.lo[i] += k * edge(box.dims);
    box.hi[i] = std::min(box.hi[i], box.lo[i] + edge(box.dims));
  };
  const std::int64_t in_block = number - first_[static_cast<std::size_t>(b)];
  const std::int64_t across = columns(box);
  cut(0, in_block / across);
  if (box.dims > 1) cut(box.dims - 1, in_block % across);
  return {b, box};
}

std::uint64_t flags_offset(const Distribution& node_layout, std::uint64_t element_bytes) {
  const auto bytes = static_cast<std::uint64_t>(node_layout.block(0).elements()) * element_bytes;
  return (bytes + 63) / 64 * 64;
}

namespace {
// Whether `next` continues `box` along dimension `d` and spans the same in all others.
bool continues(const Patch& box, const Patch& next, std::size_t d) {
  for (std::size_t k = 0; k < static_cast<std::size_t>(box.dims); ++k)
    if (k == d ? box.hi[k] != next.lo[k] : box.lo[k] != next.lo[k] || box.hi[k] != next.hi[k])
      return false;
  return true;
}
}  // namespace

void BoxJoiner::add(const Patch& box, int key) {
  const auto last = static_cast<std::size_t>(box.dims - 1);
  if (open_ && box.dims > 1 && run_.key == key && continues(run_.box, box, last) &&
      run_.box.elements() + box.elements() <= max_elements_) {
    run_.box.hi[last] = box.hi[last];
    return;
  }
  close_run();
  assert(!open_ && box.dims > 0);
  run_ = {box, key};
  open_ = true;
}

void BoxJoiner::close_run() {
  if (!open_) return;
  open_ = false;
  // Only boxes that end where this run begins can grow; those further back are passed over for
  // good.
  while (recent_ < joined_.size() && joined_[recent_].box.hi[0] < run_.box.lo[0]) ++recent_;
  for (std::size_t i = recent_; i < joined_.size(); ++i) {
    Joined& above = joined_[i];
    if (above.key == run_.key && continues(above.box, run_.box, 0) &&
        above.box.elements() + run_.box.elements() <= max_elements_) {
      assert(above.box.hi[0] == run_.box.lo[0]);
      above.box.hi[0] = run_.box.hi[0];
      return;
    }
  }
  joined_.push_back(run_);
}

std::vector<BoxJoiner::Joined> BoxJoiner::take() {
  close_run();
  assert(!open_ && recent_ <= joined_.size());
  recent_ = 0;
  return std::exchange(joined_, {});
}

}  // namespace sk::layout
