#include "sim/storm/config.hpp"

#include <algorithm>
#include <array>

#include "core/pure/status.hpp"

namespace skerry::sim {
namespace {

// Those that are not mended yet. Seeds of jobs that meet them are for of_seed to avoid.
constexpr std::array<Defect, 0> known_defects{};

void draw_network(StormConfig& c, Random& random) {
  NetworkOptions& n = c.network;
  n.latency_ns = 500 + random.below(20'000);
  n.jitter_ns = random.below(30'000);
  n.early_messages = random.chance(0.5);
  n.only_is_only = random.chance(0.5);
  n.kernel_bytes = uint64_t{512} << random.below(8);
  n.queue_bytes = uint64_t{1024} << random.below(9);
  switch (random.below(5)) {
    case 0: n.rma = true; break;
    case 1: n.rma = n.rma_unordered = true; break;
    case 2:  // as bad as can be
      n.rma = n.rma_unordered = true;
      n.close_fences_rma = n.direct_placement = false;
      n.max_payload_bytes = 8 * 1024;
      break;
    default: break;  // native tcp's
  }
  n.rma_from_bytes = 64u << random.below(6);
}

}  // namespace

std::string_view to_string(Defect defect) {
  switch (defect) {
    case Defect::drain_not_noticed: return "drain_not_noticed";
    case Defect::record_parks_unlock: return "record_parks_unlock";
    case Defect::waiting_is_unreachable: return "waiting_is_unreachable";
    case Defect::refusal_lost: return "refusal_lost";
    case Defect::refusal_overtakes: return "refusal_overtakes";
    case Defect::leaving_beyond_limit: return "leaving_beyond_limit";
    case Defect::lock_outlives_job: return "lock_outlives_job";
  }
  return "unknown";
}

bool is_known(Defect defect) {
  return std::find(std::begin(known_defects), std::end(known_defects), defect) !=
         std::end(known_defects);
}

std::string_view to_string(Share share) {
  switch (share) {
    case Share::none: return "none";
    case Share::unlimited: return "unlimited";
    case Share::limited: return "limited";
  }
  return "?";
}

// Routes through other nodes and shared locks are for jobs that end with a death.
StormConfig StormConfig::with_deaths(uint64_t seed) {
  StormConfig c = without_clusters(seed);
  Random random(Random(~seed + 5).next());
  c.nodes = 2 + random.below(4);
  c.ranks_per_node = 1 + random.below(3);
  if (random.below(4) == 0) c.servers = 2 + random.below(2);
  c.death = false;
  c.deaths = 1 + random.below(3);
  c.share = Share::none;
  c.shared_percent = c.at_once_percent = c.sweep_percent = c.refused_percent = 0;
  c.limits_change = false;
  c.area_bytes = 512;
  c.sums = 4;
  c.lock_percent = random.below(4) == 0 ? 0 : 10 + random.below(50);
  c.hot_lock = random.below(2) == 0;
  c.guards_held = random.below(3) == 0;
  return c;
}

StormConfig StormConfig::of_seed(uint64_t seed) {
  if (Random(Random(~seed + 6).next()).chance(0.15)) return with_deaths(seed);
  StormConfig c = without_clusters(seed);
  // A stream of its own: whatever else is drawn stays what it was.
  Random of_servers(Random(~seed + 1).next());
  if (of_servers.chance(0.25)) c.servers = 2 + of_servers.below(2);
  Random of_trunks(Random(~seed + 3).next());
  constexpr int64_t unused_ns[] = {0, 50'000, 2'000'000, 1'000'000'000};
  c.unused_trunk_ns = unused_ns[of_trunks.below(4)];
  Random of_rows(Random(~seed + 2).next());
  if (of_rows.chance(0.3)) c.row_percent = 5 + of_rows.below(40);
  Random of_windows(Random(~seed + 4).next());
  if (of_windows.chance(0.35)) {
    c.window_percent = 10 + of_windows.below(60);
    constexpr uint32_t most_words[] = {1, 1, 64, 600, 6'000};
    c.register_words = 1 + of_windows.below(most_words[of_windows.below(5)]);
  }
  Random random(Random(~seed).next());
  if (!random.chance(0.3)) return c;
  c.nodes = 3 + random.below(4);
  c.ranks_per_node = 1 + random.below(2);
  c.threads = 1 + random.below(2);
  c.cluster = 2 + random.below(c.nodes - 1);
  c.trunks_limited = c.share == Share::none && random.chance(0.5);
  if (random.chance(0.5)) c.pool_bytes = uint64_t{2048} << random.below(8);
  return c;
}

StormConfig StormConfig::without_clusters(uint64_t seed) {
  Random random(Random(seed).next());  // of neighbouring seeds nothing is alike
  StormConfig c;
  c.seed = seed;
  c.nodes = 2 + random.below(3);
  c.ranks_per_node = 1 + random.below(random.chance(0.3) ? 3 : 2);
  c.threads = random.chance(0.5) ? 1 : 2 + random.below(2);
  c.cap = random.below(4);
  c.server_cap = random.chance(0.4) ? 1 + random.below(c.ranks()) : 0;
  c.share = static_cast<Share>(random.chance(0.3) ? 1 + random.below(2) : 0);
  c.helper = random.chance(0.7);
  // A new one goes to a new place, and one that is gone leaves its own: seeds keep their meaning.
  constexpr const char* policies[] = {"lru", "lru_m", "reuse", "lru"};
  c.victim = policies[random.below(4)];
  c.slots = random.chance(0.3) ? 12 : 64;
  c.waiters = random.chance(0.2) ? 1 + random.below(4) : 64;
  c.operations = 10 + random.below(40);
  const uint32_t size = random.below(16);
  c.area_bytes = size < 12 ? 512 : size < 15 ? 20 * 1024 : 150 * 1024;
  c.sums = random.chance(0.1) ? 2048 : 4;
  c.lock_percent = random.chance(0.7) ? 5 + random.below(30) : 0;
  c.refused_percent = random.chance(0.2) ? 5 : 0;
  c.limits_change = random.chance(0.2);
  c.stripes_held = random.chance(0.3);
  draw_network(c, random);
  c.fault_interval_ns = random.chance(0.8) ? 20'000 + random.below(300'000) : 0;
  c.network.refused_per_1024 = c.fault_interval_ns != 0 && random.chance(0.3) ? 64 : 0;
  c.pauses = c.fault_interval_ns != 0 && random.chance(0.3);
  c.death = random.chance(0.03);
  c.give_way = random.chance(0.3) ? 160 : 8 + random.below(60);
  c.step_ns = 50 + random.below(500);
  // From 1 ms, which a connect seldom takes.
  if (random.chance(0.2)) c.connect_timeout_ns = int64_t{1'000'000} << random.below(5);
  if (c.fault_interval_ns != 0 && random.chance(0.1)) c.network.no_descriptor_per_1024 = 128;
  c.compare_swaps = random.chance(0.5);
  c.updates = random.chance(0.5);
  if (c.updates && c.sums > 4) c.sums = 8192;  // more than a message of them
  if (c.lock_percent != 0 && random.chance(0.7)) {
    c.shared_percent = 20 + random.below(60);
    c.at_once_percent = random.chance(0.7) ? 20 + random.below(60) : 0;
    c.hot_lock = random.chance(0.5);
    c.guards_held = random.chance(0.3);
    c.sweep_percent = random.chance(0.5) ? 20 + random.below(60) : 0;
  }
  return c;
}

namespace {

// Without what is not needed to find the old defects.
void calm(StormConfig* config) {
  StormConfig& c = *config;
  c.death = c.pauses = c.limits_change = c.compare_swaps = c.updates = false;
  c.connect_timeout_ns = StormConfig().connect_timeout_ns;
  c.network.no_descriptor_per_1024 = 0;
  c.shared_percent = c.at_once_percent = c.sweep_percent = 0;
  c.hot_lock = c.guards_held = false;
  c.refused_percent = 0;
  c.share = Share::none;
  c.waiters = 64;
  c.area_bytes = 512;
  c.fault_interval_ns = c.network.refused_per_1024 = 0;
}

}  // namespace

StormConfig StormConfig::of_defect(Defect defect, uint64_t seed) {
  StormConfig c = without_clusters(seed);
  calm(&c);
  switch (defect) {
    case Defect::drain_not_noticed:
      c.nodes = 3;
      c.ranks_per_node = 2;
      c.threads = 3;
      c.cap = 1 + static_cast<uint32_t>(seed % 2);
      c.server_cap = 0;
      c.lock_percent = 30;
      c.operations = 40;
      break;
    case Defect::record_parks_unlock:
      c.threads = 3;
      c.cap = c.server_cap = 0;
      c.waiters = 1;
      c.lock_percent = 30;
      break;
    case Defect::waiting_is_unreachable:
      c.nodes = 2;
      c.ranks_per_node = 2;
      c.threads = 1;
      c.cap = 0;
      c.server_cap = 1;
      c.lock_percent = 0;
      c.pauses = true;
      c.fault_interval_ns = 200'000;
      c.network.kernel_bytes = 512;
      c.network.queue_bytes = 1024;
      c.hosts_pause = false;  // one that stops for longer than the limit is unreachable indeed
      c.connect_timeout_ns = 20'000'000;
      c.reconnect_limit_ns = 60'000'000;
      break;
    case Defect::refusal_lost:
    case Defect::refusal_overtakes:
      c.lock_percent = 0;
      c.refused_percent = 20;
      c.cap = 1;
      c.fault_interval_ns = 40'000;
      break;
    case Defect::leaving_beyond_limit:
      c.nodes = 4;
      c.ranks_per_node = 1;
      c.threads = 2;
      c.cap = 1;
      c.server_cap = 2;
      c.lock_percent = 0;
      c.pauses = true;
      c.fault_interval_ns = 200'000;
      break;
    case Defect::lock_outlives_job:
      c.nodes = 4;
      c.ranks_per_node = 2;
      c.threads = 1;
      c.cap = c.server_cap = 1;
      c.lock_percent = 40;
      c.operations = 40;
      c.death = true;
      break;
  }
  return c;
}

std::string StormConfig::describe() const {
  const NetworkOptions& n = network;
  std::string text = concat(
      "seed ", seed, ": ", nodes, " nodes of ", ranks_per_node, " ranks of ", threads,
      " threads, cap ", cap, ", server cap ", server_cap, ", share ", to_string(share),
      servers > 1 ? concat(", ", servers, " servers a node") : std::string(),
      cluster > 1 ? concat(", clusters of ", cluster) : std::string(),
      trunks_limited ? " with the cap" : "",
      cluster > 1 || share != Share::none
          ? concat(", ", unused_trunk_ns / 1000, " us to an unused one's end")
          : std::string(),
      pool_bytes != 0 ? concat(", pools of ", pool_bytes, " B, ", max_passing(), " channels") : "",
      helper ? ", helper" : ", no helper", ", ", victim, ", ", slots, " slots, ", waiters,
      " waiters, ", operations, " operations, area ", area_bytes, " B, ", sums, " sums, locks ",
      lock_percent, " %, refused ", refused_percent, " %");
  if (shared_percent != 0)
    text += concat(", shared ", shared_percent, " %, at once ", at_once_percent, " %");
  if (sweep_percent != 0) text += concat(", several ", sweep_percent, " %");
  if (hot_lock) text += ", one lock is hot";
  if (guards_held) text += ", guards held";
  if (limits_change) text += ", limits change";
  if (stripes_held) text += ", stripes held";
  if (compare_swaps) text += ", compare-and-swap";
  if (updates) text += ", updates";
  if (row_percent != 0) text += concat(", rows ", row_percent, " %");
  if (window_percent != 0)
    text += concat(", windows ", window_percent, " %, registers of ", register_words, " words");
  if (network.no_descriptor_per_1024 != 0) text += ", descriptors run out";
  text += concat(", ", connect_timeout_ns / 1000, " us to connect");
  text += concat("; ",
                 !n.rma            ? "no rma"
                 : n.rma_unordered ? "rma unordered"
                                   : "rma ordered",
                 n.direct_placement ? "" : ", no direct placement",
                 n.early_messages ? ", early messages" : "",
                 n.only_is_only ? ", blocks on one" : "", ", buffers ", n.kernel_bytes, " + ",
                 n.queue_bytes, " B, latency ", n.latency_ns, " + ", n.jitter_ns,
                 " ns, faults every ", fault_interval_ns, " ns");
  if (n.refused_per_1024 != 0) text += ", connects refused";
  if (pauses) text += ", pauses";
  if (death) text += ", a death";
  if (deaths != 0) text += concat(", ", deaths, " deaths");
  if (left_out != Rule::none) text += concat(", left out: ", skerry::to_string(left_out));
  return text;
}

}  // namespace skerry::sim
