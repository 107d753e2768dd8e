/* ARMCI (Debian's ARMCI-MPI) on the rows of the table.
 *   mpirun -n 2 peer_armci local|remote      (rank 1 waits in a barrier) */
#include <armci.h>
#include <mpi.h>

#include "peer.h"

enum { mega = 1 << 20, slots = 32 };
static char* bases[64];
static char* origin;
static size_t at;
static int64_t old;
static double unit_scale = 1.0;

static void next_block(void) { at = (at + mega) % ((size_t)slots * mega); }
static void put_8(void) {
  ARMCI_Put(origin, bases[1], 8, 1);
  ARMCI_Fence(1);
}
static void get_8(void) { ARMCI_Get(bases[1], origin, 8, 1); }
static void accumulate(char* to, char* from, int bytes) {
  int count[1] = {bytes}, no_stride[1] = {0};
  ARMCI_AccS(ARMCI_ACC_DBL, &unit_scale, from, no_stride, to, no_stride, count, 0, 1);
  ARMCI_Fence(1);
}
static void acc_8(void) { accumulate(bases[1], origin, 8); }
static void acc_4k(void) { accumulate(bases[1], origin, 4096); }
static void acc_1m(void) {
  next_block();
  accumulate(bases[1] + at, origin + at, mega);
}
static void get_strided(void) {
  int count[2] = {64, 64}, target_stride[1] = {256}, origin_stride[1] = {64};
  ARMCI_GetS(bases[1], target_stride, origin, origin_stride, count, 1, 1);
}
static void put_1m(void) {
  next_block();
  ARMCI_Put(origin + at, bases[1] + at, mega, 1);
  ARMCI_Fence(1);
}
static void get_1m(void) {
  next_block();
  ARMCI_Get(bases[1] + at, origin + at, mega, 1);
}
static void fetch_add(void) {
  ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &old, bases[1] + (size_t)slots * mega, 1, 1);
}
static void lock_unlock(void) {
  ARMCI_Lock(0, 1);
  ARMCI_Unlock(0, 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  ARMCI_Init();
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 2 || size > 64) {
    if (rank == 0) fprintf(stderr, "peer_armci needs 2 to 64 ranks, not %d\n", size);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int remote = argc > 1 && strcmp(argv[1], "remote") == 0;
  ARMCI_Malloc((void**)bases, (size_t)slots * mega + 4096);
  origin = ARMCI_Malloc_local((size_t)slots * mega);
  memset(origin, 0, (size_t)slots * mega);
  ARMCI_Create_mutexes(1);
  ARMCI_Barrier();
  if (rank == 0) {
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
    peer_row("lock", lock_unlock);
  }
  ARMCI_Barrier();
  ARMCI_Destroy_mutexes();
  ARMCI_Free_local(origin);
  ARMCI_Free(bases[rank]);
  ARMCI_Finalize();
  MPI_Finalize();
  return 0;
}
