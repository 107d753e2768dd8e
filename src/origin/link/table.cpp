#include "origin/link/table.hpp"

#include "core/pure/container_bytes.hpp"

namespace skerry::origin {

namespace {

uint64_t key_of(placement::ServerRef server) {
  return uint64_t{static_cast<uint32_t>(server.node)} << 16 | server.index;
}

}  // namespace

Link& LinkTable::to(placement::ServerRef server) {
  context_.assert_held();
  if (last_ != nullptr && last_->server == server) return *last_;
  auto& entry = by_server_[key_of(server)];
  if (!entry) {
    entry = std::make_unique<Link>(server, static_cast<uint32_t>(all_.size()),
                                   context_.config.incarnation);
    all_.push_back(entry.get());
  }
  last_ = entry.get();
  return *entry;
}

Link* LinkTable::find(placement::ServerRef server) {
  const auto found = by_server_.find(key_of(server));
  return found == by_server_.end() ? nullptr : found->second.get();
}

Link* LinkTable::of(fabric::EndpointId endpoint) {
  context_.assert_held();
  if (last_ != nullptr && last_->connection.endpoint() == endpoint) return last_;
  const auto found = by_endpoint_.find(endpoint);
  return found == by_endpoint_.end() ? nullptr : found->second;
}

void LinkTable::account(fabric::ConnectionsMemory* taken) const {
  taken->connections += by_endpoint_.size();
  taken->connection_bytes += table_bytes(by_endpoint_);
  taken->known += all_.size();
  taken->known_bytes += all_.size() * sizeof(Link) + table_bytes(by_server_) + vector_bytes(all_);
}

}  // namespace skerry::origin
