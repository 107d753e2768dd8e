#include "server/relay.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/thread.hpp"
#include "memory/slots.hpp"

namespace skerry::server {

void Relay::send(Rank rank, uint32_t slot, uint32_t tag) {
  const NodeId node = view_.map == nullptr ? no_node : view_.map->node_of(rank);
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
    case State::idle: return connect(peer);
    case State::open: return send_more(peer);
    case State::pausing:
    case State::opening: return;  // it goes when that is over
  }
}

void Relay::forget(Rank dead) {
  const auto found = peers_.find(view_.map->node_of(dead));
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  for (size_t i = 0; i < peer.grants.size();)
    if (peer.grants[i].rank == dead) {
      if (i < peer.sent) --peer.sent;
      peer.grants.erase(peer.grants.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  if (!peer.grants.empty()) return;
  if (peer.state == State::pausing) {
    --pausing_;
    peer.state = State::idle;
  }
  if (peer.endpoint != fabric::no_endpoint) close(peer);
}

int64_t Relay::advance(int64_t now_ns) {
  if (pausing_ == 0) return -1;
  int64_t soonest_ns = -1;
  for (auto& [node, peer] : peers_) {
    if (peer.state == State::pausing && peer.dialer.is_due(now_ns)) {
      SKERRY_INVARIANT(pausing_ > 0 && !peer.grants.empty(), "who pauses was counted, for grants");
      --pausing_;
      connect(peer);
    }
    if (peer.state != State::pausing) continue;
    const int64_t left_ns = std::max<int64_t>(peer.dialer.due_ns() - now_ns, 0);
    soonest_ns = soonest_ns < 0 ? left_ns : std::min(soonest_ns, left_ns);
  }
  return soonest_ns;
}

void Relay::connect(Peer& peer) {
  SKERRY_INVARIANT(peer.endpoint == fabric::no_endpoint, "one connection to a node");
  const auto hello = peer.dialer.dial(self_, other(peer));
  peer.sent = 0;
  peer.state = State::opening;
  const auto address = placement::address_of(*view_.map, view_.late_address, {peer.node, 0});
  if (fabric_.connect(address, hello, &peer.endpoint).ok()) {
    by_endpoint_[peer.endpoint] = peer.node;
    return;
  }
  peer.endpoint = fabric::no_endpoint;
  attempt_failed(peer);
}

// Tried for as long as the job lives: a rank there waits for its grant.
void Relay::attempt_failed(Peer& peer) {
  SKERRY_INVARIANT(peer.state != State::pausing, "it was no attempt");
  if (peer.endpoint != fabric::no_endpoint) close(peer);
  uint32_t random = 0;
  random_bytes(&random, sizeof random);
  (void)peer.dialer.failed(monotonic_ns(), connection::Dialer::no_limit_ns, random);
  peer.state = State::pausing;
  ++pausing_;
}

void Relay::send_more(Peer& peer) {
  SKERRY_INVARIANT(peer.sent <= peer.grants.size(), "no more is sent than there is");
  for (; peer.sent < peer.grants.size(); ++peer.sent)
    if (send(peer.endpoint, wire::GrantKind::grant, peer.grants[peer.sent]) !=
        fabric::SendResult::accepted)
      return;  // on_writable or on_closed follows
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
  if (!peer->dialer.check(self_, other(*peer), answer, &taken).ok())
    return attempt_failed(*peer);  // somebody else has its port now
  SKERRY_INVARIANT(peer->state == State::opening && peer->sent == 0, "it connects once");
  peer->state = State::open;
  send_more(*peer);
}

bool Relay::on_message(fabric::EndpointId endpoint, fabric::Bytes header) {
  if (Peer* peer = peer_of(endpoint)) {
    on_answer(*peer, header);
    return true;
  }
  for (auto& [node, neighbour] : neighbours_)
    if (neighbour.endpoint == endpoint) return take(node, neighbour, header);
  return true;  // late, of a connection that was closed meanwhile
}

void Relay::on_answer(Peer& peer, fabric::Bytes header) {
  wire::GrantHeader answer{};
  if (!read(header, wire::GrantKind::grant_taken, &answer)) return attempt_failed(peer);
  SKERRY_INVARIANT(peer.sent <= peer.grants.size(), "no more is sent than there is");
  for (; peer.sent > 0 && peer.grants.front().sequence <= answer.sequence; --peer.sent) {
    peer.grants.pop_front();
    count(counters_.grants_relayed);
  }
  peer.dialer.succeeded();
  if (peer.grants.empty()) {
    close(peer);
    std::deque<Grant>().swap(peer.grants);
  }
}

connection::Visitor* Relay::neighbour(NodeId node) {
  const bool is_other = view_.map != nullptr && node >= 0 && node < view_.map->nodes() &&
                        node != static_cast<NodeId>(self_.name);
  return is_other ? &neighbours_[node] : nullptr;
}

// A grant for a rank of this node. Its slot is filled before the answer goes: if the answer does
// not fit or the connection breaks, the grant is repeated, which is harmless; it is never lost.
bool Relay::take(NodeId from, connection::Visitor& neighbour, fabric::Bytes header) {
  wire::GrantHeader grant{};
  const uint32_t slots = view_.control.layout().slots_per_member;
  const bool is_grant = read(header, wire::GrantKind::grant, &grant);
  const int32_t member = is_grant ? view_.member_of(static_cast<Rank>(grant.rank)) : -1;
  if (member < 0 || grant.slot == 0 || grant.slot > slots) {
    std::fprintf(stderr,
                 "skerry: data server of node %u closes its connection to the server of node %d: "
                 "not a grant for a rank of this node\n",
                 self_.name, from);
    fabric_.close(std::exchange(neighbour.endpoint, fabric::no_endpoint));
    return true;
  }
  memory::fill_slot(view_.control.slot(static_cast<uint32_t>(member) * slots + grant.slot - 1),
                    grant.tag, 0, 0);
  return send(neighbour.endpoint, wire::GrantKind::grant_taken, {grant.sequence, 0, 0, 0}) !=
         fabric::SendResult::would_block;
}

void Relay::on_writable(fabric::EndpointId endpoint) {
  Peer* peer = peer_of(endpoint);
  if (peer != nullptr && peer->state == State::open) send_more(*peer);
}

void Relay::on_closed(fabric::EndpointId endpoint) {
  for (auto& [node, neighbour] : neighbours_)
    if (neighbour.endpoint == endpoint) neighbour.endpoint = fabric::no_endpoint;
  Peer* peer = peer_of(endpoint);
  if (peer == nullptr) return;
  by_endpoint_.erase(endpoint);
  peer->endpoint = fabric::no_endpoint;
  peer->state = State::idle;
  if (!peer->grants.empty()) attempt_failed(*peer);
}

}  // namespace skerry::server
