// The connections of a tcp fabric, and what all its parts do to one: arm it, end it, and leave an
// upcall for it to the next dispatch. An idle one is the Endpoint alone: everything else exists
// only while it is needed.
//
// Two owners: the issue side (the thread that holds the issue lock) and the progress side (the
// thread that holds the progress role). The issue side, where nothing else is said.
#pragma once

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "fabric/slots.hpp"
#include "fabric/tcp/address.hpp"
#include "fabric/waiter.hpp"

namespace skerry::fabric::tcp {

enum class State : uint8_t {
  connecting,      // our connect is under way in the kernel
  awaiting_reply,  // our greeting is sent, the peer's accept is not here yet
  greeting,        // an unauthenticated peer: has not said its whole hello
  asking,          // an unauthenticated peer that said hello; the caller has not answered
  open,
};

// Receive state of a connection that is in the middle of something. Progress side only.
struct Receive {
  // A started frame (or greeting): its first `partial_have` bytes. null: none.
  std::unique_ptr<std::byte[]> partial;
  uint32_t partial_have = 0;
  uint32_t partial_need = 0;  // bytes until it can be delivered; 0: not known yet (fewer than 8
                              // bytes seen, or a greeting)
  // A long payload on its way into the caller's memory. null: none.
  std::byte* destination = nullptr;
  uint64_t placed_bytes = 0;
  uint64_t payload_bytes = 0;      // whole payload bytes; kept while placed_parked
  std::vector<std::byte> header;   // of the message that is placed directly
  std::vector<std::byte> nowhere;  // where its payload goes since divert; empty: not diverted
  bool placed_parked = false;      // on_placed answered park: call it again after unpark
  bool parked = false;             // nothing may be delivered until unpark
  // In the fabric's list of raised marks; only while the endpoint's wake_bytes is above 1.
  std::list<EndpointId>::iterator raised_place;
  // Received, but behind the parked message: whole frames and perhaps a started one.
  std::vector<std::byte> backlog;
  uint64_t backlog_done = 0;  // bytes of backlog consumed

  bool idle() const {
    return partial == nullptr && destination == nullptr && !placed_parked && !parked &&
           backlog.empty();
  }
};

// A piece of output: owned bytes or a caller's long payload.
struct Segment {
  std::unique_ptr<std::byte[]> owned;  // null: a reference to the caller's payload
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t capacity = 0;  // of owned
  uint64_t cookie = 0;    // for on_sent; references only
  bool last = true;       // of a reference in several parts: on_sent follows it
};

// Output that the socket has not taken yet. Issue side only.
struct Output {
  std::vector<Segment> segments;
  size_t first = 0;              // segments before it are done
  uint64_t first_done = 0;       // bytes of segments[first] already written
  uint64_t bytes = 0;            // unsent in all
  bool blocked = false;          // the socket said EAGAIN: EPOLLOUT is armed
  bool writable_wanted = false;  // a send was answered would_block
};

uint64_t held_bytes(const Output& output);  // with what its segments own

// A connection that is not open yet. Issue side and dispatch.
struct Opening {
  int64_t deadline_ns = 0;
  std::list<EndpointId>::iterator
      place;  // in the fabric's list of connects, of unauthenticated peers or of held requests
  bool held = false;                      // in the last
  std::vector<SocketAddress> candidates;  // connects only
  size_t next_candidate = 0;
  std::vector<std::byte> greeting;  // connects only: what to send once connected
};

// One connection; as it is here before it begins and after it ended.
struct Connection {
  std::unique_ptr<Receive> receive;  // null: nothing started
  std::unique_ptr<Output> output;    // null: nothing unsent
  std::unique_ptr<Opening> opening;  // null: open
  int64_t receive_timeout_ns = 0;    // SO_RCVTIMEO as set; 0: none. Progress side
  int fd = -1;
  uint32_t interest = 0;   // epoll events armed; issue lock
  int32_t send_error = 0;  // errno of a failed send (0: none): the receive side reports it once its
                           // data is read; issue lock
  int wake_bytes = 1;      // SO_RCVLOWAT as set. Progress side
  uint16_t most_mark_kib = 0;  // a low-water mark that its receive window reaches, as last asked;
                               // 0: not asked yet. Progress side
  State state = State::connecting;  // issue lock; read by poll for an id that it was given
  bool registered = false;          // in the epoll set; issue lock
  uint8_t short_reads = 0;  // so many reads take little beside a payload that place_inline placed:
                            // more such may follow. Progress side
  bool send_bounded = false;  // its send buffer was made small for long payloads; issue lock
  bool overdue = false;  // the last look found it ready and no event has come since. Progress side

  bool is_unauthenticated() const { return state == State::greeting || state == State::asking; }
  bool is_parked() const { return receive != nullptr && receive->parked; }
  Receive& started() {
    if (receive == nullptr) receive = std::make_unique<Receive>();
    return *receive;
  }
};

struct Endpoint : Connection {
  std::atomic<bool> output_pending{false};  // unsent output waits for EPOLLOUT: poll must not block
                                            // in recv. Written by the issue side
  std::atomic<uint64_t> id{0};              // see Slots

  EndpointId own_id() const { return id.load(std::memory_order_relaxed); }
  bool is_gone(EndpointId was) const { return own_id() != was; }  // closed by an upcall
};
static_assert(sizeof(Endpoint) <= 64, "an idle connection costs one cache line of ours");

// A descriptor that becomes readable at the earliest deadline asked for.
class Timer {
 public:
  ~Timer() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool open() {
    fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return fd_ >= 0;
  }
  int fd() const { return fd_; }
  void arm(int64_t deadline_ns) {
    if (deadline_ns_ != 0 && deadline_ns_ <= deadline_ns) return;
    deadline_ns_ = deadline_ns;
    itimerspec when{};
    when.it_value = {deadline_ns / 1'000'000'000, deadline_ns % 1'000'000'000};
    timerfd_settime(fd_, TFD_TIMER_ABSTIME, &when, nullptr);
  }
  // It was readable: those whose deadline has not come arm it anew.
  void fired() {
    uint64_t expirations;
    [[maybe_unused]] const ssize_t n = read(fd_, &expirations, sizeof expirations);
    deadline_ns_ = 0;
  }

 private:
  int fd_ = -1;
  int64_t deadline_ns_ = 0;  // 0: not armed
};

// The epoll tags of the fabric itself.
constexpr uint64_t tag_timer = 1, tag_listener = 2;

class Endpoints {
 public:
  using Line = std::list<EndpointId>;

  explicit Endpoints(Waiter& waiter) : waiter_(waiter) {}
  ~Endpoints();

  Endpoint* find(EndpointId id) const { return slots_.find(id); }  // progress side as well
  // A connection that is not open yet, at the end of its line (unauthenticated or connecting), with
  // so much time to open.
  Endpoint& add(State state, int fd, int64_t timeout_ns, Line& line, EndpointId* id);
  // The first of a line if its time is over; otherwise null, and the timer tells when it is.
  Endpoint* overdue(const Line& line, int64_t now_ns);
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
  Timer timer;      // the earliest deadline of unauthenticated peers and connects

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

std::string error_text(int error_number);

}  // namespace skerry::fabric::tcp
