// Sharing: the ranks of a node reach other nodes through their own node's data server, which keeps
// one connection per remote node for all of them.
//
//   rank --link--> hub (in its node's data server) --carrier--> hub of another node --> data server
//   there rank --link--------^
//
// What a rank takes for a connection is a *channel*: it begins at the rank, passes its node's hub
// and ends at the data server it names. Admission, sessions, resuming are between those two ends as
// ever. A carrier opens with the first channel to its node and closes with the last.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "connection/core/admission.hpp"
#include "fabric/fabric.h"

namespace skerry::share {

// Of a hub. Written by its thread, read by anyone.
struct Counters {
  // connections to other nodes' hubs that we opened: open and opening ones
  std::atomic<uint64_t> carriers{0};
  std::atomic<uint64_t> carriers_peak{0};
  std::atomic<uint64_t> carriers_opened{0};   // so far
  std::atomic<uint64_t> carriers_evicted{0};  // closed to make place for another
  std::atomic<uint64_t> channels{0};          // of our ranks, now
  std::atomic<uint64_t> messages{0};          // passed on, either way
  std::atomic<uint64_t> bytes{0};             // of these
};

struct HubOptions {
  connection::JobKey key{};
  uint32_t node = 0;
  uint32_t max_carriers = 0;   // 0: as many as the ranks' channels need. At the limit carriers make
                               // place for each other
  std::string victim = "lru";  // policy that chooses which
  int64_t connect_timeout_ns = 20'000'000'000;
  std::shared_ptr<Counters> counters;  // null: not counted
};
// The data server's side, around what it listens on: connections of peers that do not share pass
// unchanged. Errors: config (no such policy).
Status make_hub(std::unique_ptr<fabric::Fabric> inner, HubOptions options,
                std::unique_ptr<fabric::Fabric>* hub);

struct MemberOptions {
  connection::JobKey key{};
  uint32_t rank = 0;
  std::vector<std::byte> hub;  // address of the own node's data server
  int64_t connect_timeout_ns = 20'000'000'000;
};
// A rank's side: every connect becomes a channel on its one link to the hub.
std::unique_ptr<fabric::Fabric> make_member(std::unique_ptr<fabric::Fabric> inner,
                                            MemberOptions options);

}  // namespace skerry::share
