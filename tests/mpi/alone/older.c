/* A job of which one rank has another version of the adapter: rank 0, which has Skerry's library,
 * makes a window. The others, which do not, say what an adapter of version 1 says then. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(int count, char** arguments) {
  int rank;
  void* memory = NULL;
  MPI_Win win;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    printf("older: the window was made\n");
  } else {
    MPI_Comm copy;
    struct {
      char what[8];
      uint32_t version, wanted;
    } hello = {.version = 1, .wanted = 1};
    memcpy(hello.what, "skerrymw", sizeof hello.what);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Send(&hello, sizeof hello, MPI_BYTE, 0, 4711, copy);
    MPI_Barrier(copy); /* rank 0 ends the job */
  }
  MPI_Finalize();
  return 0;
}
