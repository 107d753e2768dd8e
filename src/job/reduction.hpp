// into[i] = into[i] (op) from[i] for one chunk of a reduction. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pure/element.hpp"
#include "core/pure/status.hpp"

namespace skerry::job {

enum class Reduction : int32_t {
  sum = 0,
  product = 1,
  min = 2,
  max = 3,
  logical_and = 4,
  logical_or = 5,
  logical_xor = 6,
  bit_and = 7,
  bit_or = 8,
  bit_xor = 9
};

// Errors: invalid (minimum of complex numbers, bits of floating point numbers, unknown).
Status check_reduction(ElementType type, Reduction reduction);
// Makes a contribution what the reduction works on: truth values become 0 or 1. Without it a group
// of one would hand back what it was given.
void prepare(ElementType type, Reduction reduction, std::byte* chunk, uint64_t bytes);
// `bytes` is a multiple of the element size; no alignment is assumed. The pair was checked.
void combine(ElementType type, Reduction reduction, std::byte* into, const std::byte* from,
             uint64_t bytes);

}  // namespace skerry::job
