// Jobs that look_test.py looks at. Most end only when they are killed.
//
//   looked_at mutexes|windows   ranks 0 and 1 take two locks in opposite order
//             far_mutexes       the first and the last rank do
//             waits             4 ranks, of which each waits for something else
//             traffic           rank 0 puts into everybody's memory
//             crash|abort       rank 1 dies
#include <skerry/window.h>

#include <cstdio>
#include <cstring>

#include "ops/check.hpp"

namespace {

// Ranks 0 and `other`.
void lock_mutexes(skerry_job* job, int rank, int other) {
  skerry_mutexes* mutexes = nullptr;
  OK(skerry_mutexes_create(skerry_world(job), 1, &mutexes));
  if (rank == 0 || rank == other) OK(skerry_mutex_lock(mutexes, rank, 0));
  OK(skerry_barrier(skerry_world(job)));
  if (rank == 0 || rank == other) OK(skerry_mutex_lock(mutexes, other - rank, 0));
}

void lock_windows(skerry_job* job, int rank) {
  skerry_window* windows[2] = {};
  int64_t value = 0;
  for (skerry_window*& each : windows) OK(skerry_window_allocate(skerry_world(job), 64, 8, &each));
  // A get, for a lock on another node is asked for with the first access.
  if (rank < 2) OK(skerry_window_lock(windows[rank], SKERRY_LOCK_EXCLUSIVE, 0, 0));
  if (rank < 2) OK(skerry_window_get(windows[rank], 0, 0, &value, 8));
  if (rank < 2) OK(skerry_window_flush(windows[rank], 0));
  OK(skerry_barrier(skerry_world(job)));
  if (rank >= 2) return;
  OK(skerry_window_lock(windows[1 - rank], SKERRY_LOCK_EXCLUSIVE, 0, 0));
  OK(skerry_window_get(windows[1 - rank], 0, 0, &value, 8));
  OK(skerry_window_flush(windows[1 - rank], 0));
}

// Rank 0 holds a lock and waits for a notification that never comes. Ranks 1 and 2 want the lock,
// rank 3 is in a barrier.
void wait_for_all_kinds(skerry_job* job, int rank) {
  skerry_window* window = nullptr;
  skerry_segment* segment = nullptr;
  int64_t value = 0;
  OK(skerry_window_allocate(skerry_world(job), 64, 8, &window));
  OK(skerry_segment_alloc(skerry_world(job), 64, &segment));
  if (rank == 0) OK(skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, 0, 0));
  OK(skerry_barrier(skerry_world(job)));
  if (rank == 0) OK(skerry_notify_wait(segment, 8, 1, -1, nullptr));
  if (rank == 3) return;
  OK(skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, 0, 0));
  OK(skerry_window_get(window, 0, 0, &value, 8));
  OK(skerry_window_flush(window, 0));
}

void put_without_end(skerry_job* job, int rank) {
  skerry_segment* segment = nullptr;
  OK(skerry_segment_alloc(skerry_world(job), 4096, &segment));
  const char bytes[1000] = {};
  for (int target = 0; rank == 0; target = (target + 1) % skerry_size(job)) {
    OK(skerry_put(segment, target, 0, bytes, sizeof bytes));
    OK(skerry_fence(job, target));
  }
}

}  // namespace

int main(int count, char** arguments) {
  const char* const what = count == 2 ? arguments[1] : "";
  skerry_job* job = nullptr;
  OK(skerry_init(nullptr, &job));
  const int rank = skerry_rank(job);
  if (std::strcmp(what, "mutexes") == 0) lock_mutexes(job, rank, 1);
  else if (std::strcmp(what, "far_mutexes") == 0) lock_mutexes(job, rank, skerry_size(job) - 1);
  else if (std::strcmp(what, "windows") == 0) lock_windows(job, rank);
  else if (std::strcmp(what, "waits") == 0) wait_for_all_kinds(job, rank);
  else if (std::strcmp(what, "traffic") == 0) put_without_end(job, rank);
  else if (std::strcmp(what, "abort") == 0 && rank == 1) skerry_abort(job, 7, "asked to");
  else if (std::strcmp(what, "crash") == 0 && rank == 1) *static_cast<volatile int*>(nullptr) = 1;
  return skerry_barrier(skerry_world(job));
}
