#include "sim/storm/config.hpp"

#include "core/pure/status.hpp"

namespace skerry::sim {

std::string_view to_string(Mutation mutation) {
  switch (mutation) {
    case Mutation::none: return "none";
    case Mutation::execute_duplicates: return "execute_duplicates";
    case Mutation::forget_results: return "forget_results";
    case Mutation::keep_old_frames: return "keep_old_frames";
    case Mutation::replay_nothing: return "replay_nothing";
    case Mutation::ignore_cap: return "ignore_cap";
    case Mutation::early_fence: return "early_fence";
    case Mutation::bye_undrained: return "bye_undrained";
    case Mutation::confirm_grants: return "confirm_grants";
    case Mutation::grant_twice: return "grant_twice";
  }
  return "unknown";
}

StormConfig StormConfig::of_seed(uint64_t seed) {
  Random random(seed);
  StormConfig c;
  c.seed = seed;
  c.origins = 1 + random.below(5);
  c.servers = 1 + random.below(5);
  c.threads = 1 + random.below(3);
  c.operations = 20 + random.below(60);
  c.window = 1 + random.below(8);
  c.words = 4 + random.below(28);
  c.cap = random.below(4);
  c.server_cap = random.chance(0.4) ? 1 + random.below(c.origins) : 0;
  constexpr const char* policies[] = {
      "lru", "lru_m", "reuse",
      "adaptive"};  // a new one goes to a new place: seeds keep their meaning
  c.policy = policies[random.below(4)];
  c.credit_requests = 1 + random.below(12);
  c.credit_bytes = 8 + random.below(300);
  c.latency_ns = 500 + random.below(20'000);
  c.jitter_ns = random.below(30'000);
  c.service_ns = 100 + random.below(5'000);
  c.fault_interval_ns = random.chance(0.8) ? 5'000 + random.below(200'000) : 0;
  return c;
}

std::string StormConfig::describe() const {
  return concat(
      "seed ", seed, ": ", origins, " origins of ", threads, " threads, ", servers,
      " servers, cap ", cap, ", server cap ", server_cap, ", ", policy, ", window ", window,
      ", credits ", credit_requests, " / ", credit_bytes, " B, latency ", latency_ns, " + ",
      jitter_ns, " ns, faults every ", fault_interval_ns, " ns",
      mutation == Mutation::none ? std::string() : concat(", mutation ", to_string(mutation)));
}

}  // namespace skerry::sim
