// Hooks: fabrics around a fabric, that count, trace, throttle or break what passes. They compose in
// any order; the fabric inside knows nothing.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

#include "fabric/fabric.h"

namespace skerry::fabric {

// Written by the hook, read by anyone.
struct HookCounts {
  std::atomic<uint64_t> connects{0};  // begun by us
  std::atomic<uint64_t> accepts{0};
  std::atomic<uint64_t> messages_sent{0};  // accepted ones
  std::atomic<uint64_t> bytes_sent{0};     // headers and payloads of these
  std::atomic<uint64_t> would_block{0};
  std::atomic<uint64_t> messages_received{0};  // taken ones
  std::atomic<uint64_t> bytes_received{0};
  std::atomic<uint64_t> parked{0};
  std::atomic<uint64_t> puts{0}, put_bytes{0}, gets{0}, get_bytes{0};
  std::atomic<uint64_t> atomics{0};  // fetch_and_add and compare_and_swap
  std::atomic<uint64_t> closed_by_us{0},
      closed{0};  // close() calls of open endpoints by us; on_closed
  std::atomic<uint64_t> polls{0}, dispatches{0};
};
std::unique_ptr<Fabric> hook_count(std::unique_ptr<Fabric> inner,
                                   std::shared_ptr<HookCounts> counts);

// One line per call and upcall, e.g. "send 4294967296 header 40 payload 8 more -> accepted". The
// writer is called under the caller's locks.
std::unique_ptr<Fabric> hook_trace(std::unique_ptr<Fabric> inner,
                                   std::function<void(std::string_view line)> writer);

// At most so many messages per endpoint are accepted between two dispatches; then would_block, and
// on_writable in the next dispatch.
std::unique_ptr<Fabric> hook_throttle(std::unique_ptr<Fabric> inner,
                                      uint32_t messages_per_dispatch);

// Breaks things, by numbers or by chance. 0: never.
struct FaultPlan {
  uint64_t seed = 1;
  uint32_t drop_after_sent = 0;  // the connection breaks after this many messages sent on it: the
                                 // last ones may be lost
  uint32_t drop_after_received = 0;  // ... received on it
  uint32_t drop_per_million = 0;     // chance per message sent or received
  uint32_t delay_per_million = 0;    // chance that a message (and those behind it) is held back for
                                     // some dispatches
  uint32_t delay_dispatches = 3;
  uint64_t drops_at_most = UINT64_MAX;
};
struct FaultLog {
  std::atomic<uint64_t> drops{0};
  std::atomic<uint64_t> delays{0};
  // false: behave from now on, so that a test can see everything converge
  std::atomic<bool> enabled{true};
};
// A broken connection ends like a real one: here on_closed(reset), at the peer closed by us.
std::unique_ptr<Fabric> hook_faults(std::unique_ptr<Fabric> inner, const FaultPlan& plan,
                                    std::shared_ptr<FaultLog> log);

}  // namespace skerry::fabric
