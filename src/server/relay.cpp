#include "server/relay.hpp"

#include <algorithm>

#include "core/thread.hpp"
#include "wire/message.hpp"

namespace skerry::server {

connection::Peer Relay::other(const Peer& peer) const {
  return {static_cast<uint32_t>(peer.node), 0, wire::version, connection::Role::server};
}

Relay::Peer* Relay::peer_of(fabric::EndpointId endpoint) {
  const auto found = by_endpoint_.find(endpoint);
  return found == by_endpoint_.end() ? nullptr : &peers_.find(found->second)->second;
}

void Relay::send(Rank rank, uint32_t slot, uint32_t tag) {
  const NodeId node = map_ == nullptr ? no_node : map_->node_of(rank);
  if (node == no_node || slot == 0) return;
  Peer& peer = peers_[node];
  peer.node = node;
  // An earlier use of the same slot is over, or its rank would not have asked again.
  const auto same = std::find_if(peer.grants.begin(), peer.grants.end(),
                                 [=](const Grant& g) { return g.rank == rank && g.slot == slot; });
  if (same != peer.grants.end()) {
    // Unless this is the earlier one: several servers of a node hand over, each on its thread.
    // Tags have 30 bits and wrap.
    if (static_cast<int32_t>((tag - same->tag) << 2) < 0) return;
    if (same - peer.grants.begin() < static_cast<std::ptrdiff_t>(peer.sent)) --peer.sent;
    peer.grants.erase(same);
  }
  peer.grants.push_back({++peer.sequence, rank, slot, tag});
  switch (peer.state) {
    case State::idle: return connect(peer, monotonic_ns());
    case State::open: return send_more(peer);
    case State::pausing:
    case State::opening: return;  // it goes when that is over
  }
}

int64_t Relay::advance(int64_t now_ns) {
  if (pausing_ == 0) return -1;
  int64_t soonest_ns = -1;
  for (auto& [node, peer] : peers_) {
    if (peer.state == State::pausing && peer.dialer.is_due(now_ns)) {
      --pausing_;
      connect(peer, now_ns);
    }
    if (peer.state != State::pausing) continue;
    const int64_t left_ns = std::max<int64_t>(peer.dialer.due_ns() - now_ns, 0);
    soonest_ns = soonest_ns < 0 ? left_ns : std::min(soonest_ns, left_ns);
  }
  return soonest_ns;
}

void Relay::connect(Peer& peer, int64_t now_ns) {
  SKERRY_INVARIANT(peer.endpoint == fabric::no_endpoint, "one connection to a node");
  const auto hello = peer.dialer.dial(self_, other(peer));
  peer.sent = 0;
  peer.state = State::opening;
  if (fabric_.connect(map_->server_address({peer.node, 0}), hello, &peer.endpoint).ok()) {
    by_endpoint_[peer.endpoint] = peer.node;
    return;
  }
  peer.endpoint = fabric::no_endpoint;
  attempt_failed(peer, now_ns);
}

// Tried for as long as the job lives: a rank there waits for its grant.
void Relay::attempt_failed(Peer& peer, int64_t now_ns) {
  SKERRY_INVARIANT(peer.state != State::pausing && peer.endpoint == fabric::no_endpoint,
                   "what failed is closed");
  uint32_t random = 0;
  random_bytes(&random, sizeof random);
  (void)peer.dialer.failed(now_ns, connection::Retry::no_limit_ns, random);
  peer.state = State::pausing;
  ++pausing_;
}

void Relay::send_more(Peer& peer) {
  for (; peer.sent < peer.grants.size(); ++peer.sent) {
    const Grant& g = peer.grants[peer.sent];
    const wire::GrantHeader header{wire::version,
                                   static_cast<uint8_t>(wire::GrantKind::grant),
                                   0,
                                   static_cast<uint32_t>(g.rank),
                                   g.slot,
                                   g.tag,
                                   g.sequence};
    if (fabric_.send(peer.endpoint, std::as_bytes(std::span(&header, 1)), {}, false, 0) !=
        fabric::SendResult::accepted)
      return;  // on_writable or on_closed follows
  }
}

void Relay::close(Peer& peer) {
  by_endpoint_.erase(peer.endpoint);
  fabric_.close(peer.endpoint);
  peer.endpoint = fabric::no_endpoint;
  peer.state = State::idle;
}

void Relay::on_connected(fabric::EndpointId endpoint, fabric::Bytes answer) {
  Peer* peer = peer_of(endpoint);
  if (peer == nullptr) return;
  uint64_t taken = 0;  // always 0: it keeps no sessions of servers
  if (!peer->dialer.check(self_, other(*peer), answer, &taken)
           .ok()) {  // somebody else has its port now
    close(*peer);
    attempt_failed(*peer, monotonic_ns());
    return;
  }
  peer->state = State::open;
  send_more(*peer);
}

uint64_t Relay::on_message(fabric::EndpointId endpoint, fabric::Bytes header) {
  Peer* peer = peer_of(endpoint);
  if (peer == nullptr) return 0;
  wire::GrantHeader answer{};
  if (!wire::decode(header, &answer).ok() || answer.version != wire::version ||
      answer.kind != static_cast<uint8_t>(wire::GrantKind::grant_taken)) {
    close(*peer);
    attempt_failed(*peer, monotonic_ns());
    return 0;
  }
  uint64_t taken = 0;
  for (; peer->sent > 0 && peer->grants.front().sequence <= answer.sequence; --peer->sent, ++taken)
    peer->grants.pop_front();
  peer->dialer.succeeded();
  if (peer->grants.empty()) {
    close(*peer);
    std::deque<Grant>().swap(peer->grants);
  }
  return taken;
}

void Relay::on_writable(fabric::EndpointId endpoint) {
  Peer* peer = peer_of(endpoint);
  if (peer != nullptr && peer->state == State::open) send_more(*peer);
}

void Relay::on_closed(fabric::EndpointId endpoint) {
  Peer* peer = peer_of(endpoint);
  if (peer == nullptr) return;
  by_endpoint_.erase(endpoint);
  peer->endpoint = fabric::no_endpoint;
  peer->state = State::idle;
  if (!peer->grants.empty()) attempt_failed(*peer, monotonic_ns());
}

}  // namespace skerry::server
