// Accumulates to any address. Skerry's own need an offset that is a multiple of the element, or of
// its part if it is complex; strides of any number of bytes lead elsewhere.
#pragma once

#include <skerry/skerry.h>

#include <cstdint>
#include <span>

namespace skerry::armci {

// What Skerry's accumulates of `type` (a skerry_type that exists) need offsets to be a multiple of.
// A power of two.
inline uint64_t part_bytes(int type) {
  static_assert(SKERRY_INT32 == 0 && SKERRY_INT64 == 1 && SKERRY_FLOAT == 2 && SKERRY_DOUBLE == 3 &&
                SKERRY_COMPLEX_FLOAT == 4 && SKERRY_COMPLEX_DOUBLE == 5);
  return type % 2 == 0 ? 4 : 8;
}

// Collective: makes the mutexes that keep these accumulates apart. A skerry_status.
int start_unaligned();

// Adds scale * each piece to slice `proc` of `segment`, at offsets of which none is a multiple of
// part_bytes(type); pieces are whole elements. Atomic with other accumulates. The origins may be
// reused when it returns. A skerry_status.
int add_unaligned(skerry_segment* segment, int proc, int type, const void* scale,
                  std::span<const skerry_piece> pieces);

}  // namespace skerry::armci
