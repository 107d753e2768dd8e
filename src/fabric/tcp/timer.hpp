// A descriptor that becomes readable at the earliest deadline asked for. Issue side.
#pragma once

#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdint>

namespace skerry::fabric::tcp {

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

}  // namespace skerry::fabric::tcp
