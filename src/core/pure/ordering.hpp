// Full fences: what this thread stored before is visible to all before it loads again. Plain stores
// and atomic ones alike wait in the processor's store buffer, and later loads overtake them, on x86
// too. Two threads that each store and then load what the other stored see both old values then.
#pragma once

#include <atomic>

namespace skerry {

inline void full_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

// Right after an atomic read-modify-write of this thread. On x86 that orders like a fence by
// itself, so only the compiler is told.
inline void full_fence_after_rmw() {
#if defined(__x86_64__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  full_fence();
#endif
}

}  // namespace skerry
