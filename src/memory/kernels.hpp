// The inner loops of accumulate: y = y op x, and y += a * x, over whole elements. Internal to
// apply.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pure/element.hpp"
#include "memory/apply.hpp"

namespace skerry::memory {

// y is aligned to the element's part, x to nothing; bytes is a multiple of the element size. y and
// x do not overlap.
using Kernel = void (*)(std::byte* y, const std::byte* x, uint64_t bytes, const Scale& scale);

// Null: the type does not have the operation.
Kernel kernel_for(const Update& what);

// The same for one element that is neither complex nor a long double. It is read once and stored
// once, so that a get that polls it does not see half of it. `old` null: its value before is not
// wanted. `origin` and `old` have any alignment.
using OneKernel = void (*)(std::byte* target, const void* origin, void* old);
OneKernel one_kernel_for(ElementType type, Operation operation);

}  // namespace skerry::memory
