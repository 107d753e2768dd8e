// The head of a sweep's message. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/pure/ids.hpp"

namespace skerry::job {

// The first word of a message: how many bytes follow, and who is in which collective below.
//
//   bit 63: some stay | 55 to 24: rank + 1 of one that leaves the job, 0: none | 23 to 0: length
constexpr uint64_t some_stay = uint64_t{1} << 63;
constexpr uint64_t length_mask = (uint64_t{1} << 24) - 1;
constexpr int leaver_shift = 24;

inline uint64_t head_of(const std::byte* message) {
  uint64_t head;
  std::memcpy(&head, message, sizeof head);
  return head;
}
inline void set_head(std::byte* message, uint64_t head) {
  std::memcpy(message, &head, sizeof head);
}
inline uint64_t length_of(const std::byte* message) { return head_of(message) & length_mask; }
inline Rank leaver_of(uint64_t head) {
  return static_cast<Rank>(((head & ~some_stay) >> leaver_shift)) - 1;
}

// Without the length.
inline uint64_t callers(uint64_t a, uint64_t b) {
  const uint64_t leaver = std::max(a & ~some_stay & ~length_mask, b & ~some_stay & ~length_mask);
  return leaver | ((a | b) & some_stay);
}
inline bool are_apart(uint64_t head) {
  return (head & some_stay) != 0 && leaver_of(head) != no_rank;
}

}  // namespace skerry::job
