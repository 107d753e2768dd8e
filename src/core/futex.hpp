// Waiting on a 32-bit word, of memory that processes may share: a short spin, then sleep in slices,
// watching for the end of the job.
//
// Why slices: a process can be killed between its store and its wake, and the wake is lost with it.
// So a sleeper checks the abort flag at least every `slice_ns`. Nothing waits for a dead peer for
// ever.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace skerry {

enum class WaitResult : uint8_t { reached, timeout, aborted };

constexpr int64_t no_deadline = -1;
constexpr int64_t wait_slice_ns = 200'000'000;

int64_t monotonic_ns();
// The deadline `timeout_ns` from now; no_deadline for a negative timeout.
int64_t deadline_after(int64_t timeout_ns);

// How many cores this process may run on.
uint32_t usable_cores();
// Iterations of a spin before sleeping: about 100. None on a machine (or affinity mask) of one
// core, where the awaited thread cannot run meanwhile.
uint32_t spin_limit();

inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Spins before a sleep, on an idle core: it yields to other runnable threads at every turn. A yield
// that took longer than the whole spin may went to a thread that computes, or to several that send
// and receive. If nothing is ready after it, or it took a time slice, some thread computes: no
// event could bring this thread back. Then spins make a single turn without a yield, for a multiple
// of the time lost. One object per kind of wait. Any number of threads may share it: the end of the
// rest is a hint that each may overwrite. See docs/design/0021-spinning-on-idle-cores.md.
class IdleCoreSpin {
 public:
  // Spins up to `longest_ns`, with `looks` looks a turn. Returns the last result of ready().
  template <int looks = 32, class Ready>
  bool spin(Ready&& ready, int64_t longest_ns) {
    return turns<looks>(ready, longest_ns);
  }
  // The same where the awaited thread probably needs this core: it gets it after each look.
  template <class Ready>
  bool give_way(Ready&& ready, int64_t longest_ns) {
    return turns<1>(ready, longest_ns);
  }

 private:
  template <int looks, class Ready>
  bool turns(Ready&& ready, int64_t longest_ns) {
    int64_t now_ns = monotonic_ns();
    const int64_t end_ns = now_ns + longest_ns;
    const bool resting = now_ns < rest_until_ns_.load(std::memory_order_relaxed);
    for (;;) {
      for (int i = 0; i < looks; ++i) {
        if (ready()) return true;
        if constexpr (looks > 1) spin_pause();
      }
      if (resting || now_ns >= end_ns) return false;
      const int64_t before_ns = now_ns;
      sched_yield();
      now_ns = monotonic_ns();
      const int64_t lost_ns = now_ns - before_ns;
      if (lost_ns <= std::max(longest_ns, moment_ns)) continue;
      const bool is_ready = ready();
      if (!is_ready || lost_ns >= slice_ns)
        rest_until_ns_.store(now_ns + rest_factor * std::min(lost_ns, longest_lost_ns),
                             std::memory_order_relaxed);
      return is_ready;
    }
  }

  static constexpr int64_t moment_ns = 20'000;  // a spin may have less time left
  static constexpr int64_t slice_ns = 1'000'000;  // the shortest that a computing thread has
  static constexpr int64_t longest_lost_ns = 100'000'000;  // the process may have been stopped
  static constexpr int64_t rest_factor = 10;
  std::atomic<int64_t> rest_until_ns_{0};
};

// Sleeps if *word still equals `expected`, until woken, `timeout_ns` (negative: no limit) passed,
// or for no reason at all. True: until the time had passed.
bool futex_wait(const std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns);
// Wakes up to `count` sleepers. A system call even if there are none: callers that care keep a
// waiters bit.
void futex_wake(const std::atomic<uint32_t>* word, int32_t count);

// *word now has `value`, and nobody woke its sleeper in a whole slice. Counts that in
// waits_found_late() if no wake-up comes for a moment more: it may have been on its way.
void count_if_late(const std::atomic<uint32_t>* word, uint32_t value);
// Sleeps of this process that a wake-up should have ended, and a look after the slice did. More
// than 0 is a bug, here or in the kernel.
uint64_t waits_found_late();

// Waits until reached(value of *word) is true, the deadline (monotonic clock; no_deadline) passed,
// or *abort (may be null) is not 0. A thread that changes the word must futex_wake it. A word that
// satisfies the predicate counts as reached, even after the deadline or an abort.
//
// No wake-up is lost: the value that the predicate rejected is the one futex_wait compares with, so
// a change between the two makes futex_wait return at once. The load is an acquire: what was
// written before the word is visible to the caller.
template <class Predicate>
WaitResult wait_until(const std::atomic<uint32_t>* word, Predicate&& reached, int64_t deadline_ns,
                      const std::atomic<uint32_t>* abort) {
  uint32_t value = word->load(std::memory_order_acquire);
  if (reached(value)) return WaitResult::reached;
  for (uint32_t i = spin_limit(); i > 0; --i) {
    spin_pause();
    value = word->load(std::memory_order_acquire);
    if (reached(value)) return WaitResult::reached;
  }
  for (;;) {
    if (abort != nullptr && abort->load(std::memory_order_acquire) != 0) return WaitResult::aborted;
    int64_t slice_ns = wait_slice_ns;
    if (deadline_ns != no_deadline) {
      const int64_t left_ns = deadline_ns - monotonic_ns();
      if (left_ns <= 0) return WaitResult::timeout;
      if (left_ns < slice_ns) slice_ns = left_ns;
    }
    const bool slept_out = futex_wait(word, value, slice_ns);
    value = word->load(std::memory_order_acquire);
    if (!reached(value)) continue;
    // A shorter slice ends with the caller's deadline, often just as the word changes.
    if (slept_out && slice_ns == wait_slice_ns) count_if_late(word, value);
    return WaitResult::reached;
  }
}

}  // namespace skerry
