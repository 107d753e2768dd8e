// Which ranks share memory: equal host identities. What a process cannot share with another must be
// part of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/pure/status.hpp"

namespace skerry::job {

using HostIdentity = std::array<std::byte, 16>;

// *identity is made from the boot id, the host's name, the user, and what the launcher says about
// virtual nodes. Three namespaces go in: of the network (abstract sockets live there), of IPC, and
// of processes (their numbers name the owners of memory). *machine: equal on ranks that take from
// one machine's memory, also on those of its containers. Errors: config (the PID namespace cannot
// be seen).
Status find_host(std::optional<int> node_hint, HostIdentity* identity, uint64_t* machine);

}  // namespace skerry::job
