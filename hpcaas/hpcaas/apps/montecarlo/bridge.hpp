// Brownian bridge: the first Sobol dimensions, which are the best distributed, decide the coarse
// shape of a path.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace montecarlo {

struct BridgeStep {
  int left;   // time index of the left support, 0 is the start (W = 0)
  int right;  // time index of the right support, 0 means none: the first step draws the end point
  int at;     // time index that this step fixes, 1..steps
  double w_left;
  double w_right;
  double sigma;
};

// Order of construction for `steps` equal intervals of length `dt`. Step i consumes dimension i.
inline std::vector<BridgeStep> make_bridge(int steps, double dt) {
  std::vector<BridgeStep> order;
  order.push_back({0, 0, steps, 0.0, 0.0, std::sqrt(dt * steps)});
  // Breadth first, so that coarse intervals are halved before fine ones whatever the number of
  // steps.
  struct Interval {
    int left, right;
  };
  std::vector<Interval> open{{0, steps}};
  for (std::size_t next = 0; next < open.size(); ++next) {
    const Interval interval = open[next];
    if (interval.right - interval.left < 2) continue;
    const int at = interval.left + (interval.right - interval.left) / 2;
    const double to_left = at - interval.left;
    const double to_right = interval.right - at;
    const double length = to_left + to_right;
    order.push_back({interval.left, interval.right, at, to_right / length, to_left / length,
                     std::sqrt(dt * to_left * to_right / length)});
    open.push_back({interval.left, at});
    open.push_back({at, interval.right});
  }
  return order;
}

}  // namespace montecarlo
