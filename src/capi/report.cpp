// What SKERRY_COUNTERS=1 prints at the end of a job.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "capi/handles.hpp"

namespace skerry::capi {
namespace {

struct Field {
  const char* name;
  size_t offset;
};
// Groups, each with its heading; in the order in which they are read.
struct Section {
  const char* heading;
  std::vector<Field> fields;
};

#define FIELD(name) {#name, offsetof(skerry_counters, name)}
const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      {"operations",
       {FIELD(local_operations), FIELD(local_bytes), FIELD(remote_operations), FIELD(remote_bytes),
        FIELD(wire_bytes_sent), FIELD(wire_bytes_received), FIELD(fences), FIELD(collectives)}},
      {"connections",
       {FIELD(connections_opened), FIELD(connections_closed), FIELD(connections_evicted),
        FIELD(connections_dropped), FIELD(connections_broken), FIELD(connections_resumed),
        FIELD(connections_peak), FIELD(requests_replayed), FIELD(servers_known),
        FIELD(connection_bytes), FIELD(setup_ns), FIELD(setup_exposed_ns), FIELD(teardown_ns),
        FIELD(teardown_exposed_ns), FIELD(teardowns_hidden)}},
      {"data servers",
       {FIELD(server_requests), FIELD(server_wire_bytes_sent), FIELD(server_wire_bytes_received),
        FIELD(server_connections), FIELD(server_connections_peak),
        FIELD(server_connections_dropped), FIELD(server_origins_waited), FIELD(grants_relayed)}},
      {"connections that processes of a node share (SKERRY_SHARE)",
       {FIELD(shared_open), FIELD(shared_peak), FIELD(shared_opened), FIELD(shared_evicted),
        FIELD(shared_users), FIELD(shared_messages)}},
      {"refused by data servers, in all and by reason",
       {FIELD(strangers_refused), FIELD(strangers_silent), FIELD(strangers_left),
        FIELD(strangers_crowded_out), FIELD(strangers_garbage), FIELD(strangers_unproven),
        FIELD(strangers_replayed)}},
  };
  return all;
}
#undef FIELD

}  // namespace

void report_counters(skerry_job* job) {
  skerry_counters own{};
  own.size = sizeof own;
  if (skerry_counters_read(job, &own) != SKERRY_OK) return;
  std::vector<int64_t> sum;
  for (const Section& section : sections())
    for (const Field& field : section.fields) {
      int64_t value = 0;
      std::memcpy(&value, reinterpret_cast<const char*>(&own) + field.offset, sizeof value);
      sum.push_back(value);
    }
  std::vector<int64_t> most = sum;
  if (skerry_reduce(skerry_world(job), SKERRY_INT64, SKERRY_SUM, sum.data(), sum.size(), 0) !=
      SKERRY_OK)
    return;
  if (skerry_reduce(skerry_world(job), SKERRY_INT64, SKERRY_MAX, most.data(), most.size(), 0) !=
      SKERRY_OK)
    return;
  if (skerry_rank(job) != 0) return;
  // In one piece: other ranks may print, too.
  std::string text = concat("skerry: counters of ", skerry_size(job), " ranks on ",
                            skerry_nodes(job), " nodes, fabric ", skerry_fabric_name(job), "\n");
  char line[96];
  std::snprintf(line, sizeof line, "  %-28s %20s %20s\n", "", "all ranks", "most of a rank");
  text += line;
  size_t next = 0;
  for (const Section& section : sections()) {
    text += concat("  ", section.heading, "\n");
    for (const Field& field : section.fields) {
      std::snprintf(line, sizeof line, "    %-26s %20lld %20lld\n", field.name,
                    static_cast<long long>(sum[next]), static_cast<long long>(most[next]));
      text += line;
      ++next;
    }
  }
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace skerry::capi
