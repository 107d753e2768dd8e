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

}  // namespace skerry::placement
