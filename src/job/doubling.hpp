// Collectives of medium length between nodes, where these are a power of two. The first members of
// the nodes, the *leaders*, have places. In a turn two whose places differ in one bit give each
// other what they have. So n nodes need log2 n crossings to gather and as many to sum, where a ring
// needs n - 1; each leader sends as many bytes as round the ring.
//
// To *gather*, each begins with its own block. The bits come from the lowest on, and after each
// turn a leader has twice as many blocks, all of them neighbours. To *sum*, each begins with all
// blocks. The bits come from the highest on. A leader keeps the half of its blocks in which its own
// lies, gives the other half, and adds what comes. Then each has the sum of its own block, and they
// gather. One leader sums a block, always in the same order: all get the same bits.
//
// Every swap has a counter and two slots at its recipient, used by turns. They need no credits. The
// partner sends its message k + 2 of a swap after it has taken this leader's k + 1. That one was
// sent when this leader no longer needed what came as k, which lay in the same slot.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "fabric/fabric.hpp"
#include "job/departure.hpp"
#include "job/reduction.hpp"

namespace skerry::job {

class Segment;

class Doubling {
 public:
  static constexpr int32_t least_nodes = 2;
  static constexpr int32_t most_nodes = 16;  // of more, less than most_bytes would not pay
  // Of all blocks: the last swap gives half of them, in one message.
  static constexpr uint64_t most_bytes = 2 * fabric::inline_payload_bytes;
  static bool serves(int32_t nodes) {
    return nodes >= least_nodes && nodes <= most_nodes &&
           std::has_single_bit(static_cast<uint32_t>(nodes));
  }
  // A sum of whole units: the first swap gives half of them.
  static bool fits(uint64_t bytes, uint64_t unit) {
    return (bytes / unit + 1) / 2 * unit <= slot_bytes;
  }
  // Parts of so many bytes, before each block and at the end: none does not fit.
  static bool fits(std::span<const uint64_t> begins, uint64_t bytes) {
    if (begins.empty()) return false;
    const uint64_t half = begins[begins.size() / 2], all = begins.back();
    return std::max(half, all - half) * bytes <= slot_bytes;
  }
  // Of a leader's slice: counters, and slots.
  static constexpr uint64_t counters_bytes(int32_t nodes) { return 8 * swaps(nodes); }
  static uint64_t slots_bytes(int32_t nodes) { return 2 * swaps(nodes) * slot_bytes; }

  // `leaders`: by place, of which `place` is this one's. Counters and slots begin at these offsets
  // of `slices`.
  void open(Departure& departure, Segment& slices, uint64_t counters_at, uint64_t slots_at,
            std::vector<Rank> leaders, int32_t place);

  // block_at(b): where the block of place b begins; of the number of nodes, where the last one
  // ends. They lie one behind the other, and half of them fit a message. Errors as of Ring.
  using BlockAt = std::function<uint64_t(uint64_t block)>;
  Status gather(std::byte* base, const BlockAt& block_at);
  Status allreduce(const Reduction& how, std::byte* buffer, uint64_t bytes);

 private:
  static constexpr uint64_t slot_bytes = fabric::inline_payload_bytes;
  // Of a sum: each bit once to add and once to gather.
  static constexpr uint64_t swaps(int32_t nodes) {
    return 2 * static_cast<uint64_t>(std::countr_zero(static_cast<uint32_t>(nodes)));
  }
  // With the leader at the place that differs in `bit`. *came: until the next swap.
  Status swap(uint32_t bit, bool adds, std::span<const std::byte> given, const std::byte** came);
  Status gather_all(std::byte* base, const BlockAt& block_at);

  Departure* departure_ = nullptr;
  Segment* slices_ = nullptr;
  uint64_t counters_at_ = 0, slots_at_ = 0;
  std::vector<Rank> leaders_;
  uint64_t place_ = 0;
  std::vector<uint64_t> taken_;  // by swap: messages so far
};

}  // namespace skerry::job
