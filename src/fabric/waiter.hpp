// Waiter: how every fabric sleeps and is woken. An epoll set holds a descriptor for wake, those
// that the caller watches, and the fabric's own.
//
// Between an issue call that leaves work for dispatch and a thread that is about to sleep, Dekker's
// way. begin_poll says that we sleep, then looks for work; leave_work adds work, then looks for
// sleepers.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <span>
#include <unordered_set>

#include "fabric/fabric.hpp"

namespace skerry::fabric {

class Waiter {
 public:
  static constexpr int max_events = 64;
  // Tags of events. Below 16 all but tag_wake are the fabric's own; an endpoint's id has a
  // generation of at least 1 in the upper half.
  static constexpr uint64_t tag_wake = 0, tag_watch_base = 16;

  Waiter() = default;
  Waiter(const Waiter&) = delete;
  ~Waiter();
  Status open(std::string_view fabric);  // Errors: network
  // Adds or changes what is waited for; false: errno says why.
  bool control(int operation, int fd, uint32_t events, uint64_t tag);

  // Issue calls.
  Status watch(int fd);
  void unwatch(int fd);
  void leave_work();  // dispatch has something to do: poll returns at once

  // Any thread.
  void wake();

  // Poll: between begin_poll, which answers whether there is work already, and end_poll it may look
  // and sleep.
  bool has_events() const { return event_count_ > 0; }
  bool begin_poll();
  bool is_woken() const { return woken_.load(std::memory_order_relaxed); }
  int look() { return sleep(0); }  // epoll's answer, as for the next one
  int sleep(int64_t timeout_ns);  // negative: no limit
  void end_poll() { polling_.store(false, std::memory_order_relaxed); }

  // Await: a second epoll set of which the first is the only member. A sleeper there takes no
  // events, and `blind` makes the first silent with one system call.
  bool open_await();
  bool blind(bool blind);
  bool is_blind() const { return blind_.load(std::memory_order_relaxed); }
  bool await(int64_t timeout_ns);  // negative: no limit; has anything come?

  // Dispatch: the events are taken once, and end_dispatch says whether work is left.
  void begin_dispatch() { dispatching_ = true; }
  bool has_work() const { return work_pending_.load(std::memory_order_relaxed); }
  std::span<const epoll_event> take_events();
  // If it is a wake or a watched descriptor.
  void handle(uint64_t tag, Sink& sink);
  void end_dispatch(bool work_left);

  uint64_t heap_bytes() const;

 private:
  static int sleep_in(int fd, std::span<epoll_event> events, int64_t timeout_ns);

  int epoll_fd_ = -1;
  int await_fd_ = -1;                // an epoll set with epoll_fd_ in it; -1: not opened
  int wake_fd_ = -1;                 // eventfd
  std::unordered_set<int> watched_;  // issue lock
  bool dispatching_ = false;         // issue lock
  std::atomic<bool> work_pending_{false};
  std::atomic<bool> polling_{false};  // poll sleeps or is about to
  std::atomic<bool> blind_{false};    // await_fd_ sees nothing
  std::atomic<bool> woken_{false};    // wake_fd_ was written and not yet drained
  // Progress side: by poll, for the next dispatch.
  std::array<epoll_event, max_events> events_;
  int event_count_ = 0;
};

}  // namespace skerry::fabric
