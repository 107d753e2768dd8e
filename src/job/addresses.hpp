// Which addresses the segments of a group get. All members map a segment at the same one, so no
// process keeps a table of where the others have it. A group counts upwards from a place of its
// own: two groups share nodes, and the leader's process maps what either allocates. A process where
// something else is at the chosen address maps the segment elsewhere, and the members then tell
// each other where.
#pragma once

#include <cstdint>

#include "memory/node_memory.hpp"

namespace skerry::job {

class Addresses {
 public:
  Addresses() = default;
  // `secret`: equal on all ranks of a job, different in each. Addresses are as hard to guess as the
  // system's own.
  Addresses(uint64_t secret, uint64_t group)
      : next_(low + mix(secret + mix(group)) % ((high - span - low) / align) * align) {}

  // For a segment of up to `bytes` on a node; 0: anywhere. The same on all members.
  uint64_t choose(uint64_t bytes) const {
    if (next_ == 0 || bytes >= span) return 0;
    const uint64_t free = next_ > high - span ? low : next_;
    return bytes >= align ? round_up(free, align) : free;
  }
  // Of this size on the largest node. `address`: from choose().
  void taken(uint64_t address, uint64_t bytes) {
    constexpr uint64_t gap = 4096;  // what runs over the end meets no other segment
    if (address == 0) return;
    next_ = round_up(address + bytes + gap, 4096);
  }

 private:
  static constexpr uint64_t align = memory::huge_page_bytes;
  // A part of the address space that neither programs nor the kernel's own choices use, on x86-64
  // and 64-bit ARM.
  static constexpr uint64_t low = uint64_t{0x20} << 40, high = uint64_t{0x50} << 40;
  static constexpr uint64_t span = uint64_t{0x10} << 40;  // no segment is larger
  static constexpr uint64_t mix(uint64_t z) {             // splitmix64
    z += 0x9e37'79b9'7f4a'7c15;
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
    return z ^ (z >> 31);
  }
  static constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
  }

  uint64_t next_ = 0;  // 0: no group yet
};

}  // namespace skerry::job
