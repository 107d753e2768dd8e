// What trunks, channels and transits share: what they were made with, the fabrics beneath and
// above, what the next dispatch has to do, and how long poll may sleep. Touched by issue calls and
// dispatch alone; poll, which may run beside issue calls, looks at atomics.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/futex.hpp"
#include "share/message.hpp"
#include "share/share.hpp"

namespace skerry::share {

struct MultiplexContext {
  MultiplexContext(fabric::Fabric& beneath, Options o, bool proxy)
      : options(std::move(o)), is_proxy(proxy), inner(beneath) {
    from_ranks.limit = from_servers.limit = options.pool_bytes;
    if (!options.counters) options.counters = std::make_shared<Counters>();
  }
  // What our hellos say: the rank, or a proxy's node and index. Two servers of a node may have
  // trunks to the same server of a node that has fewer. Without the index each would end the
  // other's as its own earlier one.
  static constexpr uint32_t index_shift = 28;
  uint32_t name() const {
    return is_proxy ? options.node | uint32_t{options.index} << index_shift : options.rank;
  }
  static NodeId node_named(uint32_t name) {
    return static_cast<NodeId>(name & ((1u << index_shift) - 1));
  }
  NodeId node() const { return static_cast<NodeId>(options.node); }
  Counters& counters() const { return *options.counters; }
  void count_kept() {
    counters().kept_bytes.store(from_ranks.held + from_servers.held, std::memory_order_relaxed);
    counters().kept_peak_bytes.store(from_ranks.peak + from_servers.peak,
                                     std::memory_order_relaxed);
  }

  // ---- for the next dispatch -------------------------------------------------------------------
  // For what would be an upcall from within an issue call, or might end what its caller uses.
  void defer(std::function<void()> upcall) {
    deferred.push_back(std::move(upcall));
    want_dispatch();
  }
  void want_dispatch() {
    if (dispatching) return;  // the end of it looks
    work_pending.store(true, std::memory_order_seq_cst);
    if (polling.load(std::memory_order_seq_cst)) inner.wake();
  }
  void run_deferred() {
    std::vector<std::function<void()>> now;
    now.swap(deferred);
    for (const auto& upcall : now) upcall();
  }
  // Something is to be done then; it may have become needless.
  void note_deadline(int64_t then_ns) {
    if (then_ns < deadline_ns.load(std::memory_order_relaxed))
      deadline_ns.store(then_ns, std::memory_order_relaxed);
  }

  // Returns false if there is none yet. Deadlines that are still to come are noted again.
  bool deadline_passed(int64_t* now_ns) {
    if (deadline_ns.load(std::memory_order_relaxed) == INT64_MAX) return false;
    *now_ns = monotonic_ns();
    if (*now_ns < deadline_ns.load(std::memory_order_relaxed)) return false;
    deadline_ns.store(INT64_MAX, std::memory_order_relaxed);
    return true;
  }

  // ---- poll ------------------------------------------------------------------------------------
  void poll(int64_t timeout_ns, EndpointId only) {
    // As in Dekker's algorithm with want_dispatch: we say that we are about to sleep, then look for
    // work; want_dispatch adds work, then looks whether a thread sleeps.
    polling.store(true, std::memory_order_seq_cst);
    if (work_pending.load(std::memory_order_seq_cst)) timeout_ns = 0;
    if (const int64_t then_ns = deadline_ns.load(std::memory_order_relaxed);
        then_ns != INT64_MAX && timeout_ns != 0) {
      const int64_t left_ns = std::max<int64_t>(then_ns - monotonic_ns(), 0);
      timeout_ns = timeout_ns < 0 ? left_ns : std::min(timeout_ns, left_ns);
    }
    inner.poll(timeout_ns, only);
    polling.store(false, std::memory_order_relaxed);
  }
  void note_link(EndpointId channel, EndpointId link) {
    if (is_proxy) return;
    if (last_channel.load(std::memory_order_relaxed) == channel &&
        last_link.load(std::memory_order_relaxed) == link)
      return;
    last_channel.store(no_endpoint, std::memory_order_release);
    last_link.store(link, std::memory_order_release);
    last_channel.store(channel, std::memory_order_release);
  }
  // Any thread. None if the channel is not the one that sent last: poll then looks at all.
  EndpointId link_of(EndpointId channel) const {
    if (last_channel.load(std::memory_order_acquire) != channel) return no_endpoint;
    const EndpointId link = last_link.load(std::memory_order_acquire);
    return last_channel.load(std::memory_order_acquire) == channel ? link : no_endpoint;
  }

  Options options;
  const bool is_proxy;  // otherwise a rank
  fabric::Fabric& inner;
  fabric::Capabilities capabilities;  // of channels
  std::string own_address;            // with the node's number before it; empty: not listening
  Pool from_ranks, from_servers;      // what waits here, by where it came from
  fabric::Sink* outer = nullptr;      // during dispatch
  bool dispatching = false;
  std::vector<std::function<void()>> deferred;
  std::atomic<bool> polling{false};
  // deferred is not empty, or a slot may be free for a waiter
  std::atomic<bool> work_pending{false};
  std::atomic<int64_t> deadline_ns{INT64_MAX};  // the earliest
  // A rank's: the channel it sent on last, and the link of that; poll blocks on the link alone if
  // nothing but that channel matters. Channel 0: changing.
  std::atomic<EndpointId> last_channel{no_endpoint};
  std::atomic<EndpointId> last_link{no_endpoint};
};

}  // namespace skerry::share
