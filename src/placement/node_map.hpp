// Where ranks and data servers are: a read-only view on one block of bytes that exists once per
// node (in its control segment). Pure.
//
// Ranks are kept as *stretches*: consecutive ranks on consecutive nodes, equally many on each.
// Block placement is one stretch, however many ranks and nodes there are; cyclic placement is one
// for each round over the nodes. So a node costs the bytes of its server's address, and nothing
// else, unless nodes or addresses differ in size.
//
//   | Head | Stretch stretches[]: in order of ranks
//   | uint32 server_first[nodes + 1] | uint32 address_first[servers + 1] | addresses |
//
// server_first is there only if nodes have different numbers of servers, address_first only if
// addresses have different lengths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "placement/routes.hpp"

namespace skerry::placement {

// A data server: (node, index). A node has one or several, all in its leader's process.
struct ServerRef {
  NodeId node = no_node;
  uint16_t index = 0;
  friend constexpr bool operator==(const ServerRef&, const ServerRef&) = default;
};

class NodeMap {
 public:
  NodeMap() = default;
  // Errors: invalid (the block is not what build made).
  static Status view(std::span<const std::byte> block, NodeMap* map);

  int32_t ranks() const { return head().ranks; }
  int32_t nodes() const { return head().nodes; }
  uint64_t bytes() const { return head().bytes; }  // of the block; it exists once per node
  // no_node if the rank does not exist.
  NodeId node_of(Rank rank) const;
  int32_t node_size(NodeId node) const;              // 0 if there is no such node
  Rank node_rank(NodeId node, int32_t index) const;  // ascending; no_rank if out of range
  int32_t index_in_node(Rank rank) const;            // -1 if there is no such rank
  Rank leader(NodeId node) const { return node_rank(node, 0); }
  // Of all nodes in one walk: where ranks were placed one by one, each node_size walks all of them.
  struct Sized {
    Rank leader = no_rank;
    int32_t ranks = 0;
  };
  std::vector<Sized> all_sizes() const;
  uint16_t servers(NodeId node) const;
  std::span<const std::byte> server_address(ServerRef server) const;

  struct Part {  // an array in the block
    uint32_t offset;
    uint32_t count;
  };
  struct Head {
    uint64_t magic;
    int32_t ranks;
    int32_t nodes;
    uint32_t servers_each;        // of every node; no_equal: see server_first
    uint32_t address_bytes_each;  // of every server; no_equal: see address_first
    Part stretches, server_first, address_first, addresses;
    uint32_t in_node_order;  // 1: the stretches are, and each node is in one
    uint32_t reserved;       // 0
    uint64_t bytes;          // of the whole block
  };
  static constexpr uint32_t no_equal = UINT32_MAX;
  struct Stretch {
    Rank first_rank;
    int32_t per_node;  // ranks on each of its nodes
    NodeId first_node;
    int32_t nodes;
    int32_t first_index;  // of the first rank of each node within the node
  };

 private:
  const Head& head() const { return *reinterpret_cast<const Head*>(block_.data()); }
  template <class T>
  std::span<const T> all(Part part) const {
    return {reinterpret_cast<const T*>(block_.data() + part.offset), part.count};
  }
  std::span<const Stretch> stretches() const { return all<Stretch>(head().stretches); }
  template <class Act>
  void each_on(NodeId node, Act&& act) const;
  uint32_t first_server(NodeId node) const;  // `node` may be the number of nodes
  const Stretch* stretch_of(Rank rank) const;

  std::span<const std::byte> block_;
};

// Addresses of servers whose nodes came after the map was made, for which it has none. Null: it has
// all.
using LateAddress = std::function<std::span<const std::byte>(ServerRef)>;
// Empty: the server does not exist, or its node has not come yet.
inline std::span<const std::byte> address_of(const NodeMap& map, const LateAddress& late,
                                             ServerRef server) {
  const auto known = map.server_address(server);
  return known.empty() && late ? late(server) : known;
}

// rank_node[r]: node of rank r, 0..nodes-1, each used; server_addresses[n][i]: of server i of node
// n (may be empty for now).
std::vector<std::byte> build_node_map(
    std::span<const NodeId> rank_node,
    const std::vector<std::vector<std::vector<std::byte>>>& server_addresses);

ServerCounts server_counts(const NodeMap& map);
// Server i of a node serves lane i, and what it passes on stays there. Lanes meet at nodes with
// fewer servers. Index 0 if there is no such node.
inline ServerRef server_in_lane(const NodeMap& map, NodeId node, uint32_t lane) {
  const uint32_t servers = map.servers(node);
  return {node, static_cast<uint16_t>(servers > 1 ? lane % servers : 0)};
}
// The ranks of a node are in different lanes, however ranks are placed, and those of the next node
// begin with another one.
inline uint32_t lane_of(const NodeMap& map, Rank origin) {
  return static_cast<uint32_t>(map.index_in_node(origin) + map.node_of(origin));
}
// Which of the servers of `node` applies requests of `origin`: always the same one, so that its
// requests to the node are one session, in order.
inline ServerRef server_on(const NodeMap& map, NodeId node, Rank origin) {
  return map.servers(node) <= 1 ? ServerRef{node, 0}
                                : server_in_lane(map, node, lane_of(map, origin));
}
// Which server applies requests of `origin` for `rank`: its target server. The way there:
// routes.hpp.
inline ServerRef server_of(const NodeMap& map, Rank rank, Rank origin) {
  return server_on(map, map.node_of(rank), origin);
}

}  // namespace skerry::placement
