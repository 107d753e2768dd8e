#include "fabric/tcp/endpoints.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/futex.hpp"
#include "core/pure/container_bytes.hpp"

namespace skerry::fabric::tcp {

std::string error_text(int error_number) {
  char text[128];
  return strerror_r(error_number, text, sizeof text);
}

Endpoints::~Endpoints() {
  slots_.for_each([](Endpoint& endpoint) {
    if (endpoint.fd >= 0) ::close(endpoint.fd);
  });
}

Endpoint& Endpoints::add(State state, int fd, int64_t timeout_ns, Line& line, EndpointId* id) {
  Endpoint& endpoint = *slots_.allocate(id);
  endpoint.fd = fd;
  endpoint.state = state;
  endpoint.opening = std::make_unique<Opening>();
  endpoint.opening->deadline_ns = monotonic_ns() + timeout_ns;
  endpoint.opening->place = line.insert(line.end(), *id);
  timer.arm(endpoint.opening->deadline_ns);
  Slots<Endpoint>::publish(&endpoint, *id);
  return endpoint;
}

Endpoint* Endpoints::overdue(const Line& line, int64_t now_ns) {
  Endpoint* const first = line.empty() ? nullptr : find(line.front());
  SKERRY_INVARIANT(first == nullptr || &line_of(*first) == &line, "each stands in its line");
  if (first == nullptr || first->opening->deadline_ns <= now_ns) return first;
  timer.arm(first->opening->deadline_ns);
  return nullptr;
}

Endpoints::Line& Endpoints::line_of(const Endpoint& endpoint) {
  return endpoint.opening->held          ? held
         : endpoint.is_unauthenticated() ? unauthenticated
                                         : connecting;
}

void Endpoints::hold(Endpoint& endpoint) {
  if (endpoint.opening->held) return;
  held.splice(held.end(), line_of(endpoint), endpoint.opening->place);
  endpoint.opening->held = true;
}

void Endpoints::opened(Endpoint& endpoint) {
  SKERRY_INVARIANT(endpoint.opening != nullptr && endpoint.state != State::open, "it opens once");
  line_of(endpoint).erase(endpoint.opening->place);
  endpoint.opening.reset();
  endpoint.state = State::open;
}

bool Endpoints::set_interest(Endpoint& endpoint, uint32_t events) {
  if (endpoint.registered && endpoint.interest == events) return true;
  if (!waiter_.control(endpoint.registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, endpoint.fd, events,
                       endpoint.own_id()))
    return false;
  endpoint.registered = true;
  endpoint.interest = events;
  return true;
}

void Endpoints::set_output_interest(Endpoint& endpoint, bool wanted) {
  const uint32_t events = wanted ? endpoint.interest | EPOLLOUT
                                 : endpoint.interest & ~uint32_t{EPOLLOUT};
  if (endpoint.registered) set_interest(endpoint, events);
  else endpoint.interest = events;
}

void Endpoints::leave_set(Endpoint& endpoint) {
  waiter_.control(EPOLL_CTL_DEL, endpoint.fd, 0, 0);
  endpoint.registered = false;
}

void Endpoints::release(Endpoint& endpoint) {
  if (endpoint.opening != nullptr) line_of(endpoint).erase(endpoint.opening->place);
  if (endpoint.fd >= 0)
    ::close(endpoint.fd);  // leaves the epoll set by itself: the descriptor was never duplicated
  if (endpoint.wake_bytes > 1) raised.erase(endpoint.receive->raised_place);
  static_cast<Connection&>(endpoint) = {};
  endpoint.output_pending.store(false, std::memory_order_relaxed);
  slots_.release(&endpoint);
}

void Endpoints::fail(Endpoint& endpoint, CloseReason reason, std::string_view detail, Sink& sink) {
  SKERRY_ASSERT(!endpoint.is_unauthenticated(), "the caller never got an endpoint of it");
  const EndpointId id = endpoint.own_id();
  release(endpoint);
  sink.on_closed(id, reason, detail);
}

void Endpoints::run_deferred(Sink& sink) {
  std::vector<Deferred> now;
  now.swap(deferred_);
  for (const Deferred& upcall : now) {
    Endpoint* const endpoint = find(upcall.endpoint);
    if (endpoint == nullptr) continue;  // closed meanwhile: no upcall follows a close
    switch (upcall.kind) {
      case Deferred::Kind::sent: sink.on_sent(upcall.endpoint, upcall.cookie); break;
      case Deferred::Kind::writable: sink.on_writable(upcall.endpoint); break;
      case Deferred::Kind::unreachable:
        fail(*endpoint, CloseReason::unreachable, upcall.detail, sink);
        break;
    }
  }
  if (deferred_.empty()) {  // keep the allocation for the next time
    now.clear();
    deferred_.swap(now);
  }
}

namespace {

uint64_t held_bytes(const Receive& r) {
  constexpr uint64_t least_partial = 8;  // until its length is known
  return sizeof r + (r.partial != nullptr ? std::max<uint64_t>(r.partial_need, least_partial) : 0) +
         vector_bytes(r.header) + vector_bytes(r.nowhere) + vector_bytes(r.backlog);
}
uint64_t held_bytes(const Opening& o) {
  return sizeof o + vector_bytes(o.candidates) + vector_bytes(o.greeting) + 3 * sizeof(void*);
}  // its place in a list

}  // namespace

uint64_t held_bytes(const Output& o) {
  uint64_t bytes = sizeof o + vector_bytes(o.segments);
  for (const Segment& segment : o.segments) bytes += segment.capacity;
  return bytes;
}

void Endpoints::add_memory(Fabric::Memory* memory) const {
  memory->endpoint_bytes += slots_.open() * slots_.item_bytes();
  for_each([&](const Endpoint& e) {
    memory->endpoint_bytes += (e.receive ? held_bytes(*e.receive) : 0) +
                              (e.output ? held_bytes(*e.output) : 0) +
                              (e.opening ? held_bytes(*e.opening) : 0);
  });
  memory->fixed_bytes += slots_.spare_bytes() + vector_bytes(deferred_);
}

}  // namespace skerry::fabric::tcp
