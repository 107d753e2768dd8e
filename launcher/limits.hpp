// Whether this machine can hold as many ranks as asked for: better told before the first of them is
// started than by the one that fails.
#pragma once

#include <cstdint>

#include "core/pure/status.hpp"

namespace skerry::launcher {

// 0: unknown, or no limit.
struct Room {
  uint64_t descriptors = 0;  // that a process may have open (ulimit -n)
  uint64_t processes = 0;  // that may run: of the user, of the cgroup, of the system, whichever is
                           // the least
  uint64_t memory_bytes = 0;  // that are available
};

Room room_here();
// Errors: config, naming the limit and what lifts it.
Status check_room(int ranks_here, const Room& room);
// The same for a launcher that only holds a connection to each of so many hosts' agents.
Status check_room_for_hosts(int hosts, const Room& room);

}  // namespace skerry::launcher
