/* Beyond 2^31 bytes, and many windows: large bytes|windows.
 *
 * bytes: one rank's window of 5 GiB; puts behind its fourth GiB, a datatype whose pieces lie 4.5
 * GiB apart, one transfer of more than 2^31 bytes by the large-count form.
 * windows: WINDOWS alive at once, then TURNS made and freed, with 256 descriptors. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

static int rank, size, failures;
#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      ++failures;                                                                       \
      fprintf(stderr, "large: rank %d, line %d: not %s\n", rank, __LINE__, #condition); \
    }                                                                                   \
  } while (0)
#define TRY(call) CHECK((call) == MPI_SUCCESS)

/* OpenMPI's header has no large-count forms yet; windows of Skerry's have them nevertheless. */
extern int MPI_Put_c(const void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype,
                     MPI_Win) __attribute__((weak));
extern int MPI_Get_c(void*, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype,
                     MPI_Win) __attribute__((weak));

#define GIB ((MPI_Aint)1 << 30)

static void far_pieces(MPI_Win win) {
  const uint64_t two[2] = {0x1111, 0x2222};
  uint64_t back[2] = {0, 0};
  MPI_Datatype apart;
  TRY(MPI_Type_create_hvector(2, 8, 4 * GIB + GIB / 2, MPI_BYTE, &apart));
  TRY(MPI_Type_commit(&apart));
  TRY(MPI_Put(two, 16, MPI_BYTE, 0, 24, 1, apart, win));
  TRY(MPI_Win_flush(0, win));
  TRY(MPI_Get(back, 16, MPI_BYTE, 0, 24, 1, apart, win));
  TRY(MPI_Win_flush(0, win));
  CHECK(back[0] == two[0] && back[1] == two[1]);
  TRY(MPI_Type_free(&apart));
}

static void far_words(MPI_Win win) {
  const uint64_t one = 1;
  uint64_t before = 7, value = 42, seen = 0;
  TRY(MPI_Put(&value, 8, MPI_BYTE, 0, 5 * GIB - 8, 8, MPI_BYTE, win));
  TRY(MPI_Win_flush(0, win));
  TRY(MPI_Get(&seen, 8, MPI_BYTE, 0, 5 * GIB - 8, 8, MPI_BYTE, win));
  TRY(MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, 0, 4 * GIB + 64, MPI_SUM, win));
  TRY(MPI_Win_flush(0, win));
  CHECK(seen == 42 && before == 0);
}

/* 2 GiB and 16 bytes; of the origin all but the last page is the system's page of zeros. */
static void long_transfer(MPI_Win win) {
  const MPI_Count count = ((MPI_Count)1 << 31) + 16;
  unsigned char* const origin = mmap(NULL, (size_t)count, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(origin != MAP_FAILED);
  memset(origin + count - 8, 0xAB, 8);
  TRY(MPI_Put_c(origin, count, MPI_BYTE, 0, 128, count, MPI_BYTE, win));
  TRY(MPI_Win_flush(0, win));
  uint64_t last = 0;
  TRY(MPI_Get_c(&last, 8, MPI_BYTE, 0, 128 + count - 8, 8, MPI_BYTE, win));
  TRY(MPI_Win_flush(0, win));
  CHECK(last == 0xABABABABABABABABu);
  munmap(origin, (size_t)count);
}

static void check_bytes(void) {
  char* memory = NULL;
  MPI_Win win;
  TRY(MPI_Win_allocate(rank == 0 ? 5 * GIB : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  TRY(MPI_Win_lock_all(0, win));
  if (rank == size - 1) {
    far_words(win);
    far_pieces(win);
    long_transfer(win);
  }
  TRY(MPI_Win_unlock_all(win));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    uint64_t word = 0;
    memcpy(&word, memory + 5 * GIB - 8, 8);
    CHECK(word == 42);
    memcpy(&word, memory + 24 + 4 * GIB + GIB / 2, 8);
    CHECK(word == 0x2222);
    memcpy(&word, memory + 4 * GIB + 64, 8);
    CHECK(word == 1);
  }
  TRY(MPI_Win_free(&win));
}

static void use(MPI_Win win, int bytes) {
  const long value = rank;
  long old = -1;
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (rank + 1) % size, 0, win));
  if (bytes > 0) TRY(MPI_Fetch_and_op(&value, &old, MPI_LONG, (rank + 1) % size, 0, MPI_SUM, win));
  else TRY(MPI_Put(&value, 0, MPI_LONG, (rank + 1) % size, 0, 0, MPI_LONG, win));
  TRY(MPI_Win_unlock((rank + 1) % size, win));
  if (bytes > 0) CHECK(old == 0);
}

static void check_windows(int alive, int turns) {
  MPI_Win* const wins = calloc((size_t)alive, sizeof *wins);
  long* memory = NULL;
  const struct rlimit few = {256, 256};
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  /* Every third has no bytes. */
  for (int k = 0; k < alive; ++k)
    TRY(MPI_Win_allocate(k % 3 == 0 ? 0 : 16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &wins[k]));
  for (int k = 0; k < alive; k += 7) use(wins[k], k % 3 == 0 ? 0 : 16);
  use(wins[alive - 1], (alive - 1) % 3 == 0 ? 0 : (alive - 1) % 7 == 0 ? 0 : 16);
  for (int k = 0; k < alive; ++k) TRY(MPI_Win_free(&wins[k]));
  for (int turn = 0; turn < turns; ++turn) {
    long own = 0;
    MPI_Win win;
    if (turn % 2 == 0) TRY(MPI_Win_allocate(16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    else TRY(MPI_Win_create(&own, 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    if (turn % 64 < 2) use(win, 16);
    TRY(MPI_Win_free(&win));
  }
  free(wins);
}

int main(int count, char** words) {
  int all = 0;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(words[1], "bytes") == 0) check_bytes();
  else check_windows(atoi(words[2]), atoi(words[3]));
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("large: %d ranks, ok\n", size);
  MPI_Finalize();
  return all != 0;
}
