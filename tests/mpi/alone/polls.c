/* A program that polls a window while a large message of its own is under way: polls [CALL ...].
 * Rank 1 changes the window only after it has received the message, and the message moves on only
 * if rank 0's polling calls let MPI work. One poll a kind of call; each ends, or is named. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { bytes = 8 << 20, longest_s = 60 };
static int rank, size;
static long* memory;
static MPI_Win win;
static const long zero = 0;

/* Each makes one call, or as few as have a meaning, and says what it sees in rank 0's window. */
static volatile long* own(void) { return memory; }
static long by_fetch(void) {
  long seen = 0;
  MPI_Fetch_and_op(&zero, &seen, MPI_LONG, 0, 0, MPI_SUM, win);
  MPI_Win_flush(0, win);
  return seen;
}
static long by_no_op(void) {
  long seen = 0;
  MPI_Fetch_and_op(NULL, &seen, MPI_LONG, 0, 0, MPI_NO_OP, win);
  MPI_Win_flush_local(0, win);
  return seen;
}
static long by_get_accumulate(void) {
  long seen = 0;
  MPI_Get_accumulate(&zero, 1, MPI_LONG, &seen, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
  MPI_Win_flush(0, win);
  return seen;
}
static long by_swap(void) {
  long seen = 0;
  MPI_Compare_and_swap(&zero, &zero, &seen, MPI_LONG, 0, 0, win);
  MPI_Win_flush(0, win);
  return seen;
}
static long by_get(void) {
  long seen = 0;
  MPI_Get(&seen, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
  MPI_Win_flush(0, win);
  return seen;
}
static long by_rget(void) {
  long seen = 0;
  MPI_Request request;
  MPI_Rget(&seen, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return seen;
}
static long by_put(void) {
  MPI_Put(&zero, 1, MPI_LONG, 1, 1, 1, MPI_LONG, win);
  MPI_Win_flush(1, win);
  return *own();
}
static long by_accumulate(void) {
  MPI_Accumulate(&zero, 1, MPI_LONG, 1, 1, 1, MPI_LONG, MPI_SUM, win);
  MPI_Win_flush_local_all(win);
  return *own();
}
static long by_flush_all(void) {
  MPI_Win_flush_all(win);
  return *own();
}
static long by_sync(void) {
  MPI_Win_sync(win);
  return *own();
}
static long by_lock(void) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
  const long seen = *own();
  MPI_Win_unlock(0, win);
  return seen;
}
static long by_lock_all(void) {
  MPI_Win_lock_all(0, win);
  const long seen = *own();
  MPI_Win_unlock_all(win);
  return seen;
}
static long by_test(void) {
  int done = 0;
  MPI_Win_test(win, &done);
  return done;
}

enum epoch { all, none, exposed };
static const struct {
  const char* name;
  long (*look)(void);
  enum epoch epoch; /* of rank 0, while it looks */
} calls[] = {
    {"fetch_and_op", by_fetch, all},       {"no_op", by_no_op, all},
    {"get_accumulate", by_get_accumulate, all}, {"compare_and_swap", by_swap, all},
    {"get", by_get, all},                  {"rget", by_rget, all},
    {"put", by_put, all},                  {"accumulate", by_accumulate, all},
    {"flush_all", by_flush_all, all},      {"sync", by_sync, all},
    {"lock", by_lock, none},               {"lock_all", by_lock_all, none},
    {"test", by_test, exposed},
};

static void poll(size_t k, char* message, int buffered) {
  const double began = MPI_Wtime();
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Group world, origin;
  const int one = 1;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &one, &origin);
  if (calls[k].epoch == exposed) MPI_Win_post(origin, 0, win);
  if (calls[k].epoch == all) MPI_Win_lock_all(0, win);
  if (buffered) MPI_Bsend(message, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
  else MPI_Isend(message, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
  while (calls[k].look() == 0)
    if (MPI_Wtime() - began > longest_s) {
      printf("polls: %s%s never sees the change\n", calls[k].name, buffered ? ", buffered" : "");
      fflush(stdout);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  if (calls[k].epoch == all) MPI_Win_unlock_all(win);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Group_free(&origin);
  MPI_Group_free(&world);
}

static void answer(size_t k, char* message) {
  const long one = 1;
  const int zero_rank = 0;
  MPI_Group world, target;
  MPI_Recv(message, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (calls[k].epoch == exposed) {
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &zero_rank, &target);
    MPI_Win_start(target, 0, win);
    MPI_Win_complete(win);
    MPI_Group_free(&target);
    MPI_Group_free(&world);
    return;
  }
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
  MPI_Win_unlock(0, win);
}

int main(int count, char** words) {
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char* const message = calloc(1, bytes);
  const int room = bytes + MPI_BSEND_OVERHEAD;
  void* buffer = malloc((size_t)room);
  MPI_Buffer_attach(buffer, room);
  MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  for (size_t k = 0; k < sizeof calls / sizeof calls[0]; ++k)
    for (int buffered = 0; buffered < 2; ++buffered) {
      int wanted = count == 1;
      for (int i = 1; i < count; ++i) wanted |= strcmp(words[i], calls[k].name) == 0;
      if (!wanted) continue;
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
      memory[0] = memory[1] = 0;
      MPI_Win_unlock(rank, win);
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) poll(k, message, buffered);
      if (rank == 1) answer(k, message);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  MPI_Win_free(&win);
  MPI_Buffer_detach(&buffer, &count);
  if (rank == 0) printf("polls: %d ranks, ok\n", size);
  MPI_Finalize();
  free(message);
  free(buffer);
  return 0;
}
