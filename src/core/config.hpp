// Configuration: the SKERRY_* variables, all in one table (docs/tuning.md shows the same),
// checked once at start. An unknown variable is an error that names the nearest known one;
// SKERRY_USER_* is free for others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/pure/status.hpp"

namespace skerry {

struct Config {
  std::string fabric = "tcp";   // SKERRY_FABRIC: tcp, ofi, ofi:PROVIDER
  std::string interface;        // SKERRY_INTERFACE: name or address to listen on; empty: choose
  bool shared_receives = true;  // SKERRY_SHARED_RECEIVES; false: "0"
  uint32_t poll_us = 2000;      // SKERRY_POLL_US
  bool huge_pages = true;       // no variable: tests with threads for ranks do without
  uint32_t slots = 256;         // SKERRY_SLOTS: requests of one rank that may await a reply at once
  // SKERRY_NODES: virtual nodes, if the launcher names none; 0: as memory is shared
  int32_t nodes = 0;
  int64_t connect_timeout_ns = 20'000'000'000;    // SKERRY_CONNECT_TIMEOUT, seconds
  int64_t silence_timeout_ns = 30'000'000'000;    // SKERRY_SILENCE_TIMEOUT, seconds
  int64_t reconnect_timeout_ns = 60'000'000'000;  // SKERRY_RECONNECT_TIMEOUT, seconds
  uint32_t max_connections = 0;                   // SKERRY_MAX_CONN: of each process; 0: no limit
  std::string victim = "lru";           // SKERRY_VICTIM: checked where the policies are known
  uint32_t server_max_connections = 0;  // SKERRY_SERVER_MAX_CONN: 0: no limit
  std::string lock = "auto";  // SKERRY_LOCK: protocol of windows' locks, checked in src/lock
  enum class Check : uint8_t { off, skerry, mpi };
  Check check = Check::off;  // SKERRY_CHECK: debug mode of windows
  bool complete_at_once = false;  // SKERRY_COMPLETE_AT_ONCE: accesses to windows
  bool move_given = false;   // SKERRY_MOVE_GIVEN: memory of created windows
  bool share = false;        // SKERRY_SHARE: through the node's data server
  // SKERRY_CLUSTER_SIZE: nodes in a cluster of data servers, or one of these two
  static constexpr int32_t cluster_auto = 0, cluster_sqrt = -1;
  int32_t cluster_size = cluster_auto;
  uint32_t servers = 1;  // SKERRY_SERVERS: data servers of a node
  static constexpr uint32_t servers_auto = 0, most_servers = 8;
  uint64_t server_budget_bytes = 0;  // SKERRY_SERVER_BUDGET: 0: none
  // Less does not pay for the sessions that a data server always keeps (src/job asserts it).
  static constexpr uint64_t least_server_budget_bytes = 160 * 1024;
  // SKERRY_NODE_MAX_CONN: only with share or clusters; 0: no limit
  uint32_t node_max_connections = 0;
  // SKERRY_RESERVE: pages of freed memory that a rank keeps for its next allocations
  static constexpr uint64_t reserve_auto = UINT64_MAX;
  uint64_t reserve_bytes = reserve_auto;
  std::string faults;            // SKERRY_FAULTS: for tests, read where it is used
  bool look = true;              // SKERRY_LOOK: at this process, by others of the same user
  bool backtrace = false;        // SKERRY_BACKTRACE: on a fatal signal
  bool freeze = false;           // SKERRY_FREEZE: on a fatal signal, after that
  bool report_counters = false;  // SKERRY_COUNTERS: rank 0 prints them at the end
  // SKERRY_PROGRESS_THREAD: a helper thread moves non-blocking transfers
  bool progress_thread = true;
};

// Reads `environment` (NAME=value, ended by null; usually ::environ). Errors: config (which
// variable, its value, what is allowed).
Status read_config(const char* const* environment, Config* config);

// `value` as SKERRY_SERVER_BUDGET has it: a whole number of bytes, or one with K, M or G behind it;
// 0: none. Errors: config (`name`, the value, what is allowed): also for less than
// least_server_budget_bytes.
Status parse_budget(std::string_view name, std::string_view value, uint64_t* budget_bytes);

// How many data servers a node has with SKERRY_SERVERS=auto, if it is as this machine.
uint32_t servers_for_machine();
// How many it has with this configuration, if it is as this machine.
uint32_t servers_of(const Config& config);

// As SKERRY_CLUSTER_SIZE names it.
std::string cluster_size_name(int32_t cluster_size);

// Whose values of a variable must be the same. They are compared when a job starts.
enum class Agreement : uint8_t {
  rank,  // nobody's: each rank goes by its own
  node,  // those of the ranks of a node: one of them sets up what all use
  job,   // those of all ranks
};

// One for each variable, for `skerry info`, the documentation check and the start of a job.
struct Variable {
  // Both null: others read the variable.
  struct Access {
    // Errors: config (the variable's name, the value, what is allowed).
    Status (*set)(std::string_view name, std::string_view value, Config* config) = nullptr;
    // Equal for values that mean the same.
    std::string (*get)(const Config& config) = nullptr;
  };
  std::string_view name;
  std::string_view fallback;
  Agreement agreement;
  std::string_view meaning;
  Access access = {};
};
std::span<const Variable> variables();

// What is set of the variables with this agreement, but for fallbacks: NAME=VALUE lines, equal for
// settings that mean the same.
std::string settings_text(const Config& config, Agreement agreement);

// The first variable with this agreement in which two ranks' settings_text differ, if each has its
// texts of node and job in a row. Empty name: none.
struct Difference {
  std::string_view name;
  std::string one, other;
};
Difference difference(std::string_view one, std::string_view other, Agreement agreement);

}  // namespace skerry
