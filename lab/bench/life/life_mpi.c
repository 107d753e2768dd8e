/* What a program makes and frees, with MPI: as life.c, for windows and communicators. */
#define _POSIX_C_SOURCE 199309L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void window(MPI_Aint bytes, int writes) {
  void* memory;
  MPI_Win made;
  MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &made);
  if (writes) memset(memory, 1, (size_t)bytes);
  MPI_Win_free(&made);
}

static void window_64(void) { window(64, 0); }
static void window_1m(void) { window(1 << 20, 0); }
static void window_1m_written(void) { window(1 << 20, 1); }
static void window_64m(void) { window(64 << 20, 0); }
static void window_64m_written(void) { window(64 << 20, 1); }

static void split(void) {
  MPI_Comm made;
  MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &made);
  MPI_Comm_free(&made);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*call)(void);
    int per_thousand; /* of ROUNDS */
  } rows[] = {
      {"segment of 64 B", window_64, 1000},
      {"segment of 1 MiB, written", window_1m_written, 200},
      {"segment of 64 MiB, written", window_64m_written, 5},
      {"segment of 64 MiB, untouched", window_64m, 5},
      {"group split", split, 500},
      {"window of 1 MiB", window_1m, 200},
  };
  MPI_Init(&argc, &argv);
  const int rounds = argc > 1 ? atoi(argv[1]) : 1000;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    int n = rounds * rows[r].per_thousand / 1000;
    if (n < 2) n = 2;
    for (int i = 0; i < n / 10 + 1; ++i) rows[r].call();
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    for (int i = 0; i < n; ++i) rows[r].call();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
      printf("{\"row\": \"%s\", \"value\": %.2f}\n", rows[r].name,
             1e6 * (MPI_Wtime() - began) / n);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
