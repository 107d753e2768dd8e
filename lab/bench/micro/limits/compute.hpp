// Work that keeps a core busy: a dependent chain of multiplications, checked for a stop every few
// microseconds.
#pragma once
#include <cstdint>

#include "../common.hpp"

namespace bench {

inline double compute_once(double x) {
  asm volatile(""
               : "+m"(x));  // the compiler must not see that every call gives the same and move the
                            // work out of a timed loop
  for (int i = 0; i < 2000; ++i) x = x * 0.9999999 + 1e-7;
  return x;
}

template <typename Stop>
double compute_until(Stop&& stop) {
  double x = 1;
  while (!stop()) x = compute_once(x);
  return x;
}

// The share of a transfer that computing can hide: 1 means that the transfer costs nothing beside
// computing of the same length. `start` begins one transfer, `finish` waits for it. With times T
// (transfer alone), C (computing alone) and B (both): (T + C - B) / min(T, C).
template <typename Start, typename Finish>
double overlap_share(Start&& start, Finish&& finish, double total_ms = 60) {
  const double transfer_ns = median_of_singles_ns(
      [&] {
        start();
        finish();
      },
      total_ms);
  const double piece_ns = time_each_ns(
      [](uint64_t n) {
        double x = 1;
        for (uint64_t i = 0; i < n; ++i) x = compute_once(x);
        keep(x);
      },
      2, 5);
  const auto pieces = static_cast<uint64_t>(transfer_ns / piece_ns) + 1;
  auto compute = [&] {
    double x = 1;
    for (uint64_t i = 0; i < pieces; ++i) x = compute_once(x);
    keep(x);
  };
  const double compute_ns = median_of_singles_ns(compute, total_ms);
  const double both_ns = median_of_singles_ns(
      [&] {
        start();
        compute();
        finish();
      },
      total_ms);
  return (transfer_ns + compute_ns - both_ns) / std::min(transfer_ns, compute_ns);
}

}  // namespace bench
