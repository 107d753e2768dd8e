// Parcels: filling, credits, delivery; and the completions of everything.
#include <algorithm>
#include <cstring>

#include "core/pure/assert.hpp"
#include "fabric/ofi/ofi_fabric.hpp"
#include "fabric/tcp/frame.hpp"

namespace skerry::fabric::ofi {
namespace {

ParcelHead head_of(const Operation& operation) {
  ParcelHead head;
  std::memcpy(&head, operation.buffer.data, sizeof head);
  return head;
}

}  // namespace

// --- memory ------------------------------------------------------------------------------------

bool OfiFabric::take_buffer(Buffer* buffer) {
  if (free_buffers_.empty()) {
    Slab slab;
    slab.bytes = std::make_unique_for_overwrite<std::byte[]>(slab_bytes);
    void* descriptor = nullptr;
    if (mr_local_) {
      fid_mr* mr = nullptr;
      const uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
      if (fi_mr_reg(domain_.get(), slab.bytes.get(), slab_bytes, access, 0, next_registration_++, 0,
                    &mr, nullptr) != 0)
        return false;
      slab.registration.reset(mr);
      descriptor = fi_mr_desc(mr);
    }
    for (size_t i = 0; i < buffers_per_slab; ++i)
      free_buffers_.push_back({slab.bytes.get() + i * buffer_bytes, descriptor});
    slabs_.push_back(std::move(slab));
  }
  *buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return true;
}

Operation* OfiFabric::take_operation(Operation::Kind kind, EndpointId id, bool with_buffer) {
  Buffer buffer;
  if (with_buffer && !take_buffer(&buffer)) return nullptr;
  if (free_operations_.empty()) {
    operations_.push_back(std::make_unique<Operation>());
    free_operations_.push_back(operations_.back().get());
  }
  Operation* operation = free_operations_.back();
  free_operations_.pop_back();
  *operation = Operation{};
  operation->kind = kind;
  operation->endpoint = id;
  operation->buffer = buffer;
  return operation;
}

void OfiFabric::give_back(Operation* operation) {
  if (operation->buffer.data != nullptr) free_buffers_.push_back(operation->buffer);
  operation->buffer = Buffer{};
  operation->registration.reset();
  operation->endpoint = no_endpoint;
  free_operations_.push_back(operation);
}

// --- sending -----------------------------------------------------------------------------------

SendResult OfiFabric::send(EndpointId id, Bytes header, Bytes payload, bool more, uint64_t) {
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr || endpoint->ending) return SendResult::closed;
  SKERRY_ASSERT(!header.empty() && header.size() <= max_header_bytes,
                "a message header has 1..512 bytes");
  SKERRY_ASSERT(payload.size() <= parcel_payload_bytes,
                "longer payloads are for the caller to cut");
  switch (endpoint->state) {
    case State::accepting:
    case State::open: break;
    case State::connecting: endpoint->writable_wanted = true; return SendResult::would_block;
    case State::asking: return SendResult::closed;
  }
  const uint64_t bytes = tcp::prefix_bytes + header.size() + payload.size();
  if (endpoint->filling != nullptr && endpoint->filling->bytes + bytes > buffer_bytes) {
    endpoint->due = true;
    if (!post_parcel(*endpoint, id)) {
      endpoint->writable_wanted = true;
      return SendResult::would_block;
    }
  }
  if (endpoint->filling == nullptr) {
    endpoint->filling = take_operation(Operation::Kind::send, id, true);
    if (endpoint->filling == nullptr) {  // no memory now: completions will give some back
      endpoint->writable_wanted = true;
      again_.push_back(id);
      want_dispatch();
      return SendResult::would_block;
    }
    endpoint->filling->bytes = sizeof(ParcelHead);
    endpoint->due = false;
  }
  Operation& parcel = *endpoint->filling;
  std::byte* to = parcel.buffer.data + parcel.bytes;
  const uint64_t prefix = tcp::encode_prefix(header.size(), payload.size());
  std::memcpy(to, &prefix, sizeof prefix);
  std::memcpy(to + sizeof prefix, header.data(), header.size());
  if (!payload.empty())
    std::memcpy(to + sizeof prefix + header.size(), payload.data(), payload.size());
  parcel.bytes += bytes;
  ++parcel.frames;
  if (!more) {
    endpoint->due = true;
    post_parcel(*endpoint, id);
  }
  return SendResult::accepted;
}

SendResult OfiFabric::flush(EndpointId id) {
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr || endpoint->ending) return SendResult::closed;
  if (endpoint->filling != nullptr) {
    endpoint->due = true;
    post_parcel(*endpoint, id);
  }
  return SendResult::accepted;
}

uint64_t OfiFabric::unsent_bytes(EndpointId id) const {
  const Endpoint* endpoint = endpoints_.find(id);
  if (endpoint == nullptr) return 0;
  return endpoint->in_flight_bytes + (endpoint->filling == nullptr ? 0 : endpoint->filling->bytes);
}

// Hands a parcel to libfabric. False: not now.
bool OfiFabric::transmit(Endpoint& endpoint, Operation* operation) {
  const ParcelHead head{static_cast<uint16_t>(endpoint.owed),
                        static_cast<uint16_t>(operation->frames), endpoint.sent,
                        endpoint.peer_number};
  std::memcpy(operation->buffer.data, &head, sizeof head);
  if (operation->bytes <= inject_bytes_) {
    if (fi_inject(endpoint.ep, operation->buffer.data, operation->bytes, 0) == 0) {
      endpoint.owed = 0;
      ++endpoint.sent;
      traffic_.bytes_sent += operation->bytes;
      give_back(operation);
      return true;
    }
  }
  if (fi_send(endpoint.ep, operation->buffer.data, operation->bytes, operation->buffer.descriptor,
              0, &operation->context) != 0)
    return false;
  endpoint.owed = 0;
  ++endpoint.sent;
  endpoint.in_flight_bytes += operation->bytes;
  endpoint.operations.insert(operation);
  traffic_.bytes_sent += operation->bytes;
  return true;
}

// Sends the parcel that is being filled if it is due and there is a credit. True: there is none any
// more.
bool OfiFabric::post_parcel(Endpoint& endpoint, EndpointId id) {
  if (endpoint.filling == nullptr) return true;
  if (endpoint.state != State::open || endpoint.credits == 0)
    return false;  // credits and the connection bring us back
  if (!transmit(endpoint, endpoint.filling)) {
    again_.push_back(id);
    impatient_.store(true, std::memory_order_relaxed);
    want_dispatch();
    return false;
  }
  --endpoint.credits;
  endpoint.filling = nullptr;
  endpoint.due = false;
  return true;
}

// A peer that only sends would run out of credits if we waited for something to say.
void OfiFabric::return_credits(Endpoint& endpoint, EndpointId id) {
  if (endpoint.owed < window / 2 || endpoint.state != State::open || endpoint.ending) return;
  Operation* operation = take_operation(Operation::Kind::send, id, true);
  if (operation != nullptr) {
    operation->bytes = sizeof(ParcelHead);
    if (transmit(endpoint, operation)) return;
    give_back(operation);
  }
  again_.push_back(id);
  impatient_.store(true, std::memory_order_relaxed);
}

// Something came back: credits, a completion, the connection. What waited for it goes on.
void OfiFabric::after_progress(Endpoint& endpoint, EndpointId id) {
  if (endpoint.ending) return;
  if (endpoint.due) post_parcel(endpoint, id);
  while (!endpoint.rma_waiting.empty() && post_rma(endpoint, endpoint.rma_waiting.front()))
    endpoint.rma_waiting.pop_front();
  return_credits(endpoint, id);
  const bool room = endpoint.state == State::open &&
                    (endpoint.filling == nullptr || !endpoint.due) &&
                    endpoint.rma_outstanding < max_rma_outstanding / 2;
  if (endpoint.writable_wanted && room) {
    endpoint.writable_wanted = false;
    writable_.push_back(id);
    want_dispatch();
  }
}

// --- completions and receiving -----------------------------------------------------------------

bool OfiFabric::post_receive(Endpoint& endpoint, Operation* operation) {
  operation->at = 0;
  operation->bytes = 0;
  if (fi_recv(endpoint.ep, operation->buffer.data, buffer_bytes, operation->buffer.descriptor, 0,
              &operation->context) != 0) {
    give_back(operation);
    return false;
  }
  endpoint.operations.insert(operation);
  return true;
}

// The buffer of a parcel that is done with takes another one. False: it cannot.
bool OfiFabric::receive_again(Endpoint& endpoint, Operation* operation) {
  if (receives_ == nullptr) return post_receive(endpoint, operation);
  give_back(operation);  // the pool had its replacement when the parcel arrived
  return true;
}

// As many as all peers may send at once, up to what the pool may have.
uint32_t OfiFabric::shared_wanted() const {
  return static_cast<uint32_t>(
      std::min<uint64_t>(uint64_t{opened_} * (window + 2), shared_capacity_));
}

// Fills the pool. What does not work now is tried again at the next dispatch.
void OfiFabric::post_shared() {
  while (shared_posted_ < shared_wanted()) {
    Operation* const operation = take_operation(Operation::Kind::receive, no_endpoint, true);
    if (operation == nullptr) return;
    if (fi_recv(receives_.get(), operation->buffer.data, buffer_bytes, operation->buffer.descriptor,
                0, &operation->context) != 0)
      return give_back(operation);
    ++shared_posted_;
  }
}

// A buffer of the pool was filled, or its connection ended meanwhile: the end itself comes as an
// event. A parcel that names no connection of ours is late or forged, and is dropped: whatever it
// was, the next parcel of its true connection is out of sequence and closes that.
int OfiFabric::take_shared(const Completion& completion, Sink& sink) {
  --shared_posted_;
  Operation* const operation = completion.operation;
  operation->bytes = completion.bytes;
  Endpoint* endpoint = nullptr;
  if (completion.error_number == 0) {
    traffic_.bytes_received += completion.bytes;
    if (completion.bytes >= sizeof(ParcelHead))
      endpoint = find_numbered(head_of(*operation).number);
  }
  if (endpoint == nullptr) give_back(operation);
  post_shared();
  if (endpoint == nullptr) return 0;
  const EndpointId id = endpoint->id.load(std::memory_order_relaxed);
  operation->endpoint = id;
  return take_parcel(*endpoint, id, operation, sink);
}

// Checks what all parcels must keep, and delivers.
int OfiFabric::take_parcel(Endpoint& endpoint, EndpointId id, Operation* operation, Sink& sink) {
  const ParcelHead head = operation->bytes >= sizeof(ParcelHead) ? head_of(*operation)
                                                                 : ParcelHead{};
  const bool in_sequence = head.number == endpoint.number && head.sequence == endpoint.received;
  const bool whole = head.frames != 0 || operation->bytes == sizeof(ParcelHead);
  const bool had_credit = head.frames == 0 || endpoint.owed + endpoint.inbox.size() < window;
  if (!in_sequence || !whole || !had_credit || endpoint.credits + head.credits > window) {
    give_back(operation);
    end_soon(endpoint, CloseReason::protocol_error,
             !in_sequence  ? "a parcel is missing, or is not of this connection"
             : !had_credit ? "the peer sends more than it may"
                           : "a parcel is corrupt");
    return 0;
  }
  ++endpoint.received;
  endpoint.credits += head.credits;
  operation->at = sizeof(ParcelHead);
  if (head.frames != 0) {
    endpoint.inbox.push_back(operation);
    return endpoint.state == State::open ? deliver(id, sink) : 0;
  }
  // Only credits: its buffer must not wait behind a parked message, or the next ones would find
  // none, and the answers that it waits for no credits.
  if (endpoint.ending) {
    give_back(operation);
  } else if (receive_again(endpoint, operation)) {
    after_progress(endpoint, id);
  } else {
    end_soon(endpoint, CloseReason::reset, "cannot post a receive buffer");
  }
  return 0;
}

void OfiFabric::drain_completions() {
  for (;;) {
    fi_cq_msg_entry entries[32];
    const ssize_t n = fi_cq_read(cq_.get(), entries, 32);
    for (ssize_t i = 0; i < n; ++i)
      completions_.push_back({static_cast<Operation*>(entries[i].op_context), entries[i].len, 0});
    if (n > 0) continue;
    if (n != -FI_EAVAIL) return;
    fi_cq_err_entry failure{};
    if (fi_cq_readerr(cq_.get(), &failure, 0) != 1) return;
    if (failure.op_context != nullptr)
      completions_.push_back({static_cast<Operation*>(failure.op_context), 0,
                              failure.err != 0 ? failure.err : FI_EOTHER});
  }
}

int OfiFabric::run_completions(Sink& sink) {
  int upcalls = 0;
  while (!completions_.empty()) {
    const Completion completion = completions_.front();
    completions_.pop_front();
    Operation* const operation = completion.operation;
    const EndpointId id = operation->endpoint;
    if (id == no_endpoint) {
      upcalls += take_shared(completion, sink);
      continue;
    }
    Endpoint* const endpoint = endpoints_.find(id);
    if (endpoint == nullptr || endpoint->operations.count(operation) == 0)
      continue;  // cannot be: release reads them first
    switch (operation->kind) {
      case Operation::Kind::put:
      case Operation::Kind::get:
      case Operation::Kind::fetch_and_add:
      case Operation::Kind::compare_and_swap:
        upcalls += finish_rma(*endpoint, id, operation, completion.error_number, sink);
        break;
      case Operation::Kind::send:
        endpoint->operations.erase(operation);
        endpoint->in_flight_bytes -= operation->bytes;
        give_back(operation);
        if (completion.error_number == 0) after_progress(*endpoint, id);
        break;
      case Operation::Kind::receive:
        if (completion.error_number != 0) break;  // cancelled with its connection
        endpoint->operations.erase(operation);
        operation->bytes = completion.bytes;
        traffic_.bytes_received += completion.bytes;
        upcalls += take_parcel(*endpoint, id, operation, sink);
        break;
    }
    if (completion.error_number == 0) continue;
    if (Endpoint* broken = endpoints_.find(id)) {
      // A connection that ends cancels what is posted; most providers tell the end itself as an
      // event, but not all of them always.
      const bool ended = completion.error_number == FI_ECANCELED ||
                         completion.error_number == FI_ENOTCONN ||
                         completion.error_number == FI_ESHUTDOWN;
      const CloseReason reason = broken->state == State::connecting ? CloseReason::refused
                                 : ended                            ? CloseReason::by_peer
                                                                    : CloseReason::reset;
      end_soon(*broken, reason, library_->strerror(completion.error_number));
    }
  }
  return upcalls;
}

void OfiFabric::unpark(EndpointId id) {
  ready_.push_back(id);
  want_dispatch();
}

// Delivers what is in the inbox until it is empty or the sink parks.
int OfiFabric::deliver(EndpointId id, Sink& sink) {
  int upcalls = 0;
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr || endpoint->state != State::open) return 0;
  if (endpoint->parked) {
    // Nothing is delivered, but the parcel may have brought credits, and what it waits for may be
    // exactly that our own answers go out.
    after_progress(*endpoint, id);
    return 0;
  }
  while (!endpoint->inbox.empty()) {
    Operation* const parcel = endpoint->inbox.front();
    endpoint->inbox.pop_front();  // out of the endpoint's hands: the sink may close it while it
                                  // looks at the message
    bool gone = false, park = false, corrupt = false;
    while (!corrupt && parcel->at < parcel->bytes) {
      const uint64_t left = parcel->bytes - parcel->at;
      const std::byte* at = parcel->buffer.data + parcel->at;
      const tcp::Prefix prefix = left >= tcp::prefix_bytes ? tcp::decode_prefix(at)
                                                           : tcp::Prefix{0, 0};
      const uint64_t bytes = tcp::prefix_bytes + prefix.header_bytes + prefix.payload_bytes;
      corrupt = !tcp::plausible(prefix) || bytes > left;
      if (corrupt) break;
      ++upcalls;
      const Verdict verdict = sink.on_message(
          id, {at + tcp::prefix_bytes, prefix.header_bytes},
          {at + tcp::prefix_bytes + prefix.header_bytes, prefix.payload_bytes});
      gone = endpoint->id.load(std::memory_order_relaxed) != id;
      if (gone) break;
      park = verdict == Verdict::park;
      if (park) break;
      parcel->at += bytes;
    }
    if (gone) {
      give_back(parcel);
      return upcalls;
    }
    if (park) {
      endpoint->inbox.push_front(parcel);
      endpoint->parked = true;
      after_progress(
          *endpoint,
          id);  // the parcel may have brought the credits for the answers that it waits for
      return upcalls;
    }
    if (corrupt) {
      give_back(parcel);
      end_soon(*endpoint, CloseReason::protocol_error, "a parcel is corrupt");
      return upcalls;
    }
    parcel->kind = Operation::Kind::receive;
    if (endpoint->ending) {
      give_back(parcel);
    } else if (receive_again(*endpoint, parcel)) {
      ++endpoint->owed;
    } else {
      end_soon(*endpoint, CloseReason::reset, "cannot post a receive buffer");
    }
  }
  after_progress(*endpoint, id);
  if (endpoint->ending) ending_.push_back(id);  // it waited for this delivery
  return upcalls;
}

}  // namespace skerry::fabric::ofi
