#include "fabric/ofi/messages.hpp"

#include <algorithm>
#include <cstring>

#include "core/pure/assert.hpp"
#include "fabric/tcp/frame.hpp"

namespace skerry::fabric::ofi {

// --- sending -----------------------------------------------------------------------------------

SendResult Messages::send(EndpointId id, Bytes header, Bytes payload, bool more) {
  Endpoint* const usable = endpoints_.find_usable(id);
  if (usable == nullptr) return SendResult::closed;
  Endpoint& endpoint = *usable;
  SKERRY_ASSERT(!header.empty() && header.size() <= max_header_bytes,
                "a message header has 1..512 bytes");
  SKERRY_ASSERT(payload.size() <= domain_.payload_bytes(),
                "longer payloads are for the caller to cut");
  switch (endpoint.state) {
    case State::accepting:
    case State::open: break;
    case State::connecting: endpoint.writable_wanted = true; return SendResult::would_block;
    case State::asking: return SendResult::closed;
  }
  const uint64_t bytes = tcp::prefix_bytes + header.size() + payload.size();
  if (endpoint.filling != nullptr && endpoint.filling->bytes + bytes > domain_.parcel_bytes) {
    endpoint.due = true;
    if (!post_parcel(endpoint)) {
      endpoint.writable_wanted = true;
      return SendResult::would_block;
    }
  }
  if (endpoint.filling == nullptr) {
    endpoint.filling = pool_.take(Operation::Kind::send, id, true);
    if (endpoint.filling == nullptr) {  // no memory now: completions will give some back
      endpoint.writable_wanted = true;
      endpoints_.try_again(id, false);
      return SendResult::would_block;
    }
    endpoint.filling->bytes = sizeof(ParcelHead);
    endpoint.due = false;
  }
  Operation& parcel = *endpoint.filling;
  std::byte* to = parcel.buffer.data + parcel.bytes;
  const uint64_t prefix = tcp::encode_prefix(header.size(), payload.size());
  std::memcpy(to, &prefix, sizeof prefix);
  std::memcpy(to + sizeof prefix, header.data(), header.size());
  if (!payload.empty())
    std::memcpy(to + sizeof prefix + header.size(), payload.data(), payload.size());
  parcel.bytes += bytes;
  ++parcel.frames;
  if (!more) {
    endpoint.due = true;
    post_parcel(endpoint);
  }
  return SendResult::accepted;
}

SendResult Messages::flush(EndpointId id) {
  Endpoint* const endpoint = endpoints_.find_usable(id);
  if (endpoint == nullptr) return SendResult::closed;
  endpoint->due = endpoint->filling != nullptr;
  post_parcel(*endpoint);
  return SendResult::accepted;
}

// Hands a parcel to libfabric. False: not now.
bool Messages::transmit(Endpoint& endpoint, Operation* operation) {
  const ParcelHead head{static_cast<uint16_t>(endpoint.owed),
                        static_cast<uint16_t>(operation->frames), endpoint.sent,
                        endpoint.peer_number};
  std::memcpy(operation->buffer.data, &head, sizeof head);
  int64_t result = -FI_EAGAIN;
  const bool may_inject = operation->bytes <= domain_.inject_bytes;
  if (may_inject)
    result = fi_inject(endpoint.ep, operation->buffer.data, operation->bytes, endpoint.to());
  const bool injected = result == 0;
  if (!injected)
    result = fi_send(endpoint.ep, operation->buffer.data, operation->bytes,
                     operation->buffer.descriptor, endpoint.to(), &operation->context);
  if (result != 0) {
    // A datagram endpoint has no event that tells of the peer's end.
    if (domain_.is_datagram() && result != -FI_EAGAIN)
      endpoints_.end_soon(endpoint, CloseReason::reset,
                          domain_.library->strerror(static_cast<int>(-result)));
    return false;
  }
  endpoint.owed = 0;
  ++endpoint.sent;
  endpoints_.traffic.bytes_sent += operation->bytes;
  if (injected) {
    pool_.give_back(operation);
  } else {
    operation->peer = endpoint.peer;
    endpoint.in_flight_bytes += operation->bytes;
    endpoint.operations.insert(operation);
  }
  return true;
}

// A put or get that libfabric did not take yet was issued before the parcel, which must not
// overtake it (am_after_rma_ordered). Over datagrams no order is promised.
bool Messages::waits_for_rma(const Endpoint& endpoint) const {
  return !endpoint.rma_waiting.empty() && !domain_.is_datagram();
}

// Sends the parcel that is being filled if it is due and there is a credit. True: there is none any
// more.
bool Messages::post_parcel(Endpoint& endpoint) {
  if (endpoint.filling == nullptr) return true;
  if (endpoint.state != State::open || endpoint.credits == 0 || waits_for_rma(endpoint))
    return false;  // credits, the connection and what waits bring us back
  if (!transmit(endpoint, endpoint.filling)) {
    endpoints_.try_again(endpoint.own_id(), true);
    return false;
  }
  --endpoint.credits;
  endpoint.filling = nullptr;
  endpoint.due = false;
  return true;
}

// A peer that only sends would run out of credits if we waited for something to say.
void Messages::return_credits(Endpoint& endpoint) {
  if (endpoint.owed < window / 2 || endpoint.state != State::open || endpoint.ending) return;
  Operation* operation = pool_.take(Operation::Kind::send, endpoint.own_id(), true);
  if (operation != nullptr) {
    operation->bytes = sizeof(ParcelHead);
    if (transmit(endpoint, operation)) return;
    pool_.give_back(operation);
  }
  endpoints_.try_again(endpoint.own_id(), true);
}

void Messages::after_progress(Endpoint& endpoint) {
  if (endpoint.ending) return;
  rma_.go_on(endpoint);
  if (endpoint.due) post_parcel(endpoint);
  return_credits(endpoint);
  const bool room = endpoint.state == State::open &&
                    (endpoint.filling == nullptr || !endpoint.due) &&
                    endpoint.rma_outstanding < max_rma_outstanding / 2;
  if (!room || !endpoint.writable_wanted) return;
  endpoint.writable_wanted = false;
  endpoints_.tell_writable(endpoint.own_id());
}

// --- receiving ---------------------------------------------------------------------------------

// False: it cannot; the operation is given back.
bool Messages::post_receive(fid_ep* to, Operation* operation) {
  operation->at = 0;
  operation->bytes = 0;
  if (fi_recv(to, operation->buffer.data, domain_.parcel_bytes, operation->buffer.descriptor,
              FI_ADDR_UNSPEC, &operation->context) == 0)
    return true;
  pool_.give_back(operation);
  return false;
}

Status Messages::post_receives(Endpoint& endpoint) {
  if (domain_.receives != nullptr) {
    post_shared();
    return shared_posted_ != 0 ? Status()
                               : error(Code::no_memory, "cannot post receive buffers of ",
                                       buffer_bytes, " bytes on ", domain_.name);
  }
  for (uint32_t i = 0; i < window + 2; ++i) {
    Operation* const operation = pool_.take(Operation::Kind::receive, endpoint.own_id(), true);
    if (operation == nullptr)
      return error(Code::no_memory, "no memory for receive buffers of ", buffer_bytes, " bytes");
    if (!post_receive(endpoint.ep, operation))
      return error(Code::network, "cannot post receive buffers on ", domain_.name);
    endpoint.operations.insert(operation);
  }
  return {};
}

// The buffer of a parcel that is done with takes another one. False: it cannot.
bool Messages::receive_again(Endpoint& endpoint, Operation* operation) {
  if (domain_.receives != nullptr) {
    pool_.give_back(operation);  // the pool had its replacement when the parcel arrived
    return true;
  }
  if (!post_receive(endpoint.ep, operation)) return false;
  endpoint.operations.insert(operation);
  return true;
}

// As many as all peers may send at once, up to what the pool may have. Requests come to the one
// endpoint of datagrams as well.
uint32_t Messages::shared_wanted() const {
  const uint32_t requests = domain_.is_datagram() ? 2 * window : 0;
  return static_cast<uint32_t>(std::min<uint64_t>(
      uint64_t{endpoints_.opened()} * (window + 2) + requests, domain_.shared_capacity));
}

bool Messages::is_short_of_buffers() const {
  return domain_.receives != nullptr && shared_posted_ < shared_wanted();
}

void Messages::post_shared() {
  while (is_short_of_buffers()) {
    Operation* const operation = pool_.take(Operation::Kind::receive, no_endpoint, true);
    if (operation == nullptr || !post_receive(domain_.receives.get(), operation)) return;
    ++shared_posted_;
  }
}

void Messages::sent(Endpoint& endpoint, const Completion& completion) {
  endpoint.operations.erase(completion.operation);
  endpoint.in_flight_bytes -= completion.operation->bytes;
  pool_.give_back(completion.operation);
  if (completion.error_number == 0) after_progress(endpoint);
}

void Messages::received(Endpoint& endpoint, const Completion& completion, Sink& sink) {
  endpoint.operations.erase(completion.operation);
  completion.operation->bytes = completion.bytes;
  endpoints_.traffic.bytes_received += completion.bytes;
  take_parcel(endpoint, completion.operation, sink);
}

// A buffer of the pool was filled, or its connection ended meanwhile: the end itself comes as an
// event.
Operation* Messages::take_shared(const Completion& completion) {
  --shared_posted_;
  Operation* const operation = completion.operation;
  operation->bytes = completion.bytes;
  const bool arrived = completion.error_number == 0 && completion.bytes >= sizeof(ParcelHead);
  if (completion.error_number == 0) endpoints_.traffic.bytes_received += completion.bytes;
  if (!arrived) pool_.give_back(operation);
  post_shared();
  return arrived ? operation : nullptr;
}

// A parcel that names no connection of ours is late or forged, and is dropped. The next parcel of
// its true connection is then out of sequence and closes that.
void Messages::received_shared(Operation* operation, Sink& sink) {
  Endpoint* const endpoint = endpoints_.find_numbered(head_of(*operation).number);
  if (endpoint == nullptr) return pool_.give_back(operation);
  const EndpointId id = operation->endpoint = endpoint->own_id();
  if (domain_.is_datagram() && keep_early(*endpoint, operation)) return;
  take_parcel(*endpoint, operation, sink);
  if (domain_.is_datagram()) take_early(id, sink);
}

// Datagrams may overtake each other. No parcel is further ahead than the peer has credits, and
// credits that it returns: what is, closes the connection in take_parcel.
bool Messages::keep_early(Endpoint& endpoint, Operation* operation) {
  const uint32_t ahead = head_of(*operation).sequence - endpoint.received;
  const bool is_early = ahead > 0 && ahead <= 2 * window && endpoint.early.size() < 2 * window;
  if (is_early) endpoint.early.push_back(operation);
  return is_early;
}

void Messages::take_early(EndpointId id, Sink& sink) {
  for (;;) {
    Endpoint* const endpoint = endpoints_.find(id);
    if (endpoint == nullptr) return;
    const auto next = std::ranges::find_if(endpoint->early, [&](const Operation* one) {
      return head_of(*one).sequence == endpoint->received;
    });
    if (next == endpoint->early.end()) return end_if_left(*endpoint);
    Operation* const operation = *next;
    endpoint->early.erase(next);
    take_parcel(*endpoint, operation, sink);
  }
}

void Messages::end_if_left(Endpoint& endpoint) {
  if (endpoint.state == State::open && endpoint.left_after == endpoint.received)
    endpoints_.end_soon(endpoint, CloseReason::by_peer, "the peer closed the connection");
}

// Checks what all parcels must keep, and delivers.
void Messages::take_parcel(Endpoint& endpoint, Operation* operation, Sink& sink) {
  const ParcelHead head = operation->bytes >= sizeof(ParcelHead) ? head_of(*operation)
                                                                 : ParcelHead{};
  const bool in_sequence = head.number == endpoint.number && head.sequence == endpoint.received;
  const bool whole = head.frames != 0 || operation->bytes == sizeof(ParcelHead);
  const bool had_credit = head.frames == 0 || endpoint.owed + endpoint.inbox.size() < window;
  if (!in_sequence || !whole || !had_credit || endpoint.credits + head.credits > window) {
    pool_.give_back(operation);
    endpoints_.end_soon(endpoint, CloseReason::protocol_error,
                        !in_sequence  ? "a parcel is missing, or is not of this connection"
                        : !had_credit ? "the peer sends more than it may"
                                      : "a parcel is corrupt");
    return;
  }
  ++endpoint.received;
  endpoint.credits += head.credits;
  operation->at = sizeof(ParcelHead);
  if (head.frames != 0) {
    endpoint.inbox.push_back(operation);
    if (endpoint.state == State::open) deliver(endpoint.own_id(), sink);
    return;
  }
  // Only credits: its buffer must not wait behind a parked message, or the next ones would find
  // none, and the answers that it waits for no credits.
  if (endpoint.ending) {
    pool_.give_back(operation);
  } else if (receive_again(endpoint, operation)) {
    after_progress(endpoint);
  } else {
    endpoints_.end_soon(endpoint, CloseReason::reset, "cannot post a receive buffer");
  }
}

void Messages::unpark(EndpointId id) {
  unparked_.push_back(id);
  endpoints_.leave_work();
}

void Messages::run_unparked(Sink& sink) {
  for (const EndpointId id : std::exchange(unparked_, {})) {
    if (Endpoint* const endpoint = endpoints_.find(id)) endpoint->parked = false;
    deliver(id, sink);
  }
}

void Messages::deliver(EndpointId id, Sink& sink) {
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr || endpoint->state != State::open) return;
  // While it is parked nothing is delivered. But the parcel may have brought credits, and what it
  // waits for may be exactly that our own answers go out.
  if (endpoint->parked) return after_progress(*endpoint);
  while (!endpoint->inbox.empty()) {
    Operation* const parcel = endpoint->inbox.front();
    endpoint->inbox.pop_front();  // out of the endpoint's hands: the sink may close it while it
                                  // looks at the message
    switch (deliver_frames(*endpoint, *parcel, sink)) {
      case Delivered::gone: return pool_.give_back(parcel);
      case Delivered::parked:
        endpoint->inbox.push_front(parcel);
        endpoint->parked = true;
        return after_progress(*endpoint);
      case Delivered::corrupt:
        pool_.give_back(parcel);
        return endpoints_.end_soon(*endpoint, CloseReason::protocol_error, "a parcel is corrupt");
      case Delivered::all: break;
    }
    parcel->kind = Operation::Kind::receive;
    if (endpoint->ending) {
      pool_.give_back(parcel);
    } else if (receive_again(*endpoint, parcel)) {
      ++endpoint->owed;
    } else {
      endpoints_.end_soon(*endpoint, CloseReason::reset, "cannot post a receive buffer");
    }
  }
  after_progress(*endpoint);
  if (endpoint->ending) endpoints_.end_now(*endpoint);  // it waited for this delivery
}

// Those of one parcel.
Messages::Delivered Messages::deliver_frames(Endpoint& endpoint, Operation& parcel, Sink& sink) {
  const EndpointId id = endpoint.own_id();
  while (parcel.at < parcel.bytes) {
    const uint64_t left = parcel.bytes - parcel.at;
    const std::byte* const at = parcel.buffer.data + parcel.at;
    if (left < tcp::prefix_bytes) return Delivered::corrupt;
    const tcp::Prefix prefix = tcp::decode_prefix(at);
    const uint64_t bytes = tcp::prefix_bytes + prefix.header_bytes + prefix.payload_bytes;
    if (!tcp::plausible(prefix) || bytes > left) return Delivered::corrupt;
    const Verdict verdict = sink.on_message(
        id, {at + tcp::prefix_bytes, prefix.header_bytes},
        {at + tcp::prefix_bytes + prefix.header_bytes, prefix.payload_bytes});
    if (endpoint.own_id() != id) return Delivered::gone;
    if (verdict == Verdict::park) return Delivered::parked;
    parcel.at += bytes;
  }
  return Delivered::all;
}

}  // namespace skerry::fabric::ofi
