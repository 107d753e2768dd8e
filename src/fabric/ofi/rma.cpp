#include "fabric/ofi/rma.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/pure/container_bytes.hpp"

namespace skerry::fabric::ofi {

Status Rma::register_memory(void* base, uint64_t bytes, RemoteKey* key, uint64_t* registration) {
  Handle<fid_mr> mr;
  uint64_t number = 0;
  const int result = domain_.register_memory(base, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, &mr,
                                             &number);
  if (result != 0) {
    return error(Code::no_memory, "cannot register ", bytes, " bytes with ", domain_.name, ": ",
                 domain_.library->strerror(-result),
                 "; raise the limit of locked memory (ulimit -l unlimited)");
  }
  *key = RemoteKey{domain_.provider_keys ? fi_mr_key(mr.get()) : number,
                   domain_.virtual_addresses ? reinterpret_cast<uint64_t>(base) : 0};
  registrations_[number] = std::move(mr);
  *registration = number;
  return {};
}

// Where local memory must be registered: small transfers bounce, long ones are registered for their
// own duration. A cache of registrations would need to see every munmap of the application to be
// safe; the cost of one is small against a long transfer.
//
// Datagrams bounce all, in pieces: no close takes back what is under way, and the caller's memory
// is not ours any more when it returns.
Operation* Rma::begin(Endpoint& endpoint, const RmaCall& call) {
  const bool fits_buffer = call.bytes <= buffer_bytes;
  if (domain_.is_datagram() && !fits_buffer)
    return pool_.take_long(Operation::Kind::rma, endpoint.own_id());
  const bool bounce = fits_buffer && (domain_.mr_local || domain_.is_datagram());
  Operation* const operation = pool_.take(Operation::Kind::rma, endpoint.own_id(), bounce);
  if (operation == nullptr || bounce || !domain_.mr_local) return operation;
  if (domain_.register_memory(call.local, call.bytes, call.is_put ? FI_WRITE : FI_READ,
                              &operation->registration) == 0)
    return operation;
  pool_.give_back(operation);
  return nullptr;
}

SendResult Rma::start(EndpointId id, const RmaCall& call) {
  Endpoint* const usable = endpoints_.find_usable(id);
  if (usable == nullptr) return SendResult::closed;
  Endpoint& endpoint = *usable;
  if (endpoint.state != State::open || endpoint.rma_outstanding >= max_rma_outstanding) {
    endpoint.writable_wanted = true;
    return SendResult::would_block;
  }
  Operation* const operation = begin(endpoint, call);
  if (operation == nullptr) {  // no memory to register now: completions give some back
    endpoint.writable_wanted = true;
    endpoints_.try_again(id, false);
    return SendResult::would_block;
  }
  operation->call = call;
  operation->bytes = operation->piece = call.bytes;
  endpoint.operations.insert(operation);
  endpoints_.begin_rma(endpoint, call.bytes);
  (call.is_put ? endpoints_.traffic.bytes_sent : endpoints_.traffic.bytes_received) += call.bytes;
  if (call.bytes == 0) {
    endpoints_.add_completion({operation, 0, 0});
  } else if (!endpoint.rma_waiting.empty() || !post(endpoint, operation)) {
    endpoint.rma_waiting.push_back(operation);
    endpoints_.try_again(id, true);
  }
  return SendResult::accepted;
}

namespace {

// What lies in an atomic's buffer.
struct Words {
  uint64_t before;
  uint64_t value;
  uint64_t expected;
};

}  // namespace

SendResult Rma::start_atomic(EndpointId id, const AtomicCall& call) {
  Endpoint* const endpoint = endpoints_.find_usable(id);
  if (endpoint == nullptr) return SendResult::closed;
  const bool has_room = endpoint->state == State::open &&
                        endpoint->rma_outstanding < max_rma_outstanding;
  Operation* const operation = has_room ? pool_.take(Operation::Kind::rma, id, true) : nullptr;
  if (operation == nullptr) {
    endpoint->writable_wanted = true;
    if (has_room) endpoints_.try_again(id, false);
    return SendResult::would_block;
  }
  auto& words = *reinterpret_cast<Words*>(operation->buffer.data);
  words = {0, call.value, call.expected};
  last_operand_ = &words.value;
  const void *value = &words.value, *expected = &words.expected;
  if (domain_.operands_as_addresses) {
    value = reinterpret_cast<const void*>(words.value);
    expected = reinterpret_cast<const void*>(words.expected);
  }
  void* const descriptor = operation->buffer.descriptor;
  const uint64_t at = call.key.base + call.offset;
  const fi_addr_t to = endpoint->to();
  const int64_t result =
      call.kind == AtomicCall::Kind::compare_swap
          ? fi_compare_atomic(endpoint->ep, value, 1, descriptor, expected, descriptor,
                              &words.before, descriptor, to, at, call.key.key, FI_UINT64, FI_CSWAP,
                              &operation->context)
          : fi_fetch_atomic(endpoint->ep, value, 1, descriptor, &words.before, descriptor, to, at,
                            call.key.key, FI_UINT64,
                            call.kind == AtomicCall::Kind::swap ? FI_ATOMIC_WRITE : FI_SUM,
                            &operation->context);
  if (result == -FI_EAGAIN) {
    pool_.give_back(operation);
    endpoint->writable_wanted = true;
    endpoints_.try_again(id, true);
    return SendResult::would_block;
  }
  operation->call = {false,       call.key,
                     call.offset, sizeof(uint64_t),
                     call.cookie, reinterpret_cast<std::byte*>(call.before)};
  operation->bytes = operation->piece = sizeof(uint64_t);
  operation->peer = endpoint->peer;
  endpoint->operations.insert(operation);
  endpoints_.begin_rma(*endpoint, sizeof(uint64_t));
  endpoints_.traffic.bytes_received += sizeof(uint64_t);
  if (result == 0 && operation->peer != nullptr) {  // it writes there, as a put does
    operation->is_posted_put = true;
    ++operation->peer->puts;
  }
  // Told like any other failure.
  if (result != 0) endpoints_.add_completion({operation, 0, static_cast<int>(-result)});
  return SendResult::accepted;
}

// Posts the next piece. False: libfabric says again.
bool Rma::post(Endpoint& endpoint, Operation* operation) {
  const Buffer& buffer = operation->buffer;
  const bool bounces = buffer.data != nullptr;
  operation->piece = std::min(operation->bytes - operation->at, domain_.rma_bytes);
  if (bounces) operation->piece = std::min(operation->piece, buffer.bytes);
  std::byte* const from = operation->call.local + operation->at;
  if (bounces && operation->call.is_put) std::memcpy(buffer.data, from, operation->piece);
  fid_mr* const registration = operation->registration.get();
  void* descriptor = bounces                   ? buffer.descriptor
                     : registration != nullptr ? fi_mr_desc(registration)
                                               : nullptr;
  iovec local{bounces ? buffer.data : from, operation->piece};
  fi_rma_iov remote{operation->call.key.base + operation->call.offset + operation->at,
                    operation->piece, operation->call.key.key};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = endpoint.to();
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &operation->context;
  const int64_t result = operation->call.is_put ? fi_writemsg(endpoint.ep, &message,
                                                              FI_COMPLETION | domain_.write_flags)
                                                : fi_readmsg(endpoint.ep, &message, FI_COMPLETION);
  if (result == -FI_EAGAIN) return false;
  operation->peer = endpoint.peer;
  if (result == 0 && operation->peer != nullptr && operation->call.is_put) {
    operation->is_posted_put = true;
    ++operation->peer->puts;
  }
  // Told like any other failure.
  if (result != 0) endpoints_.add_completion({operation, 0, static_cast<int>(-result)});
  return true;
}

void Rma::go_on(Endpoint& endpoint) {
  while (!endpoint.rma_waiting.empty() && post(endpoint, endpoint.rma_waiting.front()))
    endpoint.rma_waiting.pop_front();
  // It may be all that this connection waits for: then nothing else would bring us back.
  if (!endpoint.rma_waiting.empty()) endpoints_.try_again(endpoint.own_id(), true);
}

void Rma::note_complete(Operation* operation) {
  if (std::exchange(operation->is_posted_put, false)) --operation->peer->puts;
}

bool Rma::finish(Endpoint& endpoint, Operation* operation, uint64_t* cookie) {
  if (!operation->call.is_put && operation->buffer.data != nullptr && operation->bytes != 0)
    std::memcpy(operation->call.local + operation->at, operation->buffer.data, operation->piece);
  operation->at += operation->bytes == 0 ? 0 : operation->piece;
  if (operation->at < operation->bytes) {
    if (!post(endpoint, operation)) {
      endpoint.rma_waiting.push_front(operation);
      endpoints_.try_again(endpoint.own_id(), false);
    }
    return false;
  }
  *cookie = operation->call.cookie;
  endpoint.operations.erase(operation);
  endpoints_.end_rma(endpoint, operation->bytes);
  pool_.give_back(operation);
  return true;
}

uint64_t Rma::heap_bytes() const { return table_bytes(registrations_); }

}  // namespace skerry::fabric::ofi
