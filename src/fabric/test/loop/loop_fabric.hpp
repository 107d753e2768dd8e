// Inside of the loop fabric. One mutex, the network's, guards everything here; upcalls are made
// without it.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

#include "fabric/test/loop/loop.hpp"
#include "fabric/waiter.hpp"

namespace skerry::fabric {

class LoopFabric;

namespace loop {

struct Connection;

// A put, get or atomic under way.
struct Rma {
  RmaCall call;         // an atomic: a get of what was there before
  uint64_t number = 0;  // unique in the network
  AtomicCall atomic{};  // before null: it is none; done: `value` is what was there before
  bool is_atomic() const { return atomic.before != nullptr; }
  std::vector<std::byte> data{};  // put only: copied at issue, for it may be placed after the
                                  // origin was told that it failed
  int delay = 0;                  // polls to wait; rma_unordered only
};

// What stands in an end's inbound queue.
struct Entry {
  enum class Kind { message, rma, end } kind = Kind::message;
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
  uint64_t cookie = 0;  // of a long message
  bool placed = false;  // on_placed answered park
  Rma rma;
};

struct End {
  enum class State { connecting, asking, open, closed } state = State::connecting;
  LoopFabric* fabric = nullptr;  // null: closed for good
  EndpointId id = no_endpoint;
  std::deque<Entry> inbound;
  uint64_t inbound_bytes = 0;    // of messages in inbound
  bool peer_wants_room = false;  // the peer's send was answered would_block
  bool parked = false;
  bool ready = false;       // stands in its fabric's list of ready endpoints
  std::vector<Entry> held;  // sent with `more`, not yet flushed
  uint64_t held_bytes = 0;
  std::map<uint64_t, uint64_t> outstanding;  // cookies by RMA number: issued here, not yet told
};

struct Connection {
  End ends[2];  // 0 connected, 1 listened
};

struct Reference {
  std::shared_ptr<Connection> connection;
  int side = 0;
  End& ours() const { return connection->ends[side]; }
  End& theirs() const { return connection->ends[1 - side]; }
};

struct Event {
  enum class Kind { request, held, connected, writable, sent, rma_done, closed } kind;
  EndpointId endpoint;
  uint64_t number = 0;  // cookie of sent; RMA number of rma_done
  bool ok = true;
  CloseReason reason = CloseReason::by_peer;
  std::vector<std::byte> data = {};  // hello or reply
};

struct Delayed {
  Reference from;
  Rma rma;
};

struct Registration {
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  LoopFabric* owner = nullptr;
};

// A word that an incoherent adapter works on. It is written back and told together.
struct AdapterWord {
  uint64_t registration = 0;
  uint64_t copy = 0;
  int delay = 0;             // polls until it is written back
  std::list<Delayed> ended;  // performed on the copy, not told
};

}  // namespace loop

class LoopNetwork {
 public:
  explicit LoopNetwork(const LoopCapabilities& wanted)
      : capabilities(wanted), random_state(wanted.seed * 0x9e3779b97f4a7c15u + 1) {}

  uint32_t random(uint32_t below);  // holder of the mutex
  // All by the holder of the mutex.
  bool apply(loop::Rma& rma);               // put or get; false: no such memory
  uint64_t* word_of(const loop::Rma& rma);  // null: no such memory, or not aligned
  // Writes back what is due, or all copies of a registration's words, or all.
  void write_back_due(bool before_sleep);
  void write_back(uint64_t registration);
  void write_back_all();

  const LoopCapabilities capabilities;
  std::mutex mutex;
  std::map<uint64_t, LoopFabric*> fabrics;  // by the number in their address
  std::map<uint64_t, loop::Registration> registrations;
  // Puts of closed endpoints that will still be placed: close_fences_rma is off.
  std::list<loop::Rma> strays;
  std::map<uint64_t*, loop::AdapterWord> adapter_words;
  bool hold_adapters = false;
  uint64_t next_number = 1;  // fabrics, keys and RMA
  uint64_t random_state;
};

class LoopFabric final : public Fabric {
 public:
  LoopFabric(std::shared_ptr<LoopNetwork> network, const Options& options);
  ~LoopFabric() override;
  Status start();

  std::string_view name() const override { return "loop"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Status listen(std::vector<std::byte>* address) override;
  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override;
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override;
  void reject(RequestId request, CloseReason why) override;
  void hold(RequestId request) override;
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override;
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override;
  SendResult flush(EndpointId endpoint) override;
  uint64_t unsent_bytes(EndpointId endpoint) const override;
  void unpark(EndpointId endpoint) override;
  Status register_memory(void* base, uint64_t bytes, RemoteKey* key,
                         uint64_t* registration) override;
  void deregister_memory(uint64_t registration) override;
  SendResult start_rma(EndpointId endpoint, const RmaCall& call) override {
    return start(endpoint, {.call = call});
  }
  SendResult start_atomic(EndpointId endpoint, const AtomicCall& call) override {
    return start(endpoint, {.call = {false, call.key, call.offset, sizeof(uint64_t), call.cookie},
                            .atomic = call});
  }
  Status watch(int fd) override { return waiter_.watch(fd); }
  void unwatch(int fd) override { waiter_.unwatch(fd); }
  void poll(int64_t timeout_ns, EndpointId only) override;
  void dispatch(Sink& sink) override;
  void close(EndpointId endpoint) override;
  void wake() override { waiter_.wake(); }
  Traffic traffic() const override;
  Memory memory() const override;

  // Tells the end that issued it, if it is still open. The mutex is held.
  static void finish(const loop::Reference& from, const loop::Rma& rma, bool ok);

 private:
  SendResult start(EndpointId endpoint, loop::Rma rma);
  // All with the mutex held.
  const loop::Reference* find(EndpointId endpoint) const;
  void post(loop::Event event);  // to this fabric
  static void mark_ready(loop::End& end);
  static void push(const loop::Reference& from, loop::Entry entry);
  void release_held(const loop::Reference& from);
  // Our end goes; the peer will see the end, and of a request that was not accepted, why.
  void disconnect(EndpointId endpoint, CloseReason why = CloseReason::refused);
  void run_delayed(bool before_sleep);
  void perform(const loop::Reference& from, loop::Rma rma);  // and tells, now or later
  int64_t next_deadline_ns() const;
  // Without it.
  void deliver_event(loop::Event& event, Sink& sink);
  void deliver_end(EndpointId id, Sink& sink);
  void deliver_inbound(EndpointId id, Sink& sink);
  bool place(EndpointId id, loop::Entry* entry, Sink& sink);
  bool settle(EndpointId id, loop::Entry entry, Verdict verdict);
  void expire_requests();

  const std::shared_ptr<LoopNetwork> network_;
  const Options options_;
  Capabilities capabilities_;
  Waiter waiter_;
  // Guarded by the network's mutex.
  uint64_t number_ = 0;
  bool listening_ = false;
  EndpointId next_endpoint_ = 1;
  std::unordered_map<EndpointId, loop::Reference> endpoints_;
  std::deque<loop::Event> inbox_;
  std::deque<EndpointId> ready_;  // with inbound entries, not parked
  std::list<loop::Delayed> delayed_;
  // Of requests and connects, in order of start.
  std::deque<std::pair<int64_t, EndpointId>> deadlines_;
  Traffic traffic_;
};

}  // namespace skerry::fabric
