// What one storm is like. Everything follows from the seed.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/config.hpp"
#include "sim/rules.hpp"
#include "placement/routes.hpp"
#include "sim/fabric/network.hpp"

namespace skerry::sim {

// Faults of the product that a storm has found and that are not mended yet: seeds draw no job that
// meets them, so that the storm finds others. Mended ones are taken from `known_defects`, and
// test/storm_test.cpp then expects that their storms hold.
enum class Defect : uint8_t {
  drain_not_noticed,    // a late reply's acknowledgement ends a drain that nobody looks for
  record_parks_unlock,  // a lock request that finds no waiter's record stops the unlock behind it
  waiting_is_unreachable,  // waiting for a slot at a live server counts as the server being dead
  refusal_lost,            // the refusal of a one-way request is lost in a break
  leaving_beyond_limit,    // connections that servers asked for leave beside the one that may
  refusal_overtakes,       // a refusal told again confirms results that are not here yet
  lock_outlives_job,  // a rank that waits for a mutex without a connection misses the end of the
                      // job
};
constexpr uint8_t defects = 7;
std::string_view to_string(Defect defect);
bool is_known(Defect defect);

// Do the ranks of a node share connections?
enum class Share : uint8_t {
  none,
  unlimited,  // as many trunks as their channels need
  limited,    // at most StormConfig::cap of them
};
std::string_view to_string(Share share);

struct StormConfig {
  uint64_t seed = 0;
  // The job.
  uint32_t nodes = 2;
  uint32_t ranks_per_node = 1;
  uint32_t threads = 1;  // of each rank
  uint32_t cap = 0;      // connections of a rank, or of a node's data server (share); 0: no limit
  uint32_t servers = 1;  // data servers of a node
  uint32_t server_cap = 0;  // connections that a data server accepts; 0: no limit
  Share share = Share::none;
  uint32_t cluster = 1;     // nodes in a cluster of data servers
  uint64_t pool_bytes = 0;  // of a data server, for what it passes on; 0: no limit
  // Channels that a data server passes on: one to eight with the smallest pools to the largest.
  uint32_t max_passing() const {
    return pool_bytes == 0 ? 0 : static_cast<uint32_t>(std::bit_width(pool_bytes >> 11));
  }
  bool trunks_limited = false;  // clusters without shared connections: `cap` bounds a server's too
  // Of a server's connection to another one that no channel uses any more.
  int64_t unused_trunk_ns = 1'000'000'000;
  bool helper = true;
  std::string victim = "lru";
  uint32_t slots = 64;
  uint32_t waiters = 64;  // records for requesters that wait for a node's mutexes
  int64_t connect_timeout_ns = 20'000'000'000;
  int64_t reconnect_limit_ns = 60'000'000'000;
  // The programs.
  uint32_t operations = 30;      // of each thread
  uint32_t area_bytes = 512;     // of each thread in each rank's memory
  uint32_t sums = 4;             // numbers of each thread there that it accumulates to, or updates
  uint32_t lock_percent = 15;    // of the operations
  uint32_t shared_percent = 0;   // of the locks: taken to read what others may read, too
  uint32_t at_once_percent = 0;  // of the locks: asked for by the access, in one message
  uint32_t sweep_percent = 0;    // of the locks: several are shared at a time
  bool hot_lock = false;         // most of them are the same one
  uint32_t refused_percent = 0;  // unlocks of mutexes that are not held
  bool limits_change = false;
  bool stripes_held = false;
  bool guards_held = false;  // of the queues of locks, and stripes
  // The network, and what goes wrong.
  NetworkOptions network;
  int64_t fault_interval_ns = 0;  // mean time between faults while they last; 0: none
  int64_t faults_last_ns = 3'000'000;
  bool pauses = false;      // processes stop for a while
  bool hosts_pause = true;  // also those in which a data server runs
  bool death = false;       // a process dies, and the job ends
  uint32_t deaths = 0;      // so many times somebody dies, and the others go on; then no `death`
  // The schedule.
  uint32_t give_way = 64;
  int64_t step_ns = 300;

  bool compare_swaps = false;  // among the operations of the programs
  bool updates = false;        // likewise, fetching ones too
  uint32_t
      row_percent = 0;  // of the operations: several small ones in a row, which travel together

  uint32_t window_percent = 0;  // of the operations: epochs on windows
  uint32_t register_words = 1;  // of each thread in each rank's memory, which these write and read

  Rule left_out = Rule::none;

  // Drawn from the seed, so that a thousand seeds are a thousand different jobs.
  static StormConfig of_seed(uint64_t seed);
  // One in which somebody dies and the others go on.
  static StormConfig with_deaths(uint64_t seed);
  static StormConfig without_clusters(uint64_t seed);
  // A storm that meets the defect, mended or not.
  static StormConfig of_defect(Defect defect, uint64_t seed);
  std::string describe() const;
  placement::Routes routes() const {
    return {static_cast<NodeId>(nodes), static_cast<NodeId>(cluster), share != Share::none};
  }
  // Connections that a data server opens to others; 0: no limit.
  uint32_t trunk_cap() const { return share == Share::limited || trunks_limited ? cap : 0; }
  uint32_t ranks() const { return nodes * ranks_per_node; }
  uint32_t all_threads() const { return ranks() * threads; }
};

}  // namespace skerry::sim
