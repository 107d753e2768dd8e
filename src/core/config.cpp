#include "core/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "core/pure/nearest.hpp"

namespace skerry {

namespace {

constexpr Variable known[] = {
    {"SKERRY_FABRIC", "tcp",
     "what carries bytes between nodes: tcp (native), ofi (libfabric), ofi:PROVIDER"},
    {"SKERRY_INTERFACE", "", "name or address of the network interface to use; empty: chosen"},
    {"SKERRY_SHARED_RECEIVES", "auto",
     "auto: connections of ofi receive into one pool of buffers where the provider can do that; 0: "
     "each has its own"},
    {"SKERRY_SLOTS", "256", "requests of one rank that may await a reply at once (16 to 65536)"},
    {"SKERRY_CONNECT_TIMEOUT", "20", "seconds after which an attempt to connect fails"},
    {"SKERRY_MAX_CONN", "0",
     "connections of one process to data servers, at most (one more may be closing); 0: no limit"},
    {"SKERRY_VICTIM", "lru", "policy that chooses which connection is closed at a limit"},
    {"SKERRY_SERVER_MAX_CONN", "0", "connections that one data server keeps, at most; 0: no limit"},
    {"SKERRY_SHARE", "0",
     "1: the processes of a node share connections to other nodes, through its data server"},
    {"SKERRY_NODE_MAX_CONN", "0",
     "with SKERRY_SHARE=1 or clusters: connections of one node's data server to others, at most; "
     "0: no limit"},
    {"SKERRY_CLUSTER_SIZE", "auto",
     "nodes whose data servers form a cluster, which a client reaches through one of them: a "
     "number, sqrt (of the number of nodes), or auto: 1 unless SKERRY_SERVER_BUDGET asks for more"},
    {"SKERRY_SERVERS", "1",
     "data servers of a node, 1 to 8, each with its own share of the ranks of other nodes; auto: "
     "one for every 16 processors"},
    {"SKERRY_SERVER_BUDGET", "0",
     "bytes that a node's data servers may take for their connections and what they pass on, such "
     "as 64M, 160K at least; 0: no budget"},
    {"SKERRY_LOCK", "fair",
     "protocol of windows' locks: fair, migrating[:always|hysteresis|history], or LIBRARY.so:NAME"},
    {"SKERRY_CHECK", "0",
     "1: find conflicting accesses and buffers used too early in windows; mpi: also what MPI alone "
     "forbids; 0: do not"},
    {"SKERRY_MOVE_GIVEN", "0",
     "1: whole pages of memory given to windows become shared memory while the window lives; 0: "
     "they stay private"},
    {"SKERRY_RECONNECT_TIMEOUT", "60",
     "seconds for which a server may be unreachable before the job ends"},
    {"SKERRY_FAULTS", "",
     "for tests, in builds with tests: breaks connections by chance, such as drop=100,seed=1 "
     "(drops "
     "per million messages)"},
    {"SKERRY_COUNTERS", "0",
     "1: at the end rank 0 prints what all ranks did, as skerry run --counters asks for"},
    {"SKERRY_LOOK", "1",
     "1: other processes of the same user may look at this one (skerry stacks, skerry top) also "
     "where the kernel lets only relatives do so; 0: they may not"},
    {"SKERRY_BACKTRACE", "0",
     "1: a rank that dies of a signal such as SIGSEGV or SIGABRT first prints its rank and a "
     "backtrace"},
    {"SKERRY_FREEZE", "0",
     "1: such a rank then prints its host and process, and waits for a debugger"},
    {"SKERRY_SILENCE_TIMEOUT", "30",
     "seconds of unacknowledged data after which a silent host counts as dead"},
    {"SKERRY_PROGRESS_THREAD", "1",
     "1: a helper thread moves non-blocking transfers while the program computes; 0: only Skerry "
     "calls do"},
    {"SKERRY_NODES", "",
     "number of virtual nodes to split the ranks into when mpirun, srun or prterun started them; "
     "skerry run has --nodes"},
    {"SKERRY_MPI", "1", "0: windows of MPI programs stay with their MPI library (skerry mpi)"},
    {"SKERRY_MPI_EXPLAIN", "0", "1: say of each window of MPI whether it is Skerry's, and why not"},
    // Set by `skerry run` for the processes it starts; not for users.
    {"SKERRY_RANK", "", "set by skerry run: this process's rank"},
    {"SKERRY_SIZE", "", "set by skerry run: number of ranks"},
    {"SKERRY_NODE", "", "set by skerry run: number of this process's (virtual) node"},
    {"SKERRY_CONTROL_FD", "", "set by skerry run: descriptor of the launcher's control socket"},
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

Status number(std::string_view name, std::string_view value, int64_t low, int64_t high,
              int64_t* out) {
  int64_t parsed = 0;
  const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (failed != std::errc() || end != value.data() + value.size() || parsed < low || parsed > high)
    return error(Code::config, name, "=", value, ": give a whole number from ", low, " to ", high);
  *out = parsed;
  return {};
}

Status flag(std::string_view name, std::string_view value, bool* out) {
  if (value != "0" && value != "1") return error(Code::config, name, "=", value, ": give 0 or 1");
  *out = value == "1";
  return {};
}

// A whole number of bytes, or of KiB, MiB, GiB.
Status bytes(std::string_view name, std::string_view value, uint64_t* out) {
  constexpr std::string_view units = "KMG";
  const size_t unit = value.empty() ? std::string_view::npos : units.find(value.back());
  const std::string_view digits = value.substr(
      0, value.size() - (unit == std::string_view::npos ? 0 : 1));
  const int shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  int64_t parsed = 0;
  if (!number(name, digits, 0, INT64_MAX >> shift, &parsed).ok())
    return error(Code::config, name, "=", value,
                 ": give a whole number of bytes, or one with K, M or G behind it, such as 64M");
  *out = static_cast<uint64_t>(parsed) << shift;
  return {};
}

Status cluster(std::string_view name, std::string_view value, int32_t* out) {
  int64_t parsed = 0;
  if (value == "auto") *out = Config::cluster_auto;
  else if (value == "sqrt") *out = Config::cluster_sqrt;
  else if (number(name, value, 1, INT32_MAX, &parsed).ok()) *out = static_cast<int32_t>(parsed);
  else
    return error(Code::config, name, "=", value, ": give a number of nodes from 1, sqrt or auto");
  return {};
}

Status servers(std::string_view name, std::string_view value, uint32_t* out) {
  int64_t parsed = 0;
  if (value == "auto") *out = Config::servers_auto;
  else if (number(name, value, 1, Config::most_servers, &parsed).ok())
    *out = static_cast<uint32_t>(parsed);
  else
    return error(Code::config, name, "=", value, ": give a number of data servers from 1 to ",
                 Config::most_servers, ", or auto: one for every 16 processors");
  return {};
}

Status check(std::string_view value, Config::Check* out) {
  if (value == "0") *out = Config::Check::off;
  else if (value == "1") *out = Config::Check::skerry;
  else if (value == "mpi") *out = Config::Check::mpi;
  else
    return error(Code::config, "SKERRY_CHECK=", value,
                 ": give 0, 1 (mistakes in windows), or mpi (also what MPI alone forbids)");
  return {};
}

constexpr std::pair<std::string_view, bool Config::*> flags[] = {
    {"SKERRY_PROGRESS_THREAD", &Config::progress_thread},
    {"SKERRY_MOVE_GIVEN", &Config::move_given},
    {"SKERRY_SHARE", &Config::share},
    {"SKERRY_COUNTERS", &Config::report_counters},
    {"SKERRY_LOOK", &Config::look},
    {"SKERRY_BACKTRACE", &Config::backtrace},
    {"SKERRY_FREEZE", &Config::freeze},
};

Status set(std::string_view name, std::string_view value, Config* config) {
  int64_t parsed = 0;
  for (const auto& [flag_name, member] : flags)
    if (name == flag_name) return flag(name, value, &(config->*member));
  if (name == "SKERRY_FABRIC") {
    if (value != "tcp" && value != "ofi" && value.substr(0, 4) != "ofi:")
      return error(Code::config, "SKERRY_FABRIC=", value,
                   ": give tcp, ofi or ofi:PROVIDER (such as ofi:verbs)");
    config->fabric = value;
  } else if (name == "SKERRY_INTERFACE") {
    config->interface = value;
  } else if (name == "SKERRY_SHARED_RECEIVES") {
    if (value != "auto" && value != "0")
      return error(Code::config, "SKERRY_SHARED_RECEIVES=", value, ": give auto or 0");
    config->shared_receives = value == "auto";
  } else if (name == "SKERRY_SLOTS") {
    SKERRY_TRY(number(name, value, 16, 65536, &parsed));
    config->slots = static_cast<uint32_t>(parsed);
  } else if (name == "SKERRY_NODES") {
    if (value.empty()) return {};
    SKERRY_TRY(number(name, value, 1, INT32_MAX, &parsed));
    config->nodes = static_cast<int32_t>(parsed);
  } else if (name == "SKERRY_MAX_CONN") {
    SKERRY_TRY(number(name, value, 0, 1 << 24, &parsed));
    config->max_connections = static_cast<uint32_t>(parsed);
  } else if (name == "SKERRY_SERVER_MAX_CONN") {
    SKERRY_TRY(number(name, value, 0, 1 << 24, &parsed));
    config->server_max_connections = static_cast<uint32_t>(parsed);
  } else if (name == "SKERRY_VICTIM") {
    config->victim = value;
  } else if (name == "SKERRY_LOCK") {
    config->lock = value;
  } else if (name == "SKERRY_CHECK") {
    SKERRY_TRY(check(value, &config->check));
  } else if (name == "SKERRY_NODE_MAX_CONN") {
    SKERRY_TRY(number(name, value, 0, 1 << 24, &parsed));
    config->node_max_connections = static_cast<uint32_t>(parsed);
  } else if (name == "SKERRY_CLUSTER_SIZE") {
    SKERRY_TRY(cluster(name, value, &config->cluster_size));
  } else if (name == "SKERRY_SERVERS") {
    SKERRY_TRY(servers(name, value, &config->servers));
  } else if (name == "SKERRY_SERVER_BUDGET") {
    SKERRY_TRY(parse_budget(name, value, &config->server_budget_bytes));
  } else if (name == "SKERRY_FAULTS") {
    config->faults = value;
  } else if (name == "SKERRY_RECONNECT_TIMEOUT") {
    SKERRY_TRY(number(name, value, 1, 86400, &parsed));
    config->reconnect_timeout_ns = parsed * 1'000'000'000;
  } else if (name == "SKERRY_CONNECT_TIMEOUT") {
    SKERRY_TRY(number(name, value, 1, 86400, &parsed));
    config->connect_timeout_ns = parsed * 1'000'000'000;
  } else if (name == "SKERRY_SILENCE_TIMEOUT") {
    SKERRY_TRY(number(name, value, 1, 86400, &parsed));
    config->silence_timeout_ns = parsed * 1'000'000'000;
  }
  return {};
}

}  // namespace

uint32_t servers_for(uint32_t processors) {
  return std::clamp<uint32_t>(processors / 16, 1, Config::most_servers);
}

uint32_t servers_for_machine() {
  return servers_for(static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
}

Status parse_budget(std::string_view name, std::string_view value, uint64_t* budget_bytes) {
  uint64_t parsed = 0;
  SKERRY_TRY(bytes(name, value, &parsed));
  if (parsed != 0 && parsed < Config::least_server_budget_bytes) {
    const bool has_unit = value.back() < '0' || value.back() > '9';
    return error(Code::config, name, "=", value, " is ", parsed,
                 " bytes, and a node's data servers need ",
                 Config::least_server_budget_bytes / 1024, "K at least",
                 has_unit ? "" : concat(": did you mean ", value, "M?"), " (0: no budget)");
  }
  *budget_bytes = parsed;
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
    if (std::none_of(std::begin(known), std::end(known),
                     [&](const Variable& v) { return v.name == name; }))
      return unknown(name);
    SKERRY_TRY(set(name, value, &read));
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
