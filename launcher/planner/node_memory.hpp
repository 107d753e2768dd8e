// What a node of a job keeps in memory, planned: the product's tables, routes and budget.
#pragma once

#include <cstdint>

#include "placement/plan.hpp"

namespace skerry::planner {

// What one of each takes, in bytes.
struct PieceBytes {
  uint64_t connection = 6144;                   // at a server, with what the kernel takes: tcp
  uint64_t link = 6144;                         // the same, at a rank
  uint64_t session = placement::session_bytes;  // at the target, of a rank that comes through
                                                // another server
  uint64_t passing = placement::passing_bytes;  // at a gate, of a channel
};

// In bytes, with every limit used to the full.
struct NodeMemory {
  uint64_t tables = 0;       // of its processes (skerry-sim memory)
  uint64_t connections = 0;  // of its servers
  uint64_t links = 0;        // of its ranks
  uint64_t sessions = 0;     // of ranks that come through other servers
  uint64_t passing = 0;      // channels that its servers pass on
  uint64_t pools = 0;        // all of them, full; 0: routes are direct
  uint64_t of_servers() const { return connections + sessions + passing + pools; }
  uint64_t all() const { return of_servers() + links + tables; }
};

// Ends of connections on a node, at most.
struct NodeConnections {
  uint64_t of_servers = 0;  // of all its data servers
  uint64_t trunks = 0;      // of these, with other servers
  uint64_t of_a_rank = 0;
};

// `talks`: nodes that each rank talks to, and so the number of nodes, on average, that talk to
// each; 0: all.
NodeConnections node_connections(const placement::Shape& shape, const placement::Plan& plan,
                                 uint64_t talks);
NodeMemory node_memory(const placement::Shape& shape, const placement::Plan& plan,
                       const PieceBytes& each, uint64_t talks);

}  // namespace skerry::planner
