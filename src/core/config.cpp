#include "core/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <vector>

#include "core/pure/bytes_name.hpp"
#include "core/pure/nearest.hpp"

namespace skerry {

namespace {

Status number(std::string_view name, std::string_view value, int64_t low, int64_t high,
              int64_t* out) {
  int64_t parsed = 0;
  const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (failed != std::errc() || end != value.data() + value.size() || parsed < low || parsed > high)
    return error(Code::config, name, "=", value, ": give a whole number from ", low, " to ", high);
  *out = parsed;
  return {};
}

// How variables set Config's members and are read back, for the table below.

using Access = Variable::Access;

template <auto member>
constexpr Access text{[](std::string_view, std::string_view value, Config* config) {
                        config->*member = value;
                        return Status();
                      },
                      [](const Config& config) { return config.*member; }};

template <auto member, int64_t low, int64_t high, int64_t unit = 1>
Status set_whole(std::string_view name, std::string_view value, Config* config) {
  int64_t parsed = 0;
  SKERRY_TRY(number(name, value, low, high, &parsed));
  auto& to = config->*member;
  to = static_cast<std::remove_reference_t<decltype(to)>>(parsed * unit);
  return {};
}

// A whole number from `low` to `high`, of things that are `unit` each.
template <auto member, int64_t low, int64_t high, int64_t unit = 1>
constexpr Access whole{set_whole<member, low, high, unit>, [](const Config& config) {
                         return std::to_string(static_cast<int64_t>(config.*member) / unit);
                       }};

template <auto member>
constexpr auto seconds = whole<member, 1, 86400, 1'000'000'000>;
template <auto member>
constexpr auto connections = whole<member, 0, 1 << 24>;

template <auto member>
constexpr Access flag{[](std::string_view name, std::string_view value, Config* config) {
                        if (value != "0" && value != "1")
                          return error(Code::config, name, "=", value, ": give 0 or 1");
                        config->*member = value == "1";
                        return Status();
                      },
                      [](const Config& config) { return std::string(config.*member ? "1" : "0"); }};

Status set_fabric(std::string_view name, std::string_view value, Config* config) {
  if (value != "tcp" && value != "ofi" && !value.starts_with("ofi:"))
    return error(Code::config, name, "=", value,
                 ": give tcp, ofi or ofi:PROVIDER (such as ofi:verbs)");
  config->fabric = value;
  return {};
}

Status set_shared_receives(std::string_view name, std::string_view value, Config* config) {
  if (value != "auto" && value != "0")
    return error(Code::config, name, "=", value, ": give auto or 0");
  config->shared_receives = value == "auto";
  return {};
}

Status set_nodes(std::string_view name, std::string_view value, Config* config) {
  return value.empty() ? Status() : set_whole<&Config::nodes, 1, INT32_MAX>(name, value, config);
}

Status set_cluster(std::string_view name, std::string_view value, Config* config) {
  if (value == "auto") config->cluster_size = Config::cluster_auto;
  else if (value == "sqrt") config->cluster_size = Config::cluster_sqrt;
  else if (!set_whole<&Config::cluster_size, 1, INT32_MAX>(name, value, config).ok())
    return error(Code::config, name, "=", value, ": give a number of nodes from 1, sqrt or auto");
  return {};
}

Status set_servers(std::string_view name, std::string_view value, Config* config) {
  if (value == "auto") config->servers = Config::servers_auto;
  else if (!set_whole<&Config::servers, 1, Config::most_servers>(name, value, config).ok())
    return error(Code::config, name, "=", value, ": give a number of data servers from 1 to ",
                 Config::most_servers, ", or auto: one for every 16 processors");
  return {};
}

// A whole number, or one with a unit (*unit_given).
Status parse_bytes(std::string_view name, std::string_view value, uint64_t* bytes,
                   bool* unit_given = nullptr) {
  constexpr std::string_view units = "KMG";
  const size_t unit = value.empty() ? std::string_view::npos : units.find(value.back());
  const bool has_unit = unit != std::string_view::npos;
  const int shift = has_unit ? 10 * (static_cast<int>(unit) + 1) : 0;
  const std::string_view digits = value.substr(0, value.size() - (has_unit ? 1 : 0));
  int64_t parsed = 0;
  if (!number(name, digits, 0, INT64_MAX >> shift, &parsed).ok())
    return error(Code::config, name, "=", value,
                 ": give a whole number of bytes, or one with K, M or G behind it, such as 64M");
  *bytes = static_cast<uint64_t>(parsed) << shift;
  if (unit_given != nullptr) *unit_given = has_unit;
  return {};
}

Status set_reserve(std::string_view name, std::string_view value, Config* config) {
  if (value != "auto") return parse_bytes(name, value, &config->reserve_bytes);
  config->reserve_bytes = Config::reserve_auto;
  return {};
}

Status set_budget(std::string_view name, std::string_view value, Config* config) {
  return parse_budget(name, value, &config->server_budget_bytes);
}

Status set_check(std::string_view name, std::string_view value, Config* config) {
  if (value == "0") config->check = Config::Check::off;
  else if (value == "1") config->check = Config::Check::skerry;
  else if (value == "mpi") config->check = Config::Check::mpi;
  else
    return error(Code::config, name, "=", value,
                 ": give 0, 1 (mistakes in windows), or mpi (also what MPI alone forbids)");
  return {};
}

constexpr Access fabric{set_fabric, [](const Config& config) { return config.fabric; }};
constexpr Access shared_receives{set_shared_receives, [](const Config& config) {
                                   return std::string(config.shared_receives ? "auto" : "0");
                                 }};
constexpr Access nodes{set_nodes, [](const Config& config) {
                         return config.nodes == 0 ? "" : std::to_string(config.nodes);
                       }};
constexpr Access cluster{
    set_cluster, [](const Config& config) { return cluster_size_name(config.cluster_size); }};
// What auto comes to on this machine: ranks of one node agree, whichever they were given.
constexpr Access servers{set_servers,
                         [](const Config& config) { return std::to_string(servers_of(config)); }};
constexpr Access budget{
    set_budget, [](const Config& config) { return bytes_name(config.server_budget_bytes); }};
constexpr Access reserve{set_reserve, [](const Config& config) {
                           return config.reserve_bytes == Config::reserve_auto
                                      ? "auto"
                                      : bytes_name(config.reserve_bytes);
                         }};
constexpr Access check{set_check, [](const Config& config) {
                         return std::string(config.check == Config::Check::off      ? "0"
                                            : config.check == Config::Check::skerry ? "1"
                                                                                    : "mpi");
                       }};

constexpr auto by_job = Agreement::job, by_node = Agreement::node, by_rank = Agreement::rank;
constexpr Variable known[] = {
    {"SKERRY_FABRIC", "tcp", by_job,
     "what carries bytes between nodes: tcp (native), ofi (libfabric), ofi:PROVIDER", fabric},
    {"SKERRY_INTERFACE", "", by_rank,
     "name or address of the network interface to use; empty: chosen",
     text<&Config::interface>},
    {"SKERRY_SHARED_RECEIVES", "auto", by_job,
     "auto: connections of ofi receive into one pool of buffers where the provider can do that; 0: "
     "each has its own",
     shared_receives},
    {"SKERRY_POLL_US", "2000", by_node,
     "microseconds after which an ofi fabric looks again at the latest, where the provider has no "
     "descriptor to wait for (10 to 100000)",
     whole<&Config::poll_us, 10, 100000>},
    {"SKERRY_SLOTS", "256", by_node,
     "requests of one rank that may await a reply at once (16 to 65536)",
     whole<&Config::slots, 16, 65536>},
    {"SKERRY_CONNECT_TIMEOUT", "20", by_rank, "seconds after which an attempt to connect fails",
     seconds<&Config::connect_timeout_ns>},
    {"SKERRY_MAX_CONN", "0", by_rank,
     "connections of one process to data servers, at most (one more may be closing); 0: no limit",
     connections<&Config::max_connections>},
    {"SKERRY_VICTIM", "lru", by_rank, "policy that chooses which connection is closed at a limit",
     text<&Config::victim>},
    {"SKERRY_SERVER_MAX_CONN", "0", by_job,
     "connections that one data server keeps, at most; 0: no limit",
     connections<&Config::server_max_connections>},
    {"SKERRY_SHARE", "0", by_job,
     "1: the processes of a node share connections to other nodes, through its data server",
     flag<&Config::share>},
    {"SKERRY_NODE_MAX_CONN", "0", by_job,
     "with SKERRY_SHARE=1 or clusters: connections of one node's data server to others, at most; "
     "0: no limit",
     connections<&Config::node_max_connections>},
    {"SKERRY_CLUSTER_SIZE", "auto", by_job,
     "nodes whose data servers form a cluster, which a client reaches through one of them: a "
     "number, sqrt (of the number of nodes), or auto: 1 unless SKERRY_SERVER_BUDGET asks for more",
     cluster},
    {"SKERRY_SERVERS", "1", by_node,
     "data servers of a node, 1 to 8, each with its own share of the ranks of other nodes; auto: "
     "one for every 16 processors",
     servers},
    {"SKERRY_SERVER_BUDGET", "0", by_job,
     "bytes that a node's data servers may take for their connections and what they pass on, such "
     "as 64M, 160K at least; 0: no budget",
     budget},
    {"SKERRY_RESERVE", "auto", by_rank,
     "bytes of freed segments, arrays and windows that a rank keeps for its next ones until "
     "somebody needs the memory, such as 64M; auto: of a 32nd of its machine's or container's "
     "memory an equal share of each rank; 0: none",
     reserve},
    {"SKERRY_LOCK", "auto", by_job,
     "protocol of windows' locks: fair, migrating[:always|hysteresis|history], LIBRARY.so:NAME; "
     "auto: migrating for allocated windows between nodes whose adapters have atomics, else fair",
     text<&Config::lock>},
    {"SKERRY_CHECK", "0", by_job,
     "1: find conflicting accesses and buffers used too early in windows; mpi: also what MPI alone "
     "forbids; 0: do not",
     check},
    {"SKERRY_COMPLETE_AT_ONCE", "0", by_rank,
     "1: puts, gets and updates of windows are complete when their call returns, for programs that "
     "rely on it; 0: when their epoch says so",
     flag<&Config::complete_at_once>},
    {"SKERRY_MOVE_GIVEN", "0", by_rank,
     "1: whole pages of memory given to windows become shared memory while the window lives; 0: "
     "they stay private",
     flag<&Config::move_given>},
    {"SKERRY_RECONNECT_TIMEOUT", "60", by_rank,
     "seconds for which a server may be unreachable before the job ends",
     seconds<&Config::reconnect_timeout_ns>},
    {"SKERRY_FAULTS", "", by_rank,
     "for tests, in builds with tests: breaks connections by chance, such as drop=100,seed=1 "
     "(drops per million messages)",
     text<&Config::faults>},
    {"SKERRY_COUNTERS", "0", by_job,
     "1: at the end rank 0 prints what all ranks did, as skerry run --counters asks for",
     flag<&Config::report_counters>},
    {"SKERRY_LOOK", "1", by_rank,
     "1: other processes of the same user may look at this one (skerry stacks, skerry top) also "
     "where the kernel lets only relatives do so; 0: they may not",
     flag<&Config::look>},
    {"SKERRY_BACKTRACE", "0", by_rank,
     "1: a rank that dies of a signal such as SIGSEGV or SIGABRT first prints its rank and a "
     "backtrace",
     flag<&Config::backtrace>},
    {"SKERRY_FREEZE", "0", by_rank,
     "1: such a rank then prints its host and process, and waits for a debugger",
     flag<&Config::freeze>},
    {"SKERRY_SILENCE_TIMEOUT", "30", by_rank,
     "seconds of unacknowledged data after which a silent host counts as dead",
     seconds<&Config::silence_timeout_ns>},
    {"SKERRY_PROGRESS_THREAD", "1", by_rank,
     "1: a helper thread moves non-blocking transfers while the program computes; 0: only Skerry "
     "calls do",
     flag<&Config::progress_thread>},
    {"SKERRY_NODES", "", by_job,
     "number of virtual nodes to split the ranks into when mpirun, srun or prterun started them; "
     "skerry run has --nodes",
     nodes},
    {"SKERRY_MPI", "1", by_rank,
     "0: windows of MPI programs stay with their MPI library (skerry mpi)"},
    {"SKERRY_MPI_EXPLAIN", "0", by_rank,
     "1: say of each window of MPI whether it is Skerry's, and why not"},
    // Set by `skerry run` for the processes it starts; not for users.
    {"SKERRY_RANK", "", by_rank, "set by skerry run: this process's rank"},
    {"SKERRY_SIZE", "", by_rank, "set by skerry run: number of ranks"},
    {"SKERRY_NODE", "", by_rank, "set by skerry run: number of this process's (virtual) node"},
    {"SKERRY_CONTROL_FD", "", by_rank,
     "set by skerry run: descriptor of the launcher's control socket"},
};

// All names begin alike: what follows is what a typo is in.
constexpr std::string_view prefix = "SKERRY_";

// The only known name that begins or ends with the words of `rest`, or with most of which `rest`
// begins: CLUSTER, BUDGET, MAX_CONNECTIONS. Empty if there is none, or if there are several.
std::string_view by_words(std::string_view rest, std::span<const std::string_view> rests) {
  std::string_view found;
  for (const std::string_view each : rests) {
    const bool shortened = each.starts_with(concat(rest, "_")) || each.ends_with(concat("_", rest));
    const bool lengthened = rest.starts_with(each) && 2 * each.size() >= rest.size();
    if (!shortened && !lengthened) continue;
    if (!found.empty()) return {};
    found = each;
  }
  return found;
}

Status unknown(std::string_view name) {
  std::vector<std::string_view> rests;
  for (const Variable& variable : known) rests.push_back(variable.name.substr(prefix.size()));
  const std::string_view rest = name.substr(prefix.size());
  std::string_view near = by_words(rest, rests);
  if (near.empty()) near = nearest(rest, rests);
  if (near.empty())
    return error(Code::config, "unknown variable ", name,
                 "; `skerry info --variables` lists those that are known, and variables of your "
                 "own may begin with SKERRY_USER_");
  return error(Code::config, "unknown variable ", name, "; did you mean ", prefix, near,
               "? (variables of your own may begin with SKERRY_USER_)");
}

}  // namespace

uint32_t servers_for_machine() {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<uint32_t>(std::clamp<long>(processors / 16, 1, Config::most_servers));
}

uint32_t servers_of(const Config& config) {
  return config.servers == Config::servers_auto ? servers_for_machine() : config.servers;
}

std::string settings_text(const Config& config, Agreement agreement) {
  static const Config fallback;
  std::string text;
  for (const Variable& variable : known)
    if (variable.agreement == agreement && variable.access.get != nullptr)
      if (const std::string value = variable.access.get(config);
          value != variable.access.get(fallback))
        text += concat(variable.name, "=", value, "\n");
  return text;
}

Difference difference(std::string_view one, std::string_view other, Agreement agreement) {
  // A variable that is not listed has its fallback.
  const auto value_in = [](std::string_view text, const Variable& variable) {
    for (; !text.empty(); text.remove_prefix(std::min(text.size(), text.find('\n') + 1))) {
      const std::string_view line = text.substr(0, text.find('\n'));
      if (line.starts_with(concat(variable.name, "="))) return line.substr(line.find('=') + 1);
    }
    return variable.fallback;
  };
  for (const Variable& variable : known)
    if (const std::string_view first = value_in(one, variable), second = value_in(other, variable);
        variable.agreement == agreement && first != second)
      return {variable.name, std::string(first), std::string(second)};
  return {};
}

Status parse_budget(std::string_view name, std::string_view value, uint64_t* budget_bytes) {
  uint64_t bytes = 0;
  bool has_unit = false;
  SKERRY_TRY(parse_bytes(name, value, &bytes, &has_unit));
  if (bytes != 0 && bytes < Config::least_server_budget_bytes)
    return error(Code::config, name, "=", value, " is ", bytes,
                 " bytes, and a node's data servers need ",
                 Config::least_server_budget_bytes / 1024, "K at least",
                 has_unit ? "" : concat(": did you mean ", value, "M?"), " (0: no budget)");
  *budget_bytes = bytes;
  return {};
}

std::string cluster_size_name(int32_t cluster_size) {
  if (cluster_size == Config::cluster_auto) return "auto";
  if (cluster_size == Config::cluster_sqrt) return "sqrt";
  return std::to_string(cluster_size);
}

std::span<const Variable> variables() { return known; }

Status read_config(const char* const* environment, Config* config) {
  Config read;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (!entry.starts_with(prefix) || entry.substr(0, 12) == "SKERRY_USER_") continue;
    const size_t equals = entry.find('=');
    const std::string_view name = entry.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view()
                                                                    : entry.substr(equals + 1);
    const auto* const variable = std::ranges::find(known, name, &Variable::name);
    if (variable == std::end(known)) return unknown(name);
    if (variable->access.set != nullptr) SKERRY_TRY(variable->access.set(name, value, &read));
  }
  const bool no_clusters = read.cluster_size == 1 || (read.cluster_size == Config::cluster_auto &&
                                                      read.server_budget_bytes == 0);
  if (read.node_max_connections != 0 && !read.share && no_clusters)
    return error(Code::config, "SKERRY_NODE_MAX_CONN=", read.node_max_connections,
                 " bounds the connections between data servers, and without clusters and sharing "
                 "there are none: set SKERRY_SHARE=1 or SKERRY_CLUSTER_SIZE, or bound each process "
                 "with SKERRY_MAX_CONN");
  *config = std::move(read);
  return {};
}

}  // namespace skerry
