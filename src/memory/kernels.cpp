#include "memory/kernels.hpp"

#include <cstring>

#include "memory/copy.hpp"

// One binary for all machines of a cluster: the loader picks the widest clone that the CPU
// supports. No clone uses fused multiply-add, because the result must not depend on the node that
// applied it. Sanitized builds have no clones: resolvers would run before the sanitizer is ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define SKERRY_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define SKERRY_CLONES
#endif

namespace skerry::memory {
namespace {

// Wrapped, because a deduced pointer type would lose the attributes. Integers are added as
// unsigned: they wrap.
template <class T>
struct __attribute__((may_alias)) Aligned {
  T value;
};
template <class T>
struct __attribute__((may_alias, packed)) Unaligned {
  T value;
};

// Plain in the product, so that loops vectorise; shown to ThreadSanitizer as atomic (see
// copy_long).
template <class T>
inline void add_to(T* y, std::type_identity_t<T> x) {
#if defined(__SANITIZE_THREAD__)
  T value;
  __atomic_load(y, &value, __ATOMIC_RELAXED);
  value = static_cast<T>(value + x);
  __atomic_store(y, &value, __ATOMIC_RELAXED);
#else
  *y = static_cast<T>(*y + x);
#endif
}

template <class T>
inline T part(const Scale& scale, size_t index) {
  T value;
  std::memcpy(&value, scale.value + index * sizeof(T), sizeof value);
  return value;
}

#define SKERRY_ADD(name, T)                                                                 \
  SKERRY_CLONES void name(std::byte* y, const std::byte* x, uint64_t bytes, const Scale&) { \
    auto* __restrict to = reinterpret_cast<Aligned<T>*>(y);                                 \
    const auto* __restrict from = reinterpret_cast<const Unaligned<T>*>(x);                 \
    const uint64_t count = bytes / sizeof(T);                                               \
    for (uint64_t i = 0; i < count; ++i) add_to<T>(&to[i].value, from[i].value);            \
  }

#define SKERRY_ADD_SCALED(name, T)                                                                \
  SKERRY_CLONES void name(std::byte* y, const std::byte* x, uint64_t bytes, const Scale& scale) { \
    auto* __restrict to = reinterpret_cast<Aligned<T>*>(y);                                       \
    const auto* __restrict from = reinterpret_cast<const Unaligned<T>*>(x);                       \
    const T a = part<T>(scale, 0);                                                                \
    const uint64_t count = bytes / sizeof(T);                                                     \
    for (uint64_t i = 0; i < count; ++i) add_to<T>(&to[i].value, a * from[i].value);              \
  }

#define SKERRY_ADD_SCALED_COMPLEX(name, T)                                                        \
  SKERRY_CLONES void name(std::byte* y, const std::byte* x, uint64_t bytes, const Scale& scale) { \
    auto* __restrict to = reinterpret_cast<Aligned<T>*>(y);                                       \
    const auto* __restrict from = reinterpret_cast<const Unaligned<T>*>(x);                       \
    const T re = part<T>(scale, 0);                                                               \
    const T im = part<T>(scale, 1);                                                               \
    const uint64_t count = bytes / sizeof(T);                                                     \
    for (uint64_t i = 0; i < count; i += 2) {                                                     \
      const T x_re = from[i].value;                                                               \
      const T x_im = from[i + 1].value;                                                           \
      add_to<T>(&to[i].value, re * x_re - im * x_im);                                             \
      add_to<T>(&to[i + 1].value, re * x_im + im * x_re);                                         \
    }                                                                                             \
  }

SKERRY_ADD(add_u32, uint32_t)
SKERRY_ADD(add_u64, uint64_t)
SKERRY_ADD(add_f32, float)
SKERRY_ADD(add_f64, double)
SKERRY_ADD_SCALED(add_scaled_u32, uint32_t)
SKERRY_ADD_SCALED(add_scaled_u64, uint64_t)
SKERRY_ADD_SCALED(add_scaled_f32, float)
SKERRY_ADD_SCALED(add_scaled_f64, double)
SKERRY_ADD_SCALED_COMPLEX(add_scaled_c32, float)
SKERRY_ADD_SCALED_COMPLEX(add_scaled_c64, double)

}  // namespace

Kernel kernel_for(ElementType type, const Scale& scale) {
  switch (type) {
    case ElementType::int32: return scale.is_one ? add_u32 : add_scaled_u32;
    case ElementType::int64: return scale.is_one ? add_u64 : add_scaled_u64;
    case ElementType::float32: return scale.is_one ? add_f32 : add_scaled_f32;
    case ElementType::float64: return scale.is_one ? add_f64 : add_scaled_f64;
    case ElementType::complex_float: return scale.is_one ? add_f32 : add_scaled_c32;
    case ElementType::complex_double: return scale.is_one ? add_f64 : add_scaled_c64;
  }
  return nullptr;
}

}  // namespace skerry::memory
