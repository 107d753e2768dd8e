// `skerry top`: a table of what ranks and nodes do, now and again.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "core/futex.hpp"
#include "launcher/look/commands.hpp"
#include "launcher/look/metrics.hpp"
#include "launcher/look/sample.hpp"

namespace skerry::look {
namespace {

constexpr const char* top_usage =
    "usage: skerry top [JOB] [--once] [--every SECONDS] [--json | --prometheus]\n"
    "       skerry top [JOB] --metrics [ADDRESS:]PORT | --key\n\n"
    "What the ranks and nodes of a running job do, as a table that refreshes: operations and\n"
    "bytes a second, connections, waits, locks, memory. Reads the job's memory and asks nothing\n"
    "of it; ends with the job, or Ctrl-C.\n\n"
    "  JOB           its name, or the process of a rank or of `skerry run`; without: the only job\n"
    "                of this user on this machine (skerry stacks lists several)\n"
    "  --once        one table, of half a second\n"
    "  --every S     seconds between two tables, 0.1 to 3600; 1\n"
    "  --json        a line per table, for programs\n"
    "  --prometheus  once, all values as Prometheus' text\n"
    "  --metrics P   serves that text at http://127.0.0.1:P/metrics, or at another address of "
    "this\n"
    "                machine, to who sends the job's key: Authorization: Bearer KEY\n"
    "  --key         prints the job's key, which only the job's user and root can read\n\n"
    "Columns of a node, about its data servers: requests and bytes on the network a second; conn,\n"
    "origins connected; trunks, connections to other servers; segments, bytes of shared memory.\n"
    "Of a rank: operations and bytes a second; conn, its connections; queue, requests that await\n"
    "an answer; locks that it holds; wants 1: it waits for a lock; private and shared, memory\n"
    "that it has touched; waits, for how long and for what.\n";

double rate(uint64_t now, uint64_t before, int64_t over_ns) {
  return over_ns <= 0 || now < before
             ? 0
             : static_cast<double>(now - before) * 1e9 / static_cast<double>(over_ns);
}

std::string short_number(double value) {
  const char* const units = " kMGTP";
  int unit = 0;
  for (; value >= 1000 && unit < 5; ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 100 ? "%.0f%c" : "%.1f%c", value,
                units[unit]);
  return text;
}

const RankSample* same_rank(const Sample& sample, const RankSample& rank) {
  const auto found = std::ranges::find(sample.ranks, rank.rank, &RankSample::rank);
  return found == sample.ranks.end() ? &rank : &*found;
}

const NodeSample* same_node(const Sample& sample, const NodeSample& node) {
  const auto found = std::ranges::find(sample.nodes, node.node, &NodeSample::node);
  return found == sample.nodes.end() ? &node : &*found;
}

std::string waits_text(const RankSample& rank) {
  if (!rank.wait) return "";
  char since[32];
  std::snprintf(since, sizeof since,
                "%.1f s: ", static_cast<double>(rank.time_ns - rank.wait->since_ns) / 1e9);
  return since + rank.wait->text;
}

void print_table(const Sample& before, const Sample& now) {
  std::printf("job %s: %d ranks on %d nodes: %.60s\n\n", now.job.c_str(), now.all_ranks,
              now.all_nodes, now.program.c_str());
  std::printf("%5s %9s %9s %6s %8s %8s\n", "node", "request/s", "wire B/s", "conn", "trunks",
              "segments");
  for (const NodeSample& node : now.nodes) {
    const NodeSample& old = *same_node(before, node);
    const auto per_second = [&](NodeValue v) {
      return short_number(rate(node.values[v], old.values[v], node.time_ns - old.time_ns));
    };
    const auto value = [&](NodeValue v) {
      return short_number(static_cast<double>(node.values[v]));
    };
    std::printf("%5d %9s %9s %6s %8s %8s\n", node.node, per_second(requests).c_str(),
                per_second(wire_bytes).c_str(), value(clients).c_str(), value(trunks).c_str(),
                value(memory_bytes).c_str());
  }
  std::printf("\n%5s %5s %9s %9s %6s %6s %6s %6s %8s %8s  %s\n", "rank", "node", "op/s", "B/s",
              "conn", "queue", "locks", "wants", "private", "shared", "waits");
  for (const RankSample& rank : now.ranks) {
    const RankSample& old = *same_rank(before, rank);
    const auto per_second = [&](RankValue v) {
      return short_number(rate(rank.values[v], old.values[v], rank.time_ns - old.time_ns));
    };
    const auto value = [&](RankValue v) {
      return short_number(static_cast<double>(rank.values[v]));
    };
    std::printf("%5d %5d %9s %9s %6s %6s %6s %6s %8s %8s  %s\n", rank.rank, rank.node,
                per_second(operations).c_str(), per_second(bytes).c_str(),
                value(connections).c_str(), value(queued).c_str(), value(locks_taken).c_str(),
                value(lock_waits).c_str(), value(own_bytes).c_str(), value(shared_bytes).c_str(),
                waits_text(rank).c_str());
  }
  std::fputs(elsewhere(now, "top").c_str(), stdout);
}

// {"name": value, ..., "name_per_second": rate, ...}
std::string json_values(const Value* names, size_t count, const uint64_t* now,
                        const uint64_t* before, int64_t over_ns) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    out += concat(", \"", names[i].name, "\": ", now[i]);
    if (names[i].only_grows)
      out += concat(", \"", names[i].name,
                    "_per_second\": ", static_cast<uint64_t>(rate(now[i], before[i], over_ns)));
  }
  return out;
}

void print_json(const Sample& before, const Sample& now) {
  std::string out = concat("{\"job\": ", quoted(now.job), ", \"nodes\": [");
  for (const NodeSample& node : now.nodes)
    out += concat(&node == &now.nodes.front() ? "" : ", ", "{\"node\": ", node.node,
                  json_values(node_value, node_values, node.values, same_node(before, node)->values,
                              node.time_ns - same_node(before, node)->time_ns),
                  "}");
  out += "], \"ranks\": [";
  for (const RankSample& rank : now.ranks)
    out += concat(&rank == &now.ranks.front() ? "" : ", ", "{\"rank\": ", rank.rank,
                  ", \"node\": ", rank.node, ", \"pid\": ", rank.pid,
                  json_values(rank_value, rank_values, rank.values, same_rank(before, rank)->values,
                              rank.time_ns - same_rank(before, rank)->time_ns),
                  ", \"waits\": ", rank.wait ? quoted(rank.wait->text) : "null", "}");
  std::printf("%s]}\n", out.c_str());
  std::fflush(stdout);
}

}  // namespace

int top_main(const std::vector<std::string>& words) {
  Words read;
  int status = 0;
  if (!read_words(words, "top", top_usage, {"--once", "--json", "--prometheus", "--key"},
                  {"--every", "--metrics"}, &read, &status))
    return status;
  const std::string given = read.value("--every", read.has("--once") ? "0.5" : "1");
  char* end = nullptr;
  const double seconds = std::strtod(given.c_str(), &end);
  if (*end != 0 || !(seconds >= 0.1 && seconds <= 3600)) {
    std::fprintf(stderr, "skerry top: --every %s: give 0.1 to 3600 seconds\n", given.c_str());
    return 2;
  }
  if (read.has("--json") && read.has("--prometheus"))
    return std::fputs("skerry top: give --json or --prometheus, not both\n", stderr), 2;
  JobView job;
  if (!open_job("top", read.job, &job)) return 1;
  if (read.has("--key")) return std::printf("%s\n", metrics_key(job).c_str()), 0;
  if (const std::string place = read.value("--metrics", ""); !place.empty()) {
    const Status served = serve_metrics(place, job.name);
    if (!served.ok()) std::fprintf(stderr, "skerry top: %s\n", served.message().c_str());
    return served.ok() ? 0 : 1;
  }
  Sample before = take_whole_sample(job);
  if (read.has("--prometheus")) return std::fputs(prometheus_text(before).c_str(), stdout), 0;
  const bool clears = !read.has("--once") && !read.has("--json") && isatty(STDOUT_FILENO) != 0;
  const std::string name = job.name;
  do {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    // Anew, for segments come and go.
    if (!find_job(name, &job).ok()) break;
    const Sample now = take_whole_sample(job);
    if (clears) std::fputs("\033[H\033[2J", stdout);
    if (read.has("--json")) print_json(before, now);
    else print_table(before, now);
    std::fflush(stdout);
    before = now;
  } while (!read.has("--once"));
  return 0;
}

}  // namespace skerry::look
