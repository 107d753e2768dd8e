#include "sim/study/study.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "connection/cap.hpp"
#include "connection/machine.hpp"
#include "core/pure/assert.hpp"
#include "sim/event_queue.hpp"
#include "sim/study/adaptive.hpp"
#include "sim/study/optimum.hpp"

namespace skerry::sim {

using connection::Action;
using connection::Cap;
using connection::Event;
using connection::Machine;
using connection::State;

std::string_view to_string(Protocol protocol) {
  switch (protocol) {
    case Protocol::overlapped: return "overlapped";
    case Protocol::waiting: return "waiting";
  }
  return "unknown";
}

namespace {

class Study {
 public:
  explicit Study(const StudyConfig& config)
      : config_(config), costs_(config.costs), servers_(config.traffic.nodes()) {
    std::vector<uint32_t> scratch(config.traffic.nodes());
    ranks_.reserve(config.traffic.ranks);
    for (uint32_t r = 0; r < config.traffic.ranks; ++r) {
      ranks_.emplace_back(config.traffic, r);
      if (config.cap != 0) limit(ranks_.back(), r, &scratch);
    }
    queue_.reserve(2 * size_t{config.traffic.ranks});
  }

  StudyResult run(const std::function<void(double)>& progress) {
    uint64_t issued = 0;
    for (uint32_t r = 0; r < ranks_.size(); ++r) go_on(r, 0);
    while (!queue_.empty()) {
      handle(queue_.pop());
      if (progress && (queue_.processed() & 0xfffff) == 0)
        progress(static_cast<double>(ended_) / static_cast<double>(ranks_.size()));
    }
    SKERRY_ASSERT(ended_ == ranks_.size(), "a simulated rank never ended");
    StudyResult result;
    result.events = queue_.processed();
    for (const Rank& rank : ranks_) issued += rank.requests;
    result.requests = issued;
    const auto spread = [&](auto&& value) {
      Spread s;
      for (const Rank& rank : ranks_) {
        const double v = value(rank);
        s.mean += v / static_cast<double>(ranks_.size());
        s.most = std::max(s.most, v);
      }
      return s;
    };
    const Spread time = spread([](const Rank& r) { return static_cast<double>(r.end) * 1e-9; });
    result.time_s = time.most;
    result.mean_time_s = time.mean;
    result.setups = spread([](const Rank& r) { return static_cast<double>(r.setups); });
    result.teardowns = spread([](const Rank& r) { return static_cast<double>(r.evicted()); });
    result.teardown_s = spread(
        [](const Rank& r) { return static_cast<double>(r.cap.counters().teardown_ns) * 1e-9; });
    result.exposed_teardown_s = spread(
        [](const Rank& r) { return static_cast<double>(r.exposed_ns) * 1e-9; });
    result.setup_s = spread(
        [](const Rank& r) { return static_cast<double>(r.cap.counters().setup_ns) * 1e-9; });
    result.connections = spread(
        [](const Rank& r) { return static_cast<double>(r.cap.counters().peak); });
    result.origin_bytes = spread([&](const Rank& r) {
      return static_cast<double>(r.cap.counters().peak * costs_.origin_connection_bytes +
                                 r.node_of.size() * costs_.origin_link_bytes +
                                 r.cap.memory_bytes() +
                                 (r.adaptive ? r.adaptive->memory_bytes() : 0));
    });
    uint64_t evictions = 0, hidden = 0;
    for (const Rank& rank : ranks_)
      evictions += rank.evicted(), hidden += rank.evicted() - std::min(rank.waited, rank.evicted());
    result.hidden_closes = evictions == 0
                               ? 1.0
                               : static_cast<double>(hidden) / static_cast<double>(evictions);
    for (const Server& server : servers_) {
      const double connections = server.most_connections;
      const double bytes = connections * static_cast<double>(costs_.server_connection_bytes) +
                           static_cast<double>(server.origins) *
                               static_cast<double>(costs_.server_session_bytes);
      const auto add = [&](Spread& s, double v) {
        s.mean += v / static_cast<double>(servers_.size()), s.most = std::max(s.most, v);
      };
      add(result.server_connections, connections);
      add(result.server_bytes, bytes);
    }
    return result;
  }

 private:
  enum class Kind : uint8_t { issue, request, reply, hello, connected, bye, bye_answer };
  struct Message {
    uint32_t rank;
    uint32_t node;
    uint32_t bytes;
    Kind kind;
    bool blocking;
  };
  struct Link {
    Link(uint32_t n, connection::Partner partner) : node(n), claim(partner) {}
    uint32_t node;
    uint32_t unacknowledged = 0;
    Machine machine;
    Cap::Claim claim;  // its address does not change
  };
  enum class Doing : uint8_t { computing, wants_place, opening, waiting_reply, ended };
  struct Rank {
    Rank(const TrafficConfig& config, uint32_t rank) : traffic(config, rank) {}
    Traffic traffic;
    std::vector<std::unique_ptr<Link>> links;  // those that are not idle, sorted by node
    Cap cap;
    std::unique_ptr<Optimum> optimum;    // the cap's policy, if it is that
    std::unique_ptr<Adaptive> adaptive;  // likewise
    Request request{};
    Doing doing = Doing::computing;
    Time busy_until = 0;  // its processor closes a connection until then
    Time wants_since = 0;
    Time end = 0;
    int64_t owed_ns = 0;  // closing that fell into computing: the computing ends that much later
    uint32_t requests = 0;
    uint32_t setups = 0;
    uint64_t waited = 0;  // set-ups that could not begin before an earlier victim had gone
    std::vector<uint32_t> partner_at;  // by node: its number as a partner, from 1; 0: none yet
    std::vector<uint32_t> node_of;     // by partner, from 0: those it talked to
    int64_t exposed_ns = 0;
    uint64_t evicted() const { return cap.counters().evicted; }
  };
  struct Server {
    Time busy_until = 0;
    uint32_t connections = 0;
    uint32_t most_connections = 0;
    uint64_t origins = 0;
  };

  // Its address does not change any more.
  void limit(Rank& rank, uint32_t r, std::vector<uint32_t>* scratch) {
    const uint32_t cap = config_.cap;
    if (config_.policy == "optimum") {
      rank.optimum = std::make_unique<Optimum>(future_of(config_.traffic, r, scratch),
                                               config_.traffic.nodes());
      rank.cap.set_limit(
          cap, [&rank](connection::Partner partner, const connection::Uses& uses, uint64_t) {
            return rank.optimum->worth(rank.node_of[partner], uses);
          });
    } else if (config_.policy == "adaptive") {
      rank.adaptive = std::make_unique<Adaptive>(cap);
      rank.cap.set_limit(
          cap, [&rank](connection::Partner partner, const connection::Uses& uses, uint64_t now) {
            return rank.adaptive->worth(partner, uses, now);
          });
    } else {
      const Status limited = rank.cap.set_limit(cap, config_.policy);
      SKERRY_ASSERT(limited.ok(), "the command has checked the policy's name");
    }
  }

  static std::vector<std::unique_ptr<Link>>::iterator place_of(Rank& rank, uint32_t node) {
    return std::lower_bound(rank.links.begin(), rank.links.end(), node,
                            [](const std::unique_ptr<Link>& l, uint32_t n) { return l->node < n; });
  }
  Link* find(Rank& rank, uint32_t node) {
    const auto at = place_of(rank, node);
    return at != rank.links.end() && (*at)->node == node ? at->get() : nullptr;
  }
  void forget(Rank& rank, uint32_t node) { rank.links.erase(place_of(rank, node)); }
  int64_t wire_ns(uint32_t bytes) const {
    return costs_.latency_ns + static_cast<int64_t>(costs_.ns_per_byte * bytes);
  }
  void send(Time at, const Message& message) { queue_.schedule(at, message); }
  // The server is one thread: what it does starts when it has done what came before.
  Time serve(Server& server, int64_t for_ns) {
    return server.busy_until = std::max(server.busy_until, queue_.now()) + for_ns;
  }

  // The rank goes on at `at` with its next request.
  void go_on(uint32_t r, Time at) {
    Rank& rank = ranks_[r];
    // A connection is still being closed when what the program waited for is there: that is seen.
    if (rank.busy_until > at) {
      rank.exposed_ns += rank.busy_until - at;
      at = rank.busy_until;
    }
    if (!rank.traffic.next(&rank.request)) {
      rank.doing = Doing::ended;
      rank.end = at;
      ++ended_;
      return;
    }
    rank.doing = Doing::computing;
    send(at + rank.request.think_ns, {r, rank.request.node, 0, Kind::issue, false});
  }

  void handle(const Message& m) {
    switch (m.kind) {
      case Kind::issue: return issue(m.rank);
      case Kind::request: {
        const Time done = serve(servers_[m.node], costs_.service_ns);
        return send(done + wire_ns(m.blocking ? m.bytes : 0),
                    {m.rank, m.node, 0, Kind::reply, m.blocking});
      }
      case Kind::reply: return on_reply(m);
      case Kind::hello: {
        Server& server = servers_[m.node];
        const Time done = serve(server, costs_.accept_ns);
        server.most_connections = std::max(server.most_connections, ++server.connections);
        const Time origin_ready = costs_.overlapped_setup
                                      ? queue_.now() - costs_.latency_ns + costs_.connect_ns
                                      : 0;
        return send(std::max(done + costs_.latency_ns, origin_ready) + costs_.ready_ns,
                    {m.rank, m.node, 0, Kind::connected, false});
      }
      case Kind::connected: return on_connected(m);
      case Kind::bye: {
        const Time done = serve(servers_[m.node], costs_.bye_service_ns);
        --servers_[m.node].connections;
        return send(done + costs_.latency_ns, {m.rank, m.node, 0, Kind::bye_answer, false});
      }
      case Kind::bye_answer: return on_bye_answer(m);
    }
  }

  void issue(uint32_t r) {
    Rank& rank = ranks_[r];
    const Time now = queue_.now();
    if (rank.owed_ns > 0) {  // closing took the processor while it computed
      const int64_t owed = std::exchange(rank.owed_ns, 0);
      rank.exposed_ns += owed;
      return send(now + owed, {r, rank.request.node, 0, Kind::issue, false});
    }
    if (rank.optimum && rank.doing == Doing::computing) rank.optimum->at(rank.requests);
    if (rank.doing == Doing::computing) ++rank.requests;
    Link* link = find(rank, rank.request.node);
    if (link != nullptr && link->machine.state() == State::open) return transmit(r, *link, now);
    if (link != nullptr &&
        link->machine.state() ==
            State::draining) {  // chosen as a victim and wanted again before its bye: keep it
      // Only if the cap has room. Otherwise it has to close and open again.
      if (!rank.cap.at_limit()) {
        rank.cap.hold(link->claim, Cap::Hold::occupied, now);
        (void)link->machine.on(Event::want, link->unacknowledged > 0);
        return transmit(r, *link, now);
      }
    }
    rank.doing = Doing::wants_place;
    rank.wants_since = now;
    take_place(r);
  }

  // Asks the product's Cap for a slot. False: none yet; it is asked again when one has left.
  bool take_slot(uint32_t r, int64_t* spent) {
    Rank& rank = ranks_[r];
    const Time now = queue_.now();
    // A rank has one thread: nobody waits for what is open when it wants another.
    const auto standing = [&](const Cap::Claim& claim) {
      const Link& link = *find(rank, rank.node_of[claim.partner]);
      return link.machine.state() == State::open ? Cap::Standing::settled : Cap::Standing::busy;
    };
    Cap::Claim* victim = nullptr;
    for (;;) {
      switch (rank.cap.ask(now, standing, &victim)) {
        case Cap::Answer::granted:
          return config_.protocol == Protocol::overlapped || rank.cap.leaving() == 0;
        case Cap::Answer::evict:
          *spent += evict(r, *find(rank, rank.node_of[victim->partner]));
          break;
        case Cap::Answer::hasten: rank.cap.denied(now); return false;
        case Cap::Answer::wait:
          SKERRY_ASSERT(false, "all connections of a rank with one thread are open then");
      }
    }
  }

  // Returns what it takes of the rank's processor.
  int64_t evict(uint32_t r, Link& link) {
    const Time now = queue_.now();
    ranks_[r].cap.hold(link.claim, Cap::Hold::leaving, now, true);
    const Action action = link.machine.on(Event::evict, link.unacknowledged > 0);
    if (action != Action::send_bye) return costs_.choose_ns;
    const int64_t spent = costs_.choose_ns + costs_.bye_ns;
    send(now + spent + costs_.latency_ns, {r, link.node, 0, Kind::bye, false});
    return spent;
  }

  // Opens the connection that the rank wants, if the cap allows it now.
  void take_place(uint32_t r) {
    Rank& rank = ranks_[r];
    const Time now = queue_.now();
    if (find(rank, rank.request.node) != nullptr) return;  // it is leaving: when it has left
    int64_t spent = 0;
    if (!take_slot(r, &spent)) return;
    if (rank.wants_since < now) ++rank.waited;
    rank.exposed_ns += now - rank.wants_since + spent;
    rank.doing = Doing::opening;
    ++rank.setups;
    const uint32_t node = rank.request.node;
    if (rank.partner_at.empty()) rank.partner_at.resize(servers_.size());
    uint32_t& partner = rank.partner_at[node];
    if (partner == 0) {
      rank.node_of.push_back(node);
      partner = static_cast<uint32_t>(rank.node_of.size());
      ++servers_[node].origins;
    }
    Link& link = **rank.links.insert(place_of(rank, node),
                                     std::make_unique<Link>(node, partner - 1));
    rank.cap.hold(link.claim, Cap::Hold::occupied, now + spent);
    (void)link.machine.on(Event::want, false);
    send(now + spent + (costs_.overlapped_setup ? 0 : costs_.connect_ns) + costs_.latency_ns,
         {r, link.node, 0, Kind::hello, false});
  }

  void on_connected(const Message& m) {
    Rank& rank = ranks_[m.rank];
    Link& link = *find(rank, m.node);
    (void)link.machine.on(Event::connected, false);
    rank.cap.connected(link.claim, queue_.now());
    transmit(m.rank, link, queue_.now());
  }

  void transmit(uint32_t r, Link& link, Time at) {
    Rank& rank = ranks_[r];
    if (rank.busy_until > at) {
      rank.exposed_ns += rank.busy_until - at;
      at = rank.busy_until;
    }
    rank.cap.used(link.claim);
    if (rank.adaptive) rank.adaptive->used(link.claim.partner);
    ++link.unacknowledged;
    at += costs_.request_ns;
    send(at + wire_ns(rank.request.blocking ? 0 : rank.request.bytes),
         {r, link.node, rank.request.bytes, Kind::request, rank.request.blocking});
    if (rank.request.blocking) rank.doing = Doing::waiting_reply;
    else go_on(r, at);
  }

  void on_reply(const Message& m) {
    Rank& rank = ranks_[m.rank];
    Link& link = *find(rank, m.node);
    --link.unacknowledged;
    if (link.machine.on(Event::drained, link.unacknowledged > 0) == Action::send_bye) {
      work(rank, costs_.bye_ns);
      send(queue_.now() + costs_.bye_ns + costs_.latency_ns, {m.rank, m.node, 0, Kind::bye, false});
    }
    if (m.blocking) go_on(m.rank, queue_.now() + costs_.reply_ns);
  }

  // The rank's processor does something for a connection that leaves. While the program waits
  // nobody sees it.
  void work(Rank& rank, int64_t for_ns) {
    if (rank.doing == Doing::computing) rank.owed_ns += for_ns;
    else if (rank.doing != Doing::ended)
      rank.busy_until = std::max(rank.busy_until, queue_.now()) + for_ns;
  }

  void on_bye_answer(const Message& m) {
    Rank& rank = ranks_[m.rank];
    Link& link = *find(rank, m.node);
    (void)link.machine.on(Event::bye_answer, false);
    rank.cap.hold(link.claim, Cap::Hold::none, queue_.now() + costs_.close_ns);
    forget(rank, m.node);
    work(rank, costs_.close_ns);
    if (rank.doing == Doing::wants_place) take_place(m.rank);
  }

  const StudyConfig& config_;
  const Costs costs_;
  EventQueue<Message> queue_;
  std::vector<Rank> ranks_;
  std::vector<Server> servers_;
  size_t ended_ = 0;
};

}  // namespace

std::vector<std::string> policies() {
  std::vector<std::string> all(Adaptive::among.begin(), Adaptive::among.end());
  all.insert(all.end(), {"adaptive", "optimum"});
  return all;
}

StudyResult run_study(const StudyConfig& config, const std::function<void(double)>& progress) {
  return Study(config).run(progress);
}

Survey survey(const TrafficConfig& config) {
  Survey s;
  std::vector<uint32_t> scratch(config.nodes());
  s.partners_least = ~0u;
  for (uint32_t r = 0; r < config.ranks; ++r) {
    const Future future = future_of(config, r, &scratch);
    s.requests += future.partner.size();
    s.partners_mean += static_cast<double>(future.distinct) / config.ranks;
    s.partners_least = std::min(s.partners_least, future.distinct);
    s.partners_most = std::max(s.partners_most, future.distinct);
  }
  return s;
}

std::vector<double> optimum(const TrafficConfig& config, const std::vector<uint32_t>& caps,
                            const std::function<void(double)>& progress) {
  std::vector<double> setups(caps.size());
  std::vector<uint32_t> scratch(config.nodes());
  for (uint32_t r = 0; r < config.ranks; ++r) {
    const Future future = future_of(config, r, &scratch);
    for (size_t c = 0; c < caps.size(); ++c)
      setups[c] += static_cast<double>(optimal_setups(future, caps[c])) / config.ranks;
    if (progress && (r & 255) == 255) progress(static_cast<double>(r) / config.ranks);
  }
  return setups;
}

}  // namespace skerry::sim
