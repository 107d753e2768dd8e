/* Predefined datatypes under other names: those of MPI_Type_create_f90_*, duplicates, and ones that
 * the program itself has named. Updates take them as what they are, alone and inside others. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size, right, failures;
static double* memory;
static MPI_Win win;

#define TRY(call)                                                                      \
  do {                                                                                 \
    if ((call) != MPI_SUCCESS && ++failures < 10)                                      \
      fprintf(stderr, "renamed: rank %d, line %d: %s fails\n", rank, __LINE__, #call); \
  } while (0)

/* Adds `count` elements of `type` at `origin` to what `base` says is there, twice, by both names.
 * `number`: how to read the first and the last word of `words`. */
enum Number { whole32, whole64, single, real };
static double read_number(const void* words, enum Number number, int at) {
  if (number == whole32) return ((const int*)words)[at];
  if (number == whole64) return (double)((const long long*)words)[at];
  if (number == single) return ((const float*)words)[at];
  return ((const double*)words)[at];
}
static void write_number(void* words, enum Number number, int at, double value) {
  if (number == whole32) ((int*)words)[at] = (int)value;
  else if (number == whole64) ((long long*)words)[at] = (long long)value;
  else if (number == single) ((float*)words)[at] = (float)value;
  else ((double*)words)[at] = value;
}

/* `words` numbers make one element of `type`, and of `base_count` times `base`. */
static void check(const char* name, MPI_Datatype type, int words, MPI_Datatype base, int base_count,
                  enum Number number) {
  double ones[8] = {0}, got[8] = {0}, before[8] = {0};
  for (int k = 0; k < words; ++k) write_number(ones, number, k, k + 1);
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  TRY(MPI_Put(before, sizeof before, MPI_BYTE, right, 0, sizeof before, MPI_BYTE, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Accumulate(ones, 1, type, right, 0, 1, type, MPI_SUM, win));
  TRY(MPI_Accumulate(ones, 1, type, right, 0, base_count, base, MPI_SUM, win));
  TRY(MPI_Accumulate(ones, base_count, base, right, 0, 1, type, MPI_SUM, win));
  TRY(MPI_Get_accumulate(ones, 1, type, before, 1, type, right, 0, 1, type, MPI_SUM, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Get(got, 1, type, right, 0, 1, type, win));
  TRY(MPI_Win_unlock(right, win));
  for (int k = 0; k < words; ++k) {
    const double now = read_number(got, number, k), then = read_number(before, number, k);
    if ((now == 4 * (k + 1) && then == 3 * (k + 1)) || ++failures > 10) continue;
    fprintf(stderr, "renamed: rank %d, %s: word %d is %g after %g, not %d after %d\n", rank, name,
            k, now, then, 4 * (k + 1), 3 * (k + 1));
  }
}

/* Alone, two in a row, and both in a structure. */
static void check_nested(const char* name, MPI_Datatype type, int words, MPI_Datatype base,
                         enum Number number) {
  const int lengths[] = {1, 1};
  MPI_Aint lower = 0, extent = 0;
  MPI_Datatype two, mixed, again;
  MPI_Type_get_extent(type, &lower, &extent);
  check(name, type, words, base, 1, number);
  MPI_Type_contiguous(2, type, &two);
  MPI_Type_commit(&two);
  check(name, two, 2 * words, base, 2, number);
  const MPI_Aint at[] = {0, extent};
  const MPI_Datatype parts[] = {base, type};
  MPI_Type_create_struct(2, lengths, at, parts, &mixed);
  MPI_Type_commit(&mixed);
  check(name, mixed, 2 * words, base, 2, number);
  MPI_Type_dup(type, &again);
  MPI_Type_commit(&again);
  check(name, again, words, base, 1, number);
  MPI_Type_free(&two), MPI_Type_free(&mixed), MPI_Type_free(&again);
}

static void check_swap(MPI_Datatype type) {
  int old = -1, expected = 0, wanted = 5;
  const double zero = 0;
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  TRY(MPI_Put(&zero, 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Compare_and_swap(&wanted, &expected, &old, type, right, 0, win));
  TRY(MPI_Win_flush(right, win));
  if (old != 0) ++failures;
  TRY(MPI_Fetch_and_op(&wanted, &old, type, right, 0, MPI_SUM, win));
  TRY(MPI_Win_unlock(right, win));
  if (old != 5) ++failures;
}

int main(int count, char** words) {
  int all = 0;
  MPI_Datatype type;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = (rank + 1) % size;
  /* Before their first use in a window. */
  MPI_Type_set_name(MPI_LONG_LONG, "ticks");
  MPI_Type_set_name(MPI_FLOAT, "metres");
  MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  check_nested("MPI_LONG_LONG, renamed", MPI_LONG_LONG, 1, MPI_INT64_T, whole64);
  check_nested("MPI_FLOAT, renamed", MPI_FLOAT, 1, MPI_FLOAT, single);
  MPI_Type_create_f90_real(6, 30, &type);
  check_nested("real(6, 30)", type, 1, MPI_FLOAT, single);
  MPI_Type_create_f90_real(15, 300, &type);
  check_nested("real(15, 300)", type, 1, MPI_DOUBLE, real);
  MPI_Type_create_f90_real(15, MPI_UNDEFINED, &type);
  check_nested("real(15)", type, 1, MPI_DOUBLE, real);
  MPI_Type_create_f90_complex(6, 30, &type);
  check_nested("complex(6, 30)", type, 2, MPI_C_FLOAT_COMPLEX, single);
  MPI_Type_create_f90_complex(15, 300, &type);
  check_nested("complex(15, 300)", type, 2, MPI_C_DOUBLE_COMPLEX, real);
  MPI_Type_create_f90_integer(9, &type);
  check_nested("integer(9)", type, 1, MPI_INT, whole32);
  check_swap(type);
  MPI_Type_create_f90_integer(18, &type);
  check_nested("integer(18)", type, 1, MPI_LONG, whole64);
  MPI_Type_dup(MPI_INT, &type);
  MPI_Type_commit(&type);
  check_nested("a duplicate of MPI_INT", type, 1, MPI_INT, whole32);
  check_swap(type);
  MPI_Type_free(&type);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_free(&win);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("renamed: %d ranks, ok\n", size);
  MPI_Finalize();
  return all != 0;
}
