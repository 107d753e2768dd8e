// Where a tcp fabric listens and how a peer finds it: interfaces, the address blob, and the choice
// among its addresses.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <vector>

#include "fabric/fabric.hpp"

namespace skerry::fabric::tcp {

// One address of this host.
struct InterfaceAddress {
  std::string interface;
  int family = 0;           // AF_INET or AF_INET6
  uint8_t prefix_bits = 0;  // length of the subnet's prefix
  bool loopback = false;
  std::array<uint8_t, 16> address{};  // network order; IPv4 uses the first four bytes
};

// All addresses of interfaces that are up and running; link-local IPv6 ones are left out (they need
// a scope that a peer cannot know).
std::vector<InterfaceAddress> interface_addresses();
std::string to_string(const InterfaceAddress& address);

// Boot id of the kernel and the network namespace: two processes with equal identities reach each
// other over loopback.
using HostIdentity = std::array<uint8_t, 24>;
HostIdentity host_identity();

// The addresses to listen on by the options. Errors: network, naming the interfaces found and what
// to set.
Status choose_listen_addresses(const Options& options, std::vector<InterfaceAddress>* chosen);

// The blob that travels through the bootstrap: at most 256 bytes.
std::vector<std::byte> encode_address(const HostIdentity& host, uint16_t port,
                                      const std::vector<InterfaceAddress>& addresses);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
};
SocketAddress socket_address(int family, const uint8_t* address, uint16_t port);

// The addresses to try, best first: loopback on the same host, then shared subnets, then the rest
// in the peer's order.
Status decode_address(Bytes blob, std::vector<SocketAddress>* candidates);

std::string to_string(const SocketAddress& address);  // "10.0.0.1:4711"
// The address in it, without the interface's name and prefix; *port in host order.
InterfaceAddress interface_address(const sockaddr* at, uint16_t* port);

}  // namespace skerry::fabric::tcp
