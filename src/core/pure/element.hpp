// Element types of accumulate and reductions. Values equal skerry_type of the public header;
// src/capi asserts it.
#pragma once

#include <cstdint>
#include <string_view>

namespace skerry {

enum class ElementType : uint8_t {
  int32 = 0,
  int64 = 1,
  float32 = 2,
  float64 = 3,
  complex_float = 4,   // two floats: real, imaginary
  complex_double = 5,  // two doubles: real, imaginary
};

constexpr bool is_element_type(int64_t value) { return value >= 0 && value <= 5; }

constexpr uint64_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::int32: return 4;
    case ElementType::int64: return 8;
    case ElementType::float32: return 4;
    case ElementType::float64: return 8;
    case ElementType::complex_float: return 8;
    case ElementType::complex_double: return 16;
  }
  return 0;
}

// The alignment an element needs: that of its real part.
constexpr uint64_t part_bytes(ElementType type) {
  switch (type) {
    case ElementType::int32: return 4;
    case ElementType::int64: return 8;
    case ElementType::float32: return 4;
    case ElementType::float64: return 8;
    case ElementType::complex_float: return 4;
    case ElementType::complex_double: return 8;
  }
  return 0;
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
  }
  return "unknown type";
}

}  // namespace skerry
