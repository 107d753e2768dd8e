// What SKERRY_COUNTERS=1 prints at the end of a job.
#include <cstdio>
#include <string>
#include <vector>

#include "capi/counters.hpp"
#include "capi/handles.hpp"

namespace skerry::capi {
namespace {

std::string table(const std::vector<int64_t>& sum, const std::vector<int64_t>& most) {
  std::string text;
  char line[128];
  std::snprintf(line, sizeof line, "  %-28s %20s %20s  %s\n", "", "all ranks", "most of a rank",
                "unit");
  text += line;
  const auto entries = counters();
  for (size_t i = 0; i < entries.size(); ++i) {
    const CounterEntry& entry = entries[i];
    if (i == 0 || entries[i - 1].section != entry.section)
      text += concat("  ", to_string(entry.section), "\n");
    // Peaks of different moments have no sum.
    const std::string all = entry.kind == CounterKind::peak ? "-" : std::to_string(sum[i]);
    std::snprintf(line, sizeof line, "    %-26s %20s %20lld  %s\n", entry.name, all.c_str(),
                  static_cast<long long>(most[i]), entry.unit);
    text += line;
  }
  return text;
}

// How ranks reach other nodes: what SKERRY_CLUSTER_SIZE, SKERRY_SERVERS and SKERRY_SHARE came to.
std::string ways(const job::Job& job) {
  const placement::Plan& plan = job.plan();
  const size_t servers = job.servers().size();
  return concat(plan.routes.has_clusters()
                    ? concat(", clusters of at most ", plan.cluster_size, " nodes")
                    : std::string(", no clusters"),
                ", ", servers, servers == 1 ? " data server a node" : " data servers a node",
                plan.routes.is_shared() ? ", shared connections" : "");
}

}  // namespace

void report_counters(skerry_job* job) {
  const size_t count = counters().size();
  std::vector<uint64_t> own(count);
  read_counters(*of(job), own.data());
  std::vector<int64_t> sum(own.begin(), own.end()), most = sum;
  skerry_group* const world = skerry_world(job);
  if (skerry_reduce(world, SKERRY_INT64, SKERRY_SUM, sum.data(), count, 0) != SKERRY_OK) return;
  if (skerry_reduce(world, SKERRY_INT64, SKERRY_MAX, most.data(), count, 0) != SKERRY_OK) return;
  if (skerry_rank(job) != 0) return;
  // In one piece: other ranks may print, too.
  const std::string text = concat("skerry: counters of ", skerry_size(job), " ranks on ",
                                  skerry_node_count(job),
                                  skerry_node_count(job) == 1 ? " node" : " nodes", ", fabric ",
                                  skerry_fabric_name(job), ways(*of(job)), "\n", table(sum, most));
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace skerry::capi
