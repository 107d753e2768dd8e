// Interleaves a lock's machines: all interleavings of a few requesters, or a random one of many.
// It keeps the words, the messages under way and who holds the lock, and knows nothing of a
// protocol but its words' labels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locks/protocols.hpp"
#include "sharing.hpp"

namespace skerry::lock::machine {

struct Requests {
  bool local = false;   // the node of the lock
  uint8_t node = 0;     // its node; 0 is the lock's
  uint8_t count = 1;    // acquisitions, one after the other; endless: without end
  bool shared = false;  // how it asks
};
constexpr uint8_t endless = 255;

struct Scenario {
  ProtocolKind kind = ProtocolKind::two_sided;
  Config config;  // requesters are set from `requests`
  std::vector<Requests> requests;
  uint32_t bypass_bound = 0;  // grants to others while one stands in line; 0: not checked
  uint32_t states_most = 3'000'000;
  bool counts_sharers = false;  // SharingClient around each client
};

struct Verdict {
  std::string problem;             // empty: none found
  std::vector<std::string> trail;  // the steps that lead there
  uint64_t states = 0;
  uint32_t holders_most = 0;  // held at one time
  uint32_t bypass_most = 0;   // grants to others while one stood in line
  bool complete = true;       // all states were seen
};

// All interleavings. Checks that a writer holds alone; that only the unit of its label changes a
// word; that from every state reached the end can be reached (with endless requests: that everybody
// who asks can be granted), so that no wake-up is lost; the bound.
Verdict explore(const Scenario& scenario);

// One random interleaving of `steps` steps at most; the same checks but reachability: it must end,
// if nobody is endless.
Verdict wander(const Scenario& scenario, uint64_t seed, uint64_t steps);

}  // namespace skerry::lock::machine
