// The naive reference: the meaning of put, get, accumulate and read-modify-write, written for
// reading, one byte or element at a time. Random streams of operations must leave the fast paths
// with the same memory as this.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/pure/element.hpp"
#include "core/pure/shape.hpp"
#include "memory/apply.hpp"

namespace skerry::memory::naive {

// Byte offsets of all blocks of a shape relative to its first, in stream order (index 0 fastest).
inline std::vector<int64_t> block_offsets(const Shape& shape) {
  std::vector<int64_t> offsets{0};
  for (int32_t k = 0; k < shape.levels; ++k) {
    std::vector<int64_t> next;
    for (uint64_t i = 0; i < shape.count[k]; ++i) {
      for (const int64_t offset : offsets)
        next.push_back(offset + static_cast<int64_t>(i) * shape.stride[k]);
    }
    offsets = next;
  }
  return offsets;
}

template <class T>
void add_scaled(std::byte* y, const std::byte* x, const std::byte* a) {
  T to;
  T from;
  T scale;
  std::memcpy(&to, y, sizeof to);
  std::memcpy(&from, x, sizeof from);
  std::memcpy(&scale, a, sizeof scale);
  if constexpr (std::is_integral_v<T>)  // wraps
    to = static_cast<T>(to + static_cast<T>(uint64_t{scale} * uint64_t{from}));
  else to += scale * from;
  std::memcpy(y, &to, sizeof to);
}

template <class T>
void add_scaled_complex(std::byte* y, const std::byte* x, const std::byte* a) {
  T to[2];
  T from[2];
  T scale[2];
  std::memcpy(to, y, sizeof to);
  std::memcpy(from, x, sizeof from);
  std::memcpy(scale, a, sizeof scale);
  to[0] += scale[0] * from[0] - scale[1] * from[1];
  to[1] += scale[0] * from[1] + scale[1] * from[0];
  std::memcpy(y, to, sizeof to);
}

// `scale` points to one element.
inline void accumulate_element(ElementType type, std::byte* y, const std::byte* x,
                               const std::byte* scale) {
  switch (type) {
    case ElementType::int8:
    case ElementType::uint8: return add_scaled<uint8_t>(y, x, scale);
    case ElementType::int16:
    case ElementType::uint16: return add_scaled<uint16_t>(y, x, scale);
    case ElementType::int32:
    case ElementType::uint32: return add_scaled<uint32_t>(y, x, scale);
    case ElementType::int64:
    case ElementType::uint64: return add_scaled<uint64_t>(y, x, scale);
    case ElementType::float32: return add_scaled<float>(y, x, scale);
    case ElementType::float64: return add_scaled<double>(y, x, scale);
    case ElementType::complex_float: return add_scaled_complex<float>(y, x, scale);
    case ElementType::complex_double: return add_scaled_complex<double>(y, x, scale);
    case ElementType::long_double: return add_scaled<long double>(y, x, scale);
  }
}

// target = target (operation) origin for the operations other than a sum.
template <class T>
void operate(Operation operation, std::byte* y, const std::byte* x) {
  T to, from;
  std::memcpy(&to, y, sizeof to);
  std::memcpy(&from, x, sizeof from);
  if constexpr (std::is_integral_v<T>) {
    const bool a = to != 0, b = from != 0;
    switch (operation) {
      case Operation::product: to = static_cast<T>(uint64_t(to) * uint64_t(from)); break;
      case Operation::logical_and: to = a && b; break;
      case Operation::logical_or: to = a || b; break;
      case Operation::logical_xor: to = a != b; break;
      case Operation::bit_and: to = static_cast<T>(to & from); break;
      case Operation::bit_or: to = static_cast<T>(to | from); break;
      case Operation::bit_xor: to = static_cast<T>(to ^ from); break;
      default: break;
    }
  } else if (operation == Operation::product) {
    to *= from;
  }
  if constexpr (std::is_arithmetic_v<T>) {
    if (operation == Operation::min && from < to) to = from;
    if (operation == Operation::max && from > to) to = from;
  }
  if (operation == Operation::replace) to = from;
  std::memcpy(y, &to, sizeof to);
}

inline void operate_element(ElementType type, Operation operation, std::byte* y,
                            const std::byte* x) {
  switch (type) {
    case ElementType::int8: return operate<int8_t>(operation, y, x);
    case ElementType::uint8: return operate<uint8_t>(operation, y, x);
    case ElementType::int16: return operate<int16_t>(operation, y, x);
    case ElementType::uint16: return operate<uint16_t>(operation, y, x);
    case ElementType::int32: return operate<int32_t>(operation, y, x);
    case ElementType::uint32: return operate<uint32_t>(operation, y, x);
    case ElementType::int64: return operate<int64_t>(operation, y, x);
    case ElementType::uint64: return operate<uint64_t>(operation, y, x);
    case ElementType::float32: return operate<float>(operation, y, x);
    case ElementType::float64: return operate<double>(operation, y, x);
    case ElementType::complex_float: return operate<std::complex<float>>(operation, y, x);
    case ElementType::complex_double: return operate<std::complex<double>>(operation, y, x);
    case ElementType::long_double: return operate<long double>(operation, y, x);
  }
}

// One rank's slice.
class Slice {
 public:
  explicit Slice(uint64_t bytes) : memory_(bytes) {}
  std::vector<std::byte>& memory() { return memory_; }

  void put(uint64_t offset, const Shape& target, const std::byte* origin, const Shape& source) {
    each_byte(offset, target, source,
              [&](std::byte* here, int64_t there) { *here = origin[there]; });
  }
  void get(uint64_t offset, const Shape& target, std::byte* origin, const Shape& destination) {
    each_byte(offset, target, destination,
              [&](const std::byte* here, int64_t there) { origin[there] = *here; });
  }
  // `old`: the packed stream of what was there before; null: not wanted.
  void accumulate(uint64_t offset, const Shape& target, const std::byte* origin,
                  const Shape& source, const Update& what, const void* scale,
                  std::byte* old = nullptr) {
    const std::vector<int64_t> to = block_offsets(target);
    const std::vector<int64_t> from = block_offsets(source);
    const uint64_t unit = element_bytes(what.type);
    for (size_t block = 0; block < to.size(); ++block) {
      for (uint64_t i = 0; i < target.block_bytes; i += unit) {
        std::byte* y = memory_.data() + static_cast<int64_t>(offset) + to[block] +
                       static_cast<int64_t>(i);
        const std::byte* x = origin + from[block] + static_cast<int64_t>(i);
        if (old != nullptr) {
          std::memcpy(old, y, unit);
          old += unit;
        }
        if (what.operation == Operation::sum)
          accumulate_element(what.type, y, x, static_cast<const std::byte*>(scale));
        else operate_element(what.type, what.operation, y, x);
      }
    }
  }
  uint64_t rmw(uint64_t offset, const Rmw& what) {
    uint64_t old = 0;
    std::memcpy(&old, memory_.data() + offset, what.word_bytes);
    uint64_t value = old;
    if (what.op == RmwOp::fetch_add) value = old + what.operand;
    if (what.op == RmwOp::swap) value = what.operand;
    const uint64_t mask = what.word_bytes == 8 ? ~uint64_t{0} : 0xffff'ffff;
    if (what.op == RmwOp::compare_swap && old == (what.expected & mask)) value = what.operand;
    std::memcpy(memory_.data() + offset, &value, what.word_bytes);
    return old;
  }

 private:
  template <class Visit>
  void each_byte(uint64_t offset, const Shape& target, const Shape& other, Visit&& visit) {
    const std::vector<int64_t> here = block_offsets(target);
    const std::vector<int64_t> there = block_offsets(other);
    for (size_t block = 0; block < here.size(); ++block) {
      for (uint64_t i = 0; i < target.block_bytes; ++i) {
        visit(memory_.data() + static_cast<int64_t>(offset) + here[block] + static_cast<int64_t>(i),
              there[block] + static_cast<int64_t>(i));
      }
    }
  }

  std::vector<std::byte> memory_;
};

}  // namespace skerry::memory::naive
