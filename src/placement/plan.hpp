// How a job of a given shape is connected, and what each data server may spend. It follows from the
// shape and the settings alone, so that a job, `skerry info --nodes` and the simulator say the
// same. Pure.
//
// docs/design/0031-routes-and-clusters.md, docs/design/0035-several-data-servers.md
#pragma once

#include <cstdint>
#include <string>

#include "core/pure/ids.hpp"
#include "placement/routes.hpp"

namespace skerry::placement {

struct Shape {
  NodeId nodes = 1;
  uint32_t ranks_per_node = 1;  // of the node that has most
  uint32_t servers = 1;         // data servers of the node that the plan is for
  ServerCounts all_servers = ServerCounts(servers);  // of all nodes
};

// As the SKERRY_* variables say.
struct Settings {
  static constexpr NodeId auto_cluster = 0, sqrt_cluster = -1;
  NodeId cluster_size = auto_cluster;  // SKERRY_CLUSTER_SIZE
  bool shared = false;                 // SKERRY_SHARE
  uint64_t budget_bytes = 0;           // SKERRY_SERVER_BUDGET, of a node; 0: none
};

// How a server spends its budget. A quarter goes on connections, with the kernel's buffers of each.
// One goes on sessions that are connected and as many channels that pass. One goes on each of two
// pools for what it passes on (src/share/message.hpp).
struct Budget {
  uint64_t connection_bytes = 0;     // for all connections; 0: no budget
  uint64_t pool_bytes = 0;           // of each pool
  uint32_t socket_buffer_bytes = 0;  // of each connection, either way; 0: the system's own
  uint32_t sessions = 0;             // of ranks, connected at a time; 0: no limit
  uint32_t passing = 0;  // channels that it passes on, at a time; 0: no limit. On average over all
                         // servers as many pass as end: each session passes one gate
};
// What a session that is connected through other servers takes at its target, with its turn for a
// slot; and a channel that passes at a gate. Measured by lab/bench/clusters: 370 + 50, and 120.
constexpr uint64_t session_bytes = 480;
constexpr uint64_t passing_bytes = 160;
constexpr uint32_t least_sessions = 64;
// What a node with so many data servers may spend on connections: a quarter of its budget, less
// what their smallest pools take beyond their half. 0 without a budget, otherwise 1 at least.
uint64_t connection_share(uint64_t budget_bytes, uint32_t servers);
// A message is up to 64 KiB: with less than this in a pool channels would end all the time.
constexpr uint64_t least_pool_bytes = 1024 * 1024;
// Of one server: an equal part of its node's budget. `connections`: that it is planned for;
// `idle_bytes`: what each takes without the kernel's buffers.
Budget spend(uint64_t budget_bytes, uint64_t connections, uint64_t idle_bytes);
// The kernel's buffers are never smaller than this: a window of less than two segments, 64 KiB on a
// loopback interface, makes senders wait for timers. They are a bound, not a reservation.
constexpr uint32_t least_socket_buffer_bytes = 256 * 1024;
constexpr uint32_t most_socket_buffer_bytes = 1024 * 1024;
// Without a budget the pools are bounded all the same.
constexpr uint64_t usual_pool_bytes = 64 * 1024 * 1024;

struct Plan {
  Routes routes;
  NodeId cluster_size = 1;   // nodes of the largest cluster
  uint64_t connections = 0;  // of one data server, if every rank talks to every node
  Budget budget;             // of one data server
};

// `connection_bytes`: what an idle connection takes at a data server, as the fabric says.
Plan plan(const Shape& shape, const Settings& settings, uint64_t connection_bytes);

// Settings that cannot all hold for this job, and what to do.
struct Remark {
  uint64_t weight = 0;  // 0: there is nothing to say. Bytes of the budget that suffices, or 1
  std::string text;     // one sentence for the user
};
Remark remark(const Shape& shape, const Settings& settings, uint64_t connection_bytes);

}  // namespace skerry::placement
