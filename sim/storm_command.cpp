#include <cstdio>
#include <cstdlib>

#include "sim/commands.hpp"
#include "sim/storm/storm.hpp"

namespace skerry::sim {

int storm_main(const std::vector<std::string>& words) {
  uint64_t seeds = 1000, from = 1;
  bool one = false, quiet = false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") return std::fputs(help(), stdout), 0;
    if (words[i] == "--quiet") {
      quiet = true;
      continue;
    }
    char* end = nullptr;
    const uint64_t value = i + 1 < words.size() ? std::strtoull(words[i + 1].c_str(), &end, 10) : 0;
    if ((words[i] != "--seeds" && words[i] != "--from" && words[i] != "--seed") || end == nullptr ||
        *end != 0 || end == words[i + 1].c_str()) {
      std::fprintf(stderr, "skerry sim storm: \"%s\": give --seeds N, --from N or --seed N\n",
                   words[i].c_str());
      return 2;
    }
    if (words[i] == "--seeds") seeds = value;
    else from = value;
    if (words[i] == "--seed") seeds = 1, one = true;
    ++i;
  }
  StormResult all;
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    const StormConfig config = StormConfig::of_seed(seed);
    const StormResult result = run_storm(config);
    if (one) std::printf("%s\n", config.describe().c_str());
    if (!result.failure.empty()) {
      std::printf("%s\nafter %llu events: %s\n", config.describe().c_str(),
                  static_cast<unsigned long long>(result.events), result.failure.c_str());
      return 1;
    }
    all.events += result.events;
    all.applied += result.applied;
    all.duplicates += result.duplicates;
    all.cuts += result.cuts;
    all.resumes += result.resumes;
    all.evictions += result.evictions;
    if (!quiet && (seed - from) % 1000 == 999)
      std::fprintf(stderr, "%llu seeds\n", static_cast<unsigned long long>(seed - from + 1));
  }
  const auto print = [](const char* what, uint64_t n) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(n), what);
  };
  print("seeds, every rule held (simulated)", seeds);
  print("events", all.events);
  print("requests, each applied once", all.applied);
  print("connections cut", all.cuts);
  print("connections resumed with something to send again", all.resumes);
  print("requests that came again and were recognised", all.duplicates);
  print("evictions", all.evictions);
  return 0;
}

}  // namespace skerry::sim
