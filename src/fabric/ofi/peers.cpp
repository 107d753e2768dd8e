#include "fabric/ofi/peers.hpp"

#include <sys/socket.h>

#include <cstring>

#include "core/pure/container_bytes.hpp"

namespace skerry::fabric::ofi {

namespace {

constexpr size_t longest_address_bytes = 248;

}  // namespace

Peer::~Peer() {
  if (at != FI_ADDR_UNSPEC) fi_av_remove(owner->domain_.address_vector.get(), &at, 1, 0);
  owner->by_address_.erase(address);
}

Status Peers::own_address(std::string* address) const {
  if (own_.empty()) {
    own_.resize(longest_address_bytes);
    size_t bytes = own_.size();
    const int result = fi_getname(&domain_.receives->fid, own_.data(), &bytes);
    own_.resize(result == 0 ? bytes : 0);
    if (result != 0) return domain_.failed("fi_getname", result);
  }
  *address = own_;
  return {};
}

// Providers take an address on trust. What may come from strangers has at least the form of ours.
bool Peers::is_plausible(const std::string& address) const {
  std::string own;
  if (!own_address(&own).ok()) return false;
  switch (domain_.info->addr_format) {
    case FI_ADDR_STR: return address.size() < longest_address_bytes && address.back() == '\0';
    case FI_SOCKADDR:
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
      return address.size() == own.size() &&
             std::memcmp(address.data(), own.data(), sizeof(sa_family_t)) == 0;
    default: return address.size() == own.size();
  }
}

Status Peers::get(const std::string& address, std::shared_ptr<Peer>* peer) {
  if (address.empty() || !is_plausible(address))
    return error(Code::invalid, "this is no address of ", domain_.name, ": ", address.size(),
                 " bytes");
  std::weak_ptr<Peer>& known = by_address_[address];
  *peer = known.lock();
  if (*peer != nullptr) return {};
  fi_addr_t at = FI_ADDR_UNSPEC;
  const int result = fi_av_insert(domain_.address_vector.get(), address.data(), 1, &at, 0, nullptr);
  if (result != 1) {
    by_address_.erase(address);
    return domain_.failed("fi_av_insert", result < 0 ? result : -FI_EINVAL);
  }
  *peer = std::make_shared<Peer>();
  (*peer)->owner = this;
  (*peer)->address = address;
  (*peer)->at = at;
  known = *peer;
  if (domain_.keeps_peers()) kept_.push_back(*peer);
  return {};
}

std::string Peers::name_of(const Peer& peer) const {
  char text[128];
  size_t bytes = sizeof text;
  const char* const name = fi_av_straddr(domain_.address_vector.get(), peer.address.data(), text,
                                         &bytes);
  return name == nullptr ? "unknown" : std::string(name, strnlen(name, sizeof text - 1));
}

uint64_t Peers::heap_bytes() const {
  return table_bytes(by_address_) + by_address_.size() * sizeof(Peer);
}

}  // namespace skerry::fabric::ofi
