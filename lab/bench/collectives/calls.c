/* Collective calls, the same program for Skerry (-DSKERRY) and for an MPI: what a call takes, by
 * kind and bytes. All ranks call in a row, as programs with steps do. A barrier ends each batch:
 * all have what the last call brought. Rank 0 says how often, so that a batch takes some 10 ms, and
 * reports the median of seven; of calls of more than 0.3 s that of three.
 *   calls [KIND,KIND...|all] [BYTES,BYTES...] [CALLS]
 * CALLS: so many in one batch, instead. */
#ifdef SKERRY
#include <skerry/skerry.h>
#else
#include <mpi.h>
#endif

#include "../micro/peers/peer.h"

enum { batches = 7 };
static char *from, *to;
static long bytes;
static long exactly; /* calls of the one batch; 0: as many as take some 10 ms */
static int rank, size;

#ifdef SKERRY
static skerry_job* job;
static skerry_group* all;
static void must(int status) {
  if (status == SKERRY_OK) return;
  fprintf(stderr, "%s\n", skerry_last_error());
  exit(1);
}
static void barrier(void) { must(skerry_barrier(all)); }
static void broadcast(void) { must(skerry_broadcast(all, to, (uint64_t)bytes, 0)); }
static void reduce(void) {
  must(skerry_reduce(all, SKERRY_DOUBLE, SKERRY_MAX, to, (uint64_t)bytes / 8, 0));
}
static void allreduce(void) {
  must(skerry_allreduce(all, SKERRY_DOUBLE, SKERRY_MAX, to, (uint64_t)bytes / 8));
}
static void allgather(void) { must(skerry_allgather(all, from, (uint64_t)bytes, to)); }
static void tell(long* n) { must(skerry_broadcast(all, n, sizeof *n, 0)); }
static void begin(int* argc, char*** argv) {
  (void)argc, (void)argv;
  must(skerry_init(NULL, &job));
  all = skerry_world(job);
  rank = skerry_rank(job);
  size = skerry_size(job);
}
static void end(void) { must(skerry_finalize(job)); }
#else
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void broadcast(void) { MPI_Bcast(to, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void reduce(void) {
  MPI_Reduce(rank == 0 ? MPI_IN_PLACE : to, to, (int)(bytes / 8), MPI_DOUBLE, MPI_MAX, 0,
             MPI_COMM_WORLD);
}
static void allreduce(void) {
  MPI_Allreduce(MPI_IN_PLACE, to, (int)(bytes / 8), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}
static void allgather(void) {
  MPI_Allgather(from, (int)bytes, MPI_BYTE, to, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}
static void tell(long* n) { MPI_Bcast(n, 1, MPI_LONG, 0, MPI_COMM_WORLD); }
static void begin(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
}
static void end(void) { MPI_Finalize(); }
#endif

static double batch_ns(long n, void (*body)(void)) {
  barrier();
  const double start = peer_now_ns();
  for (long i = 0; i < n; ++i) body();
  barrier();
  return peer_now_ns() - start;
}

static void row(const char* kind, void (*body)(void)) {
  double each[batches];
  char name[64];
  snprintf(name, sizeof name, "%s_%ld", kind, bytes);
  if (exactly > 0) {
    const double ns = batch_ns(exactly, body) / (double)exactly;
    if (rank == 0) peer_report(name, ns, "ns");
    return;
  }
  double probe = batch_ns(1, body);  // the first one makes what later ones use
  long n = probe < 3e8 ? 3 : 0;
  tell(&n);
  const long turns = n > 0 ? batches : 3;
  if (n > 0) {
    probe = batch_ns(n, body) / (double)n;
    n = probe < 3e5 ? 30 : 1;
    tell(&n);
    probe = batch_ns(n, body) / (double)n;
  }
  n = (long)(10e6 * peer_scale() / probe) + 1;
  tell(&n);
  for (long i = 0; i < turns; ++i) each[i] = batch_ns(n, body) / (double)n;
  qsort(each, (size_t)turns, sizeof each[0], peer_compare);
  if (rank == 0) peer_report(name, each[turns / 2], "ns");
}

/* Whether one of the words between commas is `word`. */
static int is_among(const char* words, const char* word) {
  const size_t length = strlen(word);
  for (; words != NULL; words = strchr(words, ','), words = words ? words + 1 : NULL)
    if (strncmp(words, word, length) == 0 && strchr(",", words[length]) != NULL) return 1;
  return 0;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*body)(void);
    int takes_bytes, gathers;
  } kinds[] = {{"barrier", barrier, 0, 0},
               {"broadcast", broadcast, 1, 0},
               {"reduce", reduce, 1, 0},
               {"allreduce", allreduce, 1, 0},
               {"allgather", allgather, 1, 1}};
  const char* wanted = argc > 1 ? argv[1] : "all";
  const char* sizes = argc > 2 ? argv[2] : "8,1024,65536,1048576,16777216";
  exactly = argc > 3 ? atol(argv[3]) : 0;
  begin(&argc, &argv);
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; ++k) {
    if (strcmp(wanted, "all") != 0 && !is_among(wanted, kinds[k].name)) continue;
    for (const char* at = sizes; at != NULL; at = strchr(at, ','), at = at ? at + 1 : NULL) {
      bytes = kinds[k].takes_bytes ? atol(at) : 0;
      const size_t result = (size_t)bytes * (kinds[k].gathers ? (size_t)size : 1);
      from = calloc((size_t)bytes + 8, 1);
      to = calloc(result + 8, 1);
      memset(from, 1, (size_t)bytes + 8);
      memset(to, 1, result + 8);
      row(kinds[k].name, kinds[k].body);
      free(from);
      free(to);
      if (!kinds[k].takes_bytes) break;
    }
  }
  end();
  return 0;
}
