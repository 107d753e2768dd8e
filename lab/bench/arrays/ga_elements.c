/* ga_elements ROUNDS COUNT: the part of elements.py that Global Arrays has, on its own ARMCI: COUNT
 * random elements gathered and added, ghost cells of 2048 x 2048, width 2. A line of JSON each. */
#include <ga.h>
#include <macdecls.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { n = 2048, most = 100 };

static int by_size(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* The median of the rounds, of the slowest rank. */
static void say(const char* name, double* taken, int rounds) {
  qsort(taken, (size_t)rounds, sizeof(double), by_size);
  double seconds = taken[rounds / 2], slowest;
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (GA_Nodeid() == 0) printf("{\"name\": \"%s\", \"seconds\": %.9g}\n", name, slowest);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  GA_Initialize();
  MA_init(C_DBL, 1 << 22, 1 << 22);
  int rounds = argc > 1 ? atoi(argv[1]) : 5, count = argc > 2 ? atoi(argv[2]) : 100000;
  if (rounds < 1 || rounds > most || count < 1) return 2;
  int dims[2] = {n, n}, chunk[2] = {-1, n}, width[2] = {2, 2};
  int a = NGA_Create(C_DBL, 2, dims, "a", chunk);
  int g = NGA_Create_ghosts(C_DBL, 2, dims, width, "g", NULL);
  double one = 1.0, taken[most];
  GA_Fill(a, &one);
  GA_Fill(g, &one);
  int** index = malloc((size_t)count * sizeof(int*));
  double* values = malloc((size_t)count * sizeof(double));
  srand((unsigned)GA_Nodeid() + 1);
  for (int i = 0; i < count; ++i) {
    index[i] = malloc(2 * sizeof(int));
    index[i][0] = rand() % n, index[i][1] = rand() % n;
    values[i] = 1.0;
  }
  for (int r = 0; r < rounds; ++r) {
    GA_Sync();
    double begin = MPI_Wtime();
    NGA_Gather(a, values, index, count);
    taken[r] = MPI_Wtime() - begin;
  }
  say("gather", taken, rounds);
  for (int r = 0; r < rounds; ++r) {
    GA_Sync();
    double begin = MPI_Wtime();
    NGA_Scatter_acc(a, values, index, count, &one);
    taken[r] = MPI_Wtime() - begin;
  }
  say("scatter_acc", taken, rounds);
  GA_Update_ghosts(g);
  for (int r = 0; r < rounds; ++r) {
    double begin = MPI_Wtime();
    for (int i = 0; i < 20; ++i) {
      GA_Update_ghosts(g);
      GA_Sync();
    }
    taken[r] = (MPI_Wtime() - begin) / 20;
  }
  say("halo", taken, rounds);
  GA_Terminate();
  MPI_Finalize();
  return 0;
}
