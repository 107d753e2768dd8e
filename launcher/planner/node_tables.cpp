#include "launcher/planner/node_tables.hpp"

#include <functional>
#include <unordered_map>
#include <vector>

#include "core/pure/container_bytes.hpp"
#include "lock/home.hpp"
#include "memory/control.hpp"
#include "origin/link/link.hpp"
#include "placement/member_values.hpp"
#include "placement/members.hpp"
#include "placement/node_map.hpp"
#include "session/resting.hpp"

namespace skerry::planner {
namespace {

uint64_t node_table_bytes(const TablesOfJob& job) {
  std::vector<NodeId> rank_node(static_cast<size_t>(job.ranks));
  for (int32_t r = 0; r < job.ranks; ++r) rank_node[static_cast<size_t>(r)] = r / job.per_node;
  const std::vector<std::vector<std::vector<std::byte>>> addresses(
      static_cast<size_t>(job.nodes()), {std::vector<std::byte>(job.address)});
  return placement::build_node_map(rank_node, addresses).size();
}

memory::ControlLayout control(const TablesOfJob& job) {
  memory::ControlSizes sizes;
  sizes.members = static_cast<uint32_t>(job.processes());
  sizes.slots_per_member = job.slots;
  sizes.waiters = memory::waiters_of(static_cast<uint32_t>(job.ranks), sizes.members);
  return memory::control_layout(sizes);
}

uint64_t members_bytes(Rank first, Rank step, int32_t count) {
  placement::Sequence sequence;
  for (int32_t i = 0; i < count; ++i) sequence.add(first + step * i);
  return placement::Members(std::move(sequence)).bytes();
}

// In each process: the world, its node, the leaders of all nodes, and the ranks that have its place
// on their nodes.
uint64_t group_bytes(const TablesOfJob& job) {
  const int32_t per_node = std::min(job.ranks, job.per_node);
  return job.processes() *
         (placement::Members::all(job.ranks).bytes() + members_bytes(0, 1, per_node) +
          2 * members_bytes(0, job.per_node, job.ranks / per_node));
}

// `value(rank)`: bytes of its slice.
uint64_t segment_bytes(const TablesOfJob& job, const std::function<uint64_t(int32_t)>& value) {
  placement::MemberValues::Builder sizes(false);
  for (int32_t r = 0; r < job.ranks; ++r) sizes.add(value(r));
  return sizes.table_bytes();
}

uint64_t served_bytes(const TablesOfJob& job) {
  session::Resting known;
  const int32_t ranks = std::min(job.ranks, job.partners() * job.per_node);
  for (int32_t r = 0; r < ranks; ++r) known.put(r, {1, 1, 1});
  return known.memory_bytes();
}

uint64_t links_bytes(const TablesOfJob& job) {
  std::unordered_map<uint64_t, void*> by_server;
  for (int32_t n = 0; n < job.partners(); ++n) by_server.try_emplace(static_cast<uint64_t>(n));
  return job.processes() *
         (table_bytes(by_server) +
          static_cast<uint64_t>(job.partners()) * (sizeof(origin::Link) + 2 * sizeof(void*)));
}

// The buffers of a group's collectives: 64 KiB for a member and for each child in its tree.
uint64_t area_bytes(const TablesOfJob& job) {
  constexpr uint64_t burst = 2 * 32'768;
  return (2 * job.processes() - 1 + 2) * burst;
}

const TableRow rows[] = {
    {"node table", "the address of each node's server", true, node_table_bytes},
    {"slots, stripes, readers' lines", "of this node's ranks alone", true,
     [](const TablesOfJob& job) {
       const memory::ControlLayout layout = control(job);
       return layout.waiters_offset + layout.node_table_offset - layout.reader_lines_offset;
     }},
    {"waiters' records", "bounded; of this node's locks", true,
     [](const TablesOfJob& job) {
       const memory::ControlLayout layout = control(job);
       return layout.reader_lines_offset - layout.waiters_offset;
     }},
    {"members of four groups", "a run each, in each process", true, group_bytes},
    {"buffers of the world group", "of this node's ranks alone", true, area_bytes},
    {"a segment, equal slices", "one number", true,
     [](const TablesOfJob& job) {
       return segment_bytes(job, [](int32_t) { return uint64_t{1} << 20; });
     }},
    {"a segment, a shorter last slice", "two runs", true,
     [](const TablesOfJob& job) {
       return segment_bytes(job, [&](int32_t r) { return uint64_t{r + 1 == job.ranks ? 1u : 8u}; });
     }},
    {"servers talked to", "a link each, in each process", true, links_bytes},
    {"ranks served", "20 bytes each, when they have left", true, served_bytes},
    {"a segment, all slices different", "a run for each rank", false,
     [](const TablesOfJob& job) {
       return segment_bytes(job, [](int32_t r) { return static_cast<uint64_t>(r); });
     }},
    {"libarmci: notifications", "a counter for each sender, in each process", false,
     [](const TablesOfJob& job) { return job.processes() * 8 * static_cast<uint64_t>(job.ranks); }},
    {"a window, SKERRY_LOCK=migrating", "mail from each rank and a queue, in each slice", false,
     [](const TablesOfJob& job) {
       return job.processes() * lock::machine::Home::bytes(lock::machine::migrating(),
                                                           static_cast<uint32_t>(job.ranks));
     }},
};

}  // namespace

std::span<const TableRow> table_rows() { return rows; }

uint64_t tables_bytes(const TablesOfJob& job) {
  uint64_t sum = 0;
  for (const TableRow& row : rows)
    if (row.counts) sum += row.bytes(job);
  return sum;
}

}  // namespace skerry::planner
