#include "fabric/ofi/rma.hpp"

#include <algorithm>
#include <cstring>

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

SendResult Rma::start(EndpointId id, const RmaCall& call) {
  Endpoint* const usable = endpoints_.find_usable(id);
  if (usable == nullptr) return SendResult::closed;
  Endpoint& endpoint = *usable;
  if (endpoint.state != State::open || endpoint.rma_outstanding >= max_rma_outstanding) {
    endpoint.writable_wanted = true;
    return SendResult::would_block;
  }
  // Where local memory must be registered: small transfers bounce, long ones are registered for
  // their own duration. A cache of registrations would need to see every munmap of the application
  // to be safe; the cost of one is small against a long transfer.
  const bool bounce = domain_.mr_local && call.bytes <= buffer_bytes;
  Operation* const operation = pool_.take(Operation::Kind::rma, id, bounce);
  const bool fits = operation != nullptr &&
                    (!domain_.mr_local || bounce ||
                     domain_.register_memory(call.local, call.bytes,
                                             call.is_put ? FI_WRITE : FI_READ,
                                             &operation->registration) == 0);
  if (!fits) {  // no memory to register now: completions give some back
    if (operation != nullptr) pool_.give_back(operation);
    endpoint.writable_wanted = true;
    endpoints_.try_again(id, false);
    return SendResult::would_block;
  }
  operation->call = call;
  operation->bytes = operation->piece = call.bytes;
  if (bounce && call.is_put) std::memcpy(operation->buffer.data, call.local, call.bytes);
  endpoint.operations.insert(operation);
  ++endpoint.rma_outstanding;
  (call.is_put ? endpoints_.traffic.bytes_sent : endpoints_.traffic.bytes_received) += call.bytes;
  if (call.bytes == 0) {
    endpoints_.add_completion({operation, 0, 0});
  } else if (!endpoint.rma_waiting.empty() || !post(endpoint, operation)) {
    endpoint.rma_waiting.push_back(operation);
    endpoints_.try_again(id, true);
  }
  return SendResult::accepted;
}

// Posts the next piece. False: libfabric says again.
bool Rma::post(Endpoint& endpoint, Operation* operation) {
  operation->piece = std::min<uint64_t>(operation->bytes - operation->at,
                                        domain_.info->ep_attr->max_msg_size);
  std::byte* const base = operation->buffer.data != nullptr ? operation->buffer.data
                                                            : operation->call.local;
  void* descriptor = operation->buffer.data != nullptr ? operation->buffer.descriptor
                     : operation->registration != nullptr
                         ? fi_mr_desc(operation->registration.get())
                         : nullptr;
  iovec local{base + operation->at, operation->piece};
  fi_rma_iov remote{operation->call.key.base + operation->call.offset + operation->at,
                    operation->piece, operation->call.key.key};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &operation->context;
  const int64_t result = operation->call.is_put ? fi_writemsg(endpoint.ep, &message,
                                                              FI_COMPLETION | domain_.write_flags)
                                                : fi_readmsg(endpoint.ep, &message, FI_COMPLETION);
  if (result == -FI_EAGAIN) return false;
  // Told like any other failure.
  if (result != 0) endpoints_.add_completion({operation, 0, static_cast<int>(-result)});
  return true;
}

void Rma::go_on(Endpoint& endpoint) {
  while (!endpoint.rma_waiting.empty() && post(endpoint, endpoint.rma_waiting.front()))
    endpoint.rma_waiting.pop_front();
}

bool Rma::finish(Endpoint& endpoint, Operation* operation, uint64_t* cookie) {
  operation->at += operation->bytes == 0 ? 0 : operation->piece;
  if (operation->at < operation->bytes) {
    if (!post(endpoint, operation)) {
      endpoint.rma_waiting.push_front(operation);
      endpoints_.try_again(endpoint.own_id(), false);
    }
    return false;
  }
  const RmaCall& call = operation->call;
  *cookie = call.cookie;
  if (!call.is_put && operation->buffer.data != nullptr)
    std::memcpy(call.local, operation->buffer.data, operation->bytes);
  endpoint.operations.erase(operation);
  --endpoint.rma_outstanding;
  pool_.give_back(operation);
  return true;
}

uint64_t Rma::heap_bytes() const { return table_bytes(registrations_); }

}  // namespace skerry::fabric::ofi
