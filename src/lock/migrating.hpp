// The migrating protocol: the lock migrates between a lock of the processor, taken by the lock's
// node alone, and one of the network (Santhanaraman et al., section 4, figures 3 to 5). For the
// domain `nic`; where atomics are coherent it works too, and has nothing to win.
//
//   word      label    value
//   network   network  0 .. P-1 the holder; P free; P+1 the lock is in CPU mode
//   mode      cpu      bit 0: 1 in network mode. Above it the history of requests (History)
//   cpu       cpu      0 .. P-1 the holder; P free; P+1 the manager
//
// Step numbers are those of the paper's figures. Its text for step 4 of figure 5 says that the
// manager writes "CPU mode". It must be network mode, or a local requester and the remote one would
// both hold the lock (the tests show it).
//
// What the paper leaves open, and the rule here:
// - A local requester looks at the mode again when it has the CPU lock: the lock may have migrated
//   between its first look and its compare-and-swap.
// - A request that meets the mode that it wanted (it migrated meanwhile) is answered "again".
// - A policy may keep the mode. Then the manager holds the CPU lock for the remote requester
//   (figure 4), and a local requester takes the network lock by the network (figure 3).
//
// Not fair: all but the requests to the manager try again after a pause.
#pragma once

#include <cstdint>

#include "lock/machine.hpp"

namespace skerry::lock::machine {

// When the lock migrates: pure functions of the requests that its node has seen. The paper leaves
// the policy open (section 4.2); its measurements migrate at every request that finds the other
// mode.
//
// What the node sees: in CPU mode every request. In network mode the local ones, and a remote one
// only where it holds the lock that a local one wants. So in network mode the history leans to
// local.

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

namespace migrating_words {
constexpr uint8_t network = 0;
constexpr uint8_t mode = 1;
constexpr uint8_t cpu = 2;
}  // namespace migrating_words

}  // namespace skerry::lock::machine
