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
  const auto sizes = map.all_sizes();
  ASSERT_EQ(sizes.size(), on_node.size());
  for (NodeId n = 0; n < map.nodes(); ++n) {
    EXPECT_EQ(sizes[static_cast<size_t>(n)].ranks, map.node_size(n));
    EXPECT_EQ(sizes[static_cast<size_t>(n)].leader, map.leader(n));
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

TEST(NodeMap, ManyRoundsOfCyclicPlacementAndUnequalNodes) {
  std::vector<NodeId> cyclic, blocks, uneven;
  for (int r = 0; r < 1000; ++r) cyclic.push_back(r % 37);
  for (int r = 0; r < 1000; ++r) blocks.push_back(r / 10 % 25);
  for (int n = 0; n < 40; ++n)
    uneven.insert(uneven.end(), static_cast<size_t>(1 + n % 7 * n % 3), n);
  expect_map_of(cyclic);
  expect_map_of(blocks);
  expect_map_of(uneven);
}

uint64_t bytes_of(const std::vector<NodeId>& rank_node, size_t address_bytes) {
  const auto nodes = static_cast<size_t>(rank_node.back()) + 1;
  const std::vector<std::vector<std::vector<std::byte>>> addresses(
      nodes, {std::vector<std::byte>(address_bytes)});
  const auto block = build_node_map(rank_node, addresses);
  NodeMap map;
  EXPECT_TRUE(NodeMap::view(block, &map).ok());
  return map.bytes();
}

// A node cost 300 bytes: two runs, and room for the longest address.
TEST(NodeMap, OfAMillionRanksCostsANodeItsAddress) {
  constexpr int per_node = 64, nodes = 15'625;
  constexpr size_t address = 48;  // tcp, one interface
  std::vector<NodeId> block, cyclic;
  for (int r = 0; r < per_node * nodes; ++r) block.push_back(r / per_node);
  for (int r = 0; r < per_node * nodes; ++r) cyclic.push_back(r % nodes);
  EXPECT_LE(bytes_of(block, address), nodes * address + 128);
  // Each round over the nodes is a stretch.
  EXPECT_LE(bytes_of(cyclic, address), nodes * address + 128 + per_node * 24);
  EXPECT_LE(bytes_of(block, address), nodes * uint64_t{64});
  // Nodes of different sizes: a stretch and a band for each.
  std::vector<NodeId> uneven;
  for (int n = 0; n < nodes; ++n) uneven.insert(uneven.end(), static_cast<size_t>(60 + n % 2), n);
  EXPECT_LE(bytes_of(uneven, address), nodes * uint64_t{address + 32} + 128);
}

// Addresses take what they are long, not what the longest may be.
TEST(NodeMap, KeepsAddressesOfAnyLength) {
  const auto bytes = [](size_t count) { return std::vector<std::byte>(count, std::byte{7}); };
  const auto block = build_node_map(std::vector<NodeId>{0, 1, 2},
                                    {{bytes(40)}, {bytes(0), bytes(260)}, {}});
  NodeMap map;
  ASSERT_TRUE(NodeMap::view(block, &map).ok());
  EXPECT_EQ(map.server_address({0, 0}).size(), 40u);
  EXPECT_EQ(map.servers(1), 2u);
  EXPECT_EQ(map.server_address({1, 0}).size(), 0u);
  EXPECT_EQ(map.server_address({1, 1}).size(), 260u);
  EXPECT_EQ(map.server_address({1, 1}).back(), std::byte{7});
  EXPECT_EQ(map.server_address({1, 2}).size(), 0u);
  EXPECT_EQ(map.server_address({2, 0}).size(), 0u);
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

// Every origin has one server on a node, and the servers have equal shares of a node's origins,
// whether ranks are placed in rows or in turns.
TEST(NodeMap, ServersOfANodeShareTheOrigins) {
  const std::vector<std::byte> address{std::byte{1}};
  const std::vector<NodeId> in_rows{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
  const std::vector<NodeId> in_turns{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
  for (const auto& rank_node : {in_rows, in_turns}) {
    const auto block = build_node_map(rank_node, {{address}, {address, address}});
    NodeMap map;
    ASSERT_TRUE(NodeMap::view(block, &map).ok());
    std::vector<int> origins(2);
    for (int32_t i = 0; i < 6; ++i) {
      const Rank origin = map.node_rank(0, i);
      const ServerRef server = server_of(map, map.node_rank(1, 0), origin);
      EXPECT_EQ(server.node, 1);
      ASSERT_LT(server.index, 2);
      ++origins[server.index];
      EXPECT_EQ(server_of(map, map.node_rank(1, 5), origin), server) << "whatever the target";
      EXPECT_EQ(server_of(map, origin, map.node_rank(1, i)), (ServerRef{0, 0}));
    }
    EXPECT_EQ(origins, (std::vector<int>{3, 3}));
  }
}

// With few ranks on each node, too: not all first ranks go to the first server.
TEST(NodeMap, ServersOfANodeShareTheNodesOfOneRankEach) {
  const std::vector<std::byte> address{std::byte{1}};
  const auto block = build_node_map(
      std::vector<NodeId>{0, 1, 2, 3, 4},
      {{address, address}, {address}, {address}, {address}, {address}});
  NodeMap map;
  ASSERT_TRUE(NodeMap::view(block, &map).ok());
  std::vector<int> origins(2);
  for (Rank origin = 1; origin <= 4; ++origin) ++origins[server_on(map, 0, origin).index];
  EXPECT_EQ(origins, (std::vector<int>{2, 2}));
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

}  // namespace
}  // namespace skerry::placement
