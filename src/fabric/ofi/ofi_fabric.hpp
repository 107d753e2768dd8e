// OfiFabric: messages through pre-posted buffers with a window per connection, RMA through
// registered memory.
//
// On the wire a message of libfabric is a *parcel*: a head, then frames as on the tcp fabric
// (prefix, header, payload), as many as `more` gathered. A parcel with frames costs the sender a
// credit; the receiver returns credits with its own parcels or, when it has nothing to say, with an
// empty one. An empty parcel costs none, and no more than two of them can be under way.
//
// Where the provider has shared receive contexts, all endpoints receive into one pool of posted
// buffers. A completion does not say whose parcel it is: the parcel does, by the number that its
// receiver gave the connection when it was opened. The pool may be smaller than what all peers may
// send at once: then the provider keeps them waiting (tcp does not read the socket, an adapter says
// "receiver not ready" until there is a buffer). A parcel that waits for the sink is replaced in
// the pool, so what arrives behind it is received. Elsewhere each endpoint has window + 2 buffers
// of its own, posted before a peer may send.
//
// One lock: the caller's issue lock covers everything but poll, which only asks libfabric whether
// it may sleep, and sleeps.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/ofi/library.hpp"
#include "fabric/slots.hpp"

namespace skerry::fabric::ofi {

constexpr uint32_t window = 8;                        // parcels on their way to one peer
constexpr uint64_t parcel_payload_bytes = 16 * 1024;  // longest payload of one message
constexpr uint64_t buffer_bytes = 17 * 1024;
constexpr uint64_t buffers_per_slab = 16;
constexpr uint64_t slab_bytes = buffers_per_slab * buffer_bytes;
constexpr uint32_t max_rma_outstanding = 32;  // per endpoint; then would_block

// Buffers that all endpoints share, at most: 4.3 MiB.
constexpr uint32_t max_shared_buffers = 256;

struct ParcelHead {
  uint16_t credits;   // returned to the receiver of this parcel
  uint16_t frames;    // 0: only credits
  uint32_t sequence;  // of this parcel among those of its connection and direction, from 0
  uint64_t number;    // of the connection, as its receiver told the sender
};
static_assert(sizeof(ParcelHead) == 16);
static_assert(sizeof(ParcelHead) + 8 + max_header_bytes + parcel_payload_bytes <= buffer_bytes);

// A piece of memory that libfabric works on; registered where the provider wants that.
struct Buffer {
  std::byte* data = nullptr;
  void* descriptor = nullptr;  // null: needs none
};

// One thing posted to libfabric. Lives until its completion was read or its endpoint is closed.
struct Operation {
  fi_context2
      context{};  // first: some providers keep their own state here, and completions name it
  enum class Kind {
    send,
    receive,
    put,
    get,
    fetch_and_add,
    compare_and_swap,
  } kind = Kind::receive;
  bool is_atomic() const { return kind == Kind::fetch_and_add || kind == Kind::compare_and_swap; }
  EndpointId endpoint = no_endpoint;  // none: a receive for all endpoints
  Buffer buffer;       // data null: none (RMA straight from or to the caller's memory)
  uint64_t bytes = 0;  // send: filled so far; receive: received; RMA: all
  // Receive: next frame. RMA: bytes done by earlier pieces.
  uint64_t at = 0;
  uint32_t frames = 0;  // send
  // RMA only.
  std::byte* local = nullptr;  // the caller's
  RemoteKey key;
  uint64_t offset = 0;
  uint64_t piece = 0;  // bytes posted now
  uint64_t cookie = 0;
  Handle<fid_mr>
      registration;  // of local, for this operation; null: not needed, or bounced through buffer
};

enum class State : uint8_t {
  connecting,  // fi_connect called
  asking,      // a request that the caller has not answered
  accepting,   // fi_accept called, not established yet: parcels wait
  open,
};

struct Endpoint {
  std::atomic<uint64_t> id{0};  // see Slots
  State state = State::connecting;
  fid_ep* ep = nullptr;                       // null: asking
  Info info;                                  // asking only: the request
  int64_t deadline_ns = 0;                    // connecting and asking
  bool held = false;                          // asking: it is told to come back if not accepted
  std::unordered_set<Operation*> operations;  // posted or waiting; owned
  std::deque<Operation*> inbox;               // received, not wholly delivered; owned
  Operation* filling = nullptr;               // a parcel being filled; owned; null: none
  bool due = false;                           // filling should go out as soon as it can
  bool parked = false;
  bool writable_wanted = false;
  bool ending = false;  // the peer is gone: on_closed follows when the inbox is delivered
  CloseReason end_reason = CloseReason::by_peer;
  std::string end_detail;
  // What a parcel for us must carry, and what ours must carry: a part that is drawn by chance above
  // the slot, so that a late parcel of an earlier connection does not fit.
  uint64_t number = 0, peer_number = 0;
  uint32_t sent = 0, received = 0;  // parcels
  uint32_t credits = window;        // parcels that we may send
  uint32_t owed = 0;                // credits to return
  uint32_t rma_outstanding = 0;
  uint64_t in_flight_bytes = 0;        // of parcels sent without their completion
  std::deque<Operation*> rma_waiting;  // libfabric said "again"; in operations as well
};

// What a trial of the provider's atomics found.
struct AtomicsTrial {
  bool works = false;
  bool operands_as_addresses = false;  // works, but takes an operand's address for its value
  std::string reason;                  // why not; empty if it works
};

class OfiFabric final : public Fabric {
 public:
  OfiFabric(const Options& options, const Library* library);
  ~OfiFabric() override;
  Status start(const std::string& provider);

  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Status listen(std::vector<std::byte>* address) override;
  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override;
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override;
  void reject(RequestId request) override;
  void hold(RequestId request) override;
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override;
  // Messages are cut to what the provider sends at once: there is nothing to gather.
  SendResult send_gathered(EndpointId, Bytes, std::span<const Bytes>, uint64_t) override {
    return SendResult::closed;
  }
  SendResult flush(EndpointId endpoint) override;
  uint64_t unsent_bytes(EndpointId endpoint) const override;
  void unpark(EndpointId endpoint) override;
  Status register_memory(void* base, uint64_t bytes, RemoteKey* key,
                         uint64_t* registration) override;
  void deregister_memory(uint64_t registration) override;
  SendResult put(EndpointId endpoint, const void* local, RemoteKey key, uint64_t offset,
                 uint64_t bytes, uint64_t cookie) override;
  SendResult get(EndpointId endpoint, void* local, RemoteKey key, uint64_t offset, uint64_t bytes,
                 uint64_t cookie) override;
  SendResult fetch_and_add(EndpointId endpoint, RemoteKey key, uint64_t offset, uint64_t operand,
                           uint64_t cookie) override;
  SendResult compare_and_swap(EndpointId endpoint, RemoteKey key, uint64_t offset,
                              uint64_t expected, uint64_t value, uint64_t cookie) override;
  Status watch(int fd, uint64_t cookie) override;
  void unwatch(int fd) override;
  void poll(int64_t timeout_ns, EndpointId only) override;
  int dispatch(Sink& sink) override;
  void close(EndpointId endpoint) override;
  void wake() override;
  Traffic traffic() const override;
  Memory memory() const override;

 private:
  struct Completion {
    Operation* operation;
    uint64_t bytes;
    int error_number;  // 0: success
  };

  // ofi_fabric.cpp
  Status open(const std::string& provider);  // all of start but the trial of atomics
  Status open_queues();
  void open_shared_receives();
  void describe_capabilities();
  Status open_domain(const std::string& provider);
  Status try_address(const std::string& provider, int family, const uint8_t* address, bool* found);
  Status failed(const char* what, int64_t result) const;
  void want_dispatch();
  int run_watched(Sink& sink);

  // ofi_connect.cpp
  Status open_endpoint(Endpoint& endpoint, EndpointId id, fi_info* info);
  void number(Endpoint& endpoint, EndpointId id);
  Endpoint* find_numbered(uint64_t number) const;
  int read_events(Sink& sink);
  int handle_request(fi_info* info, Bytes data, Sink& sink);
  int handle_connected(EndpointId id, Bytes data, Sink& sink);
  bool handle_event_error(Sink& sink);
  void end_soon(Endpoint& endpoint, CloseReason reason, std::string detail);
  int run_endings(Sink& sink);
  int run_deadlines(Sink& sink);
  void release(Endpoint& endpoint);

  // ofi_message.cpp
  Operation* take_operation(Operation::Kind kind, EndpointId id, bool with_buffer);
  void give_back(Operation* operation);
  bool take_buffer(Buffer* buffer);
  bool post_receive(Endpoint& endpoint, Operation* operation);
  bool receive_again(Endpoint& endpoint, Operation* operation);
  uint32_t shared_wanted() const;
  void post_shared();
  int take_shared(const Completion& completion, Sink& sink);
  int take_parcel(Endpoint& endpoint, EndpointId id, Operation* operation, Sink& sink);
  bool post_parcel(Endpoint& endpoint, EndpointId id);
  void return_credits(Endpoint& endpoint, EndpointId id);
  bool transmit(Endpoint& endpoint, Operation* operation);
  void drain_completions();
  int run_completions(Sink& sink);
  int deliver(EndpointId id, Sink& sink);
  void after_progress(Endpoint& endpoint, EndpointId id);

  // ofi_rma.cpp
  SendResult start_rma(EndpointId id, Operation::Kind kind, std::byte* local, RemoteKey key,
                       uint64_t offset, uint64_t bytes, uint64_t cookie);
  bool post_rma(Endpoint& endpoint, Operation* operation);
  int64_t post_piece(Endpoint& endpoint, Operation* operation);  // libfabric's answer
  int finish_rma(Endpoint& endpoint, EndpointId id, Operation* operation, int error_number,
                 Sink& sink);

  // ofi_atomic.cpp
  SendResult start_atomic(EndpointId id, Operation::Kind kind, RemoteKey key, uint64_t offset,
                          uint64_t expected, uint64_t value, uint64_t cookie);
  int64_t post_atomic(Endpoint& endpoint, Operation* operation);  // libfabric's answer
  static uint64_t result_of_atomic(const Operation& operation);
  void try_atomics(const std::string& provider);
  void trust_atomics(const AtomicsTrial& trial);
  AtomicsTrial trial_of_atomics(const std::string& provider) const;
  static std::string run_trial(OfiFabric& origin, OfiFabric& target, bool* takes_addresses);
  bool is_in_buffers(uint64_t address) const;

  const Options options_;
  const Library* const library_;
  std::string name_;
  Capabilities capabilities_;
  // Closed in reverse order of this: endpoints (by release), then these from the last to the first.
  Info info_;  // what the domain was opened with
  Handle<fid_fabric> fabric_;
  Handle<fid_domain> domain_;
  Handle<fid_eq> eq_;
  Handle<fid_cq> cq_;
  Handle<fid_ep> receives_;   // shared by all endpoints; null: each has its own
  Handle<fid_pep> listener_;  // null: does not listen
  bool mr_local_ = false;     // buffers must be registered
  bool virtual_addresses_ = false;
  uint32_t shared_capacity_ = 0;  // of receives_
  uint32_t shared_posted_ = 0;    // buffers there
  uint32_t opened_ = 0;           // endpoints of libfabric that exist
  bool provider_keys_ = false;
  bool operands_as_addresses_ = false;  // see AtomicsTrial
  uint64_t write_flags_ = 0;            // how a put is to complete
  // Parcels up to this size are injected: no completion to read. 0: never.
  uint64_t inject_bytes_ = 0;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;

  Slots<Endpoint> endpoints_;
  // Events name an object that may be closed already: never follow the pointer.
  std::unordered_map<const void*, EndpointId> by_fid_;
  std::vector<EndpointId> by_slot_;  // that number names
  std::deque<EndpointId> opening_;   // with deadlines; lazily cleaned
  std::vector<EndpointId> ready_;    // unparked
  std::vector<EndpointId> ending_;
  std::vector<EndpointId> again_;       // have something that libfabric did not take
  std::vector<EndpointId> writable_;    // on_writable is due
  std::deque<Completion> completions_;  // read, not handled
  struct Slab {
    std::unique_ptr<std::byte[]> bytes;
    Handle<fid_mr> registration;  // null: not needed
  };
  std::vector<Slab> slabs_;
  std::vector<Buffer> free_buffers_;
  std::vector<std::unique_ptr<Operation>> operations_;  // all that exist
  std::vector<Operation*> free_operations_;
  struct Registration {
    Handle<fid_mr> mr;
  };
  std::unordered_map<uint64_t, Registration> registrations_;
  uint64_t next_registration_ = 1;
  std::unordered_map<int, uint64_t> watched_;
  std::atomic<bool> work_pending_{false};
  // something must be tried again soon, or has a deadline: poll sleeps briefly
  std::atomic<bool> impatient_{false};
  std::atomic<bool> polling_{false};
  std::atomic<bool> woken_{false};
  bool dispatching_ = false;
  Traffic traffic_;

  std::vector<epoll_event> events_;  // progress side
  int event_count_ = 0;
};

int64_t now_ns();

}  // namespace skerry::fabric::ofi
