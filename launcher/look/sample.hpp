// One reading of what the ranks and nodes of a job count and wait for: of those of one machine, or
// of several together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

// Times are of the monotonic clock of the machine that the rank or node is on: only differences to
// others of the same one mean anything.
struct RankSample {
  Rank rank = no_rank;
  int32_t node = 0;
  pid_t pid = 0;
  int64_t time_ns = 0;       // of this reading
  std::optional<Wait> wait;  // none: it does not wait
  uint64_t values[rank_values] = {};
  std::vector<origin::NodeTraffic> to;  // what it issued to each node, the own one among them
};
struct NodeSample {
  int32_t node = 0;
  int64_t time_ns = 0;
  uint64_t values[node_values] = {};
};
struct Sample {
  std::string job, program;
  int32_t all_ranks = 0, all_nodes = 0;  // of the job
  int64_t age_ns = 0;
  std::vector<RankSample> ranks;            // ascending; those that are seen
  std::vector<NodeSample> nodes;            // ascending; those whose data server is seen
  std::vector<LockSample> locks;            // of seen homes, those held or waited for
  std::vector<std::string> remarks;         // a line for each host that did not answer
  const RankSample* find(Rank rank) const;  // null: it is not seen
  const LockSample* find(const memory::LockName& lock) const;  // the same
  Holders holders_of(const memory::LockName& lock) const;
};
Sample take_sample(const JobView& job);  // of this machine
// Of all machines of the job, if its launcher was `skerry run`; otherwise of this one.
Sample take_whole_sample(const JobView& job);

// What one machine tells another of the same version.
std::vector<std::byte> encode(const Sample& sample);
// Errors: invalid.
Status decode(std::span<const std::byte> bytes, Sample* sample);
// Adds what `one` does not have yet.
void merge(Sample&& other, Sample* one);

}  // namespace skerry::look
