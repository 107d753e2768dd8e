#include "sim/study/traffic.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <numeric>

namespace skerry::sim {
namespace {

// Of the trace file named last; a process reads one.
std::vector<std::vector<Request>>& trace() {
  static std::vector<std::vector<Request>> requests;
  return requests;
}

uint32_t cube_side(uint32_t nodes) {
  uint32_t side = static_cast<uint32_t>(std::cbrt(static_cast<double>(nodes)) + 0.5);
  while (side > 1 && nodes % side != 0) --side;
  return std::max(side, 1u);
}

}  // namespace

std::string_view to_string(Pattern pattern) {
  switch (pattern) {
    case Pattern::uniform: return "uniform";
    case Pattern::pool: return "pool";
    case Pattern::steal: return "steal";
    case Pattern::neighbour: return "neighbour";
    case Pattern::collective: return "collective";
    case Pattern::trace: return "trace";
  }
  return "unknown";
}

std::string TrafficConfig::json() const {
  return concat("{\"pattern\": \"", to_string(pattern), "\", \"ranks\": ", ranks,
                ", \"per_node\": ", per_node, ", \"tasks\": ", tasks, ", \"reads\": ", reads,
                ", \"writes\": ", writes, ", \"partners\": [", partners_low, ", ", partners_high,
                "], \"window\": [", window_low, ", ", window_high,
                "], \"stable_percent\": ", stable_percent,
                ", \"stable_uses_percent\": ", stable_uses_percent,
                ", \"near_share\": ", static_cast<int>(near_share * 100 + 0.5),
                "e-2, \"near_nodes\": ", near_nodes, ", \"phase_tasks\": ", phase_tasks,
                ", \"think_ns\": ", think_ns, ", \"bytes\": ", bytes, ", \"seed\": ", seed, "}");
}

Status Traffic::check(TrafficConfig* c) {
  if (c->pattern == Pattern::trace) SKERRY_TRY(load_trace(c));
  if (c->ranks < 2 || c->ranks > 4'000'000)
    return error(Code::config, c->ranks, " ranks: give 2 to 4000000");
  if (c->per_node < 1 || c->per_node >= c->ranks)
    return error(Code::config, c->per_node, " ranks on each node of a job of ", c->ranks,
                 ": there must be at least two nodes");
  const uint32_t others = c->nodes() - 1;
  const auto range = [&](uint32_t* low, uint32_t* high, uint32_t most, const char* what) -> Status {
    if (*low == 0) *low = *high;
    if (*high == 0) *high = *low;
    if (*low > *high)
      return error(Code::config, what, " from ", *low, " to ", *high,
                   ": the first must not be the larger one");
    *low = std::min(*low, most);
    *high = std::min(*high, most);
    return {};
  };
  SKERRY_TRY(range(&c->partners_low, &c->partners_high, others, "partners"));
  SKERRY_TRY(range(&c->window_low, &c->window_high, others, "window"));
  if (c->stable_percent > 100 || c->stable_uses_percent > 100)
    return error(Code::config, "stable partners: give percentages up to 100");
  if (c->think_ns < 0 || c->think_ns > 4'000'000'000)
    return error(Code::config, c->think_ns, " ns of computing per task: give 0 to 4000000000");
  return {};
}

Traffic::Traffic(const TrafficConfig& config, uint32_t rank)
    : config_(&config),
      random_(config.seed * 0x100000001b3ull ^ (uint64_t{rank} << 20)),
      rank_(rank),
      node_(rank / config.per_node) {
  const uint32_t others = config.nodes() - 1;
  pool_ = config.partners_high == 0
              ? others
              : config.partners_low + random_.below(config.partners_high - config.partners_low + 1);
  window_ = config.window_high == 0
                ? pool_
                : std::min(pool_, config.window_low +
                                      random_.below(config.window_high - config.window_low + 1));
  stable_ = static_cast<uint32_t>(uint64_t{window_} * config.stable_percent / 100);
  pool_start_ = random_.below(others);
  do pool_stride_ = 1 + random_.below(others);
  while (std::gcd(pool_stride_, others) != 1);
}

uint32_t Traffic::partner() {
  // The window goes once around the set during the run, so that every member has the same chance;
  // those that stay are set aside.
  const uint32_t moving = pool_ - stable_;
  const uint32_t start = window_ < pool_
                             ? static_cast<uint32_t>(uint64_t{moving} * task_ / config_->tasks)
                             : 0;
  uint32_t drawn = random_.below(window_);
  if (stable_ > 0 && stable_ < window_ && config_->stable_uses_percent > 0)
    drawn = random_.below(100) < config_->stable_uses_percent
                ? drawn % stable_
                : stable_ + drawn % (window_ - stable_);
  const uint64_t index = phase_start_ +
                         (drawn < stable_ ? drawn : stable_ + (start + drawn - stable_) % moving);
  const uint32_t others = config_->nodes() - 1;
  const uint32_t other = static_cast<uint32_t>((pool_start_ + index * pool_stride_) % others);
  return other < node_ ? other : other + 1;  // never the own node
}

void Traffic::add(uint32_t node, uint32_t bytes, bool blocking) {
  if (node == node_) return;
  ready_.push_back(
      {node, bytes, static_cast<uint32_t>(std::min<int64_t>(think_, UINT32_MAX)), blocking});
  think_ = 0;
}

void Traffic::draw_task() {
  const TrafficConfig& c = *config_;
  think_ += static_cast<int64_t>(-std::log(1.0 - random_.uniform()) *
                                 static_cast<double>(c.think_ns));
  const uint32_t nodes = c.nodes();
  switch (c.pattern) {
    case Pattern::uniform: add(partner(), c.bytes, random_.chance(0.5)); break;
    case Pattern::pool:
      add(0, 8, true);  // the counter
      for (uint32_t i = 0; i < c.reads; ++i) add(partner(), c.bytes, true);
      for (uint32_t i = 0; i < c.writes; ++i) add(partner(), c.bytes, false);
      break;
    case Pattern::steal: {
      // Attempts until one succeeds: half of them do. The tasks of the successful one are got and
      // its results put back.
      for (int attempt = 0; attempt < 8; ++attempt) {
        const uint32_t near = 1 + random_.below(std::min(c.near_nodes, nodes - 1));
        const uint32_t victim = random_.chance(c.near_share)
                                    ? (node_ + (random_.chance(0.5) ? near : nodes - near)) % nodes
                                    : partner();
        add(victim, 8, true);
        if (random_.chance(0.5)) continue;
        add(victim, c.bytes, true);
        add(victim, c.bytes, false);
        break;
      }
      break;
    }
    case Pattern::neighbour: {
      const uint32_t x = cube_side(nodes), y = cube_side(nodes / x * 1), z = nodes / x / y;
      const uint32_t at[3] = {node_ % x, node_ / x % y, node_ / x / y},
                     side[3] = {x, y, std::max(z, 1u)};
      for (int axis = 0; axis < 3; ++axis)
        for (const uint32_t step : {1u, side[axis] - 1}) {
          uint32_t to[3] = {at[0], at[1], at[2]};
          to[axis] = (to[axis] + step) % side[axis];
          const uint32_t neighbour = (to[2] * y + to[1]) * x + to[0];
          if (neighbour < nodes) add(neighbour, c.bytes, false);
        }
      if (random_.chance(0.05)) add(partner(), c.bytes, true);
      break;
    }
    case Pattern::collective:
      if (task_ > 0 && task_ % c.phase_tasks == 0) {
        if (rank_ % c.per_node == 0)  // leaders alone; a binary tree of nodes, up and down
          for (const uint32_t to : {node_ == 0 ? 0 : (node_ - 1) / 2, 2 * node_ + 1, 2 * node_ + 2})
            if (to < nodes) add(to, 64, true);
        phase_start_ = random_.below(nodes);
      }
      for (uint32_t i = 0; i < c.reads; ++i) add(partner(), c.bytes, true);
      for (uint32_t i = 0; i < c.writes; ++i) add(partner(), c.bytes, false);
      break;
    case Pattern::trace: break;
  }
}

bool Traffic::next(Request* request) {
  if (config_->pattern == Pattern::trace) {
    const std::vector<Request>& mine = trace()[rank_];
    if (taken_ == mine.size()) return false;
    *request = mine[taken_++];
    return true;
  }
  while (taken_ == ready_.size()) {
    if (task_ == config_->tasks) return false;
    ready_.clear();
    taken_ = 0;
    draw_task();
    ++task_;
  }
  *request = ready_[taken_++];
  return true;
}

namespace {

// Lines "rank node bytes kind think_ns", kind r (waits for its reply) or w; "#" begins a comment.
// The order of a rank's lines is its order in time.
Status load_file(const std::string& path, TrafficConfig* config, uint32_t* most_node) {
  std::ifstream file(path);
  auto& requests = trace();
  std::string line;
  for (uint64_t number = 1; std::getline(file, line); ++number) {
    unsigned ranks = 0, nodes = 0;
    if (std::sscanf(line.c_str(), "# skerry trace: %u ranks on %u nodes", &ranks, &nodes) ==
        2) {  // recorded: the job's size is known
      if (nodes == 0 || ranks % nodes != 0 || ranks > 4'000'000)
        return error(Code::config, path, ": ", ranks, " ranks on ", nodes,
                     " nodes: the simulator wants as many ranks on each node");
      config->per_node = ranks / nodes;
      if (requests.size() < ranks) requests.resize(ranks);
    }
    if (line.empty() || line[0] == '#') continue;
    unsigned rank = 0, node = 0, bytes = 0, think = 0;
    char kind = 0;
    if (std::sscanf(line.c_str(), "%u %u %u %c %u", &rank, &node, &bytes, &kind, &think) != 5 ||
        (kind != 'r' && kind != 'w') || rank >= 4'000'000)
      return error(Code::config, path, ":", number, ": \"", line.substr(0, 60),
                   "\" is not \"rank node bytes r|w think_ns\"");
    if (rank >= requests.size()) requests.resize(rank + 1);
    if (node != rank / config->per_node)
      requests[rank].push_back({node, bytes, think, kind == 'r'});
    *most_node = std::max(*most_node, node);
  }
  return {};
}

}  // namespace

Status load_trace(TrafficConfig* config) {
  auto& requests = trace();
  requests.clear();
  uint32_t most_node = 0;
  const auto exists = [](const std::string& path) { return std::ifstream(path).is_open(); };
  if (exists(config->trace_file)) {
    SKERRY_TRY(load_file(config->trace_file, config, &most_node));
  } else {
    uint32_t files = 0;
    for (; exists(concat(config->trace_file, ".", files)); ++files)
      SKERRY_TRY(load_file(concat(config->trace_file, ".", files), config, &most_node));
    if (files == 0)
      return error(Code::config, "cannot read the trace ", config->trace_file, " (nor ",
                   config->trace_file, ".0)");
    if (files < requests.size())
      return error(Code::config, "the trace ", config->trace_file, " has files of ", files,
                   " ranks, but ", requests.size(), " ran: ", config->trace_file, ".", files,
                   " is missing");
  }
  config->ranks = std::max<uint32_t>(static_cast<uint32_t>(requests.size()),
                                     (most_node + 1) * config->per_node);
  requests.resize(config->ranks);
  return {};
}

}  // namespace skerry::sim
