// The way of a message to a data server: directly, through the data server of the sender's own
// node, through one server of the target's cluster, or through both. Pure; used by src/share and by
// the simulator.
//
// Clusters: W. Yu, X. Que, V. Tipparaju, R. L. Graham, J. S. Vetter, "Cooperative server clustering
// for a scalable GAS model on petascale cray XT5 systems", section 3.2. Contiguous nodes form a
// cluster. Each node is a client of one server in every cluster, its *gate* there, and reaches the
// others through that one. The paper's floor(r / g) names a gate for rank r; why it is another
// formula here: docs/design/0031-routes-and-clusters.md.
//
//   rank ---------------------------------------> target     cluster size 1
//   rank -> own node's server ------------------> target     shared connections
//   rank -----------------------------> gate ---> target     clusters
//   rank -> own node's server --------> gate ---> target     both
//
// A server that forwards to its own cluster is the last to forward: the target is next.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/pure/ids.hpp"

namespace skerry::placement {

// How many data servers the nodes of a job have: what all ranks know alike.
class ServerCounts {
 public:
  static constexpr uint32_t most_each = 8;
  // The same on all nodes; from 1 to most_each.
  explicit ServerCounts(uint32_t each = 1)
      : least_(std::clamp<uint32_t>(each, 1, most_each)), most_(least_) {}
  void add(uint32_t servers) {  // some node has so many
    least_ = std::clamp<uint32_t>(servers, 1, least_);
    most_ = std::clamp<uint32_t>(servers, most_, most_each);
  }

  uint32_t most() const { return most_; }  // on one node
  // Connections between one server and those of another node, opened by one side, at most. If all
  // nodes have equally many servers it is one. Otherwise lanes meet and part.
  uint32_t trunks_of_one() const { return least_ == most_ ? 1 : most_; }
  uint32_t trunks() const { return most_ * trunks_of_one(); }  // the same of all servers of a node
  friend bool operator==(const ServerCounts&, const ServerCounts&) = default;

 private:
  uint32_t least_, most_;
};

// What connects to the data servers of a node, or to one of them, at a time, if every rank talks to
// every node.
struct Neighbours {
  uint64_t ranks = 0;    // that connect to it themselves
  uint64_t servers = 0;  // connections with other servers, opened by either
};

class Routes {
 public:
  // One node, direct routes.
  Routes() = default;
  // `cluster_size`: nodes in a cluster, at most; 1: no clusters. Clusters are as equal as possible:
  // their sizes differ by one at most. `shared`: ranks send through their own node's server.
  // Values below 1 count as 1; a cluster is at most the whole job.
  Routes(NodeId nodes, NodeId cluster_size, bool shared)
      : nodes_(std::max<NodeId>(nodes, 1)), shared_(shared) {
    const NodeId size = std::clamp<NodeId>(cluster_size, 1, nodes_);
    clusters_ = nodes_ / size + (nodes_ % size != 0 ? 1 : 0);
  }

  // Ranks connect to their targets, and servers do not forward.
  bool is_direct() const { return clusters_ == nodes_ && !shared_; }
  bool has_clusters() const { return clusters_ != nodes_; }
  bool is_shared() const { return shared_; }  // ranks send through their own node's server
  // Data servers on the way of a message, the target included, at most.
  uint32_t most_servers() const { return 1u + (shared_ ? 1u : 0u) + (has_clusters() ? 1u : 0u); }

  // First servers of a rank's routes: its connections, at most.
  NodeId most_links() const { return shared_ ? 1 : clusters_; }

  NodeId clusters() const { return clusters_; }
  // In 64 bits, since nodes times clusters passes 32.
  NodeId cluster_of(NodeId node) const {
    return static_cast<NodeId>(int64_t{node} * clusters_ / nodes_);
  }
  NodeId first_of(NodeId cluster) const {  // its lowest node
    return static_cast<NodeId>((int64_t{cluster} * nodes_ + clusters_ - 1) / clusters_);
  }
  NodeId size_of(NodeId cluster) const { return first_of(cluster + 1) - first_of(cluster); }
  // The node in `cluster` whose server holds the buffers of `client`'s ranks. In its own cluster a
  // node is its own gate. By remainder: neighbouring nodes, which often talk to the same cluster,
  // have different gates. Each member of the cluster serves as many nodes as the others, give or
  // take one.
  NodeId gate(NodeId client, NodeId cluster) const {
    if (cluster_of(client) == cluster) return client;
    return first_of(cluster) + client % size_of(cluster);
  }

  // Where a rank of node `from` connects to reach the data server of node `target`.
  NodeId from_rank(NodeId from, NodeId target) const {
    return shared_ ? from : gate(from, cluster_of(target));
  }
  // The next server after the one of node `here`; `target` itself if that is next.
  NodeId from_server(NodeId here, NodeId target) const {
    return cluster_of(here) == cluster_of(target) ? target : gate(here, cluster_of(target));
  }

  // Of the node that has most, at most. Every node has so many ranks. `trunks`: that the servers of
  // one node open to those of another. Of one server: with its part of the ranks, and with
  // ServerCounts::trunks_of_one.
  Neighbours most_neighbours(uint32_t ranks_per_node, uint32_t trunks = 1) const {
    const auto nodes = static_cast<uint64_t>(nodes_), clusters = static_cast<uint64_t>(clusters_);
    const uint64_t least = nodes / clusters,
                   most = (nodes + clusters - 1) / clusters;   // in a cluster
    const uint64_t clients = (nodes - 1 + least - 1) / least;  // nodes whose gate a server is
    const uint64_t own = shared_ || has_clusters() ? 1 : 0;
    return {ranks_per_node * (own + (shared_ ? 0 : clients)),
            trunks * (2 * (most - 1) + (shared_ ? clients + clusters - 1 : 0))};
  }

 private:
  NodeId nodes_ = 1;
  NodeId clusters_ = 1;
  bool shared_ = false;
};

}  // namespace skerry::placement
