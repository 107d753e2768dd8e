// Copies between private memory and memory that others read and write at the same time. Internal to
// apply.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace skerry::memory {

// The side that other threads may touch meanwhile. It is accessed by single loads and stores where
// the size allows.
enum class Shared { to, from };

#if defined(__SANITIZE_THREAD__)
constexpr bool under_thread_sanitizer = true;
#else
constexpr bool under_thread_sanitizer = false;
#endif

inline bool is_aligned(const void* pointer, size_t bytes) {
  return (reinterpret_cast<uintptr_t>(pointer) & (bytes - 1)) == 0;
}

// Word's size is 1, 2, 4 or 8 and the shared side is aligned to it. Release and acquire cost
// nothing on x86.
template <Shared shared, class Word>
inline void copy_word(std::byte* to, const std::byte* from) {
  Word value;
  if constexpr (shared == Shared::to) {
    std::memcpy(&value, from, sizeof value);
    __atomic_store_n(reinterpret_cast<Word*>(to), value, __ATOMIC_RELEASE);
  } else {
    value = __atomic_load_n(reinterpret_cast<const Word*>(from), __ATOMIC_ACQUIRE);
    std::memcpy(to, &value, sizeof value);
  }
}

// On some processors memcpy's string instruction takes 20 times as long for a copy of some KiB
// whose target lies a little behind its source, modulo 4096. (A buffer of malloc's beside
// page-aligned memory is the usual case.) Each step seems to read what the step before wrote. Short
// copies do not use that instruction. On other processors short copies are what costs time, up to a
// third of it: so this processor is asked once, by the clock.
inline bool seem_to_overlap(const std::byte* to, const std::byte* from) {
  return ((reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) & 4095) - 1 < 63;
}
void copy_seemingly_overlapping(std::byte* to, const std::byte* from, uint64_t bytes);
void copy_in_steps(std::byte* to, const std::byte* from, uint64_t bytes);
constexpr uint64_t step_bytes = 2048;

template <Shared shared>
inline void copy_long(std::byte* to, const std::byte* from, uint64_t bytes) {
  if constexpr (under_thread_sanitizer) {
    // Races here belong to the user's program (docs/memory-model.md), as in any one-sided library.
    // The sanitizer sees atomic accesses, so that it reports our mistakes and not the user's.
    uint64_t at = 0;
    const std::byte* shared_side = shared == Shared::to ? to : from;
    while (at < bytes && !is_aligned(shared_side + at, 8))
      copy_word<shared, uint8_t>(to + at, from + at), ++at;
    for (; at + 8 <= bytes; at += 8) copy_word<shared, uint64_t>(to + at, from + at);
    for (; at < bytes; ++at) copy_word<shared, uint8_t>(to + at, from + at);
  } else {
    if (bytes > step_bytes && seem_to_overlap(to, from)) [[unlikely]]
      return copy_seemingly_overlapping(to, from, bytes);
    std::memcpy(to, from, bytes);
  }
}

template <Shared shared>
inline void copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  const std::byte* shared_side = shared == Shared::to ? to : from;
  switch (bytes) {
    case 0: return;
    case 1: return copy_word<shared, uint8_t>(to, from);
    case 2:
      if (is_aligned(shared_side, 2)) return copy_word<shared, uint16_t>(to, from);
      break;
    case 4:
      if (is_aligned(shared_side, 4)) return copy_word<shared, uint32_t>(to, from);
      break;
    case 8:
      if (is_aligned(shared_side, 8)) return copy_word<shared, uint64_t>(to, from);
      break;
    default: break;
  }
  copy_long<shared>(to, from, bytes);
}

template <Shared shared, uint64_t block_bytes>
inline void copy_fixed_blocks(std::byte* to, int64_t to_stride, const std::byte* from,
                              int64_t from_stride, uint64_t blocks) {
  for (uint64_t i = 0; i < blocks; ++i) {
    if constexpr (block_bytes <= 8 || under_thread_sanitizer) {
      copy<shared>(to, from, block_bytes);
    } else {
      std::memcpy(to, from, block_bytes);
    }
    to += to_stride;
    from += from_stride;
  }
}

// `blocks` equal blocks, strides apart. The usual small sizes have loops of their own: a call of
// memcpy per block would cost as much as the copy itself.
template <Shared shared>
inline void copy_blocks(std::byte* to, int64_t to_stride, const std::byte* from,
                        int64_t from_stride, uint64_t block_bytes, uint64_t blocks) {
  if (blocks == 1) return copy<shared>(to, from, block_bytes);
  switch (block_bytes) {
    case 4: return copy_fixed_blocks<shared, 4>(to, to_stride, from, from_stride, blocks);
    case 8: return copy_fixed_blocks<shared, 8>(to, to_stride, from, from_stride, blocks);
    case 16: return copy_fixed_blocks<shared, 16>(to, to_stride, from, from_stride, blocks);
    case 24: return copy_fixed_blocks<shared, 24>(to, to_stride, from, from_stride, blocks);
    case 32: return copy_fixed_blocks<shared, 32>(to, to_stride, from, from_stride, blocks);
    case 48: return copy_fixed_blocks<shared, 48>(to, to_stride, from, from_stride, blocks);
    case 64: return copy_fixed_blocks<shared, 64>(to, to_stride, from, from_stride, blocks);
    case 80: return copy_fixed_blocks<shared, 80>(to, to_stride, from, from_stride, blocks);
    case 128: return copy_fixed_blocks<shared, 128>(to, to_stride, from, from_stride, blocks);
    default: break;
  }
  for (uint64_t i = 0; i < blocks; ++i) {
    copy<shared>(to, from, block_bytes);
    to += to_stride;
    from += from_stride;
  }
}

// Before a put on machines that reorder stores: makes earlier puts visible first. (x86 does so by
// itself.)
inline void order_before_put() {
#if !defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_release);
#endif
}
inline void order_after_get() {
#if !defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace skerry::memory
