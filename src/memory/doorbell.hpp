// Doorbells wake a rank that sleeps until one of its counters grows. The counter itself is user
// memory. The rank sleeps on its doorbell in the control segment. So adding to a counter
// without a waiter costs no system call.
//
// Ringer: counter += n; fence; look at doorbell_sleepers; if any: doorbell += 1, wake.
// Sleeper: doorbell_sleepers += 1; fence; remember doorbell; look at the counter; sleep while
// doorbell is unchanged. The two fences are sequentially consistent, so at least one side sees the
// other: a sleeper that missed the counter is seen by the ringer.
#pragma once

#include "core/futex.hpp"
#include "core/pure/assert.hpp"
#include "memory/control.hpp"

namespace skerry::memory {

inline void ring_doorbell(Member& member) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (member.doorbell_sleepers.load(std::memory_order_relaxed) == 0) return;
  member.doorbell.fetch_add(1, std::memory_order_release);
  futex_wake(&member.doorbell, INT32_MAX);
}

// Sleeps until ready() (which looks at the counter), the deadline or the end of the job.
template <class Ready>
WaitResult wait_doorbell(Member& member, const std::atomic<uint32_t>* abort, int64_t deadline_ns,
                         Ready&& ready) {
  if (ready()) return WaitResult::reached;
  member.doorbell_sleepers.fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  WaitResult result = WaitResult::reached;
  for (;;) {
    const uint32_t heard = member.doorbell.load(std::memory_order_acquire);
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
    const bool slept_out = futex_wait(&member.doorbell, heard, slice_ns);
    const uint32_t now = member.doorbell.load(std::memory_order_acquire);
    if (slept_out && now != heard && slice_ns == wait_slice_ns)
      count_if_late(&member.doorbell, now);
  }
  const uint32_t sleepers = member.doorbell_sleepers.fetch_sub(1, std::memory_order_relaxed);
  SKERRY_ASSERT(sleepers > 0, "who wakes up was counted among the sleepers");
  return result;
}

}  // namespace skerry::memory
