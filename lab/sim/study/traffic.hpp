// Which ranks talk to each other. The sequence of a rank's partners follows from (seed, rank)
// alone, never from timing or from the connection policy: every policy, and the optimum, sees the
// same trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/pure/status.hpp"
#include "sim/random.hpp"

namespace skerry::sim {

enum class Pattern : uint8_t {
  uniform,  // each request to any partner
  pool,   // task pool: a shared counter, then blocks from the partners of the moment, results back
          // to two of them
  steal,  // work stealing: tries near nodes first, then anybody
  neighbour,   // halo exchange on a torus of nodes, now and then somebody far
  collective,  // phases: in each a new set of partners, between them a tree of nodes
  trace,       // a file
};
std::string_view to_string(Pattern pattern);

struct TrafficConfig {
  Pattern pattern = Pattern::pool;
  uint32_t ranks = 2048;
  uint32_t per_node = 4;
  uint32_t tasks = 100;       // of each rank; a task is one or more requests
  uint32_t reads = 4;         // blocks got per task (pool, collective)
  uint32_t writes = 2;        // results accumulated per task
  uint32_t partners_low = 0;  // size of a rank's set of partners in the whole run, drawn between
                              // these; 0: all nodes
  uint32_t partners_high = 0;
  uint32_t window_low = 0;  // of them, those it talks to at a time; the window moves on evenly. 0:
                            // all of them
  uint32_t window_high = 0;
  uint32_t stable_percent = 0;  // of the window: partners that stay in it for the whole run; the
                                // rest moves on
  uint32_t stable_uses_percent = 0;  // of the requests to the window, those that go to partners
                                     // that stay; 0: in proportion to their number
  double near_share = 0.8;           // steal: how many of the attempts go to near nodes
  uint32_t near_nodes = 8;           // steal: how many nodes are near
  uint32_t phase_tasks = 20;         // collective: tasks between two collectives
  int64_t think_ns = 1'000'000;      // mean computing per task, exponentially distributed
  uint32_t bytes = 4096;             // of a block
  std::string trace_file;  // or the prefix of files that end in .0, .1, ... (libskerry_recorder)
  uint64_t seed = 1;

  uint32_t nodes() const { return (ranks + per_node - 1) / per_node; }
  std::string json() const;
};

struct Request {
  uint32_t node;
  uint32_t bytes;
  uint32_t think_ns;  // computing before it
  // True (get, read-modify-write): the rank waits for the reply. False: source done at once.
  bool blocking;
};

// The requests of one rank, one after the other. Requests to the own node need no connection and
// are left out.
class Traffic {
 public:
  // Errors: config (a parameter that makes no sense, a trace that cannot be read).
  static Status check(TrafficConfig* config);
  Traffic(const TrafficConfig& config, uint32_t rank);
  bool next(Request* request);  // false: no more

 private:
  void draw_task();
  uint32_t partner();
  void add(uint32_t node, uint32_t bytes, bool blocking);

  const TrafficConfig* config_;
  Random random_;
  uint32_t rank_;
  uint32_t node_;
  uint32_t task_ = 0;
  uint32_t pool_ = 0;  // number of partners
  uint32_t window_ = 0;
  uint32_t stable_ = 0;  // of the window, the first so many of the pool stay; the rest of it moves
                         // over the rest of the pool
  uint32_t pool_start_ = 0;
  uint32_t pool_stride_ = 1;  // partner i is node (start + i * stride) mod nodes: a set without
                              // storing it
  uint32_t phase_start_ = 0;
  int64_t think_ = 0;           // computing not yet given to a request
  std::vector<Request> ready_;  // of the current task
  size_t taken_ = 0;
};

// Requests of a trace file by rank; see docs/simulator.md for the format.
Status load_trace(TrafficConfig* config);

}  // namespace skerry::sim
