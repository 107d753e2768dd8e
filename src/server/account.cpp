// The memory that origins take at their data server.
#include "core/pure/container_bytes.hpp"
#include "server/server.hpp"

namespace skerry::server {

Server::Memory Server::memory() {
  Memory out;
  if (stopping_.load(std::memory_order_acquire)) return out;
  call([&] {
    const fabric::Fabric::Memory fabric = fabric_->memory();
    out.connections = clients_.size();
    out.connection_bytes = fabric.endpoint_bytes + clients_.memory_bytes() +
                           clients_.size() * sizeof(Client);
    for (const Client* const client : clients_) {
      if (!client->answers) continue;
      out.connection_bytes += sizeof(Client::Answers) + vector_bytes(client->answers->late) +
                              vector_bytes(client->answers->segments);
      for (const Client::Late& late : client->answers->late)
        out.connection_bytes += vector_bytes(late.payload);
      for (const std::vector<std::byte>& payload : client->answers->sending)
        out.connection_bytes += list_node_bytes<std::vector<std::byte>>() + vector_bytes(payload);
    }
    out.ranks_known = known_.size() + resting_.size();
    out.known_bytes = table_bytes(known_) + resting_.memory_bytes();
    for (const auto& [rank, known] : known_) out.known_bytes += known.session.memory_bytes();
    out.fixed_bytes = fabric.fixed_bytes + sizeof *this + table_bytes(registrations_) +
                      vector_bytes(acknowledge_) + vector_bytes(retry_) + vector_bytes(full_) +
                      table_bytes(watched_) + vector_bytes(pieces_) + vector_bytes(scratch_) +
                      table_bytes(held_) + table_bytes(neighbours_) + quota_.memory_bytes() +
                      vector_bytes(left_) + locks_.memory_bytes();
    for (const auto& [segment, ranks] : registrations_) out.fixed_bytes += table_bytes(ranks);
  });
  return out;
}

}  // namespace skerry::server
