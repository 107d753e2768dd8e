// The operation tests with ranks as threads of one process, so that ThreadSanitizer and
// AddressSanitizer see both ends of everything.
//
//   ops_threads [SECTION | all | some,names] [--ranks N] [--nodes N] [--threads N]
//     [--fabric tcp|loop|worst] [--seed N] [--rounds N] [--cap N] [--server-cap N]
//     [--victim POLICY] [--drop PER_MILLION] [--share] [--cluster N]
//     [--servers N,N...: of the nodes in turn] [--node-cap N]
//     [--budget BYTES: of data servers, and clusters that follow from it]
//     [--lock PROTOCOL] [--check 0|1|mpi] [--limit SECONDS: then it says where all threads are]
//
// The C interface is compiled in (src/capi), since a rank here is made by job::Job::start and not
// by skerry_init.
#include <sstream>
#include <thread>

#include "capi/handles.hpp"
#include "fabric/fabric.hpp"
#include "fabric/test/faults.hpp"
#include "fabric/test/loop/loop.hpp"
#include "job/bootstrap/test/thread_bootstrap.hpp"
#include "ops/check.hpp"
#include "threads/watchdog.hpp"

using namespace skerry;
using namespace skerry::test;

namespace {

Config::Check check_of(const std::string& word) {
  return word == "1"     ? Config::Check::skerry
         : word == "mpi" ? Config::Check::mpi
                         : Config::Check::off;
}

struct Choice {
  std::string wanted = "all";
  int ranks = 4;
  int nodes = 2;
  std::string fabric = "tcp";
  std::string victim = "lru";
  std::string lock = "fair";                 // protocol of windows' locks
  Config::Check check = Config::Check::off;  // debug mode of windows
  uint32_t cap = 0;                          // connections per process; 0: no limit
  uint32_t server_cap = 0;                   // connections per data server; 0: no limit
  bool share = false;
  int32_t cluster = 1;
  std::vector<uint32_t> servers = {1};  // of the nodes, in turn
  uint64_t budget_bytes = 0;            // of a node's data servers; 0: none
  uint32_t node_cap = 0;                // shared connections per node; 0: no limit
  uint32_t drop = 0;                    // connections broken per million messages
  std::chrono::seconds limit{540};      // shorter than ctest's
  Context context;
};

std::vector<uint32_t> numbers_of(const std::string& list) {
  std::istringstream words(list);
  std::vector<uint32_t> all;
  for (std::string word; std::getline(words, word, ',');)
    all.push_back(static_cast<uint32_t>(std::stoul(word)));
  return all;
}

int put_freed(skerry_job* job, int target, const void* origin, uint64_t bytes) {
  origin::Side from, to;
  from.base = static_cast<std::byte*>(const_cast<void*>(origin));
  from.bytes = to.bytes = bytes;
  const SegmentId never_allocated{0, 0x7fff'ffff};
  return capi::done(capi::of(job)->engine().issue(
      origin::Access::put({target, never_allocated}, to, from, origin::Mode::blocking)));
}

void run_rank(const Choice& choice, std::unique_ptr<job::Bootstrap> bootstrap,
              const job::FabricMaker& make_fabric) {
  job::JobOptions options;
  options.config.huge_pages = false;
  options.config.slots = 32;  // so that running out of slots is part of every run
  options.config.max_connections = choice.cap;
  options.config.server_max_connections = choice.server_cap;
  options.config.victim = choice.victim;
  options.config.lock = choice.lock;
  options.config.check = choice.check;
  options.config.share = choice.share;
  options.config.cluster_size = choice.cluster;
  const auto node = static_cast<size_t>(bootstrap->node_hint().value_or(0));
  options.config.servers = choice.servers[node % choice.servers.size()];
  options.config.server_budget_bytes = choice.budget_bytes;
  if (choice.budget_bytes != 0) options.config.cluster_size = Config::cluster_auto;
  options.config.node_max_connections = choice.node_cap;
  if (choice.drop != 0)
    options.config.faults = concat("drop=", choice.drop, ",seed=", choice.context.seed);
  if (choice.context.threads > 1) options.thread_level = job::ThreadLevel::multiple;
  std::unique_ptr<job::Job> job;
  const Status started = job::Job::start(std::move(bootstrap), options, make_fabric, &job);
  if (!started.ok()) fail(__FILE__, __LINE__, started.message());
  Context context = choice.context;
  context.as_threads = true;
  context.fair_locks = choice.lock == "fair";
  context.put_freed = put_freed;
  context.job = capi::to(job.release());
  context.rank = skerry_rank(context.job);
  context.size = skerry_size(context.job);
  context.nodes = skerry_node_count(context.job);
  std::istringstream words(choice.wanted);
  std::vector<std::string> names;
  for (std::string name; std::getline(words, name, ',');) names.push_back(name);
  for (const Section* section = sections; section->name != nullptr; ++section) {
    bool chosen = false;
    for (const std::string& name : names)
      chosen = chosen || name == section->name || (name == "all" && section->by_default);
    if (!chosen) continue;
    section->run(context);
    OK(skerry_sync(context.world()));
    if (context.rank == 0) {
      std::printf("%s: right\n", section->name);
      std::fflush(stdout);
    }
  }
  OK(skerry_finalize(context.job));
}

}  // namespace

int main(int argc, char** argv) {
  Choice choice;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto next = [&] { return std::string(i + 1 < argc ? argv[++i] : "0"); };
    const auto number = [&] { return std::strtoull(next().c_str(), nullptr, 0); };
    if (word == "--ranks") choice.ranks = static_cast<int>(number());
    else if (word == "--nodes") choice.nodes = static_cast<int>(number());
    else if (word == "--fabric") choice.fabric = next();
    else if (word == "--victim") choice.victim = next();
    else if (word == "--lock") choice.lock = next();
    else if (word == "--check") choice.check = check_of(next());
    else if (word == "--cap") choice.cap = static_cast<uint32_t>(std::stoul(next()));
    else if (word == "--server-cap") choice.server_cap = static_cast<uint32_t>(std::stoul(next()));
    else if (word == "--share") choice.share = true;
    else if (word == "--cluster") choice.cluster = static_cast<int32_t>(number());
    else if (word == "--servers") choice.servers = numbers_of(next());
    else if (word == "--budget") choice.budget_bytes = number();
    else if (word == "--node-cap") choice.node_cap = static_cast<uint32_t>(std::stoul(next()));
    else if (word == "--drop") choice.drop = static_cast<uint32_t>(std::stoul(next()));
    else if (word == "--threads") choice.context.threads = static_cast<int>(number());
    else if (word == "--seed") choice.context.seed = number();
    else if (word == "--limit") choice.limit = std::chrono::seconds(number());
    else if (word == "--rounds") choice.context.rounds = static_cast<int>(number());
    else choice.wanted = word;
  }
  const Watchdog watchdog(choice.limit);
  auto capabilities = choice.fabric == "worst"
                          ? fabric::LoopCapabilities::worst(choice.context.seed)
                          : fabric::LoopCapabilities{};
  const auto network = fabric::make_loop_network(capabilities);
  const job::FabricMaker make_fabric = [&](const fabric::Options& options,
                                           std::unique_ptr<fabric::Fabric>* fabric) {
    SKERRY_TRY(choice.fabric == "tcp" ? fabric::make_tcp_fabric(options, fabric)
                                      : fabric::make_loop_fabric(network, options, fabric));
    return options.faults.empty() ? Status() : fabric::add_faults(options, fabric);
  };
  auto bootstraps = job::make_thread_bootstraps(choice.ranks, choice.nodes);
  std::vector<std::thread> ranks;
  for (auto& bootstrap : bootstraps)
    ranks.emplace_back([&choice, &make_fabric, b = std::move(bootstrap)]() mutable {
      run_rank(choice, std::move(b), make_fabric);
    });
  for (auto& rank : ranks) rank.join();
  return 0;
}
