#include "launcher/look/sample.hpp"

#include <cstddef>

#include "core/futex.hpp"

namespace skerry::look {

const Value rank_value[rank_values] = {
    {"operations", true, "put, get, accumulate and read-modify-write"},
    {"bytes", true, "user data they moved"},
    {"connections", false, "open connections to data servers"},
    {"connections_broken", true, "connections lost with requests under way"},
    {"fences", true, "fences, also those inside skerry_sync"},
    {"collectives", true, "collective calls"},
    {"queued", false, "requests that await an answer"},
    {"locks_held", false, "locks held for exclusive use, of homes on this machine"},
    {"lock_waits", false, "1: it waits for a lock"},
    {"private_bytes", false, "resident memory of the process that it shares with none"},
    {"shared_bytes", false, "shared memory that the process has touched"},
};
const Value node_value[node_values] = {
    {"server_requests", true, "requests applied by the node's data servers"},
    {"server_wire_bytes", true, "bytes they gave to the fabric and took from it"},
    {"server_connections", false, "open connections of ranks"},
    {"trunks_open", false, "open connections to other nodes' data servers"},
    {"segment_bytes", false, "shared memory of the node's segments"},
};

namespace {

uint64_t count_queued(const RankView& rank, const memory::ControlLayout& layout) {
  std::vector<memory::CompletionSlot> slots(layout.slots_per_member);
  const uint64_t at = rank.control + layout.slots_offset +
                      uint64_t{rank.member} * layout.slots_per_member *
                          sizeof(memory::CompletionSlot);
  if (!rank.process->read(at, slots.data(), slots.size() * sizeof slots.front())) return 0;
  uint64_t count = 0;
  for (const memory::CompletionSlot& slot : slots)
    count += memory::CompletionSlot::state_of(slot.word.load(std::memory_order_relaxed)) ==
             memory::SlotState::waiting;
  return count;
}

RankSample sample_rank(const RankView& rank, uint64_t held) {
  RankSample out;
  out.rank = rank.rank;
  out.node = rank.panel.node;
  out.pid = rank.process->pid();
  job::LocalCounters local;
  operation::EngineCounters engine;
  // A process that ends meanwhile leaves zeros.
  (void)rank.process->read(rank.panel.local, &local);
  (void)rank.process->read(rank.panel.engine, &engine);
  out.values[operations] = local.operations + engine.remote_operations;
  out.values[bytes] = local.bytes + engine.remote_bytes;
  out.values[connections] = engine.connections_opened - engine.connections_closed;
  out.values[connections_broken] = engine.connections_broken;
  out.values[fences] = engine.fences;
  out.values[collectives] = local.collectives;
  out.values[queued] = count_queued(rank, layout_of(rank));
  out.values[locks_taken] = held;
  const Resident memory = resident(out.pid);
  out.values[own_bytes] = memory.own_bytes;
  out.values[shared_bytes] = memory.shared_bytes;
  if (const auto wait = wait_of(rank)) {
    out.waits = wait->text;
    out.waits_since_ns = wait->since_ns;
    out.values[lock_waits] = wait->lock ? 1 : 0;
  }
  return out;
}

NodeSample sample_node(const RankView& leader) {
  NodeSample out;
  out.node = leader.panel.node;
  for (uint32_t k = 0; k < std::min<uint32_t>(leader.panel.servers, Config::most_servers); ++k) {
    server::Server::Counters server;
    share::Counters share;
    if (leader.process->read(leader.panel.server[k], &server)) {
      out.values[requests] += server.requests;
      out.values[wire_bytes] += server.bytes_sent + server.bytes_received;
      out.values[clients] += server.clients;
    }
    if (leader.panel.share[k] != nullptr && leader.process->read(leader.panel.share[k], &share))
      out.values[trunks] += share.trunks;
  }
  for (const auto& [id, segment] : leader.segments) out.values[memory_bytes] += segment.bytes;
  return out;
}

}  // namespace

Sample take_sample(const JobView& job) {
  Sample out;
  out.time_ns = monotonic_ns();
  const std::map<Rank, uint64_t> held = locks_held(job);
  for (const RankView& rank : job.ranks) {
    const auto own = held.find(rank.rank);
    out.ranks.push_back(sample_rank(rank, own == held.end() ? 0 : own->second));
    if (rank.member == 0) out.nodes.push_back(sample_node(rank));
  }
  return out;
}

std::vector<Traffic> take_traffic(const JobView& job) {
  std::vector<Traffic> out;
  for (const RankView& rank : job.ranks) {
    const auto nodes = static_cast<size_t>(rank.panel.nodes);
    Traffic one{rank.rank, rank.panel.node, std::vector<operation::NodeTraffic>(nodes)};
    if (rank.panel.traffic != nullptr)
      (void)rank.process->read(reinterpret_cast<uint64_t>(rank.panel.traffic), one.to.data(),
                               nodes * sizeof one.to.front());
    job::LocalCounters local;
    if (rank.process->read(rank.panel.local, &local))
      one.to[static_cast<size_t>(one.node)] = {local.operations, local.bytes};
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace skerry::look
