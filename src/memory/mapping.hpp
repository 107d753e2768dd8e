// Maps, reserves and releases memfd memory. Internal to the room.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/pure/status.hpp"

namespace skerry::memory {

// A new memfd of `bytes`, zeroed, closed on exec. Errors: no_memory.
Status create_memfd(uint64_t bytes, int* fd);

// Maps all of it: at `address` if there is room and it is not 0, otherwise anywhere; 2 MiB-aligned
// when it is that large, so that huge pages are possible. Errors: no_memory.
Status map_memfd(int fd, uint64_t bytes, uint64_t address, std::byte** base);
// Of map_memfd. What is held stays until it no longer is.
void unmap(std::byte* base, uint64_t bytes);

// Allocates the pages of [offset, offset + bytes) now, from the calling thread's NUMA node and
// cgroup, in chunks, and collapses them into huge pages where asked and possible. `fd` -1: the
// memfd is mapped at `base` and its descriptor closed. Gives up between chunks when *abort (may be
// null) is set. Errors: no_memory, peer_dead.
Status reserve(int fd, std::byte* base, uint64_t offset, uint64_t bytes, bool huge_pages,
               const std::atomic<uint32_t>* abort);

// Gives the pages back to the system though the mapping stays. Not those that are held. The system
// keeps locked ones (mlockall).
void discard(std::byte* base, uint64_t offset, uint64_t bytes);
// The same of pages that exist: those that stay are zero afterwards, except what is held.
void discard_or_clear(std::byte* base, uint64_t offset, uint64_t bytes);

}  // namespace skerry::memory
