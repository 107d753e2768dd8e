// skerry info --nodes: what a job of a given shape is planned to cost each node, without starting
// it. The plan is the job's own (placement/plan.hpp).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "core/config.hpp"
#include "core/pure/bytes_name.hpp"
#include "fabric/fabric.hpp"
#include "launcher/planner/node_memory.hpp"

extern char** environ;

namespace skerry::planner {
namespace {

constexpr const char* help_text =
    "usage: skerry info --nodes N --per-node P [options]\n\n"
    "What a job of that shape costs each node in connections and memory, and which clusters of\n"
    "data servers it forms. Computed as a job would, without starting one.\n\n"
    "  --per-node P       ranks on a node (1)\n"
    "  --budget B         bytes for a node's data servers, such as 64M (SKERRY_SERVER_BUDGET)\n"
    "  --cluster-size G   nodes in a cluster: a number, sqrt, auto (SKERRY_CLUSTER_SIZE)\n"
    "  --servers K        data servers of a node (SKERRY_SERVERS; auto: as for this machine)\n"
    "  --share 0|1        1: the ranks of a node share connections (SKERRY_SHARE)\n"
    "  --fabric NAME      tcp, ofi (SKERRY_FABRIC)\n"
    "  --talks T          nodes that each rank talks to (all)\n"
    "  --json FILE        writes the numbers there as well\n\n"
    "Variables count where an option is absent. Memory is given in MB of 1,000,000 bytes, for\n"
    "limits used to the full: pools are empty unless somebody takes no messages. Caps\n"
    "(SKERRY_MAX_CONN and the like) are not in the plan: they leave fewer connections.\n";

constexpr std::pair<const char*, const char*> variable_of[] = {
    {"--budget", "SKERRY_SERVER_BUDGET"}, {"--cluster-size", "SKERRY_CLUSTER_SIZE"},
    {"--servers", "SKERRY_SERVERS"},      {"--share", "SKERRY_SHARE"},
    {"--fabric", "SKERRY_FABRIC"},
};

struct Options {
  uint64_t nodes = 0, per_node = 1, talks = 0;
  std::string json;                    // empty: none
  std::vector<std::string> variables;  // NAME=value
  bool help = false;
};

constexpr uint64_t most_ranks = 4'000'000;

Status read_number(const std::string& option, const std::string& text, uint64_t least,
                   uint64_t* out) {
  char* end = nullptr;
  *out = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || text[0] == '-' || *out < least || *out > most_ranks)
    return error(Code::config, option, " ", text, ": give a whole number from ", least, " to ",
                 most_ranks);
  return {};
}

Status set(const std::string& option, const std::string& value, Options* o) {
  if (option == "--nodes") return read_number(option, value, 1, &o->nodes);
  if (option == "--per-node") return read_number(option, value, 1, &o->per_node);
  if (option == "--talks") return read_number(option, value, 0, &o->talks);
  if (option == "--json") return o->json = value, Status();
  for (const auto& [name, variable] : variable_of)
    if (option == name) return o->variables.push_back(concat(variable, "=", value)), Status();
  return error(Code::config, "unknown option ", option, "; skerry info --nodes --help lists them");
}

Status parse(const std::vector<std::string>& words, Options* o) {
  // Wherever it stands: somebody who writes "--nodes --help" knows no value yet.
  for (const std::string& word : words)
    if (word == "--help" || word == "-h") return o->help = true, Status();
  for (size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size())
      return error(Code::config, "option ", words[i],
                   ": unknown, or its value is missing; skerry info --nodes --help lists options");
    SKERRY_TRY(set(words[i], words[i + 1], o));
  }
  if (o->nodes == 0)
    return error(Code::config,
                 "how many nodes? Give --nodes N --per-node P, such as --nodes 1000 "
                 "--per-node 64");
  if (o->talks >= o->nodes) o->talks = 0;  // there are no more to talk to
  if (o->nodes * o->per_node > most_ranks)
    return error(Code::config, o->nodes * o->per_node, " ranks: give ", most_ranks, " at most");
  return {};
}

// The environment's, with the options on top: read_config takes the last of a name.
Status read_settings(const Options& o, Config* config) {
  std::vector<const char*> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool replaced = std::ranges::any_of(o.variables, [&](const std::string& v) {
      return text.starts_with(v.substr(0, v.find('=') + 1));
    });
    if (!replaced) entries.push_back(*entry);
  }
  for (const std::string& variable : o.variables) entries.push_back(variable.c_str());
  entries.push_back(nullptr);
  return read_config(entries.data(), config);
}

uint64_t connection_bytes(const Config& config) {
  if (config.fabric == "tcp") return fabric::tcp_connection_bytes;
  return config.shared_receives ? fabric::ofi_connection_bytes
                                : fabric::ofi_own_buffers_connection_bytes;
}

// The caps that are set, which the plan leaves out.
std::string caps(const Config& config) {
  std::string text;
  const auto add = [&](const char* name, uint32_t limit) {
    if (limit != 0) text += concat(text.empty() ? "" : ", ", name, "=", limit);
  };
  add("SKERRY_MAX_CONN", config.max_connections);
  add("SKERRY_SERVER_MAX_CONN", config.server_max_connections);
  add("SKERRY_NODE_MAX_CONN", config.node_max_connections);
  return text;
}

// A column of the table.
struct Column {
  std::string title;
  uint64_t budget_bytes;  // 0: none
  placement::Plan plan;
  NodeConnections connections;
  NodeMemory memory;
};

struct Row {
  const char* name;
  const char* key;
  bool is_memory;
  uint64_t (*value)(const Column&);
};

constexpr Row rows[] = {
    {"nodes in a cluster, at most", "cluster_size", false,
     [](const Column& c) { return static_cast<uint64_t>(c.plan.cluster_size); }},
    {"clusters", "clusters", false,
     [](const Column& c) { return static_cast<uint64_t>(c.plan.routes.clusters()); }},
    {"servers that a message passes on its way, at most", "forwarding_servers", false,
     [](const Column& c) { return uint64_t{c.plan.routes.most_servers()} - 1; }},
    {"connections of a rank", "rank_connections", false,
     [](const Column& c) { return c.connections.of_a_rank; }},
    {"connections of a node's data servers", "server_connections", false,
     [](const Column& c) { return c.connections.of_servers; }},
    {"  of these with other data servers", "trunks", false,
     [](const Column& c) { return c.connections.trunks; }},
    {"its data servers: what a budget bounds", "servers", true,
     [](const Column& c) { return c.memory.of_servers(); }},
    {"  their connections", "connections", true,
     [](const Column& c) { return c.memory.connections; }},
    {"  sessions of ranks that come through others", "sessions", true,
     [](const Column& c) { return c.memory.sessions; }},
    {"  channels that they pass on", "passing", true,
     [](const Column& c) { return c.memory.passing; }},
    {"  pools for messages that wait, if full", "pools", true,
     [](const Column& c) { return c.memory.pools; }},
    {"connections of its ranks", "links", true, [](const Column& c) { return c.memory.links; }},
    {"tables (skerry-sim memory)", "tables", true, [](const Column& c) { return c.memory.tables; }},
    {"in all", "all", true, [](const Column& c) { return c.memory.all(); }},
};

std::string cell(const Row& row, const Column& column) {
  char text[32];
  const uint64_t value = row.value(column);
  if (row.is_memory) std::snprintf(text, sizeof text, "%.1f", static_cast<double>(value) / 1e6);
  else std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(value));
  return text;
}

void print(const std::vector<Column>& columns) {
  const auto line = [&](const char* name, const std::function<std::string(const Column&)>& text) {
    std::printf("  %-50s", name);
    for (const Column& column : columns) std::printf(" %18s", text(column).c_str());
    std::printf("\n");
  };
  line("", [](const Column& c) { return c.title; });
  bool memory = false;
  for (const Row& row : rows) {
    if (row.is_memory && !memory) std::printf("  memory of a node, MB, at most\n");
    memory = row.is_memory;
    line(memory ? concat("  ", row.name).c_str() : row.name,
         [&](const Column& c) { return cell(row, c); });
  }
}

Status write(const Options& o, const placement::Shape& shape, uint64_t each_bytes,
             const std::vector<Column>& columns) {
  std::ofstream file(o.json);
  file << "{\"planned\": true, \"nodes\": " << shape.nodes
       << ", \"per_node\": " << shape.ranks_per_node << ", \"servers\": " << shape.servers
       << ", \"talks\": " << o.talks << ", \"connection_bytes\": " << each_bytes
       << ", \"plans\": [";
  for (const Column& column : columns) {
    file << (&column == columns.data() ? "" : ",") << "\n  {\"title\": \"" << column.title
         << "\", \"budget_bytes\": " << column.budget_bytes;
    for (const Row& row : rows)
      file << ", \"" << row.key << (row.is_memory ? "_bytes" : "") << "\": " << row.value(column);
    file << "}";
  }
  file << "\n]}\n";
  file.close();
  if (!file) return error(Code::config, "cannot write ", o.json);
  return {};
}

Status run(const Options& o) {
  Config config;
  SKERRY_TRY(read_settings(o, &config));
  const uint32_t asked = servers_of(config);
  const placement::Shape shape{static_cast<NodeId>(o.nodes), static_cast<uint32_t>(o.per_node),
                               o.nodes == 1 ? 1 : asked};
  PieceBytes each;
  each.connection = each.link = connection_bytes(config);
  const auto column = [&](std::string title, const placement::Settings& settings) {
    const placement::Plan plan = placement::plan(shape, settings, each.connection);
    return Column{std::move(title), settings.budget_bytes, plan,
                  node_connections(shape, plan, o.talks), node_memory(shape, plan, each, o.talks)};
  };
  const placement::Settings settings{config.cluster_size, config.share, config.server_budget_bytes};
  std::vector<Column> columns = {column("as set", settings)};
  // What it is worth, or would be.
  if (!columns[0].plan.routes.is_direct()) columns.push_back(column("direct, no budget", {1}));
  else if (o.nodes > 1 && settings.budget_bytes == 0)
    columns.push_back(
        column("with a 64M budget", {placement::Settings::auto_cluster, false, 64 << 20}));
  std::printf(
      "planned, not measured: %llu ranks on %d node%s, %u on each, with %u data server%s a node; "
      "a rank talks to %s\n"
      "SKERRY_CLUSTER_SIZE=%s, SKERRY_SERVER_BUDGET=%s, SKERRY_SHARE=%d, fabric %s: %llu bytes an "
      "idle connection\n\n",
      static_cast<unsigned long long>(o.nodes * o.per_node), shape.nodes,
      shape.nodes == 1 ? "" : "s", shape.ranks_per_node, shape.servers,
      shape.servers == 1 ? "" : "s", o.talks == 0 ? "all nodes" : concat(o.talks, " nodes").c_str(),
      cluster_size_name(config.cluster_size).c_str(),
      bytes_name(settings.budget_bytes).c_str(), config.share ? 1 : 0,
      config.fabric.c_str(), static_cast<unsigned long long>(each.connection));
  print(columns);
  if (const placement::Remark remark = placement::remark(shape, settings, each.connection);
      remark.weight != 0)
    std::printf("\n%s\n", remark.text.c_str());
  if (const std::string set = caps(config); !set.empty())
    std::printf("\nnot in this plan: %s, which may leave fewer connections\n", set.c_str());
  return o.json.empty() ? Status() : write(o, shape, each.connection, columns);
}

int complain(const Status& status) {
  std::fprintf(stderr, "skerry info: %s\n", status.message().c_str());
  return 2;
}

}  // namespace
}  // namespace skerry::planner

int main(int count, char** arguments) {
  using namespace skerry::planner;
  Options o;
  if (const skerry::Status status = parse({arguments + 1, arguments + count}, &o); !status.ok())
    return complain(status);
  if (o.help) return std::fputs(help_text, stdout), 0;
  const skerry::Status status = run(o);
  return status.ok() ? 0 : complain(status);
}
