// What connections and known servers take.
#include "core/pure/container_bytes.hpp"
#include "operation/engine.hpp"

namespace skerry::operation {

EngineMemory Engine::memory() {
  const Lock lock(mutex_);
  return account();
}

EngineMemory Engine::account() const {
  EngineMemory out;
  const fabric::Fabric::Memory fabric = fabric_->memory();
  out.connections = by_endpoint_.size();
  out.connection_bytes = fabric.endpoint_bytes + table_bytes(by_endpoint_);
  out.servers_known = all_links_.size();
  out.known_bytes = all_links_.size() * sizeof(Link) + table_bytes(links_) +
                    vector_bytes(all_links_);
  for (const Link* link : all_links_) {
    if (link->log) out.connection_bytes += sizeof *link->log + link->log->memory_bytes();
    if (link->batch) out.connection_bytes += sizeof *link->batch;
    if (!link->last_message.empty()) out.connection_bytes += table_bytes(link->last_message);
  }
  out.fixed_bytes = fabric.fixed_bytes + sizeof *this + vector_bytes(pending_) +
                    vector_bytes(free_slots_) + ops_.size() * (sizeof(Op) + sizeof(void*)) +
                    (policy_ ? policy_->bytes() : 0);
  return out;
}

}  // namespace skerry::operation
