#include "core/pure/shape.hpp"

namespace skerry {
namespace {

constexpr uint64_t stream_limit = uint64_t{1}
                                  << 62;  // leaves every sum of two stream positions within 63 bits

bool is_empty(const Shape& shape) {
  if (shape.block_bytes == 0) return true;
  for (int32_t k = 0; k < shape.levels; ++k) {
    if (shape.count[k] == 0) return true;
  }
  return false;
}

// Is level k a plain continuation of what lies below it (a run of `run_bytes`)?
bool continues(const Shape& shape, int32_t k, uint64_t run_bytes) {
  return shape.stride[k] >= 0 && static_cast<uint64_t>(shape.stride[k]) == run_bytes;
}

void drop_level(Shape* shape, int32_t k) {
  for (int32_t j = k; j + 1 < shape->levels; ++j) {
    shape->count[j] = shape->count[j + 1];
    shape->stride[j] = shape->stride[j + 1];
  }
  --shape->levels;
  shape->count[shape->levels] = 0;
  shape->stride[shape->levels] = 0;
}

// Does level k + 1 continue level k, so that both are one level of count[k] * count[k + 1]?
bool extends(const Shape& shape, int32_t k) {
  int64_t reach = 0;
  return !__builtin_mul_overflow(shape.stride[k], static_cast<int64_t>(shape.count[k]), &reach) &&
         reach == shape.stride[k + 1];
}

}  // namespace

bool stream_bytes(const Shape& shape, uint64_t* bytes) {
  if (shape.levels < 0 || shape.levels > max_levels) return false;
  if (is_empty(shape)) {
    *bytes = 0;
    return true;
  }
  uint64_t total = shape.block_bytes;
  for (int32_t k = 0; k < shape.levels; ++k) {
    if (__builtin_mul_overflow(total, shape.count[k], &total)) return false;
  }
  if (total > stream_limit) return false;
  *bytes = total;
  return true;
}

Status check_stream(const Shape& shape, uint64_t* bytes) {
  if (stream_bytes(shape, bytes)) return {};
  if (shape.levels < 0 || shape.levels > max_levels)
    return error(Code::invalid, "levels is ", shape.levels, ": give 0 to ", max_levels);
  uint64_t total = shape.block_bytes;
  for (int32_t k = 0; k < shape.levels && total <= stream_limit; ++k) {
    const uint64_t before = total;
    if (__builtin_mul_overflow(total, shape.count[k], &total) || total > stream_limit)
      return error(Code::invalid, "count[", k, "] is ", shape.count[k], ": times the ", before,
                   " bytes of the levels below that is more than ", stream_limit,
                   " bytes, the most that one transfer moves");
  }
  return error(Code::invalid, "block_bytes is ", shape.block_bytes, ": one transfer moves at most ",
               stream_limit, " bytes");
}

bool extent(const Shape& shape, int64_t* low, int64_t* high) {
  uint64_t total = 0;
  if (!stream_bytes(shape, &total)) return false;
  int64_t first = 0;
  int64_t last = static_cast<int64_t>(total == 0 ? 0 : shape.block_bytes);
  if (total != 0) {
    for (int32_t k = 0; k < shape.levels; ++k) {
      int64_t reach = 0;  // counts are below 2^62 here: their product with block_bytes is
      if (__builtin_mul_overflow(shape.stride[k], static_cast<int64_t>(shape.count[k] - 1), &reach))
        return false;
      int64_t* end = reach < 0 ? &first : &last;
      if (__builtin_add_overflow(*end, reach, end)) return false;
    }
  }
  *low = first;
  *high = last;
  return true;
}

bool within(const Shape& shape, uint64_t offset, uint64_t limit) {
  int64_t low = 0;
  int64_t high = 0;
  if (!extent(shape, &low, &high)) return false;
  if (low == high) return true;
  if (offset > limit || limit > static_cast<uint64_t>(INT64_MAX)) return false;
  const uint64_t below = uint64_t{0} - static_cast<uint64_t>(low);  // low <= 0
  return below <= offset && static_cast<uint64_t>(high) <= limit - offset;
}

void coalesce(Shape* shape) {
  Shape other = *shape;
  coalesce(shape, &other);
}

void coalesce(Shape* a, Shape* b) {
  if (is_empty(*a)) return;
  for (int32_t k = a->levels - 1; k >= 0; --k) {
    if (a->count[k] != 1) continue;
    drop_level(a, k);
    drop_level(b, k);
  }
  while (a->levels > 0 && continues(*a, 0, a->block_bytes) && continues(*b, 0, b->block_bytes)) {
    a->block_bytes *= a->count[0];
    b->block_bytes = a->block_bytes;
    drop_level(a, 0);
    drop_level(b, 0);
  }
  for (int32_t k = 0; k + 1 < a->levels;) {
    if (!extends(*a, k) || !extends(*b, k)) {
      ++k;
      continue;
    }
    const uint64_t merged = a->count[k] * a->count[k + 1];
    drop_level(a, k + 1);
    drop_level(b, k + 1);
    a->count[k] = merged;
    b->count[k] = merged;
  }
}

}  // namespace skerry
