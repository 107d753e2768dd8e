#include "fabric/tcp/listen.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/futex.hpp"
#include "core/pure/shortage.hpp"

namespace skerry::fabric::tcp {

using Unauthenticated = Fabric::Unauthenticated;

namespace {

constexpr int accepts_per_dispatch = 8;          // then it is the endpoints' turn
constexpr int64_t listener_rest_ns = 1'000'000;  // when unauthenticated peers come too fast: not
                                                 // for each of them a timer
// When the system has no descriptor or memory left for us.
constexpr int64_t listener_pause_ns = 100'000'000;
// What may be refused in a burst, as time at the full rate.
constexpr int64_t refusals_at_once_ns = 100'000'000;
constexpr int listen_backlog = 4096;  // a job's start: everyone connects at once. The kernel caps
                                      // it at somaxconn

}  // namespace

Listener::~Listener() {
  for (const int fd : {listen_fd_, reserve_fd_})
    if (fd >= 0) ::close(fd);
}

bool Listener::open() {
  reserve_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return reserve_fd_ >= 0;
}

Status Listener::listen(std::vector<std::byte>* address) {
  SKERRY_ASSERT(listen_fd_ < 0, "a fabric listens once");
  std::vector<InterfaceAddress> chosen;
  SKERRY_TRY(choose_listen_addresses(options_, &chosen));
  const bool any_v6 = std::any_of(chosen.begin(), chosen.end(),
                                  [](const auto& one) { return one.family == AF_INET6; });
  const int family = chosen.size() == 1 ? chosen[0].family : any_v6 ? AF_INET6 : AF_INET;
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return error(Code::network, "cannot open a listening socket: ", error_text(errno));
  configure(fd, options_);
  // Before listen: the window's scale is agreed upon when a connection begins. The kernel doubles
  // the number for its own overhead.
  if (options_.socket_buffer_bytes != 0) {
    const int bytes = static_cast<int>(options_.socket_buffer_bytes / 2);
    set_option(fd, SOL_SOCKET, SO_RCVBUF, bytes);
    set_option(fd, SOL_SOCKET, SO_SNDBUF, bytes);
  }
  static constexpr uint8_t any[16] = {};
  const SocketAddress bound = socket_address(
      family, chosen.size() == 1 ? chosen[0].address.data() : any, 0);
  // Several addresses: one socket for both families.
  if (family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, chosen.size() == 1 ? 1 : 0);
  SocketAddress actual;
  actual.bytes = sizeof actual.storage;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&bound.storage), bound.bytes) != 0 ||
      ::listen(fd, listen_backlog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&actual.storage), &actual.bytes) != 0) {
    const int error_number = errno;
    ::close(fd);
    return error(Code::network, "cannot listen on ", to_string(bound), " (interface ",
                 chosen[0].interface, "): ", error_text(error_number),
                 "; set SKERRY_INTERFACE to another one");
  }
  if (!parts_.waiter.control(EPOLL_CTL_ADD, fd, EPOLLIN, tag_listener)) {
    ::close(fd);
    return error(Code::internal, "epoll_ctl: ", error_text(errno));
  }
  listen_fd_ = fd;
  uint16_t port = 0;
  interface_address(reinterpret_cast<const sockaddr*>(&actual.storage), &port);
  *address = encode_address(host_identity(), port, chosen);
  return {};
}

void Listener::take(Sink& sink) {
  for (int i = 0; i < accepts_per_dispatch; ++i) {
    if (refusals_paid_ns_ > 0 && refusals_paid_ns_ > monotonic_ns()) {
      rest(refusals_paid_ns_ + listener_rest_ns);
      break;
    }
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
      begin(fd, sink);
      continue;
    }
    const int error_number = errno;
    if (error_number == EAGAIN) break;
    if (!is_shortage(error_number)) continue;  // that one is gone; the next
    // Out of descriptors. The kernel says so before it looks whether anybody waits.
    pollfd waiting{listen_fd_, POLLIN, 0};
    if (::poll(&waiting, 1, 0) <= 0) break;
    // Unauthenticated peers go first: a peer may be waiting behind them.
    if (make_room()) continue;
    // None left: accept and close one with the descriptor kept for this, so that it is refused
    // instead of waiting for nothing.
    if (reserve_fd_ >= 0) ::close(reserve_fd_);
    const int refused = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (refused >= 0) {
      ::close(refused);
      count_refusal(&Unauthenticated::crowded_out);
    }
    reserve_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (refused >= 0) continue;
    // Not even that (the system as a whole is short): rest a little instead of burning the core.
    rest(monotonic_ns() + listener_pause_ns);
    break;
  }
}

void Listener::begin(int fd, Sink& sink) {
  Endpoints& endpoints = parts_.endpoints;
  if (endpoints.unauthenticated.size() >= options_.max_unauthenticated) make_room();
  const int64_t deadline_ns = monotonic_ns() + options_.hello_deadline_ns;
  EndpointId id;
  Endpoint& endpoint = endpoints.add(State::greeting, fd, deadline_ns, endpoints.unauthenticated,
                                     &id);
  parts_.timer.arm(deadline_ns);
  if (!endpoints.set_interest(endpoint, EPOLLIN))
    return refuse(endpoint, &Unauthenticated::crowded_out);
  read(endpoint, sink);  // a peer's hello usually arrives with its connection
}

void Listener::read(Endpoint& endpoint, Sink& sink) {
  // Asking: the caller has not answered, and the peer has gone. We are called for nothing else.
  if (endpoint.state == State::asking) return refuse(endpoint, &Unauthenticated::left);
  std::byte data[max_greeting_bytes];
  uint32_t have = 0;
  if (endpoint.receive != nullptr && endpoint.receive->partial != nullptr) {
    have = endpoint.receive->partial_have;
    std::memcpy(data, endpoint.receive->partial.get(), have);
  }
  const ssize_t n = recv(endpoint.fd, data + have, max_greeting_bytes - have, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return refuse(endpoint, &Unauthenticated::left);
  have += static_cast<uint32_t>(n);
  parts_.receiver.count_bytes(static_cast<uint64_t>(n));
  uint32_t hello_bytes = 0;
  switch (inspect_greeting(data, have, connect_magic, &hello_bytes)) {
    case GreetingState::incomplete: return keep_partial(endpoint, data, have, true);
    case GreetingState::garbage:
    case GreetingState::other_version: return refuse(endpoint, &Unauthenticated::garbage);
    case GreetingState::complete: break;
  }
  // Messages may follow the hello: nobody looks at them before we accepted, but for the few bytes
  // of them that came with it.
  const Bytes rest = Bytes(data, have).subspan(sizeof(Greeting));
  const Bytes early = rest.subspan(hello_bytes);
  if (early.size() >= prefix_bytes && !plausible(decode_prefix(early.data())))
    return refuse(endpoint, &Unauthenticated::garbage);
  ask(endpoint, rest.first(hello_bytes), early, sink);
}

void Listener::ask(Endpoint& endpoint, Bytes hello, Bytes early, Sink& sink) {
  endpoint.receive.reset();
  if (!early.empty()) {
    keep_backlog(endpoint, early, {});
    endpoint.receive->parked = true;
  }
  endpoint.state = State::asking;
  SocketAddress peer;
  peer.bytes = sizeof peer.storage;
  getpeername(endpoint.fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.bytes);
  const EndpointId id = endpoint.own_id();
  sink.on_connect_request(id, hello, to_string(peer));
  if (endpoint.is_gone(id)) return;  // rejected
  if (endpoint.state == State::asking) {
    // Unread messages must not keep poll awake.
    parts_.endpoints.set_interest(endpoint, EPOLLRDHUP);
    return;
  }
  if (early.empty()) return;
  // The answer and what the messages are answered with leave together.
  parts_.receiver.resume(id, sink);
  if (!endpoint.is_gone(id) && !endpoint.is_parked()) parts_.receiver.take(endpoint, sink);
  if (!endpoint.is_gone(id) && endpoint.output != nullptr && !endpoint.output->blocked)
    parts_.sender.write_output(endpoint);
}

bool Listener::make_room() {
  Endpoints& endpoints = parts_.endpoints;
  if (endpoints.unauthenticated.empty()) return false;
  // The oldest that has not even said hello; only if all have, the oldest.
  Endpoint* oldest = endpoints.find(endpoints.unauthenticated.front());
  for (const EndpointId id : endpoints.unauthenticated) {
    if (endpoints.find(id)->state != State::greeting) continue;
    oldest = endpoints.find(id);
    break;
  }
  refuse(*oldest, &Unauthenticated::crowded_out);
  return true;
}

void Listener::refuse(Endpoint& endpoint, Reason reason) {
  count_refusal(reason);
  parts_.endpoints.release(endpoint);
}

void Listener::count_refusal(Reason reason) {
  ++(refused_.*reason);
  if (options_.max_refusals_per_s == 0) return;
  const int64_t price_ns = 1'000'000'000 / options_.max_refusals_per_s;
  refusals_paid_ns_ = std::max(refusals_paid_ns_, monotonic_ns() - refusals_at_once_ns) + price_ns;
}

void Listener::rest(int64_t until_ns) {
  parts_.waiter.control(EPOLL_CTL_MOD, listen_fd_, 0, tag_listener);
  is_paused_ = true;
  parts_.timer.arm(until_ns);
}

void Listener::expire(int64_t now_ns) {
  const Endpoints& endpoints = parts_.endpoints;
  while (!endpoints.unauthenticated.empty()) {
    Endpoint& endpoint = *endpoints.find(endpoints.unauthenticated.front());
    if (endpoint.opening->deadline_ns > now_ns) {
      parts_.timer.arm(endpoint.opening->deadline_ns);
      break;
    }
    refuse(endpoint, &Unauthenticated::silent);
  }
  if (std::exchange(is_paused_, false))
    parts_.waiter.control(EPOLL_CTL_MOD, listen_fd_, EPOLLIN, tag_listener);
}

Status Listener::accept(RequestId request, Bytes reply, EndpointId* id) {
  Endpoint* const endpoint = parts_.endpoints.find(request);
  if (endpoint == nullptr || endpoint->state != State::asking) {
    return error(Code::peer_dead,
                 "the peer that asked to connect went away, or was answered too late");
  }
  SKERRY_ASSERT(reply.size() <= max_hello_bytes, "reply of accept");
  const std::vector<std::byte> greeting = make_greeting(accept_magic, reply);
  const bool at_once = (endpoint->interest & EPOLLIN) != 0;  // within on_connect_request
  if (at_once && endpoint->receive != nullptr) {
    // Messages came with the hello: `ask` looks at them next, and sends this with their answers.
    parts_.sender.append_greeting(*endpoint, greeting);
  } else if (!parts_.sender.send_greeting(*endpoint, greeting, false)) {
    const int error_number = errno;
    refuse(*endpoint, &Unauthenticated::left);
    return error(Code::peer_dead,
                 "the peer went away while it was accepted: ", error_text(error_number));
  }
  parts_.endpoints.opened(*endpoint);
  if (!at_once) {
    parts_.endpoints.set_interest(*endpoint, EPOLLIN);
    if (endpoint->receive != nullptr) parts_.receiver.unpark(request);
  }
  *id = request;
  return {};
}

void Listener::reject(RequestId request) {
  Endpoint* const endpoint = parts_.endpoints.find(request);
  if (endpoint == nullptr || endpoint->state != State::asking) return;
  if (!endpoint->opening->held) return refuse(*endpoint, &Unauthenticated::rejected);
  // It is told to come back. What it has sent early is read: a socket that is closed with unread
  // bytes resets the connection, and the word might be lost.
  std::byte unread[4096];
  for (int i = 0; i < 64; ++i)
    if (recv(endpoint->fd, unread, sizeof unread, MSG_DONTWAIT) <= 0) break;
  parts_.endpoints.release(*endpoint);
}

void Listener::hold(RequestId request) {
  Endpoint* const endpoint = parts_.endpoints.find(request);
  if (endpoint == nullptr || endpoint->state != State::asking || endpoint->opening->held) return;
  parts_.endpoints.hold(*endpoint);
  // If it fails, accept finds the socket broken.
  (void)parts_.sender.send_greeting(*endpoint, make_greeting(held_magic, {}), false);
}

}  // namespace skerry::fabric::tcp
