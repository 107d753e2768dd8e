/* Request-based forms, and MPI_PROC_NULL as target of everything. */
#include "mpi_check.h"

static void check_all(MPI_Win win) {
  enum { count = 16 };
  long mine[count], got[count], before[count], one = 1;
  MPI_Request requests[4];
  MPI_Status statuses[4];
  for (int k = 0; k < count; ++k) mine[k] = 100 * rank + k, got[k] = before[k] = -1;
  TRY(MPI_Win_lock_all(0, win));
  TRY(MPI_Rput(mine, count, MPI_LONG, right, 0, count, MPI_LONG, win, &requests[0]));
  TRY(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  CHECK(requests[0] == MPI_REQUEST_NULL, "still a request");
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Rget(got, count, MPI_LONG, right, 0, count, MPI_LONG, win, &requests[0]));
  int done = 0;
  while (!done) TRY(MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE));
  for (int k = 0; k < count; ++k) CHECK(got[k] == mine[k], "%ld", got[k]);
  TRY(MPI_Raccumulate(&one, 1, MPI_LONG, right, 20, 1, MPI_LONG, MPI_SUM, win, &requests[0]));
  TRY(MPI_Rget_accumulate(mine, count, MPI_LONG, before, count, MPI_LONG, right, 0, count, MPI_LONG,
                          MPI_SUM, win, &requests[1]));
  TRY(MPI_Rput(&one, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win, &requests[2]));
  TRY(MPI_Waitall(3, requests, statuses));
  for (int k = 0; k < count; ++k) CHECK(before[k] == mine[k], "%ld", before[k]);
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Rget(got, 1, MPI_LONG, right, 20, 1, MPI_LONG, win, &requests[3]));
  TRY(MPI_Wait(&requests[3], MPI_STATUS_IGNORE));
  CHECK(got[0] == 1, "%ld", got[0]);
  TRY(MPI_Win_unlock_all(win));
  MPI_Barrier(MPI_COMM_WORLD);
}

static void check_nobody(MPI_Win win) {
  long value = 1, old = 7;
  TRY(MPI_Win_lock_all(0, win));
  TRY(MPI_Put(&value, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win));
  TRY(MPI_Get(&old, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win));
  TRY(MPI_Accumulate(&value, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, MPI_SUM, win));
  TRY(MPI_Get_accumulate(&value, 1, MPI_LONG, &old, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG,
                         MPI_SUM, win));
  TRY(MPI_Fetch_and_op(&value, &old, MPI_LONG, MPI_PROC_NULL, 0, MPI_SUM, win));
  TRY(MPI_Compare_and_swap(&value, &value, &old, MPI_LONG, MPI_PROC_NULL, 0, win));
  TRY(MPI_Win_flush(MPI_PROC_NULL, win));
  TRY(MPI_Win_flush_local(MPI_PROC_NULL, win));
  TRY(MPI_Win_unlock_all(win));
  CHECK(old == 7, "%ld", old);
}

void check_requests(void) {
  long* memory = NULL;
  MPI_Win win;
  TRY(MPI_Win_allocate(64 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                       &win));
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
  memset(memory, 0, 64 * sizeof(long));
  TRY(MPI_Win_unlock(rank, win));
  MPI_Barrier(MPI_COMM_WORLD);
  check_all(win);
  check_nobody(win);
  TRY(MPI_Win_free(&win));
}
