// skerry-storm: `skerry sim storm` starts it.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "sim/storm/storm.hpp"

using namespace skerry::sim;

int main(int count, char** arguments) {
  const uint64_t from = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1;
  const uint64_t seeds = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  StormResult all;
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    const StormConfig config = StormConfig::of_seed(seed);
    const StormResult result = run_storm(config);
    if (!result.failure.empty()) {
      std::printf("%s\nafter %llu steps: %s\n", config.describe().c_str(),
                  static_cast<unsigned long long>(result.steps), result.failure.c_str());
      return 1;
    }
    all += result;
  }
  std::printf("%llu steps, %llu requests, %llu cuts\n", (unsigned long long)all.steps,
              (unsigned long long)all.requests, (unsigned long long)all.cuts);
  return 0;
}
