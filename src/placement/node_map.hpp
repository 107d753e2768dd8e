// Where ranks and data servers are: a read-only view on one block of bytes that exists once per
// node (in its control segment). Pure.
//
// Ranks are kept as runs of consecutive ranks on one node, so that the usual block placement costs
// one run per node however many ranks there are; a cyclic placement costs one per rank.
//
//   | Head | Run runs[run_count] | uint32 node_first[nodes + 1] | Run by_node[run_count]
//   | uint32 server_first[nodes + 1] | ServerEntry servers[] |
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::placement {

// A data server: (node, index). Any rank may host one, and a node several; today index is always 0
// and the host the node's leader.
struct ServerRef {
  NodeId node = no_node;
  uint16_t index = 0;
  friend constexpr bool operator==(const ServerRef&, const ServerRef&) = default;
};

enum class Where : uint8_t { mine, same_node, remote };

constexpr uint32_t max_address_bytes = 256;

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
  uint16_t servers(NodeId node) const;
  std::span<const std::byte> server_address(ServerRef server) const;

  Where where(Rank mine, Rank target) const {
    if (mine == target) return Where::mine;
    return node_of(mine) == node_of(target) ? Where::same_node : Where::remote;
  }

  struct Head {
    uint64_t magic;
    int32_t ranks;
    int32_t nodes;
    uint32_t run_count;
    uint32_t server_count;
    uint64_t bytes;  // of the whole block
  };
  struct Run {
    int32_t first_rank;
    int32_t count;
    NodeId node;
    int32_t first_index;  // of first_rank within its node
  };
  struct ServerEntry {
    uint32_t bytes;
    std::byte address[max_address_bytes];
  };

 private:
  const Head& head() const { return *reinterpret_cast<const Head*>(block_.data()); }
  std::span<const Run> runs() const;
  std::span<const uint32_t> node_first() const;
  std::span<const Run> by_node() const;
  std::span<const uint32_t> server_first() const;
  const Run* run_of(Rank rank) const;

  std::span<const std::byte> block_;
};

// rank_node[r]: node of rank r, 0..nodes-1, each used; server_addresses[n][i]: of server i of node
// n (may be empty for now).
std::vector<std::byte> build_node_map(
    std::span<const NodeId> rank_node,
    const std::vector<std::vector<std::vector<std::byte>>>& server_addresses);

// Which server serves requests for `rank` (its target server), and which one a request from `from`
// goes to next on its way there. Today the target itself; cooperative clusters of servers change
// this function and nothing else.
ServerRef server_of(const NodeMap& map, Rank rank);
ServerRef route(const NodeMap& map, NodeId from, ServerRef target);

}  // namespace skerry::placement
