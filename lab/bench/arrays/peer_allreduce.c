/* MPI_Allreduce of so many bytes: the slowest rank's time, the median of several.
 *   mpirun -n 4 peer_allreduce BYTES TURNS */
#include <mpi.h>

#include "../micro/peers/peer.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  const int elements = (int)(atoll(argv[1]) / 8), turns = atoi(argv[2]);
  double* data = malloc((size_t)elements * 8);
  double* seconds = malloc((size_t)turns * sizeof *seconds);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int turn = 0; turn <= turns; ++turn) {
    for (int i = 0; i < elements; ++i) data[i] = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = peer_now_ns();
    MPI_Allreduce(MPI_IN_PLACE, data, elements, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double mine = (peer_now_ns() - start) * 1e-9, slowest;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (turn > 0) seconds[turn - 1] = slowest;
  }
  if (data[elements - 1] != size) MPI_Abort(MPI_COMM_WORLD, 1);
  qsort(seconds, (size_t)turns, sizeof *seconds, peer_compare);
  if (rank == 0) peer_report("allreduce", seconds[turns / 2], "s");
  MPI_Finalize();
  return 0;
}
