#include "fabric/tcp/opener.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/futex.hpp"
#include "core/pure/shortage.hpp"
#include "fabric/tcp/frame.hpp"

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

std::vector<std::byte> make_greeting(uint32_t magic, Bytes hello) {
  const Greeting greeting{magic, greeting_version, static_cast<uint16_t>(hello.size())};
  std::vector<std::byte> out(sizeof greeting + hello.size());
  std::memcpy(out.data(), &greeting, sizeof greeting);
  if (!hello.empty()) std::memcpy(out.data() + sizeof greeting, hello.data(), hello.size());
  return out;
}

// The last word to a peer that spoke our protocol. It fits in the socket's buffer, or is lost. If
// what the peer sent is not all read, the close resets the connection behind it; Linux lets the
// peer read what came before a reset.
void say_refused(int fd, CloseReason why) {
  const std::byte reason{static_cast<uint8_t>(why)};
  const std::vector<std::byte> word = make_greeting(refused_magic, {&reason, 1});
  [[maybe_unused]] const ssize_t n = send(fd, word.data(), word.size(),
                                          MSG_DONTWAIT | MSG_NOSIGNAL);
}

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

// The socket options of every connection. Accepted sockets inherit them from the listener, so that
// an unauthenticated peer costs no further system calls.
void configure(int fd, const Options& options) {
  // Requests are small and waited for: Nagle's algorithm would hold the second of two back until
  // the first is acknowledged. We batch ourselves.
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // Unacknowledged data closes the connection after this long: the kernel's default (some 15
  // minutes) would let a powered-off host hang a get.
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
             static_cast<int>(options.silence_timeout_ns / 1'000'000));
  // The same for a connection that only waits: nothing unacknowledged, so only probes can find the
  // silent host. The kernel does them.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  const int silence_s = static_cast<int>(
      std::max<int64_t>(options.silence_timeout_ns / 1'000'000'000, 3));
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(silence_s / 3, 1));
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(silence_s / 6, 1));
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace

Opener::~Opener() {
  for (const int fd : {listen_fd_, reserve_fd_})
    if (fd >= 0) ::close(fd);
}

bool Opener::open() {
  reserve_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return reserve_fd_ >= 0;
}

void Opener::expire(Sink& sink) {
  Endpoints& endpoints = parts_.endpoints;
  const int64_t now_ns = monotonic_ns();
  while (Endpoint* const silent = endpoints.overdue(endpoints.unauthenticated, now_ns))
    refuse(*silent, &Unauthenticated::silent);
  if (std::exchange(is_paused_, false))
    parts_.waiter.control(EPOLL_CTL_MOD, listen_fd_, EPOLLIN, tag_listener);
  while (Endpoint* const late = endpoints.overdue(endpoints.connecting, now_ns)) {
    if (late->state == State::connecting)
      endpoints.fail(*late, CloseReason::timed_out, "no answer to connect", sink);
    else
      endpoints.fail(*late, CloseReason::unanswered, "connected, but no answer to the greeting",
                     sink);
  }
}

// --- ours --------------------------------------------------------------------------------------

Status Opener::connect(Bytes address, Bytes hello, EndpointId* id) {
  if (hello.size() > max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ", max_hello_bytes);
  std::vector<SocketAddress> candidates;
  SKERRY_TRY(decode_address(address, &candidates));
  Endpoint& endpoint = parts_.endpoints.add(State::connecting, -1, options_.connect_timeout_ns,
                                            parts_.endpoints.connecting, id);
  endpoint.opening->candidates = std::move(candidates);
  endpoint.opening->greeting = make_greeting(connect_magic, hello);
  std::string why;
  if (!try_next(endpoint, &why)) parts_.endpoints.defer_unreachable(*id, std::move(why));
  return {};
}

// Starts with the next address that does not fail at once. False: none is left.
bool Opener::try_next(Endpoint& endpoint, std::string* why) {
  Opening& opening = *endpoint.opening;
  while (opening.next_candidate < opening.candidates.size()) {
    const SocketAddress& address = opening.candidates[opening.next_candidate++];
    if (endpoint.fd >= 0) ::close(endpoint.fd);
    endpoint.registered = false;
    endpoint.fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error_number = errno;
    if (endpoint.fd >= 0) {
      configure(endpoint.fd, options_);
      if (::connect(endpoint.fd, reinterpret_cast<const sockaddr*>(&address.storage),
                    address.bytes) == 0) {
        if (greet(endpoint)) return true;
      } else if (errno == EINPROGRESS) {
        endpoint.state = State::connecting;
        if (parts_.endpoints.set_interest(endpoint, EPOLLOUT)) return true;
      }
      error_number = errno;
    }
    *why = why_not(endpoint, error_number);
  }
  return false;
}

// The last one that was tried.
std::string Opener::why_not(const Endpoint& endpoint, int error_number) {
  const Opening& opening = *endpoint.opening;
  return concat("connect to ", to_string(opening.candidates[opening.next_candidate - 1]), ": ",
                error_text(error_number));
}

bool Opener::greet(Endpoint& endpoint) {
  const bool more = endpoint.output != nullptr &&
                    endpoint.output->bytes > 0;  // messages that may follow at once
  if (!parts_.sender.send_greeting(endpoint, endpoint.opening->greeting, more)) return false;
  endpoint.state = State::awaiting_reply;
  // Only the connect was to be non-blocking: from now on every call says itself whether it waits
  // (see tcp_fabric.hpp).
  const int off = 0;
  ioctl(endpoint.fd, FIONBIO, &off);
  if (!parts_.endpoints.set_interest(endpoint, EPOLLIN)) return false;
  if (more) parts_.sender.write_output(endpoint);  // an error shows when the answer is read
  return true;
}

void Opener::at_once(Endpoint& endpoint) {
  if (greet(endpoint) || errno == EAGAIN) return;
  std::string why = why_not(endpoint, errno);
  if (!try_next(endpoint, &why))
    parts_.endpoints.defer_unreachable(endpoint.own_id(), std::move(why));
}

void Opener::progress(Endpoint& endpoint, Sink& sink) {
  int error_number = 0;
  socklen_t bytes = sizeof error_number;
  getsockopt(endpoint.fd, SOL_SOCKET, SO_ERROR, &error_number, &bytes);
  if (error_number == 0 && greet(endpoint)) return;
  if (error_number == 0) error_number = errno;
  std::string why = why_not(endpoint, error_number);
  if (try_next(endpoint, &why)) return;
  parts_.endpoints.fail(
      endpoint, error_number == ETIMEDOUT ? CloseReason::timed_out : CloseReason::unreachable, why,
      sink);
}

// --- of peers ----------------------------------------------------------------------------------

Status Opener::listen(std::vector<std::byte>* address) {
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

void Opener::take(Sink& sink) {
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
      say_refused(refused, CloseReason::crowded_out);
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

void Opener::begin(int fd, Sink& sink) {
  Endpoints& endpoints = parts_.endpoints;
  if (endpoints.unauthenticated.size() >= options_.max_unauthenticated) make_room();
  EndpointId id;
  Endpoint& endpoint = endpoints.add(State::greeting, fd, options_.hello_deadline_ns,
                                     endpoints.unauthenticated, &id);
  if (!endpoints.set_interest(endpoint, EPOLLIN))
    return refuse(endpoint, &Unauthenticated::crowded_out);
  read(endpoint, sink);  // a peer's hello usually arrives with its connection
}

void Opener::read(Endpoint& endpoint, Sink& sink) {
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
    case GreetingState::incomplete: return Receiver::keep_partial(endpoint, data, have, true);
    case GreetingState::other_version:  // it finds ours in the answer
      say_refused(endpoint.fd, CloseReason::refused);
      [[fallthrough]];
    case GreetingState::garbage: return refuse(endpoint, &Unauthenticated::garbage);
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

void Opener::ask(Endpoint& endpoint, Bytes hello, Bytes early, Sink& sink) {
  endpoint.receive.reset();
  if (!early.empty()) {
    endpoint.started().parked = true;
    Receiver::keep_backlog(endpoint, early, {});
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

bool Opener::make_room() {
  Endpoints& endpoints = parts_.endpoints;
  if (endpoints.unauthenticated.empty()) return false;
  // The oldest that has not even said hello; only if all have, the oldest.
  Endpoint* oldest = endpoints.find(endpoints.unauthenticated.front());
  for (const EndpointId id : endpoints.unauthenticated) {
    if (endpoints.find(id)->state != State::greeting) continue;
    oldest = endpoints.find(id);
    break;
  }
  say_refused(oldest->fd, CloseReason::crowded_out);
  refuse(*oldest, &Unauthenticated::crowded_out);
  return true;
}

void Opener::refuse(Endpoint& endpoint, Reason reason) {
  count_refusal(reason);
  parts_.endpoints.release(endpoint);
}

void Opener::count_refusal(Reason reason) {
  ++(refused_.*reason);
  if (options_.max_refusals_per_s == 0) return;
  const int64_t price_ns = 1'000'000'000 / options_.max_refusals_per_s;
  refusals_paid_ns_ = std::max(refusals_paid_ns_, monotonic_ns() - refusals_at_once_ns) + price_ns;
}

void Opener::rest(int64_t until_ns) {
  parts_.waiter.control(EPOLL_CTL_MOD, listen_fd_, 0, tag_listener);
  is_paused_ = true;
  parts_.endpoints.timer.arm(until_ns);
}

Endpoint* Opener::find_asking(RequestId request) const {
  Endpoint* const endpoint = parts_.endpoints.find(request);
  return endpoint != nullptr && endpoint->state == State::asking ? endpoint : nullptr;
}

Status Opener::accept(RequestId request, Bytes reply, EndpointId* id) {
  Endpoint* const endpoint = find_asking(request);
  if (endpoint == nullptr) {
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

void Opener::reject(RequestId request, CloseReason why) {
  SKERRY_ASSERT(is_refusal(why), "a peer is rejected for a reason that refuses");
  Endpoint* const endpoint = find_asking(request);
  if (endpoint == nullptr) return;
  if (!endpoint->opening->held) {
    say_refused(endpoint->fd, why);
    return refuse(*endpoint, &Unauthenticated::rejected);
  }
  // It is told to come back. What it has sent early is read: a socket that is closed with unread
  // bytes resets the connection, and the word might be lost.
  std::byte unread[4096];
  for (int i = 0; i < 64; ++i)
    if (recv(endpoint->fd, unread, sizeof unread, MSG_DONTWAIT) <= 0) break;
  parts_.endpoints.release(*endpoint);
}

void Opener::hold(RequestId request) {
  Endpoint* const endpoint = find_asking(request);
  if (endpoint == nullptr || endpoint->opening->held) return;
  parts_.endpoints.hold(*endpoint);
  // If it fails, accept finds the socket broken.
  (void)parts_.sender.send_greeting(*endpoint, make_greeting(held_magic, {}), false);
}

}  // namespace skerry::fabric::tcp
