#include "launcher/planner/node_memory.hpp"

#include <algorithm>

#include "launcher/planner/node_tables.hpp"

namespace skerry::planner {
namespace {

uint64_t partners(const placement::Shape& shape, uint64_t talks) {
  const auto others = static_cast<uint64_t>(shape.nodes - 1);
  return talks == 0 ? others : std::min(talks, others);
}

// Every server of the node has a limit of its own; 0: none.
uint64_t within(uint32_t limit_of_each, uint32_t servers, uint64_t wanted) {
  return limit_of_each == 0 ? wanted : std::min(uint64_t{limit_of_each} * servers, wanted);
}

}  // namespace

NodeConnections node_connections(const placement::Shape& shape, const placement::Plan& plan,
                                 uint64_t talks) {
  // As many ranks talk to this node as its ranks talk to others: p talks in all, on average.
  const uint64_t nodes = partners(shape, talks), wanted = nodes * shape.ranks_per_node;
  if (plan.routes.is_direct()) return {wanted, 0, nodes};
  const placement::Neighbours most = plan.routes.most_neighbours(shape.ranks_per_node,
                                                                 shape.all_servers.trunks());
  NodeConnections out;
  out.trunks = most.servers;
  // A rank may use a gate for one node of its cluster alone, so these are as for all nodes.
  out.of_servers = std::min(most.ranks, wanted + shape.ranks_per_node) + out.trunks;
  out.of_a_rank = std::min<uint64_t>(static_cast<uint64_t>(plan.routes.most_links()), nodes);
  return out;
}

NodeMemory node_memory(const placement::Shape& shape, const placement::Plan& plan,
                       const PieceBytes& each, uint64_t talks) {
  const NodeConnections connections = node_connections(shape, plan, talks);
  const uint64_t wanted = partners(shape, talks) * shape.ranks_per_node;
  NodeMemory m;
  m.tables = tables_bytes({.ranks = shape.nodes * static_cast<NodeId>(shape.ranks_per_node),
                           .per_node = static_cast<int32_t>(shape.ranks_per_node),
                           .talks = static_cast<int32_t>(talks)});
  m.connections = connections.of_servers * each.connection;
  m.links = connections.of_a_rank * shape.ranks_per_node * each.link;
  if (plan.routes.is_direct()) return m;
  m.sessions = within(plan.budget.sessions, shape.servers, wanted) * each.session;
  m.passing = within(plan.budget.passing, shape.servers, wanted) * each.passing;
  m.pools = 2 * shape.servers * plan.budget.pool_bytes;
  return m;
}

}  // namespace skerry::planner
