#include "launcher/reception.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "core/pure/shortage.hpp"

namespace skerry::launcher {
namespace {

using job::Frame;
using job::FrameReader;
using job::FrameType;
using job::FrameWriter;

constexpr size_t max_visitors = 256;  // the oldest makes way: an agent needs milliseconds, only
                                      // unauthenticated peers grow old
constexpr auto visitor_limit = std::chrono::seconds(10);
// Until a descriptor may be free again.
constexpr auto descriptor_pause = std::chrono::milliseconds(100);
constexpr size_t max_handshake_payload = 128;
constexpr int connect_limit_ms = 5000;
constexpr unsigned silence_limit_ms = 30000;

struct Address {
  std::string interface;
  std::string number;
  bool loopback;
};

std::vector<Address> own_addresses() {
  std::vector<Address> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || !(one->ifa_flags & IFF_UP)) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr))
      continue;
    char text[NI_MAXHOST];
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(one->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    found.push_back({one->ifa_name, text, (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(list);
  return found;
}

template <size_t count>
void copy(std::span<const std::byte> from, std::array<std::byte, count>* to) {
  if (from.size() == count) std::memcpy(to->data(), from.data(), count);
}

void set_option(int socket, int level, int name, int value) {
  (void)setsockopt(socket, level, name, &value, sizeof value);
}

}  // namespace

void tune_connection(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence_limit_ms));
}

Reception::~Reception() {
  if (listener_) loop_.forget(listener_.get());
  loop_.cancel(listener_pause_);
  for (auto& visitor : visitors_) loop_.cancel(visitor.deadline);
}

Status Reception::open(const std::string& interface) {
  std::string known;
  std::vector<std::string> loopback;
  for (const auto& address : own_addresses()) {
    known += concat(known.empty() ? "" : ", ", address.interface, " (", address.number, ")");
    if (!interface.empty() && interface != address.interface && interface != address.number)
      continue;
    (address.loopback ? loopback : addresses_).push_back(address.number);
  }
  addresses_.insert(addresses_.end(), loopback.begin(), loopback.end());
  if (addresses_.empty()) {
    return error(Code::config,
                 interface.empty() ? "no usable network interface"
                                   : concat("no interface or address \"", interface, "\""),
                 "; this machine has: ", known.empty() ? "none that is up" : known);
  }
  // One socket for both families; IPv4 alone where the kernel has no IPv6.
  listener_.reset(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool both = static_cast<bool>(listener_);
  if (!both) listener_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage any{};
  any.ss_family = both ? AF_INET6 : AF_INET;
  socklen_t length = both ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (both) set_option(listener_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  // A single address asked for is also the only one to listen on.
  if (addresses_.size() == 1) {
    const std::string mapped = both && addresses_[0].find(':') == std::string::npos
                                   ? "::ffff:" + addresses_[0]
                                   : addresses_[0];
    if (both) {
      (void)inet_pton(AF_INET6, mapped.c_str(), &reinterpret_cast<sockaddr_in6*>(&any)->sin6_addr);
    } else {
      (void)inet_pton(AF_INET, mapped.c_str(), &reinterpret_cast<sockaddr_in*>(&any)->sin_addr);
    }
  }
  if (!listener_ || bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), length) != 0 ||
      listen(listener_.get(), 512) != 0 ||
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&any), &length) != 0) {
    return error(Code::network, "cannot listen for the other hosts: ", std::strerror(errno));
  }
  port_ = ntohs(both ? reinterpret_cast<sockaddr_in6*>(&any)->sin6_port
                     : reinterpret_cast<sockaddr_in*>(&any)->sin_port);
  watch_listener();
  return {};
}

void Reception::watch_listener() {
  listener_pause_ = 0;
  loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_all(); });
}

void Reception::accept_all() {
  std::erase_if(visitors_, [](const Visitor& visitor) { return visitor.link->ended(); });
  while (true) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int problem = socket ? 0 : errno;
    if (is_shortage(problem)) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (poll(&waiting, 1, 0) <= 0) return;  // the kernel says so before it looks at the queue
      // The oldest visitor's descriptor serves the next one. Without any, the listener would stay
      // readable and this thread would never sleep: leave it alone for a moment.
      if (!visitors_.empty()) {
        loop_.cancel(visitors_.front().deadline);
        visitors_.pop_front();
        continue;
      }
      loop_.forget(listener_.get());
      listener_pause_ = loop_.after(descriptor_pause, [this] { watch_listener(); });
      return;
    }
    if (!socket) return;
    tune_connection(socket.get());
    if (visitors_.size() == max_visitors) {
      loop_.cancel(visitors_.front().deadline);
      visitors_.pop_front();
    }
    visitors_.push_back({random_nonce(), nullptr, 0});
    const auto visitor = std::prev(visitors_.end());
    visitor->link = std::make_unique<Link>(
        loop_, std::move(socket), max_handshake_payload,
        [this, visitor](const Frame& frame) { on_frame(visitor, frame); },
        [this, visitor](const std::string&) { dismiss(visitor); });
    visitor->deadline = loop_.after(visitor_limit, [this, visitor] { dismiss(visitor); });
    visitor->link->send(FrameWriter(FrameType::challenge).bytes(visitor->nonce).finish());
  }
}

// The visitor stays in the list, ended, until the next one comes: this may run inside its link.
void Reception::dismiss(VisitorId visitor) {
  loop_.cancel(visitor->deadline);
  visitor->link->close();
}

void Reception::on_frame(VisitorId visitor, const Frame& frame) {
  FrameReader reader(frame);
  const uint32_t agent = reader.u32();
  Nonce nonce{};
  copy(reader.bytes(nonce.size()), &nonce);
  const auto proof = reader.bytes(sizeof(Proof));
  if (frame.type != FrameType::agent_hello || !reader.done() ||
      !same(proof, prove(key_, "agent", agent, visitor->nonce, nonce))) {
    return dismiss(visitor);
  }
  visitor->link->send(FrameWriter(FrameType::agent_welcome)
                          .bytes(prove(key_, "launcher", agent, visitor->nonce, nonce))
                          .finish());
  UniqueFd socket = visitor->link->release();
  dismiss(visitor);
  on_agent_(agent, std::move(socket));
}

namespace {

Status connect_to(const std::string& address, uint16_t port, UniqueFd* socket) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* where = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &where) != 0) {
    return error(Code::network, address, " is no address");
  }
  UniqueFd fd(::socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int result = fd ? connect(fd.get(), where->ai_addr, where->ai_addrlen) : -1;
  int problem = errno;
  freeaddrinfo(where);
  if (result != 0 && fd && problem == EINPROGRESS) {
    pollfd ready{fd.get(), POLLOUT, 0};
    problem = ETIMEDOUT;
    if (poll(&ready, 1, connect_limit_ms) == 1) {
      socklen_t length = sizeof problem;
      (void)getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &problem, &length);
    }
    result = problem == 0 ? 0 : -1;
  }
  if (result != 0) return error(Code::network, address, ": ", std::strerror(problem));
  tune_connection(fd.get());
  *socket = std::move(fd);
  return {};
}

// Reads exactly one frame, no byte more: what follows belongs to the link.
Status read_frame(int socket, FrameType wanted, std::vector<std::byte>* payload) {
  job::FrameBuffer buffer(max_handshake_payload);
  while (true) {
    std::optional<Frame> frame;
    SKERRY_TRY(buffer.next(&frame));
    if (frame) {
      if (frame->type != wanted)
        return error(Code::network, "got ", to_string(frame->type), " instead of ",
                     to_string(wanted));
      payload->assign(frame->payload.begin(), frame->payload.end());
      return {};
    }
    pollfd ready{socket, POLLIN, 0};
    if (poll(&ready, 1, connect_limit_ms) <= 0) return error(Code::network, "no answer");
    std::byte one;
    const ssize_t got = recv(socket, &one, 1, 0);
    if (got == 0) return error(Code::network, "closed by the launcher");
    if (got == 1) buffer.append(std::span(&one, 1));
    if (got < 0 && errno != EAGAIN && errno != EINTR)
      return error(Code::network, std::strerror(errno));
  }
}

Status recognise(int socket, uint32_t agent, const Key& key) {
  std::vector<std::byte> payload;
  SKERRY_TRY(read_frame(socket, FrameType::challenge, &payload));
  Nonce theirs{};
  const Nonce mine = random_nonce();
  copy(payload, &theirs);
  const auto hello = FrameWriter(FrameType::agent_hello)
                         .u32(agent)
                         .bytes(mine)
                         .bytes(prove(key, "agent", agent, theirs, mine))
                         .finish();
  if (send(socket, hello.data(), hello.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(hello.size())) {
    return error(Code::network, "the launcher hung up");
  }
  SKERRY_TRY(read_frame(socket, FrameType::agent_welcome, &payload));
  if (!same(payload, prove(key, "launcher", agent, theirs, mine)))
    return error(Code::network, "is not our launcher");
  return {};
}

}  // namespace

Status report_to_launcher(const std::vector<std::string>& addresses, uint16_t port, uint32_t agent,
                          const Key& key, UniqueFd* socket) {
  std::string tried;
  for (const auto& address : addresses) {
    UniqueFd candidate;
    Status status = connect_to(address, port, &candidate);
    // Another host may have the same private address. A peer that does not know the key is not
    // the launcher.
    if (status.ok()) {
      if (const Status known = recognise(candidate.get(), agent, key); !known.ok()) {
        status = error(Code::network, address, ": ", known.message());
      }
    }
    if (status.ok()) {
      *socket = std::move(candidate);
      return {};
    }
    tried += concat(tried.empty() ? "" : "; ", status.message());
  }
  return error(Code::network, "cannot reach the launcher at port ", port, " (", tried,
               "); open the port range or choose the network with `skerry run --interface`");
}

}  // namespace skerry::launcher
