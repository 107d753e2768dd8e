/* Processes that nobody may trace: not dumpable, and without the right to trace others all the
 * same. Windows over their own memory work nevertheless: whose they are is found out when they are
 * made. */
#include <linux/capability.h>
#include <mpi.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void drop_tracing(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) return;
  const unsigned bit = 1u << CAP_SYS_PTRACE;
  data[0].effective &= ~bit, data[0].permitted &= ~bit, data[0].inheritable &= ~bit;
  syscall(SYS_capset, &header, data);
}

int main(int count, char** words) {
  static long given[8];
  long value = 0, seen = -1;
  int rank = 0, size = 0, failures = 0, all = 0;
  MPI_Win win, dynamic;
  MPI_Init(&count, &words); /* MPICH's own shared memory wants to be allowed more */
  drop_tracing();
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Win_create(given, sizeof given, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
  value = 10 + rank;
  MPI_Win_fence(0, win);
  MPI_Put(&value, 1, MPI_LONG, right, 3, 1, MPI_LONG, win);
  MPI_Win_fence(0, win);
  failures += given[3] != 10 + left;
  MPI_Get(&seen, 1, MPI_LONG, right, 3, 1, MPI_LONG, win);
  MPI_Win_fence(0, win);
  failures += seen != 10 + rank;
  MPI_Win_free(&dynamic);
  MPI_Win_free(&win);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("untraceable: %d ranks, ok\n", size);
  MPI_Finalize();
  return all != 0;
}
