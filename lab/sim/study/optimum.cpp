#include "sim/study/optimum.hpp"

#include <algorithm>

namespace skerry::sim {

Future future_of(const TrafficConfig& config, uint32_t rank, std::vector<uint32_t>* scratch) {
  Future future;
  Traffic traffic(config, rank);
  for (Request request; traffic.next(&request);) future.partner.push_back(request.node);
  future.next.resize(future.partner.size());
  std::vector<uint32_t>&
      seen = *scratch;  // the place of a partner's next use, counted from 1; 0: none
  for (size_t i = future.partner.size(); i-- > 0;) {
    uint32_t& at = seen[future.partner[i]];
    future.next[i] = at == 0 ? Future::never : at - 1;
    if (at == 0) ++future.distinct;
    at = static_cast<uint32_t>(i + 1);
  }
  for (const uint32_t p : future.partner) seen[p] = 0;
  return future;
}

uint64_t optimal_setups(const Future& future, uint32_t cap) {
  if (cap == 0 || future.distinct <= cap) return future.distinct;
  struct Open {
    uint32_t partner;
    uint32_t next;
  };
  std::vector<Open> open;
  uint64_t setups = 0;
  for (size_t i = 0; i < future.partner.size(); ++i) {
    const uint32_t p = future.partner[i];
    Open* farthest = nullptr;
    Open* own = nullptr;
    for (Open& o : open) {
      if (o.partner == p) {
        own = &o;
        break;
      }
      if (farthest == nullptr || o.next > farthest->next) farthest = &o;
    }
    if (own != nullptr) {
      own->next = future.next[i];
      continue;
    }
    ++setups;
    if (open.size() < cap) open.push_back({p, future.next[i]});
    else *farthest = {p, future.next[i]};
  }
  return setups;
}

}  // namespace skerry::sim
