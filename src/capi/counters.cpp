// The list of counters: what C, C++, Python, the report at the end of a job (SKERRY_COUNTERS=1) and
// docs/counters.md show. Nothing else names them.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capi/handles.hpp"
#include "core/futex.hpp"

namespace skerry::capi {
namespace {

// How values of several processes, or of two moments, belong together.
enum class CounterKind : uint8_t {
  total,  // only grows: differences and sums make sense
  now,    // the present value: sums make sense
  peak,   // the highest value so far: only the maximum makes sense
};

enum class CounterSection : uint8_t { operations, connections, server, trunks, refused };

// One consistent reading of all parts of the process.
struct CounterSources {
  const job::LocalCounters& local;
  uint64_t kept_bytes;
  const origin::EngineCounters& engine;
  const fabric::Fabric::Traffic& traffic;
  std::span<const std::unique_ptr<server::Server>> servers;  // that this process hosts
  std::span<const std::shared_ptr<share::Counters>> share;   // of each; none: they do not forward
  const placement::Plan& plan;
};

struct CounterEntry {
  CounterSection section;
  const char* name;
  CounterKind kind;
  const char* unit;
  const char* description;  // one line
  uint64_t (*read)(const CounterSources& sources);
};

using enum CounterKind;
using enum CounterSection;
using Sources = CounterSources;

static_assert(static_cast<int>(total) == SKERRY_COUNTER_TOTAL &&
              static_cast<int>(now) == SKERRY_COUNTER_NOW &&
              static_cast<int>(peak) == SKERRY_COUNTER_PEAK);

uint64_t value_of(uint64_t value) { return value; }
uint64_t value_of(const std::atomic<uint64_t>& value) {
  return value.load(std::memory_order_relaxed);
}

// How an entry reads its value from one of the sources; 0 if this process has no such source.
template <auto Member>
uint64_t local_value(const Sources& s) {
  return value_of(s.local.*Member);
}
template <auto Member>
uint64_t engine_value(const Sources& s) {
  return value_of(s.engine.*Member);
}
template <auto Member>
uint64_t server_value(const Sources& s) {
  uint64_t sum = 0;
  for (const auto& server : s.servers) sum += value_of(server->counters().*Member);
  return sum;
}
template <auto Member>
uint64_t share_value(const Sources& s) {
  uint64_t sum = 0;
  for (const auto& share : s.share) sum += value_of(*share.*Member);
  return sum;
}

using Local = job::LocalCounters;
using Engine = origin::EngineCounters;
using Server = server::Server::Counters;
using Share = share::Counters;

uint64_t late_waits(const Sources& s) {
  return s.traffic.waits_found_late + server_value<&Server::waits_found_late>(s) +
         waits_found_late();
}

// tools/check_docs.py reads this table: section, name, kind, unit, text, value.
// value}.
// In the order in which they are shown. An index is good for this version of the library only.
constexpr CounterEntry entries[] = {
    {operations, "local_operations", total, "operations",
     "put, get, accumulate and read-modify-write on ranks of the own node",
     local_value<&Local::operations>},
    {operations, "local_bytes", total, "bytes", "user data they moved", local_value<&Local::bytes>},
    {operations, "remote_operations", total, "operations",
     "put, get, accumulate and read-modify-write on ranks of other nodes",
     engine_value<&Engine::remote_operations>},
    {operations, "remote_bytes", total, "bytes", "user data they moved, both ways",
     engine_value<&Engine::remote_bytes>},
    {operations, "wire_bytes_sent", total, "bytes",
     "bytes this process gave to the fabric, headers included; without its data server's",
     [](const Sources& s) { return s.traffic.bytes_sent; }},
    {operations, "wire_bytes_received", total, "bytes", "bytes it took from the fabric",
     [](const Sources& s) { return s.traffic.bytes_received; }},
    {operations, "fences", total, "calls", "fences, also those inside skerry_sync",
     engine_value<&Engine::fences>},
    {operations, "collectives", total, "calls", "collective calls",
     local_value<&Local::collectives>},
    {operations, "segments_made", total, "segments",
     "segments made of new memory, also those of mutexes, windows and arrays",
     local_value<&Local::segments_made>},
    {operations, "segments_revived", total, "segments",
     "segments made of memory that their group had kept of a freed one",
     local_value<&Local::segments_revived>},
    {operations, "reserve_bytes", now, "bytes",
     "pages of this rank that groups keep of freed segments, see SKERRY_RESERVE",
     [](const Sources& s) { return s.kept_bytes; }},
    {operations, "waits_found_late", total, "waits",
     "waits, also of data servers, that no wake-up ended and a look did: a bug, please report it",
     late_waits},

    {connections, "connections_open", now, "connections",
     "open connections of this process to data servers; with SKERRY_SHARE=1, or if one cluster "
     "holds all nodes: nodes that it reaches through its own node's server",
     engine_value<&Engine::connections_now>},
    {connections, "connections_peak", peak, "connections",
     "most at one time, with those that were opening or closing",
     engine_value<&Engine::connections_peak>},
    {connections, "connections_opened", total, "connections",
     "connections opened, also those that pass through other data servers",
     engine_value<&Engine::connections_opened>},
    {connections, "connections_closed", total, "connections",
     "connections that ended, for any reason", engine_value<&Engine::connections_closed>},
    {connections, "connections_evicted", total, "connections",
     "connections that began to make room for another one, see SKERRY_MAX_CONN",
     engine_value<&Engine::connections_evicted>},
    {connections, "connections_dropped", total, "connections",
     "idle connections that a data server closed, see SKERRY_SERVER_MAX_CONN",
     engine_value<&Engine::connections_dropped>},
    {connections, "connections_broken", total, "connections",
     "connections lost with requests under way", engine_value<&Engine::connections_broken>},
    {connections, "connections_resumed", total, "connections", "broken connections resumed",
     engine_value<&Engine::connections_resumed>},
    {connections, "requests_replayed", total, "requests", "requests sent again after a break",
     engine_value<&Engine::requests_replayed>},
    {connections, "setup_ns", total, "ns", "time from connecting to the answer, summed",
     engine_value<&Engine::setup_ns>},
    {connections, "setup_exposed_ns", total, "ns",
     "time that callers waited for that, and for what had queued for it to go out",
     engine_value<&Engine::setup_exposed_ns>},
    {connections, "teardown_ns", total, "ns", "time from eviction to the end, summed",
     engine_value<&Engine::teardown_ns>},
    {connections, "teardown_exposed_ns", total, "ns", "the part of it that a caller waited for",
     engine_value<&Engine::teardown_exposed_ns>},
    {connections, "teardowns_hidden", total, "connections", "evictions that no caller waited for",
     engine_value<&Engine::teardowns_hidden>},
    {connections, "servers_known", now, "servers", "data servers that this process has talked to",
     engine_value<&Engine::links>},
    {connections, "connection_bytes", now, "bytes",
     "memory kept for them in this process, without the operating system's",
     engine_value<&Engine::link_bytes>},

    {server, "data_servers", now, "servers", "data servers in this process, see SKERRY_SERVERS",
     [](const Sources& s) { return uint64_t{s.servers.size()}; }},
    {server, "server_requests", total, "requests", "requests applied",
     server_value<&Server::requests>},
    {server, "server_wire_bytes_sent", total, "bytes", "bytes given to the fabric",
     server_value<&Server::bytes_sent>},
    {server, "server_wire_bytes_received", total, "bytes", "bytes taken from the fabric",
     server_value<&Server::bytes_received>},
    {server, "server_connections", now, "connections",
     "open connections of ranks, also those that come through other data servers",
     server_value<&Server::clients>},
    {server, "server_connections_peak", peak, "connections", "most of them at one time",
     server_value<&Server::clients_peak>},
    {server, "server_connections_dropped", total, "connections",
     "idle connections closed to make room, see SKERRY_SERVER_MAX_CONN",
     server_value<&Server::clients_dropped>},
    {server, "server_origins_waited", total, "connections",
     "connections that had to wait until there was room", server_value<&Server::clients_waited>},
    {server, "grants_relayed", total, "grants",
     "mutexes granted through another data server, to ranks without a connection",
     server_value<&Server::grants_relayed>},

    {trunks, "cluster_nodes", peak, "nodes",
     "nodes of the largest cluster of data servers, 1: no clusters; see SKERRY_CLUSTER_SIZE",
     [](const Sources& s) { return static_cast<uint64_t>(s.plan.cluster_size); }},
    {trunks, "connections_shared", peak, "flag",
     "1: the ranks of a node share connections, see SKERRY_SHARE",
     [](const Sources& s) { return uint64_t{s.plan.routes.is_shared()}; }},
    {trunks, "trunks_open", now, "connections", "open connections to other nodes' data servers",
     share_value<&Share::trunks>},
    {trunks, "trunks_peak", peak, "connections", "most of them at one time",
     share_value<&Share::trunks_peak>},
    {trunks, "trunks_opened", total, "connections", "connections opened",
     share_value<&Share::trunks_opened>},
    {trunks, "trunks_evicted", total, "connections",
     "connections that began to make room for another one, see SKERRY_NODE_MAX_CONN",
     share_value<&Share::trunks_evicted>},
    {trunks, "trunk_channels", now, "channels",
     "connections of ranks that pass through this server", share_value<&Share::channels>},
    {trunks, "trunk_messages", total, "messages", "messages passed on, both ways",
     share_value<&Share::messages>},
    {trunks, "kept_bytes", now, "bytes",
     "messages that wait in this server, see SKERRY_SERVER_BUDGET",
     share_value<&Share::kept_bytes>},
    {trunks, "kept_peak_bytes", peak, "bytes", "most of them at one time",
     share_value<&Share::kept_peak_bytes>},
    {trunks, "channels_dropped", total, "channels",
     "connections that resumed because a server had no room for what waited in them",
     share_value<&Share::channels_dropped>},

    {refused, "refused_connections", total, "connections",
     "all refused connections; of these:", server_value<&Server::refused_connections>},
    {refused, "refused_silent", total, "connections", "sent no complete hello in time",
     server_value<&Server::refused_silent>},
    {refused, "refused_left", total, "connections", "closed before their hello was complete",
     server_value<&Server::refused_left>},
    {refused, "refused_crowded_out", total, "connections",
     "made way for newer ones, or no file descriptor was left",
     server_value<&Server::refused_crowded_out>},
    {refused, "refused_malformed", total, "connections",
     "did not speak this protocol, or spoke another version of it",
     server_value<&Server::refused_malformed>},
    {refused, "refused_unproven", total, "connections",
     "did not know the job's key, or meant another server",
     server_value<&Server::refused_unproven>},
    {refused, "refused_replayed", total, "connections", "sent a recorded or overtaken hello",
     server_value<&Server::refused_replayed>},
};

constexpr int count = static_cast<int>(std::size(entries));

const CounterEntry* entry(int index) {
  return index >= 0 && index < count ? &entries[index] : nullptr;
}

// Its heading.
std::string_view to_string(CounterSection section) {
  switch (section) {
    case operations: return "operations";
    case connections: return "connections of processes";
    case server: return "data servers";
    case trunks: return "connections between data servers (SKERRY_SHARE, SKERRY_CLUSTER_SIZE)";
    case refused: return "connections that data servers refused";
  }
  return "unknown";
}

// All values at one moment; `values` has room for `count`.
void read_counters(job::Job& job, uint64_t* values) {
  const origin::EngineCounters engine = job.engine().counters();
  const fabric::Fabric::Traffic traffic = job.engine().traffic();
  std::span<const std::shared_ptr<share::Counters>> share;
  if (job.node_servers() != nullptr) share = job.node_servers()->share_counters();
  const CounterSources sources{job.local_counters(),
                               job.objects().kept_bytes(),
                               engine,
                               traffic,
                               job.servers(),
                               share,
                               job.plan()};
  for (const CounterEntry& each : entries) *values++ = each.read(sources);
}

std::string table(const std::vector<int64_t>& sum, const std::vector<int64_t>& most) {
  std::string text;
  char line[128];
  std::snprintf(line, sizeof line, "  %-28s %20s %20s  %s\n", "", "all ranks", "most of a rank",
                "unit");
  text += line;
  for (int i = 0; i < count; ++i) {
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
  uint64_t own[count];
  read_counters(*of(job), own);
  std::vector<int64_t> sum(own, own + count), most = sum;
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

using namespace skerry;
using namespace skerry::capi;

extern "C" {

int skerry_counter_count(void) { return count; }

int skerry_counter_find(const char* name) try {
  if (name == nullptr) return null_argument("name");
  for (int i = 0; i < count; ++i)
    if (std::string_view(entries[i].name) == name) return i;
  return fail(error(Code::invalid, "no counter \"", name,
                    "\": skerry_counter_name lists them, as does docs/counters.md"));
}
CAUGHT

const char* skerry_counter_name(int index) {
  return entry(index) == nullptr ? nullptr : entry(index)->name;
}

const char* skerry_counter_unit(int index) {
  return entry(index) == nullptr ? nullptr : entry(index)->unit;
}

const char* skerry_counter_description(int index) {
  return entry(index) == nullptr ? nullptr : entry(index)->description;
}

int skerry_counter_kind(int index) try {
  if (entry(index) == nullptr)
    return fail(error(Code::invalid, "counter ", index, ": give 0 to ", count - 1));
  return static_cast<int>(entry(index)->kind);
}
CAUGHT

int skerry_counter_values(const skerry_job* job, int number, uint64_t* values) try {
  if (job == nullptr || values == nullptr) return null_argument("job or values");
  if (number < 0) return fail(error(Code::invalid, number, " counters: give 0 or more"));
  job::Job* j = const_cast<job::Job*>(of(job));
  if (!j->is_alive()) return forked();
  uint64_t all[count];
  read_counters(*j, all);
  for (int i = 0; i < number; ++i) values[i] = i < count ? all[i] : 0;
  return SKERRY_OK;
}
CAUGHT

int skerry_counter_value(const skerry_job* job, int index, uint64_t* value) try {
  if (job == nullptr || value == nullptr) return null_argument("job or value");
  if (entry(index) == nullptr)
    return fail(error(Code::invalid, "counter ", index, ": give 0 to ", count - 1));
  uint64_t all[count];
  if (const int bad = skerry_counter_values(job, count, all); bad != SKERRY_OK) return bad;
  *value = all[index];
  return SKERRY_OK;
}
CAUGHT

}  // extern "C"
