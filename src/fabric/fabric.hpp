// fabric.hpp: what carries bytes between nodes. One interface, several implementations: tcp/
// (native) and ofi/ (libfabric); for tests test/loop/ (in process), and hooks that wrap any of
// them. The core asks for capabilities, never for a provider's name.
//
// A Fabric object belongs to one *side*: the origin side of a process (it connects) or a data
// server (it listens, and may connect).
//
// Threads. Two sets of calls:
//   issue calls     connect, accept, reject, send, flush, put, get, register_memory, ...
//                   The caller holds the owner's issue lock.
//   progress calls  poll      may block; takes no issue lock
//                   dispatch  makes the upcalls; the caller holds the issue lock AND the progress
//                             role
//                   close
// poll may run at the same time as issue calls. dispatch and close may not run beside poll: they
// belong to the holder of the progress role. wake may be called from any thread at any time.
// Upcalls come from dispatch only. An upcall may make issue calls.
//
// Messages. A message is a header (1..max_header_bytes) and a payload (may be empty). Messages of
// one endpoint arrive in order, once, or the endpoint closes. Payloads up to inline_payload_bytes
// are delivered with their header; longer ones are *placed directly* where place_directly says, and
// shorter ones may be where place_inline says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::fabric {

using Bytes = std::span<const std::byte>;

inline uint64_t total_bytes(std::span<const Bytes> parts) {
  uint64_t total = 0;
  for (const Bytes& part : parts) total += part.size();
  return total;
}

// Never 0 and never reused within one Fabric (slot and generation): a late call with an id of a
// closed endpoint is refused, not misdirected.
using EndpointId = uint64_t;
using RequestId = uint64_t;  // a peer that asked to connect and was neither accepted nor rejected
                             // yet; never 0
constexpr EndpointId no_endpoint = 0;

constexpr uint32_t max_header_bytes = 512;
constexpr uint32_t inline_payload_bytes = 64 * 1024;
// Linux cuts a socket's output into pieces of at most 64 KiB with all headers, and a second piece
// of a few bytes costs as much processor time as the first. A message with this payload is one.
constexpr uint32_t one_piece_bytes = 63 * 1024;
// What verbs leaves of its connect data (55; a length and the number of the connection take 9): the
// smallest of all fabrics.
constexpr uint32_t max_hello_bytes = 46;

struct Capabilities {
  bool rma = false;  // put and get of registered memory work
  // Long payloads are placed without a copy, and send_gathered works.
  bool direct_placement = false;
  // A message sent after a put is delivered after the put's data is visible at the target.
  bool am_after_rma_ordered = false;
  // After the passive side closed an endpoint no late RMA write of it can reach its memory.
  bool close_fences_rma = false;
  // send is allowed while connecting: its messages go right behind the hello, and are lost if the
  // peer refuses.
  bool early_messages = false;
  // What was sent before close reaches the peer, unless the connection breaks. False: a close may
  // discard it.
  bool close_delivers = false;
  uint32_t header_bytes = max_header_bytes;  // of one message, at most
  uint64_t max_payload_bytes = 0;  // of one message; longer ones are for the caller to cut
  // start_atomic works: it was tried, not believed. Only if Options::atomics asks. These are
  // atomic among each other alone; whether also towards the processors of the target is not
  // promised.
  bool atomics = false;
  bool atomic_swap = false;
  // They are done though no thread of the target's process runs, as far as a trial can tell.
  bool atomics_of_adapter = false;
  int64_t atomic_ns = 0;  // how long one of those takes, measured; 0: not known
  // Contiguous transfers from this size on are better as RMA; 0: never.
  uint64_t rma_from_bytes = 0;
  // An adapter performs RMA, and no thread of the target's process takes part. Aligned words of at
  // most 8 bytes are then read and written whole. Shorter transfers may be better as RMA, too.
  bool rma_of_adapter = false;
  // What one more idle connection takes at a data server, with the system's and the provider's
  // part: for plans, not a bound. Buffers that Options bound come on top.
  uint64_t connection_bytes = 12 * 1024;
};

// That number by fabric, for plans without one. Most of tcp's 4.2 KiB is the kernel's
// (lab/bench/clusters). Most of ofi's is libfabric's own, 22 KiB, or posted buffers where
// connections share none to receive into (docs/benchmarks.md#memory).
constexpr uint64_t tcp_connection_bytes = 6 * 1024;
constexpr uint64_t ofi_connection_bytes = 28 * 1024;
constexpr uint64_t ofi_own_buffers_connection_bytes = 200 * 1024;

enum class CloseReason : uint8_t {
  by_us,
  by_peer,
  refused,  // by the peer, which gave no reason, or whose reason was lost
  unreachable,
  timed_out,
  unanswered,  // connecting: the peer's host took the connection, the peer did not answer in time.
               // It lives, for a listener goes with its process; but it does not run
  reset,
  protocol_error,
  // Refused by the peer, which said why (reject). Nothing proves that it was the peer who said so.
  unproven,
  replayed,
  crowded_out,
};
constexpr CloseReason last_close_reason = CloseReason::crowded_out;
constexpr bool is_refusal(CloseReason reason) {
  return reason == CloseReason::refused || reason >= CloseReason::unproven;
}
// The reason that a peer sent with its refusal; refused: none that we know.
constexpr CloseReason refusal_of(std::byte sent) {
  const auto reason = static_cast<CloseReason>(sent);
  return is_refusal(reason) && reason <= last_close_reason ? reason : CloseReason::refused;
}
inline std::string_view to_string(CloseReason reason) {
  switch (reason) {
    case CloseReason::by_us: return "closed by us";
    case CloseReason::by_peer: return "closed by the peer";
    case CloseReason::refused: return "refused";
    case CloseReason::unreachable: return "unreachable";
    case CloseReason::timed_out: return "timed out";
    case CloseReason::unanswered: return "unanswered";
    case CloseReason::reset: return "reset";
    case CloseReason::protocol_error: return "protocol error";
    case CloseReason::unproven:
      return "refused: it serves another job, runs another version of Skerry or has other settings "
             "(SKERRY_SHARE, SKERRY_CLUSTER_SIZE)";
    case CloseReason::replayed:
      return "refused: it knows this attempt to connect already, or a later one";
    case CloseReason::crowded_out:
      return "refused: its process has no descriptor left (ulimit -n), or too many others connect";
  }
  return "unknown reason";
}

// What on_message answers.
enum class Verdict {
  taken,  // consumed; its bytes are not needed any more
  park,   // not now: keep it, deliver nothing more from this endpoint until unpark, then deliver
          // this message again
};

struct RemoteKey {  // names registered memory of a peer; opaque to everyone but the fabric, 16
                    // bytes so that it travels in headers
  uint64_t key = 0;
  uint64_t base = 0;  // the virtual address, where keys go with those; otherwise 0
};

struct RmaCall {  // see Fabric::put and get
  bool is_put = false;
  RemoteKey key;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t cookie = 0;
  std::byte* local = nullptr;  // the caller's memory; a put only reads it
};

// An atomic of the adapter on one word of 8 bytes, in the byte order of the processors; the word's
// address is a multiple of 8. See Fabric::start_atomic.
struct AtomicCall {
  enum class Kind : uint8_t {
    fetch_add,
    compare_swap,  // stores `value` if the word is `expected`
    swap,          // where Capabilities::atomic_swap says so
  };
  Kind kind = Kind::fetch_add;
  RemoteKey key{};
  uint64_t offset = 0;
  uint64_t value = 0;
  uint64_t expected = 0;       // compare_swap only
  uint64_t* before = nullptr;  // what was there; valid until the end is told
  uint64_t cookie = 0;
};

class Sink {
 public:
  virtual ~Sink() = default;
  // A peer asks to connect. Answer with accept or reject, now or later. After a deadline the fabric
  // rejects by itself.
  virtual void on_connect_request(RequestId request, Bytes hello, std::string_view peer_name) = 0;
  // Our connect succeeded; `reply` is what the peer's accept carried.
  virtual void on_connected(EndpointId endpoint, Bytes reply) = 0;
  // While connecting: the peer is there and knows us, and will answer when it has room. The connect
  // may take as long as it takes; if it ends nevertheless, our place in the peer's line is kept for
  // a while.
  virtual void on_held(EndpointId) {}
  // A whole message whose payload is at most inline_payload_bytes. The spans live until the call
  // returns. 8-byte aligned: no promise.
  virtual Verdict on_message(EndpointId endpoint, Bytes header, Bytes payload) = 0;
  // A message with a longer payload began. Returns where the payload is to go (payload_bytes of
  // room, valid until on_placed or on_closed), or null: the endpoint then closes with
  // protocol_error.
  virtual std::byte* place_directly(EndpointId endpoint, Bytes header, uint64_t payload_bytes) = 0;
  virtual Verdict on_placed(EndpointId endpoint, Bytes header, uint64_t payload_bytes) = 0;
  // A shorter payload is arriving, and its header is here. Returns where it is to go (on_placed
  // follows in place of on_message, and divert may change one's mind), or null: on_message brings
  // it. A fabric need not ask.
  virtual std::byte* place_inline(EndpointId, Bytes, uint64_t) { return nullptr; }
  // After send answered would_block: there is room again.
  virtual void on_writable(EndpointId endpoint) = 0;
  // A payload passed to send by reference may be reused.
  virtual void on_sent(EndpointId endpoint, uint64_t cookie) = 0;
  // A put or get finished (put: remote done if capabilities say so for the fabric, see put). `ok`
  // false: endpoint is closing, effect unknown.
  virtual void on_rma_done(EndpointId endpoint, uint64_t cookie, bool ok) = 0;
  // Last upcall for this endpoint. Not called for endpoints closed by close().
  virtual void on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) = 0;
  // A descriptor given to watch is readable.
  virtual void on_watched(int /*fd*/) {}
};

enum class SendResult {
  accepted,     // the fabric has it; parts up to inline_payload_bytes in all were copied or sent, a
                // longer payload is referenced until on_sent
  would_block,  // nothing was taken; on_writable follows
  closed,       // the endpoint is gone; on_closed came or will come
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const = 0;
  virtual const Capabilities& capabilities() const = 0;

  // --- issue calls -----------------------------------------------------------------------------
  // Starts to listen; *address (at most 256 bytes) is what peers pass to connect. Errors: network
  // (names the interface and what to set).
  virtual Status listen(std::vector<std::byte>* address) = 0;
  // Begins to connect; on_connected or on_closed follows. hello is at most max_hello_bytes.
  virtual Status connect(Bytes address, Bytes hello, EndpointId* endpoint) = 0;
  // reply at most max_hello_bytes. Status peer_dead: the peer went away meanwhile.
  virtual Status accept(RequestId request, Bytes reply, EndpointId* endpoint) = 0;
  // why: a refusal. The peer is told (its on_closed), as far as the network lets a last word
  // through.
  virtual void reject(RequestId request, CloseReason why) = 0;
  // The caller knows the peer and will answer, but cannot say when. The peer is told (on_held), and
  // from now on neither the deadline for an answer nor unauthenticated peers close the request. A
  // fabric that can tell only by refusing does so after a while, and the peer asks again. If it
  // leaves meanwhile, accept answers peer_dead. The caller bounds how many it holds. A held request
  // that is rejected is no refusal: the peer is told to come back.
  virtual void hold(RequestId request) = 0;

  // Sends one message. more = true lets the fabric hold it back to send it along with the next one,
  // until flush or a send without more. cookie: passed to on_sent if the payload was longer than
  // inline_payload_bytes (then it must stay valid until on_sent or on_closed/close).
  virtual SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                          uint64_t cookie) = 0;
  // The same for a payload that lies in several places, one behind the other; longer than
  // inline_payload_bytes in all. What the parts name (not the list itself) must stay valid until
  // on_sent. Only with direct_placement.
  virtual SendResult send_gathered(EndpointId /*endpoint*/, Bytes /*header*/,
                                   std::span<const Bytes> /*parts*/, uint64_t /*cookie*/) {
    return SendResult::closed;
  }
  // While connecting: a hint that nothing more goes along with the hello.
  virtual SendResult flush(EndpointId endpoint) = 0;
  // Bytes accepted by send but not yet taken by the network.
  virtual uint64_t unsent_bytes(EndpointId endpoint) const = 0;
  // Delivery from a parked endpoint goes on: at the next dispatch the parked message is delivered
  // again.
  virtual void unpark(EndpointId endpoint) = 0;

  // Makes memory a target of put and get by peers. Errors: unsupported, no_memory.
  virtual Status register_memory(void* /*base*/, uint64_t /*bytes*/, RemoteKey* /*key*/,
                                 uint64_t* /*registration*/) {
    return error(Code::unsupported, "the fabric ", name(), " has no RMA");
  }
  virtual void deregister_memory(uint64_t /*registration*/) {}
  // One contiguous RMA, not ordered with others: overlapping ones must wait for each other.
  // on_rma_done(cookie) tells when it is remote done (put) or the data is there (get). local stays
  // valid until then.
  SendResult put(EndpointId endpoint, const void* local, RemoteKey key, uint64_t offset,
                 uint64_t bytes, uint64_t cookie) {
    return start_rma(endpoint, {true, key, offset, bytes, cookie,
                                static_cast<std::byte*>(const_cast<void*>(local))});
  }
  SendResult get(EndpointId endpoint, void* local, RemoteKey key, uint64_t offset, uint64_t bytes,
                 uint64_t cookie) {
    return start_rma(endpoint, {false, key, offset, bytes, cookie, static_cast<std::byte*>(local)});
  }
  // What both come to; only where capabilities say `rma`.
  virtual SendResult start_rma(EndpointId /*endpoint*/, const RmaCall& /*call*/) {
    return SendResult::closed;
  }

  // One atomic at the peer, which takes no part. on_rma_done(cookie) tells when its effect is
  // visible to the processors there, and *before is. Not ordered with puts, gets and messages of
  // the endpoint, nor with other atomics. Only where capabilities say `atomics`.
  virtual SendResult start_atomic(EndpointId /*endpoint*/, const AtomicCall& /*call*/) {
    return SendResult::closed;
  }

  // A fabric whose endpoints share connections decides itself which of these exist: the caller then
  // keeps no limit of its own.
  virtual bool limits_connections() const { return false; }
  // From now on at most so many (one more may be closing); 0: no limit.
  // Errors: config (no such victim policy), unsupported.
  virtual Status limit_connections(uint32_t /*limit*/) {
    return error(Code::unsupported, "this fabric keeps no limit of connections");
  }
  struct Connections {
    uint64_t now = 0, peak = 0;  // with those that open and close
    uint64_t evicted = 0;        // made way for another
  };
  virtual Connections connections() const { return {}; }  // only if limits_connections()
  // Would connect use a connection that exists, or a free slot, so that no other has to make way?
  // Only if limits_connections().
  virtual bool has_room_for(Bytes /*address*/) const { return true; }

  // Adds a descriptor of the caller's to what poll waits for (level triggered).
  virtual Status watch(int fd) = 0;
  virtual void unwatch(int fd) = 0;

  // --- progress calls --------------------------------------------------------------------------
  // Sleeps until there is something to dispatch, wake was called, or timeout_ns passed (0: just
  // looks; negative: no limit). `only`: a hint that nothing but this endpoint matters now, so that
  // an implementation may block on it directly. poll then need not notice other endpoints, wake or
  // watched descriptors before timeout_ns, so give one. Of many such polls in a row, one notices
  // them each quarter of a second at the latest.
  virtual void poll(int64_t timeout_ns, EndpointId only) = 0;
  // A data server's thread may sleep without the progress role, so that another thread takes it
  // meanwhile. Called once, before any await; false: this fabric cannot do that.
  virtual bool open_await() { return false; }
  // As poll, but no progress call: leaves what came to the next poll. Returns at once or late,
  // where that does no harm.
  virtual void await(int64_t /*timeout_ns*/) {}
  // By the holder of the role: await sees nothing until end_blindness. That also ends it for what
  // was left undone meanwhile, and at due_ns (monotonic; negative: never).
  virtual void blind_await() {}
  virtual void end_blindness(int64_t /*due_ns*/) {}
  // Performs the upcalls for what poll found. Never blocks; bounded work per call, endpoints served
  // round-robin.
  virtual void dispatch(Sink& sink) = 0;
  // Closes at once and releases everything of the endpoint: no upcall for it follows. What flush
  // did not get out is lost.
  virtual void close(EndpointId endpoint) = 0;
  // The memory that place_inline named is not valid any more: what still comes of that payload goes
  // nowhere. on_placed follows all the same.
  virtual void divert(EndpointId) {}
  // The same as close where all that was sent is known to have been read, and nothing is to come:
  // the cheapest way the fabric has. The peer may see a reset.
  virtual void close_drained(EndpointId endpoint) { close(endpoint); }

  // --- any thread ------------------------------------------------------------------------------
  virtual void wake() = 0;

  // Connections that were closed before a peer was accepted, by reason.
  struct Unauthenticated {
    uint64_t silent = 0;  // no whole hello, or no answer to it by the caller, before the deadline
    uint64_t left = 0;    // ended by themselves
    uint64_t crowded_out = 0;  // made way for newer ones, or no descriptor was left
    uint64_t garbage = 0;      // do not speak our protocol, or another version of it
    uint64_t rejected = 0;     // the caller would not have them
    uint64_t all() const { return silent + left + crowded_out + garbage + rejected; }
  };
  struct Traffic {
    uint64_t bytes_sent = 0;  // handed to the network, framing included
    uint64_t bytes_received = 0;
    uint64_t endpoints_open = 0;
    Unauthenticated unauthenticated;
    // Endpoints that had something without a wake-up: a look at them found it.
    uint64_t waits_found_late = 0;
  };
  virtual Traffic traffic() const = 0;  // by the holder of the issue lock
  // What it takes in this process, beyond the operating system's and the provider's own. By the
  // holder of the issue lock; walks all endpoints.
  struct Memory {
    uint64_t endpoint_bytes = 0;  // of all endpoints, with what they hold at the moment
    uint64_t fixed_bytes = 0;  // the rest: buffers that all of them share, and room kept for more
  };
  virtual Memory memory() const = 0;
};

// What the connections of an origin or a data server take in its process, beyond the operating
// system's.
struct ConnectionsMemory {
  uint64_t connections = 0;       // open or being opened, now
  uint64_t connection_bytes = 0;  // their endpoints, and what waits to be sent, again or at all
  uint64_t known = 0;             // peers that it has talked to
  uint64_t known_bytes = 0;       // what is kept of them, with or without a connection
  uint64_t fixed_bytes = 0;       // whatever the number of either: shared buffers, slots, tables

  ConnectionsMemory& operator+=(const ConnectionsMemory& other) {
    connections += other.connections;
    connection_bytes += other.connection_bytes;
    known += other.known;
    known_bytes += other.known_bytes;
    fixed_bytes += other.fixed_bytes;
    return *this;
  }
};

// Options common to all; set from SKERRY_* variables by the caller.
struct Options {
  std::string interface;       // name or address of the interface to listen on; empty: choose
  bool loopback_only = false;  // all peers are on this host (virtual nodes): listen on loopback
  int64_t hello_deadline_ns = 5'000'000'000;  // an unauthenticated peer that has not said a whole
                                              // hello by then is closed
  // Connections before accept; beyond that the oldest is closed.
  uint32_t max_unauthenticated = 256;
  // Refused connections a second (and as many at once as in a tenth of one; 0: no limit): beyond
  // that the listener rests, and newcomers wait in the system's queue.
  uint32_t max_refusals_per_s = 4'000;
  int64_t connect_timeout_ns = 20'000'000'000;
  int64_t silence_timeout_ns = 30'000'000'000;  // unacknowledged data older than this closes the
                                                // endpoint (TCP_USER_TIMEOUT)
  // Kernel buffer of each accepted connection, either way; 0: as the system likes, which is
  // megabytes for a connection in use. Only where the kernel has buffers (tcp).
  uint32_t socket_buffer_bytes = 0;
  // All endpoints receive into one pool of buffers where the provider can do that (ofi). False:
  // each has its own.
  bool shared_receives = true;
  // Where nothing ends a sleep (ofi, if a provider's queues have no descriptor) poll sleeps longer
  // each time that nothing came, up to this.
  int64_t longest_look_ns = 2'000'000;
  // Which atomics are wanted: once in a process and provider a fabric talks to itself and tries
  // them. `of_adapter`: those that are not known to be software alone.
  enum class Atomics : uint8_t { none, of_adapter, any };
  Atomics atomics = Atomics::none;
  // SKERRY_FAULTS: connections that break by chance, for tests. Only in builds with tests.
  std::string faults;
  uint64_t faults_side = 0;  // fabrics of one job differ in it, and break at different moments
};

// name: "tcp", "ofi" or "ofi:PROVIDER", as SKERRY_FABRIC has it. Errors: config (faults in a build
// without tests), unsupported, network.
Status make_fabric(std::string_view name, const Options& options, std::unique_ptr<Fabric>* fabric);
Status make_tcp_fabric(const Options& options, std::unique_ptr<Fabric>* fabric);
// libfabric's connected endpoints (FI_EP_MSG), for InfiniBand and RoCE (provider "verbs") and, to
// compare with, "tcp". Its reliable datagrams (FI_EP_RDM) where a provider has nothing else ("efa",
// "cxi"), or where ":rdm" follows its name. provider empty: the first that is here of
// ofi/providers.hpp. Errors: unsupported (not built, libfabric.so.1 is not installed, or the
// provider lacks something, which is named), network.
Status make_ofi_fabric(const Options& options, const std::string& provider,
                       std::unique_ptr<Fabric>* fabric);

}  // namespace skerry::fabric
