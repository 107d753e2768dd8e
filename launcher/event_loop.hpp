// One thread that sleeps until a descriptor or a deadline has something for it. Nothing wakes it
// periodically.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "launcher/unique_fd.hpp"

namespace skerry::launcher {

class EventLoop {
 public:
  using Handler = std::function<void(uint32_t events)>;  // EPOLLIN, EPOLLOUT, ...
  using Clock = std::chrono::steady_clock;
  using TimerId = uint64_t;  // 0: no timer

  EventLoop();

  // Calls `handler` whenever `fd` has one of `events` (level-triggered; 0: only errors and
  // hang-up). False if the kernel cannot watch such a file: it is always ready (a regular file).
  // The owner must forget the descriptor before closing it.
  bool watch(int fd, uint32_t events, Handler handler);
  void change(int fd, uint32_t events);
  void forget(int fd);

  TimerId after(std::chrono::milliseconds delay, std::function<void()> action);
  // Does nothing for 0 or a timer that has run.
  void cancel(TimerId timer);

  // Runs handlers until stop(); returns what stop() was given.
  int run();
  void stop(int result);

 private:
  struct Timer {
    TimerId id;
    std::function<void()> action;
  };
  int until_next_timer_ms() const;
  void run_due_timers();

  UniqueFd epoll_;
  // Shared, so that a handler may forget its own descriptor while it runs.
  std::unordered_map<int, std::shared_ptr<Handler>> handlers_;
  std::multimap<Clock::time_point, Timer> timers_;
  TimerId last_timer_ = 0;
  bool stopped_ = false;
  int result_ = 0;
};

}  // namespace skerry::launcher
