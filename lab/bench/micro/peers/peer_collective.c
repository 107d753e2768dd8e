/* MPI's barrier and allreduce on the rows of the table.
 *   mpirun -n 4 peer_collective collective */
#include <mpi.h>

#include "peer.h"

enum { mega = 1 << 20, batches = 9 };
static double from[mega / 8], to[mega / 8];

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void allreduce(int bytes) {
  MPI_Allreduce(from, to, bytes / 8, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}
static void allreduce_8(void) { allreduce(8); }
static void allreduce_64k(void) { allreduce(64 << 10); }
static void allreduce_1m(void) { allreduce(mega); }

static double batch_ns(long n, void (*body)(void)) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = peer_now_ns();
  for (long i = 0; i < n; ++i) body();
  return peer_now_ns() - start;
}

/* As Skerry's: rank 0 says how often, so that a batch takes some 20 ms; the median of nine. */
static void row(int rank, const char* name, void (*body)(void)) {
  double each[batches];
  (void)batch_ns(3, body);
  long n = (long)(10 * 20e6 * peer_scale() / batch_ns(10, body)) + 1;
  MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  for (int i = 0; i < batches; ++i) each[i] = batch_ns(n, body) / (double)n;
  qsort(each, batches, sizeof each[0], peer_compare);
  if (rank == 0) peer_report(name, each[batches / 2], "ns");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  row(rank, "barrier", barrier);
  row(rank, "allreduce_8", allreduce_8);
  row(rank, "allreduce_64k", allreduce_64k);
  row(rank, "allreduce_1m", allreduce_1m);
  MPI_Finalize();
  return 0;
}
