#include "fabric/tcp/connect.hpp"

#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/futex.hpp"

namespace skerry::fabric::tcp {

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

Status Connector::connect(Bytes address, Bytes hello, EndpointId* id) {
  if (hello.size() > max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ", max_hello_bytes);
  std::vector<SocketAddress> candidates;
  SKERRY_TRY(decode_address(address, &candidates));
  const int64_t deadline_ns = monotonic_ns() + options_.connect_timeout_ns;
  Endpoint& endpoint = endpoints_.add(State::connecting, -1, deadline_ns, endpoints_.connecting,
                                      id);
  endpoint.opening->candidates = std::move(candidates);
  endpoint.opening->greeting = make_greeting(connect_magic, hello);
  timer_.arm(deadline_ns);
  std::string why;
  if (!try_next(endpoint, &why)) endpoints_.defer_unreachable(*id, std::move(why));
  return {};
}

// Starts with the next address that does not fail at once. False: none is left.
bool Connector::try_next(Endpoint& endpoint, std::string* why) {
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
        if (send_greeting(endpoint)) return true;
      } else if (errno == EINPROGRESS) {
        endpoint.state = State::connecting;
        if (endpoints_.set_interest(endpoint, EPOLLOUT)) return true;
      }
      error_number = errno;
    }
    *why = why_not(endpoint, error_number);
  }
  return false;
}

// The last one that was tried.
std::string Connector::why_not(const Endpoint& endpoint, int error_number) {
  const Opening& opening = *endpoint.opening;
  return concat("connect to ", to_string(opening.candidates[opening.next_candidate - 1]), ": ",
                error_text(error_number));
}

bool Connector::send_greeting(Endpoint& endpoint) {
  const bool more = endpoint.output != nullptr &&
                    endpoint.output->bytes > 0;  // messages that may follow at once
  if (!sender_.send_greeting(endpoint, endpoint.opening->greeting, more)) return false;
  endpoint.state = State::awaiting_reply;
  // Only the connect was to be non-blocking: from now on every call says itself whether it waits
  // (see tcp_fabric.hpp).
  const int off = 0;
  ioctl(endpoint.fd, FIONBIO, &off);
  if (!endpoints_.set_interest(endpoint, EPOLLIN)) return false;
  if (more) sender_.write_output(endpoint);  // an error shows when the answer is read
  return true;
}

void Connector::at_once(Endpoint& endpoint) {
  if (send_greeting(endpoint) || errno == EAGAIN) return;
  std::string why = why_not(endpoint, errno);
  if (!try_next(endpoint, &why)) endpoints_.defer_unreachable(endpoint.own_id(), std::move(why));
}

void Connector::progress(Endpoint& endpoint, Sink& sink) {
  int error_number = 0;
  socklen_t bytes = sizeof error_number;
  getsockopt(endpoint.fd, SOL_SOCKET, SO_ERROR, &error_number, &bytes);
  if (error_number == 0 && send_greeting(endpoint)) return;
  if (error_number == 0) error_number = errno;
  std::string why = why_not(endpoint, error_number);
  if (try_next(endpoint, &why)) return;
  endpoints_.fail(endpoint,
                  error_number == ETIMEDOUT ? CloseReason::timed_out : CloseReason::unreachable,
                  why, sink);
}

Parsed Connector::take_reply(Endpoint& endpoint, Bytes data, uint64_t* consumed, Sink& sink) {
  const EndpointId id = endpoint.own_id();
  uint32_t hello_bytes = 0;
  *consumed = 0;
  GreetingState held;
  // The peer has us wait: its answer comes when it comes.
  while ((held = inspect_greeting(data.data(), data.size(), held_magic, &hello_bytes)) ==
         GreetingState::complete) {
    endpoints_.hold(endpoint);
    sink.on_held(id);
    if (endpoint.is_gone(id)) return Parsed::gone;
    const uint64_t bytes = sizeof(Greeting) + hello_bytes;
    *consumed += bytes;
    data = data.subspan(bytes);
    if (data.empty()) return Parsed::all;
  }
  GreetingState seen = inspect_greeting(data.data(), data.size(), accept_magic, &hello_bytes);
  if (seen == GreetingState::garbage && held == GreetingState::incomplete) seen = held;
  const char* wrong = "what answers there is not a Skerry server";
  switch (seen) {
    case GreetingState::incomplete:
      keep_partial(endpoint, data.data(), data.size(), true);
      *consumed += data.size();
      return Parsed::all;
    case GreetingState::other_version:
      wrong = "the peer speaks another version of the protocol: all ranks must run the same Skerry";
      [[fallthrough]];
    case GreetingState::garbage:
      endpoints_.fail(endpoint, CloseReason::protocol_error, wrong, sink);
      return Parsed::gone;
    case GreetingState::complete: break;
  }
  *consumed += sizeof(Greeting) + hello_bytes;
  endpoints_.opened(endpoint);
  sink.on_connected(id, data.subspan(sizeof(Greeting), hello_bytes));
  if (endpoint.is_gone(id)) return Parsed::gone;
  sender_.opened(endpoint);
  return Parsed::all;
}

void Connector::expire(int64_t now_ns, Sink& sink) {
  while (!endpoints_.connecting.empty()) {
    Endpoint& endpoint = *endpoints_.find(endpoints_.connecting.front());
    if (endpoint.opening->deadline_ns > now_ns) return timer_.arm(endpoint.opening->deadline_ns);
    if (endpoint.state == State::connecting)
      endpoints_.fail(endpoint, CloseReason::timed_out, "no answer to connect", sink);
    else
      endpoints_.fail(endpoint, CloseReason::unanswered, "connected, but no answer to the greeting",
                      sink);
  }
}

}  // namespace skerry::fabric::tcp
