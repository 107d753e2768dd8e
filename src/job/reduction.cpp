#include "job/reduction.hpp"

#include <cstring>

#include "core/pure/combine.hpp"

namespace skerry::job {
namespace {

template <class T, class Op>
void each(std::byte* into, const std::byte* from, uint64_t bytes, Op op) {
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, into + at, sizeof(T));
    std::memcpy(&b, from + at, sizeof(T));
    a = op(a, b);
    std::memcpy(into + at, &a, sizeof(T));
  }
}

}  // namespace

Status check_reduction(ElementType type, int reduction) {
  constexpr int most = static_cast<int>(Operation::bit_xor);
  if (reduction < 0 || reduction > most)
    return error(Code::invalid, "reduction ", reduction, ": give a skerry_operation, 0 to ", most,
                 " (a reduction cannot replace)");
  return check_operation(type, static_cast<Operation>(reduction));
}

void prepare(ElementType type, Reduction reduction, std::byte* chunk, uint64_t bytes) {
  if (reduction != Reduction::logical_and && reduction != Reduction::logical_or &&
      reduction != Reduction::logical_xor)
    return;
  with_type(type, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      each<T>(chunk, chunk, bytes, [](T a, T) { return static_cast<T>(a != 0); });
  });
}

void combine(ElementType type, Reduction reduction, std::byte* into, const std::byte* from,
             uint64_t bytes) {
  with_operation(type, reduction, [&]<class T, Operation operation>() {
    each<T>(into, from, bytes, [](T a, T b) { return combined<operation>(a, b); });
  });
}

}  // namespace skerry::job
