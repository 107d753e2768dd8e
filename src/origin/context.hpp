// What every part of an engine sees: its configuration, its fabric, the one mutex, the counters.
//
// Threads. `mutex` guards all state of all parts. Public calls of the Engine take it; the parts'
// functions need it held and assert so; a function that takes a Lock& may give it up in between.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "connection/hello.hpp"
#include "core/pure/assert.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "core/thread.hpp"
#include "fabric/fabric.hpp"
#include "memory/control.hpp"
#include "memory/spans.hpp"
#include "placement/node_map.hpp"

namespace skerry::origin {

// What was issued to ranks of one other node.
struct NodeTraffic {
  uint64_t operations = 0;
  uint64_t bytes = 0;
};

struct EngineConfig {
  Rank rank = no_rank;
  NodeId node = no_node;
  uint32_t incarnation = 1;
  connection::JobKey key{};
  const placement::NodeMap* map = nullptr;
  placement::LateAddress late_address{};
  memory::Control control;
  uint32_t member_index = 0;
  bool one_thread_at_a_time = true;  // thread level below multiple
  bool helper = true;  // a thread moves non-blocking transfers while the program computes
  // Blocking accumulates that follow one another sooner are a stream, and travel together.
  int64_t stream_gap_ns = 20'000;
  std::string victim = "lru";  // policy that chooses whose connection goes at the limit, see
                               // limit_connections
  bool servers_drop = false;   // data servers have a limit of their own, and close idle connections
  // Called before a thread waits: it may have borrowed this node's data server. Null: it cannot.
  std::function<void()> before_waiting;
  bool quiet = false;  // servers may be late with acknowledgements that no fence waits for
  // A server that cannot be reached for this time is lost.
  int64_t reconnect_limit_ns = 60'000'000'000;
  NodeTraffic* traffic = nullptr;  // by node; outlives the engine. Null: not counted
  memory::Spans* spans = nullptr;  // outlives the engine. Null: nobody records calls
};

struct EngineCounters {
  uint64_t remote_operations = 0;
  uint64_t remote_bytes = 0;
  uint64_t connections_opened = 0;
  uint64_t connections_closed = 0;
  uint64_t connections_evicted = 0;  // closed to make room for another
  uint64_t connections_broken = 0;   // lost with requests outstanding ...
  uint64_t connections_resumed = 0;  // ... and opened again
  uint64_t connections_dropped = 0;  // closed by a server that needed the slot, with nothing
                                     // outstanding
  uint64_t connections_now = 0;
  uint64_t connections_peak = 0;  // opening, open and leaving ones
  uint64_t requests_replayed = 0;
  uint64_t teardown_ns = 0;          // from each eviction to its end, summed
  uint64_t teardown_exposed_ns = 0;  // of that, what somebody waited for: choosing, saying bye, and
                                     // a slot that was not free yet
  uint64_t teardowns_hidden = 0;     // evictions that kept nobody waiting
  uint64_t setup_ns = 0;             // from each connect to its answer, summed
  uint64_t setup_exposed_ns = 0;     // of that, what somebody waited for
  uint64_t link_bytes = 0;           // what links take now, replay logs and batches included
  uint64_t links = 0;                // servers this process has talked to
  uint64_t fences = 0;
};

// A node that died with its leader, in a job that goes on.
struct Loss {
  NodeId node;
  Status why;
};

struct EngineContext {
  EngineConfig config;
  std::unique_ptr<fabric::Fabric> fabric;
  Mutex mutex;
  EngineCounters counters;
  std::vector<Loss> lost{};  // its servers are connected to no more

  // Null: as far as is known here it lives.
  const Status* loss_of(NodeId node) const {
    for (const Loss& loss : lost)
      if (loss.node == node) return &loss.why;
    return nullptr;
  }
  std::span<const std::byte> address_of(placement::ServerRef server) const {
    return placement::address_of(*config.map, config.late_address, server);
  }
  void assert_held() const { mutex.assert_held(); }
  const fabric::Capabilities& can() const { return fabric->capabilities(); }
  // Where this rank says what it waits for; null: nowhere.
  memory::WaitNote* wait_note() const {
    return config.control ? &config.control.member(config.member_index).waits : nullptr;
  }
  // No thread could be started for the helper: from then on all is as without one. Set with the
  // mutex held, and never taken back; read without it, where a moment later is as good.
  std::atomic<bool> helper_is_missing{false};
  bool has_helper() const {
    return config.helper && !helper_is_missing.load(std::memory_order_relaxed);
  }
  // The job is ending: waits are cut short and their callers take their buffers back, so that
  // nothing may be placed there or be sent from there any more. Looked at with the mutex held
  // before every dispatch and flush. So a thread that saw the end has had the mutex before a thread
  // that would touch its buffer gets it.
  bool is_ending() const { return config.control && config.control.is_aborted(); }
  Status abort_status() const {
    const memory::ControlHeader& header = config.control.header();
    return Status(Code::peer_dead,
                  concat("the job is ending: ", static_cast<const char*>(header.abort_text)));
  }
};

}  // namespace skerry::origin
