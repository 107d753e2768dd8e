// The names of things: ranks, nodes, segments.
#pragma once

#include <cstdint>

namespace skerry {

using Rank = int32_t;    // of the job, 0..size-1
using NodeId = int32_t;  // 0..nodes-1
constexpr Rank no_rank = -1;
constexpr NodeId no_node = -1;

// Names a segment in the whole job, for ever. `owner` has the lowest job rank among its members in
// its lower bits. `generation` comes from that rank's monotone counter and is never reused. Memory
// that serves several segments, one after the other, has the first one's generation; which of them
// it is, its *life*, is in the upper bits of `owner`. So a late request to a freed segment finds
// nothing, not another segment.
struct SegmentId {
  uint32_t owner = 0;
  uint32_t
      generation = 0;  // 0: a node's control segment (memory/control.hpp), never a user's segment

  static constexpr uint32_t owner_bits = 22;
  static constexpr uint32_t most_lives = 1u << (32 - owner_bits);
  constexpr uint32_t life() const { return owner >> owner_bits; }
  // The first segment in the same memory.
  constexpr SegmentId first_life() const {
    return {owner & ((1u << owner_bits) - 1), generation};
  }
  // The memory has life() + 1 < most_lives.
  constexpr SegmentId next_life() const { return {owner + (1u << owner_bits), generation}; }

  constexpr uint64_t packed() const { return (uint64_t{owner} << 32) | generation; }
  static constexpr SegmentId unpacked(uint64_t id) {
    return {static_cast<uint32_t>(id >> 32), static_cast<uint32_t>(id)};
  }
  friend constexpr bool operator==(const SegmentId&, const SegmentId&) = default;
};
static_assert(sizeof(SegmentId) == 8, "travels in every request header");

}  // namespace skerry
