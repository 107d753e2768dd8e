#include "server/clients.hpp"

#include "core/pure/container_bytes.hpp"

namespace skerry::server {

Clients::~Clients() {
  for (Client* const client : table_) delete client;
}

Client* Clients::find(fabric::EndpointId endpoint) {
  if (last_ != nullptr && last_->endpoint == endpoint) return last_;
  Client* const client = table_.find(endpoint);
  if (client != nullptr) last_ = client;
  return client;
}

Known& Clients::recall(Rank rank) {
  left_.push_back(rank);  // should nothing come of it
  const auto [known, is_new] = known_.try_emplace(rank, uint32_t{1});
  session::Resting::Origin origin;
  if (is_new && resting_.take(rank, &origin)) {
    known_.erase(known);
    Known& back = known_.try_emplace(rank, origin.incarnation, origin.applied).first->second;
    back.generation = origin.generation;
    return back;
  }
  return known->second;
}

Client& Clients::add(Rank rank, Known& known) {
  SKERRY_INVARIANT(known.endpoint != fabric::no_endpoint && find(known.endpoint) == nullptr,
                   "a connection has one client");
  auto* const client = new Client;
  client->rank = rank;
  client->endpoint = known.endpoint;
  client->session = &known.session;
  client->quota = known.quota;
  table_.insert(client);
  counters_.clients.store(size(), std::memory_order_relaxed);
  if (counters_.clients_peak.load(std::memory_order_relaxed) < size())
    counters_.clients_peak.store(size(), std::memory_order_relaxed);
  return *client;
}

void Clients::drop(Client& client) {
  const auto known = known_.find(client.rank);
  if (known != known_.end() && known->second.endpoint == client.endpoint) {
    known->second.endpoint = fabric::no_endpoint;
    known->second.quota = 0;
  }
  SKERRY_INVARIANT(table_.find(client.endpoint) == &client, "a client is dropped once");
  client.session->tidy();
  left_.push_back(client.rank);
  if (last_ == &client) last_ = nullptr;
  delete table_.erase(client.endpoint);
  counters_.clients.store(size(), std::memory_order_relaxed);
}

void Clients::let_rest() {
  for (const Rank rank : left_) {
    const auto known = known_.find(rank);
    if (known == known_.end() || known->second.quota != 0 ||
        known->second.endpoint != fabric::no_endpoint || !known->second.session.is_plain())
      continue;
    const session::TargetSession& session = known->second.session;
    SKERRY_INVARIANT(of(rank) == nullptr, "who rests has no connection");
    resting_.put(rank, {session.applied(), session.incarnation(), known->second.generation});
    known_.erase(known);
  }
  left_.clear();
  // The table does not shrink by itself.
  if (known_.bucket_count() > 64 + 4 * known_.size()) known_.rehash(known_.size());
}

uint64_t Clients::connection_bytes() const {
  uint64_t bytes = table_.memory_bytes() + size() * sizeof(Client);
  for (const Client* const client : table_) {
    if (!client->unsent) continue;
    bytes += sizeof(Client::Unsent);
    for (const auto* const answers : {&client->unsent->late, &client->unsent->sending})
      for (const Client::Answer& answer : *answers)
        bytes += list_node_bytes<Client::Answer>() + vector_bytes(answer.payload);
  }
  return bytes;
}

uint64_t Clients::known_bytes() const {
  uint64_t bytes = table_bytes(known_) + resting_.memory_bytes();
  for (const auto& [rank, known] : known_) bytes += known.session.memory_bytes();
  return bytes;
}

}  // namespace skerry::server
