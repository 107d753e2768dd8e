// Set-up, poll, dispatch, timers and the descriptors of others.
#include "fabric/tcp/tcp_fabric.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "core/pure/container_bytes.hpp"

namespace skerry::fabric::tcp {

std::string_view to_string(State state) {
  switch (state) {
    case State::connecting: return "connecting";
    case State::awaiting_reply: return "awaiting_reply";
    case State::greeting: return "greeting";
    case State::asking: return "asking";
    case State::open: return "open";
  }
  return "unknown";
}

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string error_text(int error_number) {
  char text[128];
  return strerror_r(error_number, text, sizeof text);
}

CloseReason close_reason_of(int error_number) {
  switch (error_number) {
    case ETIMEDOUT: return CloseReason::timed_out;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL: return CloseReason::unreachable;
    case EPIPE: return CloseReason::by_peer;
    default: return CloseReason::reset;
  }
}

TcpFabric::TcpFabric(const Options& options) : options_(options) {
  capabilities_.direct_placement = true;
  capabilities_.gather = true;
  capabilities_.early_messages = true;
  capabilities_.connection_bytes = tcp_connection_bytes;
  capabilities_.max_payload_bytes = max_payload_bytes;
  capabilities_.no_atomics_reason =
      "TCP carries messages alone; the data server's processor performs atomics";
}

TcpFabric::~TcpFabric() {
  endpoints_.for_each([](Endpoint& endpoint) {
    if (endpoint.fd >= 0) ::close(endpoint.fd);
  });
  for (int fd : {epoll_fd_, wake_fd_, timer_fd_, listen_fd_, reserve_fd_}) {
    if (fd >= 0) ::close(fd);
  }
}

Status TcpFabric::start() {
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  reserve_fd_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (epoll_fd_ < 0 || wake_fd_ < 0 || timer_fd_ < 0 || reserve_fd_ < 0) {
    return error(Code::network, "cannot open the descriptors of a tcp fabric: ", error_text(errno),
                 "; raise the limit of open files (ulimit -n)");
  }
  for (auto [fd, tag] : {std::pair{wake_fd_, tag_wake}, std::pair{timer_fd_, tag_timer}}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0)
      return error(Code::network, "epoll_ctl: ", error_text(errno));
  }
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(buffer_bytes);
  events_.resize(max_events);
  return {};
}

// --- poll --------------------------------------------------------------------------------------

void TcpFabric::poll(int64_t timeout_ns, EndpointId only) {
  if (received_.endpoint != no_endpoint || event_count_ > 0)
    return;  // the last one was not dispatched yet
  // Dekker with defer and unpark: we say that we are about to sleep, then look; they add work, then
  // look whether someone sleeps.
  polling_.store(true, std::memory_order_seq_cst);
  if (work_pending_.load(std::memory_order_seq_cst)) timeout_ns = 0;
  slept_in_vain_ = told_all_ = false;
  if (only != no_endpoint && timeout_ns != 0) {
    Endpoint* endpoint = endpoints_.find(only);
    // Unsent output needs EPOLLOUT; a parked endpoint must not be read. With a raised mark recv
    // takes less than that, sleeps on, and is not woken for the tail, which is shorter.
    if (endpoint != nullptr && endpoint->state == State::open && endpoint->wake_bytes == 1 &&
        !endpoint->output_pending.load(std::memory_order_relaxed) &&
        (endpoint->receive == nullptr || !endpoint->receive->parked)) {
      block_in_receive(*endpoint, only, timeout_ns);
      polling_.store(false, std::memory_order_relaxed);
      return;
    }
  }
  int count = 0;
  const auto came = [&] {
    return (count = epoll_wait(epoll_fd_, events_.data(), max_events, 0)) != 0;
  };
  const int64_t spin_ns = timeout_ns < 0 ? longest_spin_ns : std::min(timeout_ns, longest_spin_ns);
  if (timeout_ns == 0 || !idle_core_spin_.spin<looks_a_turn>(came, spin_ns))
    count = wait_for_events(until_look_ns(timeout_ns));
  event_count_ = std::max(count, 0);  // EINTR: nothing found, the caller looks again
  slept_in_vain_ = count == 0 && timeout_ns != 0;
  told_all_ = count >= 0 && count < max_events;
  polling_.store(false, std::memory_order_relaxed);
}

void TcpFabric::wake() {
  // One write per sleep is enough: dispatch clears the mark after it drained the descriptor.
  if (woken_.exchange(true, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(
      wake_fd_, &one, sizeof one);  // cannot fail but by overflow, which wakes as well
}

// --- dispatch ----------------------------------------------------------------------------------

int TcpFabric::dispatch(Sink& sink) {
  dispatching_ = true;
  int upcalls = 0;
  if (received_.endpoint != no_endpoint) {
    const Received received = received_;
    received_ = Received{};
    upcalls += consume(received, sink);
  }
  if (work_pending_.load(std::memory_order_relaxed)) {
    std::vector<EndpointId> ready;
    ready.swap(ready_);
    for (EndpointId id : ready) upcalls += resume(id, sink);
    upcalls += run_deferred(sink);
  }
  const int count = event_count_;
  event_count_ = 0;
  ready_count_ = static_cast<uint64_t>(std::max(count, 1));
  for (int i = 0; i < count; ++i) upcalls += handle_event(events_[static_cast<size_t>(i)], sink);
  ready_count_ = 1;
  if (told_all_ && (slept_in_vain_ || !raised_.empty())) upcalls += look(sink);
  if (!deferred_.empty()) upcalls += run_deferred(sink);
  work_pending_.store(!deferred_.empty() || !ready_.empty(), std::memory_order_seq_cst);
  dispatching_ = false;
  return upcalls;
}

int TcpFabric::handle_event(const epoll_event& event, Sink& sink) {
  const uint64_t id = event.data.u64;
  if (id >> 32 == 0) return handle_special(id, sink);
  Endpoint* endpoint = endpoints_.find(id);
  if (endpoint == nullptr) return 0;  // closed by an upcall earlier in this dispatch
  endpoint->overdue = false;
  const bool readable = (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0;
  int upcalls = 0;
  switch (endpoint->state) {
    case State::connecting: connect_progress(*endpoint, id, sink); return 1;
    case State::greeting:
    case State::asking: return read_unauthenticated(*endpoint, id, sink);
    case State::awaiting_reply:
    case State::open: break;
  }
  if ((event.events & EPOLLOUT) != 0 && endpoint->output != nullptr) {
    write_output(*endpoint, id);
    upcalls += run_deferred(sink);
    endpoint = endpoints_.find(id);
    if (endpoint == nullptr) return upcalls;
  }
  if (!readable) return upcalls;
  if (endpoint->receive != nullptr && endpoint->receive->parked) {
    // Level triggered: disarm, or poll would not sleep. HUP and ERR cannot be disarmed but by
    // leaving the set; unpark comes back.
    if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) {
      epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, endpoint->fd, nullptr);
      endpoint->registered = false;
    } else {
      set_interest(*endpoint, id, endpoint->interest & ~uint32_t{EPOLLIN});
    }
    return upcalls;
  }
  return upcalls + consume(receive(*endpoint, id, MSG_DONTWAIT), sink);
}

int TcpFabric::handle_special(uint64_t tag, Sink& sink) {
  if (tag == tag_wake) {
    uint64_t value;
    [[maybe_unused]] const ssize_t n = read(wake_fd_, &value, sizeof value);
    woken_.store(false, std::memory_order_seq_cst);
    return 0;
  }
  if (tag == tag_timer) return run_timer(sink);
  if (tag == tag_listener) return accept_unauthenticated(sink);
  const int fd = static_cast<int>(tag - tag_watch_base);
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return 0;  // unwatched by an upcall earlier in this dispatch
  sink.on_watched(fd, found->second);
  return 1;
}

void TcpFabric::defer(Deferred upcall) {
  deferred_.push_back(std::move(upcall));
  if (dispatching_) return;  // the end of dispatch looks
  work_pending_.store(true, std::memory_order_seq_cst);
  if (polling_.load(std::memory_order_seq_cst)) wake();
}

int TcpFabric::run_deferred(Sink& sink) {
  int upcalls = 0;
  std::vector<Deferred> now;
  now.swap(deferred_);
  for (Deferred& upcall : now) {
    Endpoint* endpoint = endpoints_.find(upcall.endpoint);
    if (endpoint == nullptr) continue;  // closed meanwhile: no upcall follows a close
    switch (upcall.kind) {
      case Deferred::Kind::sent: sink.on_sent(upcall.endpoint, upcall.cookie); break;
      case Deferred::Kind::writable: sink.on_writable(upcall.endpoint); break;
      case Deferred::Kind::failed: fail(*endpoint, upcall.reason, upcall.detail, sink); break;
    }
    ++upcalls;
  }
  if (deferred_.empty()) {  // keep the allocation for the next time
    now.clear();
    deferred_.swap(now);
  }
  return upcalls;
}

// --- endpoints ---------------------------------------------------------------------------------

bool TcpFabric::set_interest(Endpoint& endpoint, EndpointId id, uint32_t events) {
  if (endpoint.registered && endpoint.interest == events) return true;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_fd_, endpoint.registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, endpoint.fd,
                &event) != 0)
    return false;
  endpoint.registered = true;
  endpoint.interest = events;
  return true;
}

// Gives everything of the endpoint back; its id finds nothing any more.
void TcpFabric::release(Endpoint& endpoint) {
  if (endpoint.opening != nullptr) {
    const bool unauthenticated = endpoint.state == State::greeting ||
                                 endpoint.state == State::asking;
    (endpoint.opening->held ? held_
     : unauthenticated      ? unauthenticated_
                            : connecting_)
        .erase(endpoint.opening->place);
  }
  if (endpoint.fd >= 0)
    ::close(endpoint.fd);  // leaves the epoll set by itself: the descriptor was never duplicated
  endpoint.fd = -1;
  if (endpoint.wake_bytes > 1) raised_.erase(endpoint.receive->raised_place);
  endpoint.wake_bytes = 1;
  endpoint.most_mark_kib = 0;
  endpoint.overdue = false;
  endpoint.interest = 0;
  endpoint.registered = false;
  endpoint.output_pending.store(false, std::memory_order_relaxed);
  endpoint.send_bounded = false;
  endpoint.send_error = 0;
  endpoint.receive_timeout_ns = 0;
  endpoint.short_reads = 0;
  endpoint.receive.reset();
  endpoint.output.reset();
  endpoint.opening.reset();
  endpoints_.release(&endpoint);
}

void TcpFabric::close(EndpointId id) {
  if (id == delivering_ && gathered_) (void)flush(id);
  if (Endpoint* endpoint = endpoints_.find(id)) release(*endpoint);
}

// With a reset: one packet ends the connection instead of four, and no side keeps a record of it
// for a minute, as TIME_WAIT would. What the peer has received it may still read.
void TcpFabric::close_drained(EndpointId id) {
  if (id == delivering_ && gathered_) (void)flush(id);
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr) return;
  if (endpoint->state == State::open) {
    const linger at_once{1, 0};
    setsockopt(endpoint->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  release(*endpoint);
}

void TcpFabric::fail(Endpoint& endpoint, CloseReason reason, std::string_view detail, Sink& sink) {
  const EndpointId id = endpoint.id.load(std::memory_order_relaxed);
  const bool unauthenticated = endpoint.state == State::greeting || endpoint.state == State::asking;
  if (unauthenticated) {
    refuse(endpoint, &Unauthenticated::left);  // the caller never got an endpoint; its accept, if
                                               // it comes, is answered peer_dead
    return;
  }
  const std::string text(detail);
  release(endpoint);
  sink.on_closed(id, reason, text);
}

// --- timer -------------------------------------------------------------------------------------

void TcpFabric::arm_timer(int64_t deadline_ns) {
  if (timer_deadline_ns_ != 0 && timer_deadline_ns_ <= deadline_ns) return;
  timer_deadline_ns_ = deadline_ns;
  itimerspec when{};
  when.it_value = {deadline_ns / 1'000'000'000, deadline_ns % 1'000'000'000};
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

int TcpFabric::run_timer(Sink& sink) {
  uint64_t expirations;
  [[maybe_unused]] const ssize_t n = read(timer_fd_, &expirations, sizeof expirations);
  timer_deadline_ns_ = 0;
  const int64_t now = now_ns();
  int upcalls = 0;
  while (!unauthenticated_.empty()) {
    Endpoint& endpoint = *endpoints_.find(unauthenticated_.front());
    if (endpoint.opening->deadline_ns > now) break;
    refuse(endpoint, &Unauthenticated::silent);
  }
  while (!connecting_.empty()) {
    Endpoint& endpoint = *endpoints_.find(connecting_.front());
    if (endpoint.opening->deadline_ns > now) break;
    if (endpoint.state == State::connecting)
      fail(endpoint, CloseReason::timed_out, "no answer to connect", sink);
    else fail(endpoint, CloseReason::unanswered, "connected, but no answer to the greeting", sink);
    ++upcalls;
  }
  if (listener_paused_) {
    listener_paused_ = false;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag_listener;
    epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, listen_fd_, &event);
  }
  if (!unauthenticated_.empty())
    arm_timer(endpoints_.find(unauthenticated_.front())->opening->deadline_ns);
  if (!connecting_.empty()) arm_timer(endpoints_.find(connecting_.front())->opening->deadline_ns);
  return upcalls;
}

// --- others' descriptors, RMA (there is none), figures -----------------------------------------

Status TcpFabric::watch(int fd, uint64_t cookie) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag_watch_base + static_cast<uint64_t>(fd);
  const bool known = watched_.count(fd) != 0;
  if (epoll_ctl(epoll_fd_, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0) {
    return error(Code::internal, "cannot watch descriptor ", fd, ": ", error_text(errno));
  }
  watched_[fd] = cookie;
  return {};
}

void TcpFabric::unwatch(int fd) {
  if (watched_.erase(fd) != 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

Status TcpFabric::register_memory(void*, uint64_t, RemoteKey*, uint64_t*) {
  return error(Code::unsupported,
               "the tcp fabric has no RMA: it places long payloads directly instead");
}
void TcpFabric::deregister_memory(uint64_t) {}
SendResult TcpFabric::put(EndpointId, const void*, RemoteKey, uint64_t, uint64_t, uint64_t) {
  SKERRY_ASSERT(capabilities_.rma, "put on a fabric without RMA");
  return SendResult::closed;
}
SendResult TcpFabric::get(EndpointId, void*, RemoteKey, uint64_t, uint64_t, uint64_t) {
  SKERRY_ASSERT(capabilities_.rma, "get on a fabric without RMA");
  return SendResult::closed;
}

Fabric::Traffic TcpFabric::traffic() const {
  return {bytes_sent_, bytes_received_.load(std::memory_order_relaxed),
          endpoints_.open() - unauthenticated_.size() - held_.size(), unauthenticated_refused_,
          found_late_};
}

namespace {

uint64_t held_bytes(const Receive& r) {
  constexpr uint64_t least_partial = 8;  // until its length is known
  return sizeof r + (r.partial != nullptr ? std::max<uint64_t>(r.partial_need, least_partial) : 0) +
         vector_bytes(r.header) + vector_bytes(r.nowhere) + vector_bytes(r.backlog);
}
uint64_t held_bytes(const Output& o) {
  uint64_t bytes = sizeof o + vector_bytes(o.segments);
  for (const Segment& segment : o.segments) bytes += segment.capacity;
  return bytes;
}
uint64_t held_bytes(const Opening& o) {
  return sizeof o + vector_bytes(o.candidates) + vector_bytes(o.greeting) + 3 * sizeof(void*);
}  // its place in a list

}  // namespace

// What poll may change at the same time is not looked at.
Fabric::Memory TcpFabric::memory() const {
  Memory out;
  out.endpoint_bytes = endpoints_.open() * endpoints_.item_bytes();
  endpoints_.for_each([&](const Endpoint& e) {
    out.endpoint_bytes += (e.receive ? held_bytes(*e.receive) : 0) +
                          (e.output ? held_bytes(*e.output) : 0) +
                          (e.opening ? held_bytes(*e.opening) : 0);
  });
  out.fixed_bytes = sizeof *this + endpoints_.spare_bytes() + buffer_bytes + vector_bytes(events_) +
                    table_bytes(watched_) + vector_bytes(deferred_) + vector_bytes(ready_) +
                    spare_buffers_.size() * output_buffer_bytes +
                    (spare_output_ ? held_bytes(*spare_output_) : 0);
  return out;
}

}  // namespace skerry::fabric::tcp

namespace skerry::fabric {

Status make_tcp_fabric(const Options& options, std::unique_ptr<Fabric>* fabric) {
  auto made = std::make_unique<tcp::TcpFabric>(options);
  SKERRY_TRY(made->start());
  *fabric = std::move(made);
  return {};
}

}  // namespace skerry::fabric
