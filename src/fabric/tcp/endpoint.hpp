// What a tcp fabric remembers of one connection. An idle one is the Endpoint alone: everything else
// exists only while it is needed.
//
// Two owners: the issue side (the thread that holds the issue lock) and the progress side (the
// thread that holds the progress role).
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "fabric/tcp/address.hpp"

namespace skerry::fabric::tcp {

enum class State : uint8_t {
  connecting,      // our connect is under way in the kernel
  awaiting_reply,  // our greeting is sent, the peer's accept is not here yet
  greeting,        // an unauthenticated peer: has not said its whole hello
  asking,          // an unauthenticated peer that said hello; the caller has not answered
  open,
};

// Receive state of a connection that is in the middle of something. Progress side only.
struct Receive {
  // A started frame (or greeting): its first `partial_have` bytes. null: none.
  std::unique_ptr<std::byte[]> partial;
  uint32_t partial_have = 0;
  uint32_t partial_need = 0;  // bytes until it can be delivered; 0: not known yet (fewer than 8
                              // bytes seen, or a greeting)
  // A long payload on its way into the caller's memory. null: none.
  std::byte* destination = nullptr;
  uint64_t placed_bytes = 0;
  uint64_t payload_bytes = 0;      // whole payload bytes; kept while placed_parked
  std::vector<std::byte> header;   // of the message that is placed directly
  std::vector<std::byte> nowhere;  // where its payload goes since divert; empty: not diverted
  bool placed_parked = false;      // on_placed answered park: call it again after unpark
  bool parked = false;             // nothing may be delivered until unpark
  // In the fabric's list of raised marks; only while the endpoint's wake_bytes is above 1.
  std::list<EndpointId>::iterator raised_place;
  // Received, but behind the parked message: whole frames and perhaps a started one.
  std::vector<std::byte> backlog;
  uint64_t backlog_done = 0;  // bytes of backlog consumed

  bool idle() const {
    return partial == nullptr && destination == nullptr && !placed_parked && !parked &&
           backlog.empty();
  }
};

// A piece of output: owned bytes or a caller's long payload.
struct Segment {
  std::unique_ptr<std::byte[]> owned;  // null: a reference to the caller's payload
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t capacity = 0;  // of owned
  uint64_t cookie = 0;    // for on_sent; references only
  bool last = true;       // of a reference in several parts: on_sent follows it
};

// Output that the socket has not taken yet. Issue side only.
struct Output {
  std::vector<Segment> segments;
  size_t first = 0;              // segments before it are done
  uint64_t first_done = 0;       // bytes of segments[first] already written
  uint64_t bytes = 0;            // unsent in all
  bool blocked = false;          // the socket said EAGAIN: EPOLLOUT is armed
  bool writable_wanted = false;  // a send was answered would_block
};

uint64_t held_bytes(const Output& output);  // with what its segments own

// A connection that is not open yet. Issue side and dispatch.
struct Opening {
  int64_t deadline_ns = 0;
  std::list<EndpointId>::iterator
      place;  // in the fabric's list of connects, of unauthenticated peers or of held requests
  bool held = false;                      // in the last
  std::vector<SocketAddress> candidates;  // connects only
  size_t next_candidate = 0;
  std::vector<std::byte> greeting;  // connects only: what to send once connected
};

// How far what was received could be delivered.
enum class Parsed { all, parked, gone };

struct Endpoint {
  std::atomic<uint64_t> id{0};  // see Slots
  int fd = -1;
  uint32_t interest = 0;                    // epoll events armed; issue lock
  State state = State::connecting;          // issue lock; read by poll for an id that it was given
  bool registered = false;                  // in the epoll set; issue lock
  std::atomic<bool> output_pending{false};  // unsent output waits for EPOLLOUT: poll must not block
                                            // in recv. Written by the issue side
  uint8_t short_reads = 0;  // so many reads take little beside a payload that place_inline placed:
                            // more such may follow. Progress side
  bool send_bounded = false;  // its send buffer was made small for long payloads; issue lock
  bool overdue = false;  // the last look found it ready and no event has come since. Progress side
  uint16_t most_mark_kib = 0;  // a low-water mark that its receive window reaches, as last asked;
                               // 0: not asked yet. Progress side
  int32_t send_error = 0;  // errno of a failed send (0: none): the receive side reports it once its
                           // data is read; issue lock
  int wake_bytes = 1;      // SO_RCVLOWAT as set. Progress side
  int64_t receive_timeout_ns = 0;    // SO_RCVTIMEO as set; 0: none. Progress side
  std::unique_ptr<Receive> receive;  // null: nothing started
  std::unique_ptr<Output> output;    // null: nothing unsent
  std::unique_ptr<Opening> opening;  // null: open

  EndpointId own_id() const { return id.load(std::memory_order_relaxed); }
  bool is_gone(EndpointId was) const { return own_id() != was; }  // closed by an upcall
  bool is_unauthenticated() const { return state == State::greeting || state == State::asking; }
  bool is_parked() const { return receive != nullptr && receive->parked; }
  Receive& started() {
    if (receive == nullptr) receive = std::make_unique<Receive>();
    return *receive;
  }
};
static_assert(sizeof(Endpoint) <= 64, "an idle connection costs one cache line of ours");

}  // namespace skerry::fabric::tcp
