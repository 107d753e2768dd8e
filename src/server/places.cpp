// Who has a connection to the server: admission, places under the cap, and the other servers that
// bring grants.
#include <algorithm>
#include <cstdio>

#include "core/futex.hpp"
#include "memory/slots.hpp"
#include "server/server.hpp"

namespace skerry::server {
namespace {

// Origins that may wait for a place at once; beyond that they are turned away and come back after a
// while.
constexpr size_t max_waiting = 1024;
// Who has not been heard of for this long is in the middle of something else: its place is taken
// without asking.
constexpr int64_t idle_ns = 1'000'000;
// Who was admitted and has not said anything for this long needs no place: it broke, and its
// answers are all it wanted to know.
constexpr int64_t unused_ns = 50'000'000;

}  // namespace

void Server::refuse_unproven(fabric::RequestId request) {
  ++strangers_unproven_;
  fabric_->reject(request);
}

void Server::refuse_replayed(fabric::RequestId request) {
  ++strangers_replayed_;
  fabric_->reject(request);
}

void Server::on_connect_request(fabric::RequestId request, fabric::Bytes bytes, std::string_view) {
  const connection::Peer peer{static_cast<uint32_t>(config_.self.node), config_.self.index,
                              wire::version, connection::Role::server};
  connection::Hello hello;
  // A stranger, or a member of another job: closed without a word. Nothing is remembered of it but
  // a count.
  if (!connection::check_hello(config_.key, peer, bytes, &hello).ok()) {
    if (connection::check_hello(config_.key, peer, bytes, &hello, connection::Role::relay).ok())
      admit_neighbour(request, hello);
    else refuse_unproven(request);
    return;
  }
  if (hello.rank >= static_cast<uint32_t>(config_.ranks)) {
    refuse_unproven(request);
    return;
  }
  const Rank rank = static_cast<Rank>(hello.rank);
  Known& known = known_.try_emplace(rank, uint32_t{1}).first->second;
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Waiting& w) { return w.hello.rank == hello.rank; });
  // Generations of one origin only grow: an old one is a replayed hello, or an attempt that was
  // overtaken by its successor.
  if (hello.generation <= known.generation ||
      (waits != waiting_.end() && hello.generation <= waits->hello.generation)) {
    refuse_replayed(request);
    return;
  }
  // Its earlier connection, if any, broke without our noticing: nothing of it may be applied after
  // the new one is told how far we came. What it still holds unread is discarded, and its late
  // writes cannot land.
  if (known.endpoint != fabric::no_endpoint) {
    const fabric::EndpointId old = known.endpoint;
    if (Client* client = client_of(old)) drop(*client);
    fabric_->close(old);
  }
  if (config_.max_connections == 0) {
    admit(request, hello);
    return;
  }
  if (waits != waiting_.end()) {  // it gave up an attempt: its turn is still its own
    fabric_->reject(waits->request);
    *waits = {request, hello};
  } else if (waiting_.size() >= max_waiting) {
    fabric_->reject(request);  // it comes back; the origin spreads its attempts
    return;
  } else {
    waiting_.push_back({request, hello});
  }
  fabric_->hold(request);
  const size_t before = waiting_.size();
  admit_waiting();
  if (waiting_.size() == before) counters_.clients_waited.fetch_add(1, std::memory_order_relaxed);
}

void Server::admit(fabric::RequestId request, const connection::Hello& hello) {
  const connection::Peer peer{static_cast<uint32_t>(config_.self.node), config_.self.index,
                              wire::version, connection::Role::server};
  Known& known = known_.find(static_cast<Rank>(hello.rank))->second;
  fabric::EndpointId endpoint = fabric::no_endpoint;
  if (!fabric_
           ->accept(request,
                    connection::make_answer(config_.key, peer, hello, known.session.applied()),
                    &endpoint)
           .ok())
    return;  // gone meanwhile
  known.generation = hello.generation;
  known.endpoint = endpoint;
  auto client = std::make_unique<Client>();
  client->rank = static_cast<Rank>(hello.rank);
  client->endpoint = endpoint;
  client->session = &known.session;
  client->last_use = ++messages_;
  client->since_ns = config_.max_connections == 0 ? 0 : monotonic_ns();
  Client& admitted = *client;
  clients_[endpoint] = std::move(client);
  counters_.clients.store(clients_.size(), std::memory_order_relaxed);
  counters_.clients_peak.store(
      std::max<uint64_t>(counters_.clients_peak.load(std::memory_order_relaxed), clients_.size()),
      std::memory_order_relaxed);
  for (const session::Kept& kept : known.session.kept())
    if (kept.one_way) send_failure(admitted, kept.number, kept.code, kept.text);
}

// In the order in which they came. Who left while it waited is passed over.
void Server::admit_waiting() {
  while (!waiting_.empty() && (has_place() || make_place())) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    admit(next.request, next.hello);
  }
}

void Server::used(Client& client) {
  client.last_use = ++messages_;
  client.served = true;
  if (config_.max_connections != 0 && !client.asked) client.since_ns = monotonic_ns();
}

// Nothing is owed to it but a mutex (a grant finds another way), and it does not seem to be about
// to say more: whatever crosses the end of the connection is sent again on its next one, which
// costs more than a bye.
bool Server::may_drop(const Client& client, int64_t now_ns) const {
  return !client.parked && !client.landing && !client.acknowledge && client.late.empty() &&
         client.sending.empty() &&
         now_ns - client.since_ns >= (client.served ? idle_ns : unused_ns) &&
         fabric_->unsent_bytes(client.endpoint) == 0;
}

// Takes the place of who said bye, or of who was heard of longest ago. If that one is busy it is
// asked to drain, and loses its place when it is idle, or has had time enough since (see may_drop).
// False: not yet.
bool Server::make_place() {
  const int64_t now_ns = monotonic_ns();
  Client* victim = nullptr;
  Client* oldest = nullptr;
  bool asked = false;
  for (const auto& [endpoint, client] : clients_) {
    asked |= client->asked;
    if (client->leaving && client->late.empty() && fabric_->unsent_bytes(endpoint) == 0) {
      victim = client.get();
      break;
    }
    if ((victim == nullptr || client->last_use < victim->last_use) && may_drop(*client, now_ns))
      victim = client.get();
    if (client->served && !client->leaving &&
        (oldest == nullptr || client->last_use < oldest->last_use))
      oldest = client.get();
  }
  if (victim == nullptr) {
    if (oldest != nullptr && !asked &&
        send_close(*oldest, wire::Kind::please_close) == fabric::SendResult::accepted) {
      oldest->asked = true;
      oldest->since_ns = now_ns;
    }
    return false;
  }
  const fabric::EndpointId endpoint = victim->endpoint;
  if (!victim->leaving) {
    (void)send_close(*victim, wire::Kind::farewell);
    counters_.clients_dropped.fetch_add(1, std::memory_order_relaxed);
  }
  drop(*victim);
  fabric_->close(endpoint);
  return has_place();
}

void Server::on_closed(fabric::EndpointId endpoint, fabric::CloseReason, std::string_view) {
  if (Client* client = client_of(endpoint)) {
    drop(*client);
    return;
  }
  relay_.on_closed(endpoint);
  for (auto& [node, neighbour] : neighbours_)
    if (neighbour.endpoint == endpoint) neighbour.endpoint = fabric::no_endpoint;
}

// ---- other servers ----------------------------------------------------------------------------

void Server::admit_neighbour(fabric::RequestId request, const connection::Hello& hello) {
  const NodeId node = static_cast<NodeId>(hello.rank);
  if (view_.map == nullptr || node < 0 || node >= view_.map->nodes() || node == config_.self.node) {
    refuse_unproven(request);
    return;
  }
  Neighbour& neighbour = neighbours_[node];
  if (hello.generation <= neighbour.generation) {
    refuse_replayed(request);
    return;
  }
  if (neighbour.endpoint != fabric::no_endpoint) fabric_->close(neighbour.endpoint);
  neighbour.endpoint = fabric::no_endpoint;
  const connection::Peer peer{static_cast<uint32_t>(config_.self.node), config_.self.index,
                              wire::version, connection::Role::server};
  fabric::EndpointId endpoint = fabric::no_endpoint;
  if (!fabric_->accept(request, connection::make_answer(config_.key, peer, hello, 0), &endpoint)
           .ok())
    return;  // gone meanwhile
  neighbour = {hello.generation, endpoint};
}

void Server::on_connected(fabric::EndpointId endpoint, fabric::Bytes answer) {
  relay_.on_connected(endpoint, answer);
}

// A message that no origin sent: a grant for a rank of this node, or the answer to one of ours.
// False: not now, there is no room for the answer.
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
      grant.kind != static_cast<uint8_t>(wire::Kind::grant) || grant.slot == 0 ||
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
      wire::version, static_cast<uint8_t>(wire::Kind::grant_taken), 0, 0, 0, 0, grant.sequence};
  // First the answer, which may not fit; the grant is repeated harmlessly if the connection breaks
  // in between, but not forgotten.
  memory::fill_slot(view_.control.slot(static_cast<uint32_t>(member) * slots + grant.slot - 1),
                    grant.tag, 0, 0);
  if (fabric_->send(endpoint, std::as_bytes(std::span(&answer, 1)), {}, false, 0) !=
      fabric::SendResult::would_block)
    return true;
  full_.push_back(endpoint);
  return false;
}

}  // namespace skerry::server
