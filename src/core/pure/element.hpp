// Element types of accumulate, update and reductions, and the operations on them. Values equal
// skerry_type and skerry_operation of the public header; src/capi asserts it.
#pragma once

#include <cstdint>
#include <iterator>
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

// What a type is called, how large its elements are, and what they are.
enum class ElementKind : uint8_t { integer, real, complex };
struct TypeFacts {
  std::string_view name;
  uint8_t bytes;  // a power of two
  ElementKind kind;
};
constexpr TypeFacts type_facts[] = {{"int32", 4, ElementKind::integer},
                                    {"int64", 8, ElementKind::integer},
                                    {"float", 4, ElementKind::real},
                                    {"double", 8, ElementKind::real},
                                    {"complex float", 8, ElementKind::complex},
                                    {"complex double", 16, ElementKind::complex},
                                    {"int8", 1, ElementKind::integer},
                                    {"uint8", 1, ElementKind::integer},
                                    {"int16", 2, ElementKind::integer},
                                    {"uint16", 2, ElementKind::integer},
                                    {"uint32", 4, ElementKind::integer},
                                    {"uint64", 8, ElementKind::integer},
                                    {"long double", 16, ElementKind::real}};
static_assert(std::size(type_facts) == element_types);
constexpr TypeFacts facts_of(ElementType type) {
  const auto index = static_cast<size_t>(type);
  return is_element_type(static_cast<int64_t>(index)) ? type_facts[index]
                                                      : TypeFacts{"unknown type", 0, {}};
}
constexpr std::string_view to_string(ElementType type) { return facts_of(type).name; }
constexpr uint64_t element_bytes(ElementType type) { return facts_of(type).bytes; }
constexpr bool is_complex(ElementType type) { return facts_of(type).kind == ElementKind::complex; }
constexpr bool is_integer(ElementType type) { return facts_of(type).kind == ElementKind::integer; }

// The alignment an element needs: that of its real part.
constexpr uint64_t part_bytes(ElementType type) {
  return is_complex(type) ? element_bytes(type) / 2 : element_bytes(type);
}
constexpr uint64_t max_element_bytes = 16;

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
inline Status check_operation(ElementType type, Operation operation) {
  if (has_operation(type, operation)) return {};
  return error(Code::invalid, to_string(type), " elements have no ", to_string(operation), ": ",
               facts_of(operation).needs == Needs::order
                   ? "complex numbers have no order"
                   : "logical and bitwise operations need integers");
}

}  // namespace skerry
