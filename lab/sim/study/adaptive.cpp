#include "sim/study/adaptive.hpp"

#include "core/pure/container_bytes.hpp"

namespace skerry::sim {

using connection::Cap;

Adaptive::Adaptive(uint32_t cap) {
  for (size_t i = 0; i < among.size(); ++i) {
    const Status found = connection::find_policy(among[i], &shadows_[i].policy);
    SKERRY_ASSERT(found.ok(), "the product has these");
    shadows_[i].cap.set_limit(cap, shadows_[i].policy);
  }
}

void Adaptive::used(connection::Partner partner) {
  if (std::exchange(newest_, partner) == partner) return;
  for (Shadow& shadow : shadows_) {
    shadow.misses -= shadow.misses / fade;
    Cap::Claim& claim = shadow.claims.try_emplace(partner, partner).first->second;
    if (claim.hold == Cap::Hold::occupied) {
      shadow.cap.used(claim);
      continue;
    }
    shadow.misses += fade;
    const auto any = [](const Cap::Claim&) { return Cap::Standing::settled; };
    for (Cap::Claim* victim; shadow.cap.ask(0, any, &victim) == Cap::Answer::evict;) {
      shadow.cap.hold(*victim, Cap::Hold::leaving, 0, true);
      shadow.cap.hold(*victim, Cap::Hold::none, 0);
    }
    shadow.cap.hold(claim, Cap::Hold::occupied, 0);
  }
  best_ = 0;
  for (size_t i = 1; i < shadows_.size(); ++i)
    if (shadows_[i].misses < shadows_[best_].misses) best_ = i;
}

uint64_t Adaptive::memory_bytes() const {
  uint64_t bytes = sizeof *this;
  for (const Shadow& shadow : shadows_)
    bytes += shadow.cap.memory_bytes() + table_bytes(shadow.claims);
  return bytes;
}

}  // namespace skerry::sim
