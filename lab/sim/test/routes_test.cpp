// The study of routes against what can be counted by hand.
#include "sim/study/routes.hpp"

#include <gtest/gtest.h>

#include <map>

namespace skerry::sim {
namespace {

// Every message of every rank, server by server.
ForwardingLoad by_hand(const RouteStudyConfig& c) {
  const placement::Routes routes(c.nodes, c.cluster, c.shared);
  std::map<std::pair<NodeId, uint32_t>, uint64_t> load;  // by node and server
  ForwardingLoad out;
  uint64_t messages = 0, connections = 0;
  for (NodeId from = 0; from < c.nodes; ++from)
    for (NodeId to = 0; to < c.nodes; ++to) {
      if (from == to) continue;
      uint32_t crossed = 1;
      for (NodeId here = routes.from_rank(from, to); here != to;
           here = routes.from_server(here, to)) {
        for (uint32_t place = 0; place < c.per_node; ++place)
          ++load[{here, (place + static_cast<uint32_t>(from)) % c.servers}];
        ++crossed;
      }
      out.most_connections = std::max(out.most_connections, crossed);
      messages += c.per_node;
      connections += uint64_t{crossed} * c.per_node;
    }
  for (const auto& [server, n] : load) {
    out.mean += static_cast<double>(n) / (static_cast<double>(c.nodes) * c.servers);
    out.most = std::max(out.most, n);
  }
  out.mean_connections = static_cast<double>(connections) / static_cast<double>(messages);
  return out;
}

TEST(RouteStudy, CountsWhatEachServerForwards) {
  for (const bool shared : {false, true})
    for (NodeId nodes = 2; nodes <= 30; ++nodes)
      for (NodeId cluster = 1; cluster <= nodes; ++cluster) {
        RouteStudyConfig c;
        c.nodes = nodes;
        c.per_node = 3;
        c.cluster = cluster;
        c.shared = shared;
        c.servers = 1 + static_cast<uint32_t>(nodes) % 3;
        const ForwardingLoad found = forwarding_load(c), expected = by_hand(c);
        EXPECT_EQ(found.most, expected.most) << nodes << " in " << cluster;
        EXPECT_NEAR(found.mean, expected.mean, 1e-9) << nodes << " in " << cluster;
        EXPECT_NEAR(found.mean_connections, expected.mean_connections, 1e-9);
        EXPECT_EQ(found.most_connections, expected.most_connections);
        EXPECT_LE(found.most_connections, 3u);
        // No server forwards much more than the others.
        EXPECT_LE(static_cast<double>(found.most), 2 * found.mean + 3 * 3 * nodes);
      }
}

RouteStudyConfig small() {
  RouteStudyConfig c;
  c.requests = 1;
  c.wire_ns = 10'000;
  c.service_ns = 1'000;
  c.forward_ns = 2'000;
  c.open_ns = 50'000;
  c.traffic = RouteTraffic::server;
  return c;
}

// Node 0 is the target. One rank on node 1 opens its session, then asks: two ways there and back.
TEST(RouteStudy, OneRequestTakesWhatItsWayCosts) {
  RouteStudyConfig c = small();
  EXPECT_DOUBLE_EQ(run_route_study(c).mean_us, (4 * 10'000 + 50'000 + 1'000) / 1e3);
  c.shared = true;  // its own server passes on each of the four messages
  EXPECT_DOUBLE_EQ(run_route_study(c).mean_us, (8 * 10'000 + 4 * 2'000 + 51'000) / 1e3);
}

// Four nodes in clusters of two: node 2's gate for 0 and 1 is 0 itself, node 3's is 1. Node 1 is in
// the target's cluster, and sends through its own server.
TEST(RouteStudy, AGateThatIsTheTargetCostsNothingMore) {
  RouteStudyConfig c = small();
  c.nodes = 4;
  c.cluster = 2;
  c.open_ns = 0;
  c.service_ns = 0;
  const RouteStudyResult r = run_route_study(c);
  EXPECT_EQ(r.forwarded_most, 2u);  // node 1's server: for its own rank and for node 3's
  EXPECT_DOUBLE_EQ(r.forwarded_mean, 0.5);
  // Node 2: 4 ways. Nodes 1 and 3: 8, and node 1's server passes on 4 messages for each of both;
  // they arrive there together, so the later one waits for the earlier one each time.
  EXPECT_NEAR(r.median_us, 88, 1e-9);
  EXPECT_NEAR(r.longest_us, 90, 1e-9);
  EXPECT_EQ(r.opened, 3u);
}

// Requests that arrive together are served one after the other.
TEST(RouteStudy, AServerDoesOneThingAtATime) {
  RouteStudyConfig c = small();
  c.per_node = 5;
  c.open_ns = 0;
  const RouteStudyResult r = run_route_study(c);
  for (const double us : {r.longest_us, r.median_us + 2}) EXPECT_DOUBLE_EQ(us, 45);
  EXPECT_EQ(r.busiest, 0);
}

// Each server has its own ranks: three of five in one's lane.
TEST(RouteStudy, SeveralServersOfANodeWorkSideBySide) {
  RouteStudyConfig c = small();
  c.per_node = 5;
  c.open_ns = 0;
  c.servers = 2;
  const RouteStudyResult r = run_route_study(c);
  EXPECT_DOUBLE_EQ(r.longest_us, 43);
  EXPECT_EQ(r.busiest, 0);
}

// Two sessions at most, three ranks in turn: the one heard of longest ago is never there any more.
TEST(RouteStudy, SessionsBeyondTheLimitAreOpenedAgain) {
  RouteStudyConfig c = small();
  c.per_node = 3;
  c.requests = 10;
  EXPECT_EQ(run_route_study(c).opened, 3u);
  c.sessions = 2;
  EXPECT_EQ(run_route_study(c).opened, 30u);
}

// The counter's own ranks wait for nobody's server.
TEST(RouteStudy, RanksBesideTheCounterUseItsMemory) {
  RouteStudyConfig c = small();
  c.traffic = RouteTraffic::counter;
  c.open_ns = 0;
  const RouteStudyResult r = run_route_study(c);
  EXPECT_DOUBLE_EQ(r.longest_us, 41);
  EXPECT_DOUBLE_EQ(r.median_us, 0.06);
}

TEST(RouteStudy, OneSeedIsOneRun) {
  RouteStudyConfig c;
  c.nodes = 40;
  c.per_node = 4;
  c.cluster = 7;
  c.think_ns = 100'000;
  c.requests = 20;
  const RouteStudyResult a = run_route_study(c), b = run_route_study(c);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.mean_us, b.mean_us);
  c.seed = 2;
  EXPECT_NE(run_route_study(c).mean_us, a.mean_us);
  EXPECT_LE(a.median_us, a.p99_us);
  EXPECT_LE(a.p99_us, a.longest_us);
}

}  // namespace
}  // namespace skerry::sim
