#include "sim/study/routes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <unordered_map>

#include "core/pure/assert.hpp"
#include "sim/event_queue.hpp"
#include "sim/random.hpp"

namespace skerry::sim {
namespace {

constexpr uint32_t most_servers = 3;

// The servers that a message of a rank of `from` passes to reach `target`, which is the last.
uint32_t way_of(const placement::Routes& routes, NodeId from, NodeId target,
                std::array<NodeId, most_servers>* way) {
  uint32_t count = 0;
  for (NodeId here = routes.from_rank(from, target);; here = routes.from_server(here, target)) {
    SKERRY_ASSERT(count < most_servers, "no route passes more servers");
    (*way)[count++] = here;
    if (here == target) return count;
  }
}

// In placement::lane_of's way: the servers of this number serve the rank on all nodes.
uint32_t lane_of(const RouteStudyConfig& c, uint32_t rank) {
  return (rank % c.per_node + rank / c.per_node) % c.servers;
}
size_t server_at(const RouteStudyConfig& c, NodeId node, uint32_t lane) {
  return static_cast<size_t>(node) * c.servers + lane;
}

// Of one server: which ranks are connected, and when each was heard of.
class Sessions {
 public:
  // False: it had none, and has one now; of too many the one heard of longest ago has none any
  // more.
  bool use(uint32_t rank, uint32_t limit) {
    const auto [at, is_new] = stamp_.try_emplace(rank, 0);
    at->second = ++stamps_;
    if (limit == 0) return !is_new;
    line_.emplace_back(rank, stamps_);
    while (stamp_.size() > limit) {
      const auto [oldest, stamp] = line_.front();
      line_.pop_front();
      if (const auto found = stamp_.find(oldest); found != stamp_.end() && found->second == stamp)
        stamp_.erase(found);
    }
    return !is_new;
  }

 private:
  std::unordered_map<uint32_t, uint64_t> stamp_;    // newest of each
  std::deque<std::pair<uint32_t, uint64_t>> line_;  // oldest first; stamps that are not the
                                                    // newest of their rank do not count
  uint64_t stamps_ = 0;
};

class RouteStudy {
 public:
  explicit RouteStudy(const RouteStudyConfig& config)
      : c_(config),
        routes_(config.nodes, config.cluster, config.shared),
        random_(config.seed),
        ranks_(static_cast<size_t>(config.nodes) * config.per_node),
        servers_(server_at(config, config.nodes, 0)) {
    latencies_.reserve(ranks_.size() * c_.requests);
    queue_.reserve(ranks_.size() + 1);
    for (Rank& rank : ranks_) rank.left = c_.requests;
  }

  RouteStudyResult run() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) think(rank);
    while (!queue_.empty()) step(queue_.pop());
    return result();
  }

 private:
  // Where a rank's request is. Each rank has one at a time.
  enum class Stage : uint8_t { think, there, back };
  struct Rank {
    Time began = 0;
    std::array<NodeId, most_servers> way{};
    uint8_t servers = 0;  // on the way
    uint8_t at = 0;       // there, back: the server of these that has it, or gets it next
    Stage stage = Stage::think;
    bool opens = false;  // it travels for the session, not yet for the request
    uint32_t left = 0;   // requests
  };
  struct ServerState {
    Time free_at = 0;
    Time busy_ns = 0;
    uint64_t forwarded = 0;
    Sessions sessions;
  };

  ServerState& server_of(uint32_t rank, NodeId node) {
    return servers_[server_at(c_, node, lane_of(c_, rank))];
  }
  NodeId node_of(uint32_t rank) const { return static_cast<NodeId>(rank / c_.per_node); }
  int64_t pause_ns() {
    if (c_.think_ns == 0) return 0;
    return static_cast<int64_t>(-std::log(1 - random_.uniform()) *
                                static_cast<double>(c_.think_ns));
  }
  void think(uint32_t rank) {
    ranks_[rank].stage = Stage::think;
    if (ranks_[rank].left != 0) queue_.schedule(queue_.now() + pause_ns(), rank);
  }
  // One thing at a time, in the order of arrival. Returns when it is done.
  Time occupy(ServerState& server, int64_t cost_ns) {
    server.free_at = std::max(server.free_at, queue_.now()) + cost_ns;
    server.busy_ns += cost_ns;
    return server.free_at;
  }

  void step(uint32_t rank) {
    Rank& r = ranks_[rank];
    switch (r.stage) {
      case Stage::think: return begin(rank);
      case Stage::there: return r.at + 1 == r.servers ? serve(rank) : pass(rank, 1);
      case Stage::back: return r.at == 0 ? arrive(rank) : (--r.at, pass(rank, 0));
    }
  }

  void begin(uint32_t rank) {
    Rank& r = ranks_[rank];
    const NodeId from = node_of(rank);
    r.began = queue_.now();
    --r.left;
    if (c_.traffic != RouteTraffic::uniform && from == 0) return begin_at_home(rank);
    NodeId target = 0;
    if (c_.traffic == RouteTraffic::uniform) {
      target = static_cast<NodeId>(random_.below(static_cast<uint32_t>(c_.nodes - 1)));
      if (target >= from) ++target;
    }
    r.servers = static_cast<uint8_t>(way_of(routes_, from, target, &r.way));
    r.opens = c_.traffic != RouteTraffic::uniform &&
              !server_of(rank, target).sessions.use(rank, c_.sessions);
    if (r.opens) ++opened_;
    depart(rank);
  }
  // A rank of node 0 shares its memory. `server`: it has nothing to do with it.
  void begin_at_home(uint32_t rank) {
    if (c_.traffic == RouteTraffic::server) {
      ranks_[rank].left = 0;
      return;
    }
    word_free_at_ = std::max(word_free_at_, queue_.now()) + c_.atomic_ns;
    ranks_[rank].stage = Stage::back;
    ranks_[rank].at = 0;
    ranks_[rank].opens = false;
    queue_.schedule(word_free_at_, rank);
  }
  void depart(uint32_t rank) {
    ranks_[rank].stage = Stage::there;
    ranks_[rank].at = 0;
    queue_.schedule(queue_.now() + c_.wire_ns, rank);
  }
  // A server on the way passes it on: to the next one, or back to the one before.
  void pass(uint32_t rank, uint8_t further) {
    Rank& r = ranks_[rank];
    ServerState& server = server_of(rank, r.way[r.at]);
    if (further != 0 && !r.opens) ++server.forwarded;
    r.at = static_cast<uint8_t>(r.at + further);
    queue_.schedule(occupy(server, c_.forward_ns) + c_.wire_ns, rank);
  }
  void serve(uint32_t rank) {
    Rank& r = ranks_[rank];
    ServerState& server = server_of(rank, r.way[r.at]);
    r.stage = Stage::back;
    queue_.schedule(occupy(server, r.opens ? c_.open_ns : c_.service_ns) + c_.wire_ns, rank);
  }
  void arrive(uint32_t rank) {
    Rank& r = ranks_[rank];
    if (r.opens) {
      r.opens = false;
      return depart(rank);
    }
    latencies_.push_back(queue_.now() - r.began);
    think(rank);
  }

  RouteStudyResult result() {
    RouteStudyResult out;
    out.events = queue_.processed();
    out.opened = opened_;
    if (latencies_.empty()) return out;
    std::sort(latencies_.begin(), latencies_.end());
    double sum = 0;
    for (const int64_t ns : latencies_) sum += static_cast<double>(ns);
    const size_t n = latencies_.size();
    out.mean_us = sum / static_cast<double>(n) / 1e3;
    out.median_us = static_cast<double>(latencies_[(n - 1) / 2]) / 1e3;
    out.p99_us = static_cast<double>(latencies_[(n - 1) * 99 / 100]) / 1e3;
    out.longest_us = static_cast<double>(latencies_.back()) / 1e3;
    const auto end = static_cast<double>(std::max<Time>(queue_.now(), 1));
    out.per_second = static_cast<double>(n) / end * 1e9;
    Time busiest_ns = 0;
    for (size_t i = 0; i < servers_.size(); ++i) {
      out.forwarded_most = std::max(out.forwarded_most, servers_[i].forwarded);
      out.forwarded_mean += static_cast<double>(servers_[i].forwarded);
      if (servers_[i].busy_ns <= busiest_ns) continue;
      busiest_ns = servers_[i].busy_ns;
      out.busiest = static_cast<NodeId>(i / c_.servers);
    }
    out.forwarded_mean /= static_cast<double>(servers_.size());
    out.busiest_share = static_cast<double>(busiest_ns) / end;
    return out;
  }

  const RouteStudyConfig c_;
  const placement::Routes routes_;
  Random random_;
  std::vector<Rank> ranks_;
  std::vector<ServerState> servers_;
  EventQueue<uint32_t> queue_;
  std::vector<int64_t> latencies_;
  Time word_free_at_ = 0;  // counter: the word, for the ranks of node 0
  uint64_t opened_ = 0;
};

}  // namespace

std::string_view to_string(RouteTraffic traffic) {
  switch (traffic) {
    case RouteTraffic::uniform: return "uniform";
    case RouteTraffic::server: return "server";
    case RouteTraffic::counter: return "counter";
  }
  return "unknown";
}

// A node's messages to one cluster leave through one gate, so a job of N nodes in C clusters takes
// N C steps, and the way within a cluster is looked at for its first member and its gate.
ForwardingLoad forwarding_load(const RouteStudyConfig& config) {
  const placement::Routes routes(config.nodes, config.cluster, config.shared);
  std::vector<uint64_t> load(server_at(config, config.nodes, 0), 0);
  ForwardingLoad out;
  uint64_t messages = 0, connections = 0;
  std::array<NodeId, most_servers> way{};
  std::vector<uint64_t> ranks_in(config.servers);  // of the node that sends, by lane
  const auto count = [&](NodeId from, NodeId target, uint64_t of_each_rank) {
    const uint32_t servers = way_of(routes, from, target, &way);
    for (uint32_t i = 0; i + 1 < servers; ++i)
      for (uint32_t lane = 0; lane < config.servers; ++lane)
        load[server_at(config, way[i], lane)] += of_each_rank * ranks_in[lane];
    out.most_connections = std::max(out.most_connections, servers);
    messages += of_each_rank * config.per_node;
    connections += of_each_rank * config.per_node * servers;
  };
  for (NodeId from = 0; from < config.nodes; ++from) {
    std::fill(ranks_in.begin(), ranks_in.end(), 0);
    const uint32_t lowest = static_cast<uint32_t>(from) * config.per_node;
    for (uint32_t i = 0; i < config.per_node; ++i) ++ranks_in[lane_of(config, lowest + i)];
    for (NodeId cluster = 0; cluster < routes.clusters(); ++cluster) {
      const NodeId first = routes.first_of(cluster), size = routes.size_of(cluster);
      const NodeId gate = routes.gate(from, cluster);
      if (gate != from) count(from, gate, 1);
      // All others of the cluster are reached alike.
      const NodeId other = gate == first ? first + 1 : first;
      if (size > 1) count(from, other, static_cast<uint64_t>(size - 1));
    }
  }
  for (size_t i = 0; i < load.size(); ++i) {
    out.mean += static_cast<double>(load[i]);
    if (load[i] <= out.most) continue;
    out.most = load[i];
    out.most_at = static_cast<NodeId>(i / config.servers);
  }
  out.mean /= static_cast<double>(load.size());
  if (messages != 0)
    out.mean_connections = static_cast<double>(connections) / static_cast<double>(messages);
  return out;
}

RouteStudyResult run_route_study(const RouteStudyConfig& config) {
  SKERRY_ASSERT(
      config.nodes > 1 && config.per_node > 0 && config.servers > 0 && config.requests > 0,
      "a job of one node has no routes");
  return RouteStudy(config).run();
}

}  // namespace skerry::sim
