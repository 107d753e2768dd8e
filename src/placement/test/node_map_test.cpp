#include "placement/node_map.hpp"

#include <gtest/gtest.h>

#include <random>

namespace skerry::placement {
namespace {

void expect_map_of(const std::vector<NodeId>& rank_node) {
  const auto block = build_node_map(rank_node, {});
  NodeMap map;
  ASSERT_TRUE(NodeMap::view(block, &map).ok());
  std::vector<std::vector<Rank>> on_node(static_cast<size_t>(map.nodes()));
  for (size_t r = 0; r < rank_node.size(); ++r) {
    EXPECT_EQ(map.node_of(static_cast<Rank>(r)), rank_node[r]);
    EXPECT_EQ(map.index_in_node(static_cast<Rank>(r)),
              static_cast<int32_t>(on_node[static_cast<size_t>(rank_node[r])].size()));
    on_node[static_cast<size_t>(rank_node[r])].push_back(static_cast<Rank>(r));
  }
  for (NodeId n = 0; n < map.nodes(); ++n) {
    ASSERT_EQ(map.node_size(n), static_cast<int32_t>(on_node[static_cast<size_t>(n)].size()));
    for (int32_t i = 0; i < map.node_size(n); ++i)
      EXPECT_EQ(map.node_rank(n, i), on_node[static_cast<size_t>(n)][static_cast<size_t>(i)]);
    EXPECT_EQ(map.node_rank(n, map.node_size(n)), no_rank);
  }
  EXPECT_EQ(map.node_of(-1), no_node);
  EXPECT_EQ(map.node_of(map.ranks()), no_node);
}

TEST(NodeMap, BlockCyclicAndMixedPlacements) {
  expect_map_of({0});
  expect_map_of({0, 0, 1, 1});
  expect_map_of({0, 1, 0, 1, 0});
  expect_map_of({1, 0, 0, 2, 1, 1, 0});
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<NodeId> rank_node;
    const unsigned nodes = 1 + static_cast<unsigned>(random() % 5);
    for (unsigned n = 0; n < nodes; ++n) rank_node.push_back(static_cast<NodeId>(n));
    for (unsigned long k = random() % 40; k > 0; --k)
      rank_node.push_back(static_cast<NodeId>(random() % nodes));
    expect_map_of(rank_node);
  }
}

// What a node holds per remote node under block placement is a constant, whatever the number of
// ranks.
TEST(NodeMap, BlockPlacementCostsABoundedNumberOfBytesPerNode) {
  auto bytes = [](int nodes, int per_node) {
    std::vector<NodeId> rank_node;
    std::vector<std::vector<std::vector<std::byte>>> addresses(static_cast<size_t>(nodes),
                                                               {std::vector<std::byte>(40)});
    for (int n = 0; n < nodes; ++n)
      rank_node.insert(rank_node.end(), static_cast<size_t>(per_node), n);
    return build_node_map(rank_node, addresses).size();
  };
  EXPECT_EQ(bytes(100, 4), bytes(100, 128));
  EXPECT_EQ((bytes(200, 4) - bytes(100, 4)) / 100,
            2 * sizeof(NodeMap::Run) + 8 + sizeof(NodeMap::ServerEntry));
}

TEST(NodeMap, AddressesOfSeveralServersPerNode) {
  const std::vector<std::vector<std::vector<std::byte>>> addresses{
      {{std::byte{1}}}, {{std::byte{2}}, {std::byte{3}, std::byte{4}}}};
  const auto block = build_node_map(std::vector<NodeId>{0, 1}, addresses);
  NodeMap map;
  ASSERT_TRUE(NodeMap::view(block, &map).ok());
  EXPECT_EQ(map.servers(0), 1);
  EXPECT_EQ(map.servers(1), 2);
  EXPECT_EQ(map.server_address({1, 1}).size(), 2u);
  EXPECT_TRUE(map.server_address({0, 1}).empty());
}

TEST(NodeMap, RefusesWhatIsNotAMap) {
  NodeMap map;
  EXPECT_FALSE(NodeMap::view({}, &map).ok());
  auto block = build_node_map(std::vector<NodeId>{0, 1}, {});
  block[0] ^= std::byte{1};
  EXPECT_FALSE(NodeMap::view(block, &map).ok());
  block[0] ^= std::byte{1};
  EXPECT_FALSE(NodeMap::view(std::span(block).first(block.size() - 1), &map).ok());
}

TEST(Route, IsTheTargetItself) {
  const auto block = build_node_map(std::vector<NodeId>{0, 1, 2}, {});
  NodeMap map;
  ASSERT_TRUE(NodeMap::view(block, &map).ok());
  EXPECT_EQ(route(map, 0, server_of(map, 2)), (ServerRef{2, 0}));
}

}  // namespace
}  // namespace skerry::placement
