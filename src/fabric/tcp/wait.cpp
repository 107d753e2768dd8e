// Sleeping until a socket has something, and what does not rely on being woken.
//
// A low-water mark (SO_RCVLOWAT) lets a socket wake us less often while a long payload comes. Linux
// calls a socket readable below its mark when its receive window is closed. It reads that window
// while another core moves it, so the one look of a level-triggered epoll can miss it. Then both
// ends sleep for ever (seen: 95,232 bytes unread below a mark of 112,788; lab/kernel). So:
//
// 1. A mark is one that the window reaches: then bytes alone make the socket readable.
// 2. What epoll should have told is looked at with poll(2) now and then: first 20 ms after a mark
//    was raised or a sleep was in vain, at last once a second. Without either there is no look, and
//    an idle server sleeps for ever.
//
// What a look finds ready may be told the next moment. It counts as found late only if it is still
// ready at the next look and no event came in between.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "fabric/tcp/tcp_fabric.hpp"

namespace skerry::fabric::tcp {
namespace {
constexpr int64_t first_look_ns = 20'000'000;
constexpr int64_t longest_look_ns = 1'000'000'000;
// While a payload is placed directly the socket wakes us for this much at a time, or for the rest:
// a wake-up per segment costs more than the copy. Large enough to amortise it, small enough that
// copying overlaps with the sender.
constexpr int longest_mark_bytes = 256 * 1024;
static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLHUP == POLLHUP &&
                  EPOLLERR == POLLERR && EPOLLRDHUP == POLLRDHUP,
              "what poll(2) found is handled as an event of epoll");
}  // namespace

int TcpFabric::wait_for_events(int64_t timeout_ns) {
  // Milliseconds do; rounded up so that a deadline has passed when we return.
  const auto by_milliseconds = [&] {
    const int64_t timeout_ms = timeout_ns < 0 ? -1
                                              : std::min<int64_t>(
                                                    (timeout_ns + 999'999) / 1'000'000, INT32_MAX);
    return epoll_wait(epoll_fd_, events_.data(), max_events, static_cast<int>(timeout_ms));
  };
  if (timeout_ns <= 0 || timeout_ns >= 100'000'000) return by_milliseconds();
  const timespec timeout{0, timeout_ns};
  const int count = epoll_pwait2(epoll_fd_, events_.data(), max_events, &timeout, nullptr);
  return count < 0 && errno == ENOSYS ? by_milliseconds() : count;  // kernels before 5.11
}

// --- marks -------------------------------------------------------------------------------------

void TcpFabric::set_mark(Endpoint& endpoint, int bytes) {
  if (bytes == endpoint.wake_bytes) return;
  endpoint.wake_bytes = bytes;
  setsockopt(endpoint.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

// Half of the receive window. Whoever reads all is sure of that: Linux announces a window again as
// soon as half of it is used up.
uint64_t TcpFabric::most_mark_bytes(Endpoint& endpoint) {
  constexpr uint64_t kib = 1024;
  if (endpoint.most_mark_kib * kib < longest_mark_bytes) {  // windows grow with what they let pass
    tcp_info info{};
    socklen_t size = sizeof info;
    if (getsockopt(endpoint.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 1;
    const uint64_t bytes = std::clamp<uint64_t>(info.tcpi_rcv_ssthresh / 2, kib,
                                                longest_mark_bytes);
    endpoint.most_mark_kib = static_cast<uint16_t>(bytes / kib);
  }
  return endpoint.most_mark_kib * kib;
}

// Of a payload that is placed. For a short one the system calls cost more than they save.
void TcpFabric::wake_for_rest(Endpoint& endpoint, EndpointId id) {
  Receive& state = *endpoint.receive;
  if (state.payload_bytes <= inline_payload_bytes) return;
  const auto wanted = static_cast<int>(
      std::min(state.payload_bytes - state.placed_bytes, most_mark_bytes(endpoint)));
  if (wanted <= 1) return lower_mark(endpoint);
  if (endpoint.wake_bytes == 1) {
    if (raised_.empty()) {
      look_pause_ns_ = first_look_ns;
      look_at_ns_ = now_ns() + look_pause_ns_;
    }
    state.raised_place = raised_.insert(raised_.end(), id);
  }
  set_mark(endpoint, wanted);
}

void TcpFabric::lower_mark(Endpoint& endpoint) {
  if (endpoint.wake_bytes == 1) return;
  raised_.erase(endpoint.receive->raised_place);
  set_mark(endpoint, 1);
}

// --- the look ----------------------------------------------------------------------------------

// How long poll sleeps: until the next look at most, if a mark is raised.
int64_t TcpFabric::until_look_ns(int64_t timeout_ns) const {
  if (timeout_ns == 0 || raised_.empty()) return timeout_ns;
  const int64_t left_ns = std::max<int64_t>(look_at_ns_ - now_ns(), 1'000'000);
  return timeout_ns < 0 ? left_ns : std::min(timeout_ns, left_ns);
}

// At the end of dispatch, after all that epoll told. After a sleep in vain it looks at all
// endpoints, else at those with raised marks.
int TcpFabric::look(Sink& sink) {
  const int64_t now = now_ns();
  if (now < look_at_ns_) return 0;
  std::vector<pollfd> sockets;
  std::vector<EndpointId> ids;
  const auto add = [&](const Endpoint& endpoint) {
    const auto awaited = static_cast<short>(endpoint.interest & (EPOLLIN | EPOLLOUT));
    if (!endpoint.registered || awaited == 0) return;
    sockets.push_back({endpoint.fd, awaited, 0});
    ids.push_back(endpoint.id.load(std::memory_order_relaxed));
  };
  if (slept_in_vain_) endpoints_.for_each(add);
  else
    for (const EndpointId id : raised_) add(*endpoints_.find(id));
  if (::poll(sockets.data(), sockets.size(), 0) < 0) return 0;
  int upcalls = 0;
  bool any_ready = false;
  for (size_t i = 0; i < ids.size(); ++i) {
    Endpoint* const endpoint = endpoints_.find(ids[i]);
    if (endpoint == nullptr) continue;  // closed by an upcall of this look
    const bool is_ready = sockets[i].revents != 0, is_late = is_ready && endpoint->overdue;
    any_ready = any_ready || is_ready;
    endpoint->overdue = is_ready;
    if (!is_late) continue;
    ++found_late_;
    epoll_event event{};
    event.events = static_cast<uint32_t>(sockets[i].revents);
    event.data.u64 = ids[i];
    upcalls += handle_event(event, sink);
  }
  look_pause_ns_ = any_ready ? first_look_ns
                             : std::clamp(2 * look_pause_ns_, first_look_ns, longest_look_ns);
  look_at_ns_ = now + look_pause_ns_;
  return upcalls;
}

}  // namespace skerry::fabric::tcp
