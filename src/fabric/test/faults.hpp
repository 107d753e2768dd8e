// A hook is a fabric around a fabric, which knows nothing of it. This one breaks what passes. It is
// in builds with tests alone: jobs of theirs ask for it with SKERRY_FAULTS.
#pragma once

#include <atomic>
#include <memory>

#include "fabric/fabric.hpp"

namespace skerry::fabric {

// Breaks things, by numbers or by chance. 0: never.
struct FaultPlan {
  uint64_t seed = 1;
  uint32_t drop_after_sent = 0;  // the connection breaks after this many messages sent on it: the
                                 // last ones may be lost
  uint32_t drop_after_received = 0;  // ... received on it
  uint32_t drop_per_million = 0;     // chance per message sent or received
};
struct FaultLog {
  std::atomic<uint64_t> drops{0};
  // false: behave from now on, so that a test can see everything converge
  std::atomic<bool> enabled{true};
};
// A broken connection ends like a real one: here on_closed(reset), at the peer closed by us.
std::unique_ptr<Fabric> hook_faults(std::unique_ptr<Fabric> inner, const FaultPlan& plan,
                                    std::shared_ptr<FaultLog> log);
// By Options::faults, drop=N,seed=N in any order: N drops per million. Errors: config.
Status add_faults(const Options& options, std::unique_ptr<Fabric>* fabric);

}  // namespace skerry::fabric
