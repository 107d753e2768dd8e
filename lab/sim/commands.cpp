#include "sim/commands.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "sim/report.hpp"
#include "sim/study/study.hpp"

namespace skerry::sim {
namespace {

constexpr const char* help_text =
    "usage: skerry-sim [run] [options]   one kind of traffic, any number of caps and policies\n"
    "       skerry-sim paper [options]   the jobs of the ACTS paper: 2048, 4096 and 6144 ranks, 4 "
    "on each node\n"
    "       skerry-sim locks [options]   one hot lock under each lock protocol, to 100,000 ranks "
    "(--help)\n"
    "       skerry-sim memory [options]  what a node keeps for jobs of up to a million ranks\n"
    "       skerry-sim routes [options]  routes through clusters of data servers, the same jobs\n"
    "       skerry-sim storm [options]   the protocol in a storm of faults, checked after every "
    "step\n\n"
    "Everything it prints is simulated. What it computes with, and what it cannot tell: "
    "docs/simulator.md.\n\n"
    "run and paper\n"
    "  --caps LIST          most connections of a rank, such as 128,32,4; 0: no limit "
    "(0,128,64,32,16,8,4)\n"
    "  --policies LIST      victim policies: lru,lru_m,... or optimum, which knows the future "
    "(all)\n"
    "  --protocol NAME      overlapped: the new connection opens while the victim closes; waiting: "
    "afterwards (overlapped)\n"
    "  --costs NAME|FILE    tcp, infiniband-2010, or a file of skerry-sim calibrate (run: tcp, "
    "paper: infiniband-2010)\n"
    "  --out FILE           JSON (out/sim.json)\n"
    "  --seed N             of the traffic (1)\n"
    "  --quiet              no progress\n"
    "run\n"
    "  --ranks N            2048\n"
    "  --per-node N         ranks on a node (4)\n"
    "  --traffic NAME       uniform, pool, steal, neighbour, collective, or trace (pool)\n"
    "  --trace FILE         lines \"rank node bytes r|w think_ns\"; or the PREFIX of a run under "
    "libskerry_recorder.so\n"
    "  --tasks N            of each rank (100); uniform: one request each\n"
    "  --reads N --writes N blocks got and results sent per task (4, 2)\n"
    "  --partners A[-B]     nodes that a rank talks to in the whole run (all)\n"
    "  --window A[-B]       of them, at a time: the window moves on during the run (all)\n"
    "  --stable PERCENT     of the window: partners that never leave it (0)\n"
    "  --stable-uses PERCENT  of the requests to the window: to these (in proportion to their "
    "number)\n"
    "  --near N             steal: near nodes (8)\n"
    "  --near-share PERCENT steal: attempts that go to near nodes (80)\n"
    "  --phase N            collective: tasks between two collectives (20)\n"
    "  --think-us N         mean computing per task (1000)\n"
    "  --bytes N            of a block (4096)\n"
    "paper\n"
    "  --quick              the caps that the paper gives numbers for, no sensitivity\n"
    "storm\n"
    "  --seeds N            how many (1000)\n"
    "  --from N             the first (1)\n"
    "  --seed N             only this one, and say what it did\n";

struct Options {
  TrafficConfig traffic;
  std::vector<uint32_t> caps = {0, 128, 64, 32, 16, 8, 4};
  std::vector<std::string> policies;
  Protocol protocol = Protocol::overlapped;
  std::string costs;
  std::string out = "out/sim.json";
  bool quiet = false;
  bool quick = false;
  bool help = false;
};

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t end; (end = text.find(by, at)) != std::string::npos; at = end + 1)
    parts.push_back(text.substr(at, end - at));
  parts.push_back(text.substr(at));
  return parts;
}

Status number(const std::string& option, const std::string& text, uint64_t most, uint64_t* out) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || text[0] == '-' || value > most)
    return error(Code::config, option, " ", text, ": give a whole number up to ", most);
  *out = value;
  return {};
}

Status parse(const std::vector<std::string>& words, Options* o) {
  const std::vector<std::string> all = policies();
  o->policies = all;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& option = words[i];
    if (option == "--help" || option == "-h") {
      o->help = true;
      return {};
    }
    if (option == "--quiet") {
      o->quiet = true;
      continue;
    }
    if (option == "--quick") {
      o->quick = true;
      continue;
    }
    if (i + 1 == words.size() || !option.starts_with("--"))
      return error(Code::config,
                   option.starts_with("--") ? "a value is missing after " : "unknown word ",
                   option);
    const std::string& value = words[++i];
    uint64_t n = 0;
    const auto small = [&](uint32_t* to, uint64_t most) -> Status {
      SKERRY_TRY(number(option, value, most, &n));
      *to = static_cast<uint32_t>(n);
      return {};
    };
    const auto range = [&](uint32_t* low, uint32_t* high) -> Status {
      const auto ends = split(value, '-');
      if (ends.size() > 2)
        return error(Code::config, option, " ", value, ": give one number or two, such as 93-121");
      SKERRY_TRY(number(option, ends.front(), 10'000'000, &n));
      *low = static_cast<uint32_t>(n);
      SKERRY_TRY(number(option, ends.back(), 10'000'000, &n));
      *high = static_cast<uint32_t>(n);
      return {};
    };
    if (option == "--caps") {
      o->caps.clear();
      for (const std::string& part : split(value, ',')) {
        SKERRY_TRY(number(option, part, 1'000'000, &n));
        o->caps.push_back(static_cast<uint32_t>(n));
      }
    } else if (option == "--policies") {
      o->policies = split(value, ',');
      for (const std::string& policy : o->policies)
        if (std::find(all.begin(), all.end(), policy) == all.end())
          return error(Code::config, "no victim policy \"", policy, "\"");
    } else if (option == "--protocol") {
      if (value == "overlapped") o->protocol = Protocol::overlapped;
      else if (value == "waiting") o->protocol = Protocol::waiting;
      else return error(Code::config, "no protocol \"", value, "\": give overlapped or waiting");
    } else if (option == "--costs") {
      o->costs = value;
    } else if (option == "--out") {
      o->out = value;
    } else if (option == "--seed") {
      SKERRY_TRY(number(option, value, UINT64_MAX, &n));
      o->traffic.seed = n;
    } else if (option == "--ranks") {
      SKERRY_TRY(small(&o->traffic.ranks, 4'000'000));
    } else if (option == "--per-node") {
      SKERRY_TRY(small(&o->traffic.per_node, 4'000'000));
    } else if (option == "--traffic") {
      bool known = false;
      for (const Pattern p : {Pattern::uniform, Pattern::pool, Pattern::steal, Pattern::neighbour,
                              Pattern::collective, Pattern::trace})
        if (value == to_string(p)) o->traffic.pattern = p, known = true;
      if (!known)
        return error(Code::config, "no traffic \"", value,
                     "\": give uniform, pool, steal, neighbour, collective or trace");
    } else if (option == "--trace") {
      o->traffic.pattern = Pattern::trace;
      o->traffic.trace_file = value;
    } else if (option == "--tasks") {
      SKERRY_TRY(small(&o->traffic.tasks, 100'000'000));
    } else if (option == "--reads") {
      SKERRY_TRY(small(&o->traffic.reads, 1000));
    } else if (option == "--writes") {
      SKERRY_TRY(small(&o->traffic.writes, 1000));
    } else if (option == "--partners") {
      SKERRY_TRY(range(&o->traffic.partners_low, &o->traffic.partners_high));
    } else if (option == "--window") {
      SKERRY_TRY(range(&o->traffic.window_low, &o->traffic.window_high));
    } else if (option == "--stable") {
      SKERRY_TRY(small(&o->traffic.stable_percent, 100));
    } else if (option == "--stable-uses") {
      SKERRY_TRY(small(&o->traffic.stable_uses_percent, 100));
    } else if (option == "--near") {
      SKERRY_TRY(small(&o->traffic.near_nodes, 1'000'000));
      if (o->traffic.near_nodes == 0)
        return error(Code::config, "--near 0: give at least one near node");
    } else if (option == "--near-share") {
      uint32_t percent = 0;
      SKERRY_TRY(small(&percent, 100));
      o->traffic.near_share = percent / 100.0;
    } else if (option == "--phase") {
      SKERRY_TRY(small(&o->traffic.phase_tasks, 1'000'000));
      if (o->traffic.phase_tasks == 0)
        return error(Code::config, "--phase 0: give at least one task between two collectives");
    } else if (option == "--think-us") {
      SKERRY_TRY(number(option, value, 4'000'000, &n));
      o->traffic.think_ns = static_cast<int64_t>(n) * 1000;
    } else if (option == "--bytes") {
      SKERRY_TRY(small(&o->traffic.bytes, 1u << 30));
    } else {
      return error(Code::config, "unknown option ", option);
    }
  }
  return {};
}

Status read_costs(const std::string& wish, const std::string& otherwise, Costs* costs) {
  const std::string name = wish.empty() ? otherwise : wish;
  if (name == "tcp" || name == "infiniband-2010") return Costs::by_name(name, costs);
  return Costs::read(name, costs);
}

class Progress {
 public:
  explicit Progress(bool quiet) : on_(!quiet && isatty(2) != 0) {}
  std::function<void(double)> of(std::string what) {
    if (!on_) return {};
    return [what = std::move(what)](double done) {
      std::fprintf(stderr, "\r\033[K%s %3.0f %%", what.c_str(), done * 100);
    };
  }
  void clear() const {
    if (on_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  bool on_;
};

// One job under every cap and policy. The traffic is surveyed before any policy runs, and does not
// depend on one.
void sweep(const std::string& name, const TrafficConfig& traffic, const Costs& costs,
           const Options& o, Report* report) {
  Progress progress(o.quiet);
  const Survey seen = survey(traffic);
  std::printf(
      "\n%s: %u ranks, %u on each node, %s; %.0f requests of a rank; partners of a rank %u to %u, "
      "mean %.0f\n",
      name.c_str(), traffic.ranks, traffic.per_node,
      std::string(to_string(traffic.pattern)).c_str(),
      static_cast<double>(seen.requests) / traffic.ranks, seen.partners_least, seen.partners_most,
      seen.partners_mean);
  const std::vector<double> best = optimum(traffic, o.caps, progress.of(concat(name, ", optimum")));
  progress.clear();
  report->job(name, traffic, costs, seen);
  report->heading();
  for (size_t c = 0; c < o.caps.size(); ++c) {
    bool unlimited_shown = false;
    for (const std::string& policy : o.policies) {
      if (o.caps[c] == 0 && std::exchange(unlimited_shown, true))
        break;  // without a cap there is no victim
      StudyConfig config;
      config.traffic = traffic;
      config.costs = costs;
      config.cap = o.caps[c];
      config.policy = policy;
      config.protocol = o.protocol;
      const auto start = std::chrono::steady_clock::now();
      const StudyResult result = run_study(
          config, progress.of(concat(name, ", cap ", config.cap, ", ", policy)));
      progress.clear();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
                                 .count();
      report->add(name, config, result, best[c], seconds);
    }
  }
}

int finish(const Report& report, const Options& o) {
  if (Status status = report.write(o.out); !status.ok()) return complain("skerry-sim", status);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "\nsimulated; wrote %s; the simulator took %.0f s of processor time and at most %.2f GB\n",
      o.out.c_str(), static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec),
      static_cast<double>(usage.ru_maxrss) / 1e6);
  return 0;
}

}  // namespace

const char* help() { return help_text; }

int complain(const char* command, const Status& status) {
  std::fprintf(stderr, "%s: %s\n", command, status.message().c_str());
  return 2;
}

int run_main(const std::vector<std::string>& words) {
  Options o;
  if (Status status = parse(words, &o); !status.ok()) return complain("skerry-sim", status);
  if (o.help) return std::fputs(help_text, stdout), 0;
  Costs costs;
  if (Status status = read_costs(o.costs, "tcp", &costs); !status.ok())
    return complain("skerry-sim", status);
  if (Status status = Traffic::check(&o.traffic); !status.ok())
    return complain("skerry-sim", status);
  Report report;
  sweep(std::string(to_string(o.traffic.pattern)), o.traffic, costs, o, &report);
  return finish(report, o);
}

// The paper's jobs. Its trace does not exist; what is fixed, from its partner counts and run times
// alone and before any policy is run:
//   - a task asks the shared counter, gets four blocks and adds two results;
//   - 600 tasks of a rank at 2,048 ranks, so that "all connections are created"; the same total
//     work at 4,096 and 6,144: 300 and 200 tasks;
//   - 93 to 121 partners at 4,096 and 91 to 117 at 6,144 ranks. At 2,048 ranks the same number at
//     a time, moving over all nodes in the run;
//   - computing: the run time without a cap, divided by the tasks.
int paper_main(const std::vector<std::string>& words) {
  Options o;
  if (Status status = parse(words, &o); !status.ok()) return complain("skerry-sim", status);
  if (o.help) return std::fputs(help_text, stdout), 0;
  Costs costs;
  if (Status status = read_costs(o.costs, "infiniband-2010", &costs); !status.ok())
    return complain("skerry-sim", status);
  if (o.quick) o.caps = {0, 128, 32, 4};
  struct Job {
    const char* name;
    uint32_t ranks, tasks, partners_low, partners_high, window_low, window_high;
    double seconds;
  };
  constexpr Job jobs[] = {{"paper_2048", 2048, 600, 0, 0, 93, 121, 131},
                          {"paper_4096", 4096, 300, 93, 121, 0, 0, 83},
                          {"paper_6144", 6144, 200, 91, 117, 0, 0, 78}};
  Report report;
  const auto traffic_of = [&](const Job& job) {
    TrafficConfig t;
    t.pattern = Pattern::pool;
    t.ranks = job.ranks;
    t.per_node = 4;
    t.tasks = job.tasks;
    t.partners_low = job.partners_low;
    t.partners_high = job.partners_high;
    t.window_low = job.window_low;
    t.window_high = job.window_high;
    t.think_ns = static_cast<int64_t>(job.seconds * 1e9 / job.tasks);
    t.seed = o.traffic.seed;
    return t;
  };
  for (const Job& job : jobs) {
    TrafficConfig t = traffic_of(job);
    if (Status status = Traffic::check(&t); !status.ok()) return complain("skerry-sim", status);
    sweep(job.name, t, costs, o, &report);
  }
  if (!o.quick) {
    // Sensitivity: each parameter that the paper's numbers leave open, one at a time, at 2,048
    // ranks and the caps the paper gives numbers for.
    Options few = o;
    few.caps = {128, 32};
    few.policies = {"lru", "lru_m"};
    const auto vary = [&](const char* name, auto&& change) {
      TrafficConfig t = traffic_of(jobs[0]);
      t.tasks = 600;
      change(t);
      if (Traffic::check(&t).ok()) sweep(name, t, costs, few, &report);
    };
    vary("sensitivity_window_half",
         [](TrafficConfig& t) { t.window_low = 46, t.window_high = 61; });
    vary("sensitivity_window_double",
         [](TrafficConfig& t) { t.window_low = 186, t.window_high = 242; });
    vary("sensitivity_tasks_half", [](TrafficConfig& t) { t.tasks = 300, t.think_ns *= 2; });
    vary("sensitivity_tasks_double", [](TrafficConfig& t) { t.tasks = 1200, t.think_ns /= 2; });
    vary("sensitivity_near", [](TrafficConfig& t) { t.pattern = Pattern::steal; });
    vary("sensitivity_phases", [](TrafficConfig& t) { t.pattern = Pattern::collective; });
    // How many of the partners of the moment must stay for the policy that spares partners it tore
    // down most often to win.
    for (const uint32_t percent : {25u, 50u, 75u, 100u})
      vary(concat("sensitivity_stable_", percent).c_str(),
           [&](TrafficConfig& t) { t.stable_percent = percent; });
    for (const uint32_t percent : {50u, 75u, 90u})
      vary(concat("sensitivity_quarter_used_", percent).c_str(),
           [&](TrafficConfig& t) { t.stable_percent = 25, t.stable_uses_percent = percent; });
    vary("sensitivity_seed", [](TrafficConfig& t) { t.seed += 1; });
  }
  return finish(report, o);
}

}  // namespace skerry::sim
