// Allocations, and whose memory an address is.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime.hpp"

namespace skerry::armci {

// Where an address of a process lies. segment null: in no allocation.
struct Place {
  skerry_segment* segment;
  uint64_t offset;
};

// One remembered slice. Empty: low == high.
struct Slice {
  uintptr_t low = 0;
  uintptr_t high = 0;  // one past the end
  int proc = -1;
  skerry_segment* segment = nullptr;
  char* shared = nullptr;  // the slice as this process maps it; null: on another node
};

// What this thread found last, by process; most recent first. Dropped when an allocation has gone.
struct Found {
  static constexpr int sets = 64;
  static constexpr int ways = 4;
  Slice slices[sets][ways];
  uint64_t epoch = 0;  // of the allocations that they come from; 0: none
};

extern std::atomic<uint64_t> epoch;  // grows when an allocation goes
inline uint64_t allocation_epoch() { return epoch.load(std::memory_order_relaxed); }
Place search(int proc, uintptr_t address);
// Allocated when first used and freed at the end of the thread; null before. A pointer, because a
// library with much thread_local memory of its own cannot be opened by a program that is already
// running.
extern thread_local constinit Found* found_here;

// The allocation that holds `address` as the caller knows it for `proc`: what ARMCI_Malloc returned
// for it, or, for a process of this node, what it returned there.
inline Place find(int proc, const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (const Found* mine = found_here; mine != nullptr) [[likely]] {
    const Slice& first = mine->slices[static_cast<unsigned>(proc) % Found::sets][0];
    if (mine->epoch == allocation_epoch() && first.proc == proc && address >= first.low &&
        address < first.high) [[likely]]
      return {first.segment, address - first.low};
  }
  return search(proc, address);
}

// Where a word at `pointer` can be loaded and stored, if it lies on this node in the allocation
// found last for `proc`; else null, and the long way is to be taken. A hit means that ARMCI is
// started: there are no allocations otherwise.
template <class Word>
Word* word_at(int proc, const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const Found* mine = found_here;
  if (mine == nullptr) return nullptr;
  const Slice& first = mine->slices[static_cast<unsigned>(proc) % Found::sets][0];
  if (first.proc != proc || address < first.low || address >= first.high ||
      mine->epoch != allocation_epoch())
    return nullptr;
  const uintptr_t offset = address - first.low;
  if (first.shared == nullptr || offset % sizeof(Word) != 0 || first.high - address < sizeof(Word))
    return nullptr;
  return reinterpret_cast<Word*>(first.shared + offset);
}

}  // namespace skerry::armci
