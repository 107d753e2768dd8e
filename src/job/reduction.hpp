// How elements are combined: one of the library's operations, or a function of the caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pure/element.hpp"

namespace skerry::job {

class Reduction {
 public:
  // The type has the operation.
  static Reduction of(ElementType type, Operation operation);
  // into[i] = into[i] (operation) from[i]; both hold whole elements of `unit` bytes. Does not own
  // the context.
  using Call = void (*)(void* context, std::byte* into, const std::byte* from, uint64_t bytes);
  Reduction(uint64_t unit, Call call, void* context)
      : unit_(unit), call_(call), context_(context) {}

  uint64_t unit() const { return unit_; }
  void combine(std::byte* into, const std::byte* from, uint64_t bytes) const {
    call_(context_, into, from, bytes);
  }
  // out[i] = a[i] (operation) b[i].
  void combine(std::byte* out, const std::byte* a, const std::byte* b, uint64_t bytes) const;
  // What a group of one gives back: of a logical operation 0 or 1.
  void normalise(std::byte* values, uint64_t bytes) const {
    if (normalise_ != nullptr) normalise_(context_, values, values, bytes);
  }

 private:
  uint64_t unit_;
  Call call_;
  void* context_;
  Call normalise_ = nullptr;  // null: nothing to do
};

}  // namespace skerry::job
