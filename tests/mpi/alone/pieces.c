/* Datatypes of very many pieces: what they take of memory, and that every piece arrives.
 *
 *   pieces COUNT
 *
 * A column of COUNT elements, each beside one that stays as it is; the same as a subarray, and as a
 * vector of pairs of blocks. Prints how much the process grew by the types' first use. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, failures;
static int64_t count;

static long resident_kib(void) {
  long all = 0, resident = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &all, &resident) != 2) exit(2);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static MPI_Datatype column(void) {
  MPI_Datatype type;
  MPI_Type_vector((int)count, 1, 2, MPI_INT, &type);
  return type;
}

static MPI_Datatype subarray(void) {
  const int sizes[] = {(int)count, 2}, parts[] = {(int)count, 1}, starts[] = {0, 0};
  MPI_Datatype type;
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
  return type;
}

/* Elements 0, 2 and 6 of each 8, then those at 4: other places, the same elements. */
static MPI_Datatype mixed(void) {
  const int lengths[] = {1, 1, 1}, places[] = {0, 2, 6};
  MPI_Datatype some, parts[2], type;
  MPI_Type_indexed(3, lengths, places, MPI_INT, &some);
  MPI_Type_create_hvector((int)count / 4, 1, 32, some, &parts[0]);
  MPI_Type_create_hvector((int)count / 4, 1, 32, MPI_INT, &parts[1]);
  const int each[] = {1, 1};
  const MPI_Aint at[] = {0, 16};
  MPI_Type_create_struct(2, each, at, parts, &type);
  MPI_Type_free(&some), MPI_Type_free(&parts[0]), MPI_Type_free(&parts[1]);
  return type;
}

static void check(const char* name, MPI_Datatype type, MPI_Win win, int* memory, int* mine) {
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Type_commit(&type);
  for (int64_t k = 0; k < 2 * count; ++k) mine[k] = (int)k + rank;
  MPI_Win_fence(0, win);
  memset(memory, 0x55, (size_t)count * 8);
  MPI_Win_fence(0, win);
  const long before = resident_kib();
  /* One element of the type that is not there: it is taken apart, and nothing is moved. */
  MPI_Put(mine, 0, type, right, 0, 0, type, win);
  const long grown = resident_kib() - before;
  MPI_Put(mine, 1, type, right, 0, 1, type, win);
  MPI_Win_fence(0, win);
  for (int64_t k = 0; k < 2 * count && failures == 0; ++k) {
    const int wanted = k % 2 == 0 ? (int)k + left : 0x55555555;
    if (memory[k] != wanted) {
      fprintf(stderr, "pieces: rank %d, %s, put: element %ld is %d\n", rank, name, (long)k,
              memory[k]);
      ++failures;
    }
  }
  MPI_Win_fence(0, win);
  memset(mine, 0x11, (size_t)count * 8);
  MPI_Get(mine, 1, type, right, 0, 1, type, win);
  MPI_Accumulate(memory, 0, type, right, 0, 0, type, MPI_SUM, win);
  MPI_Win_fence(0, win);
  for (int64_t k = 0; k < 2 * count && failures == 0; ++k) {
    const int wanted = k % 2 == 0 ? (int)k + rank : 0x11111111;
    if (mine[k] != wanted) {
      fprintf(stderr, "pieces: rank %d, %s, get: element %ld is %d\n", rank, name, (long)k,
              mine[k]);
      ++failures;
    }
  }
  if (rank == 0) printf("pieces: %s: %ld KiB\n", name, grown);
  if (grown > 4096) ++failures;
  MPI_Type_free(&type);
}

int main(int words, char** word) {
  int all = 0, *memory = NULL;
  MPI_Win win;
  MPI_Init(&words, &word);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  count = words > 1 ? atoll(word[1]) : 1 << 20;
  const MPI_Aint bytes = (MPI_Aint)count * 8;
  int* const mine = malloc((size_t)bytes);
  MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  MPI_Win_fence(0, win);
  check("vector", column(), win, memory, mine);
  check("subarray", subarray(), win, memory, mine);
  check("struct of vectors", mixed(), win, memory, mine);
  MPI_Win_fence(0, win);
  MPI_Win_free(&win);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("pieces: %d ranks, ok\n", size);
  free(mine);
  MPI_Finalize();
  return all != 0;
}
