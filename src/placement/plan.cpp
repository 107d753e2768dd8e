#include "placement/plan.hpp"

#include <algorithm>

#include "core/pure/bytes_name.hpp"
#include "core/pure/status.hpp"

namespace skerry::placement {
namespace {

constexpr uint64_t kib = 1024, mib = 1024 * 1024;

// At the data servers of the node that has most, together.
uint64_t bytes_of_node(const Shape& shape, const Routes& routes, uint64_t connection_bytes) {
  const Neighbours all = routes.most_neighbours(shape.ranks_per_node, shape.all_servers.trunks());
  return (all.ranks + all.servers) * connection_bytes;
}

// `auto`: the smallest cluster whose nodes keep within their share; if none does, the one that
// takes least. All ranks must agree on clusters, so they are planned for the node that needs most.
// `sqrt`: the whole number that is closest to the square root.
NodeId chosen_size(const Shape& shape, const Settings& settings, uint64_t connection_bytes) {
  if (settings.cluster_size == Settings::sqrt_cluster) {
    int64_t root = 1;
    while (root * root + root < shape.nodes) ++root;
    return static_cast<NodeId>(root);
  }
  if (settings.cluster_size != Settings::auto_cluster) return settings.cluster_size;
  const uint64_t share = connection_share(settings.budget_bytes, shape.all_servers.most());
  NodeId best = 1;
  uint64_t best_bytes = UINT64_MAX;
  for (NodeId size = 1; share != 0 && size <= shape.nodes; ++size) {
    const uint64_t bytes = bytes_of_node(shape, Routes(shape.nodes, size, settings.shared),
                                         connection_bytes);
    if (bytes <= share) return size;
    if (bytes >= best_bytes) continue;
    best = size;
    best_bytes = bytes;
  }
  return best;
}

}  // namespace

uint64_t connection_share(uint64_t budget_bytes, uint32_t servers) {
  if (budget_bytes == 0) return 0;
  const uint64_t quarter = budget_bytes / 4, least_pools = servers * least_pool_bytes;
  const uint64_t beyond = least_pools > quarter ? 2 * (least_pools - quarter) : 0;
  return std::max<uint64_t>(quarter > beyond ? quarter - beyond : 0, 1);
}

Budget spend(uint64_t budget_bytes, uint64_t connections, uint64_t idle_bytes) {
  if (budget_bytes == 0) return {0, usual_pool_bytes, 0, 0, 0};
  const uint64_t quarter = budget_bytes / 4;
  Budget out{connection_share(budget_bytes, 1), std::max(quarter, least_pool_bytes), 0, 0, 0};
  out.sessions = out.passing = static_cast<uint32_t>(
      std::clamp<uint64_t>(quarter / (session_bytes + passing_bytes), least_sessions, 1u << 24));
  const uint64_t each = out.connection_bytes / std::max<uint64_t>(connections, 1);
  const uint64_t buffer = each > idle_bytes ? (each - idle_bytes) / 2 : 0;
  out.socket_buffer_bytes = static_cast<uint32_t>(
      std::clamp<uint64_t>(buffer, least_socket_buffer_bytes, most_socket_buffer_bytes));
  return out;
}

Plan plan(const Shape& shape, const Settings& settings, uint64_t connection_bytes) {
  Plan out;
  const bool shared = settings.shared && shape.nodes > 1;
  out.routes = Routes(shape.nodes, chosen_size(shape, settings, connection_bytes), shared);
  out.cluster_size = out.routes.size_of(0);  // none is larger
  // The node's servers share its budget and, in lanes, the ranks.
  const Neighbours one = out.routes.most_neighbours(
      (shape.ranks_per_node + shape.servers - 1) / shape.servers,
      shape.all_servers.trunks_of_one());
  out.connections = one.ranks + one.servers;
  out.budget = spend(settings.budget_bytes / shape.servers, out.connections, connection_bytes);
  return out;
}

Remark remark(const Shape& shape, const Settings& settings, uint64_t connection_bytes) {
  if (settings.cluster_size > shape.nodes)
    return {1,
            concat("SKERRY_CLUSTER_SIZE=", settings.cluster_size, ", but the job has ", shape.nodes,
                   shape.nodes == 1 ? " node: there is nothing to form a cluster of"
                                    : " nodes: they form one cluster")};
  const auto bytes_with = [&](const Settings& these) {
    return bytes_of_node(shape, plan(shape, these, connection_bytes).routes, connection_bytes);
  };
  const uint64_t bytes = bytes_with(settings);
  const uint32_t servers = shape.all_servers.most();
  const uint64_t share = connection_share(settings.budget_bytes, servers);
  if (settings.budget_bytes == 0 || shape.nodes == 1 || bytes <= share) return {};
  const auto suffices = [&](uint64_t budget_bytes) {
    Settings other = settings;
    other.budget_bytes = budget_bytes;  // which may lead to other clusters
    return bytes_with(other) <= connection_share(budget_bytes, servers);
  };
  uint64_t enough = settings.budget_bytes / mib + 1;  // MiB
  enough = std::max(enough, 4 * bytes / mib);
  while (!suffices(enough * mib)) ++enough;
  std::string remedy = concat("give ", enough, "M");
  Settings other = settings;
  other.cluster_size = Settings::auto_cluster;
  if (settings.cluster_size != Settings::auto_cluster && bytes_with(other) <= share) {
    remedy += ", or leave SKERRY_CLUSTER_SIZE out";
  } else if (other.shared = true; !settings.shared && bytes_with(other) <= share) {
    remedy += ", or set SKERRY_SHARE=1";
    if (settings.cluster_size != Settings::auto_cluster)
      remedy += " and leave SKERRY_CLUSTER_SIZE out";
  }
  return {enough * mib,
          concat("SKERRY_SERVER_BUDGET=", bytes_name(settings.budget_bytes),
                 " is less than this job may take: if every rank talks to every node, connections "
                 "take ",
                 (bytes + kib - 1) / kib, " KiB at a node's data servers, and ",
                 share >= kib
                     ? concat(share / kib, " KiB are for them; ")
                     : concat("nothing is left for them beside ", 2 * servers, " MiB of pools; "),
                 remedy)};
}

}  // namespace skerry::placement
