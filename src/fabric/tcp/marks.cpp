#include "fabric/tcp/marks.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "core/futex.hpp"

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

void set_mark(Endpoint& endpoint, int bytes) {
  if (bytes == endpoint.wake_bytes) return;
  endpoint.wake_bytes = bytes;
  setsockopt(endpoint.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

// Half of the receive window. A reader that reads all is sure of that: Linux announces a window
// again as soon as half of it is used up.
uint64_t most_mark_bytes(Endpoint& endpoint) {
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

}  // namespace

// For a short one the system calls cost more than they save.
void Marks::wake_for_rest(Endpoint& endpoint) {
  Receive& state = *endpoint.receive;
  if (state.payload_bytes <= inline_payload_bytes) return;
  const auto wanted = static_cast<int>(
      std::min(state.payload_bytes - state.placed_bytes, most_mark_bytes(endpoint)));
  if (wanted <= 1) return lower(endpoint);
  if (endpoint.wake_bytes == 1) {
    if (endpoints_.raised.empty()) {
      look_pause_ns_ = first_look_ns;
      look_at_ns_ = monotonic_ns() + look_pause_ns_;
    }
    state.raised_place = endpoints_.raised.insert(endpoints_.raised.end(), endpoint.own_id());
  }
  set_mark(endpoint, wanted);
}

void Marks::lower(Endpoint& endpoint) {
  if (endpoint.wake_bytes == 1) return;
  endpoints_.raised.erase(endpoint.receive->raised_place);
  set_mark(endpoint, 1);
}

// --- the look ----------------------------------------------------------------------------------

int64_t Marks::until_look_ns(int64_t timeout_ns) const {
  if (timeout_ns == 0 || endpoints_.raised.empty()) return timeout_ns;
  const int64_t left_ns = std::max<int64_t>(look_at_ns_ - monotonic_ns(), 1'000'000);
  return timeout_ns < 0 ? left_ns : std::min(timeout_ns, left_ns);
}

void Marks::look(bool slept_in_vain, const std::function<void(const epoll_event&)>& handle) {
  const int64_t now_ns = monotonic_ns();
  if (now_ns < look_at_ns_) return;
  std::vector<pollfd> sockets;
  std::vector<EndpointId> ids;
  const auto add = [&](const Endpoint& endpoint) {
    const auto awaited = static_cast<short>(endpoint.interest & (EPOLLIN | EPOLLOUT));
    if (!endpoint.registered || awaited == 0) return;
    sockets.push_back({endpoint.fd, awaited, 0});
    ids.push_back(endpoint.own_id());
  };
  if (slept_in_vain) endpoints_.for_each(add);
  else
    for (const EndpointId id : endpoints_.raised) add(*endpoints_.find(id));
  if (::poll(sockets.data(), sockets.size(), 0) < 0) return;
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
    handle(event);
  }
  look_pause_ns_ = any_ready ? first_look_ns
                             : std::clamp(2 * look_pause_ns_, first_look_ns, longest_look_ns);
  look_at_ns_ = now_ns + look_pause_ns_;
}

}  // namespace skerry::fabric::tcp
