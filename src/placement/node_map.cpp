#include "placement/node_map.hpp"

#include <algorithm>
#include <cstring>

#include "core/pure/assert.hpp"

namespace skerry::placement {
namespace {

constexpr uint64_t map_magic = 0x3370'616d'6564'6f6e;  // "nodemap3"

}  // namespace

Status NodeMap::view(std::span<const std::byte> block, NodeMap* map) {
  if (block.size() < sizeof(Head))
    return error(Code::invalid, "node map of ", block.size(), " bytes is shorter than its head");
  const Head& h = *reinterpret_cast<const Head*>(block.data());
  if (h.magic != map_magic) return error(Code::invalid, "this is not a node map");
  const auto fits = [&](Part part, uint64_t each) {
    return part.offset + part.count * each <= h.bytes;
  };
  if (h.ranks < 1 || h.nodes < 1 || h.bytes > block.size() || !fits(h.stretches, sizeof(Stretch)) ||
      !fits(h.server_first, 4) || !fits(h.address_first, 4) || !fits(h.addresses, 1))
    return error(Code::invalid, "node map of ", h.ranks, " ranks, ", h.nodes, " nodes and ",
                 h.bytes, " bytes does not fit its block");
  map->block_ = block.first(h.bytes);
  return {};
}

// ---- ranks ------------------------------------------------------------------------------------

const NodeMap::Stretch* NodeMap::stretch_of(Rank rank) const {
  if (rank < 0 || rank >= ranks()) return nullptr;
  return &*(std::ranges::upper_bound(stretches(), rank, {}, &Stretch::first_rank) - 1);
}

NodeId NodeMap::node_of(Rank rank) const {
  const Stretch* s = stretch_of(rank);
  return s == nullptr ? no_node : s->first_node + (rank - s->first_rank) / s->per_node;
}

int32_t NodeMap::index_in_node(Rank rank) const {
  const Stretch* s = stretch_of(rank);
  return s == nullptr ? -1 : s->first_index + (rank - s->first_rank) % s->per_node;
}

// For each stretch with ranks of the node, in order.
template <class Act>
void NodeMap::each_on(NodeId node, Act&& act) const {
  auto some = stretches();
  if (head().in_node_order != 0)
    some = {std::ranges::upper_bound(some, node, {}, &Stretch::first_node) - 1, 1};
  for (const Stretch& s : some)
    if (node >= s.first_node && node < s.first_node + s.nodes) act(s);
}

int32_t NodeMap::node_size(NodeId node) const {
  if (node < 0 || node >= nodes()) return 0;
  int32_t size = 0;
  each_on(node, [&](const Stretch& s) { size += s.per_node; });
  return size;
}

std::vector<NodeMap::Sized> NodeMap::all_sizes() const {
  std::vector<Sized> found(static_cast<size_t>(nodes()));
  for (const Stretch& s : stretches())
    for (NodeId k = 0; k < s.nodes; ++k) {
      Sized& one = found[static_cast<size_t>(s.first_node + k)];
      if (one.ranks == 0) one.leader = s.first_rank + k * s.per_node;
      one.ranks += s.per_node;
    }
  return found;
}

Rank NodeMap::node_rank(NodeId node, int32_t index) const {
  Rank found = no_rank;
  if (node < 0 || node >= nodes()) return found;
  each_on(node, [&](const Stretch& s) {
    const int32_t k = index - s.first_index;
    if (k >= 0 && k < s.per_node) found = s.first_rank + (node - s.first_node) * s.per_node + k;
  });
  return found;
}

// ---- servers ----------------------------------------------------------------------------------

uint32_t NodeMap::first_server(NodeId node) const {
  const auto n = static_cast<uint32_t>(node);
  return head().servers_each == no_equal ? all<uint32_t>(head().server_first)[n]
                                         : head().servers_each * n;
}

uint16_t NodeMap::servers(NodeId node) const {
  if (node < 0 || node >= nodes()) return 0;
  return static_cast<uint16_t>(first_server(node + 1) - first_server(node));
}

std::span<const std::byte> NodeMap::server_address(ServerRef server) const {
  if (server.index >= servers(server.node)) return {};
  const uint32_t number = first_server(server.node) + server.index;
  const auto addresses = all<std::byte>(head().addresses);
  if (const uint64_t each = head().address_bytes_each; each != no_equal)
    return addresses.subspan(number * each, each);
  const uint32_t* const first = &all<uint32_t>(head().address_first)[number];
  return addresses.subspan(first[0], first[1] - first[0]);
}

// ---- building ---------------------------------------------------------------------------------

namespace {

std::vector<NodeMap::Stretch> stretches_of(std::span<const NodeId> rank_node, NodeId nodes) {
  std::vector<int32_t> filled(static_cast<size_t>(nodes), 0);
  std::vector<NodeMap::Stretch> stretches;
  const auto ranks = static_cast<Rank>(rank_node.size());
  for (Rank first = 0, end = 0; first < ranks; first = end) {
    const NodeId node = rank_node[static_cast<size_t>(first)];
    while (end < ranks && rank_node[static_cast<size_t>(end)] == node) ++end;
    SKERRY_INVARIANT(node >= 0 && node < nodes, "each rank is on a node of the map");
    int32_t& on_node = filled[static_cast<size_t>(node)];
    NodeMap::Stretch* const last = stretches.empty() ? nullptr : &stretches.back();
    if (last != nullptr && node == last->first_node + last->nodes &&
        end - first == last->per_node && on_node == last->first_index)
      ++last->nodes;
    else stretches.push_back({first, end - first, node, 1, on_node});
    on_node += end - first;
  }
  return stretches;
}

// The distance that all neighbours have, or no_equal. `first`: where each begins, and the end.
uint32_t equal_step(std::span<const uint32_t> first) {
  const uint32_t step = first.size() < 2 ? 0 : first[1];
  for (size_t k = 1; k < first.size(); ++k)
    if (first[k] - first[k - 1] != step) return NodeMap::no_equal;
  return step;
}

}  // namespace

std::vector<std::byte> build_node_map(
    std::span<const NodeId> rank_node,
    const std::vector<std::vector<std::vector<std::byte>>>& server_addresses) {
  const NodeId nodes = 1 + *std::max_element(rank_node.begin(), rank_node.end());
  const std::vector<NodeMap::Stretch> stretches = stretches_of(rank_node, nodes);
  std::vector<uint32_t> server_first = {0}, address_first = {0};
  std::vector<std::byte> all;
  for (size_t n = 0; n < static_cast<size_t>(nodes); ++n) {
    if (n < server_addresses.size())
      for (const auto& address : server_addresses[n]) {
        all.insert(all.end(), address.begin(), address.end());
        address_first.push_back(static_cast<uint32_t>(all.size()));
      }
    server_first.push_back(static_cast<uint32_t>(address_first.size() - 1));
  }
  SKERRY_INVARIANT(server_first.size() == static_cast<size_t>(nodes) + 1 &&
                       address_first.back() == all.size(),
                   "the last entry is where the next would begin");
  std::vector<std::byte> block(sizeof(NodeMap::Head));
  const auto add = [&](const auto& values) {
    const NodeMap::Part part{static_cast<uint32_t>(block.size()),
                             static_cast<uint32_t>(values.size())};
    const auto bytes = std::as_bytes(std::span(values));
    block.resize(part.offset + bytes.size());
    if (!bytes.empty()) std::memcpy(block.data() + part.offset, bytes.data(), bytes.size());
    return part;
  };
  NodeMap::Head head{};
  head.magic = map_magic;
  head.ranks = static_cast<int32_t>(rank_node.size());
  head.nodes = nodes;
  head.servers_each = equal_step(server_first);
  head.address_bytes_each = equal_step(address_first);
  head.stretches = add(stretches);
  const auto overlap = [](const NodeMap::Stretch& a, const NodeMap::Stretch& b) {
    return b.first_node < a.first_node + a.nodes;
  };
  head.in_node_order = std::ranges::adjacent_find(stretches, overlap) == stretches.end() ? 1 : 0;
  if (head.servers_each == NodeMap::no_equal) head.server_first = add(server_first);
  if (head.address_bytes_each == NodeMap::no_equal) head.address_first = add(address_first);
  head.addresses = add(all);
  head.bytes = block.size();
  std::memcpy(block.data(), &head, sizeof head);
  return block;
}

ServerCounts server_counts(const NodeMap& map) {
  ServerCounts counts(map.servers(0));
  for (NodeId node = 1; node < map.nodes(); ++node) counts.add(map.servers(node));
  return counts;
}

}  // namespace skerry::placement
