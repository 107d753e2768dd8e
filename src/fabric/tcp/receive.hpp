// From the socket to the sink: recv into the one shared buffer (or straight into a started frame or
// a payload that is placed directly), then parse in place.
//
// Progress side: block is part of poll and takes no issue lock, so what it receives waits for
// dispatch. All that calls up is part of dispatch.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "core/futex.hpp"
#include "fabric/tcp/marks.hpp"
#include "fabric/tcp/send.hpp"

namespace skerry::fabric::tcp {

// How far what was received could be delivered.
enum class Parsed { all, parked, gone };

// Before it sleeps, a wait looks for longest_spin_ns if no other thread wants its core: to wake a
// core that went idle takes 50 us and more.
constexpr int64_t longest_spin_ns = 60'000;
constexpr int looks_a_turn = 1;  // a system call

class Receiver {
 public:
  Receiver(Endpoints& endpoints, Sender& sender, Marks& marks);

  // Waits for this endpoint alone: first it looks, on an idle core, then it sleeps in recv.
  void block(Endpoint& endpoint, EndpointId id, int64_t timeout_ns, IdleCoreSpin& spin);
  bool has_received() const { return received_.endpoint != no_endpoint; }
  void take_received(Sink& sink) { consume(std::exchange(received_, {}), sink); }
  // One look at the socket, and what it brings.
  void take(Endpoint& endpoint, Sink& sink) {
    consume(receive(endpoint, endpoint.own_id(), MSG_DONTWAIT), sink);
  }
  void share_turn_among(uint64_t connections) { turn_connections_ = connections; }

  void unpark(EndpointId id);  // issue side
  bool any_unparked() const { return !unparked_.empty(); }
  void run_unparked(Sink& sink);
  void resume(EndpointId id, Sink& sink);
  void divert(EndpointId id);

  // Keeps the beginning of a frame or greeting until the rest is here. A frame's prefix was found
  // plausible.
  static void keep_partial(Endpoint& endpoint, const std::byte* data, uint64_t bytes,
                           bool greeting);
  // What is behind a parked message.
  static void keep_backlog(Endpoint& endpoint, Bytes first, Bytes second);

  // Any thread reads, the progress side writes.
  void count_bytes(uint64_t bytes) {
    bytes_received_.store(bytes_received() + bytes, std::memory_order_relaxed);
  }
  uint64_t bytes_received() const { return bytes_received_.load(std::memory_order_relaxed); }
  uint64_t heap_bytes() const;

 private:
  // What a recv brought: bytes for a started frame or payload first, the rest in buffer_.
  struct Received {
    EndpointId endpoint = no_endpoint;  // no_endpoint: none
    int64_t bytes = 0;  // recv's answer: < 0 with error_number, 0 at the end of the stream
    int error_number = 0;
    uint32_t carried = 0;  // bytes of an earlier recv put in front of buffer_
    uint64_t direct = 0;   // of bytes, how many went straight to the partial frame or payload

    bool nothing_yet() const {
      return bytes < 0 && (error_number == EAGAIN || error_number == EINTR);
    }
  };

  Received receive(Endpoint& endpoint, EndpointId id, int flags);
  void consume(const Received& received, Sink& sink);
  Parsed take_direct(Endpoint& endpoint, uint64_t bytes, Bytes rest, Sink& sink);
  void receive_failed(Endpoint& endpoint, const Received& received, Sink& sink);
  Parsed parse(Endpoint& endpoint, EndpointId id, Bytes data, uint64_t* consumed, Sink& sink);
  Parsed take_reply(Endpoint& endpoint, Bytes data, uint64_t* consumed, Sink& sink);
  Parsed deliver(Endpoint& endpoint, EndpointId id, Bytes data, uint64_t* consumed, Sink& sink);
  std::byte* place(Endpoint& endpoint, EndpointId id, Bytes header, uint64_t payload_bytes,
                   Sink& sink);
  Parsed begin_placing(Endpoint& endpoint, Bytes header, Bytes available, uint64_t payload_bytes,
                       std::byte* destination, Sink& sink);
  Parsed finish_placing(Endpoint& endpoint, Sink& sink);

  Endpoints& endpoints_;
  Sender& sender_;
  Marks& marks_;
  // One for all connections: what recv fills and parse empties before the next recv.
  const std::unique_ptr<std::byte[]> buffer_;
  Received received_;                 // by block, for the next dispatch
  uint64_t turn_connections_ = 1;     // among which this dispatch shares its turn
  std::vector<EndpointId> unparked_;  // their backlog can be delivered; issue side
  std::atomic<uint64_t> bytes_received_{0};
};

}  // namespace skerry::fabric::tcp
