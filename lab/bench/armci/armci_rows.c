/* One program in plain ARMCI, compiled against each armci.h, so that every library is asked for
 * exactly the same.
 *
 *   mpirun -n N armci_rows near|far idle|computing [SECONDS]
 *
 * Rank 0 measures on rank 1 (near) or on the last rank (far: on another host). Meanwhile the other
 * ranks wait in a barrier. With `computing` the target computes for SECONDS a row (default 0.08)
 * without calling ARMCI, and rank 0's operations fall into that time. Every put and accumulate ends
 * with a fence. Prints a line per row. A library whose operations wait until the target is done
 * shows SECONDS as the time of its one operation. */
#include <armci.h>
#include <message.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { mega = 1 << 20, slots = 16, max_ranks = 64, pieces = 64, piece_large = 16 << 10 };
static void* bases[max_ranks];
static char* origin;
static int target;
static size_t at; /* 1 MiB operations walk over `slots` blocks, so that caches do not hold them */
static long old;
static double one = 1.0;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char* there(void) { return (char*)bases[target]; }
static void next_block(void) { at = (at + mega) % ((size_t)slots * mega); }
static void put_8(void) {
  ARMCI_Put(origin, there(), 8, target);
  ARMCI_Fence(target);
}
static void get_8(void) { ARMCI_Get(there(), origin, 8, target); }
static void put_1m(void) {
  next_block();
  ARMCI_Put(origin + at, there() + at, mega, target);
  ARMCI_Fence(target);
}
static void get_1m(void) {
  next_block();
  ARMCI_Get(there() + at, origin + at, mega, target);
}
static void accumulate(size_t offset, int bytes) {
  int count[1] = {bytes}, stride[1] = {0};
  ARMCI_AccS(ARMCI_ACC_DBL, &one, origin + offset, stride, there() + offset, stride, count, 0,
             target);
  ARMCI_Fence(target);
}
static void acc_8(void) { accumulate(0, 8); }
static void acc_1m(void) {
  next_block();
  accumulate(at, mega);
}
/* The target's pieces lie two apart, the origin's one after the other, as in a patch of a global
 * array. */
static void get_pieces(int bytes) {
  int count[2] = {bytes, pieces}, target_stride[1] = {2 * bytes}, origin_stride[1] = {bytes};
  ARMCI_GetS(there(), target_stride, origin, origin_stride, count, 1, target);
}
static void get_64x64(void) { get_pieces(64); }
static void get_64x16k(void) { get_pieces(piece_large); }
static void fetch_add(void) {
  ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &old, there() + (size_t)slots * mega, 1, target);
}
static void lock_unlock(void) {
  ARMCI_Lock(0, target);
  ARMCI_Unlock(0, target);
}

static const struct row {
  const char* name;
  void (*body)(void);
} rows[] = {{"put_8", put_8},          {"get_8", get_8},      {"acc_8", acc_8},
            {"fetch_add", fetch_add},  {"lock", lock_unlock}, {"get_64x64", get_64x64},
            {"put_1m", put_1m},        {"get_1m", get_1m},    {"acc_1m", acc_1m},
            {"get_64x16k", get_64x16k}};
enum { row_count = sizeof rows / sizeof rows[0], batches = 7 };

static double repeat(void (*body)(void), long n) {
  const double start = now();
  for (long i = 0; i < n; ++i) body();
  return now() - start;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* How many operations take about `seconds`. */
static long calibrate(void (*body)(void), double seconds) {
  long n = 1;
  for (;;) {
    const double took = repeat(body, n);
    if (took >= seconds / 2 || n >= 1L << 24) return n;
    n *= 2;
  }
}

/* Median of batches of some 5 ms; slow operations get as few as fit. */
static double idle_seconds(void (*body)(void)) {
  double each[batches];
  const long n = calibrate(body, 5e-3);
  const double start = now();
  int done = 0;
  while (done < batches && (done < 3 || now() - start < 1.0))
    each[done++] = repeat(body, n) / (double)n;
  qsort(each, (size_t)done, sizeof each[0], compare);
  return each[done / 2];
}

/* Mean over what fits into most of the target's computing time. Looks at the clock often enough to
 * notice an operation that waits. */
static double computing_seconds(void (*body)(void), double span) {
  const double start = now();
  body();
  double last = now();
  long count = 1;
  const int each = last - start < 1e-5 ? 8 : 1; /* the clock must not weigh beside quick ones */
  while (last - start < 0.6 * span) {
    for (int i = 0; i < each; ++i) body();
    count += each;
    last = now();
  }
  return (last - start) / (double)count;
}

static double sink;
static void compute(double seconds) {
  const double end = now() + seconds;
  double x = 1.0;
  while (now() < end)
    for (int i = 0; i < 1000; ++i) x = x * 1.0000001 + 1e-9;
  sink = x;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (ARMCI_Init() != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  const int me = armci_msg_me(), size = armci_msg_nproc();
  if (argc < 3 || size < 2 || size > max_ranks) {
    if (me == 0)
      fprintf(stderr, "usage: mpirun -n 2..%d armci_rows near|far idle|computing [SECONDS]\n",
              max_ranks);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int computing = strcmp(argv[2], "computing") == 0;
  const double span = argc > 3 ? atof(argv[3]) : 0.08;
  target = strcmp(argv[1], "far") == 0 ? size - 1 : 1;
  ARMCI_Malloc(bases, (size_t)slots * mega + 4096);
  origin = ARMCI_Malloc_local((size_t)slots * mega);
  memset(origin, 0, (size_t)slots * mega);
  memset(bases[me], 0, (size_t)slots * mega + 4096);
  ARMCI_Create_mutexes(1);
  ARMCI_Barrier();
  for (int r = 0; r < row_count; ++r) {
    double each = 0;
    if (me == 0) repeat(rows[r].body, 2); /* connections, first touches */
    armci_msg_barrier();
    if (computing) {
      if (me == target) compute(span);
      if (me == 0) {
        compute(0.05 * span); /* by now the target computes */
        each = computing_seconds(rows[r].body, span);
      }
    } else if (me == 0) {
      each = idle_seconds(rows[r].body);
    }
    if (me == 0) {
      printf("{\"row\":\"%s\",\"value\":%.6g,\"unit\":\"us\"}\n", rows[r].name, each * 1e6);
      fflush(stdout);
    }
    armci_msg_barrier();
  }
  ARMCI_Barrier();
  ARMCI_Destroy_mutexes();
  ARMCI_Free_local(origin);
  ARMCI_Free(bases[me]);
  ARMCI_Finalize();
  MPI_Finalize();
  return 0;
}
