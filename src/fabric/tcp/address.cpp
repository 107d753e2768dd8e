#include "fabric/tcp/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "core/namespaces.hpp"

namespace skerry::fabric::tcp {
namespace {

constexpr uint8_t blob_version = 1;
constexpr size_t max_addresses = 8;

// The blob: | version 1 | addresses 1 | port 2 | host identity 24 | then each | family 1 (4 or 6) |
// prefix bits 1 | loopback 1 | zero 1 | address 16 |
struct BlobHead {
  uint8_t version;
  uint8_t addresses;
  uint16_t port;  // host order, little endian
  HostIdentity host;
};
struct BlobAddress {
  uint8_t family;
  uint8_t prefix_bits;
  uint8_t loopback;
  uint8_t zero;
  std::array<uint8_t, 16> address;
};
static_assert(sizeof(BlobHead) == 28 && sizeof(BlobAddress) == 20);
static_assert(sizeof(BlobHead) + max_addresses * sizeof(BlobAddress) <= 256,
              "listen promises at most 256 bytes");

uint8_t prefix_bits_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  uint16_t port = 0;
  int bits = 0;
  for (const uint8_t byte : interface_address(mask, &port).address) bits += std::popcount(byte);
  return static_cast<uint8_t>(bits);
}

bool same_subnet(const InterfaceAddress& ours, const BlobAddress& theirs) {
  if (ours.loopback || theirs.loopback || (ours.family == AF_INET) != (theirs.family == 4))
    return false;
  const int width = ours.family == AF_INET ? 32 : 128;
  if (ours.prefix_bits == 0 || ours.prefix_bits > width) return false;
  for (int bit = 0; bit < ours.prefix_bits; ++bit) {
    const uint8_t mask = static_cast<uint8_t>(0x80 >> (bit % 8));
    if ((ours.address[bit / 8] ^ theirs.address[bit / 8]) & mask) return false;
  }
  return true;
}

std::string describe(const std::vector<InterfaceAddress>& addresses) {
  std::string out;
  for (const InterfaceAddress& address : addresses) {
    if (!out.empty()) out += ", ";
    out += address.interface + " (" + to_string(address) + ")";
  }
  return out.empty() ? "none that is up" : out;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 ||
        (entry->ifa_flags & IFF_RUNNING) == 0)
      continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    uint16_t port = 0;
    InterfaceAddress one = interface_address(entry->ifa_addr, &port);
    if (family == AF_INET6 && one.address[0] == 0xfe && (one.address[1] & 0xc0) == 0x80)
      continue;  // link-local
    one.interface = entry->ifa_name;
    one.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    one.prefix_bits = prefix_bits_of(entry->ifa_netmask);
    found.push_back(std::move(one));
  }
  freeifaddrs(list);
  return found;
}

std::string to_string(const InterfaceAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(address.family, address.address.data(), text, sizeof text);
  return text;
}

HostIdentity host_identity() {
  HostIdentity identity{};
  // Its 32 digits, folded into 16 bytes. Unreadable: zeros on every host, and the namespace
  // decides.
  std::string digits = boot_id();
  std::erase(digits, '-');
  for (size_t i = 0; i < 16 && 2 * i + 2 <= digits.size(); ++i)
    std::from_chars(&digits[2 * i], &digits[2 * i] + 2, identity[i], 16);
  const uint64_t inode = own_namespace(Namespace::net);
  std::memcpy(identity.data() + 16, &inode, sizeof inode);
  return identity;
}

Status choose_listen_addresses(const Options& options, std::vector<InterfaceAddress>* chosen) {
  std::vector<InterfaceAddress> all = interface_addresses();
  chosen->clear();
  if (options.loopback_only) {
    const auto first_loopback = [&](int family) {
      return std::ranges::find_if(
          all, [&](const auto& one) { return one.loopback && one.family == family; });
    };
    const auto v6 = first_loopback(AF_INET6);
    if (first_loopback(AF_INET) == all.end() && v6 != all.end()) chosen->push_back(*v6);
    else chosen->push_back({"lo", AF_INET, 8, true, {127, 0, 0, 1}});
    return {};
  }
  for (const InterfaceAddress& one : all) {
    const bool fits = options.interface.empty() ? !one.loopback
                                                : one.interface == options.interface ||
                                                      to_string(one) == options.interface;
    if (fits) chosen->push_back(one);
  }
  // IPv4 first: it is what every cluster's peers share; the order decides only where no subnet is
  // shared.
  std::stable_sort(chosen->begin(), chosen->end(), [](const auto& a, const auto& b) {
    return a.family == AF_INET && b.family != AF_INET;
  });
  if (chosen->size() > max_addresses) chosen->resize(max_addresses);
  if (!chosen->empty()) return {};
  if (!options.interface.empty()) {
    return error(Code::network, "no interface or address \"", options.interface,
                 "\" is up on this host; found ", describe(all),
                 "; set SKERRY_INTERFACE to one of them or unset it");
  }
  return error(Code::network, "no usable network interface on this host; found ", describe(all),
               "; bring one up, or set SKERRY_INTERFACE=lo if all ranks run on this host");
}

std::vector<std::byte> encode_address(const HostIdentity& host, uint16_t port,
                                      const std::vector<InterfaceAddress>& addresses) {
  const size_t count = std::min(addresses.size(), max_addresses);
  std::vector<std::byte> blob(sizeof(BlobHead) + count * sizeof(BlobAddress));
  const BlobHead head{blob_version, static_cast<uint8_t>(count), port, host};
  std::memcpy(blob.data(), &head, sizeof head);
  for (size_t i = 0; i < count; ++i) {
    const BlobAddress one{static_cast<uint8_t>(addresses[i].family == AF_INET ? 4 : 6),
                          addresses[i].prefix_bits, static_cast<uint8_t>(addresses[i].loopback), 0,
                          addresses[i].address};
    std::memcpy(blob.data() + sizeof head + i * sizeof one, &one, sizeof one);
  }
  return blob;
}

SocketAddress socket_address(int family, const uint8_t* address, uint16_t port) {
  SocketAddress out;
  if (family == AF_INET) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address, 4);
    std::memcpy(&out.storage, &v4, sizeof v4);
    out.bytes = sizeof v4;
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, address, 16);
    std::memcpy(&out.storage, &v6, sizeof v6);
    out.bytes = sizeof v6;
  }
  return out;
}

Status decode_address(Bytes blob, std::vector<SocketAddress>* candidates) {
  candidates->clear();
  BlobHead head;
  if (blob.size() < sizeof head)
    return error(Code::invalid, "tcp address of ", blob.size(), " bytes is too short");
  std::memcpy(&head, blob.data(), sizeof head);
  if (head.version != blob_version) {
    return error(Code::invalid, "tcp address of version ", head.version, ", expected ",
                 blob_version, ": all ranks must run the same Skerry");
  }
  if (head.addresses == 0 || head.addresses > max_addresses ||
      blob.size() < sizeof head + head.addresses * sizeof(BlobAddress)) {
    return error(Code::invalid, "tcp address of ", blob.size(), " bytes claims ", head.addresses,
                 " entries");
  }
  std::vector<BlobAddress> theirs(head.addresses);
  for (size_t i = 0; i < theirs.size(); ++i)
    std::memcpy(&theirs[i], blob.data() + sizeof head + i * sizeof(BlobAddress),
                sizeof(BlobAddress));
  const bool same_host = head.host == host_identity();
  const std::vector<InterfaceAddress> ours = same_host ? std::vector<InterfaceAddress>{}
                                                       : interface_addresses();
  // Smaller is better. Loopback of another host is our own: never try it. (An own address is routed
  // through loopback by the kernel.)
  auto rank_of = [&](const BlobAddress& one) {
    if (one.loopback) return same_host ? 0 : 3;
    const bool shared = std::any_of(ours.begin(), ours.end(), [&](const InterfaceAddress& our) {
      return same_subnet(our, one);
    });
    return shared ? 1 : 2;
  };
  std::stable_sort(theirs.begin(), theirs.end(),
                   [&](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  for (const BlobAddress& one : theirs) {
    if (rank_of(one) == 3) continue;
    candidates->push_back(
        socket_address(one.family == 4 ? AF_INET : AF_INET6, one.address.data(), head.port));
  }
  if (candidates->empty()) {
    return error(Code::network,
                 "a peer listens on loopback only but runs on another host; set SKERRY_INTERFACE "
                 "there to an interface that both share");
  }
  return {};
}

std::string to_string(const SocketAddress& address) {
  uint16_t port = 0;
  const InterfaceAddress one = interface_address(
      reinterpret_cast<const sockaddr*>(&address.storage), &port);
  return concat(to_string(one), ':', port);
}

InterfaceAddress interface_address(const sockaddr* at, uint16_t* port) {
  InterfaceAddress one;
  one.family = at->sa_family;
  if (one.family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(at);
    std::memcpy(one.address.data(), &v4->sin_addr, 4);
    one.loopback = one.address[0] == 127;
    *port = ntohs(v4->sin_port);
  } else if (one.family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(at);
    std::memcpy(one.address.data(), &v6->sin6_addr, 16);
    one.loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    *port = ntohs(v6->sin6_port);
  }
  return one;
}

}  // namespace skerry::fabric::tcp
