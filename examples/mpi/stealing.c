// Work stealing: an ordinary MPI program with one-sided windows.
//
//   mpirun -n 4 ./stealing [TASKS] [SPAN_US]
//   skerry mpi -- mpirun -n 4 ./stealing [TASKS] [SPAN_US]
//
// Use this shape when nobody knows beforehand how long tasks take. All tasks begin at rank 0. Each
// rank takes the next task of its own, and then those of others, by MPI_Fetch_and_op. A thief gets
// on only if its victim's memory answers while the victim computes. SPAN_US: how long a task takes
// on average, in us.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void compute_for(double seconds) {
  const double end = MPI_Wtime() + seconds;
  volatile double x = 1;
  while (MPI_Wtime() < end)
    for (int i = 0; i < 1000; ++i) x = x * 0.9999999 + 1e-7;
}

// The number of the victim's next task, or -1 if it has none left.
static int64_t take(int victim, const int64_t* count, MPI_Win window) {
  const int64_t one = 1;
  int64_t task = 0;
  if (count[victim] == 0) return -1;
  MPI_Fetch_and_op(&one, &task, MPI_INT64_T, victim, 0, MPI_SUM, window);
  MPI_Win_flush(victim, window);
  return task < count[victim] ? task : -1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int64_t tasks = argc > 1 ? atoll(argv[1]) : 200;
  const double span_us = argc > 2 ? atof(argv[2]) : 2000;
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (tasks < 1 || span_us < 0) {
    if (rank == 0) fprintf(stderr, "usage: stealing [TASKS >= 1] [SPAN_US >= 0]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int64_t* count = calloc((size_t)size, sizeof *count);
  count[0] = tasks;
  int64_t* next = NULL;
  MPI_Win window;
  MPI_Win_allocate(sizeof *next, sizeof *next, MPI_INFO_NULL, MPI_COMM_WORLD, &next, &window);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  *next = 0;
  MPI_Win_sync(window);
  MPI_Barrier(MPI_COMM_WORLD);

  int64_t done = 0, stolen = 0;
  const double start = MPI_Wtime();
  for (int at = 0; at < size;) {
    const int victim = (rank + at) % size;
    const int64_t task = take(victim, count, window);
    if (task < 0) {
      ++at;  // this one has nothing left: go on to the next
      continue;
    }
    compute_for(span_us * 1e-6 * (0.5 + (double)(task * 7919 % 101) / 100));
    ++done;
    stolen += victim != rank;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double took_ms = (MPI_Wtime() - start) * 1e3;

  int64_t sums[2] = {0, 0};
  const int64_t own[2] = {done, stolen};
  MPI_Reduce(own, sums, 2, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("stealing: %d ranks, %lld of %lld tasks done, %lld of them stolen: %.1f ms\n", size,
           (long long)sums[0], (long long)tasks, (long long)sums[1], took_ms);
  const int wrong = rank == 0 && sums[0] != tasks;
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  free(count);
  MPI_Finalize();
  return wrong;
}
