/* The shortest MPI job there is: what its start and end take is measured from outside. */
#include <mpi.h>

int main(int argc, char** argv) {
  return MPI_Init(&argc, &argv) != MPI_SUCCESS || MPI_Finalize() != MPI_SUCCESS;
}
