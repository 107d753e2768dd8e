#include "launcher/look/sample.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

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

// What it issued to each node.
std::vector<origin::NodeTraffic> traffic_of(const RankView& rank,
                                               const job::LocalCounters& local) {
  std::vector<origin::NodeTraffic> to(static_cast<size_t>(rank.panel.nodes));
  if (rank.panel.traffic != nullptr)
    (void)rank.process->read(reinterpret_cast<uint64_t>(rank.panel.traffic), to.data(),
                             to.size() * sizeof to.front());
  to[static_cast<size_t>(rank.panel.node)] = {local.operations, local.bytes};
  return to;
}

RankSample sample_rank(const RankView& rank) {
  RankSample out;
  out.time_ns = monotonic_ns();
  out.rank = rank.rank;
  out.node = rank.panel.node;
  out.pid = rank.process->pid();
  job::LocalCounters local;
  origin::EngineCounters engine;
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
  const Resident memory = resident(out.pid);
  out.values[own_bytes] = memory.own_bytes;
  out.values[shared_bytes] = memory.shared_bytes;
  out.wait = wait_of(rank);
  out.values[lock_waits] = out.wait && out.wait->lock ? 1 : 0;
  out.to = traffic_of(rank, local);
  return out;
}

NodeSample sample_node(const RankView& leader) {
  NodeSample out;
  out.node = leader.panel.node;
  out.time_ns = monotonic_ns();
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

void count_locks(Sample* sample) {
  std::map<Rank, uint64_t> held;
  for (const LockSample& each : sample->locks)
    if (!lock::shares(each.holders.word) && each.holders.ranks.size() == 1)
      ++held[each.holders.ranks.front()];
  for (RankSample& rank : sample->ranks) rank.values[locks_taken] = held[rank.rank];
}

}  // namespace

const RankSample* Sample::find(Rank rank) const {
  const auto found = std::ranges::lower_bound(ranks, rank, {}, &RankSample::rank);
  return found != ranks.end() && found->rank == rank ? &*found : nullptr;
}

const LockSample* Sample::find(const memory::LockName& lock) const {
  const auto found = std::ranges::find(locks, lock, &LockSample::lock);
  return found != locks.end() ? &*found : nullptr;
}

Holders Sample::holders_of(const memory::LockName& lock) const {
  if (const LockSample* const seen = find(lock); seen != nullptr) return seen->holders;
  Holders none;
  none.is_known = find(lock.rank) != nullptr;
  return none;
}

Sample take_sample(const JobView& job) {
  Sample out;
  out.job = job.name;
  out.program = job.program();
  out.all_ranks = job.all_ranks();
  out.all_nodes = job.nodes();
  out.age_ns = monotonic_ns() - job.ranks.front().panel.started_ns;
  out.locks = locks_held(job);
  for (const RankView& rank : job.ranks) {
    out.ranks.push_back(sample_rank(rank));
    if (rank.member == 0) out.nodes.push_back(sample_node(rank));
  }
  // What somebody waits for is asked for by name: locks_held knows the first of a slice.
  for (const RankSample& rank : out.ranks) {
    if (!rank.wait || !rank.wait->lock || out.find(rank.wait->lock) != nullptr) continue;
    Holders holders = holders_of(job, rank.wait->lock);
    if (holders.is_known) out.locks.push_back({rank.wait->lock, std::move(holders)});
  }
  count_locks(&out);
  return out;
}

void merge(Sample&& other, Sample* one) {
  const auto add = [](auto&& from, auto* to, auto key) {
    for (auto& each : from)
      if (std::ranges::find(*to, each.*key, key) == to->end()) to->push_back(std::move(each));
    std::ranges::sort(*to, {}, key);
  };
  for (LockSample& each : other.locks)
    if (one->find(each.lock.rank) == nullptr) one->locks.push_back(std::move(each));
  add(other.ranks, &one->ranks, &RankSample::rank);
  add(other.nodes, &one->nodes, &NodeSample::node);
  count_locks(one);  // a rank holds locks of homes on several machines
}

}  // namespace skerry::look
