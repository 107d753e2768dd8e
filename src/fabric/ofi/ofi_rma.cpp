// RMA of the ofi fabric. A put is done when it is complete at the target as far as the provider can
// tell, not when it left us.
#include <algorithm>
#include <cstring>

#include "core/pure/assert.hpp"
#include "fabric/ofi/ofi_fabric.hpp"

namespace skerry::fabric::ofi {

Status OfiFabric::register_memory(void* base, uint64_t bytes, RemoteKey* key,
                                  uint64_t* registration) {
  const uint64_t number = next_registration_++;
  fid_mr* mr = nullptr;
  const int result = fi_mr_reg(domain_.get(), base, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                               number, 0, &mr, nullptr);
  if (result != 0) {
    return error(Code::no_memory, "cannot register ", bytes, " bytes with ", name_, ": ",
                 library_->strerror(-result),
                 "; raise the limit of locked memory (ulimit -l unlimited)");
  }
  registrations_[number] = Registration{Handle<fid_mr>(mr)};
  *key = RemoteKey{provider_keys_ ? fi_mr_key(mr) : number,
                   virtual_addresses_ ? reinterpret_cast<uint64_t>(base) : 0};
  *registration = number;
  return {};
}

void OfiFabric::deregister_memory(uint64_t registration) { registrations_.erase(registration); }

SendResult OfiFabric::put(EndpointId endpoint, const void* local, RemoteKey key, uint64_t offset,
                          uint64_t bytes, uint64_t cookie) {
  return start_rma(endpoint, Operation::Kind::put,
                   static_cast<std::byte*>(const_cast<void*>(local)), key, offset, bytes, cookie);
}

SendResult OfiFabric::get(EndpointId endpoint, void* local, RemoteKey key, uint64_t offset,
                          uint64_t bytes, uint64_t cookie) {
  return start_rma(endpoint, Operation::Kind::get, static_cast<std::byte*>(local), key, offset,
                   bytes, cookie);
}

SendResult OfiFabric::start_rma(EndpointId id, Operation::Kind kind, std::byte* local,
                                RemoteKey key, uint64_t offset, uint64_t bytes, uint64_t cookie) {
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr || endpoint->ending || endpoint->state == State::asking)
    return SendResult::closed;
  if (endpoint->state != State::open || endpoint->rma_outstanding >= max_rma_outstanding) {
    endpoint->writable_wanted = true;
    return SendResult::would_block;
  }
  // Where local memory must be registered: small transfers bounce, long ones are registered for
  // their own duration. A cache of registrations would need to see every munmap of the application
  // to be safe; the cost of one is small against a long transfer.
  const bool bounce = mr_local_ && bytes <= buffer_bytes;
  Operation* const operation = take_operation(kind, id, bounce);
  fid_mr* mr = nullptr;
  const bool fits = operation != nullptr &&
                    (!mr_local_ || bounce ||
                     fi_mr_reg(domain_.get(), local, bytes,
                               kind == Operation::Kind::put ? FI_WRITE : FI_READ, 0,
                               next_registration_++, 0, &mr, nullptr) == 0);
  if (!fits) {  // no memory to register now: completions give some back
    if (operation != nullptr) give_back(operation);
    endpoint->writable_wanted = true;
    again_.push_back(id);
    want_dispatch();
    return SendResult::would_block;
  }
  operation->registration.reset(mr);
  operation->local = local;
  operation->key = key;
  operation->offset = offset;
  operation->bytes = bytes;
  operation->cookie = cookie;
  if (bounce && kind == Operation::Kind::put) std::memcpy(operation->buffer.data, local, bytes);
  endpoint->operations.insert(operation);
  ++endpoint->rma_outstanding;
  (kind == Operation::Kind::put ? traffic_.bytes_sent : traffic_.bytes_received) += bytes;
  if (bytes == 0) {
    completions_.push_back({operation, 0, 0});
    want_dispatch();
  } else if (!endpoint->rma_waiting.empty() || !post_rma(*endpoint, operation)) {
    endpoint->rma_waiting.push_back(operation);
    again_.push_back(id);
    impatient_.store(true, std::memory_order_relaxed);
    want_dispatch();
  }
  return SendResult::accepted;
}

// Posts the next piece, or an atomic. False: libfabric says again.
bool OfiFabric::post_rma(Endpoint& endpoint, Operation* operation) {
  const int64_t result = operation->is_atomic() ? post_atomic(endpoint, operation)
                                                : post_piece(endpoint, operation);
  if (result == 0) return true;
  if (result == -FI_EAGAIN) return false;
  completions_.push_back({operation, 0, static_cast<int>(-result)});  // told like any other failure
  want_dispatch();
  return true;
}

int64_t OfiFabric::post_piece(Endpoint& endpoint, Operation* operation) {
  operation->piece = std::min<uint64_t>(operation->bytes - operation->at,
                                        info_->ep_attr->max_msg_size);
  std::byte* const base = operation->buffer.data != nullptr ? operation->buffer.data
                                                            : operation->local;
  void* descriptor = operation->buffer.data != nullptr ? operation->buffer.descriptor
                     : operation->registration != nullptr
                         ? fi_mr_desc(operation->registration.get())
                         : nullptr;
  iovec local{base + operation->at, operation->piece};
  fi_rma_iov remote{operation->key.base + operation->offset + operation->at, operation->piece,
                    operation->key.key};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &operation->context;
  const bool put = operation->kind == Operation::Kind::put;
  return put ? fi_writemsg(endpoint.ep, &message, FI_COMPLETION | write_flags_)
             : fi_readmsg(endpoint.ep, &message, FI_COMPLETION);
}

int OfiFabric::finish_rma(Endpoint& endpoint, EndpointId id, Operation* operation, int error_number,
                          Sink& sink) {
  if (error_number != 0) return 0;  // the endpoint ends and tells all that are outstanding
  operation->at += operation->bytes == 0 ? 0 : operation->piece;
  if (operation->at < operation->bytes) {
    if (!post_rma(endpoint, operation)) {
      endpoint.rma_waiting.push_front(operation);
      again_.push_back(id);
    }
    return 0;
  }
  if (operation->kind == Operation::Kind::get && operation->buffer.data != nullptr)
    std::memcpy(operation->local, operation->buffer.data, operation->bytes);
  const uint64_t cookie = operation->cookie;
  const bool is_atomic = operation->is_atomic();
  const uint64_t before = is_atomic ? result_of_atomic(*operation) : 0;
  endpoint.operations.erase(operation);
  --endpoint.rma_outstanding;
  give_back(operation);
  after_progress(endpoint, id);
  if (is_atomic) sink.on_atomic_done(id, cookie, true, before);
  else sink.on_rma_done(id, cookie, true);
  return 1;
}

}  // namespace skerry::fabric::ofi
