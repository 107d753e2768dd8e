// Peers of a datagram endpoint: entries of libfabric's address vector, by address. Issue lock.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/ofi/domain.hpp"

namespace skerry::fabric::ofi {

class Peers;

// One entry. Shared by what names it: connections, and operations that are under way. The last one
// that lets go removes it, and with it what the provider keeps of the peer.
struct Peer {
  Peers* owner = nullptr;
  std::string address;  // as the provider has it
  fi_addr_t at = FI_ADDR_UNSPEC;
  // Posted to libfabric and not complete, of connections that are closed, too. While there are any,
  // no other connection to the peer begins: see Datagrams.
  uint32_t puts = 0;
  ~Peer();
};

class Peers {
 public:
  explicit Peers(Domain& domain) : domain_(domain) {}

  // Finds the entry of the address, or makes it. Errors: invalid (cannot be an address of this
  // provider), network.
  Status get(const std::string& address, std::shared_ptr<Peer>* peer);
  std::string name_of(const Peer& peer) const;
  // Of our own endpoint. Errors: network.
  Status own_address(std::string* address) const;
  uint64_t heap_bytes() const;

 private:
  friend struct Peer;
  bool is_plausible(const std::string& address) const;

  Domain& domain_;
  mutable std::string own_;  // empty: not asked yet
  std::unordered_map<std::string, std::weak_ptr<Peer>> by_address_;
  // sockets: all. It closes its connection to a peer that is removed, and drops what the peer is
  // sending on it.
  std::vector<std::shared_ptr<Peer>> kept_;
};

}  // namespace skerry::fabric::ofi
