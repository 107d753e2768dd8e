#include "memory/kernels.hpp"

#include <array>
#include <cstring>

#include "core/pure/combine.hpp"
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

SKERRY_ADD(add_u8, uint8_t)
SKERRY_ADD(add_u16, uint16_t)
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

// Elements without a loop of their own above. `x` has any alignment. Shown to ThreadSanitizer as
// atomic, in the pieces that copy makes.
template <class T>
inline T element_at(const std::byte* y) {
  T value;
  if constexpr (under_thread_sanitizer)
    copy<Shared::from>(reinterpret_cast<std::byte*>(&value), y, sizeof value);
  else std::memcpy(&value, y, sizeof value);
  return value;
}
template <class T>
inline void set_element(std::byte* y, const T& value) {
  if constexpr (under_thread_sanitizer)
    copy<Shared::to>(y, reinterpret_cast<const std::byte*>(&value), sizeof value);
  else std::memcpy(y, &value, sizeof value);
}

template <class T>
void add_scaled(std::byte* __restrict y, const std::byte* __restrict x, uint64_t bytes,
                const Scale& scale) {
  const T a = part<T>(scale, 0);
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
    T b;
    std::memcpy(&b, x + at, sizeof b);
    set_element(y + at, wrapped_add(element_at<T>(y + at), wrapped_multiply(a, b)));
  }
}

template <class T, Operation operation>
void combine(std::byte* __restrict y, const std::byte* __restrict x, uint64_t bytes, const Scale&) {
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
    T b;
    std::memcpy(&b, x + at, sizeof b);
    set_element(y + at, combined<operation>(element_at<T>(y + at), b));
  }
}

void replace(std::byte* y, const std::byte* x, uint64_t bytes, const Scale&) {
  copy<Shared::to>(y, x, bytes);
}
void keep(std::byte*, const std::byte*, uint64_t, const Scale&) {}

Kernel sum_kernel(ElementType type, bool unscaled) {
  switch (type) {
    case ElementType::int32:
    case ElementType::uint32: return unscaled ? add_u32 : add_scaled_u32;
    case ElementType::int64:
    case ElementType::uint64: return unscaled ? add_u64 : add_scaled_u64;
    case ElementType::float32: return unscaled ? add_f32 : add_scaled_f32;
    case ElementType::float64: return unscaled ? add_f64 : add_scaled_f64;
    case ElementType::complex_float: return unscaled ? add_f32 : add_scaled_c32;
    case ElementType::complex_double: return unscaled ? add_f64 : add_scaled_c64;
    case ElementType::int8:
    case ElementType::uint8: return unscaled ? add_u8 : add_scaled<uint8_t>;
    case ElementType::int16:
    case ElementType::uint16: return unscaled ? add_u16 : add_scaled<uint16_t>;
    case ElementType::long_double:
      return unscaled ? combine<long double, Operation::sum> : add_scaled<long double>;
  }
  return nullptr;
}

template <class T, Operation operation>
void change_one(std::byte* target, const void* origin, void* old) {
  auto* const at = reinterpret_cast<T*>(target);
  T before, operand{};
  if constexpr (operation != Operation::no_op) std::memcpy(&operand, origin, sizeof operand);
  __atomic_load(at, &before, __ATOMIC_ACQUIRE);
  if constexpr (operation != Operation::no_op) {
    T after = combined<operation>(before, operand);
    __atomic_store(at, &after, __ATOMIC_RELEASE);
  }
  if (old != nullptr) std::memcpy(old, &before, sizeof before);
}

constexpr auto one_kernels = [] {
  std::array<std::array<OneKernel, operations>, element_types> table{};
  for (size_t type = 0; type < table.size(); ++type)
    for (size_t operation = 0; operation < operations; ++operation)
      table[type][operation] = with_operation(
          static_cast<ElementType>(type), static_cast<Operation>(operation),
          []<class T, Operation op>() -> OneKernel {
            if constexpr (sizeof(T) <= 8 && std::is_arithmetic_v<T>) return change_one<T, op>;
            else return nullptr;
          });
  return table;
}();

}  // namespace

Kernel kernel_for(const Update& what) {
  if (what.operation == Operation::sum) return sum_kernel(what.type, what.scale.is_one);
  if (what.operation == Operation::replace) return replace;
  if (what.operation == Operation::no_op) return keep;
  return with_operation(what.type, what.operation,
                        []<class T, Operation op>() -> Kernel { return combine<T, op>; });
}

OneKernel one_kernel_for(ElementType type, Operation operation) {
  return one_kernels[static_cast<size_t>(type)][static_cast<size_t>(operation)];
}

}  // namespace skerry::memory
