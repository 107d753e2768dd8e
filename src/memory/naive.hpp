// The naive reference: the meaning of put, get, accumulate and read-modify-write, written for
// reading, one byte or element at a time. Random streams of operations must leave the fast paths,
// local and remote, with the same memory as this. Tests only.
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
  to = static_cast<T>(to + static_cast<T>(scale * from));
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
    case ElementType::int32: return add_scaled<uint32_t>(y, x, scale);  // wraps
    case ElementType::int64: return add_scaled<uint64_t>(y, x, scale);
    case ElementType::float32: return add_scaled<float>(y, x, scale);
    case ElementType::float64: return add_scaled<double>(y, x, scale);
    case ElementType::complex_float: return add_scaled_complex<float>(y, x, scale);
    case ElementType::complex_double: return add_scaled_complex<double>(y, x, scale);
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
  void accumulate(uint64_t offset, const Shape& target, const std::byte* origin,
                  const Shape& source, ElementType type, const void* scale) {
    const std::vector<int64_t> to = block_offsets(target);
    const std::vector<int64_t> from = block_offsets(source);
    for (size_t block = 0; block < to.size(); ++block) {
      for (uint64_t i = 0; i < target.block_bytes; i += element_bytes(type)) {
        std::byte* y = memory_.data() + static_cast<int64_t>(offset) + to[block] +
                       static_cast<int64_t>(i);
        accumulate_element(type, y, origin + from[block] + static_cast<int64_t>(i),
                           static_cast<const std::byte*>(scale));
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
