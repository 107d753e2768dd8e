// Memory that a program gave: private to its owner's process, and reached by the other processes of
// the node through the kernel (process_vm_readv, process_vm_writev), without the owner's help. Its
// own process reaches it directly.
//
// A description of it lies in shared memory: one area, whose offsets count from its start, or many
// that come and go, whose offsets are addresses. The owner alone writes the description; readers
// take a copy of what they need under its sequence number and read again if it changed meanwhile.
//
// A transfer of 8 bytes costs some 0.3 us instead of some ns. Updates are made on a copy, under the
// same stripe as all others, so they are atomic with each other as everywhere.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/pure/status.hpp"

namespace skerry::memory {

struct GivenArea {
  uint64_t address;  // in the owner's process
  uint64_t bytes;
};

// All zero: nothing is given.
struct Given {
  static constexpr uint32_t most_areas = 1024;

  std::atomic<uint32_t> sequence;  // owner: odd while it changes the rest
  std::atomic<uint32_t> count;     // owner: areas[0..count-1] are given; ascending, disjoint
  std::atomic<int32_t> process;    // owner: its process id
  std::atomic<uint32_t> is_many;   // owner: 1 if offsets are addresses. Set once
  struct Area {
    std::atomic<uint64_t> address, bytes;  // owner
  } areas[most_areas];

  // ---- the owner ----
  void give_one(void* base, uint64_t bytes);
  void give_many();
  // Errors: invalid (overlap, null), no_memory (all areas taken).
  Status add(const void* base, uint64_t bytes);
  Status remove(const void* base);  // invalid: nothing begins there

  // ---- any process of the node ----
  // Where [offset, offset + bytes) lies in the owner's process; false: not inside one area.
  bool find(uint64_t offset, uint64_t bytes, uint64_t* address) const;
  // Errors: range; peer_dead (the owner's process is gone); unsupported (not allowed here); invalid
  // (the owner has unmapped it).
  Status read(void* to, uint64_t offset, uint64_t bytes) const;
  Status write(uint64_t offset, const void* from, uint64_t bytes) const;

 private:
  struct Snapshot {
    uint32_t count;
  };
  template <class Look>
  void look(Look&& action) const;
  void begin_change();
  void end_change();
};
constexpr uint64_t given_one_bytes = 32;  // of a description of one area
static_assert(offsetof(Given, areas) + sizeof(Given::Area) == given_one_bytes);

// May processes of this node reach each other's memory? Lets the others reach this one's, as far as
// the system needs to be asked. Errors: unsupported, with the remedy.
Status allow_given();

}  // namespace skerry::memory
