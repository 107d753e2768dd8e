// Grants of mutexes to ranks that have no connection to the server which grants: sent through the
// data server of their node. Both ends. A grant is kept until that server has answered, and sent
// again after a break: the slot's tag makes a second one harmless. At most one is kept for a
// completion slot. A connection lasts while there is something to send, and carries grants one way
// only. Server's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "connection/dialer.hpp"
#include "connection/doorkeeper.hpp"
#include "core/pure/container_bytes.hpp"
#include "core/pure/ids.hpp"
#include "fabric/fabric.hpp"
#include "server/node.hpp"
#include "wire/message.hpp"

namespace skerry::server {

class Relay {
 public:
  // Grants are sent and taken once the view was filled.
  Relay(const ServerConfig& config, const NodeView& view, fabric::Fabric& fabric,
        Counters& counters)
      : self_{config.key, static_cast<uint32_t>(config.self.node), connection::Role::relay},
        view_(view),
        fabric_(fabric),
        counters_(counters) {}

  void send(Rank rank, uint32_t slot, uint32_t tag);
  // The rank died: nothing goes to it any more.
  void forget(Rank dead);
  // Opens what is due again. Returns how long until the next is due; negative: none.
  int64_t advance(int64_t now_ns);
  // The server of another node, which may connect to bring grants. Null: there is no such node.
  connection::Visitor* neighbour(NodeId node);
  // The fabric's upcalls; endpoints of others are let pass. on_message returns false if there is no
  // room for its answer: it must come again.
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes answer);
  bool on_message(fabric::EndpointId endpoint, fabric::Bytes header);
  void on_writable(fabric::EndpointId endpoint);
  void on_closed(fabric::EndpointId endpoint);
  uint64_t memory_bytes() const { return table_bytes(neighbours_); }

  struct Grant {
    uint64_t sequence;
    Rank rank;
    uint32_t slot;
    uint32_t tag;
  };
  // What that node's server has not answered yet, oldest first. The node was sent to before.
  const std::deque<Grant>& waiting(NodeId node) const { return peers_.at(node).grants; }

 private:
  enum class State : uint8_t {
    idle,     // there is nothing to send
    pausing,  // until the next attempt to connect is due
    opening,
    open,
  };
  struct Peer {
    NodeId node = no_node;
    State state = State::idle;
    connection::Dialer dialer;
    uint64_t sequence = 0;                              // of the newest grant
    fabric::EndpointId endpoint = fabric::no_endpoint;  // opening and open only
    size_t sent = 0;                                    // of grants, on this connection
    std::deque<Grant> grants;                           // not answered yet, oldest first
  };

  static connection::Peer other(const Peer& peer) {
    return {static_cast<uint32_t>(peer.node), 0, wire::version, connection::Role::server};
  }
  // Is it one of this kind?
  static bool read(fabric::Bytes bytes, wire::GrantKind kind, wire::GrantHeader* header) {
    return wire::decode(bytes, header).ok() && header->version == wire::version &&
           header->kind == static_cast<uint8_t>(kind);
  }
  fabric::SendResult send(fabric::EndpointId to, wire::GrantKind kind, const Grant& grant) {
    const wire::GrantHeader header{wire::version,
                                   static_cast<uint8_t>(kind),
                                   0,
                                   static_cast<uint32_t>(grant.rank),
                                   grant.slot,
                                   grant.tag,
                                   grant.sequence};
    return fabric_.send(to, std::as_bytes(std::span(&header, 1)), {}, false, 0);
  }
  void connect(Peer& peer);
  void send_more(Peer& peer);
  void close(Peer& peer);
  void attempt_failed(Peer& peer);
  Peer* peer_of(fabric::EndpointId endpoint) {
    const auto found = by_endpoint_.find(endpoint);
    return found == by_endpoint_.end() ? nullptr : &peers_.find(found->second)->second;
  }
  void on_answer(Peer& peer, fabric::Bytes header);
  bool take(NodeId from, connection::Visitor& neighbour, fabric::Bytes header);

  const connection::Caller self_;
  const NodeView& view_;
  fabric::Fabric& fabric_;
  Counters& counters_;
  // Of every node that ever needed one: generations only grow.
  std::unordered_map<NodeId, Peer> peers_;
  std::unordered_map<fabric::EndpointId, NodeId> by_endpoint_;
  size_t pausing_ = 0;                                          // peers in that state
  std::unordered_map<NodeId, connection::Visitor> neighbours_;  // that ever brought grants
};

}  // namespace skerry::server
