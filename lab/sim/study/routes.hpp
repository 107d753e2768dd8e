// What routes through clusters of data servers cost a job of any size: who forwards how much, how
// many connections there are, and how long requests take. The routes and the budget are the
// product's (placement/routes.hpp); servers are queues that do one thing at a time.
//
// Pure; one seed, one run.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "placement/routes.hpp"

namespace skerry::sim {

enum class RouteTraffic : uint8_t {
  uniform,  // each request goes to any other node; sessions are open already
  server,   // all requests go to node 0
  counter,  // all requests are fetch-and-adds of one word of node 0, whose own ranks use it, too
};
std::string_view to_string(RouteTraffic traffic);

struct RouteStudyConfig {
  NodeId nodes = 2;
  uint32_t per_node = 1;  // ranks
  NodeId cluster = 1;     // nodes; 1: no clusters
  bool shared = false;    // ranks send through their own node's server
  uint32_t servers = 1;   // data servers of a node, each with a lane of the ranks
  uint32_t sessions = 0;  // of ranks that are connected to one server, at most; 0: no limit. The
                          // one heard of longest ago makes way
  RouteTraffic traffic = RouteTraffic::uniform;
  uint32_t requests = 2;  // of each rank, one after the other
  int64_t think_ns = 0;   // mean, between them, exponential; and before the first
  // What one thing costs, in ns.
  int64_t wire_ns = 20'000;    // a message from one process to another
  int64_t service_ns = 2'000;  // the target's server: to apply one request
  int64_t forward_ns = 2'500;  // a server: to pass on one message, request or answer
  int64_t open_ns = 50'000;    // the target's server: to take in a rank without a session (not of
                               // uniform traffic). Opening takes a way there and back before the
                               // request
  int64_t atomic_ns = 60;      // counter: one fetch-and-add of a rank of node 0
  uint64_t seed = 1;
};

// Messages that one server forwards if every rank sends one to each other node. Counted, not
// simulated.
struct ForwardingLoad {
  uint64_t most = 0;
  NodeId most_at = 0;
  double mean = 0;
  uint32_t most_connections = 0;  // that a message crosses on its way
  double mean_connections = 0;
};
ForwardingLoad forwarding_load(const RouteStudyConfig& config);

struct RouteStudyResult {
  double mean_us = 0, median_us = 0, p99_us = 0, longest_us = 0;  // of a request, until its answer
  double per_second = 0;                                          // requests, of the whole job
  double busiest_share = 0;  // of the time that the busiest server was busy
  NodeId busiest = 0;
  uint64_t forwarded_most = 0;  // requests that one server passed on in this run
  double forwarded_mean = 0;
  uint64_t opened = 0;  // sessions
  uint64_t events = 0;
};
RouteStudyResult run_route_study(const RouteStudyConfig& config);

}  // namespace skerry::sim
