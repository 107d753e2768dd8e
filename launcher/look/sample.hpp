// One reading of what the ranks and nodes of a job count.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/look/job.hpp"

namespace skerry::look {

// What a process counts, by name; equal names in docs/counters.md mean the same.
struct Value {
  const char* name;
  bool only_grows;
  const char* meaning;
};
// Values of a rank, and of a node's data servers, in this order.
enum RankValue : uint8_t {
  operations,
  bytes,
  connections,
  connections_broken,
  fences,
  collectives,
  queued,
  locks_taken,
  lock_waits,
  own_bytes,
  shared_bytes,
  rank_values
};
enum NodeValue : uint8_t { requests, wire_bytes, clients, trunks, memory_bytes, node_values };
extern const Value rank_value[rank_values];
extern const Value node_value[node_values];

struct RankSample {
  Rank rank = no_rank;
  int32_t node = 0;
  pid_t pid = 0;
  std::string waits;  // empty: it does not wait
  int64_t waits_since_ns = 0;
  uint64_t values[rank_values] = {};
};
struct NodeSample {
  int32_t node = 0;
  uint64_t values[node_values] = {};
};
struct Sample {
  int64_t time_ns = 0;
  std::vector<RankSample> ranks;  // ascending
  std::vector<NodeSample> nodes;  // ascending; those whose data server is on this machine
};
Sample take_sample(const JobView& job);

// What a rank issued to each node; the own node among them.
struct Traffic {
  Rank rank = no_rank;
  int32_t node = 0;
  std::vector<operation::NodeTraffic> to;
};
std::vector<Traffic> take_traffic(const JobView& job);

}  // namespace skerry::look
