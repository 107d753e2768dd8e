/* Two puts to the same bytes in one epoch, from two functions: the debug mode names both lines.
 *
 *   call_sites allocate|shared|create|vector
 *
 * tests/mpi/run.py looks for the lines with "site" below. Needs two ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long value[8];
static MPI_Datatype type = MPI_LONG;

static __attribute__((noinline)) int halo(MPI_Win win) {
  const int code = MPI_Put(value, 1, type, 1, 2, 1, type, win); /* site 1 */
  return code;
}

static __attribute__((noinline)) int corner(MPI_Win win) {
  const int code = MPI_Put(value, 1, type, 1, 2, 1, type, win); /* site 2 */
  return code;
}

int main(int count, char** words) {
  const char* const kind = count > 1 ? words[1] : "allocate";
  static long given[64];
  long* memory = NULL;
  int rank = 0;
  MPI_Win win;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(kind, "shared") == 0)
    MPI_Win_allocate_shared(512, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  else if (strcmp(kind, "create") == 0)
    MPI_Win_create(given, sizeof given, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  else MPI_Win_allocate(512, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  MPI_Win_set_name(win, "halo");
  if (strcmp(kind, "vector") == 0) {
    MPI_Type_vector(2, 1, 2, MPI_LONG, &type);
    MPI_Type_commit(&type);
  }
  MPI_Win_lock_all(0, win);
  if (rank == 0) {
    /* Flushed between them: no conflict. */
    halo(win);
    MPI_Win_flush(1, win);
    corner(win);
    MPI_Win_flush(1, win);
    printf("flushed\n");
    fflush(stdout);
    halo(win);
    corner(win);
    printf("not found\n");
    fflush(stdout);
  }
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  MPI_Finalize();
  return 0;
}
