// Belady's optimum: with the future known, the connection whose next use is farthest away goes. The
// fewest set-ups that any policy can have on a trace under a cap, since connections are opened on
// demand only.
#pragma once

#include <cstdint>
#include <vector>

#include "connection/cap.hpp"
#include "sim/study/traffic.hpp"

namespace skerry::sim {

// One rank's trace: the partners in order, and for each place the place of the same partner's next
// use.
struct Future {
  static constexpr uint32_t never = ~0u;
  std::vector<uint32_t> partner;
  std::vector<uint32_t> next;
  uint32_t distinct = 0;  // partners in the whole run
};
// `scratch` holds a word per node and is left as it was.
Future future_of(const TrafficConfig& config, uint32_t rank, std::vector<uint32_t>* scratch);
uint64_t optimal_setups(const Future& future, uint32_t cap);

// The same choice as a policy inside the model, where time passes as well.
class Optimum {
 public:
  Optimum(Future future, uint32_t nodes) : future_(std::move(future)), next_(nodes) {}
  // The request at `place` of the trace goes to its partner now.
  void at(uint32_t place) { next_[future_.partner[place]] = future_.next[place]; }
  // As of a connection::Policy.
  connection::Worth worth(uint32_t node, const connection::Uses& uses) const {
    return {Future::never - next_[node], uses.last};
  }

 private:
  Future future_;
  std::vector<uint32_t> next_;  // by node: the place of its next use
};

}  // namespace skerry::sim
