#include "pricer.hpp"

#include <algorithm>
#include <cmath>

#include "normal.hpp"

// The source variant of the suite's `variant` axis: with or without telling the compiler that lanes
// are independent.
#if defined(HPCAAS_VARIANT_PLAIN)
#define HPCAAS_LANES
#else
#define HPCAAS_LANES _Pragma("omp simd")
#endif

namespace montecarlo {
namespace {

// splitmix64: a digital shift per (shift, dimension), the same on every rank.
std::uint32_t digital_shift(std::uint64_t seed, int shift, int dimension) {
  if (shift == 0 && seed == 0) return 0;
  std::uint64_t z = seed +
                    0x9e3779b97f4a7c15ULL * (static_cast<std::uint64_t>(shift) * max_dimensions +
                                             static_cast<std::uint64_t>(dimension) + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double put(double forward, double strike, double deviation) {
  const double d1 = (std::log(forward / strike) + 0.5 * deviation * deviation) / deviation;
  return strike * normal_cdf(deviation - d1) - forward * normal_cdf(-d1);
}

}  // namespace

Pricer::Pricer(const Option& option, int steps, std::uint64_t seed)
    : option_(option),
      steps_(steps),
      seed_(seed),
      directions_(steps),
      bridge_(make_bridge(steps, option.years / steps)) {}

Sums Pricer::chunk(int shift, std::int64_t first, std::int64_t count) const {
  const auto steps = static_cast<std::size_t>(steps_);
  std::vector<double> w((steps + 1) * lanes, 0.0);
  std::vector<std::uint32_t> shifts(steps);
  for (std::size_t d = 0; d < steps; ++d)
    shifts[d] = digital_shift(seed_, shift, static_cast<int>(d));
  SobolBlocks sobol(directions_, static_cast<std::uint64_t>(first) / lanes);
  const double drift_dt = (option_.rate - 0.5 * option_.sigma * option_.sigma) * option_.years /
                          steps_;
  const double log_spot = std::log(option_.spot);
  Sums sums;
  for (std::int64_t done = 0; done < count; done += lanes) {
    if (done != 0) sobol.advance();
    double sum_w[lanes] = {};
    for (std::size_t d = 0; d < steps; ++d) {
      const BridgeStep& step = bridge_[d];
      const std::uint32_t base = sobol.base(static_cast<int>(d)) ^ shifts[d];
      const std::uint32_t* low = sobol.low(static_cast<int>(d));
      const double* left = &w[static_cast<std::size_t>(step.left) * lanes];
      const double* right = &w[static_cast<std::size_t>(step.right) * lanes];
      double* at = &w[static_cast<std::size_t>(step.at) * lanes];
      HPCAAS_LANES
      for (int lane = 0; lane < lanes; ++lane) {
        // Mid-points of the 2^32 grid. The signed conversion is the one that SSE2 and AVX2 have.
        const auto centred = static_cast<std::int32_t>((base ^ low[lane]) ^ 0x80000000u);
        const double u = (static_cast<double>(centred) + 2147483648.5) * 0x1p-32;
        const double value = step.w_left * left[lane] + step.w_right * right[lane] +
                             step.sigma * inverse_normal(u);
        at[lane] = value;
        sum_w[lane] += value;
      }
    }
    const double* end = &w[steps * lanes];
    const std::int64_t used = std::min<std::int64_t>(lanes, count - done);
    for (std::int64_t lane = 0; lane < used; ++lane) {
      const double log_end = log_spot + drift_dt * steps_ + option_.sigma * end[lane];
      const double log_mean = log_spot + drift_dt * (steps_ + 1) / 2.0 +
                              option_.sigma * sum_w[lane] / steps_;
      sums.european += std::max(option_.strike - std::exp(log_end), 0.0);
      sums.asian += std::max(option_.strike - std::exp(log_mean), 0.0);
    }
  }
  return sums;
}

double Pricer::discount() const { return std::exp(-option_.rate * option_.years); }

double Pricer::black_scholes_put() const {
  return discount() * put(option_.spot * std::exp(option_.rate * option_.years), option_.strike,
                          option_.sigma * std::sqrt(option_.years));
}

double Pricer::geometric_asian_put() const {
  // The mean of the log-prices at n equal steps is normal: mean and variance in closed form.
  const double n = steps_;
  const double dt = option_.years / n;
  const double variance = option_.sigma * option_.sigma * dt * (n + 1.0) * (2.0 * n + 1.0) /
                          (6.0 * n);
  const double mean = std::log(option_.spot) +
                      (option_.rate - 0.5 * option_.sigma * option_.sigma) * dt * (n + 1.0) / 2.0;
  return discount() * put(std::exp(mean + 0.5 * variance), option_.strike, std::sqrt(variance));
}

}  // namespace montecarlo
