#include "core/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace skerry {
#ifndef SKERRY_SIMULATED
static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free,
              "the kernel compares these 4 bytes");

// In simulations the simulator's, in lab/sim/runtime.
int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
#endif

int64_t deadline_after(int64_t timeout_ns) {
  if (timeout_ns < 0) return no_deadline;
  const int64_t now_ns = monotonic_ns();
  return timeout_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + timeout_ns;
}

// Of the process, not of a job: a figure for those who look for the bug. Any thread adds; nothing
// else depends on it.
static std::atomic<uint64_t> found_late{0};

void count_if_late(const std::atomic<uint32_t>* word, uint32_t value) {
  constexpr int64_t moment_ns = 20'000'000;
  if (futex_wait(word, value, moment_ns)) found_late.fetch_add(1, std::memory_order_relaxed);
}

uint64_t waits_found_late() { return found_late.load(std::memory_order_relaxed); }

#ifndef SKERRY_SIMULATED
uint32_t usable_cores() {
  // A fact of the machine, found once; binding that changes later only makes a spin a little too
  // long or too short.
  static const uint32_t cores = [] {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    constexpr uint32_t more_than_the_set_holds = CPU_SETSIZE;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return more_than_the_set_holds;
    return static_cast<uint32_t>(CPU_COUNT(&allowed));
  }();
  return cores;
}

uint32_t spin_limit() { return usable_cores() > 1 ? 100u : 0u; }

bool futex_wait(const std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) {
  timespec timeout{};
  timespec* limit = nullptr;
  if (timeout_ns >= 0) {
    timeout.tv_sec = timeout_ns / 1'000'000'000;
    timeout.tv_nsec = timeout_ns % 1'000'000'000;
    limit = &timeout;
  }
  // EAGAIN (the word changed), EINTR and ETIMEDOUT are all "look again", which every caller does.
  return syscall(SYS_futex, word, FUTEX_WAIT, expected, limit, nullptr, 0) != 0 &&
         errno == ETIMEDOUT;
}

void futex_wake(const std::atomic<uint32_t>* word, int32_t count) {
  syscall(SYS_futex, word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}
#endif

}  // namespace skerry
