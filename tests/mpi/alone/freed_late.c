/* Libraries free their windows in callbacks of MPI_COMM_SELF's attributes, which MPI_Finalize calls
 * before anything else of MPI ends, the last one set first. This one was set before the first
 * window, so it is called behind all that came with windows. The windows still work there. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { allocated, created, shared, dynamic, split, kinds };
static MPI_Win windows[kinds];
static long given[8], *memory[kinds];
static int rank, size, failures;

static int free_windows(MPI_Comm comm, int keyval, void* value, void* state) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  long mine = 100 + rank, seen = -1;
  (void)comm, (void)keyval, (void)value, (void)state;
  MPI_Put(&mine, 1, MPI_LONG, right, 1, 1, MPI_LONG, windows[allocated]);
  MPI_Win_unlock_all(windows[allocated]);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, windows[allocated]);
  MPI_Get(&seen, 1, MPI_LONG, rank, 1, 1, MPI_LONG, windows[allocated]);
  MPI_Win_unlock(rank, windows[allocated]);
  if (seen != 100 + left) ++failures;
  for (int k = 0; k < kinds; ++k)
    if (windows[k] != MPI_WIN_NULL && MPI_Win_free(&windows[k]) != MPI_SUCCESS) ++failures;
  if (failures > 0) fprintf(stderr, "freed_late: rank %d saw %ld\n", rank, seen);
  if (rank == 0 && failures == 0) printf("freed_late: %d ranks, ok\n", size);
  return MPI_SUCCESS;
}

int main(int count, char** words) {
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm half;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_windows, &keyval, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  for (int k = 0; k < kinds; ++k) windows[k] = MPI_WIN_NULL;
  const MPI_Aint bytes = 64;
  MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory[0], &windows[allocated]);
  MPI_Win_create(given, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &windows[created]);
  if (count == 1) /* on several virtual nodes the MPI library's */
    MPI_Win_allocate_shared(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory[1], &windows[shared]);
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &windows[dynamic]);
  if (rank % 2 == 0) MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, half, &memory[2], &windows[split]);
  MPI_Win_fence(0, windows[created]);
  MPI_Win_lock_all(0, windows[allocated]);
  MPI_Finalize();
  return failures != 0;
}
