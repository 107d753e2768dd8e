// The command line of `skerry run`, and which rank goes where. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/pure/status.hpp"
#include "launcher/plan.hpp"

namespace skerry::launcher {

struct Host {
  std::string name;
  int slots = 1;
};

struct RunOptions {
  int ranks = 0;  // 0: not said (with hosts: all their slots)
  int nodes = 0;  // 0: one per host
  int spares = 0;  // more ranks, which wait until they take the place of dead ones
  std::string elastic;  // a file of hosts that may be added while the job runs; empty: none
  bool prefix = false;
  std::vector<Host> hosts;  // empty: this machine
  std::string hostfile;     // empty: none; read into `hosts` by the caller
  std::string agent = "ssh";
  std::string remote_program;  // `skerry` on the other hosts; empty: the same path as here
  std::string interface;       // name or address agents connect to; empty: any
  std::vector<std::string> environment;  // "NAME=VALUE", or "NAME": the launcher's own
  int timeout_s = 0;                     // 0: none
  int start_timeout_s = 60;              // for the agents to connect
  int lease_ms = 5000;                   // a host that is silent for longer is lost
  Bind bind = Bind::none;
  bool help = false;
  std::vector<std::string> command;
};

// `words` follow "skerry run". Errors: config, naming the word and what to write instead.
Status parse_run_options(std::span<const std::string> words, RunOptions* options);
// "a:2,b" or the lines of a host file ("a:2", "a slots=2", "# comment"). A host named twice gets
// the sum. Errors: config.
Status parse_hosts(const std::string& text, std::vector<Host>* hosts);
Status parse_hostfile(const std::string& text, std::vector<Host>* hosts);
Status parse_host_lines(const std::string& text, std::vector<Host>* hosts);  // perhaps none
std::string run_help();

struct HostRanks {
  std::string host;
  std::vector<PlannedRank> ranks;  // never empty
};
struct Placement {
  int nodes = 0;  // with those that come later
  int ranks = 0;  // with spares, which come last
  std::vector<HostRanks> hosts;
  // Spares of hosts that come later: the last so many ranks, each `late_per_node` on a node.
  int late = 0, late_per_node = 1;
  // The node of a late rank.
  int late_node(int rank) const {
    return nodes - late / late_per_node + (rank - (ranks - late)) / late_per_node;
  }
};
// Fills in options->ranks if it was not said. `own_name` stands for this machine if no hosts were
// given. Errors: config (more nodes than ranks, too few slots, a node that would span hosts, late
// spares that fill no whole node).
Status place(RunOptions* options, const std::string& own_name, Placement* placement);

}  // namespace skerry::launcher
