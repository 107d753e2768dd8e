// Epochs: MPI's synchronization calls.
#include "window.hpp"

namespace skerry::mpi {
namespace {

uint32_t promises_of(int assertion) {
  uint32_t promises = 0;
  if ((assertion & MPI_MODE_NOCHECK) != 0) promises |= SKERRY_NO_CHECK;
  if ((assertion & MPI_MODE_NOSTORE) != 0) promises |= SKERRY_NO_STORE;
  if ((assertion & MPI_MODE_NOPUT) != 0) promises |= SKERRY_NO_PUT;
  if ((assertion & MPI_MODE_NOPRECEDE) != 0) promises |= SKERRY_NO_PRECEDE;
  if ((assertion & MPI_MODE_NOSUCCEED) != 0) promises |= SKERRY_NO_SUCCEED;
  return promises;
}

// Assertions are hints: one that a call does not take is no error, unless it is none at all.
int check_assertion(int assertion) {
  constexpr int all = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE |
                      MPI_MODE_NOSUCCEED;
  if ((assertion & ~all) == 0) [[likely]]
    return MPI_SUCCESS;
  return fail(MPI_ERR_ASSERT, "assertion ", assertion, ": give a sum of MPI_MODE_*, or 0");
}

// Operations on shared memory in one piece are done when they return; what is left is to order
// them. In the debug mode they are done only by a flush, as the program's are.
int order(const Window& window) {
  if (window.data == nullptr) return MPI_SUCCESS;
  if (window.is_checked) return settle(skerry_window_flush_all(window.data));
  return settle(skerry_window_sync(window.data));
}

// Both have been done; the first mistake counts.
int first_of(int before, int after) { return before != MPI_SUCCESS ? before : after; }

template <class Call>
int on_rank(Window& window, int rank, Call&& call) {
  bool is_nobody = false;
  if (const int failed = check_rank(window, rank, &is_nobody); failed != MPI_SUCCESS) return failed;
  if (is_nobody) return MPI_SUCCESS;
  const int ordered = order(window);
  return first_of(ordered, settle(call(window.window, window.over->job_rank(rank))));
}

int ranks_of(const Window& window, MPI_Group group, std::vector<int>* ranks) {
  int count = 0;
  if (real().Group_size(group, &count) != MPI_SUCCESS)
    return fail(MPI_ERR_GROUP, "the group is none");
  std::vector<int> all(static_cast<size_t>(count));
  for (int k = 0; k < count; ++k) all[static_cast<size_t>(k)] = k;
  ranks->resize(all.size());
  real().Group_translate_ranks(group, count, all.data(), window.over->group, ranks->data());
  for (int& rank : *ranks) {
    if (rank == MPI_UNDEFINED)
      return fail(MPI_ERR_GROUP, "the group has a process that is not in the window's group");
    rank = window.over->job_rank(rank);
  }
  return MPI_SUCCESS;
}

}  // namespace

int win_fence(Window& window, int assertion) {
  if (const int failed = check_assertion(assertion); failed != MPI_SUCCESS) return failed;
  const int ordered = order(window);
  const uint32_t promises = promises_of(assertion) & ~SKERRY_NO_CHECK;
  return first_of(ordered, settle(skerry_window_fence(window.window, promises)));
}

int win_post(Window& window, MPI_Group group, int assertion) {
  if (const int failed = check_assertion(assertion); failed != MPI_SUCCESS) return failed;
  std::vector<int> ranks;
  if (const int failed = ranks_of(window, group, &ranks); failed != MPI_SUCCESS) return failed;
  const int ordered = order(window);
  const uint32_t promises = promises_of(assertion) &
                            (SKERRY_NO_CHECK | SKERRY_NO_STORE | SKERRY_NO_PUT);
  const int count = static_cast<int>(ranks.size());
  return first_of(ordered,
                  settle(skerry_window_post(window.window, ranks.data(), count, promises)));
}

int win_start(Window& window, MPI_Group group, int assertion) {
  if (const int failed = check_assertion(assertion); failed != MPI_SUCCESS) return failed;
  std::vector<int> ranks;
  if (const int failed = ranks_of(window, group, &ranks); failed != MPI_SUCCESS) return failed;
  const int status = skerry_window_start(window.window, ranks.data(),
                                         static_cast<int>(ranks.size()),
                                         promises_of(assertion) & SKERRY_NO_CHECK);
  if (status == SKERRY_OK) window.started = std::move(ranks);
  return settle(status);
}

// The targets have heard of it on return: programs expect MPI_Win_test to say yes once the origin
// has sent a message after this call, and our news travel beside MPI's messages.
int win_complete(Window& window) {
  const int ordered = order(window);
  int status = skerry_window_complete(window.window);
  for (int rank : window.started)
    if (status == SKERRY_OK) status = skerry_fence(window.over->job->job, rank);
  window.started.clear();
  return first_of(ordered, settle(status));
}
int win_wait(Window& window) { return settle(skerry_window_wait(window.window)); }
int win_test(Window& window, int* flag) { return settle(skerry_window_test(window.window, flag)); }

int win_lock(Window& window, int lock_type, int rank, int assertion) {
  if (const int failed = check_assertion(assertion); failed != MPI_SUCCESS) return failed;
  if (lock_type != MPI_LOCK_EXCLUSIVE && lock_type != MPI_LOCK_SHARED)
    return fail(MPI_ERR_LOCKTYPE, "lock type ", lock_type,
                ": give MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED");
  const int mode = lock_type == MPI_LOCK_SHARED ? SKERRY_LOCK_SHARED : SKERRY_LOCK_EXCLUSIVE;
  const uint32_t promises = promises_of(assertion) & SKERRY_NO_CHECK;
  return on_rank(window, rank, [&](skerry_window* of, int job_rank) {
    return skerry_window_lock(of, mode, job_rank, promises);
  });
}

int win_unlock(Window& window, int rank) { return on_rank(window, rank, skerry_window_unlock); }

int win_lock_all(Window& window, int assertion) {
  if (const int failed = check_assertion(assertion); failed != MPI_SUCCESS) return failed;
  return settle(skerry_window_lock_all(window.window, promises_of(assertion) & SKERRY_NO_CHECK));
}
int win_unlock_all(Window& window) {
  const int ordered = order(window);
  return first_of(ordered, settle(skerry_window_unlock_all(window.window)));
}

int win_flush(Window& window, int rank) { return on_rank(window, rank, skerry_window_flush); }
int win_flush_all(Window& window) {
  const int ordered = order(window);
  return first_of(ordered, settle(skerry_window_flush_all(window.window)));
}
int win_flush_local(Window& window, int rank) {
  return on_rank(window, rank, skerry_window_flush_local);
}
int win_flush_local_all(Window& window) {
  const int ordered = order(window);
  return first_of(ordered, settle(skerry_window_flush_local_all(window.window)));
}
int win_sync(Window& window) { return settle(skerry_window_sync(window.window)); }

}  // namespace skerry::mpi
