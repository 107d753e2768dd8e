// Routes through data servers: what a rank takes for a connection to a far data server is a
// *channel*, which other data servers pass on.
//
//   rank --link--> server --trunk--> server --trunk--> server of the target
//   rank --link-----^
//
// placement::Routes says through which servers. A channel begins at the rank and ends at the data
// server it names. Admission, sessions and resuming are between those two ends, as without routes.
// A data server that passes channels on is a *proxy*.
//
// Addresses. What a proxy's listen returns names its node, so that every hop can ask for the way:
// | node, 4 bytes | address of the fabric beneath |
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "connection/hello.hpp"
#include "fabric/fabric.hpp"
#include "placement/routes.hpp"

namespace skerry::share {

// The way to other servers.
struct Guide {
  placement::Routes routes;
  // Address of the data server of a node through which the way leads, valid for the call; empty:
  // there is none. Null: no server is known but a channel's own target.
  std::function<fabric::Bytes(NodeId)> address_of;
};

// Written by the owner's thread, read by anyone.
struct Counters {
  std::atomic<uint64_t> trunks{0};  // a proxy's, or a rank's links, that we opened: now
  std::atomic<uint64_t> trunks_peak{0};
  std::atomic<uint64_t> trunks_opened{0};
  std::atomic<uint64_t> trunks_evicted{0};  // closed to make way for another
  std::atomic<uint64_t> channels{0};        // that pass through here, now
  std::atomic<uint64_t> messages{0};        // passed on, either way
  std::atomic<uint64_t> bytes{0};           // of these
  std::atomic<uint64_t> kept_bytes{0};      // of messages that wait here, now
  std::atomic<uint64_t> kept_peak_bytes{0};
  std::atomic<uint64_t> channels_dropped{0};  // because a pool was at its limit
  std::atomic<uint64_t> channels_asked{0};    // to close, as many pass (max_passing)
  std::atomic<uint64_t> channels_closed{0};   // the same, because they did not
};

// Of a data server's side (a proxy), or a rank's (a client).
struct Options {
  connection::JobKey key{};
  uint32_t rank = 0;   // a client's
  uint32_t node = 0;   // of the server or rank
  uint16_t index = 0;  // of the data server among those of its node
  Guide guide;
  // Of trunks that we open, or links. 0: as many as the channels need. At the limit they make way
  // for each other.
  uint32_t max_trunks = 0;
  std::string victim = "lru";  // policy that chooses which
  int64_t connect_timeout_ns = 20'000'000'000;
  std::shared_ptr<Counters> counters;  // null: not counted

  // ---- a proxy's -------------------------------------------------------------------------------
  uint64_t pool_bytes = 0;   // for what waits, in each of two pools (message.hpp); 0: no limit
  uint32_t max_passing = 0;  // channels that pass through, at a time. From there on idle ones are
                             // asked to close; those that do not are closed at a quarter more. Busy
                             // ones never count: they may be more. 0: no limit
  // A trunk without channels stays this long, for the next one: ranks with few connections change
  // theirs thousands of times a second.
  int64_t unused_trunk_ns = 1'000'000'000;
  // The ranks have this long to close their channels on a trunk that makes way. Then it is closed,
  // and what was outstanding is resumed on the next one; sooner if nothing came back for a while,
  // because then the ranks are computing. Tests wait longer: their machine may be slow.
  int64_t leave_ns = 100'000'000, quiet_ns = 5'000'000;
  uint64_t openings_before = 0;  // trunks opened so far: tests start near a wrap of 32 bits
};
// The data server's side, around what it listens on: connections of peers that do not share pass
// unchanged. Errors: config (no such policy).
Status make_proxy(std::unique_ptr<fabric::Fabric> inner, Options options,
                  std::unique_ptr<fabric::Fabric>* proxy);
// A rank's side: every connect becomes a channel on a link to the first server of its route.
// limit_connections bounds the links if routes lead to several. Errors: as above.
Status make_proxy_client(std::unique_ptr<fabric::Fabric> inner, Options options,
                         std::unique_ptr<fabric::Fabric>* client);

}  // namespace skerry::share
