#include "placement/node_map.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::placement {
namespace {

constexpr uint64_t map_magic = 0x7061'6d65'646f'6e73;  // "snodemap"

template <class T>
std::span<const T> part(std::span<const std::byte> block, uint64_t offset, uint64_t count) {
  return {reinterpret_cast<const T*>(block.data() + offset), count};
}

uint64_t runs_offset() { return sizeof(NodeMap::Head); }
uint64_t node_first_offset(const NodeMap::Head& h) {
  return runs_offset() + h.run_count * sizeof(NodeMap::Run);
}
uint64_t by_node_offset(const NodeMap::Head& h) {
  return node_first_offset(h) + (static_cast<uint64_t>(h.nodes) + 1) * 4;
}
uint64_t server_first_offset(const NodeMap::Head& h) {
  return by_node_offset(h) + h.run_count * sizeof(NodeMap::Run);
}
uint64_t servers_offset(const NodeMap::Head& h) {
  return server_first_offset(h) + (static_cast<uint64_t>(h.nodes) + 1) * 4;
}
uint64_t end_offset(const NodeMap::Head& h) {
  return servers_offset(h) + h.server_count * sizeof(NodeMap::ServerEntry);
}

}  // namespace

std::span<const NodeMap::Run> NodeMap::runs() const {
  return part<Run>(block_, runs_offset(), head().run_count);
}
std::span<const uint32_t> NodeMap::node_first() const {
  return part<uint32_t>(block_, node_first_offset(head()), static_cast<uint64_t>(head().nodes) + 1);
}
std::span<const NodeMap::Run> NodeMap::by_node() const {
  return part<Run>(block_, by_node_offset(head()), head().run_count);
}
std::span<const uint32_t> NodeMap::server_first() const {
  return part<uint32_t>(block_, server_first_offset(head()),
                        static_cast<uint64_t>(head().nodes) + 1);
}

Status NodeMap::view(std::span<const std::byte> block, NodeMap* map) {
  if (block.size() < sizeof(Head))
    return error(Code::invalid, "node map of ", block.size(), " bytes is shorter than its head");
  const Head& h = *reinterpret_cast<const Head*>(block.data());
  if (h.magic != map_magic) return error(Code::invalid, "this is not a node map");
  if (h.ranks < 1 || h.nodes < 1 || h.bytes > block.size() || end_offset(h) != h.bytes)
    return error(Code::invalid, "node map of ", h.ranks, " ranks, ", h.nodes, " nodes and ",
                 h.bytes, " bytes does not fit its block");
  map->block_ = block.first(h.bytes);
  return {};
}

const NodeMap::Run* NodeMap::run_of(Rank rank) const {
  if (rank < 0 || rank >= ranks()) return nullptr;
  const auto all = runs();
  auto after = std::upper_bound(all.begin(), all.end(), rank,
                                [](Rank r, const Run& run) { return r < run.first_rank; });
  return &*(after - 1);
}

NodeId NodeMap::node_of(Rank rank) const {
  const Run* run = run_of(rank);
  return run == nullptr ? no_node : run->node;
}

int32_t NodeMap::index_in_node(Rank rank) const {
  const Run* run = run_of(rank);
  return run == nullptr ? -1 : run->first_index + (rank - run->first_rank);
}

int32_t NodeMap::node_size(NodeId node) const {
  if (node < 0 || node >= nodes()) return 0;
  const uint32_t last = node_first()[static_cast<size_t>(node) + 1];
  const Run& run = by_node()[last - 1];
  return run.first_index + run.count;
}

Rank NodeMap::node_rank(NodeId node, int32_t index) const {
  if (index < 0 || index >= node_size(node)) return no_rank;
  const auto mine = by_node().subspan(
      node_first()[static_cast<size_t>(node)],
      node_first()[static_cast<size_t>(node) + 1] - node_first()[static_cast<size_t>(node)]);
  auto after = std::upper_bound(mine.begin(), mine.end(), index,
                                [](int32_t i, const Run& run) { return i < run.first_index; });
  const Run& run = *(after - 1);
  return run.first_rank + (index - run.first_index);
}

uint16_t NodeMap::servers(NodeId node) const {
  if (node < 0 || node >= nodes()) return 0;
  return static_cast<uint16_t>(server_first()[static_cast<size_t>(node) + 1] -
                               server_first()[static_cast<size_t>(node)]);
}

std::span<const std::byte> NodeMap::server_address(ServerRef server) const {
  if (server.index >= servers(server.node)) return {};
  const auto entries = part<ServerEntry>(block_, servers_offset(head()), head().server_count);
  const ServerEntry&
      entry = entries[server_first()[static_cast<size_t>(server.node)] + server.index];
  return {entry.address, std::min<size_t>(entry.bytes, max_address_bytes)};
}

std::vector<std::byte> build_node_map(
    std::span<const NodeId> rank_node,
    const std::vector<std::vector<std::vector<std::byte>>>& server_addresses) {
  const int32_t ranks = static_cast<int32_t>(rank_node.size());
  const int32_t nodes = 1 + *std::max_element(rank_node.begin(), rank_node.end());
  std::vector<int32_t> filled(static_cast<size_t>(nodes), 0);
  std::vector<NodeMap::Run> runs;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const NodeId node = rank_node[static_cast<size_t>(rank)];
    if (runs.empty() || runs.back().node != node)
      runs.push_back({rank, 0, node, filled[static_cast<size_t>(node)]});
    ++runs.back().count;
    ++filled[static_cast<size_t>(node)];
  }
  std::vector<NodeMap::Run> by_node = runs;
  std::stable_sort(by_node.begin(), by_node.end(),
                   [](const auto& a, const auto& b) { return a.node < b.node; });
  std::vector<uint32_t> node_first(static_cast<size_t>(nodes) + 1, 0),
      server_first(static_cast<size_t>(nodes) + 1, 0);
  for (const auto& run : by_node) ++node_first[static_cast<size_t>(run.node) + 1];
  std::vector<NodeMap::ServerEntry> servers;
  for (int32_t n = 0; n < nodes; ++n) {
    const auto k = static_cast<size_t>(n);
    node_first[k + 1] += node_first[k];
    if (k < server_addresses.size())
      for (const auto& address : server_addresses[k]) {
        NodeMap::ServerEntry entry{};
        entry.bytes = static_cast<uint32_t>(std::min<size_t>(address.size(), max_address_bytes));
        std::copy_n(address.begin(), entry.bytes, entry.address);
        servers.push_back(entry);
      }
    server_first[k + 1] = static_cast<uint32_t>(servers.size());
  }
  NodeMap::Head head{map_magic,
                     ranks,
                     nodes,
                     static_cast<uint32_t>(runs.size()),
                     static_cast<uint32_t>(servers.size()),
                     0};
  head.bytes = end_offset(head);
  std::vector<std::byte> block(head.bytes);
  auto write = [&](uint64_t offset, const void* from, uint64_t bytes) {
    if (bytes > 0) std::memcpy(block.data() + offset, from, bytes);
  };
  write(0, &head, sizeof head);
  write(runs_offset(), runs.data(), runs.size() * sizeof runs[0]);
  write(node_first_offset(head), node_first.data(), node_first.size() * 4);
  write(by_node_offset(head), by_node.data(), by_node.size() * sizeof by_node[0]);
  write(server_first_offset(head), server_first.data(), server_first.size() * 4);
  write(servers_offset(head), servers.data(), servers.size() * sizeof(NodeMap::ServerEntry));
  return block;
}

ServerRef server_of(const NodeMap& map, Rank rank) { return {map.node_of(rank), 0}; }

ServerRef route(const NodeMap& map, NodeId from, ServerRef target) {
  (void)map;
  (void)from;
  return target;
}

}  // namespace skerry::placement
