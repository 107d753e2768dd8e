/* MPI's passive-target windows on the rows of the table: every operation ends with a flush, so that
 * it means the same as Skerry's. Rank 1 waits in a barrier.
 *
 *   mpirun -n 2 peer_mpi_rma local|remote
 */
#include <mpi.h>

#include "peer.h"

enum { mega = 1 << 20, slots = 32 };
static MPI_Win window;
static double* origin;
static MPI_Datatype patch; /* 64 pieces of 64 B, one in every 256 B */
static MPI_Aint at;
static int64_t one = 1, old;

static double* next_block(void) {
  at = (at + mega) % ((MPI_Aint)slots * mega);
  return origin + at / (MPI_Aint)sizeof(double);
}
static void flush(void) { MPI_Win_flush(1, window); }
static void put_8(void) {
  MPI_Put(origin, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, window);
  flush();
}
static void get_8(void) {
  MPI_Get(origin, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, window);
  flush();
}
static void acc_8(void) {
  MPI_Accumulate(origin, 1, MPI_DOUBLE, 1, 0, 1, MPI_DOUBLE, MPI_SUM, window);
  flush();
}
static void get_strided(void) {
  MPI_Get(origin, 4096, MPI_BYTE, 1, 0, 1, patch, window);
  flush();
}
static void put_1m(void) {
  double* block = next_block();
  MPI_Put(block, mega, MPI_BYTE, 1, at, mega, MPI_BYTE, window);
  flush();
}
static void get_1m(void) {
  double* block = next_block();
  MPI_Get(block, mega, MPI_BYTE, 1, at, mega, MPI_BYTE, window);
  flush();
}
static void acc_1m(void) {
  double* block = next_block();
  MPI_Accumulate(block, mega / 8, MPI_DOUBLE, 1, at, mega / 8, MPI_DOUBLE, MPI_SUM, window);
  flush();
}
static void acc_4k(void) {
  MPI_Accumulate(origin, 512, MPI_DOUBLE, 1, 0, 512, MPI_DOUBLE, MPI_SUM, window);
  flush();
}
static void fetch_add(void) {
  MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 1, (MPI_Aint)slots * mega, MPI_SUM, window);
  flush();
}
static void lock_unlock(void) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
  MPI_Win_unlock(1, window);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int remote = argc > 1 && strcmp(argv[1], "remote") == 0;
  void* memory = NULL;
  MPI_Win_allocate((MPI_Aint)slots * mega + 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                   &window);
  memset(memory, 0, (size_t)slots * mega + 4096);
  origin = calloc(1, (size_t)slots * mega);
  MPI_Type_vector(64, 64, 256, MPI_BYTE, &patch);
  MPI_Type_commit(&patch);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
    peer_row(remote ? "put_8_fence" : "put_8", put_8);
    peer_row("get_8", get_8);
    peer_row(remote ? "acc_8_fence" : "acc_8", acc_8);
    peer_row("fetch_add", fetch_add);
    peer_row("get_strided_64x64", get_strided);
    peer_bandwidth(remote ? "put_1m_fence" : "put_1m", put_1m, mega);
    peer_bandwidth("get_1m", get_1m, mega);
    if (remote) {
      peer_row("acc_4k_fence", acc_4k);
      peer_row("acc_1m_fence", acc_1m);
    } else {
      peer_bandwidth("acc_1m", acc_1m, mega);
    }
    MPI_Win_unlock(1, window);
    peer_row("lock", lock_unlock);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Type_free(&patch);
  MPI_Win_free(&window);
  free(origin);
  MPI_Finalize();
  return 0;
}
