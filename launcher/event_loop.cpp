#include "launcher/event_loop.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/pure/assert.hpp"

namespace skerry::launcher {

EventLoop::EventLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  SKERRY_ASSERT(epoll_, "epoll_create1 works");
}

bool EventLoop::watch(int fd, uint32_t events, Handler handler) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    SKERRY_ASSERT(errno == EPERM, "only a file that is always ready cannot be watched");
    return false;
  }
  handlers_[fd] = std::make_shared<Handler>(std::move(handler));
  return true;
}

void EventLoop::change(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  SKERRY_ASSERT(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0,
                "a watched descriptor can be changed");
}

void EventLoop::forget(int fd) {
  if (handlers_.erase(fd) > 0) (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::TimerId EventLoop::after(std::chrono::milliseconds delay, std::function<void()> action) {
  timers_.emplace(Clock::now() + delay, Timer{++last_timer_, std::move(action)});
  return last_timer_;
}

void EventLoop::cancel(TimerId timer) {
  const auto found = std::find_if(timers_.begin(), timers_.end(),
                                  [&](const auto& entry) { return entry.second.id == timer; });
  if (found != timers_.end()) timers_.erase(found);
}

int EventLoop::until_next_timer_ms() const {
  if (timers_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first -
                                                                 Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

void EventLoop::run_due_timers() {
  while (!stopped_ && !timers_.empty() && timers_.begin()->first <= Clock::now()) {
    const auto action = std::move(timers_.begin()->second.action);
    timers_.erase(timers_.begin());
    action();
  }
}

int EventLoop::run() {
  stopped_ = false;
  while (!stopped_) {
    std::array<epoll_event, 64> events;
    const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 until_next_timer_ms());
    SKERRY_ASSERT(ready >= 0 || errno == EINTR, "epoll_wait works");
    for (int i = 0; i < ready && !stopped_; ++i) {
      const auto& event = events[static_cast<size_t>(i)];
      // An earlier handler of this batch may have forgotten the descriptor. (If it also opened
      // another under the same number, the event is spurious, which every handler allows for: all
      // reads are non-blocking.)
      const auto found = handlers_.find(event.data.fd);
      if (found == handlers_.end()) continue;
      const auto handler = found->second;
      (*handler)(event.events);
    }
    run_due_timers();
  }
  return result_;
}

void EventLoop::stop(int result) {
  stopped_ = true;
  result_ = result;
}

}  // namespace skerry::launcher
