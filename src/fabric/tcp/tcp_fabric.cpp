#include "fabric/tcp/tcp_fabric.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace skerry::fabric::tcp {

TcpFabric::TcpFabric(const Options& options) : options_(options) {
  capabilities_.direct_placement = true;
  capabilities_.early_messages = true;
  capabilities_.connection_bytes = tcp_connection_bytes;
  capabilities_.max_payload_bytes = max_payload_bytes;
}

Status TcpFabric::start() {
  SKERRY_TRY(waiter_.open(name()));
  if (endpoints_.timer.open() && opener_.open() &&
      waiter_.control(EPOLL_CTL_ADD, endpoints_.timer.fd(), EPOLLIN, tag_timer))
    return {};
  return error(Code::network, "cannot open the descriptors of a tcp fabric: ", error_text(errno),
               "; raise the limit of open files (ulimit -n)");
}

// --- issue calls -------------------------------------------------------------------------------

SendResult TcpFabric::flush(EndpointId id) {
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr) return SendResult::closed;
  if (endpoint->state == State::connecting && endpoint->send_error == 0) opener_.at_once(*endpoint);
  return sender_.flush(*endpoint);
}

uint64_t TcpFabric::unsent_bytes(EndpointId id) const {
  const Endpoint* const endpoint = endpoints_.find(id);
  return endpoint == nullptr || endpoint->output == nullptr ? 0 : endpoint->output->bytes;
}

// --- poll --------------------------------------------------------------------------------------

void TcpFabric::poll(int64_t timeout_ns, EndpointId only) {
  if (receiver_.has_received() || waiter_.has_events()) return;  // not dispatched yet
  if (waiter_.begin_poll()) timeout_ns = 0;
  slept_in_vain_ = told_all_ = false;
  if (!blocks_on(only, timeout_ns)) {
    int count = 0;
    const auto came = [&] { return (count = waiter_.look()) != 0; };
    const int64_t spin_ns = timeout_ns < 0 ? longest_spin_ns
                                           : std::min(timeout_ns, longest_spin_ns);
    if (timeout_ns == 0 || !idle_core_spin_.spin<looks_a_turn>(came, spin_ns))
      count = waiter_.sleep(marks_.until_look_ns(timeout_ns));
    const bool awaited_in_vain = awaited_in_vain_.exchange(false, std::memory_order_relaxed);
    slept_in_vain_ = count == 0 && (timeout_ns != 0 || awaited_in_vain);
    told_all_ = count >= 0 && count < Waiter::max_events;
    look_at_all_ns_ = monotonic_ns() + longest_blind_ns;
  }
  waiter_.end_poll();
}

// --- await -------------------------------------------------------------------------------------

// What a turn leaves for the next one is there before the turn ends. So a thread that goes to sleep
// after its own turn sees it, and end_blindness wakes it for what another thread's turns left.
void TcpFabric::await(int64_t timeout_ns) {
  if (timeout_ns == 0 || waiter_.has_work()) return;
  const int64_t look_ns = look_in_ns_.load(std::memory_order_relaxed);
  if (look_ns >= 0) timeout_ns = timeout_ns < 0 ? look_ns : std::min(timeout_ns, look_ns);
  bool came = false;
  const auto is_over = [&] { return (came = waiter_.await(0)) || waiter_.is_blind(); };
  const int64_t spin_ns = timeout_ns < 0 ? longest_spin_ns : std::min(timeout_ns, longest_spin_ns);
  (void)idle_core_spin_.spin<looks_a_turn>(is_over, spin_ns);
  if (!came) came = waiter_.await(timeout_ns);
  awaited_in_vain_.store(!came, std::memory_order_relaxed);
}

void TcpFabric::end_blindness(int64_t due_ns) {
  if (due_ns >= 0) endpoints_.timer.arm(due_ns);
  (void)waiter_.blind(false);
  if (waiter_.has_work() || marks_.any_raised()) waiter_.wake();
}

// Not for ever: what `only` is waited for may depend on a message that another connection lost when
// it broke. Unsent output needs EPOLLOUT; a parked endpoint must not be read. With a raised mark
// recv takes less than that, sleeps on, and is not woken for the tail, which is shorter.
bool TcpFabric::blocks_on(EndpointId only, int64_t timeout_ns) {
  if (only == no_endpoint || timeout_ns == 0 || monotonic_ns() >= look_at_all_ns_) return false;
  Endpoint* const endpoint = endpoints_.find(only);
  if (endpoint == nullptr || endpoint->state != State::open || endpoint->wake_bytes != 1 ||
      endpoint->output_pending.load(std::memory_order_relaxed) || endpoint->is_parked())
    return false;
  receiver_.block(*endpoint, only,
                  timeout_ns < 0 ? longest_block_ns : std::min(timeout_ns, longest_block_ns),
                  idle_core_spin_);
  return true;
}

// --- dispatch ----------------------------------------------------------------------------------

void TcpFabric::dispatch(Sink& sink) {
  waiter_.begin_dispatch();
  if (receiver_.has_received()) receiver_.take_received(sink);
  if (waiter_.has_work()) {
    receiver_.run_unparked(sink);
    endpoints_.run_deferred(sink);
  }
  const std::span<const epoll_event> events = waiter_.take_events();
  receiver_.share_turn_among(events.size());
  for (const epoll_event& event : events) handle_event(event, sink);
  receiver_.share_turn_among(1);
  if (told_all_ && (slept_in_vain_ || marks_.any_raised()))
    marks_.look(slept_in_vain_, [&](const epoll_event& event) { handle_event(event, sink); });
  if (endpoints_.any_deferred()) endpoints_.run_deferred(sink);
  look_in_ns_.store(marks_.until_look_ns(-1), std::memory_order_relaxed);
  waiter_.end_dispatch(endpoints_.any_deferred() || receiver_.any_unparked());
}

void TcpFabric::handle_event(const epoll_event& event, Sink& sink) {
  const uint64_t tag = event.data.u64;
  if (tag >> 32 != 0) {
    if (Endpoint* const endpoint = endpoints_.find(tag))  // else closed earlier in this dispatch
      handle_endpoint(*endpoint, event.events, sink);
  } else if (tag == tag_listener) {
    opener_.take(sink);
  } else if (tag == tag_timer) {
    endpoints_.timer.fired();
    opener_.expire(sink);
  } else {
    waiter_.handle(tag, sink);
  }
}

void TcpFabric::handle_endpoint(Endpoint& endpoint, uint32_t events, Sink& sink) {
  endpoint.overdue = false;
  switch (endpoint.state) {
    case State::connecting: return opener_.progress(endpoint, sink);
    case State::greeting:
    case State::asking: return opener_.read(endpoint, sink);
    case State::awaiting_reply:
    case State::open: break;
  }
  if ((events & EPOLLOUT) != 0 && endpoint.output != nullptr) {
    const EndpointId id = endpoint.own_id();
    sender_.write_output(endpoint);
    endpoints_.run_deferred(sink);
    if (endpoint.is_gone(id)) return;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) == 0) return;
  if (endpoint.is_parked()) leave_unread(endpoint, events);
  else receiver_.take(endpoint, sink);
}

// Level triggered: disarm, or poll would not sleep. HUP and ERR cannot be disarmed but by leaving
// the set; unpark comes back.
void TcpFabric::leave_unread(Endpoint& endpoint, uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) endpoints_.leave_set(endpoint);
  else endpoints_.set_interest(endpoint, endpoint.interest & ~uint32_t{EPOLLIN});
}

void TcpFabric::close(EndpointId id) {
  sender_.before_close(id);
  if (Endpoint* const endpoint = endpoints_.find(id)) endpoints_.release(*endpoint);
}

// With a reset: one packet ends the connection instead of four, and no side keeps a record of it
// for a minute, as TIME_WAIT would. What the peer has received it may still read.
void TcpFabric::close_drained(EndpointId id) {
  const Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint != nullptr && endpoint->state == State::open) {
    const linger at_once{1, 0};
    setsockopt(endpoint->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  close(id);
}

// --- figures -----------------------------------------------------------------------------------

Fabric::Traffic TcpFabric::traffic() const {
  return {sender_.bytes_sent(), receiver_.bytes_received(), endpoints_.open_to_caller(),
          opener_.refused(), marks_.found_late()};
}

// What poll may change at the same time is not looked at.
Fabric::Memory TcpFabric::memory() const {
  Memory out;
  endpoints_.add_memory(&out);
  out.fixed_bytes += sizeof *this + sender_.heap_bytes() + receiver_.heap_bytes() +
                     waiter_.heap_bytes();
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
