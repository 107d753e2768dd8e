#include "origin/description.hpp"

#include <cstring>

namespace skerry::origin {

memory::Cursor cursor_of(const Side& side) {
  switch (side.form) {
    case Side::Form::contiguous: return memory::Cursor(Shape::contiguous(side.bytes));
    case Side::Form::strided: return memory::Cursor(*side.shape);
    case Side::Form::pieces: break;
  }
  return memory::Cursor(side.pieces);
}

uint64_t run_bytes(const Side& side) {
  if (side.form != Side::Form::strided) return side.form == Side::Form::pieces ? 0 : side.bytes;
  Shape shape = *side.shape;
  coalesce(&shape);
  return shape.block_bytes;
}

Extent extent_of(const Target& target, const Side& side) {
  Extent extent{target, side.offset, side.offset + side.bytes};
  if (side.bytes == 0) return extent;
  switch (side.form) {
    case Side::Form::contiguous: break;
    case Side::Form::strided:
      extent.end = side.offset + side.shape->block_bytes;
      for (int32_t k = 0; k < side.shape->levels; ++k) {
        const int64_t reach = side.shape->stride[k] *
                              static_cast<int64_t>(side.shape->count[k] - 1);
        if (reach < 0) extent.begin -= static_cast<uint64_t>(-reach);
        else extent.end += static_cast<uint64_t>(reach);
      }
      break;
    case Side::Form::pieces:
      extent.begin = UINT64_MAX;
      extent.end = 0;
      for (const Piece& piece : side.pieces) {
        extent.begin = std::min(extent.begin, piece.offset);
        extent.end = std::max(extent.end, piece.offset + piece.bytes);
      }
      break;
  }
  return extent;
}

namespace {

void describe_target(wire::Request& r, const Side& side, uint64_t done, size_t pieces) {
  r.header.offset = side.offset;
  switch (side.form) {
    case Side::Form::contiguous: r.header.offset += done; break;
    case Side::Form::strided:
      r.header.flags |= wire::flag_strided;
      r.shape = {side.shape->block_bytes, done, static_cast<uint32_t>(side.shape->levels), 0};
      for (int32_t k = 0; k < side.shape->levels; ++k)
        r.level[k] = {side.shape->count[k], side.shape->stride[k]};
      break;
    case Side::Form::pieces:
      r.header.flags |= wire::flag_vector;
      r.header.piece_count = static_cast<uint16_t>(pieces);
      break;
  }
}

void describe_update(wire::Request& r, const Accumulate& what) {
  r.header.type = static_cast<uint8_t>(what.type);
  r.header.operation = static_cast<uint8_t>(what.operation);
  if (what.scale.is_one) return;
  r.header.flags |= wire::flag_scaled;
  std::memcpy(r.scale.value, what.scale.value, sizeof r.scale.value);
}

}  // namespace

void describe(wire::Request& r, const Access& access, uint64_t done, size_t pieces) {
  describe_target(r, access.remote, done, pieces);
  if (access.updates()) describe_update(r, access.what);
  if (!access.guard) return;
  const Guard& guard = *access.guard;
  r.header.flags |= wire::flag_locked;
  r.guard = {guard.locks.owner, guard.locks.generation, guard.index, guard.holder};
}

}  // namespace skerry::origin
