// ScaLAPACK's cholesky, lu, solve and qr of an n x n matrix of doubles on a grid of ranks, with
// blocks of NB x NB. Prints a line of JSON each: name, seconds (least of the rounds), error.
//
//   mpirun -n 4 dense_scalapack N NB ROUNDS
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void Cblacs_get(int, int, int*);
void Cblacs_gridinit(int*, const char*, int, int);
void Cblacs_gridinfo(int, int*, int*, int*, int*);
int numroc_(const int*, const int*, const int*, const int*, const int*);
void descinit_(int*, const int*, const int*, const int*, const int*, const int*, const int*,
               const int*, const int*, int*);
void pdpotrf_(const char*, const int*, double*, const int*, const int*, const int*, int*);
void pdgetrf_(const int*, const int*, double*, const int*, const int*, const int*, int*, int*);
void pdgesv_(const int*, const int*, double*, const int*, const int*, const int*, int*, double*,
             const int*, const int*, const int*, int*);
void pdgeqrf_(const int*, const int*, double*, const int*, const int*, const int*, double*, double*,
              const int*, int*);

static int nb, rows, columns, my_row, my_column;

// The matrix of dense.py: n on the diagonal, and something below 1 everywhere.
static double element(int n, int i, int j) {
  const double value = (double)((long)i * 313 + (long)j * 991 + (long)i * j % 1009) / 65536.0;
  return value - floor(value) + (i == j ? n : 0);
}

// With `symmetric`, the mean of the matrix and its transpose.
static void fill(double* local, int n, int local_rows, int local_columns, int symmetric) {
  for (int j = 0; j < local_columns; ++j)
    for (int i = 0; i < local_rows; ++i) {
      const int row = (i / nb * rows + my_row) * nb + i % nb;
      const int column = (j / nb * columns + my_column) * nb + j % nb;
      const double value = element(n, row, column);
      local[(size_t)j * local_rows + i] =
          symmetric ? (value + element(n, column, row)) / 2 : value;
    }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks, rank, context, info, zero = 0, one = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 4) {
    if (rank == 0) fprintf(stderr, "dense_scalapack N NB ROUNDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int n = atoi(argv[1]), rounds = atoi(argv[3]);
  nb = atoi(argv[2]);
  rows = (int)sqrt((double)ranks);
  while (ranks % rows) --rows;
  columns = ranks / rows;
  Cblacs_get(-1, 0, &context);
  Cblacs_gridinit(&context, "Row", rows, columns);
  Cblacs_gridinfo(context, &rows, &columns, &my_row, &my_column);
  const int local_rows = numroc_(&n, &nb, &my_row, &zero, &rows);
  const int local_columns = numroc_(&n, &nb, &my_column, &zero, &columns);
  int of_matrix[9], of_vector[9];
  descinit_(of_matrix, &n, &n, &nb, &nb, &zero, &zero, &context, &local_rows, &info);
  descinit_(of_vector, &n, &one, &nb, &nb, &zero, &zero, &context, &local_rows, &info);
  const size_t size = (size_t)local_rows * local_columns;
  double* a = malloc(sizeof(double) * size);
  double* b = malloc(sizeof(double) * local_rows);
  double* tau = malloc(sizeof(double) * (local_columns + nb));
  int* pivots = malloc(sizeof(int) * (local_rows + nb));
  const int room = nb * (local_rows + local_columns + nb) * 2;
  double* work = malloc(sizeof(double) * room);
  const char* const names[] = {"cholesky", "lu", "solve", "qr"};
  for (int which = 0; which < 4; ++which) {
    double best = 1e9;
    for (int round = 0; round < rounds; ++round) {
      fill(a, n, local_rows, local_columns, which == 0);
      for (int i = 0; i < local_rows; ++i) b[i] = 1;
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      if (which == 0)
        pdpotrf_("L", &n, a, &one, &one, of_matrix, &info);
      else if (which == 1)
        pdgetrf_(&n, &n, a, &one, &one, of_matrix, pivots, &info);
      else if (which == 2)
        pdgesv_(&n, &one, a, &one, &one, of_matrix, pivots, b, &one, &one, of_vector, &info);
      else
        pdgeqrf_(&n, &n, a, &one, &one, of_matrix, tau, work, &room, &info);
      MPI_Barrier(MPI_COMM_WORLD);
      if (MPI_Wtime() - begin < best) best = MPI_Wtime() - begin;
    }
    if (rank == 0)
      printf("{\"name\": \"%s\", \"seconds\": %g, \"error\": %d}\n", names[which], best, info);
  }
  MPI_Finalize();
  return 0;
}
