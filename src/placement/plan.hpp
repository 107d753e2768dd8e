// How a job of a given shape is connected, and what each data server may spend: from the shape and
// the settings alone, so that a job, `skerry info --nodes` and the simulator say the same. Pure.
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

struct Plan {
  Routes routes;
  NodeId cluster_size = 1;   // nodes of the largest cluster
  uint64_t connections = 0;  // of one data server, if every rank talks to every node
  Budget budget;             // of one data server
};

// `connection_bytes`: what an idle connection takes at a data server, as the fabric says.
Plan plan(const Shape& shape, const Settings& settings, uint64_t connection_bytes);

// As SKERRY_SERVER_BUDGET has it: 64M.
std::string budget_name(uint64_t bytes);

// Settings that cannot all hold for this job, and what to do.
struct Remark {
  uint64_t weight = 0;  // 0: there is nothing to say. Bytes of the budget that suffices, or 1
  std::string text;     // one sentence for the user
};
Remark remark(const Shape& shape, const Settings& settings, uint64_t connection_bytes);

}  // namespace skerry::placement
