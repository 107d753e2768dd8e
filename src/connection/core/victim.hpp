// Which connection goes when the cap is reached (A. Vishnu, M. Krishnan, P. Balaji: "Dynamic
// Time-Variant Connection Management for PGAS Models on InfiniBand"). Pure: a policy is a function
// of what Cap (cap.hpp) has noted of a partner. The partner that is worth least makes way.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/pure/status.hpp"

namespace skerry::connection {

using Partner = uint32_t;  // dense number of a data server or a node, 0..

// What is known of a partner, also across its connections. Time is logical: it advances when the
// partner changes, so a burst of requests to one server counts as one use.
struct Uses {
  uint64_t last = 0;       // time of the newest one; opening a connection is one. 0: none
  uint64_t before = 0;     // of the one before that; 0: none
  uint32_t teardowns = 0;  // times it made way; a break or a server's wish is held against nobody
};

struct Worth {
  uint64_t major = 0;
  uint64_t minor = 0;
  friend constexpr auto operator<=>(const Worth&, const Worth&) = default;
};

// What a partner is worth now. Distinct for partners with distinct `last`, so that the choice does
// not depend on the order in which they are looked at.
using Policy = std::function<Worth(Partner, const Uses&, uint64_t now)>;

// `policy` null: only checked. Errors: config (no such policy; which there are).
Status find_policy(std::string_view name, Policy* policy = nullptr);

}  // namespace skerry::connection
