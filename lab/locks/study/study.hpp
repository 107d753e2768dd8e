// One hot lock, asked for by any number of ranks: what each lock protocol makes of it. The
// protocol's machines are those that jobs run (src/lock/machine.hpp); around them are a fake clock
// and a cost for every action.
//
// What is modelled: the lock's node has one data server and one network adapter, each of which does
// one thing at a time; a cache line moves between processors one at a time; messages and atomics
// travel; waiters spin for a moment, then sleep and must be woken. What is not: other traffic,
// the network's own limits beyond the lock's node, processors that are shared by ranks.
#pragma once

#include <cstdint>
#include <string>

#include "locks/protocols.hpp"
#include "sim/study/costs.hpp"

namespace skerry::sim {

struct LockStudyConfig {
  lock::ProtocolKind protocol = lock::ProtocolKind::two_sided;
  lock::machine::Config lock;  // domain, policy, bounds; requesters are `ranks`
  Costs costs;
  uint32_t ranks = 64;
  uint32_t per_node = 16;  // the first node's ranks are the lock's local requesters
  int64_t hold_ns = 1'000;
  int64_t think_ns = 10'000;  // mean, between two acquisitions of a rank
  // Of all requests, those that come from other nodes, as offered: ranks' thinking is scaled so
  // that they would be, if nobody ever waited. Below 0: all ranks think alike.
  double remote_share = -1;
  double shared_share = 0;    // requests of readers
  uint64_t acquisitions = 0;  // ends after so many; 0: at least 20,000 and two for each rank
  uint64_t events_most = 5'000'000;
  uint64_t seed = 1;
};

struct LockStudyResult {
  uint64_t acquisitions = 0;
  uint64_t events = 0;
  bool is_complete = true;  // false: events_most came first
  double time_s = 0;
  double per_second = 0;       // acquisitions
  double mean_wait_us = 0;     // from asking until it is granted
  double longest_wait_us = 0;  // of those granted and of those that still wait at the end
  double longest_local_us = 0, longest_remote_us = 0;  // the same, of the two kinds
  uint64_t never_granted = 0;                          // ranks that asked and were not granted once
  double remote_granted = 0;                           // share of the acquisitions
  double network_atomics = 0;                          // for each acquisition
  double messages = 0;                                 // the same
  uint32_t holders_most = 0;                           // at one time
};

LockStudyResult run_lock_study(const LockStudyConfig& config);

}  // namespace skerry::sim
