#include "job/reduction.hpp"

#include <algorithm>
#include <cstring>

#include "core/pure/combine.hpp"

namespace skerry::job {
namespace {

// No alignment is assumed. By value: arguments that the loop reads by reference might change with
// every store, and keep it from using vectors.
template <class T, Operation operation>
void combine_each(void*, std::byte* into, const std::byte* from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, into + at, sizeof(T));
    std::memcpy(&b, from + at, sizeof(T));
    a = combined<operation>(a, b);
    std::memcpy(into + at, &a, sizeof(T));
  }
}

}  // namespace

Reduction Reduction::of(ElementType type, Operation operation) {
  const auto call_of = [type](Operation wanted) {
    return with_operation(type, wanted, []<class T, Operation operation_of>() -> Call {
      return combine_each<T, operation_of>;
    });
  };
  Reduction made(element_bytes(type), call_of(operation), nullptr);
  if (operation >= Operation::logical_and && operation <= Operation::logical_xor)
    made.normalise_ = call_of(Operation::logical_or);
  return made;
}

void Reduction::combine(std::byte* out, const std::byte* a, const std::byte* b,
                        uint64_t bytes) const {
  // In blocks that stay in the first-level cache between the two passes.
  const uint64_t block = std::max<uint64_t>(1, 8192 / unit_) * unit_;
  for (uint64_t at = 0; at < bytes; at += block) {
    const uint64_t n = std::min(block, bytes - at);
    std::memcpy(out + at, a + at, n);
    call_(context_, out + at, b + at, n);
  }
}

}  // namespace skerry::job
