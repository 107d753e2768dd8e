// Memory that a program gave: private to its owner's process, and reached by the other processes of
// the node through the kernel (process_vm_readv, process_vm_writev), without the owner's help. Its
// own process reaches it directly.
//
// A description of it lies in shared memory: one area, whose offsets count from its start, or many
// that come and go, whose offsets are addresses. The owner alone writes it. There are two lists of
// many areas: the owner prepares the one that is not valid, then makes it the valid one. So readers
// never wait for an owner that is stopped, or that died in the middle of a change; they look again
// if the owner made two changes meanwhile.
//
// A transfer of 8 bytes costs some 0.3 us instead of some ns. Updates are made on a copy, under the
// same stripe as all others, so they are atomic with each other as everywhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/pure/status.hpp"

namespace skerry::memory {

// All zero: nothing is given.
struct Given {
  static constexpr uint32_t most_areas = 1024;
  struct Area {
    std::atomic<uint64_t> address, bytes;  // owner
  };
  struct List {
    std::atomic<uint32_t> count;  // owner: areas[0..count-1] are given; ascending, disjoint
    uint32_t reserved;
    Area areas[most_areas];
  };

  std::atomic<uint32_t> is_many;  // owner: 1 if offsets are addresses. Set once
  std::atomic<int32_t> process;   // owner: its process id. Set once
  std::atomic<uint64_t> version;  // owner: of many, lists[version % 2] is valid
  Area one;                       // owner: if it is not many. Set once
  // owner: these of its bytes lie in shared memory (moved.hpp): bytes [moved_from, moved_from +
  // moved_bytes) of it one page behind this description. Set once; 0: none do
  std::atomic<uint64_t> moved_from, moved_bytes;
  List lists[2];  // of many

  // ---- the owner ----
  void give_one(void* base, uint64_t bytes);
  void give_many();
  // Nothing is given. Nobody reads it, or is about to.
  void take_back();
  // Errors: invalid (overlap, null), no_memory (all areas taken).
  Status add(const void* base, uint64_t bytes);
  Status remove(const void* base);  // invalid: nothing begins there

  // ---- any process of the node ----
  // Where [offset, offset + bytes) lies in the owner's process; false: not inside one area, or
  // several that follow each other without a gap.
  bool find(uint64_t offset, uint64_t bytes, uint64_t* address) const;
  // Errors: range; peer_dead (the owner's process is gone); unsupported (not allowed here); invalid
  // (the owner has unmapped it).
  Status read(void* to, uint64_t offset, uint64_t bytes) const;
  Status write(uint64_t offset, const void* from, uint64_t bytes) const;
  // Several at a time, at most most_parts, none of them empty. If one is wrong, none is moved.
  struct Part {
    std::byte* here;
    uint64_t offset;
    uint64_t bytes;
  };
  static constexpr size_t most_parts = 64;
  Status read_parts(std::span<const Part> parts) const;
  Status write_parts(std::span<const Part> parts) const;

 private:
  // Calls change(from, to) to make the next list of the present one.
  template <class Change>
  void change(Change&& change);
  Status move_all(std::byte* here, uint64_t offset, uint64_t bytes, bool writes) const;
  Status move_parts(std::span<const Part> parts, bool writes) const;
  bool find_among(const List& list, uint64_t offset, uint64_t bytes, uint64_t* address) const;
};
constexpr uint64_t given_one_bytes = 48;  // of a description of one area
static_assert(offsetof(Given, lists) == given_one_bytes);

// Bytes of a process at an address of its own. False: some could not be read.
bool read_process(int32_t process, uint64_t address, void* to, uint64_t bytes);

// May processes of this node reach each other's memory? Lets the others reach this one's, as far as
// the system needs to be asked. Errors: unsupported, with the remedy.
Status allow_given();
// Does the system let this process reach the memory of `process`? One that is not dumpable, or that
// has not called allow_given where only relatives may trace, keeps it to itself. Errors:
// unsupported, with the remedy.
Status check_reach(int32_t process);

}  // namespace skerry::memory
