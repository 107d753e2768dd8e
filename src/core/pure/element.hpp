// Element types of accumulate, update and reductions, and the operations on them. Values equal
// skerry_type and skerry_operation of the public header; src/capi asserts it.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/pure/status.hpp"

namespace skerry {

enum class ElementType : uint8_t {
  int32 = 0,
  int64 = 1,
  float32 = 2,
  float64 = 3,
  complex_float = 4,   // two floats: real, imaginary
  complex_double = 5,  // two doubles: real, imaginary
  int8 = 6,
  uint8 = 7,
  int16 = 8,
  uint16 = 9,
  uint32 = 10,
  uint64 = 11,
  long_double = 12,  // as the compiler has it: 16 bytes, of which some may be padding
};
static_assert(sizeof(long double) == 16, "long_double is an element of 16 bytes");

constexpr int64_t element_types = 13;
constexpr bool is_element_type(int64_t value) { return value >= 0 && value < element_types; }

// A power of two.
constexpr uint64_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::int8:
    case ElementType::uint8: return 1;
    case ElementType::int16:
    case ElementType::uint16: return 2;
    case ElementType::int32:
    case ElementType::uint32:
    case ElementType::float32: return 4;
    case ElementType::int64:
    case ElementType::uint64:
    case ElementType::float64:
    case ElementType::complex_float: return 8;
    case ElementType::complex_double:
    case ElementType::long_double: return 16;
  }
  return 0;
}

constexpr bool is_complex(ElementType type) {
  return type == ElementType::complex_float || type == ElementType::complex_double;
}
constexpr bool is_integer(ElementType type) {
  return type != ElementType::float32 && type != ElementType::float64 &&
         type != ElementType::long_double && !is_complex(type);
}

// The alignment an element needs: that of its real part.
constexpr uint64_t part_bytes(ElementType type) {
  return is_complex(type) ? element_bytes(type) / 2 : element_bytes(type);
}
constexpr uint64_t max_element_bytes = 16;

constexpr std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::int32: return "int32";
    case ElementType::int64: return "int64";
    case ElementType::float32: return "float";
    case ElementType::float64: return "double";
    case ElementType::complex_float: return "complex float";
    case ElementType::complex_double: return "complex double";
    case ElementType::int8: return "int8";
    case ElementType::uint8: return "uint8";
    case ElementType::int16: return "int16";
    case ElementType::uint16: return "uint16";
    case ElementType::uint32: return "uint32";
    case ElementType::uint64: return "uint64";
    case ElementType::long_double: return "long double";
  }
  return "unknown type";
}

// What becomes of an element `a` when it meets an operand `b`.
enum class Operation : uint8_t {
  sum = 0,
  product = 1,
  min = 2,  // not of complex numbers
  max = 3,
  logical_and = 4,  // of integers: 0 is false, the result is 0 or 1
  logical_or = 5,
  logical_xor = 6,
  bit_and = 7,  // of integers
  bit_or = 8,
  bit_xor = 9,
  replace = 10,  // b
  no_op = 11,    // a
};
constexpr int64_t operations = 12;
constexpr bool is_operation(int64_t value) { return value >= 0 && value < operations; }

// What an operation is called, and which elements have it.
enum class Needs : uint8_t { nothing, order, integers };
struct OperationFacts {
  std::string_view name;
  Needs needs;
};
constexpr OperationFacts operation_facts[] = {
    {"sum", Needs::nothing},          {"product", Needs::nothing},
    {"minimum", Needs::order},        {"maximum", Needs::order},
    {"logical and", Needs::integers}, {"logical or", Needs::integers},
    {"logical xor", Needs::integers}, {"bitwise and", Needs::integers},
    {"bitwise or", Needs::integers},  {"bitwise xor", Needs::integers},
    {"replace", Needs::nothing},      {"no-op", Needs::nothing}};
static_assert(std::size(operation_facts) == operations);
constexpr OperationFacts facts_of(Operation operation) {
  const auto index = static_cast<size_t>(operation);
  return is_operation(static_cast<int64_t>(index)) ? operation_facts[index]
                                                   : OperationFacts{"unknown operation", {}};
}
constexpr std::string_view to_string(Operation operation) { return facts_of(operation).name; }
constexpr bool has_operation(ElementType type, Operation operation) {
  if (!is_operation(static_cast<int64_t>(operation))) return false;
  const Needs needs = facts_of(operation).needs;
  return needs == Needs::nothing || (needs == Needs::order ? !is_complex(type) : is_integer(type));
}
// Errors: invalid (the type does not have it).
Status check_operation(ElementType type, Operation operation);

}  // namespace skerry
