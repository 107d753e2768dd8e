// into[i] = into[i] (op) from[i] for one chunk of a reduction. Pure. What an operation does to one
// element is in core/pure/combine.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pure/element.hpp"
#include "core/pure/status.hpp"

namespace skerry::job {

using Reduction = Operation;  // but for replace and no_op

// Of a number that names one. Errors: invalid (none, or none of this type).
Status check_reduction(ElementType type, int reduction);
// Makes a contribution what the reduction works on: truth values become 0 or 1. Without it a group
// of one would hand back what it was given.
void prepare(ElementType type, Reduction reduction, std::byte* chunk, uint64_t bytes);
// `bytes` is a multiple of the element size; no alignment is assumed. The pair was checked.
void combine(ElementType type, Reduction reduction, std::byte* into, const std::byte* from,
             uint64_t bytes);

}  // namespace skerry::job
