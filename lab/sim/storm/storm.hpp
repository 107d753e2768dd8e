// One storm: a job of the product's engines and data servers over a simulated network, with seeded
// faults, and checkers all along.
#pragma once

#include <cstdint>
#include <string>

#include "sim/storm/config.hpp"

namespace skerry::sim {

struct StormResult {
  std::string failure;  // the first rule that was broken; empty: none
  int64_t simulated_ns = 0;
  struct Counts {
    uint64_t steps = 0;       // of fibers
    uint64_t operations = 0;  // of programs
    uint64_t at_once = 0;     // accesses that got their lock in the same message
    uint64_t contended = 0;   // those that did not
    uint64_t requests = 0;    // that servers applied
    uint64_t cuts = 0;        // connections broken by the storm
    uint64_t resumed = 0;     // connections that had something to send again
    uint64_t replayed = 0;    // requests sent again
    uint64_t evictions = 0;
    uint64_t dropped = 0;    // connections that servers closed to make room
    uint64_t relayed = 0;    // grants through other servers
    uint64_t trunks = 0;     // connections between data servers
    uint64_t no_room = 0;    // channels closed because a pool was full
    uint64_t forwarded = 0;  // messages that they passed on
    uint64_t deaths = 0;
    Counts& operator+=(const Counts& more);
  } counts;
};

// The same configuration gives the same result, step by step. A storm that failed leaves what it
// had behind: its fibers stand where they stood.
StormResult run_storm(const StormConfig& config);

// A seed takes milliseconds. One that takes longer is in a loop in which no fiber gives way.
constexpr unsigned longest_seed_s = 100;

// The same in a child process, so that a crash or a failed assertion is a result, too.
std::string run_storm_apart(const StormConfig& config);

}  // namespace skerry::sim
