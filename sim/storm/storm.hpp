// One storm: origins and servers around the product's pure rooms, a fake clock, a network with
// seeded faults, and checkers after every step.
#pragma once

#include <cstdint>
#include <string>

#include "sim/storm/config.hpp"

namespace skerry::sim {

struct StormResult {
  std::string failure;  // the first rule that was broken; empty: none
  uint64_t events = 0;
  uint64_t applied = 0;     // requests, each once
  uint64_t duplicates = 0;  // requests that came again and were not applied again
  uint64_t cuts = 0;        // connections broken by the storm
  uint64_t resumes = 0;     // connections that had something to send again
  uint64_t evictions = 0;
  uint64_t most_log_bytes = 0;
  int64_t simulated_ns = 0;
};

// The same configuration gives the same result, event by event.
StormResult run_storm(const StormConfig& config);

}  // namespace skerry::sim
