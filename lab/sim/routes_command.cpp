// skerry-sim routes: what a job of up to a million ranks costs a node with clusters of data
// servers: memory, forwarding, connections on the way, latency, hot spots.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/config.hpp"
#include "core/pure/status.hpp"
#include "launcher/planner/node_memory.hpp"
#include "placement/plan.hpp"
#include "sim/commands.hpp"
#include "sim/report.hpp"
#include "sim/study/routes.hpp"

namespace skerry::sim {
namespace {

constexpr const char* help_text =
    "usage: skerry-sim routes [options]   routes through clusters of data servers\n\n"
    "For each number of ranks and each cluster size: the memory of a node, what its server\n"
    "forwards, the latency of requests. Routes and budgets are the product's. Everything it "
    "prints\n"
    "is simulated: docs/simulator.md.\n\n"
    "  --ranks LIST          (1000,10000,100000,1000000)\n"
    "  --per-node N          ranks on a node (64)\n"
    "  --clusters LIST       nodes in a cluster: numbers, sqrt, auto (1,sqrt,auto)\n"
    "  --shared B            yes: ranks send through their own node's server (no)\n"
    "  --servers K           SKERRY_SERVERS: data servers of a node (1)\n"
    "  --budget B            SKERRY_SERVER_BUDGET, such as 64M; 0: none. Not for cluster size 1\n"
    "                        without --shared (32M)\n"
    "  --traffic LIST        uniform: any other node; server: all ranks to node 0; counter: all\n"
    "                        add to one word of node 0 (uniform,server,counter)\n"
    "  --requests N          of each rank (2)\n"
    "  --think-us N          mean, before each request of uniform traffic (2000)\n"
    "  --wire-ns N           a message from one process to another (20000)\n"
    "  --service-ns N        a server applies a request (2000)\n"
    "  --forward-ns N        a server passes a message on (2500)\n"
    "  --open-ns N           a server takes in a rank without a session (50000)\n"
    "  --connection-bytes N  at a server, with what the kernel takes (6144: tcp)\n"
    "  --link-bytes N        the same, at a rank (6144)\n"
    "  --session-bytes N     at the target, of a rank that comes through another server (480)\n"
    "  --passing-bytes N     at a gate, of a channel (160)\n"
    "  --talks N             nodes that each process talks to; 0: all (100)\n"
    "  --seed N              (1)\n"
    "  --out FILE            (out/sim-routes.json)\n";

struct Options {
  std::vector<uint64_t> ranks = {1000, 10'000, 100'000, 1'000'000};
  std::vector<std::string> clusters = {"1", "sqrt", "auto"};
  std::vector<RouteTraffic> traffic = {RouteTraffic::uniform, RouteTraffic::server,
                                       RouteTraffic::counter};
  uint64_t budget_bytes = 32 << 20, think_us = 2000;
  planner::PieceBytes each;
  uint64_t talks = 100;
  RouteStudyConfig study;
  std::string out = "out/sim-routes.json";
  bool help = false;
  Options() { study.per_node = 64; }
};

Status number(const std::string& option, const std::string& text, uint64_t least, uint64_t most,
              uint64_t* out) {
  char* end = nullptr;
  *out = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || text[0] == '-' || *out < least || *out > most)
    return error(Code::config, option, " ", text, ": give a whole number from ", least, " to ",
                 most);
  return {};
}

std::vector<std::string> parts(const std::string& list) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    out.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Status set_list(const std::string& option, const std::string& value, Options* o) {
  uint64_t n = 0;
  if (option == "--ranks") o->ranks.clear();
  else if (option == "--clusters") o->clusters.clear();
  else o->traffic.clear();
  for (const std::string& part : parts(value)) {
    if (option == "--ranks") {
      SKERRY_TRY(number(option, part, 2, 4'000'000, &n));
      o->ranks.push_back(n);
    } else if (option == "--clusters") {
      if (part != "sqrt" && part != "auto") SKERRY_TRY(number(option, part, 1, 4'000'000, &n));
      o->clusters.push_back(part);
    } else {
      bool known = false;
      for (const RouteTraffic t :
           {RouteTraffic::uniform, RouteTraffic::server, RouteTraffic::counter})
        if (part == to_string(t)) {
          o->traffic.push_back(t);
          known = true;
        }
      if (!known)
        return error(Code::config, "no traffic \"", part, "\": give uniform, server or counter");
    }
  }
  return {};
}

Status set(const std::string& option, const std::string& value, Options* o) {
  if (option == "--ranks" || option == "--clusters" || option == "--traffic")
    return set_list(option, value, o);
  if (option == "--budget") return parse_budget(option, value, &o->budget_bytes);
  if (option == "--out") {
    o->out = value;
    return {};
  }
  if (option == "--shared") {
    if (value != "yes" && value != "no")
      return error(Code::config, option, " ", value, ": give yes or no");
    o->study.shared = value == "yes";
    return {};
  }
  const struct {
    const char* name;
    uint64_t least, most;
    uint64_t* unsigned_out;
    int64_t* signed_out;
    uint32_t* short_out;
  } numbers[] = {
      {"--per-node", 1, 65'536, nullptr, nullptr, &o->study.per_node},
      {"--servers", 1, Config::most_servers, nullptr, nullptr, &o->study.servers},
      {"--requests", 1, 1'000'000, nullptr, nullptr, &o->study.requests},
      {"--think-us", 0, 1'000'000'000, &o->think_us, nullptr, nullptr},
      {"--wire-ns", 0, 1'000'000'000, nullptr, &o->study.wire_ns, nullptr},
      {"--service-ns", 0, 1'000'000'000, nullptr, &o->study.service_ns, nullptr},
      {"--forward-ns", 0, 1'000'000'000, nullptr, &o->study.forward_ns, nullptr},
      {"--open-ns", 0, 1'000'000'000, nullptr, &o->study.open_ns, nullptr},
      {"--connection-bytes", 1, 1 << 30, &o->each.connection, nullptr, nullptr},
      {"--link-bytes", 1, 1 << 30, &o->each.link, nullptr, nullptr},
      {"--session-bytes", 1, 1 << 30, &o->each.session, nullptr, nullptr},
      {"--passing-bytes", 1, 1 << 30, &o->each.passing, nullptr, nullptr},
      {"--talks", 0, 4'000'000, &o->talks, nullptr, nullptr},
      {"--seed", 0, UINT64_MAX, &o->study.seed, nullptr, nullptr},
  };
  for (const auto& one : numbers) {
    if (option != one.name) continue;
    uint64_t n = 0;
    SKERRY_TRY(number(option, value, one.least, one.most, &n));
    if (one.unsigned_out != nullptr) *one.unsigned_out = n;
    if (one.signed_out != nullptr) *one.signed_out = static_cast<int64_t>(n);
    if (one.short_out != nullptr) *one.short_out = static_cast<uint32_t>(n);
    return {};
  }
  return error(Code::config, "unknown option ", option, "; skerry-sim routes --help lists them");
}

Status parse(const std::vector<std::string>& words, Options* o) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") {
      o->help = true;
      continue;
    }
    if (i + 1 == words.size())
      return error(Code::config, "option ", words[i], ": unknown, or its value is missing");
    SKERRY_TRY(set(words[i], words[i + 1], o));
    ++i;
  }
  for (const uint64_t ranks : o->ranks)
    if (ranks <= o->study.per_node)
      return error(Code::config, "--ranks ", ranks, " --per-node ", o->study.per_node,
                   ": one node alone has no routes");
  return {};
}

class Sweep {
 public:
  explicit Sweep(const Options& o) : o_(o) {}

  void job(uint64_t ranks, const std::string& cluster) {
    RouteStudyConfig c = o_.study;
    c.nodes = static_cast<NodeId>((ranks + c.per_node - 1) / c.per_node);
    placement::Settings settings{placement::Settings::auto_cluster, c.shared, o_.budget_bytes};
    if (cluster == "sqrt") settings.cluster_size = placement::Settings::sqrt_cluster;
    else if (cluster != "auto")
      settings.cluster_size = static_cast<NodeId>(std::strtol(cluster.c_str(), nullptr, 10));
    // Without forwarding it bounds the kernel's buffers alone, which are not modelled.
    if (settings.cluster_size == 1 && !c.shared) settings.budget_bytes = 0;
    const uint64_t budget_bytes = settings.budget_bytes;
    const placement::Shape shape{c.nodes, c.per_node, c.servers};
    const placement::Plan plan = placement::plan(shape, settings, o_.each.connection);
    c.cluster = plan.cluster_size;
    if (!plan.routes.is_direct()) c.sessions = plan.budget.sessions;
    const planner::NodeMemory memory = planner::node_memory(shape, plan, o_.each, o_.talks);
    const ForwardingLoad load = forwarding_load(c);
    std::printf("\n%llu ranks on %d nodes, cluster size %s: %d (simulated)\n",
                static_cast<unsigned long long>(ranks), c.nodes, cluster.c_str(), c.cluster);
    std::printf(
        "  memory of a node: %.1f MB: tables %.1f, connections %.1f, links %.1f, sessions %.1f, "
        "passing %.1f, pools %.1f\n",
        mb(memory.all()), mb(memory.tables), mb(memory.connections), mb(memory.links),
        mb(memory.sessions), mb(memory.passing), mb(memory.pools));
    std::printf(
        "  forwarded if all ranks talk to all: most %llu by node %d, mean %.0f; connections "
        "crossed: at most %u, mean %.2f\n",
        static_cast<unsigned long long>(load.most), load.most_at, load.mean, load.most_connections,
        load.mean_connections);
    const std::string name = concat("sim.routes.", ranks, "_ranks.size_", cluster);
    row(name, "memory", static_cast<double>(memory.all()) / 1e6, "MB");
    row(name, "hops", load.most_connections, "connections");
    row(name, "forwarding", load.mean == 0 ? 1 : static_cast<double>(load.most) / load.mean,
        "most over mean");
    std::string runs;
    for (const RouteTraffic traffic : o_.traffic) {
      c.traffic = traffic;
      c.think_ns = traffic == RouteTraffic::uniform ? static_cast<int64_t>(o_.think_us) * 1000 : 0;
      const RouteStudyResult r = run_route_study(c);
      std::printf(
          "  %-8s %9.0f us median, %9.0f 99 %%, %9.0f longest; %9.0f requests/s; busiest server: "
          "node %d, %.0f %%; %llu sessions opened\n",
          std::string(to_string(traffic)).c_str(), r.median_us, r.p99_us, r.longest_us,
          r.per_second, r.busiest, 100 * r.busiest_share,
          static_cast<unsigned long long>(r.opened));
      std::fflush(stdout);
      row(concat(name, ".", to_string(traffic)), "median", r.median_us, "us");
      row(concat(name, ".", to_string(traffic)), "p99", r.p99_us, "us");
      runs += concat(runs.empty() ? "" : ", ", "{\"traffic\": \"", to_string(traffic),
                     "\", \"mean_us\": ", real(r.mean_us), ", \"median_us\": ", real(r.median_us),
                     ", \"p99_us\": ", real(r.p99_us), ", \"longest_us\": ", real(r.longest_us),
                     ", \"per_second\": ", real(r.per_second), ", \"busiest\": ", r.busiest,
                     ", \"busiest_share\": ", real(r.busiest_share),
                     ", \"forwarded_most\": ", r.forwarded_most,
                     ", \"forwarded_mean\": ", real(r.forwarded_mean), ", \"opened\": ", r.opened,
                     "}");
    }
    jobs_ += concat(
        jobs_.empty() ? "" : ",", "\n    {\"simulated\": true, \"ranks\": ", ranks,
        ", \"nodes\": ", c.nodes, ", \"cluster\": \"", cluster, "\", \"cluster_size\": ", c.cluster,
        ", \"budget_bytes\": ", budget_bytes, ", \"sessions_limit\": ", c.sessions,
        ", \"memory\": {\"tables\": ", memory.tables, ", \"connections\": ", memory.connections,
        ", \"links\": ", memory.links, ", \"sessions\": ", memory.sessions,
        ", \"passing\": ", memory.passing, ", \"pools\": ", memory.pools,
        ", \"all\": ", memory.all(), "}, \"forwarded_most\": ", load.most,
        ", \"forwarded_mean\": ", real(load.mean),
        ", \"most_connections\": ", load.most_connections,
        ", \"mean_connections\": ", real(load.mean_connections), ", \"runs\": [", runs, "]}");
  }

  Status write() const {
    std::error_code ignored;
    if (const auto parent = std::filesystem::path(o_.out).parent_path(); !parent.empty())
      std::filesystem::create_directories(parent, ignored);
    std::ofstream file(o_.out);
    const RouteStudyConfig& c = o_.study;
    file << "{\n  \"simulated\": true,\n  \"note\": \"a model, not a measurement: see "
            "docs/simulator.md\",\n  \"per_node\": "
         << c.per_node << ", \"shared\": " << (c.shared ? "true" : "false")
         << ", \"servers\": " << c.servers << ", \"talks\": " << o_.talks
         << ", \"think_us\": " << o_.think_us << ", \"wire_ns\": " << c.wire_ns
         << ", \"service_ns\": " << c.service_ns << ", \"forward_ns\": " << c.forward_ns
         << ", \"open_ns\": " << c.open_ns << ", \"connection_bytes\": " << o_.each.connection
         << ", \"link_bytes\": " << o_.each.link << ", \"session_bytes\": " << o_.each.session
         << ", \"passing_bytes\": " << o_.each.passing << ",\n  \"jobs\": [" << jobs_
         << "\n  ],\n  \"rows\": [" << rows_ << "\n  ]\n}\n";
    file.close();
    if (!file) return error(Code::config, "cannot write ", o_.out);
    return {};
  }

 private:
  static double mb(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }
  void row(const std::string& name, const char* what, double value, const char* unit) {
    rows_ += concat(rows_.empty() ? "" : ",", "\n    ",
                    json_row(concat(name, ".", what), value, unit));
  }

  const Options& o_;
  std::string jobs_, rows_;  // JSON
};

}  // namespace

int routes_main(const std::vector<std::string>& words) {
  Options o;
  if (Status status = parse(words, &o); !status.ok()) return complain("skerry-sim routes", status);
  if (o.help) return std::fputs(help_text, stdout), 0;
  Sweep sweep(o);
  for (const uint64_t ranks : o.ranks)
    for (const std::string& cluster : o.clusters) sweep.job(ranks, cluster);
  if (Status status = sweep.write(); !status.ok()) return complain("skerry-sim routes", status);
  std::printf("\nsimulated; wrote %s\n", o.out.c_str());
  return 0;
}

}  // namespace skerry::sim
