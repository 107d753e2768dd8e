#include "fabric/waiter.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "core/pure/container_bytes.hpp"

namespace skerry::fabric {

Waiter::~Waiter() {
  if (wake_fd_ >= 0) ::close(wake_fd_);
  if (await_fd_ >= 0) ::close(await_fd_);
  if (epoll_fd_ >= 0) ::close(epoll_fd_);
}

Status Waiter::open(std::string_view fabric) {
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_fd_ >= 0 && wake_fd_ >= 0 && control(EPOLL_CTL_ADD, wake_fd_, EPOLLIN, tag_wake))
    return {};
  return error(Code::network, "cannot open the descriptors of the fabric ", fabric, ": error ",
               errno, "; raise the limit of open files (ulimit -n)");
}

bool Waiter::control(int operation, int fd, uint32_t events, uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  return epoll_ctl(epoll_fd_, operation, fd, &event) == 0;
}

Status Waiter::watch(int fd) {
  if (!control(EPOLL_CTL_ADD, fd, EPOLLIN, tag_watch_base + static_cast<uint64_t>(fd)) &&
      errno != EEXIST)
    return error(Code::internal, "cannot watch descriptor ", fd, ": error ", errno);
  watched_.insert(fd);
  return {};
}

void Waiter::unwatch(int fd) {
  if (watched_.erase(fd) != 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

void Waiter::leave_work() {
  if (dispatching_) return;  // its end looks
  work_pending_.store(true, std::memory_order_seq_cst);
  if (polling_.load(std::memory_order_seq_cst)) wake();
}

// One write per sleep is enough: the mark is cleared after the descriptor was drained.
void Waiter::wake() {
  if (woken_.exchange(true, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;  // cannot fail but by overflow, which wakes as well
  [[maybe_unused]] const ssize_t n = write(wake_fd_, &one, sizeof one);
}

bool Waiter::begin_poll() {
  polling_.store(true, std::memory_order_seq_cst);
  return work_pending_.load(std::memory_order_seq_cst);
}

int Waiter::sleep_in(int fd, std::span<epoll_event> events, int64_t timeout_ns) {
  const auto most = static_cast<int>(events.size());
  if (timeout_ns > 0 && timeout_ns < 100'000'000) {
    const timespec timeout{0, timeout_ns};
    const int count = epoll_pwait2(fd, events.data(), most, &timeout, nullptr);
    // Kernels before 5.11 have none, and filters of system calls may refuse it in their own way.
    if (count >= 0 || errno == EINTR) return count;
  }
  // Milliseconds do; rounded up so that a deadline has passed when we return.
  const int timeout_ms = timeout_ns < 0 ? -1
                                        : static_cast<int>(std::min<int64_t>(
                                              (timeout_ns + 999'999) / 1'000'000, INT32_MAX));
  return epoll_wait(fd, events.data(), most, timeout_ms);
}

int Waiter::sleep(int64_t timeout_ns) {
  const int count = sleep_in(epoll_fd_, events_, timeout_ns);
  event_count_ = std::max(count, 0);  // EINTR: nothing found, the caller looks again
  return count;
}

bool Waiter::open_await() {
  await_fd_ = epoll_create1(EPOLL_CLOEXEC);
  epoll_event first{};
  first.events = EPOLLIN;
  return await_fd_ >= 0 && epoll_ctl(await_fd_, EPOLL_CTL_ADD, epoll_fd_, &first) == 0;
}

bool Waiter::blind(bool blind) {
  epoll_event first{};
  first.events = blind ? 0U : uint32_t{EPOLLIN};
  if (epoll_ctl(await_fd_, EPOLL_CTL_MOD, epoll_fd_, &first) != 0) return false;
  blind_.store(blind, std::memory_order_relaxed);
  return true;
}

bool Waiter::await(int64_t timeout_ns) {
  epoll_event one;
  return sleep_in(await_fd_, {&one, 1}, timeout_ns) > 0;
}

std::span<const epoll_event> Waiter::take_events() {
  return {events_.data(), static_cast<size_t>(std::exchange(event_count_, 0))};
}

void Waiter::handle(uint64_t tag, Sink& sink) {
  if (tag == tag_wake) {
    uint64_t value;
    [[maybe_unused]] const ssize_t n = read(wake_fd_, &value, sizeof value);
    woken_.store(false, std::memory_order_seq_cst);
  } else if (tag >= tag_watch_base && tag >> 32 == 0) {
    const auto fd = static_cast<int>(tag - tag_watch_base);
    if (watched_.contains(fd)) sink.on_watched(fd);  // else unwatched earlier in this dispatch
  }
}

void Waiter::end_dispatch(bool work_left) {
  work_pending_.store(work_left, std::memory_order_seq_cst);
  dispatching_ = false;
}

uint64_t Waiter::heap_bytes() const { return table_bytes(watched_); }

}  // namespace skerry::fabric
