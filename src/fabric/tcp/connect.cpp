// Listening, unauthenticated peers, greetings. An unauthenticated peer costs a descriptor, an
// Endpoint and a few dozen bytes, for a bounded time, in a bounded number.
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fabric/tcp/tcp_fabric.hpp"
#include "core/pure/shortage.hpp"

namespace skerry::fabric::tcp {
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

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

}  // namespace

// Accepted sockets inherit all of these from the listener, so that an unauthenticated peer costs no
// further system calls.
void TcpFabric::configure(int fd) const {
  // Requests are small and waited for: Nagle's algorithm would hold the second of two back until
  // the first is acknowledged. We batch ourselves.
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // Unacknowledged data closes the connection after this long: the kernel's default (some 15
  // minutes) would let a powered-off host hang a get.
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
             static_cast<int>(options_.silence_timeout_ns / 1'000'000));
  // The same for a connection that only waits: nothing unacknowledged, so only probes can find the
  // silent host. The kernel does them.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  const int silence_s = static_cast<int>(
      std::max<int64_t>(options_.silence_timeout_ns / 1'000'000'000, 3));
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(silence_s / 3, 1));
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(silence_s / 6, 1));
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

// --- the listening side ------------------------------------------------------------------------

Status TcpFabric::listen(std::vector<std::byte>* address) {
  SKERRY_ASSERT(listen_fd_ < 0, "a fabric listens once");
  std::vector<InterfaceAddress> chosen;
  SKERRY_TRY(choose_listen_addresses(options_, &chosen));
  const bool any_v6 = std::any_of(chosen.begin(), chosen.end(),
                                  [](const auto& one) { return one.family == AF_INET6; });
  const int family = chosen.size() == 1 ? chosen[0].family : any_v6 ? AF_INET6 : AF_INET;
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return error(Code::network, "cannot open a listening socket: ", error_text(errno));
  configure(fd);
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
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag_listener;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    ::close(fd);
    return error(Code::internal, "epoll_ctl: ", error_text(errno));
  }
  listen_fd_ = fd;
  const uint16_t port = ntohs(family == AF_INET
                                  ? reinterpret_cast<sockaddr_in*>(&actual.storage)->sin_port
                                  : reinterpret_cast<sockaddr_in6*>(&actual.storage)->sin6_port);
  *address = encode_address(host_identity(), port, chosen);
  return {};
}

int TcpFabric::accept_unauthenticated(Sink& sink) {
  const int before = upcalls_;
  for (int i = 0; i < accepts_per_dispatch; ++i) {
    if (refusals_paid_ns_ > 0 && refusals_paid_ns_ > now_ns()) {
      rest_listener(refusals_paid_ns_ + listener_rest_ns);
      break;
    }
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
      take_unauthenticated(fd, sink);
      continue;
    }
    const int error_number = errno;
    if (error_number == EAGAIN) break;
    if (!is_shortage(error_number)) continue;  // that one is gone; the next
    // Out of descriptors. The kernel says so before it looks whether anybody waits.
    pollfd waiting{listen_fd_, POLLIN, 0};
    if (::poll(&waiting, 1, 0) <= 0) break;
    // Unauthenticated peers go first: a peer may be waiting behind them.
    if (close_oldest_unauthenticated()) continue;
    // None left: accept and close one with the descriptor kept for this, so that it is refused
    // instead of waiting for nothing.
    if (reserve_fd_ >= 0) ::close(reserve_fd_);
    const int refused = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (refused >= 0) {
      ::close(refused);
      count_refusal(&Unauthenticated::crowded_out);
    }
    reserve_fd_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (refused >= 0) continue;
    // Not even that (the system as a whole is short): rest a little instead of burning the core.
    rest_listener(now_ns() + listener_pause_ns);
    break;
  }
  return upcalls_ - before;
}

bool TcpFabric::take_unauthenticated(int fd, Sink& sink) {
  if (unauthenticated_.size() >= options_.max_unauthenticated) close_oldest_unauthenticated();
  EndpointId id;
  Endpoint& endpoint = *endpoints_.allocate(&id);
  endpoint.fd = fd;
  endpoint.state = State::greeting;
  endpoint.opening = std::make_unique<Opening>();
  endpoint.opening->deadline_ns = now_ns() + options_.hello_deadline_ns;
  endpoint.opening->place = unauthenticated_.insert(unauthenticated_.end(), id);
  Slots<Endpoint>::publish(&endpoint, id);
  arm_timer(endpoint.opening->deadline_ns);
  if (!set_interest(endpoint, id, EPOLLIN)) {
    refuse(endpoint, &Unauthenticated::crowded_out);
    return false;
  }
  read_unauthenticated(endpoint, id, sink);  // a peer's hello usually arrives with its connection
  return true;
}

// Reads at most a greeting, byte for byte checked: garbage is closed at once.
int TcpFabric::read_unauthenticated(Endpoint& endpoint, EndpointId id, Sink& sink) {
  std::byte data[max_greeting_bytes];
  uint32_t have = 0;
  if (endpoint.receive != nullptr && endpoint.receive->partial != nullptr) {
    have = endpoint.receive->partial_have;
    std::memcpy(data, endpoint.receive->partial.get(), have);
  }
  if (endpoint.state == State::asking) {  // the caller has not answered, and the peer has gone: we
                                          // are called for nothing else
    refuse(endpoint, &Unauthenticated::left);
    return 0;
  }
  const ssize_t n = recv(endpoint.fd, data + have, max_greeting_bytes - have, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n <= 0) {
    refuse(endpoint, &Unauthenticated::left);
    return 0;
  }
  have += static_cast<uint32_t>(n);
  bytes_received_.fetch_add(static_cast<uint64_t>(n), std::memory_order_relaxed);
  uint32_t hello_bytes = 0;
  switch (inspect_greeting(data, have, connect_magic, &hello_bytes)) {
    case GreetingState::incomplete: keep_partial(endpoint, data, have, true); return 0;
    case GreetingState::garbage:
    case GreetingState::other_version: refuse(endpoint, &Unauthenticated::garbage); return 0;
    case GreetingState::complete: break;
  }
  // Messages may follow the hello: nobody looks at them before we accepted, but for the few bytes
  // of them that came with it.
  const Bytes early{data + sizeof(Greeting) + hello_bytes, have - sizeof(Greeting) - hello_bytes};
  if (early.size() >= prefix_bytes && !plausible(decode_prefix(early.data()))) {
    refuse(endpoint, &Unauthenticated::garbage);
    return 0;
  }
  endpoint.receive.reset();
  if (!early.empty()) {
    keep_backlog(endpoint, early, {});
    endpoint.receive->parked = true;
  }
  endpoint.state = State::asking;
  SocketAddress peer;
  peer.bytes = sizeof peer.storage;
  getpeername(endpoint.fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.bytes);
  ++upcalls_;
  sink.on_connect_request(id, {data + sizeof(Greeting), hello_bytes}, to_string(peer));
  if (endpoint.id.load(std::memory_order_relaxed) != id) return 1;  // rejected
  if (endpoint.state == State::asking) {
    set_interest(endpoint, id, EPOLLRDHUP);  // unread messages must not keep poll awake
    return 1;
  }
  if (early.empty()) return 1;
  // The answer and what the messages are answered with leave together.
  resume(id, sink);
  if (endpoint.id.load(std::memory_order_relaxed) == id &&
      (endpoint.receive == nullptr || !endpoint.receive->parked))
    consume(receive(endpoint, id, MSG_DONTWAIT), sink);
  if (endpoint.id.load(std::memory_order_relaxed) == id && endpoint.output != nullptr &&
      !endpoint.output->blocked)
    write_output(endpoint, id);
  return 1;
}

bool TcpFabric::close_oldest_unauthenticated() {
  if (unauthenticated_.empty()) return false;
  // The oldest that has not even said hello; only if all have, the oldest.
  for (EndpointId id : unauthenticated_) {
    Endpoint& endpoint = *endpoints_.find(id);
    if (endpoint.state == State::greeting) {
      refuse(endpoint, &Unauthenticated::crowded_out);
      return true;
    }
  }
  refuse(*endpoints_.find(unauthenticated_.front()), &Unauthenticated::crowded_out);
  return true;
}

void TcpFabric::refuse(Endpoint& endpoint, uint64_t Unauthenticated::* reason) {
  count_refusal(reason);
  release(endpoint);
}

void TcpFabric::count_refusal(uint64_t Unauthenticated::* reason) {
  ++(unauthenticated_refused_.*reason);
  if (options_.max_refusals_per_s == 0) return;
  const int64_t price_ns = 1'000'000'000 / options_.max_refusals_per_s;
  refusals_paid_ns_ = std::max(refusals_paid_ns_, now_ns() - refusals_at_once_ns) + price_ns;
}

void TcpFabric::rest_listener(int64_t until_ns) {
  epoll_event event{};
  event.data.u64 = tag_listener;
  epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, listen_fd_, &event);
  listener_paused_ = true;
  arm_timer(until_ns);
}

Status TcpFabric::accept(RequestId request, Bytes reply, EndpointId* id) {
  Endpoint* const endpoint = endpoints_.find(request);
  if (endpoint == nullptr || endpoint->state != State::asking) {
    return error(Code::peer_dead,
                 "the peer that asked to connect went away, or was answered too late");
  }
  SKERRY_ASSERT(reply.size() <= max_hello_bytes, "reply of accept");
  const std::vector<std::byte> greeting = make_greeting(accept_magic, reply);
  const bool at_once = (endpoint->interest & EPOLLIN) != 0;  // within on_connect_request
  if (at_once && endpoint->receive != nullptr) {
    // Messages came with the hello: read_unauthenticated looks at them next, and sends this along
    // with their answers.
    append_bytes(output_state(*endpoint), greeting, {}, {});
  } else if (::send(endpoint->fd, greeting.data(), greeting.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
             static_cast<ssize_t>(greeting.size())) {
    // An empty socket takes these few bytes or is broken.
    const int error_number = errno;
    refuse(*endpoint, &Unauthenticated::left);
    return error(Code::peer_dead,
                 "the peer went away while it was accepted: ", error_text(error_number));
  } else {
    bytes_sent_ += greeting.size();
  }
  (endpoint->opening->held ? held_ : unauthenticated_).erase(endpoint->opening->place);
  endpoint->opening.reset();
  endpoint->state = State::open;
  if (!at_once) {
    set_interest(*endpoint, request, EPOLLIN);
    if (endpoint->receive != nullptr) unpark(request);
  }
  *id = request;
  return {};
}

void TcpFabric::reject(RequestId request) {
  Endpoint* const endpoint = endpoints_.find(request);
  if (endpoint == nullptr || endpoint->state != State::asking) return;
  if (!endpoint->opening->held) return refuse(*endpoint, &Unauthenticated::rejected);
  // It is told to come back. What it has sent early is read: a socket that is closed with unread
  // bytes resets the connection, and the word might be lost.
  std::byte unread[4096];
  for (int i = 0; i < 64; ++i)
    if (recv(endpoint->fd, unread, sizeof unread, MSG_DONTWAIT) <= 0) break;
  release(*endpoint);
}

void TcpFabric::hold(RequestId request) {
  Endpoint* const endpoint = endpoints_.find(request);
  if (endpoint == nullptr || endpoint->state != State::asking || endpoint->opening->held) return;
  held_.splice(held_.end(), unauthenticated_, endpoint->opening->place);
  endpoint->opening->held = true;
  const Greeting wait{held_magic, greeting_version, 0};
  // An empty socket takes these few bytes or is broken, which accept finds.
  if (::send(endpoint->fd, &wait, sizeof wait, MSG_DONTWAIT | MSG_NOSIGNAL) ==
      static_cast<ssize_t>(sizeof wait))
    bytes_sent_ += sizeof wait;
}

// --- the connecting side -----------------------------------------------------------------------

Status TcpFabric::connect(Bytes address, Bytes hello, EndpointId* out) {
  if (hello.size() > max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ", max_hello_bytes);
  std::vector<SocketAddress> candidates;
  SKERRY_TRY(decode_address(address, &candidates));
  EndpointId id;
  Endpoint& endpoint = *endpoints_.allocate(&id);
  endpoint.state = State::connecting;
  endpoint.opening = std::make_unique<Opening>();
  endpoint.opening->candidates = std::move(candidates);
  endpoint.opening->greeting = make_greeting(connect_magic, hello);
  endpoint.opening->deadline_ns = now_ns() + options_.connect_timeout_ns;
  endpoint.opening->place = connecting_.insert(connecting_.end(), id);
  Slots<Endpoint>::publish(&endpoint, id);
  arm_timer(endpoint.opening->deadline_ns);
  std::string why;
  if (!try_candidate(endpoint, id, &why))
    defer({Deferred::Kind::failed, id, 0, CloseReason::unreachable, why});
  *out = id;
  return {};
}

// Starts with the next address that does not fail at once. False: none is left.
bool TcpFabric::try_candidate(Endpoint& endpoint, EndpointId id, std::string* why) {
  Opening& opening = *endpoint.opening;
  while (opening.next_candidate < opening.candidates.size()) {
    const SocketAddress& address = opening.candidates[opening.next_candidate++];
    if (endpoint.fd >= 0) ::close(endpoint.fd);
    endpoint.registered = false;
    endpoint.fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error_number = errno;
    if (endpoint.fd >= 0) {
      configure(endpoint.fd);
      if (::connect(endpoint.fd, reinterpret_cast<const sockaddr*>(&address.storage),
                    address.bytes) == 0) {
        if (send_greeting(endpoint, id)) return true;
      } else if (errno == EINPROGRESS) {
        endpoint.state = State::connecting;
        if (set_interest(endpoint, id, EPOLLOUT)) return true;
      }
      error_number = errno;
    }
    *why = concat("connect to ", to_string(address), ": ", error_text(error_number));
  }
  return false;
}

bool TcpFabric::send_greeting(Endpoint& endpoint, EndpointId id) {
  const std::vector<std::byte>& greeting = endpoint.opening->greeting;
  const bool more = endpoint.output != nullptr &&
                    endpoint.output->bytes > 0;  // messages that may follow at once
  if (::send(endpoint.fd, greeting.data(), greeting.size(),
             MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0)) !=
      static_cast<ssize_t>(greeting.size()))
    return false;
  bytes_sent_ += greeting.size();
  endpoint.state = State::awaiting_reply;
  // Only the connect was to be non-blocking: from now on every call says itself whether it waits
  // (see the class comment).
  const int off = 0;
  ioctl(endpoint.fd, FIONBIO, &off);
  if (!set_interest(endpoint, id, EPOLLIN)) return false;
  if (more) write_output(endpoint, id);  // an error shows when the answer is read
  return true;
}

// A near peer has answered the connect already: no need to sleep until the kernel says so.
void TcpFabric::connect_at_once(Endpoint& endpoint, EndpointId id) {
  if (send_greeting(endpoint, id) || errno == EAGAIN) return;
  std::string why = concat(
      "connect to ", to_string(endpoint.opening->candidates[endpoint.opening->next_candidate - 1]),
      ": ", error_text(errno));
  if (!try_candidate(endpoint, id, &why))
    defer({Deferred::Kind::failed, id, 0, CloseReason::unreachable, why});
}

void TcpFabric::connect_progress(Endpoint& endpoint, EndpointId id, Sink& sink) {
  int error_number = 0;
  socklen_t bytes = sizeof error_number;
  getsockopt(endpoint.fd, SOL_SOCKET, SO_ERROR, &error_number, &bytes);
  if (error_number == 0 && send_greeting(endpoint, id)) return;
  if (error_number == 0) error_number = errno;
  std::string why = concat(
      "connect to ", to_string(endpoint.opening->candidates[endpoint.opening->next_candidate - 1]),
      ": ", error_text(error_number));
  if (!try_candidate(endpoint, id, &why))
    fail(endpoint, error_number == ETIMEDOUT ? CloseReason::timed_out : CloseReason::unreachable,
         why, sink);
}

// The peer has us wait: its answer comes when it comes. True: a whole such greeting was there.
bool TcpFabric::take_held(Endpoint& endpoint, EndpointId id, const std::byte* data, uint64_t bytes,
                          uint64_t* consumed, Sink& sink) {
  uint32_t hello_bytes = 0;
  if (inspect_greeting(data, bytes, held_magic, &hello_bytes) != GreetingState::complete)
    return false;
  *consumed = sizeof(Greeting) + hello_bytes;
  if (!endpoint.opening->held) {
    held_.splice(held_.end(), connecting_, endpoint.opening->place);
    endpoint.opening->held = true;
  }
  ++upcalls_;
  sink.on_held(id);
  return true;
}

TcpFabric::Parsed TcpFabric::take_reply(Endpoint& endpoint, EndpointId id, const std::byte* data,
                                        uint64_t bytes, uint64_t* consumed, Sink& sink) {
  uint64_t skipped = 0;
  if (take_held(endpoint, id, data, bytes, &skipped, sink)) {
    if (endpoint.id.load(std::memory_order_relaxed) != id) return Parsed::gone;
    *consumed = skipped;
    if (skipped == bytes) return Parsed::all;
    const Parsed parsed = take_reply(endpoint, id, data + skipped, bytes - skipped, consumed, sink);
    *consumed += skipped;
    return parsed;
  }
  uint32_t hello_bytes = 0;
  GreetingState seen = inspect_greeting(data, bytes, accept_magic, &hello_bytes);
  if (seen == GreetingState::garbage &&
      inspect_greeting(data, bytes, held_magic, &hello_bytes) == GreetingState::incomplete)
    seen = GreetingState::incomplete;
  switch (seen) {
    case GreetingState::incomplete:
      keep_partial(endpoint, data, bytes, true);
      *consumed = bytes;
      return Parsed::all;
    case GreetingState::garbage:
      fail(endpoint, CloseReason::protocol_error, "what answers there is not a Skerry server",
           sink);
      return Parsed::gone;
    case GreetingState::other_version:
      fail(endpoint, CloseReason::protocol_error,
           "the peer speaks another version of the protocol: all ranks must run the same Skerry",
           sink);
      return Parsed::gone;
    case GreetingState::complete: break;
  }
  *consumed = sizeof(Greeting) + hello_bytes;
  (endpoint.opening->held ? held_ : connecting_).erase(endpoint.opening->place);
  endpoint.opening.reset();
  endpoint.state = State::open;
  ++upcalls_;
  sink.on_connected(id, {data + sizeof(Greeting), hello_bytes});
  if (endpoint.id.load(std::memory_order_relaxed) != id) return Parsed::gone;
  if (endpoint.output != nullptr && endpoint.output->bytes > 0 && !endpoint.output->blocked)
    write_output(endpoint, id);  // sent after the greeting; an error shows when we read
  if (endpoint.output != nullptr && endpoint.output->writable_wanted &&
      !endpoint.output->blocked) {  // a send came too early
    endpoint.output->writable_wanted = false;
    if (endpoint.output->bytes == 0) output_drained(endpoint, id);
    defer({Deferred::Kind::writable, id, 0, CloseReason::by_us, {}});
  }
  return Parsed::all;
}

}  // namespace skerry::fabric::tcp
