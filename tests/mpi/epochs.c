/* Locks, flushes, fences, post-start-complete-wait: who sees what, and when. */
#include "mpi_check.h"

static long* memory;
static MPI_Win win;

static void clear(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
  memset(memory, 0, 32 * sizeof(long));
  TRY(MPI_Win_unlock(rank, win));
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Read, change, write under an exclusive lock: nothing is lost. */
static void check_exclusive(void) {
  clear();
  for (int k = 0; k < 50; ++k) {
    long value = -1;
    TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    TRY(MPI_Get(&value, 1, MPI_LONG, 0, 7, 1, MPI_LONG, win));
    TRY(MPI_Win_flush(0, win));
    ++value;
    TRY(MPI_Put(&value, 1, MPI_LONG, 0, 7, 1, MPI_LONG, win));
    TRY(MPI_Win_unlock(0, win));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  long total = -1;
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
  TRY(MPI_Get(&total, 1, MPI_LONG, 0, 7, 1, MPI_LONG, win));
  TRY(MPI_Win_unlock(0, win));
  CHECK(total == 50 * size, "%ld", total);
}

static void check_flushes(void) {
  clear();
  TRY(MPI_Win_lock_all(0, win));
  for (int k = 0; k < size; ++k) {
    long value = 100 + rank, old = -1;
    TRY(MPI_Put(&value, 1, MPI_LONG, k, rank, 1, MPI_LONG, win));
    TRY(MPI_Win_flush_local(k, win));
    value = -1; /* may be changed now */
    TRY(MPI_Win_flush(k, win));
    TRY(MPI_Get(&old, 1, MPI_LONG, k, rank, 1, MPI_LONG, win));
    TRY(MPI_Win_flush_local_all(win));
    CHECK(old == 100 + rank, "%ld", old);
  }
  TRY(MPI_Win_flush_all(win));
  TRY(MPI_Win_sync(win));
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_sync(win));
  for (int k = 0; k < size; ++k) CHECK(memory[k] == 100 + k, "%ld", memory[k]);
  TRY(MPI_Win_unlock_all(win));
}

/* The target polls its own memory and takes no part. */
static void check_polling(void) {
  clear();
  TRY(MPI_Win_lock_all(0, win));
  long value = 1;
  TRY(MPI_Put(&value, 1, MPI_LONG, right, 9, 1, MPI_LONG, win));
  TRY(MPI_Win_flush(right, win));
  volatile long* const mine = memory + 9;
  while (*mine == 0) TRY(MPI_Win_sync(win));
  TRY(MPI_Win_unlock_all(win));
}

/* Locks of several targets at a time, in ascending order. */
static void check_several(void) {
  clear();
  for (int k = 0; k < size; ++k) {
    long one = 1;
    TRY(MPI_Win_lock(MPI_LOCK_SHARED, k, 0, win));
    TRY(MPI_Accumulate(&one, 1, MPI_LONG, k, 11, 1, MPI_LONG, MPI_SUM, win));
  }
  TRY(MPI_Win_flush_all(win));
  for (int k = 0; k < size; ++k) TRY(MPI_Win_unlock(k, win));
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
  CHECK(memory[11] == size, "%ld", memory[11]);
  TRY(MPI_Win_unlock(rank, win));
}

static void check_fences(void) {
  clear();
  TRY(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
  for (int round = 1; round <= 5; ++round) {
    long value = round * 10 + rank;
    TRY(MPI_Put(&value, 1, MPI_LONG, right, 0, 1, MPI_LONG, win));
    TRY(MPI_Win_fence(0, win));
    CHECK(memory[0] == round * 10 + left, "%ld in round %d", memory[0], round);
    long got = -1;
    TRY(MPI_Get(&got, 1, MPI_LONG, right, 0, 1, MPI_LONG, win));
    TRY(MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT, win));
    CHECK(got == value, "%ld", got);
  }
  TRY(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
}

static void check_generalized(void) {
  clear();
  MPI_Group world, to, from;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &right, &to);
  MPI_Group_incl(world, 1, &left, &from);
  for (int round = 1; round <= 5; ++round) {
    long value = round * 100 + rank;
    int done = 0;
    TRY(MPI_Win_post(from, round == 1 ? MPI_MODE_NOSTORE : 0, win));
    TRY(MPI_Win_start(to, 0, win));
    TRY(MPI_Put(&value, 1, MPI_LONG, right, 4, 1, MPI_LONG, win));
    TRY(MPI_Win_complete(win));
    if (round % 2 == 0) {
      TRY(MPI_Win_wait(win));
    } else {
      while (!done) TRY(MPI_Win_test(win, &done));
    }
    CHECK(memory[4] == round * 100 + left, "%ld in round %d", memory[4], round);
  }
  MPI_Group_free(&from);
  MPI_Group_free(&to);
  MPI_Group_free(&world);
}

/* One MPI_Win_test after a message that followed MPI_Win_complete: mpi4py's tests expect a yes. */
static void check_test_after_message(void) {
  if (size < 2) return;
  clear();
  MPI_Group world, others, first;
  const int root = 0;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_excl(world, 1, &root, &others);
  MPI_Group_incl(world, 1, &root, &first);
  for (int round = 1; round <= 50; ++round) {
    int done = 1;
    if (rank == root) {
      TRY(MPI_Win_start(others, 0, win));
      MPI_Barrier(MPI_COMM_WORLD);
      TRY(MPI_Win_complete(win));
      MPI_Barrier(MPI_COMM_WORLD);
    } else {
      TRY(MPI_Win_post(first, 0, win));
      TRY(MPI_Win_test(win, &done));
      CHECK(!done, "before the origin completes, round %d", round);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Barrier(MPI_COMM_WORLD);
      TRY(MPI_Win_test(win, &done));
      CHECK(done, "round %d", round);
      if (!done) TRY(MPI_Win_wait(win));
    }
  }
  MPI_Group_free(&first);
  MPI_Group_free(&others);
  MPI_Group_free(&world);
}

/* MPI's messages move on while a rank waits for a window's lock. */
static void check_messages(void) {
  clear();
  if (size < 2) return;
  char* big = calloc(1, 1 << 20);
  MPI_Request request;
  if (rank == 0) {
    TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(big, 1 << 20, MPI_CHAR, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    TRY(MPI_Win_unlock(0, win));
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) MPI_Isend(big, 1 << 20, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &request);
    TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)); /* rank 0 gives it back after the message */
    long value = 1;
    TRY(MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win));
    TRY(MPI_Win_unlock(0, win));
    if (rank == 1) MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  free(big);
}

void check_epochs(void) {
  for (int created = 0; created < 2; ++created) {
    if (created) {
      memory = calloc(32, sizeof(long));
      TRY(MPI_Win_create(memory, 32 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                         &win));
    } else {
      TRY(MPI_Win_allocate(32 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                           &win));
    }
    check_exclusive();
    check_flushes();
    check_polling();
    check_several();
    check_fences();
    check_generalized();
    check_test_after_message();
    check_messages();
    MPI_Barrier(MPI_COMM_WORLD);
    TRY(MPI_Win_free(&win));
    if (created) free(memory);
  }
}
