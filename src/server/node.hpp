// What all parts of a data server know: where it is, the memory of its node, and what it counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "connection/hello.hpp"
#include "core/pure/ids.hpp"
#include "lock/host/requests.hpp"
#include "memory/apply.hpp"
#include "memory/control.hpp"
#include "placement/node_map.hpp"
#include "server/landings.hpp"

namespace skerry::server {

// What the servers of a node ask of its memory. Each calls it on a thread of its own.
class Directory : public lock::LockMemory {
 public:
  // Where `rank`'s slice of the segment is mapped here. Errors: freed (no such segment: never
  // allocated here, or freed).
  virtual Status find(SegmentId segment, Rank rank, memory::Region* region) = 0;
};

struct ServerConfig {
  placement::ServerRef self;
  connection::JobKey key{};
  int32_t ranks = 0;             // of the job
  uint32_t max_connections = 0;  // of origins; 0: no limit. Other data servers do not count
};

class Server;

// What exists only once the node's control segment does.
struct NodeView {
  memory::Control control;
  uint32_t member_index = 0;  // of the rank that hosts the server: it signs stripes as that
  std::function<int32_t(Rank)> member_of;   // member index of a rank of this node, -1 for others
  const placement::NodeMap* map = nullptr;  // outlives the server
  // All of this node, by index; they outlive each other's threads. Empty: it is the only one.
  std::vector<Server*> servers;
  Landings* landings = nullptr;  // outlives them; null: there are none
  bool has_dead = false;  // ranks died and the job goes on: a lock's holder may have been one
  placement::LateAddress late_address{};
};

// Written by the server's thread, read by any.
struct Counters {
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> bytes_sent{0};
  std::atomic<uint64_t> bytes_received{0};
  // In all and by reason: see Fabric::Unauthenticated. Of what it counts as rejected:
  std::atomic<uint64_t> refused_connections{0}, refused_silent{0}, refused_left{0},
      refused_crowded_out{0}, refused_malformed{0};
  // no member of this job, or none that means this server in this role
  std::atomic<uint64_t> refused_unproven{0};
  std::atomic<uint64_t> refused_replayed{0};  // a hello of an older generation
  std::atomic<uint64_t> clients{0};
  std::atomic<uint64_t> clients_peak{0};      // most at one time
  std::atomic<uint64_t> clients_dropped{0};   // idle ones that made place under max_connections
  std::atomic<uint64_t> clients_waited{0};    // hellos for which there was no place at once
  std::atomic<uint64_t> grants_relayed{0};    // through other servers, and taken by them
  std::atomic<uint64_t> waits_found_late{0};  // see Fabric::Traffic
};
inline void count(std::atomic<uint64_t>& counter, uint64_t more = 1) {
  counter.fetch_add(more, std::memory_order_relaxed);
}

}  // namespace skerry::server
