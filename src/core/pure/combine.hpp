// What each operation does to one element. The one implementation: of updates (memory) and of
// reductions (job).
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "core/pure/assert.hpp"
#include "core/pure/element.hpp"

namespace skerry {

// Integers wrap around, as in C's unsigned arithmetic: a sum must not be undefined because a user's
// counter overflowed. Through 64 bits, because C would promote short ones to a signed int.
template <class T>
constexpr T wrapped_add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else return a + b;
}
template <class T>
constexpr T wrapped_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else return a * b;
}

// a (operation) b. The type T must have the operation (has_operation).
template <Operation operation, class T>
constexpr T combined(const T& a, const T& b) {
  if constexpr (operation == Operation::sum) return wrapped_add(a, b);
  else if constexpr (operation == Operation::product) return wrapped_multiply(a, b);
  else if constexpr (operation == Operation::min) return b < a ? b : a;
  else if constexpr (operation == Operation::max) return a < b ? b : a;
  else if constexpr (operation == Operation::logical_and) return static_cast<T>(a && b);
  else if constexpr (operation == Operation::logical_or) return static_cast<T>(a || b);
  else if constexpr (operation == Operation::logical_xor) return static_cast<T>(!a != !b);
  else if constexpr (operation == Operation::bit_and) return static_cast<T>(a & b);
  else if constexpr (operation == Operation::bit_or) return static_cast<T>(a | b);
  else if constexpr (operation == Operation::bit_xor) return static_cast<T>(a ^ b);
  else if constexpr (operation == Operation::replace) return b;
  else return a;
}

// Calls visit.operator()<T>() with the C++ type of an element, and returns what it returns.
template <class Visit>
constexpr auto with_type(ElementType type, Visit&& visit) {
  switch (type) {
    case ElementType::int32: return visit.template operator()<int32_t>();
    case ElementType::int64: return visit.template operator()<int64_t>();
    case ElementType::float32: return visit.template operator()<float>();
    case ElementType::float64: return visit.template operator()<double>();
    case ElementType::complex_float: return visit.template operator()<std::complex<float>>();
    case ElementType::complex_double: return visit.template operator()<std::complex<double>>();
    case ElementType::int8: return visit.template operator()<int8_t>();
    case ElementType::uint8: return visit.template operator()<uint8_t>();
    case ElementType::int16: return visit.template operator()<int16_t>();
    case ElementType::uint16: return visit.template operator()<uint16_t>();
    case ElementType::uint32: return visit.template operator()<uint32_t>();
    case ElementType::uint64: return visit.template operator()<uint64_t>();
    case ElementType::long_double: return visit.template operator()<long double>();
  }
  SKERRY_ASSERT(false, "element types are checked before they are used");
  __builtin_unreachable();
}

// Has the element type whose C++ type is T the operation?
template <class T>
constexpr bool has_operation_of(Operation operation) {
  return has_operation(std::is_integral_v<T>     ? ElementType::int64
                       : std::is_arithmetic_v<T> ? ElementType::float64
                                                 : ElementType::complex_double,
                       operation);
}

// Calls visit.operator()<T, operation>(). Returns what it returns; a default value if the type does
// not have the operation.
template <class Visit>
constexpr auto with_operation(ElementType type, Operation wanted, Visit&& visit) {
  return with_type(type, [&]<class T>() {
    const auto call = [&]<Operation operation>() {
      if constexpr (has_operation_of<T>(operation))
        return visit.template operator()<T, operation>();
      else return decltype(visit.template operator()<T, Operation::sum>())();
    };
    switch (wanted) {
      case Operation::sum: return call.template operator()<Operation::sum>();
      case Operation::product: return call.template operator()<Operation::product>();
      case Operation::min: return call.template operator()<Operation::min>();
      case Operation::max: return call.template operator()<Operation::max>();
      case Operation::logical_and: return call.template operator()<Operation::logical_and>();
      case Operation::logical_or: return call.template operator()<Operation::logical_or>();
      case Operation::logical_xor: return call.template operator()<Operation::logical_xor>();
      case Operation::bit_and: return call.template operator()<Operation::bit_and>();
      case Operation::bit_or: return call.template operator()<Operation::bit_or>();
      case Operation::bit_xor: return call.template operator()<Operation::bit_xor>();
      case Operation::replace: return call.template operator()<Operation::replace>();
      case Operation::no_op: break;
    }
    return call.template operator()<Operation::no_op>();
  });
}

}  // namespace skerry
