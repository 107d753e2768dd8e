// Shape: one side of a transfer. Contiguous is a shape of zero levels; a vector transfer is a list
// of pieces.
#pragma once

#include <cstdint>

#include "core/pure/status.hpp"

namespace skerry {

constexpr int32_t max_levels = 8;  // SKERRY_MAX_LEVELS

// Blocks of `block_bytes`, repeated count[0] x ... x count[levels-1] times; index k steps the
// address by stride[k] bytes (which may be negative or zero). Index 0 varies fastest: that is also
// the order of the *packed stream*, the blocks laid end to end.
struct Shape {
  uint64_t block_bytes = 0;
  int32_t levels = 0;  // 0..max_levels
  uint64_t count[max_levels] = {};
  int64_t stride[max_levels] = {};

  static Shape contiguous(uint64_t bytes) {
    Shape shape;
    shape.block_bytes = bytes;
    return shape;
  }
};

// One contiguous part of a vector transfer, on one side.
struct Piece {
  uint64_t offset;
  uint64_t bytes;
};
static_assert(sizeof(Piece) == 16, "travels in vector requests");

// Bytes of the packed stream. False: `levels` is out of range or the product exceeds 63 bits.
[[nodiscard]] bool stream_bytes(const Shape& shape, uint64_t* bytes);

// The same for a caller's shape. Errors: invalid (which number makes it too large).
Status check_stream(const Shape& shape, uint64_t* bytes);

// The bytes touched lie within [low, high) relative to the first block's address; both 0 if there
// are none. False: out of 63 bits.
[[nodiscard]] bool extent(const Shape& shape, int64_t* low, int64_t* high);

// True if all bytes touched lie within [0, limit) when the first block is at `offset`. A transfer
// of no bytes lies within anything.
[[nodiscard]] bool within(const Shape& shape, uint64_t offset, uint64_t limit);

// Merges levels that are contiguous, drops levels of count 1, without changing which bytes are
// touched nor their order.
void coalesce(Shape* shape);
// The same for the two sides of one transfer (equal block_bytes, levels, counts): merges where both
// sides allow it.
void coalesce(Shape* a, Shape* b);

// Steps through the blocks of two shapes with equal levels and counts, from level `lowest` on.
class Odometer {
 public:
  explicit Odometer(int32_t lowest = 0) : lowest_(lowest) {}
  // The bytes from this block to the next one in each shape are added; false: this was the last.
  bool step(const Shape& shape_a, int64_t* a, const Shape& shape_b, int64_t* b) {
    for (int32_t k = lowest_; k < shape_a.levels; ++k) {  // carries while a level is full
      *a += shape_a.stride[k];
      *b += shape_b.stride[k];
      if (++index_[k] < shape_a.count[k]) return true;
      *a -= shape_a.stride[k] * static_cast<int64_t>(shape_a.count[k]);
      *b -= shape_b.stride[k] * static_cast<int64_t>(shape_a.count[k]);
      index_[k] = 0;
    }
    return false;
  }

 private:
  const int32_t lowest_;
  uint64_t index_[max_levels] = {};
};

}  // namespace skerry
