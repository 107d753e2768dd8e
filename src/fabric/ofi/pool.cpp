#include "fabric/ofi/pool.hpp"

#include "core/pure/container_bytes.hpp"

namespace skerry::fabric::ofi {

bool Pool::take_buffer(Buffer* buffer) {
  if (free_buffers_.empty()) {
    Slab slab;
    slab.bytes = std::make_unique_for_overwrite<std::byte[]>(slab_bytes);
    void* descriptor = nullptr;
    if (domain_.mr_local) {
      if (domain_.register_memory(slab.bytes.get(), slab_bytes,
                                  FI_SEND | FI_RECV | FI_READ | FI_WRITE, &slab.registration) != 0)
        return false;
      descriptor = fi_mr_desc(slab.registration.get());
    }
    for (size_t i = 0; i < buffers_per_slab; ++i)
      free_buffers_.push_back({slab.bytes.get() + i * buffer_bytes, descriptor});
    slabs_.push_back(std::move(slab));
  }
  *buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return true;
}

Operation* Pool::take(Operation::Kind kind, EndpointId id, bool with_buffer) {
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

void Pool::give_back(Operation* operation) {
  if (operation->buffer.data != nullptr) free_buffers_.push_back(operation->buffer);
  operation->buffer = Buffer{};
  operation->registration.reset();
  operation->endpoint = no_endpoint;
  free_operations_.push_back(operation);
}

uint64_t Pool::spare_bytes() const {
  return vector_bytes(operations_) + vector_bytes(free_operations_) + vector_bytes(free_buffers_) +
         free_operations_.size() * sizeof(Operation) + free_buffers_.size() * buffer_bytes;
}

}  // namespace skerry::fabric::ofi
