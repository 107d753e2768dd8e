#include "placement/routes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

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

// Neighbouring nodes talk to the same clusters: their messages enter there by different servers.
TEST(Routes, NeighboursHaveDifferentGates) {
  const Routes routes(100, 10, false);
  std::vector<int> load(10, 0);
  for (NodeId client = 0; client < 10; ++client) ++load[routes.gate(client, 5) - 50];
  EXPECT_EQ(load, std::vector<int>(10, 1));
}

TEST(Routes, TheSquareRootIsTheClosestWholeNumber) {
  const std::vector<std::pair<NodeId, NodeId>> known = {
      {1, 1},    {2, 1},    {3, 2},    {6, 2},        {7, 3},           {100, 10},
      {110, 10}, {111, 11}, {800, 28}, {15'625, 125}, {1'000'000, 1000}};
  for (const auto& [nodes, root] : known) EXPECT_EQ(square_root_cluster(nodes), root) << nodes;
}

TEST(Routes, ABudgetIsKeptByTheSmallestClusterThatKeepsIt) {
  EXPECT_EQ(cluster_within(0, 1000, 100, 12, false), 1);
  // 99 nodes of 12 ranks, and no other servers
  EXPECT_EQ(cluster_within(99 * 12 * 1000, 1000, 100, 12, false), 1);
  EXPECT_GT(cluster_within(99 * 12 * 1000 - 1, 1000, 100, 12, false), 1);
  for (const bool shared : {false, true})
    for (uint64_t budget = 20'000; budget < 2'000'000; budget += 7'777) {
      const NodeId size = cluster_within(budget, 1000, 100, 12, shared);
      const auto bytes = [&](NodeId cluster) {
        const Neighbours all = Routes(100, cluster, shared).most_neighbours(12);
        return (all.ranks + all.servers) * 1000;
      };
      for (NodeId other = 1; other <= 100; ++other) {
        if (bytes(size) <= budget) EXPECT_TRUE(other >= size || bytes(other) > budget);
        else EXPECT_GE(bytes(other), bytes(size));
      }
    }
}

TEST(Routes, ABudgetIsSpentOnConnectionsAndPools) {
  EXPECT_EQ(spend(0, 100, 9000).socket_buffer_bytes, 0u);
  EXPECT_EQ(spend(0, 100, 9000).pool_bytes, usual_pool_bytes);
  EXPECT_EQ(spend(0, 100, 9000).sessions, 0u);
  EXPECT_EQ(spend(0, 100, 9000).passing, 0u);
  EXPECT_EQ(spend(1000, 100, 9000).sessions, least_sessions);
  for (const uint64_t connections : {1, 50, 1000, 10'000}) {
    const uint64_t bytes = uint64_t{256} << 20;
    const Budget budget = spend(bytes, connections, 9000);
    const uint64_t all = connections * (9000 + 2 * budget.socket_buffer_bytes) +
                         budget.sessions * session_bytes + budget.passing * passing_bytes +
                         2 * budget.pool_bytes;
    if (budget.socket_buffer_bytes > least_socket_buffer_bytes) {
      EXPECT_LE(all, bytes) << connections;
    }
    EXPECT_GE(budget.socket_buffer_bytes, least_socket_buffer_bytes);
  }
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
