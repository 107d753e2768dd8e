/* Windows of MPI, function by function: mpi_check [PART ...]. Ends with "mpi_check: N ranks, ok".
 */
#include "mpi_check.h"

int rank, size, right, left;
int failures;

static const struct {
  const char* name;
  void (*run)(void);
} parts[] = {
    {"kinds", check_kinds},     {"epochs", check_epochs},     {"types", check_types},
    {"updates", check_updates}, {"requests", check_requests}, {"errors", check_errors},
    {"many", check_many},
};

int main(int count, char** arguments) {
  int all = 0;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  left = (rank + size - 1) % size;
  for (size_t k = 0; k < sizeof parts / sizeof parts[0]; ++k) {
    int wanted = count == 1;
    for (int i = 1; i < count; ++i) wanted |= strcmp(arguments[i], parts[k].name) == 0;
    if (!wanted) continue;
    const int before = failures;
    parts[k].run();
    if (failures > before) fprintf(stderr, "mpi_check: rank %d fails in %s\n", rank, parts[k].name);
  }
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("mpi_check: %d ranks, ok\n", size);
  MPI_Finalize();
  return all != 0;
}
