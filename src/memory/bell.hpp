// Doorbells wake a rank that sleeps until one of its counters grows. The counter itself is user
// memory. The rank sleeps on its doorbell (`bell`) in the control segment. So adding to a counter
// without a waiter costs no system call.
//
// Ringer: counter += n; fence; look at bell_sleepers; if any: bell += 1, wake.
// Sleeper: bell_sleepers += 1; fence; remember bell; look at the counter; sleep while bell is
// unchanged. The two fences are sequentially consistent, so at least one side sees the other: a
// sleeper that missed the counter is seen by the ringer.
#pragma once

#include "core/futex.hpp"
#include "memory/control.hpp"

namespace skerry::memory {

inline void ring(Member& member) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (member.bell_sleepers.load(std::memory_order_relaxed) == 0) return;
  member.bell.fetch_add(1, std::memory_order_release);
  futex_wake(&member.bell, INT32_MAX, Sharing::node);
}

// Sleeps until ready() (which looks at the counter), the deadline or the end of the job.
template <class Ready>
WaitResult wait_bell(Member& member, const std::atomic<uint32_t>* abort, int64_t deadline_ns,
                     Ready&& ready) {
  if (ready()) return WaitResult::reached;
  member.bell_sleepers.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  WaitResult result = WaitResult::reached;
  for (;;) {
    const uint32_t heard = member.bell.load(std::memory_order_acquire);
    if (ready()) break;
    if (abort != nullptr && abort->load(std::memory_order_acquire) != 0) {
      result = WaitResult::aborted;
      break;
    }
    int64_t slice_ns = wait_slice_ns;
    if (deadline_ns != no_deadline) {
      const int64_t left_ns = deadline_ns - monotonic_ns();
      if (left_ns <= 0) {
        result = WaitResult::timeout;
        break;
      }
      if (left_ns < slice_ns) slice_ns = left_ns;
    }
    futex_wait(&member.bell, heard, slice_ns, Sharing::node);
  }
  member.bell_sleepers.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

}  // namespace skerry::memory
