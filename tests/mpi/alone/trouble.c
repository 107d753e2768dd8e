/* A rank ends in the midst of window calls of all: the job must end, too, and say why.
 *
 *   trouble killed|left|status|aborted allocate|create|shared
 *
 * killed: by SIGKILL; left: _exit(0); status: exit(3), without MPI_Finalize. Never ends by itself
 * otherwise. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char** words) {
  const char *const how = words[1], *const kind = words[2];
  static long given[64];
  long *memory = NULL, value = 1, old = 0;
  int rank = 0, size = 0;
  MPI_Win win;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(kind, "shared") == 0)
    MPI_Win_allocate_shared(512, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  else if (strcmp(kind, "create") == 0)
    MPI_Win_create(given, sizeof given, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  else MPI_Win_allocate(512, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  for (int turn = 0;; ++turn) {
    const int target = turn % size;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    MPI_Put(&value, 1, MPI_LONG, target, 1, 1, MPI_LONG, win);
    MPI_Fetch_and_op(&value, &old, MPI_LONG, target, 2, MPI_SUM, win);
    MPI_Win_flush(target, win);
    if (rank == size - 1 && turn == 200) { /* it holds the lock that the others ask for */
      if (strcmp(how, "killed") == 0) raise(SIGKILL);
      if (strcmp(how, "left") == 0) _exit(0);
      if (strcmp(how, "status") == 0) exit(3);
      MPI_Abort(MPI_COMM_WORLD, 4);
    }
    MPI_Win_unlock(target, win);
  }
}
