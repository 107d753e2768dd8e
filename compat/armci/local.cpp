#include "local.hpp"

#include <complex>
#include <cstring>

namespace skerry::armci {
namespace {

template <class Number>
void add(void* to, const void* from, uint64_t bytes, const void* scale) {
  Number factor(1);
  if (scale != nullptr) std::memcpy(&factor, scale, sizeof factor);
  for (uint64_t at = 0; at + sizeof(Number) <= bytes; at += sizeof(Number)) {
    Number a, b;
    std::memcpy(&a, static_cast<char*>(to) + at, sizeof a);
    std::memcpy(&b, static_cast<const char*>(from) + at, sizeof b);
    a += factor * b;
    std::memcpy(static_cast<char*>(to) + at, &a, sizeof a);
  }
}

void block(Kind kind, void* near, void* far, uint64_t bytes, int type, const void* scale) {
  switch (kind) {
    case Kind::put: std::memmove(far, near, bytes); return;
    case Kind::get: std::memmove(near, far, bytes); return;
    case Kind::accumulate: break;
  }
  switch (static_cast<skerry_type>(type)) {
    case SKERRY_INT32: return add<int32_t>(far, near, bytes, scale);
    case SKERRY_INT64: return add<int64_t>(far, near, bytes, scale);
    case SKERRY_FLOAT: return add<float>(far, near, bytes, scale);
    case SKERRY_DOUBLE: return add<double>(far, near, bytes, scale);
    case SKERRY_COMPLEX_FLOAT: return add<std::complex<float>>(far, near, bytes, scale);
    case SKERRY_COMPLEX_DOUBLE: return add<std::complex<double>>(far, near, bytes, scale);
    default: break;  // no ARMCI_Acc_e
  }
}

void level(Kind kind, char* near, char* far, const skerry_strided& shape, int levels, int type,
           const void* scale) {
  if (levels == 0) return block(kind, near, far, shape.block_bytes, type, scale);
  for (uint64_t i = 0; i < shape.count[levels - 1]; ++i) {
    const auto step = static_cast<int64_t>(i);
    level(kind, near + step * shape.origin_stride[levels - 1],
          far + step * shape.target_stride[levels - 1], shape, levels - 1, type, scale);
  }
}

}  // namespace

void transfer_locally(Kind kind, void* near, void* far, const skerry_strided& shape, int type,
                      const void* scale) {
  level(kind, static_cast<char*>(near), static_cast<char*>(far), shape, shape.levels, type, scale);
}

}  // namespace skerry::armci
