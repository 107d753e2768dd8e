// A job of 4 ranks on 2 nodes that waits for ever, for waits_test.py: rank 0 holds a lock and waits
// for a notification that never comes. Ranks 1 and 2 want the lock, rank 3 is in a barrier.
#include <skerry/window.h>

#include "ops/check.hpp"

int main() {
  skerry_job* job = nullptr;
  skerry_window* window = nullptr;
  skerry_segment* segment = nullptr;
  OK(skerry_init(nullptr, &job));
  OK(skerry_window_allocate(skerry_world(job), 64, 8, &window));
  OK(skerry_segment_alloc(skerry_world(job), 64, &segment));
  const int rank = skerry_rank(job);
  if (rank == 0) OK(skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, 0, 0));
  OK(skerry_barrier(skerry_world(job)));
  int64_t value = 0;
  switch (rank) {
    case 0: return skerry_notify_wait(segment, 8, 1, -1, nullptr);
    case 3: return skerry_barrier(skerry_world(job));
    default: break;
  }
  OK(skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, 0, 0));
  OK(skerry_window_get(window, 0, 0, &value, 8));
  return skerry_window_flush(window, 0);
}
