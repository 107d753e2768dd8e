// The paper's question at a size that no machine here has: what does a cap on connections cost? One
// thread, a fake clock; each rank runs its traffic over the product's connection machine, cap
// and victim policy, servers serve one request at a time, and every event has its cost.
//
// Nothing breaks here (that is the storm's part) and no bytes are moved: a study counts and times.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/study/costs.hpp"
#include "sim/study/traffic.hpp"

namespace skerry::sim {

enum class Protocol : uint8_t {
  overlapped,  // the new connection opens while the victim closes
  waiting,     // it opens when the victim's teardown is acknowledged
};
std::string_view to_string(Protocol protocol);

struct StudyConfig {
  TrafficConfig traffic;
  Costs costs;
  uint32_t cap = 0;            // connections of a rank; 0: no limit
  std::string policy = "lru";  // one of policies()
  Protocol protocol = Protocol::overlapped;
};

// Mean and most over all ranks.
struct Spread {
  double mean = 0;
  double most = 0;
};

struct StudyResult {
  uint64_t requests = 0;
  uint64_t events = 0;
  double time_s = 0;  // of the slowest rank
  double mean_time_s = 0;
  Spread setups;              // of a rank
  Spread teardowns;           // evictions of a rank
  Spread teardown_s;          // of a rank: from the choice of the victim until its end is released
  Spread exposed_teardown_s;  // the part of it that the program waited for
  Spread setup_s;             // from the hello until requests may go
  double hidden_closes = 0;   // share of evictions in which the new connection had not to wait for
                              // the old one
  Spread connections;         // of a rank, at most at a time
  Spread server_connections;  // of a server, at most at a time
  Spread origin_bytes;  // of a rank at its peak: connections, links of all servers it ever talked
                        // to, policy
  Spread server_bytes;
};

// Those of connection, "adaptive", and "optimum", the last.
std::vector<std::string> policies();
StudyResult run_study(const StudyConfig& config, const std::function<void(double done)>& progress);

// Of a trace alone, before any policy is run.
struct Survey {
  uint64_t requests = 0;
  double partners_mean = 0;
  uint32_t partners_least = 0;
  uint32_t partners_most = 0;
};
Survey survey(const TrafficConfig& config);
// Fewest set-ups per rank that any policy could reach (mean), for each cap.
std::vector<double> optimum(const TrafficConfig& config, const std::vector<uint32_t>& caps,
                            const std::function<void(double done)>& progress);

}  // namespace skerry::sim
