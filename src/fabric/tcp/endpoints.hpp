// The connections of a tcp fabric, and what all its parts do to one: arm it, end it, and leave an
// upcall for it to the next dispatch. Issue side, but where it says otherwise.
#pragma once

#include <string>
#include <vector>

#include "fabric/slots.hpp"
#include "fabric/tcp/endpoint.hpp"
#include "fabric/waiter.hpp"

namespace skerry::fabric::tcp {

// The epoll tags of the fabric itself.
constexpr uint64_t tag_timer = 1, tag_listener = 2;

class Endpoints {
 public:
  using Line = std::list<EndpointId>;

  explicit Endpoints(Waiter& waiter) : waiter_(waiter) {}
  ~Endpoints();

  Endpoint* find(EndpointId id) const { return slots_.find(id); }  // progress side as well
  // A connection that is not open yet, at the end of its line (unauthenticated or connecting).
  Endpoint& add(State state, int fd, int64_t deadline_ns, Line& line, EndpointId* id);
  // Our peer, or the caller, has us or it wait as long as it takes.
  void hold(Endpoint& endpoint);
  void opened(Endpoint& endpoint);

  // Arms the epoll events; false: the system has no room.
  bool set_interest(Endpoint& endpoint, uint32_t events);
  // The same while it may have left the set (parked, and the peer hung up): resume puts it back.
  void set_output_interest(Endpoint& endpoint, bool wanted);
  void leave_set(Endpoint& endpoint);

  // Gives everything of the endpoint back; its id finds nothing any more.
  void release(Endpoint& endpoint);
  // The same for one that the caller knows, who is told.
  void fail(Endpoint& endpoint, CloseReason reason, std::string_view detail, Sink& sink);

  // Upcalls that an issue call brought about; performed by the next dispatch.
  void defer_sent(EndpointId id, uint64_t cookie) { defer({id, Deferred::Kind::sent, cookie, {}}); }
  void defer_writable(EndpointId id) { defer({id, Deferred::Kind::writable, 0, {}}); }
  void defer_unreachable(EndpointId id, std::string detail) {
    defer({id, Deferred::Kind::unreachable, 0, std::move(detail)});
  }
  bool any_deferred() const { return !deferred_.empty(); }
  void run_deferred(Sink& sink);
  void leave_work() { waiter_.leave_work(); }

  uint64_t open_to_caller() const { return slots_.open() - unauthenticated.size() - held.size(); }
  template <class Function>
  void for_each(Function function) const {
    slots_.for_each(function);
  }
  void add_memory(Fabric::Memory* memory) const;

  Line unauthenticated;  // oldest first; all have the same time to live
  Line held;        // peers that wait for the caller's answer as long as it takes, and connects of
                    // ours that wait so
  Line connecting;  // oldest first
  Line raised;      // with a raised low-water mark; progress side (see marks.hpp)

 private:
  struct Deferred {
    EndpointId endpoint;
    enum class Kind { sent, writable, unreachable } kind;
    uint64_t cookie;     // sent only
    std::string detail;  // unreachable only
  };
  void defer(Deferred upcall) {
    deferred_.push_back(std::move(upcall));
    waiter_.leave_work();
  }
  Line& line_of(const Endpoint& endpoint);

  Waiter& waiter_;
  Slots<Endpoint> slots_;
  std::vector<Deferred> deferred_;
};

// Keeps the beginning of a frame or greeting until the rest is here. A frame's prefix was found
// plausible.
void keep_partial(Endpoint& endpoint, const std::byte* data, uint64_t bytes, bool greeting);
// What is behind a parked message.
void keep_backlog(Endpoint& endpoint, Bytes first, Bytes second);

std::string error_text(int error_number);

}  // namespace skerry::fabric::tcp
