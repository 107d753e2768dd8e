// Quasi-Monte-Carlo pricing of a European and of a geometric Asian put, both checked against closed
// forms.
#pragma once

#include <cstdint>
#include <vector>

#include "bridge.hpp"
#include "sobol.hpp"

namespace montecarlo {

struct Option {
  double spot = 30.0;
  double strike = 40.0;
  double rate = 0.06;
  double sigma = 0.2;
  double years = 1.0;
};

struct Sums {
  double european = 0.0;
  double asian = 0.0;
};

// Paths are cut into chunks of fixed length that belong to one digital shift. Whoever computes a
// chunk gets the same sums, and the final reduction adds chunks in order: the price does not
// depend, to the last bit, on ranks, threads or their schedule.
inline constexpr std::int64_t chunk_paths = 2048;
static_assert(chunk_paths % lanes == 0);

class Pricer {
 public:
  Pricer(const Option& option, int steps, std::uint64_t seed);

  // Sums of undiscounted payoffs of paths [first, first + count) of one digital shift. Thread-safe.
  Sums chunk(int shift, std::int64_t first, std::int64_t count) const;

  double discount() const;
  double black_scholes_put() const;
  double geometric_asian_put() const;

 private:
  Option option_;
  int steps_;
  std::uint64_t seed_;
  SobolDirections directions_;
  std::vector<BridgeStep> bridge_;
};

}  // namespace montecarlo
