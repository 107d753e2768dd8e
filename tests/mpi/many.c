/* Many windows, many types, large transfers. */
#include "mpi_check.h"

static void check_windows(void) {
  enum { most = 200 };
  static MPI_Win wins[most];
  static long* memory[most];
  for (int k = 0; k < most; ++k)
    TRY(MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory[k], &wins[k]));
  for (int k = 0; k < most; ++k) {
    long value = 1000 * k + rank;
    TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, wins[k]));
    TRY(MPI_Put(&value, 1, MPI_LONG, right, 2, 1, MPI_LONG, wins[k]));
    TRY(MPI_Win_unlock(right, wins[k]));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int k = 0; k < most; ++k) {
    TRY(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, wins[k]));
    CHECK(memory[k][2] == 1000 * k + left, "%ld", memory[k][2]);
    TRY(MPI_Win_unlock(rank, wins[k]));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int k = 0; k < most; ++k) TRY(MPI_Win_free(&wins[(k * 7 + 3) % most]));
}

static void check_long(int created) {
  const int count = 3 << 20;
  char* memory = calloc(1, (size_t)count);
  char* const given = memory;
  char* mine = malloc((size_t)count);
  MPI_Win win;
  if (created) TRY(MPI_Win_create(memory, count, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  else TRY(MPI_Win_allocate(count, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  for (int k = 0; k < count; ++k) mine[k] = (char)(k * 11 + rank);
  TRY(MPI_Win_fence(0, win));
  TRY(MPI_Put(mine, count, MPI_CHAR, right, 0, count, MPI_CHAR, win));
  TRY(MPI_Win_fence(0, win));
  int wrong = 0;
  for (int k = 0; k < count; ++k) wrong += memory[k] != (char)(k * 11 + left);
  CHECK(wrong == 0, "%d bytes", wrong);
  TRY(MPI_Get(mine, count, MPI_CHAR, left, 0, count, MPI_CHAR, win));
  TRY(MPI_Win_fence(0, win));
  const int before_left = (left + size - 1) % size;
  for (int k = 0; k < count; ++k) wrong += mine[k] != (char)(k * 11 + before_left);
  CHECK(wrong == 0, "%d bytes back", wrong);
  TRY(MPI_Win_free(&win));
  free(mine);
  free(given);
}

void check_many(void) {
  check_windows();
  check_long(0);
  check_long(1);
}
