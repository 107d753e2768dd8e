#include "placement/plan.hpp"

#include <algorithm>

#include "core/pure/status.hpp"

namespace skerry::placement {
namespace {

constexpr uint64_t kib = 1024, mib = 1024 * 1024;

NodeId chosen_size(const Shape& shape, const Settings& settings, uint64_t connection_bytes) {
  switch (settings.cluster_size) {
    case Settings::auto_cluster:
      return cluster_within(connection_share(settings.budget_bytes, shape.all_servers.most()),
                            connection_bytes, shape.nodes, shape.ranks_per_node, settings.shared,
                            shape.all_servers.trunks());
    case Settings::sqrt_cluster: return square_root_cluster(shape.nodes);
    default: return settings.cluster_size;
  }
}

// Of all data servers of a node, the one that needs most.
uint64_t connection_bytes_of_node(const Shape& shape, const Settings& settings,
                                  uint64_t connection_bytes) {
  const Neighbours all = plan(shape, settings, connection_bytes)
                             .routes.most_neighbours(shape.ranks_per_node,
                                                     shape.all_servers.trunks());
  return (all.ranks + all.servers) * connection_bytes;
}

}  // namespace

std::string budget_name(uint64_t bytes) {
  if (bytes == 0) return "0";
  if (bytes % mib == 0) return concat(bytes / mib, "M");
  return bytes % kib == 0 ? concat(bytes / kib, "K") : std::to_string(bytes);
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
  const uint64_t bytes = connection_bytes_of_node(shape, settings, connection_bytes);
  const uint32_t servers = shape.all_servers.most();
  const uint64_t share = connection_share(settings.budget_bytes, servers);
  if (settings.budget_bytes == 0 || shape.nodes == 1 || bytes <= share) return {};
  const auto fits = [&](const Settings& other) {
    return connection_bytes_of_node(shape, other, connection_bytes) <= share;
  };
  const auto suffices = [&](uint64_t budget_bytes) {
    Settings other = settings;
    other.budget_bytes = budget_bytes;  // which may lead to other clusters
    return connection_bytes_of_node(shape, other, connection_bytes) <=
           connection_share(budget_bytes, servers);
  };
  uint64_t enough = settings.budget_bytes / mib + 1;  // MiB
  enough = std::max(enough, 4 * bytes / mib);
  while (!suffices(enough * mib)) ++enough;
  std::string remedy = concat("give ", enough, "M");
  Settings other = settings;
  other.cluster_size = Settings::auto_cluster;
  if (settings.cluster_size != Settings::auto_cluster && fits(other)) {
    remedy += ", or leave SKERRY_CLUSTER_SIZE out";
  } else if (other.shared = true; !settings.shared && fits(other)) {
    remedy += ", or set SKERRY_SHARE=1";
    if (settings.cluster_size != Settings::auto_cluster)
      remedy += " and leave SKERRY_CLUSTER_SIZE out";
  }
  return {enough * mib,
          concat("SKERRY_SERVER_BUDGET=", budget_name(settings.budget_bytes),
                 " is less than this job may take: if every rank talks to every node, connections "
                 "take ",
                 (bytes + kib - 1) / kib, " KiB at a node's data servers, and ",
                 share >= kib
                     ? concat(share / kib, " KiB are for them; ")
                     : concat("nothing is left for them beside ", 2 * servers, " MiB of pools; "),
                 remedy)};
}

}  // namespace skerry::placement
