// What all processes of a node keep in tables: the product's own tables, built for a job of that
// size and measured; what cannot be built here is computed from the sizes of the product's types.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace skerry::planner {

struct TablesOfJob {
  int32_t ranks;
  int32_t per_node = 64;  // ranks on a node, and as many processes
  uint32_t slots = 256;   // SKERRY_SLOTS
  uint64_t address = 48;  // bytes of a server's address
  int32_t talks = 100;    // nodes that each process has talked to, and whose ranks have talked to
                          // this node's server; 0: all
  int32_t nodes() const { return (ranks + per_node - 1) / per_node; }
  uint64_t processes() const { return static_cast<uint64_t>(std::min(ranks, per_node)); }
  int32_t partners() const { return talks == 0 ? nodes() : std::min(talks, nodes()); }
};

struct TableRow {
  const char* name;
  const char* why;
  bool counts;  // in the sum: what every job has, and what it talks to
  uint64_t (*bytes)(const TablesOfJob&);
};

std::span<const TableRow> table_rows();
// The sum of the rows that count.
uint64_t tables_bytes(const TablesOfJob& job);

}  // namespace skerry::planner
