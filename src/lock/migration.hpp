// When a migrating lock migrates: pure functions of the requests that the lock's node has seen. The
// paper leaves the policy open (section 4.2); its measurements migrate at every request that finds
// the other mode.
//
// What the node sees: in CPU mode every request. In network mode the local ones, and a remote one
// only where it holds the lock that a local one wants. So in network mode the history leans to
// local.
#pragma once

#include <cstdint>

#include "lock/machine.hpp"

namespace skerry::lock::machine {

// The last 16 requests that the node saw: the newest in bit 0, 1 for a remote one.
using History = uint16_t;
constexpr uint32_t history_length = 16;

constexpr History seen(History history, bool remote) {
  return static_cast<History>(history << 1 | (remote ? 1 : 0));
}

// Shall the lock move to the side of the newest request in `history`, which found the other mode?
bool shall_migrate(const Config& config, History history);
// Must holders write the history? `always` needs none, and its local lock stays two steps.
constexpr bool needs_history(Migration policy) { return policy != Migration::always; }

}  // namespace skerry::lock::machine
