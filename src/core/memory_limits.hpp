// How much memory is still available on a node: of the machine, and of every memory cgroup around
// this process (v2 and v1).
//
// Shared memory has no limit of its own: a request for too much kills a process instead of failing.
// So check here before every allocation. The answer is best effort: other processes may allocate
// meanwhile.
#pragma once

#include <cstdint>
#include <string>

#include "core/pure/status.hpp"

namespace skerry {

// Of the path of this process's memory cgroup: equal for processes that are charged together. 0
// without cgroups. `root` is put before /proc and /sys paths (tests).
uint64_t memory_cgroup_hash(const std::string& root = "");

struct MemoryAsk {
  uint64_t own_bytes = 0;      // of this process
  uint64_t node_bytes = 0;     // of all processes of the job on this machine, this one included
  bool leaf_is_shared = true;  // true: all are in one cgroup (equal memory_cgroup_hash). false: the
                               // leaf is charged own_bytes only
};
// Errors: no_memory, with the numbers and the limit that was exceeded. *left_bytes, unless null:
// how much more may be asked for, by all processes of the machine together.
Status check_memory(const MemoryAsk& ask, uint64_t* left_bytes = nullptr,
                    const std::string& root = "");

// The memory of this machine, or what the narrowest cgroup around this process allows.
uint64_t memory_limit(const std::string& root = "");

}  // namespace skerry
