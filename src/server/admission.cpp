#include "server/admission.hpp"

#include "core/pure/container_bytes.hpp"
#include "core/thread.hpp"

namespace skerry::server {

using connection::Quota;

Admission::Admission(const ServerConfig& config, fabric::Fabric& fabric, Clients& clients,
                     Answers& answers, Relay& relay, Counters& counters)
    : config_(config),
      fabric_(fabric),
      clients_(clients),
      answers_(answers),
      relay_(relay),
      counters_(counters),
      door_(config.key, {static_cast<uint32_t>(config.self.node), config.self.index, wire::version,
                         connection::Role::server}),
      quota_({.connections = config.max_connections}) {}

void Admission::on_connect_request(fabric::RequestId request, fabric::Bytes bytes) {
  using connection::Doorkeeper;
  using connection::Role;
  connection::Hello hello;
  Role role{};
  connection::Visitor* server = nullptr;  // of another node
  const auto verdict = door_.knock(
      bytes, {Role::origin, Role::relay}, &hello, &role,
      [&](Role of, uint32_t name) -> connection::Visitor* {
        if (of == Role::relay) return server = relay_.neighbour(static_cast<NodeId>(name));
        if (name >= static_cast<uint32_t>(config_.ranks)) return nullptr;
        if (is_dead(static_cast<Rank>(name))) return nullptr;
        return &clients_.recall(static_cast<Rank>(name));
      },
      [this](fabric::EndpointId old) {
        // What it still holds unread is discarded, and its late writes have no effect.
        if (Client* client = clients_.find(old)) drop(*client);
        fabric_.close(old);
      });
  if (verdict != Doorkeeper::Verdict::welcome) {
    const bool was_used = verdict == Doorkeeper::Verdict::replayed;
    count(was_used ? counters_.refused_replayed : counters_.refused_unproven);
    warn(refusals_.line(door_, bytes, verdict, monotonic_ns()));
    return fabric_.reject(request,
                          was_used ? fabric::CloseReason::replayed : fabric::CloseReason::unproven);
  }
  if (server != nullptr) (void)fabric_.accept(request, door_.answer(hello), &server->endpoint);
  else if (quota_.is_limited()) wait_for_slot(request, hello);
  else (void)admit(request, hello);
}

// Takes a place in the line for a slot, and gets one at once if there is one.
void Admission::wait_for_slot(fabric::RequestId request, const connection::Hello& hello) {
  const Rank rank = static_cast<Rank>(hello.rank);
  if (const auto held = held_.find(rank); held != held_.end()) {
    // It gave that attempt up: its turn is still its own.
    fabric_.reject(held->second.request, fabric::CloseReason::replayed);
    held_.erase(held);
  }
  switch (quota_.arrive(hello.rank, monotonic_ns(), &clients_.recall(rank).quota)) {
    case Quota::Arrival::held: break;
    case Quota::Arrival::come_back:  // it is told to wait, and that it must ask again
      count(counters_.clients_waited);
      fabric_.hold(request);
      fabric_.reject(request, fabric::CloseReason::crowded_out);
      return;
  }
  held_.insert_or_assign(rank, Held{request, hello});
  manage_slots();
  const auto waits = held_.find(rank);
  if (waits == held_.end() || waits->second.request != request) return;
  count(counters_.clients_waited);
  fabric_.hold(request);
}

// Returns false if the client has left meanwhile.
bool Admission::admit(fabric::RequestId request, const connection::Hello& hello) {
  const Rank rank = static_cast<Rank>(hello.rank);
  Known& known = clients_.recall(rank);
  const bool owes_refusals = known.session.owes_refusals();
  const auto answer = door_.answer(hello, known.session.applied(), owes_refusals);
  if (!fabric_.accept(request, answer, &known.endpoint).ok()) return false;
  Client& client = clients_.add(rank, known);
  SKERRY_ASSERT(!quota_.is_limited() || clients_.size() == quota_.connected(),
                "every client has a slot, and every slot a client");
  if (owes_refusals) answers_.refuse_again(client);
  return true;
}

void Admission::manage_slots() {
  if (!quota_.is_limited()) return;
  const int64_t now_ns = monotonic_ns();
  const auto client_of = [this](uint32_t name) -> Client& {
    Client* const client = clients_.of(static_cast<Rank>(name));
    SKERRY_ASSERT(client != nullptr, "a slot without a client");
    return *client;
  };
  for (;;) {
    const Quota::Action action = quota_.next(
        now_ns, [&](uint32_t name, Quota::Id) { return busy_with(client_of(name)); });
    switch (action.kind) {
      case Quota::Action::Kind::none: return;
      case Quota::Action::Kind::admit: {
        const auto held = held_.extract(static_cast<Rank>(action.name));
        SKERRY_ASSERT(!held.empty(), "a client that waits has a request here");
        if (!admit(held.mapped().request, held.mapped().hello))
          quota_.request_ended(action.id, now_ns);
        break;
      }
      case Quota::Action::Kind::ask:
        // If the fabric does not take it, the client does not read, and it loses its slot soon.
        (void)answers_.tell_close(client_of(action.name), wire::CloseKind::please_close);
        break;
      case Quota::Action::Kind::dismiss:
      case Quota::Action::Kind::close: {
        Client& client = client_of(action.name);
        client.quota = 0;  // the slot is free already
        if (action.kind == Quota::Action::Kind::dismiss)
          (void)answers_.tell_close(client, wire::CloseKind::farewell);
        if (!client.said_bye()) count(counters_.clients_dropped);
        end(client);
        break;
      }
    }
  }
}

void Admission::bury(Rank rank) {
  dead_.insert(rank);
  if (const auto held = held_.find(rank); held != held_.end()) {
    fabric_.reject(held->second.request, fabric::CloseReason::unproven);
    quota_.request_ended(clients_.recall(rank).quota, monotonic_ns());
    held_.erase(held);
  }
  if (Client* const client = clients_.of(rank)) end(*client);
}

void Admission::heard(const Client& client) {
  if (client.quota != 0) quota_.heard(client.quota, monotonic_ns());
}

void Admission::said_bye(const Client& client) { quota_.said_bye(client.quota, monotonic_ns()); }

void Admission::end(Client& client) {
  const fabric::EndpointId endpoint = client.endpoint;
  drop(client);
  fabric_.close(endpoint);
}

void Admission::drop(Client& client) {
  SKERRY_INVARIANT(client.quota == 0 || quota_.is_limited(), "slots are of a limit");
  quota_.closed(client.quota);
  clients_.drop(client);
}

// What a client is busy with that would make closing its connection expensive. A mutex it waits for
// does not count, because the grant finds another way. Messages that cross the end of a connection
// are sent again on the next one, which costs more than a bye.
Quota::Busy Admission::busy_with(const Client& client) const {
  if (client.state == Client::State::receiving) return {Quota::Busy::With::receiving, 0};
  const uint64_t unread_bytes = fabric_.unsent_bytes(client.endpoint) + client.late();
  const bool is_sending = client.unsent && !client.unsent->sending.empty();
  if (unread_bytes == 0 && !is_sending && !client.acknowledge &&
      client.state != Client::State::parked)
    return {};
  return {Quota::Busy::With::answers, unread_bytes};
}

uint64_t Admission::memory_bytes() const {
  return table_bytes(held_) + dead_.size() * sizeof(Rank) +
         quota_.memory_bytes();
}

}  // namespace skerry::server
