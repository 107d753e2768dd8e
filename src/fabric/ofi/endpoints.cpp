#include "fabric/ofi/endpoints.hpp"

#include <sys/random.h>

#include <algorithm>

#include "core/pure/container_bytes.hpp"

namespace skerry::fabric::ofi {

// --- the pool ----------------------------------------------------------------------------------

bool Pool::add_slab(uint64_t count, uint64_t bytes, std::vector<Buffer>* free) {
  Slab slab;
  slab.bytes = std::make_unique_for_overwrite<std::byte[]>(count * bytes);
  void* descriptor = nullptr;
  if (domain_.mr_local) {
    if (domain_.register_memory(slab.bytes.get(), count * bytes,
                                FI_SEND | FI_RECV | FI_READ | FI_WRITE, &slab.registration) != 0)
      return false;
    descriptor = fi_mr_desc(slab.registration.get());
  }
  for (uint64_t i = 0; i < count; ++i)
    free->push_back({slab.bytes.get() + i * bytes, descriptor, bytes});
  slabs_.push_back(std::move(slab));
  return true;
}

bool Pool::take_buffer(Buffer* buffer) {
  if (free_buffers_.empty() && !add_slab(buffers_per_slab, buffer_bytes, &free_buffers_))
    return false;
  *buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return true;
}

Operation* Pool::take(Operation::Kind kind, EndpointId id, bool with_buffer) {
  Buffer buffer;
  if (with_buffer && !take_buffer(&buffer)) return nullptr;
  return take_with(buffer, kind, id);
}

Operation* Pool::take_long(Operation::Kind kind, EndpointId id) {
  if (free_long_.empty() && long_buffers_ < max_long_buffers &&
      add_slab(1, long_buffer_bytes, &free_long_))
    ++long_buffers_;
  if (free_long_.empty()) return take(kind, id, true);
  const Buffer buffer = free_long_.back();
  free_long_.pop_back();
  return take_with(buffer, kind, id);
}

Operation* Pool::take_with(const Buffer& buffer, Operation::Kind kind, EndpointId id) {
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

void Pool::give_back(Operation* operation) {
  if (operation->buffer.data != nullptr)
    (operation->buffer.bytes == buffer_bytes ? free_buffers_ : free_long_)
        .push_back(operation->buffer);
  operation->buffer = Buffer{};
  operation->peer.reset();
  operation->registration.reset();
  operation->endpoint = no_endpoint;
  free_operations_.push_back(operation);
}

uint64_t Pool::spare_bytes() const {
  return vector_bytes(operations_) + vector_bytes(free_operations_) + vector_bytes(free_buffers_) +
         free_operations_.size() * sizeof(Operation) + free_buffers_.size() * buffer_bytes +
         vector_bytes(free_long_) + free_long_.size() * long_buffer_bytes;
}

// --- endpoints ---------------------------------------------------------------------------------

Endpoint* Endpoints::find_usable(EndpointId id) const {
  Endpoint* const endpoint = find(id);
  return endpoint == nullptr || endpoint->ending || endpoint->state == State::asking ? nullptr
                                                                                     : endpoint;
}

Endpoint* Endpoints::find(const fid* object) const {
  const auto found = by_fid_.find(object);
  return found == by_fid_.end() ? nullptr : find(found->second);
}

Endpoint* Endpoints::find_numbered(uint64_t number) const {
  const auto slot = static_cast<uint32_t>(number);
  if (slot >= by_slot_.size()) return nullptr;
  Endpoint* const endpoint = find(by_slot_[slot]);
  return endpoint != nullptr && endpoint->number == number ? endpoint : nullptr;
}

Endpoint& Endpoints::add(State state, int64_t deadline_ns, EndpointId* id) {
  Endpoint& endpoint = *slots_.allocate(id);
  endpoint.state = state;
  endpoint.deadline_ns = deadline_ns;
  Slots<Endpoint>::publish(&endpoint, *id);
  return endpoint;
}

// Gives the connection its number: the slot, which finds it, under a part that is drawn by chance.
void Endpoints::number(Endpoint& endpoint) {
  uint32_t chance = 0;  // stays 0 where the system has none ready: the sequence still tells
  [[maybe_unused]] const ssize_t n = getrandom(&chance, sizeof chance, GRND_NONBLOCK);
  const auto slot = static_cast<uint32_t>(endpoint.own_id());
  endpoint.number = (uint64_t{chance} | 1) << 32 | slot;
  if (by_slot_.size() <= slot) by_slot_.resize(slot + 1, no_endpoint);
  by_slot_[slot] = endpoint.own_id();
}

Status Endpoints::open(Endpoint& endpoint, fi_info* info) {
  if (domain_.is_datagram()) {
    endpoint.ep = domain_.receives.get();
    ++opened_;
    number(endpoint);
    return {};
  }
  if (const int result = fi_endpoint(domain_.domain.get(), info, &endpoint.ep, nullptr);
      result != 0)
    return domain_.failed("fi_endpoint", result);
  by_fid_[&endpoint.ep->fid] = endpoint.own_id();
  ++opened_;
  number(endpoint);
  fid* const receives = domain_.receives != nullptr ? &domain_.receives->fid : nullptr;
  for (const auto& [bound, flags] :
       {std::pair<fid*, uint64_t>{&domain_.events->fid, 0},
        std::pair<fid*, uint64_t>{&domain_.completions->fid, FI_TRANSMIT | FI_RECV},
        std::pair<fid*, uint64_t>{receives, 0}}) {
    if (bound == nullptr) continue;
    if (const int result = fi_ep_bind(endpoint.ep, bound, flags); result != 0)
      return domain_.failed("fi_ep_bind", result);
  }
  if (const int result = fi_enable(endpoint.ep); result != 0)
    return domain_.failed("fi_enable", result);
  return {};
}

// After fi_close nothing new completes; what completed before stands in the queue and names our
// operations, so it is read first. A datagram endpoint is not closed: what is posted for this peer
// completes later, and is given back then.
void Endpoints::release(Endpoint& endpoint) {
  const EndpointId id = endpoint.own_id();
  if (endpoint.ep != nullptr) --opened_;
  if (domain_.is_datagram()) {
    for (Operation* operation : endpoint.rma_waiting) operation->has_failed = true;
    endpoint.operations.filter([](const Operation& operation) { return operation.has_failed; });
  } else if (endpoint.ep != nullptr) {
    by_fid_.erase(&endpoint.ep->fid);
    fi_shutdown(endpoint.ep, 0);
    fi_close(&endpoint.ep->fid);
    drain_completions();
    std::erase_if(completions_,
                  [&](const Completion& one) { return one.operation->endpoint == id; });
  }
  for (Operation* operation : endpoint.operations) pool_.give_back(operation);
  for (Operation* operation : endpoint.inbox) pool_.give_back(operation);
  for (Operation* operation : endpoint.early) pool_.give_back(operation);
  if (endpoint.filling != nullptr) pool_.give_back(endpoint.filling);
  short_rma_.fetch_sub(endpoint.short_rma_outstanding, std::memory_order_relaxed);
  static_cast<Connection&>(endpoint) = {};
  slots_.release(&endpoint);
}

void Endpoints::begin_rma(Endpoint& endpoint, uint64_t bytes) {
  ++endpoint.rma_outstanding;
  if (!is_short(bytes)) return;
  ++endpoint.short_rma_outstanding;
  short_rma_.fetch_add(1, std::memory_order_relaxed);
}

void Endpoints::end_rma(Endpoint& endpoint, uint64_t bytes) {
  --endpoint.rma_outstanding;
  if (!is_short(bytes)) return;
  --endpoint.short_rma_outstanding;
  short_rma_.fetch_sub(1, std::memory_order_relaxed);
}

void Endpoints::end_soon(Endpoint& endpoint, CloseReason reason, std::string detail) {
  if (endpoint.ending) return;
  endpoint.ending = true;
  endpoint.end_reason = reason;
  endpoint.end_detail = std::move(detail);
  end_now(endpoint);
  waiter_.leave_work();
}

void Endpoints::try_again(EndpointId id, bool soon) {
  if (std::ranges::find(again, id) == again.end()) again.push_back(id);
  if (soon) impatient.store(true, std::memory_order_relaxed);
  waiter_.leave_work();
}

void Endpoints::tell_writable(EndpointId id) {
  writable.push_back(id);
  waiter_.leave_work();
}

void Endpoints::add_read(std::span<const fi_cq_msg_entry> entries) {
  for (const fi_cq_msg_entry& one : entries)
    completions_.push_back({static_cast<Operation*>(one.op_context), one.len, 0});
}

bool Endpoints::poll_completions() {
  const ssize_t n = fi_cq_read(domain_.completions.get(), polled_.data(), polled_.size());
  if (n > 0) polled_count_ = static_cast<size_t>(n);
  return n > 0 || n == -FI_EAVAIL;  // a failure stays in the queue for drain_completions
}

void Endpoints::drain_completions(bool all) {
  const size_t polled = std::exchange(polled_count_, 0);
  add_read({polled_.data(), polled});
  if (polled > 0 && polled < polled_.size() && !all) return;
  for (;;) {
    std::array<fi_cq_msg_entry, completions_a_look> entries;
    const ssize_t n = fi_cq_read(domain_.completions.get(), entries.data(), entries.size());
    if (n > 0) {
      add_read({entries.data(), static_cast<size_t>(n)});
      if (static_cast<size_t>(n) < entries.size() && !all) return;
      continue;
    }
    if (n != -FI_EAVAIL) return;
    fi_cq_err_entry failure{};
    if (fi_cq_readerr(domain_.completions.get(), &failure, 0) != 1) return;
    if (failure.op_context != nullptr)
      completions_.push_back({static_cast<Operation*>(failure.op_context), 0,
                              failure.err != 0 ? failure.err : FI_EOTHER});
  }
}

void Endpoints::add_completion(const Completion& completion) {
  completions_.push_back(completion);
  waiter_.leave_work();
}

bool Endpoints::next_completion(Completion* completion) {
  if (completions_.empty()) return false;
  *completion = completions_.front();
  completions_.pop_front();
  return true;
}

uint64_t Endpoints::open_to_caller() const {
  uint64_t open = 0;
  slots_.for_each([&](const Endpoint& endpoint) { open += endpoint.state != State::asking; });
  return open;
}

void Endpoints::add_memory(Fabric::Memory* memory) const {
  uint64_t used_operations = 0, used_buffers = 0;
  const auto count = [&](const Operation* operation) {
    if (operation == nullptr) return;
    ++used_operations;
    used_buffers += operation->buffer.data != nullptr ? 1 : 0;
  };
  slots_.for_each([&](const Endpoint& e) {
    memory->endpoint_bytes += slots_.item_bytes() + e.operations.heap_bytes() +
                              deque_bytes(e.inbox) + deque_bytes(e.rma_waiting) +
                              vector_bytes(e.early) + vector_bytes(e.said) +
                              vector_bytes(e.end_detail);
    for (const Operation* operation : e.operations) count(operation);
    for (const Operation* operation : e.inbox) count(operation);
    for (const Operation* operation : e.early) count(operation);
    count(e.filling);
  });
  memory->endpoint_bytes += table_bytes(by_fid_) + used_operations * sizeof(Operation) +
                            used_buffers * buffer_bytes;
  memory->fixed_bytes += slots_.spare_bytes() + vector_bytes(by_slot_);
}

}  // namespace skerry::fabric::ofi
