// Which ranks share memory: equal host identities. What a process cannot share with another must be
// part of it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "core/pure/status.hpp"

namespace skerry::job {

using HostIdentity = std::array<std::byte, 16>;

// From the boot id, the host name space, the network name space (abstract sockets live there), the
// user, and what the launcher says about virtual nodes. Errors: internal.
Status host_identity(std::optional<int> node_hint, HostIdentity* identity);

}  // namespace skerry::job
