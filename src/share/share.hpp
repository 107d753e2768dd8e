// Sharing: the ranks of a node reach other nodes through their own node's data server, which keeps
// one connection per remote node for all of them.
//
//   rank --link--> proxy of its node --trunk--> proxy of another node --> data server there
//   rank --link-----^
//
// A proxy lives in its node's data server. What a rank takes for a connection is a *channel*. It
// begins at the rank, passes its node's proxy and ends at the data server it names. Admission,
// sessions and resuming are between those two ends, as without sharing. A trunk opens with the
// first channel to its node and closes with the last.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "connection/core/hello.hpp"
#include "fabric/fabric.h"

namespace skerry::share {

// Of a proxy. Written by its thread, read by anyone.
struct Counters {
  // Connections to other nodes' proxies that we opened: open and opening ones.
  std::atomic<uint64_t> trunks{0};
  std::atomic<uint64_t> trunks_peak{0};
  std::atomic<uint64_t> trunks_opened{0};   // so far
  std::atomic<uint64_t> trunks_evicted{0};  // closed to make way for another
  std::atomic<uint64_t> channels{0};        // of our ranks, now
  std::atomic<uint64_t> messages{0};        // passed on, either way
  std::atomic<uint64_t> bytes{0};           // of these
};

struct ProxyOptions {
  connection::JobKey key{};
  uint32_t node = 0;
  uint32_t max_trunks = 0;       // 0: as many as the ranks' channels need. At the limit trunks make
                                 // way for each other
  std::string victim = "lru";    // policy that chooses which
  uint64_t openings_before = 0;  // trunks opened so far: tests start near a wrap of 32 bits
  int64_t connect_timeout_ns = 20'000'000'000;
  std::shared_ptr<Counters> counters;  // null: not counted
};
// The data server's side, around what it listens on: connections of peers that do not share pass
// unchanged. Errors: config (no such policy).
Status make_proxy(std::unique_ptr<fabric::Fabric> inner, ProxyOptions options,
                  std::unique_ptr<fabric::Fabric>* proxy);

struct ProxyClientOptions {
  connection::JobKey key{};
  uint32_t rank = 0;
  std::vector<std::byte> proxy;  // address of the own node's data server
  int64_t connect_timeout_ns = 20'000'000'000;
};
// A rank's side: every connect becomes a channel on its one link to the proxy.
std::unique_ptr<fabric::Fabric> make_proxy_client(std::unique_ptr<fabric::Fabric> inner,
                                                  ProxyClientOptions options);

}  // namespace skerry::share
