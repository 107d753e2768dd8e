/* Threads on different windows of one communicator at the same time: threads [TURNS].
 *
 * Each thread has a window of its own. Three fence theirs, one locks. A rank's threads go through
 * their turns at differing speeds, so ranks are in calls of different windows. Windows are
 * synchronized one by one: a fence that ended on behalf of another window would miss puts. */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { threads = 4, most_ranks = 16 };
static int rank, size, turns = 60;
static atomic_int failures;
static MPI_Win wins[threads];
static long* memory[threads];

static void fail(int window, int turn, int from, long found) {
  if (failures++ < 5)
    fprintf(stderr, "threads: rank %d, window %d, turn %d: %ld from rank %d\n", rank, window, turn,
            found, from);
}

static void dawdle(unsigned* seed) {
  for (int left = (int)(rand_r(seed) % 8); left > 0; --left) sched_yield();
}

static void fence_turn(int window, int turn, unsigned* seed) {
  const long value = turn;
  dawdle(seed);
  for (int k = 0; k < size; ++k) MPI_Put(&value, 1, MPI_LONG, k, rank, 1, MPI_LONG, wins[window]);
  MPI_Win_fence(0, wins[window]);
  for (int k = 0; k < size; ++k)
    if (memory[window][k] != turn) fail(window, turn, k, memory[window][k]);
  dawdle(seed);
  MPI_Win_fence(0, wins[window]);
}

/* Counts at the right neighbour, which only this rank does. */
static void lock_turn(int window, int turn, unsigned* seed) {
  const long one = 1;
  long before = -1;
  const int right = (rank + 1) % size;
  dawdle(seed);
  MPI_Win_lock(MPI_LOCK_SHARED, right, 0, wins[window]);
  MPI_Fetch_and_op(&one, &before, MPI_LONG, right, 0, MPI_SUM, wins[window]);
  MPI_Win_unlock(right, wins[window]);
  if (before != turn - 1) fail(window, turn, right, before);
}

static void* work(void* argument) {
  const int window = *(const int*)argument;
  unsigned seed = (unsigned)(rank * threads + window);
  for (int turn = 1; turn <= turns; ++turn) {
    if (window == 0) lock_turn(window, turn, &seed);
    else fence_turn(window, turn, &seed);
  }
  return NULL;
}

int main(int count, char** words) {
  int level = 0, all = 0, numbers[threads];
  pthread_t started[threads];
  MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (count > 1) turns = atoi(words[1]);
  if (level < MPI_THREAD_MULTIPLE || size > most_ranks) {
    if (rank == 0) printf("threads: the MPI library has no MPI_THREAD_MULTIPLE\n");
    MPI_Finalize();
    return 0;
  }
  for (int k = 0; k < threads; ++k) {
    MPI_Win_allocate((MPI_Aint)sizeof(long) * size, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &memory[k], &wins[k]);
    for (int i = 0; i < size; ++i) memory[k][i] = 0;
    MPI_Win_fence(0, wins[k]);
  }
  for (int k = 0; k < threads; ++k) {
    numbers[k] = k;
    pthread_create(&started[k], NULL, work, &numbers[k]);
  }
  for (int k = 0; k < threads; ++k) pthread_join(started[k], NULL);
  const int mine = failures;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int k = 0; k < threads; ++k) MPI_Win_free(&wins[k]);
  if (rank == 0 && all == 0) printf("threads: %d ranks, ok\n", size);
  MPI_Finalize();
  return all != 0;
}
