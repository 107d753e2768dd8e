#include "job/reduction.hpp"

#include <complex>
#include <cstring>

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

// Integers wrap around, as in C's unsigned arithmetic: a sum must not be undefined because a user's
// counter overflowed.
template <class T>
T wrapped_add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                          static_cast<std::make_unsigned_t<T>>(b));
  else return a + b;
}
template <class T>
T wrapped_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else return a * b;
}

template <class T>
constexpr bool is_complex = std::is_same_v<T, std::complex<float>> ||
                            std::is_same_v<T, std::complex<double>>;

template <class T>
void combine_as(Reduction reduction, std::byte* into, const std::byte* from, uint64_t bytes) {
  switch (reduction) {
    case Reduction::sum:
      return each<T>(into, from, bytes, [](T a, T b) { return wrapped_add(a, b); });
    case Reduction::product:
      return each<T>(into, from, bytes, [](T a, T b) { return wrapped_multiply(a, b); });
    case Reduction::min:
      if constexpr (!is_complex<T>)
        each<T>(into, from, bytes, [](T a, T b) { return b < a ? b : a; });
      return;
    case Reduction::max:
      if constexpr (!is_complex<T>)
        each<T>(into, from, bytes, [](T a, T b) { return a < b ? b : a; });
      return;
    case Reduction::logical_and:
      if constexpr (std::is_integral_v<T>)
        each<T>(into, from, bytes, [](T a, T b) { return static_cast<T>(a && b); });
      return;
    case Reduction::logical_or:
      if constexpr (std::is_integral_v<T>)
        each<T>(into, from, bytes, [](T a, T b) { return static_cast<T>(a || b); });
      return;
    case Reduction::logical_xor:
      if constexpr (std::is_integral_v<T>)
        each<T>(into, from, bytes, [](T a, T b) { return static_cast<T>(!a != !b); });
      return;
    case Reduction::bit_and:
      if constexpr (std::is_integral_v<T>)
        each<T>(into, from, bytes, [](T a, T b) { return static_cast<T>(a & b); });
      return;
    case Reduction::bit_or:
      if constexpr (std::is_integral_v<T>)
        each<T>(into, from, bytes, [](T a, T b) { return static_cast<T>(a | b); });
      return;
    case Reduction::bit_xor:
      if constexpr (std::is_integral_v<T>)
        each<T>(into, from, bytes, [](T a, T b) { return static_cast<T>(a ^ b); });
      return;
  }
}

}  // namespace

Status check_reduction(ElementType type, Reduction reduction) {
  const int value = static_cast<int>(reduction);
  if (value < 0 || value > 9)
    return error(Code::invalid, "reduction ", value, ": give a skerry_reduction, 0 to 9");
  const bool integer = type == ElementType::int32 || type == ElementType::int64;
  const bool complex = type == ElementType::complex_float || type == ElementType::complex_double;
  if (complex && (reduction == Reduction::min || reduction == Reduction::max))
    return error(Code::invalid, to_string(type), " numbers have no minimum or maximum");
  if (!integer && value >= static_cast<int>(Reduction::logical_and))
    return error(Code::invalid, "logical and bitwise reductions need int32 or int64, not ",
                 to_string(type));
  return {};
}

void prepare(ElementType type, Reduction reduction, std::byte* chunk, uint64_t bytes) {
  if (reduction != Reduction::logical_and && reduction != Reduction::logical_or &&
      reduction != Reduction::logical_xor)
    return;
  if (type == ElementType::int32)
    each<int32_t>(chunk, chunk, bytes, [](int32_t a, int32_t) { return int32_t{a != 0}; });
  if (type == ElementType::int64)
    each<int64_t>(chunk, chunk, bytes, [](int64_t a, int64_t) { return int64_t{a != 0}; });
}

void combine(ElementType type, Reduction reduction, std::byte* into, const std::byte* from,
             uint64_t bytes) {
  switch (type) {
    case ElementType::int32: return combine_as<int32_t>(reduction, into, from, bytes);
    case ElementType::int64: return combine_as<int64_t>(reduction, into, from, bytes);
    case ElementType::float32: return combine_as<float>(reduction, into, from, bytes);
    case ElementType::float64: return combine_as<double>(reduction, into, from, bytes);
    case ElementType::complex_float:
      return combine_as<std::complex<float>>(reduction, into, from, bytes);
    case ElementType::complex_double:
      return combine_as<std::complex<double>>(reduction, into, from, bytes);
  }
}

}  // namespace skerry::job
