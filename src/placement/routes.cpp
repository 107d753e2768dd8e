#include "placement/routes.hpp"

#include <algorithm>

namespace skerry::placement {
namespace {

// x * y / z, and rounded up: in 64 bits, since nodes times clusters passes 32.
NodeId scaled(NodeId x, NodeId y, NodeId z) { return static_cast<NodeId>(int64_t{x} * y / z); }
NodeId scaled_up(NodeId x, NodeId y, NodeId z) {
  return static_cast<NodeId>((int64_t{x} * y + z - 1) / z);
}

}  // namespace

Routes::Routes(NodeId nodes, NodeId cluster_size, bool shared)
    : nodes_(std::max<NodeId>(nodes, 1)), shared_(shared) {
  const NodeId size = std::clamp<NodeId>(cluster_size, 1, nodes_);
  clusters_ = nodes_ / size + (nodes_ % size != 0 ? 1 : 0);
}

NodeId Routes::cluster_of(NodeId node) const { return scaled(node, clusters_, nodes_); }

NodeId Routes::first_of(NodeId cluster) const { return scaled_up(cluster, nodes_, clusters_); }

NodeId Routes::size_of(NodeId cluster) const { return first_of(cluster + 1) - first_of(cluster); }

// By remainder: neighbouring nodes, which often talk to the same cluster, have different gates, and
// of all nodes each member of the cluster serves as many as the others, give or take one.
NodeId Routes::gate(NodeId client, NodeId cluster) const {
  if (cluster_of(client) == cluster) return client;
  return first_of(cluster) + client % size_of(cluster);
}

NodeId Routes::from_rank(NodeId from, NodeId target) const {
  return shared_ ? from : gate(from, cluster_of(target));
}

NodeId Routes::from_server(NodeId here, NodeId target) const {
  return cluster_of(here) == cluster_of(target) ? target : gate(here, cluster_of(target));
}

Neighbours Routes::most_neighbours(uint32_t ranks_per_node, uint32_t trunks) const {
  const auto nodes = static_cast<uint64_t>(nodes_), clusters = static_cast<uint64_t>(clusters_);
  const uint64_t least = nodes / clusters,
                 most = (nodes + clusters - 1) / clusters;   // in a cluster
  const uint64_t clients = (nodes - 1 + least - 1) / least;  // nodes whose gate a server is
  const uint64_t own = shared_ || has_clusters() ? 1 : 0;
  return {ranks_per_node * (own + (shared_ ? 0 : clients)),
          trunks * (2 * (most - 1) + (shared_ ? clients + clusters - 1 : 0))};
}

NodeId square_root_cluster(NodeId nodes) {
  int64_t root = 1;
  while (root * root + root < nodes) ++root;
  return static_cast<NodeId>(root);
}

NodeId cluster_within(uint64_t connection_bytes, uint64_t bytes_each, NodeId nodes,
                      uint32_t ranks_per_node, bool shared, uint32_t trunks) {
  if (connection_bytes == 0) return 1;
  NodeId best = 1;
  uint64_t best_bytes = UINT64_MAX;
  for (NodeId size = 1; size <= nodes; ++size) {
    const Neighbours all = Routes(nodes, size, shared).most_neighbours(ranks_per_node, trunks);
    const uint64_t bytes = (all.ranks + all.servers) * bytes_each;
    if (bytes <= connection_bytes) return size;
    if (bytes < best_bytes) {
      best = size;
      best_bytes = bytes;
    }
  }
  return best;
}

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

}  // namespace skerry::placement
