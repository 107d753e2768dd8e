// A halo exchange whose neighbours compute: an ordinary MPI program with one-sided windows.
//
//   mpirun -n 4 ./halo [STEPS] [SPAN_US]
//   skerry mpi -- mpirun -n 4 ./halo [STEPS] [SPAN_US]
//
// Use this shape when the work between two exchanges is long: each rank writes its edges into its
// neighbours' memory first and computes its interior meanwhile. That hides the exchange only if a
// write gets through while its target computes. SPAN_US: how long a step computes, in us.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { edge = 1024 };  // doubles that neighbours exchange

// What neighbours write into. Two of each, used in turn: a neighbour may be one step ahead.
struct Ghosts {
  int64_t arrived;  // edges that have come so far
  double from_left[2][edge];
  double from_right[2][edge];
};

static void compute_for(double seconds) {
  const double end = MPI_Wtime() + seconds;
  volatile double x = 1;
  while (MPI_Wtime() < end)
    for (int i = 0; i < 1000; ++i) x = x * 0.9999999 + 1e-7;
}

// Writes an edge to `place` of a neighbour and tells it. The flush keeps the order.
static void send_edge(const double* values, int neighbour, MPI_Aint place, MPI_Win window) {
  const int64_t one = 1;
  MPI_Put(values, edge, MPI_DOUBLE, neighbour, place, edge, MPI_DOUBLE, window);
  MPI_Win_flush(neighbour, window);
  MPI_Accumulate(&one, 1, MPI_INT64_T, neighbour, 0, 1, MPI_INT64_T, MPI_SUM, window);
  MPI_Win_flush(neighbour, window);
}

static void wait_for_edges(int64_t count, int rank, MPI_Win window) {
  const int64_t nothing = 0;
  int64_t arrived = 0;
  while (arrived < count) {
    MPI_Fetch_and_op(&nothing, &arrived, MPI_INT64_T, rank, 0, MPI_NO_OP, window);
    MPI_Win_flush(rank, window);
  }
  MPI_Win_sync(window);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int steps = argc > 1 ? atoi(argv[1]) : 100;
  const double span_us = argc > 2 ? atof(argv[2]) : 2000;
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (steps < 1 || span_us < 0) {
    if (rank == 0) fprintf(stderr, "usage: halo [STEPS >= 1] [SPAN_US >= 0]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  struct Ghosts* mine = NULL;
  MPI_Win window;
  MPI_Win_allocate(sizeof *mine, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  mine->arrived = 0;
  MPI_Win_sync(window);
  MPI_Barrier(MPI_COMM_WORLD);

  double values[edge];
  int wrong = 0;
  const double start = MPI_Wtime();
  for (int step = 0; step < steps; ++step) {
    const int turn = step % 2;
    for (int i = 0; i < edge; ++i) values[i] = 1000.0 * step + rank;
    const MPI_Aint to_right = (char*)mine->from_left[turn] - (char*)mine;
    const MPI_Aint to_left = (char*)mine->from_right[turn] - (char*)mine;
    send_edge(values, right, to_right, window);
    send_edge(values, left, to_left, window);
    compute_for(span_us * 1e-6);  // the interior
    wait_for_edges(2 * (step + 1), rank, window);
    for (int i = 0; i < edge; ++i)
      wrong += mine->from_left[turn][i] != 1000.0 * step + left ||
               mine->from_right[turn][i] != 1000.0 * step + right;
  }
  const double each_us = (MPI_Wtime() - start) * 1e6 / steps;

  int all_wrong = 0;
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("halo: %d ranks, %.0f us of computing a step, %d values wrong: %.1f us a step\n", size,
           span_us, all_wrong, each_us);
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Finalize();
  return all_wrong != 0;
}
