// What the calls that move data have in common: checks of their arguments, and the two sides of a
// transfer read from them.
#pragma once

#include <algorithm>
#include <vector>

#include "capi/handles.hpp"

namespace skerry::capi {

using origin::Access;
using origin::Handle;
using origin::Mode;
using origin::Side;

#define CHECK(call)                                            \
  do {                                                         \
    if (const int bad = (call); bad != SKERRY_OK) [[unlikely]] \
      return bad;                                              \
  } while (0)

inline int check_live(const skerry_job* job) {
  if (job == nullptr) return null_argument("job");
  return of(job)->is_alive() ? SKERRY_OK : forked();
}

// What every collective over a group checks first.
inline int check_live(const skerry_group* group) {
  if (group == nullptr) return null_argument("group");
  if (!of(group)->job().is_alive()) return forked();
  if (of(group)->is_freed()) return fail(error(Code::freed, "the group was freed"));
  return SKERRY_OK;
}

inline int check_live(skerry_segment* segment) {
  if (segment == nullptr) [[unlikely]]
    return null_argument("segment");
  if (!of(segment)->job().is_alive()) [[unlikely]]
    return forked();
  return SKERRY_OK;
}

inline int check_origin(const void* origin, uint64_t bytes) {
  if (origin == nullptr && bytes > 0) [[unlikely]]
    return null_argument("origin");
  return SKERRY_OK;
}

inline std::byte* bytes_at(const void* origin) {
  return static_cast<std::byte*>(const_cast<void*>(origin));
}

inline Side contiguous(const void* base, uint64_t offset, uint64_t bytes) {
  Side side;
  side.base = bytes_at(base);
  side.offset = offset;
  side.bytes = bytes;
  return side;
}

// Of an accumulate; `scale` null: one. Errors: invalid.
inline Status read_accumulate(int type, const void* scale, origin::Accumulate* what) {
  SKERRY_TRY(check_type(type));
  what->type = static_cast<ElementType>(type);
  if (scale != nullptr) what->scale = memory::Scale::of(what->type, scale);
  return {};
}

// What is asked for: one kind of access, and of an accumulate its elements.
struct Asked {
  wire::Kind kind;
  int type = 0;
  const void* scale = nullptr;  // null: one

  // All of the access but its sides. Errors: invalid.
  Status read(const job::Segment& segment, int rank, Mode mode, Access* access) const {
    access->kind = kind;
    access->mode = mode;
    access->target = segment.target(rank);
    return kind == wire::Kind::accumulate ? read_accumulate(type, scale, &access->what) : Status();
  }
};

// The two sides of a strided transfer.
struct Strided {
  Shape origin_shape, target_shape;

  Status read_shapes(const skerry_strided* shape) {
    if (shape == nullptr) return error(Code::invalid, "shape is null");
    if (shape->levels < 0 || shape->levels > SKERRY_MAX_LEVELS)
      return error(Code::invalid, "shape.levels is ", shape->levels, ": give 0 to ",
                   SKERRY_MAX_LEVELS);
    if (shape->reserved != 0)
      return error(Code::invalid, "shape.reserved is ", shape->reserved, ": set it to 0");
    origin_shape.block_bytes = target_shape.block_bytes = shape->block_bytes;
    origin_shape.levels = target_shape.levels = shape->levels;
    // All levels, used or not: for copies of a fixed size the compiler needs no string
    // instructions, which would take longer than a small transfer.
    std::ranges::copy(shape->count, origin_shape.count);
    std::ranges::copy(shape->count, target_shape.count);
    std::ranges::copy(shape->origin_stride, origin_shape.stride);
    std::ranges::copy(shape->target_stride, target_shape.stride);
    return {};
  }

  Status read(const job::Segment& segment, int rank, uint64_t offset, const void* base,
              const skerry_strided* shape, Access* access) {
    SKERRY_TRY(read_shapes(shape));
    uint64_t stream = 0;
    SKERRY_TRY(segment.check_shape(rank, offset, target_shape, &stream));
    if (base == nullptr && stream > 0) return error(Code::invalid, "origin is null");
    access->local = {Side::Form::strided, bytes_at(base), 0, stream, &origin_shape, {}};
    access->remote = {Side::Form::strided, nullptr, offset, stream, &target_shape, {}};
    return {};
  }
};

// The two sides of a vector transfer. Origin pieces are kept relative to the lowest of their
// addresses.
struct Vector {
  std::vector<Piece> origin_pieces, target_pieces;

  Status read(const job::Segment& segment, int rank, const skerry_piece* pieces, uint64_t count,
              Access* access) {
    if (pieces == nullptr && count > 0) return error(Code::invalid, "pieces is null");
    SKERRY_TRY(segment.check(rank, 0, 0));
    uint64_t total = 0;
    std::byte* low = nullptr;
    for (uint64_t i = 0; i < count; ++i) {
      if (pieces[i].bytes == 0) continue;
      if (pieces[i].origin == nullptr)
        return error(Code::invalid, "origin of piece ", i, " is null");
      SKERRY_TRY(segment.check(rank, pieces[i].offset, pieces[i].bytes));
      std::byte* const at = bytes_at(pieces[i].origin);
      if (low == nullptr || at < low) low = at;
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (pieces[i].bytes == 0) continue;
      origin_pieces.push_back(
          {static_cast<uint64_t>(bytes_at(pieces[i].origin) - low), pieces[i].bytes});
      target_pieces.push_back({pieces[i].offset, pieces[i].bytes});
      total += pieces[i].bytes;
    }
    const Side::Form form = total == 0 ? Side::Form::contiguous : Side::Form::pieces;
    access->local = {form, low, 0, total, nullptr, origin_pieces};
    access->remote = {form, nullptr, 0, total, nullptr, target_pieces};
    return {};
  }
};

inline Status check_elements(ElementType type, uint64_t offset, uint64_t bytes) {
  if (offset % part_bytes(type) != 0)
    return error(Code::invalid, "offset ", as_written(offset), " is not a multiple of ",
                 part_bytes(type),
                 ", which ", to_string(type), " needs");
  if (bytes % element_bytes(type) != 0)
    return error(Code::invalid, bytes, " bytes are not whole elements of ", to_string(type));
  return {};
}

// A type, and an operation that it has.
inline Status read_update(int type, int operation, origin::Accumulate* what) {
  SKERRY_TRY(check_type(type));
  if (!is_operation(operation))
    return error(Code::invalid, "operation ", operation, ": give a skerry_operation, 0 to ",
                 operations - 1);
  what->type = static_cast<ElementType>(type);
  what->operation = static_cast<Operation>(operation);
  return check_operation(what->type, what->operation);
}

// Of a fetching update.
inline Status check_apart(const void* origin, const void* result, uint64_t bytes) {
  const auto a = reinterpret_cast<uintptr_t>(origin), b = reinterpret_cast<uintptr_t>(result);
  if ((a < b ? b - a : a - b) >= bytes) return {};
  return error(Code::invalid, "origin and result overlap: give the old elements a buffer of ",
               bytes, " bytes of their own");
}

inline Mode mode_of(const skerry_handle* handle) {
  return handle == SKERRY_IMPLICIT ? Mode::implicit : Mode::handle;
}

}  // namespace skerry::capi
