// Which clients have a connection to the server: admission, connection slots under the limit
// (decided in connection/core/quota.hpp), and the other servers that bring grants.
#include <algorithm>
#include <cstdio>

#include "memory/slots.hpp"
#include "server/server.hpp"

namespace skerry::server {

using connection::Quota;

connection::Doorkeeper Server::door() const {
  return {config_.key,
          {static_cast<uint32_t>(config_.self.node), config_.self.index, wire::version,
           connection::Role::server}};
}

// Null: nobody has that name.
connection::Visitor* Server::visitor_of(connection::Role role, uint32_t name) {
  if (role == connection::Role::relay) {
    const NodeId node = static_cast<NodeId>(name);
    const bool is_other = view_.map != nullptr && node >= 0 && node < view_.map->nodes() &&
                          node != config_.self.node;
    return is_other ? &neighbours_[node] : nullptr;
  }
  if (name >= static_cast<uint32_t>(config_.ranks)) return nullptr;
  left_.push_back(static_cast<Rank>(name));  // should it not be admitted
  return &recall(static_cast<Rank>(name));
}

void Server::on_connect_request(fabric::RequestId request, fabric::Bytes bytes, std::string_view) {
  using connection::Doorkeeper;
  using connection::Role;
  assert_server_thread();
  connection::Hello hello;
  Role role{};
  const auto verdict = door().knock(
      bytes, {Role::origin, Role::relay}, &hello, &role,
      [this](Role of, uint32_t name) { return visitor_of(of, name); },
      [this](fabric::EndpointId old) {
        // What it still holds unread is discarded, and its late writes have no effect.
        if (Client* client = client_of(old)) drop(*client);
        fabric_->close(old);
      });
  switch (verdict) {
    case Doorkeeper::Verdict::stranger: ++unproven_; return fabric_->reject(request);
    case Doorkeeper::Verdict::replayed: ++replayed_; return fabric_->reject(request);
    case Doorkeeper::Verdict::welcome: break;
  }
  if (role == Role::relay)
    (void)let_in(request, hello, neighbours_[static_cast<NodeId>(hello.rank)], 0, false);
  else if (quota_.is_limited()) wait_for_slot(request, hello);
  else (void)admit(request, hello);
}

// Returns false if the peer has left meanwhile.
bool Server::let_in(fabric::RequestId request, const connection::Hello& hello,
                    connection::Visitor& visitor, uint64_t applied, bool refusals_follow) {
  return door().let_in(hello, visitor, applied, refusals_follow,
                       [&](fabric::Bytes answer, fabric::EndpointId* endpoint) {
                         return fabric_->accept(request, answer, endpoint);
                       });
}

// Takes a place in the line for a slot, and gets one at once if there is one.
void Server::wait_for_slot(fabric::RequestId request, const connection::Hello& hello) {
  const Rank rank = static_cast<Rank>(hello.rank);
  Known& known = known_.find(rank)->second;
  if (const auto held = held_.find(rank); held != held_.end()) {
    fabric_->reject(held->second.request);  // it gave that attempt up: its turn is still its own
    held_.erase(held);
  }
  switch (quota_.arrive(hello.rank, monotonic_ns(), &known.quota)) {
    case Quota::Arrival::held: break;
    case Quota::Arrival::come_back:  // it is told to wait, and that it must ask again
      counters_.clients_waited.fetch_add(1, std::memory_order_relaxed);
      fabric_->hold(request);
      fabric_->reject(request);
      return;
  }
  held_.insert_or_assign(rank, Held{request, hello});
  manage_slots();
  const auto waits = held_.find(rank);
  if (waits == held_.end() || waits->second.request != request) return;
  counters_.clients_waited.fetch_add(1, std::memory_order_relaxed);
  fabric_->hold(request);
}

// Returns false if the client has left meanwhile.
bool Server::admit(fabric::RequestId request, const connection::Hello& hello) {
  Known& known = known_.find(static_cast<Rank>(hello.rank))->second;
  const bool owes_refusals = known.session.owes_refusals();
  if (!let_in(request, hello, known, known.session.applied(), owes_refusals)) return false;
  auto* const client = new Client;
  client->rank = static_cast<Rank>(hello.rank);
  client->endpoint = known.endpoint;
  client->session = &known.session;
  client->quota = quota_.is_limited() ? known.quota : 0;
  Client& admitted = *client;
  clients_.insert(client);
  SKERRY_ASSERT(!quota_.is_limited() || clients_.size() == quota_.connected(),
                "every client has a slot, and every slot a client");
  counters_.clients.store(clients_.size(), std::memory_order_relaxed);
  counters_.clients_peak.store(
      std::max<uint64_t>(counters_.clients_peak.load(std::memory_order_relaxed), clients_.size()),
      std::memory_order_relaxed);
  if (!owes_refusals) return true;
  for (const session::Kept& kept : known.session.kept())
    if (kept.one_way) send_failure(admitted, kept.number, kept.code, kept.payload);
  send_acknowledgement(admitted);  // those were all
  return true;
}

// Does what the quota decides, until it has nothing more to do now.
void Server::manage_slots() {
  assert_server_thread();
  if (!quota_.is_limited()) return;
  const int64_t now_ns = monotonic_ns();
  for (;;) {
    const Quota::Action action = quota_.next(
        now_ns, [this](uint32_t rank, Quota::Id) { return busy_with(static_cast<Rank>(rank)); });
    const Rank rank = static_cast<Rank>(action.name);
    switch (action.kind) {
      case Quota::Action::Kind::none: return;
      case Quota::Action::Kind::admit: {
        const auto held = held_.find(rank);
        SKERRY_ASSERT(held != held_.end(), "a client that waits has a request here");
        const Held next = held->second;
        held_.erase(held);
        if (!admit(next.request, next.hello)) quota_.request_ended(action.id, now_ns);
        break;
      }
      case Quota::Action::Kind::ask:
        // If the fabric does not take it, the client does not read, and it loses its slot soon.
        (void)send_close(*client_of(known_.find(rank)->second.endpoint),
                         wire::CloseKind::please_close);
        break;
      case Quota::Action::Kind::dismiss:
      case Quota::Action::Kind::close: {
        Client& client = *client_of(known_.find(rank)->second.endpoint);
        client.quota = 0;  // the slot is free already
        if (action.kind == Quota::Action::Kind::dismiss)
          (void)send_close(client, wire::CloseKind::farewell);
        if (!client.said_bye()) counters_.clients_dropped.fetch_add(1, std::memory_order_relaxed);
        end(client);
        break;
      }
    }
  }
}

void Server::end(Client& client) {
  const fabric::EndpointId endpoint = client.endpoint;
  drop(client);
  fabric_->close(endpoint);
}

void Server::used(Client& client) {
  if (client.quota != 0) quota_.heard(client.quota, monotonic_ns());
}

// What a client is busy with that would make closing its connection expensive. A mutex it waits for
// does not count, because the grant finds another way. Messages that cross the end of a connection
// are sent again on the next one, which costs more than a bye.
Quota::Busy Server::busy_with(Rank rank) {
  const Client* client = client_of(known_.find(rank)->second.endpoint);
  SKERRY_ASSERT(client != nullptr, "a slot without a client");
  if (client->state == Client::State::receiving) return {Quota::Busy::With::receiving, 0};
  const uint64_t unread_bytes = fabric_->unsent_bytes(client->endpoint) + client->late();
  if (unread_bytes == 0 && !client->is_sending() && !client->acknowledge &&
      client->state != Client::State::parked)
    return {};
  return {Quota::Busy::With::answers, unread_bytes};
}

void Server::on_closed(fabric::EndpointId endpoint, fabric::CloseReason, std::string_view) {
  assert_server_thread();
  if (Client* client = client_of(endpoint)) {
    drop(*client);
    return;
  }
  relay_.on_closed(endpoint);
  for (auto& [node, neighbour] : neighbours_)
    if (neighbour.endpoint == endpoint) neighbour.endpoint = fabric::no_endpoint;
}

// ---- other servers ----------------------------------------------------------------------------

void Server::on_connected(fabric::EndpointId endpoint, fabric::Bytes answer) {
  relay_.on_connected(endpoint, answer);
}

// A message of another server: a grant for a rank of this node, or the answer to one of ours.
// Returns false if there is no room for the answer now.
bool Server::take_grant(fabric::EndpointId endpoint, fabric::Bytes header) {
  if (relay_.owns(endpoint)) {
    counters_.grants_relayed.fetch_add(relay_.on_message(endpoint, header),
                                       std::memory_order_relaxed);
    return true;
  }
  const auto from = std::find_if(neighbours_.begin(), neighbours_.end(),
                                 [=](const auto& one) { return one.second.endpoint == endpoint; });
  if (from == neighbours_.end()) return true;  // late, of a connection that was closed meanwhile
  wire::GrantHeader grant{};
  const Status status = wire::decode(header, &grant);
  const uint32_t slots = view_.control.layout().slots_per_member;
  const int32_t member = status.ok() ? view_.member_of(static_cast<Rank>(grant.rank)) : -1;
  if (member < 0 || grant.version != wire::version ||
      grant.kind != static_cast<uint8_t>(wire::GrantKind::grant) || grant.slot == 0 ||
      grant.slot > slots) {
    std::fprintf(stderr,
                 "skerry: data server of node %d closes its connection to the server of node %d: "
                 "not a grant for a rank of this node\n",
                 config_.self.node, from->first);
    from->second.endpoint = fabric::no_endpoint;
    fabric_->close(endpoint);
    return true;
  }
  const wire::GrantHeader answer{
      wire::version, static_cast<uint8_t>(wire::GrantKind::grant_taken), 0, 0, 0, 0,
      grant.sequence};
  // The answer goes first, because it may not fit. If the connection breaks in between, the grant
  // is repeated, which is harmless; it is never lost.
  memory::fill_slot(view_.control.slot(static_cast<uint32_t>(member) * slots + grant.slot - 1),
                    grant.tag, 0, 0);
  if (fabric_->send(endpoint, std::as_bytes(std::span(&answer, 1)), {}, false, 0) !=
      fabric::SendResult::would_block)
    return true;
  full_.push_back(endpoint);
  return false;
}

}  // namespace skerry::server
