// The simulated network does all that fabric.hpp allows a network to do. Messages are delayed and
// stay in order. A break loses a random rest of what is on the wire, each direction for itself.
// Each end hears of the other's end at its own time. Long payloads are read late and placed in two
// steps, or only half. RMA takes effect in order or at random times.
//
// All of it happens between the steps of fibers, so that nothing here needs a lock.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fabric/fabric.hpp"
#include "sim/runtime/fiber.hpp"

namespace skerry::sim {

struct NetworkOptions {
  // Capabilities.
  bool rma = false;
  bool rma_unordered = false;  // RMA takes effect by itself, at any time before it is done
  bool direct_placement = true;
  bool early_messages = true;
  bool close_fences_rma = true;
  uint64_t max_payload_bytes = uint64_t{1} << 40;
  uint64_t rma_from_bytes = 1024;

  int64_t latency_ns = 5'000;
  int64_t jitter_ns = 5'000;
  // Of one direction of a connection: what the system holds, and what the fabric holds beyond it.
  uint64_t kernel_bytes = 64 * 1024;
  uint64_t queue_bytes = 256 * 1024;
  uint32_t most_endpoints = 1u << 30;   // of a fabric: descriptors
  uint32_t refused_per_1024 = 0;        // connects that fail, while faults last
  uint32_t no_descriptor_per_1024 = 0;  // connects that fail at once, while faults last
  bool only_is_only = true;             // poll(only) notices nothing else
};

class SimulatedFabric;

namespace net {

struct Rma;

struct Entry {
  enum class Kind : uint8_t { hello, held, accepted, message, rma, end } kind = Kind::message;
  int64_t at_ns = 0;  // when it arrives
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
  std::vector<fabric::Bytes> reference;  // a long payload, where its sender has it
  uint64_t payload_bytes = 0;
  uint64_t cookie = 0;
  uint64_t rma = 0;  // number, and what it is; a put's bytes are in `payload`
  std::shared_ptr<Rma> ordered;
  fabric::CloseReason reason = fabric::CloseReason::by_peer;
  std::byte* destination = nullptr;  // a long one that is being placed
  uint64_t placed_bytes = 0;
  bool all_placed = false;  // its on_placed answered park
  bool partial = false;     // the connection broke meanwhile
  uint64_t cost() const { return header.size() + payload_bytes; }
};

struct End {
  enum class State : uint8_t { connecting, asking, open, closed } state = State::connecting;
  SimulatedFabric* fabric = nullptr;  // null: closed for good
  fabric::EndpointId id = fabric::no_endpoint;
  std::deque<Entry> inbound;       // arrived, not taken
  std::deque<Entry> in_flight;     // sent by this end, not arrived
  std::vector<Entry> held;         // sent with `more`, not flushed
  uint64_t outstanding_bytes = 0;  // sent by this end and not taken by the other
  int64_t last_arrival_ns = 0;     // of what this end sent
  bool wants_room = false;
  bool parked = false;
  bool ready = false;     // listed in its fabric's ready_
  bool swallows = false;  // the connection is cut: what this end sends is lost
  bool end_seen = false;  // the other's end has arrived
  bool is_held = false;   // asking: the caller has promised an answer; connecting: so we were told
  std::map<uint64_t, uint64_t> rma;  // number -> cookie: issued here, not done
};

struct Connection {
  End ends[2];  // 0 connected, 1 listened
  bool cut = false;
};
using ConnectionPtr = std::shared_ptr<Connection>;

struct Reference {
  ConnectionPtr connection;
  int side = 0;
  End& ours() const { return connection->ends[side]; }
  End& theirs() const { return connection->ends[1 - side]; }
};

struct Rma {
  Reference from;
  bool is_put = false;
  const std::byte* source = nullptr;  // put
  std::byte* target = nullptr;        // get
  fabric::RemoteKey key;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct Registration {
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  SimulatedFabric* owner = nullptr;
};

struct Event {
  enum class Kind : uint8_t { request, writable, sent, rma_done, closed } kind;
  fabric::EndpointId endpoint;
  uint64_t number = 0;
  bool ok = true;
  fabric::CloseReason reason = fabric::CloseReason::by_peer;
  std::vector<std::byte> hello;
};

}  // namespace net

// Made by make_shared: what is under way when it goes is forgotten.
class SimulatedNetwork : public std::enable_shared_from_this<SimulatedNetwork> {
 public:
  explicit SimulatedNetwork(const NetworkOptions& options);
  const NetworkOptions& options() const { return options_; }

  // Breaks one of the connections, both ways. False: there is none.
  bool cut_any();
  void cut(net::Connection& connection);
  // An unauthenticated peer says a hello that was said before, or a forged one.
  void replay_hello();
  void stop_faults() { options_.refused_per_1024 = options_.no_descriptor_per_1024 = 0; }
  uint64_t cuts() const { return cuts_; }
  uint64_t open_ends() const;
  // Every connection that has an open end, a line each.
  std::string describe() const;

 private:
  friend class SimulatedFabric;
  void send(const net::Reference& from, net::Entry entry);
  void schedule_arrival(const net::ConnectionPtr& connection, int side, int64_t at_ns);
  void arrive(const net::ConnectionPtr& connection, int side);
  void deliver(const net::Reference& to, net::Entry entry);
  void truncate(net::End& from, size_t keep);
  void start_rma(uint64_t number);
  void apply_rma(uint64_t number);
  void apply_ordered(const net::Reference& from, const net::Entry& entry);
  bool touch(const net::Rma& rma, const std::byte* source, std::byte* target);
  void tell_done(const net::Reference& from, uint64_t number);
  int64_t latency_ns();
  Random& random() { return scheduler_.random(); }

  Scheduler& scheduler_;
  NetworkOptions options_;
  std::map<uint64_t, SimulatedFabric*> fabrics_;
  std::map<uint64_t, net::Registration> registrations_;
  std::unordered_map<uint64_t, net::Rma> rma_;
  std::vector<std::weak_ptr<net::Connection>> connections_;
  struct Hello {
    uint64_t to;
    std::vector<std::byte> bytes;
  };
  std::vector<Hello> hellos_;  // the newest few
  uint64_t next_number_ = 1;
  uint64_t cuts_ = 0;
};

class SimulatedFabric final : public fabric::Fabric {
 public:
  SimulatedFabric(std::shared_ptr<SimulatedNetwork> network, const fabric::Options& options);
  ~SimulatedFabric() override;

  // Endpoints that it opened itself and that are not closed: what a cap counts.
  uint32_t opened_now() const { return opened_now_; }
  uint32_t opened_peak() const { return opened_peak_; }
  void forget_peak() { opened_peak_ = opened_now_; }
  // Its process died: the system closes what it had open. It is not used any more.
  void die();

  std::string_view name() const override { return "simulated"; }
  const fabric::Capabilities& capabilities() const override { return capabilities_; }
  Status listen(std::vector<std::byte>* address) override;
  Status connect(fabric::Bytes address, fabric::Bytes hello, fabric::EndpointId* endpoint) override;
  Status accept(fabric::RequestId request, fabric::Bytes reply,
                fabric::EndpointId* endpoint) override;
  void reject(fabric::RequestId request, fabric::CloseReason why) override;
  void hold(fabric::RequestId request) override;
  fabric::SendResult send(fabric::EndpointId endpoint, fabric::Bytes header, fabric::Bytes payload,
                          bool more, uint64_t cookie) override;
  fabric::SendResult send_gathered(fabric::EndpointId endpoint, fabric::Bytes header,
                                   std::span<const fabric::Bytes> parts, uint64_t cookie) override;
  fabric::SendResult flush(fabric::EndpointId endpoint) override;
  uint64_t unsent_bytes(fabric::EndpointId endpoint) const override;
  void unpark(fabric::EndpointId endpoint) override;
  Status register_memory(void* base, uint64_t bytes, fabric::RemoteKey* key,
                         uint64_t* registration) override;
  void deregister_memory(uint64_t registration) override;
  fabric::SendResult start_rma(fabric::EndpointId endpoint, const fabric::RmaCall& call) override;
  Status watch(int) override {
    return error(Code::unsupported, "simulated processes have no descriptors");
  }
  void unwatch(int) override {}
  void poll(int64_t timeout_ns, fabric::EndpointId only) override;
  void dispatch(fabric::Sink& sink) override;
  void close(fabric::EndpointId endpoint) override;
  void close_drained(fabric::EndpointId endpoint) override;
  void wake() override;
  Traffic traffic() const override;
  Memory memory() const override;

 private:
  friend class SimulatedNetwork;
  const net::Reference* find(fabric::EndpointId endpoint) const;
  bool has_work(fabric::EndpointId only) const;
  void post(net::Event event);
  void mark_ready(net::End& end);
  void release_held(const net::Reference& from);
  void disconnect(fabric::EndpointId endpoint, fabric::CloseReason reason);
  fabric::SendResult send_entry(fabric::EndpointId endpoint, net::Entry entry, bool more);
  void deliver_event(net::Event& event, fabric::Sink& sink);
  void deliver_inbound(fabric::EndpointId id, fabric::Sink& sink);
  void end(fabric::EndpointId id, fabric::CloseReason reason, fabric::Sink& sink);
  enum class Placing : uint8_t { taken, parked, goes_on, gone };
  Placing place(fabric::EndpointId id, net::Entry& entry, fabric::Sink& sink);
  void taken(const net::Reference& by, const net::Entry& entry);

  const std::shared_ptr<SimulatedNetwork> network_;
  Scheduler& scheduler_;
  const fabric::Options options_;
  fabric::Capabilities capabilities_;
  uint64_t number_ = 0;
  bool listening_ = false;
  bool woken_ = false;
  uint32_t opened_now_ = 0, opened_peak_ = 0;
  fabric::EndpointId next_endpoint_ = 1;
  std::map<fabric::EndpointId, net::Reference> endpoints_;
  std::deque<net::Event> inbox_;
  std::deque<fabric::EndpointId> ready_;
  Traffic traffic_;
};

}  // namespace skerry::sim
