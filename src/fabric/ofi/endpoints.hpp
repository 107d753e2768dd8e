// The connections of an ofi fabric, what all its parts do to one, what is posted to libfabric for
// them, and the completions of all. Issue lock.
#pragma once

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/pure/container_bytes.hpp"
#include "fabric/ofi/peers.hpp"
#include "fabric/slots.hpp"

namespace skerry::fabric::ofi {

// A piece of memory that libfabric works on; registered where the provider wants that.
struct Buffer {
  std::byte* data = nullptr;
  void* descriptor = nullptr;  // null: needs none
  uint64_t bytes = 0;
};

// One thing posted to libfabric. Lives until its completion was read; of a connected endpoint only
// until that is closed.
struct Operation {
  fi_context2
      context{};  // first: some providers keep their own state here, and completions name it
  // Of endpoints; see ofi/datagrams.hpp for control.
  enum class Kind { send, receive, rma, control } kind = Kind::receive;
  EndpointId endpoint = no_endpoint;  // none: a receive for all endpoints, or of no connection yet
  std::shared_ptr<Peer> peer;         // datagram: to whom; null: a receive
  bool is_posted_put = false;         // counted in peer->puts
  bool has_failed = false;  // RMA: its completion was read, and the end of its endpoint tells it
  Buffer buffer;       // data null: none (RMA straight from or to the caller's memory)
  uint64_t bytes = 0;  // send: filled so far; receive: received; RMA: all
  // Receive: next frame. RMA: bytes done by earlier pieces.
  uint64_t at = 0;
  uint32_t frames = 0;  // send
  size_t place = 0;     // in its endpoint's Operations
  // RMA only.
  RmaCall call;
  uint64_t piece = 0;           // bytes posted now
  Handle<fid_mr> registration;  // of the caller's memory, for this operation; null: not needed, or
                                // bounced through buffer
};

inline ParcelHead head_of(const Operation& operation) {
  ParcelHead head;
  std::memcpy(&head, operation.buffer.data, sizeof head);
  return head;
}

// Of one endpoint. Without memory of its own for each: an adapter's get takes a microsecond.
class Operations {
 public:
  void insert(Operation* operation) {
    operation->place = all_.size();
    all_.push_back(operation);
  }
  void erase(const Operation* operation) {
    all_.back()->place = operation->place;
    all_[operation->place] = all_.back();
    all_.pop_back();
  }
  // Of an operation that exists: it may be another endpoint's.
  bool contains(const Operation* operation) const {
    return operation->place < all_.size() && all_[operation->place] == operation;
  }
  // Leaves those for which keep(const Operation&) is true.
  template <class Keep>
  void filter(Keep&& keep) {
    for (Operation* operation : std::exchange(all_, {}))
      if (keep(*operation)) insert(operation);
  }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  uint64_t heap_bytes() const { return vector_bytes(all_); }

 private:
  std::vector<Operation*> all_;
};

class Pool {
 public:
  explicit Pool(Domain& domain) : domain_(domain) {}
  // Null: no memory now; completions give some back.
  Operation* take(Operation::Kind kind, EndpointId id, bool with_buffer);
  // With a long buffer while there are few of them, otherwise with one as above.
  Operation* take_long(Operation::Kind kind, EndpointId id);
  void give_back(Operation* operation);
  uint64_t spare_bytes() const;

 private:
  static constexpr uint64_t buffers_per_slab = 16;
  static constexpr uint32_t max_long_buffers = 16;  // 4 MiB
  struct Slab {
    std::unique_ptr<std::byte[]> bytes;
    Handle<fid_mr> registration;  // null: not needed
  };
  bool add_slab(uint64_t count, uint64_t bytes, std::vector<Buffer>* free);
  bool take_buffer(Buffer* buffer);
  Operation* take_with(const Buffer& buffer, Operation::Kind kind, EndpointId id);

  Domain& domain_;
  std::vector<Slab> slabs_;
  std::vector<Buffer> free_buffers_, free_long_;
  uint32_t long_buffers_ = 0;
  std::vector<std::unique_ptr<Operation>> operations_;  // all that exist
  std::vector<Operation*> free_operations_;
};

enum class State : uint8_t {
  connecting,  // fi_connect called
  asking,      // a request that the caller has not answered
  accepting,   // fi_accept called, not established yet: parcels wait
  open,
};

// One connection; as it is here before it begins and after it ended.
struct Connection {
  State state = State::connecting;
  fid_ep* ep = nullptr;                       // null: asking
  Info info;                                  // asking only: the request; datagram: null
  std::shared_ptr<Peer> peer;                 // datagram only
  fi_addr_t to() const { return peer == nullptr ? FI_ADDR_UNSPEC : peer->at; }
  int64_t deadline_ns = 0;                    // connecting and asking
  bool held = false;                          // asking: it is told to come back if not accepted
  Operations operations;                      // posted or waiting; owned
  std::deque<Operation*> inbox;               // received, not wholly delivered; owned
  std::vector<Operation*> early;              // datagram: arrived before others; owned
  // Datagram: the peer has left after so many parcels, which may be under way. Empty: it has not.
  std::optional<uint32_t> left_after;
  // Datagram: we connected; and when which parcel was the last that came, as far as was looked.
  bool is_ours = false;
  uint32_t heard = 0;
  int64_t heard_ns = 0;
  int64_t asked_ns = 0;  // datagram: a question is under way since; 0: none
  int64_t ask_after_ns = 0;  // datagram: with so much silence since `heard_ns` the next is due
  // Datagram: the text of our hello or accept, in case that is lost. Empty: it arrived.
  std::vector<std::byte> said;
  // Datagram: since when the peer says that it sent more than `missed_after` parcels, which is what
  // has come. 0: it has not said so.
  int64_t missed_ns = 0;
  uint32_t missed_after = 0;
  Operation* filling = nullptr;               // a parcel being filled; owned; null: none
  bool due = false;                           // filling should go out as soon as it can
  bool parked = false;
  bool writable_wanted = false;
  bool ending = false;  // the peer is gone: on_closed follows when the inbox is delivered
  CloseReason end_reason = CloseReason::by_peer;
  std::string end_detail;
  // What a parcel for us must carry, and what ours must carry. A part above the slot is drawn by
  // chance, so that a late parcel of an earlier connection does not fit.
  uint64_t number = 0, peer_number = 0;
  uint32_t sent = 0, received = 0;  // parcels
  uint32_t credits = window;        // parcels that we may send
  uint32_t owed = 0;                // credits to return
  uint32_t rma_outstanding = 0, short_rma_outstanding = 0;
  uint64_t in_flight_bytes = 0;        // of parcels sent without their completion
  std::deque<Operation*> rma_waiting;  // libfabric said "again"; in operations as well
};

struct Endpoint : Connection {
  std::atomic<uint64_t> id{0};  // see Slots
  EndpointId own_id() const { return id.load(std::memory_order_relaxed); }
};

constexpr size_t completions_a_look = 32;

struct Completion {
  Operation* operation;
  uint64_t bytes;
  int error_number;  // 0: success
};

class Endpoints {
 public:
  Endpoints(Domain& domain, Pool& pool, Waiter& waiter)
      : domain_(domain), pool_(pool), waiter_(waiter) {}
  template <class Function>
  void for_each(Function function) {
    slots_.for_each(function);
  }

  Endpoint* find(EndpointId id) const { return slots_.find(id); }
  // What the caller may use: null as well for one that ends, and for a request.
  Endpoint* find_usable(EndpointId id) const;
  // An event names an object that may be closed already: its pointer is never followed.
  Endpoint* find(const fid* object) const;
  // By what a parcel carries. Null: not one of ours, or closed.
  Endpoint* find_numbered(uint64_t number) const;
  // What the condition is true for, or null; walks all.
  template <class Condition>
  Endpoint* find_if(Condition condition) const {
    Endpoint* found = nullptr;
    slots_.for_each([&](Endpoint& one) {
      if (found == nullptr && condition(one)) found = &one;
    });
    return found;
  }
  Endpoint& add(State state, int64_t deadline_ns, EndpointId* id);
  // Creates and enables libfabric's part; datagram: names it alone.
  Status open(Endpoint& endpoint, fi_info* info);
  void release(Endpoint& endpoint);
  uint32_t opened() const { return opened_; }

  // The end is told when what came before it is delivered; the first reason is the true one.
  void end_soon(Endpoint& endpoint, CloseReason reason, std::string detail);
  void end_now(Endpoint& endpoint) { ending.push_back(endpoint.own_id()); }
  // Libfabric, or memory, had no room for something: the next dispatch tries.
  void try_again(EndpointId id, bool soon);
  void tell_writable(EndpointId id);
  void leave_work() { waiter_.leave_work(); }

  // Reads what libfabric has completed. What it will not complete itself is added.
  // What there is is read; of endpoints that stay the rest may be left for the next time.
  void drain_completions(bool all = true);
  // The same by poll, which keeps them for the next drain. True: there are some, or a failure.
  bool poll_completions();
  bool any_polled() const { return polled_count_ > 0; }
  void add_completion(const Completion& completion);
  bool next_completion(Completion* completion);

  bool any_completions() const { return !completions_.empty(); }

  // Puts, gets and atomics are counted from their start to their end.
  void begin_rma(Endpoint& endpoint, uint64_t bytes);
  void end_rma(Endpoint& endpoint, uint64_t bytes);
  // Are any under way that an adapter does in less time than it takes to sleep and wake up?
  bool any_short_rma() const { return short_rma_.load(std::memory_order_relaxed) != 0; }

  uint64_t open_to_caller() const;
  void add_memory(Fabric::Memory* memory) const;

  // Something must be tried again soon, or has a deadline: poll sleeps briefly.
  std::atomic<bool> impatient{false};
  Fabric::Traffic traffic;
  // For dispatch, which takes them.
  std::vector<EndpointId> ending;
  std::vector<EndpointId> again;     // have something that libfabric did not take
  std::vector<EndpointId> writable;  // on_writable is due

 private:
  void number(Endpoint& endpoint);
  static bool is_short(uint64_t bytes) { return bytes <= buffer_bytes; }
  void add_read(std::span<const fi_cq_msg_entry> entries);

  Domain& domain_;
  Pool& pool_;
  Waiter& waiter_;
  Slots<Endpoint> slots_;
  std::unordered_map<const void*, EndpointId> by_fid_;
  std::vector<EndpointId> by_slot_;     // that number names
  uint32_t opened_ = 0;                 // endpoints of libfabric that exist
  std::atomic<uint32_t> short_rma_{0};  // of all; issue lock, and poll reads it
  std::deque<Completion> completions_;  // read, not handled
  // Progress role: read by poll, for the next drain.
  std::array<fi_cq_msg_entry, completions_a_look> polled_;
  size_t polled_count_ = 0;
};

}  // namespace skerry::fabric::ofi
