#include "placement/routes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "placement/node_map.hpp"

namespace skerry::placement {
namespace {

struct Job {
  NodeId nodes, size;
  bool shared;
};

std::vector<Job> jobs() {
  std::vector<Job> all;
  for (NodeId nodes = 1; nodes <= 40; ++nodes)
    for (NodeId size = 1; size <= nodes + 1; ++size)
      for (const bool shared : {false, true}) all.push_back({nodes, size, shared});
  return all;
}

TEST(Routes, ClustersAreContiguousAndAsEqualAsCanBe) {
  for (const auto& [nodes, size, shared] : jobs()) {
    const Routes routes(nodes, size, shared);
    NodeId next = 0, least = nodes, most = 0;
    for (NodeId cluster = 0; cluster < routes.clusters(); ++cluster) {
      ASSERT_EQ(routes.first_of(cluster), next);
      least = std::min(least, routes.size_of(cluster));
      most = std::max(most, routes.size_of(cluster));
      for (NodeId node = next; node < next + routes.size_of(cluster); ++node)
        ASSERT_EQ(routes.cluster_of(node), cluster);
      next += routes.size_of(cluster);
    }
    EXPECT_EQ(next, nodes);
    EXPECT_LE(most, size);
    EXPECT_LE(most - least, 1) << nodes << " nodes by " << size;
  }
}

// The rule that the whole of clusters rests on: nobody forwards in a circle, and a forwarded
// message is not forwarded again in the target's cluster.
TEST(Routes, EveryWayEndsAtItsTargetWithinItsBound) {
  for (const auto& [nodes, size, shared] : jobs()) {
    const Routes routes(nodes, size, shared);
    for (NodeId from = 0; from < nodes; ++from)
      for (NodeId target = 0; target < nodes; ++target) {
        NodeId here = routes.from_rank(from, target);
        uint32_t servers = 1;
        for (; here != target; ++servers) {
          ASSERT_LE(servers, routes.most_servers())
              << from << " to " << target << " of " << nodes << " by " << size;
          const NodeId next = routes.from_server(here, target);
          ASSERT_NE(next, here);
          if (routes.cluster_of(here) == routes.cluster_of(target)) {
            ASSERT_EQ(next, target);
          }
          here = next;
        }
        EXPECT_LE(servers, routes.most_servers());
        // Into the own cluster the way begins at the own node's server: a link that is there.
        if (routes.cluster_of(from) == routes.cluster_of(target)) {
          EXPECT_EQ(routes.from_rank(from, target), from);
        }
      }
  }
}

TEST(Routes, AClusterSizeOfOneIsNoCluster) {
  const Routes direct(7, 1, false), shared(7, 1, true);
  EXPECT_TRUE(direct.is_direct());
  EXPECT_FALSE(direct.has_clusters());
  EXPECT_FALSE(shared.is_direct());
  EXPECT_EQ(direct.most_servers(), 1u);
  EXPECT_EQ(shared.most_servers(), 2u);
  for (NodeId target = 0; target < 7; ++target) {
    EXPECT_EQ(direct.from_rank(3, target), target);
    EXPECT_EQ(shared.from_rank(3, target), 3);
    EXPECT_EQ(shared.from_server(3, target), target);
  }
}

// A client keeps one connection for each cluster, and a server as many as its memory is planned
// for.
TEST(Routes, ConnectionsAreAsFewAsPlanned) {
  for (const auto& [nodes, size, shared] : jobs()) {
    const Routes routes(nodes, size, shared);
    const Neighbours planned = routes.most_neighbours(1);
    std::map<NodeId, std::vector<NodeId>> clients, peers;  // by server
    for (NodeId from = 0; from < nodes; ++from) {
      std::vector<NodeId> gates;
      for (NodeId target = 0; target < nodes; ++target) {
        if (target != from) gates.push_back(routes.from_rank(from, target));
        const NodeId next = routes.from_server(from, target);
        const bool in_cluster = routes.cluster_of(from) == routes.cluster_of(target);
        if (next == from || (!shared && !in_cluster)) continue;
        peers[from].push_back(next);
        peers[next].push_back(from + nodes);  // the other direction is another connection
      }
      std::sort(gates.begin(), gates.end());
      gates.erase(std::unique(gates.begin(), gates.end()), gates.end());
      EXPECT_LE(gates.size(), static_cast<size_t>(shared ? 1 : routes.clusters()));
      for (const NodeId gate : gates) clients[gate].push_back(from);
    }
    for (auto& [server, all] : peers) {
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
      EXPECT_LE(all.size(), planned.servers) << nodes << " nodes by " << size << shared;
    }
    for (const auto& [server, all] : clients) EXPECT_LE(all.size(), planned.ranks);
  }
}

// Six nodes of so many data servers, in turn, and five ranks each.
class SeveralServers {
 public:
  static constexpr NodeId nodes = 6;
  static constexpr Rank ranks = 5;  // of each node
  using End = std::pair<NodeId, uint16_t>;
  using Trunks = std::map<End,
                          std::set<std::pair<End, bool>>>;  // to whom, and whether it opened it

  explicit SeveralServers(const std::vector<size_t>& servers) {
    std::vector<NodeId> rank_node;
    std::vector<std::vector<std::vector<std::byte>>> addresses;
    for (NodeId node = 0; node < nodes; ++node) {
      rank_node.insert(rank_node.end(), ranks, node);
      addresses.emplace_back(servers[static_cast<size_t>(node) % servers.size()],
                             std::vector(1, std::byte{1}));
    }
    block_ = build_node_map(rank_node, addresses);
    EXPECT_TRUE(NodeMap::view(block_, &map).ok());
  }
  // Every rank talks to every other node: the trunks that there are by then.
  Trunks trunks(const Routes& routes) const {
    Trunks all;
    for (Rank origin = 0; origin < map.ranks(); ++origin)
      for (NodeId target = 0; target < nodes; ++target) {
        const NodeId first = routes.from_rank(map.node_of(origin), target);
        if (target == map.node_of(origin) || first == target) continue;
        ServerRef here = server_in_lane(map, first, lane_of(map, origin));
        while (here.node != target) {
          const NodeId next = routes.from_server(here.node, target);
          const ServerRef there = next == target ? server_on(map, target, origin)
                                                 : server_in_lane(map, next, here.index);
          const End one{here.node, here.index}, other{there.node, there.index};
          all[one].insert({other, true});
          all[other].insert({one, false});
          here = there;
        }
      }
    return all;
  }
  NodeMap map;

 private:
  std::vector<std::byte> block_;
};

// What a data server and a node have at most is what their memory is planned for.
TEST(Routes, SeveralServersOfANodeHaveAsFewTrunksAsPlanned) {
  for (const std::vector<size_t>& servers : std::vector<std::vector<size_t>>{
           {2}, {3}, {8}, {1, 2}, {3, 2}, {4, 2, 8}, {3, 1, 2}, {8, 7, 3}}) {
    const SeveralServers job(servers);
    const ServerCounts counts = server_counts(job.map);
    EXPECT_EQ(counts.most(), std::ranges::max(servers));
    for (NodeId size = 1; size <= SeveralServers::nodes; ++size)
      for (const bool shared : {false, true}) {
        const Routes routes(SeveralServers::nodes, size, shared);
        std::map<NodeId, uint64_t> of_node;
        for (const auto& [server, all] : job.trunks(routes)) {
          EXPECT_LE(all.size(), routes.most_neighbours(1, counts.trunks_of_one()).servers);
          of_node[server.first] += all.size();
        }
        for (const auto& [node, all] : of_node)
          EXPECT_LE(all, routes.most_neighbours(1, counts.trunks()).servers)
              << "node " << node << ", clusters of " << size << (shared ? ", shared" : "");
      }
  }
}

TEST(ServerCounts, EqualOnesNeedOneTrunkEach) {
  for (uint32_t each = 1; each <= ServerCounts::most_each; ++each) {
    EXPECT_EQ(ServerCounts(each).most(), each);
    EXPECT_EQ(ServerCounts(each).trunks(), each);
    EXPECT_EQ(ServerCounts(each).trunks_of_one(), 1u);
  }
}

// Lanes that 2 and 3 servers share out differently: each of the one needs each of the other.
TEST(ServerCounts, UnequalOnesNeedAsManyAsLanesMeet) {
  ServerCounts counts(2);
  counts.add(3);
  EXPECT_EQ(counts.most(), 3u);
  EXPECT_EQ(counts.trunks(), 9u);
  EXPECT_EQ(counts.trunks_of_one(), 3u);
  ServerCounts one(1);
  one.add(4);
  EXPECT_EQ(one.most(), 4u);
  EXPECT_EQ(one.trunks_of_one(), 4u);
  EXPECT_FALSE(one == counts);
}

// Neighbouring nodes talk to the same clusters: their messages enter there by different servers.
TEST(Routes, NeighboursHaveDifferentGates) {
  const Routes routes(100, 10, false);
  std::vector<int> load(10, 0);
  for (NodeId client = 0; client < 10; ++client) ++load[routes.gate(client, 5) - 50];
  EXPECT_EQ(load, std::vector<int>(10, 1));
}

// Nodes times clusters passes 32 bits long before this.
TEST(Routes, WorkForJobsOfAnySize) {
  const NodeId nodes = 2'000'000'000;
  const Routes routes(nodes, 44'721, true);
  EXPECT_EQ(routes.cluster_of(nodes - 1), routes.clusters() - 1);
  EXPECT_EQ(routes.first_of(routes.clusters()), nodes);
  EXPECT_LT(routes.from_server(nodes - 1, 3), 44'721);
}

}  // namespace
}  // namespace skerry::placement
