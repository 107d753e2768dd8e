// The inner loops of accumulate: y += x and y += a * x over whole elements. Internal to apply.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pure/element.hpp"
#include "memory/apply.hpp"

namespace skerry::memory {

// y is aligned to the element's part, x to nothing; bytes is a multiple of the element size. y and
// x do not overlap.
using Kernel = void (*)(std::byte* y, const std::byte* x, uint64_t bytes, const Scale& scale);

Kernel kernel_for(ElementType type, const Scale& scale);

}  // namespace skerry::memory
