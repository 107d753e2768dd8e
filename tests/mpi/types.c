/* Datatypes on both sides: what arrives is what MPI_Pack and MPI_Unpack make of it. */
#include "mpi_check.h"

enum { room = 4096 };

struct record {
  char letter;
  double value;
  int numbers[3];
};

static int made;
static MPI_Datatype types[40];
static const char* names[40];

static void add(const char* name, MPI_Datatype type) {
  MPI_Type_commit(&type);
  names[made] = name;
  types[made++] = type;
}

/* Does the library's MPI_Pack take the places that MPI says (6 x 5, the second of 2 x 2 processes:
 * rows 0 to 2 of columns 2 and 3)? Intel MPI 2021.19 takes others. */
static int is_packed_right(MPI_Datatype type) {
  static const int right_places[] = {10, 11, 12, 15, 16, 17};
  int from[64], packed[64] = {0}, at = 0;
  MPI_Datatype same;
  MPI_Type_dup(type, &same);
  MPI_Type_commit(&same);
  for (int k = 0; k < 64; ++k) from[k] = k;
  MPI_Pack(from, 1, same, packed, sizeof packed, &at, MPI_COMM_SELF);
  MPI_Type_free(&same);
  return memcmp(packed, right_places, sizeof right_places) == 0;
}

static void make_types(void) {
  MPI_Datatype type, inner;
  const int lengths[] = {2, 0, 3, 1}, places[] = {5, 1, 9, 3};
  const MPI_Aint bytes[] = {40, 8, 72, 0};
  made = 0;
  MPI_Type_contiguous(6, MPI_INT, &type), add("contiguous", type);
  MPI_Type_vector(4, 2, 5, MPI_INT, &type), add("vector", type);
  MPI_Type_vector(3, 1, -2, MPI_INT, &type), inner = type;
  MPI_Aint shift = 4 * sizeof(int);
  int one = 1;
  MPI_Type_create_hindexed(1, &one, &shift, inner, &type), add("backward vector", type);
  MPI_Type_free(&inner);
  MPI_Type_create_hvector(3, 2, 28, MPI_INT, &type), add("hvector", type);
  MPI_Type_indexed(4, lengths, places, MPI_INT, &type), add("indexed", type);
  MPI_Type_create_hindexed(4, lengths, bytes, MPI_INT, &type), add("hindexed", type);
  MPI_Type_create_indexed_block(4, 2, places, MPI_INT, &type), add("indexed_block", type);
  MPI_Type_create_hindexed_block(4, 1, bytes, MPI_INT, &type), add("hindexed_block", type);
  const int sizes[] = {5, 6}, parts[] = {2, 3}, starts[] = {1, 2};
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
  add("subarray", type);
  MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
  add("subarray, Fortran", type);
  const int block_cyclic[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  const int arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, 2}, grid[] = {2, 2};
  MPI_Type_create_darray(4, 3, 2, sizes, block_cyclic, arguments, grid, MPI_ORDER_C, MPI_INT,
                         &type);
  add("darray", type);
  MPI_Type_create_darray(4, 1, 2, sizes, block_cyclic, arguments, grid, MPI_ORDER_FORTRAN, MPI_INT,
                         &type);
  if (is_packed_right(type)) add("darray, Fortran", type);
  else MPI_Type_free(&type);
  MPI_Type_create_resized(MPI_INT, 0, 12, &type), add("resized", type);
  MPI_Type_vector(2, 1, 2, MPI_INT, &inner);
  MPI_Type_create_resized(inner, -4, 24, &type), add("resized vector", type);
  MPI_Type_vector(2, 1, 2, type, &inner), add("vector of resized vectors", inner);
  MPI_Type_dup(inner, &type), add("dup", type);
}

static void make_records(void) {
  struct record record;
  MPI_Datatype type, exact;
  const int lengths[] = {1, 1, 3};
  MPI_Aint at[3], base;
  const MPI_Datatype parts[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
  MPI_Get_address(&record, &base);
  MPI_Get_address(&record.letter, &at[0]);
  MPI_Get_address(&record.value, &at[1]);
  MPI_Get_address(record.numbers, &at[2]);
  for (int k = 0; k < 3; ++k) at[k] -= base;
  MPI_Type_create_struct(3, lengths, at, parts, &type);
  MPI_Type_create_resized(type, 0, sizeof record, &exact);
  MPI_Type_free(&type);
  add("struct", exact);
}

static void fill(char* memory, int seed) {
  for (int k = 0; k < room; ++k) memory[k] = (char)(k * 7 + seed * 31 + k / 13);
}

/* `count` elements of `type` between buffers of different layout. */
static void expect(char* to, MPI_Datatype to_type, int to_count, const char* from,
                   MPI_Datatype from_type, int from_count) {
  char packed[room * 2];
  int at = 0, end = 0;
  MPI_Pack(from + 512, from_count, from_type, packed, sizeof packed, &at, MPI_COMM_SELF);
  MPI_Unpack(packed, at, &end, to + 512, to_count, to_type, MPI_COMM_SELF);
}

static void check_pair(char* memory, MPI_Win win, MPI_Datatype origin, int origin_count,
                       MPI_Datatype target, int target_count, const char* name) {
  static char mine[room], expected[room];
  fill(mine, rank);
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
  fill(memory, 100 + rank);
  TRY(MPI_Win_unlock(rank, win));
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  TRY(MPI_Put(mine + 512, origin_count, origin, right, 512, target_count, target, win));
  TRY(MPI_Win_unlock(right, win));
  MPI_Barrier(MPI_COMM_WORLD);
  static char theirs[room];
  fill(theirs, left);
  fill(expected, 100 + rank);
  expect(expected, target, target_count, theirs, origin, origin_count);
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
  CHECK(memcmp(memory, expected, room) == 0, "put of %s", name);
  TRY(MPI_Win_unlock(rank, win));
  /* Back again, into other memory. */
  static char back[room], expected_back[room], at_right[room];
  fill(back, 50);
  memcpy(expected_back, back, room);
  fill(at_right, 100 + right);
  expect(at_right, target, target_count, mine, origin, origin_count);
  expect(expected_back, origin, origin_count, at_right, target, target_count);
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
  TRY(MPI_Get(back + 512, origin_count, origin, right, 512, target_count, target, win));
  TRY(MPI_Win_unlock(right, win));
  CHECK(memcmp(back, expected_back, room) == 0, "get of %s", name);
}

static void check_bottom(char* memory, MPI_Win win) {
  int here[4] = {1, 2, 3, rank};
  MPI_Aint at;
  MPI_Datatype type;
  const int length = 4;
  const MPI_Datatype part = MPI_INT;
  MPI_Get_address(here, &at);
  MPI_Type_create_struct(1, &length, &at, &part, &type);
  MPI_Type_commit(&type);
  TRY(MPI_Win_fence(0, win));
  TRY(MPI_Put(MPI_BOTTOM, 1, type, right, 16, 4, MPI_INT, win));
  TRY(MPI_Win_fence(0, win));
  CHECK(((int*)(memory + 16))[3] == left, "absolute addresses");
  MPI_Type_free(&type);
}

static void check_freed_type(char* memory, MPI_Win win) {
  /* A handle of a freed type may come again for another one. */
  TRY(MPI_Win_fence(0, win));
  for (int k = 1; k < 20; ++k) {
    MPI_Datatype type;
    int values[64] = {0};
    values[0] = 1000 + k, values[k] = 2000 + k;
    MPI_Type_vector(2, 1, k, MPI_INT, &type);
    MPI_Type_commit(&type);
    TRY(MPI_Put(values, 1, type, right, 256, 2, MPI_INT, win));
    TRY(MPI_Win_fence(0, win));
    const int* const seen = (const int*)(memory + 256);
    CHECK(seen[0] == 1000 + k && seen[1] == 2000 + k, "%d %d, k %d", seen[0], seen[1], k);
    MPI_Type_free(&type);
    TRY(MPI_Win_fence(0, win));
  }
}

#if MPI_VERSION >= 4
static void check_large(char* memory, MPI_Win win) {
  MPI_Datatype type;
  const MPI_Count places[] = {0, 5, 2};
  int values[8] = {10, 11, 12, 13, 14, 15, 16, 17};
  MPI_Type_create_indexed_block_c(3, 1, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  TRY(MPI_Win_fence(0, win));
  TRY(MPI_Put_c(values, 1, type, right, 128, 3, MPI_INT, win));
  TRY(MPI_Win_fence(0, win));
  const int* const seen = (const int*)(memory + 128);
  CHECK(seen[0] == 10 && seen[1] == 15 && seen[2] == 12, "%d %d %d", seen[0], seen[1], seen[2]);
  MPI_Type_free(&type);
}
#endif

void check_types(void) {
  for (int created = 0; created < 2; ++created) {
    char* memory = calloc(1, room);
    char* const given = memory;
    MPI_Win win;
    if (created) TRY(MPI_Win_create(memory, room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    else TRY(MPI_Win_allocate(room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    make_types();
    for (int k = 0; k < made; ++k) {
      int bytes = 0;
      MPI_Type_size(types[k], &bytes);
      for (int count = 0; count <= 3; ++count) {
        check_pair(memory, win, types[k], count, types[k], count, names[k]);
        check_pair(memory, win, types[k], count, MPI_INT, count * bytes / 4, names[k]);
        check_pair(memory, win, MPI_INT, count * bytes / 4, types[k], count, names[k]);
      }
    }
    make_records();
    check_pair(memory, win, types[made - 1], 3, types[made - 1], 3, "struct");
    check_bottom(memory, win);
    check_freed_type(memory, win);
#if MPI_VERSION >= 4
    check_large(memory, win);
#endif
    MPI_Barrier(MPI_COMM_WORLD);
    TRY(MPI_Win_free(&win));
    for (int k = 0; k < made; ++k) MPI_Type_free(&types[k]);
    free(given);
  }
}
