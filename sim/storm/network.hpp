// The simulated network: connections that deliver frames in order, late, or not at all.
//
// A connection has two ends. What one end sends arrives at the other in order after latency and
// jitter, unless the connection was cut before (then a random prefix of what is under way still
// arrives) or the receiving end is closed. Each end hears of a close or a cut in its own time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/event_queue.hpp"
#include "sim/random.hpp"

namespace skerry::sim {

using Queue = EventQueue<std::function<void()>>;
using Bytes = std::vector<std::byte>;
using ConnectionId = uint32_t;
constexpr ConnectionId no_connection = ~0u;
enum class Side : uint8_t { origin = 0, server = 1 };
constexpr Side other(Side side) { return side == Side::origin ? Side::server : Side::origin; }

struct Frame {
  Bytes header;
  Bytes payload;
};

class OriginSink {
 public:
  virtual ~OriginSink() = default;
  virtual void on_connected(ConnectionId connection, std::span<const std::byte> answer) = 0;
  virtual void on_message(ConnectionId connection, const Frame& frame) = 0;
  virtual void on_closed(ConnectionId connection) = 0;
  virtual void on_slot(
      const Frame& frame) = 0;  // an answer that came through the origin's own node
};

class ServerSink {
 public:
  virtual ~ServerSink() = default;
  virtual void on_connect_request(ConnectionId connection, std::span<const std::byte> hello) = 0;
  virtual void on_message(ConnectionId connection, Frame frame) = 0;
  virtual void on_closed(ConnectionId connection) = 0;
};

class Network {
 public:
  Network(Queue& queue, Random& random, int64_t latency_ns, int64_t jitter_ns)
      : queue_(queue), random_(random), latency_ns_(latency_ns), jitter_ns_(jitter_ns) {}
  void attach(std::vector<OriginSink*> origins, std::vector<ServerSink*> servers) {
    origins_ = std::move(origins);
    servers_ = std::move(servers);
  }

  ConnectionId connect(uint32_t origin, uint32_t server, Bytes hello);
  void accept(ConnectionId connection, Bytes answer);
  void reject(ConnectionId connection) { close(connection, Side::server); }
  void send(ConnectionId connection, Side from, Frame frame);
  // The end hears nothing more of it, the other end a close after what was sent before.
  void close(ConnectionId connection, Side by);
  // Delivered whatever happens to connections: the way over the origin's own node.
  void send_to_slot(uint32_t origin, Frame frame);

  // Faults.
  void cut(ConnectionId connection);
  // Somebody sends a hello that was seen on the wire before.
  void replay_hello();
  uint64_t cuts() const { return cuts_; }
  ConnectionId random_connection();  // with at least one open end; no_connection: none
  uint32_t open_ends() const;

 private:
  struct Link {
    uint32_t origin = 0;
    uint32_t server = 0;
    bool stranger = false;  // its origin end is nobody
    bool open[2] = {true, false};
    uint64_t sent[2] = {0, 0};  // frames, by sending side
    uint64_t arrived[2] = {0, 0};
    uint64_t lost_from[2] = {~0ull, ~0ull};  // frames from this number on are lost
    Time last[2] = {0, 0};                   // when the newest thing from that side arrives
  };
  Time arrival(Link& link, Side from);
  void tell_closed(ConnectionId connection, Side to, Time at);

  Queue& queue_;
  Random& random_;
  int64_t latency_ns_;
  int64_t jitter_ns_;
  std::vector<OriginSink*> origins_;
  std::vector<ServerSink*> servers_;
  std::vector<Link> links_;
  struct Seen {
    uint32_t origin, server;
    Bytes hello;
  };
  std::vector<Seen> seen_;  // the newest few hellos
  uint64_t cuts_ = 0;
};

}  // namespace skerry::sim
