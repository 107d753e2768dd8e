/* Accumulate and its kin: every operation on every datatype that has it, against
 * MPI_Reduce_local; and that concurrent ones lose nothing. */
#include "mpi_check.h"

enum { n = 6, room = 1024 };
enum sort { integer, fortran_integer, real, complex, logical, byte, pair };

static struct {
  const char* name;
  MPI_Datatype type;
  enum sort sort;
} types[80];
static int made;

static void add(const char* name, MPI_Datatype type, enum sort sort) {
  if (type == MPI_DATATYPE_NULL) return;
  types[made].name = name, types[made].type = type, types[made++].sort = sort;
}
#define ADD(type, sort) add(#type, type, sort)

static void make_types(void) {
  made = 0;
  ADD(MPI_SIGNED_CHAR, integer), ADD(MPI_UNSIGNED_CHAR, integer), ADD(MPI_SHORT, integer);
  ADD(MPI_UNSIGNED_SHORT, integer), ADD(MPI_INT, integer), ADD(MPI_UNSIGNED, integer);
  ADD(MPI_LONG, integer), ADD(MPI_UNSIGNED_LONG, integer), ADD(MPI_LONG_LONG, integer);
  ADD(MPI_UNSIGNED_LONG_LONG, integer), ADD(MPI_INT8_T, integer), ADD(MPI_UINT8_T, integer);
  ADD(MPI_INT16_T, integer), ADD(MPI_UINT16_T, integer), ADD(MPI_INT32_T, integer);
  ADD(MPI_UINT32_T, integer), ADD(MPI_INT64_T, integer), ADD(MPI_UINT64_T, integer);
  ADD(MPI_AINT, integer), ADD(MPI_OFFSET, integer), ADD(MPI_COUNT, integer);
  ADD(MPI_FLOAT, real), ADD(MPI_DOUBLE, real), ADD(MPI_LONG_DOUBLE, real);
  ADD(MPI_C_FLOAT_COMPLEX, complex), ADD(MPI_C_DOUBLE_COMPLEX, complex);
  ADD(MPI_C_LONG_DOUBLE_COMPLEX, complex), ADD(MPI_C_BOOL, logical), ADD(MPI_BYTE, byte);
  ADD(MPI_FLOAT_INT, pair), ADD(MPI_DOUBLE_INT, pair), ADD(MPI_LONG_INT, pair);
  ADD(MPI_2INT, pair), ADD(MPI_SHORT_INT, pair), ADD(MPI_LONG_DOUBLE_INT, pair);
#ifdef WITH_FORTRAN_TYPES
  ADD(MPI_INTEGER, fortran_integer), ADD(MPI_REAL, real), ADD(MPI_DOUBLE_PRECISION, real);
  ADD(MPI_COMPLEX, complex), ADD(MPI_DOUBLE_COMPLEX, complex), ADD(MPI_LOGICAL, logical);
  ADD(MPI_INTEGER1, fortran_integer), ADD(MPI_INTEGER2, fortran_integer),
      ADD(MPI_INTEGER4, fortran_integer);
  ADD(MPI_INTEGER8, fortran_integer), ADD(MPI_REAL4, real), ADD(MPI_REAL8, real);
  ADD(MPI_2REAL, pair), ADD(MPI_2DOUBLE_PRECISION, pair), ADD(MPI_2INTEGER, pair);
#endif
}

static struct {
  const char* name;
  MPI_Op op;
  unsigned sorts;
} ops[14];
static int operations;

static void add_op(const char* name, MPI_Op op, unsigned of) {
  ops[operations].name = name, ops[operations].op = op, ops[operations++].sorts = of;
}
#define BIT(sort) (1u << (sort))

static void make_ops(void) {
  const unsigned integers = BIT(integer) | BIT(fortran_integer);
  const unsigned numbers = integers | BIT(real);
  operations = 0;
  add_op("sum", MPI_SUM, numbers | BIT(complex)), add_op("prod", MPI_PROD, numbers | BIT(complex));
  add_op("min", MPI_MIN, numbers), add_op("max", MPI_MAX, numbers);
  add_op("land", MPI_LAND, BIT(integer) | BIT(logical));
  add_op("lor", MPI_LOR, BIT(integer) | BIT(logical));
  add_op("lxor", MPI_LXOR, BIT(integer) | BIT(logical));
  add_op("band", MPI_BAND, integers | BIT(byte));
  add_op("bor", MPI_BOR, integers | BIT(byte));
  add_op("bxor", MPI_BXOR, integers | BIT(byte));
  add_op("minloc", MPI_MINLOC, BIT(pair)), add_op("maxloc", MPI_MAXLOC, BIT(pair));
  add_op("replace", MPI_REPLACE, ~0u), add_op("no_op", MPI_NO_OP, ~0u);
}

/* Pairs differ in their parts only: written through the struct that MPI means. 0: not a pair. */
static int write_pair(MPI_Datatype type, char* at, int value) {
#define PAIR(of, first, second)                          \
  if (type == of) {                                      \
    struct {                                             \
      first a;                                           \
      second b;                                          \
    } both;                                              \
    memset(&both, 0, sizeof both);                       \
    both.a = (first)value, both.b = (second)(value + 3); \
    memcpy(at, &both, sizeof both);                      \
    return 1;                                            \
  }
  PAIR(MPI_FLOAT_INT, float, int)
  PAIR(MPI_DOUBLE_INT, double, int)
  PAIR(MPI_LONG_INT, long, int)
  PAIR(MPI_2INT, int, int)
  PAIR(MPI_SHORT_INT, short, int)
  PAIR(MPI_LONG_DOUBLE_INT, long double, int)
#ifdef WITH_FORTRAN_TYPES
  PAIR(MPI_2REAL, float, float)
  PAIR(MPI_2DOUBLE_PRECISION, double, double)
  PAIR(MPI_2INTEGER, int, int)
#endif
  return 0;
}

/* A small number of the type. */
static void write_number(int k, char* at, int value) {
  int bytes = 0;
  MPI_Type_size(types[k].type, &bytes);
  if (write_pair(types[k].type, at, value)) return;
  const int64_t whole = value;
  const float single[2] = {(float)value, (float)(value - 2)};
  const double twice[2] = {value, value - 2};
  const long double longest[2] = {value, value - 2};
  memset(at, 0, (size_t)bytes);
  switch (types[k].sort) {
    case integer:
    case fortran_integer:
    case byte: memcpy(at, &whole, (size_t)bytes); return;
    case logical: *at = (char)(value % 2 != 0); return;
    case real: bytes *= 2; break; /* as the first half of a complex number */
    case complex: break;
    case pair: return;
  }
  const int is_real = types[k].sort == real;
  if (bytes == 8) memcpy(at, single, is_real ? 4 : 8);
  else if (bytes == 16) memcpy(at, twice, is_real ? 8 : 16);
  else memcpy(at, longest, 10); /* x87 numbers have 10 bytes of 16 */
  if (bytes == 32 && !is_real) memcpy(at + 16, &longest[1], 10);
}

static int extent_of(MPI_Datatype type) {
  MPI_Aint lb, extent;
  MPI_Type_get_extent(type, &lb, &extent);
  return (int)extent;
}

static void fill(int k, char* memory, int seed) {
  memset(memory, 0, room);
  for (int i = 0; i < n; ++i)
    write_number(k, memory + i * extent_of(types[k].type), 1 + (seed * 3 + i * 5) % 7);
}

/* What MPI says about equal elements: gaps of pairs count nothing. */
static int equal(int k, const char* one, const char* other) {
  char a[room], b[room];
  int at = 0, end = 0;
  MPI_Pack(one, n, types[k].type, a, room, &at, MPI_COMM_SELF);
  MPI_Pack(other, n, types[k].type, b, room, &end, MPI_COMM_SELF);
  if (types[k].type != MPI_LONG_DOUBLE && types[k].type != MPI_C_LONG_DOUBLE_COMPLEX &&
      types[k].type != MPI_LONG_DOUBLE_INT)
    return at == end && memcmp(a, b, (size_t)at) == 0;
  for (int i = 0; i < at; ++i) /* x87 numbers have 10 bytes of 16 */
    if (a[i] != b[i] && i % (types[k].type == MPI_LONG_DOUBLE_INT ? 20 : 16) < 10) return 0;
  return 1;
}

static void apply(int k, MPI_Op op, const char* origin, char* target) {
  if (op == MPI_REPLACE) memcpy(target, origin, (size_t)(n * extent_of(types[k].type)));
  else if (op != MPI_NO_OP) MPI_Reduce_local(origin, target, n, types[k].type, op);
}

/* One rank at a time changes its right neighbour's elements; `shift` moves them off alignment. */
static void check_one(int k, int o, char* memory, MPI_Win win, int shift) {
  static char before[room], mine[room], expected[room], result[room], got[room];
  const MPI_Datatype type = types[k].type;
  const int bytes = n * extent_of(type);
  fill(k, before, right);
  fill(k, mine, rank + 2);
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  TRY(MPI_Put(before, bytes, MPI_BYTE, right, shift, bytes, MPI_BYTE, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Accumulate(mine, n, type, right, shift, n, type, ops[o].op, win));
  TRY(MPI_Win_flush(right, win));
  memset(result, 0, room);
  TRY(MPI_Get_accumulate(mine, n, type, result, n, type, right, shift, n, type, ops[o].op, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Get(got, bytes, MPI_BYTE, right, shift, bytes, MPI_BYTE, win));
  TRY(MPI_Win_unlock(right, win));
  memcpy(expected, before, room);
  apply(k, ops[o].op, mine, expected);
  CHECK(equal(k, result, expected), "result of %s on %s", ops[o].name, types[k].name);
  apply(k, ops[o].op, mine, expected);
  CHECK(equal(k, got, expected), "%s on %s", ops[o].name, types[k].name);
  /* One element. */
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
  memset(result, 0, room);
  TRY(MPI_Fetch_and_op(ops[o].op == MPI_NO_OP ? NULL : mine, result, type, right, shift, ops[o].op,
                       win));
  TRY(MPI_Win_flush(right, win));
  char one[room];
  memcpy(one, result, room);
  memcpy(one + extent_of(type), expected + extent_of(type), (size_t)(bytes - extent_of(type)));
  CHECK(equal(k, one, expected), "fetched by %s of %s", ops[o].name, types[k].name);
  TRY(MPI_Win_unlock(right, win));
  (void)memory;
}

/* Derived types of one predefined type on both sides. */
static void check_derived(MPI_Win win) {
  MPI_Datatype every_other, pairs;
  double mine[8], result[8], got[8];
  MPI_Type_vector(4, 1, 2, MPI_DOUBLE, &every_other);
  MPI_Type_commit(&every_other);
  for (int k = 0; k < 8; ++k) mine[k] = k + 1, result[k] = -1;
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  TRY(MPI_Put(mine, 8, MPI_DOUBLE, right, 0, 8, MPI_DOUBLE, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Accumulate(mine, 4, MPI_DOUBLE, right, 0, 1, every_other, MPI_SUM, win));
  TRY(MPI_Accumulate(mine, 1, every_other, right, 8, 1, every_other, MPI_SUM, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Get_accumulate(mine, 1, every_other, result, 1, every_other, right, 0, 4, MPI_DOUBLE,
                         MPI_SUM, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Get(got, 8, MPI_DOUBLE, right, 0, 8, MPI_DOUBLE, win));
  TRY(MPI_Win_unlock(right, win));
  /* After the accumulates: 1+1 2+1 3+2 4+3 5+3 6+5 7+4 8+7; then sums of 1 3 5 7 to the first. */
  const double after[8] = {3, 6, 10, 14, 8, 11, 11, 15};
  for (int k = 0; k < 8; ++k) CHECK(got[k] == after[k], "element %d: %g", k, got[k]);
  CHECK(result[0] == 2 && result[1] == -1 && result[2] == 3 && result[4] == 5 && result[6] == 7,
        "%g %g %g %g %g", result[0], result[1], result[2], result[4], result[6]);
  MPI_Type_contiguous(2, MPI_DOUBLE_INT, &pairs);
  MPI_Type_commit(&pairs);
  struct {
    double value;
    int at;
  } here[2] = {{3, 1}, {2, 2}}, there[2] = {{2, 5}, {4, 6}}, back[2];
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  TRY(MPI_Put(there, 1, pairs, right, 128, 1, pairs, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Accumulate(here, 2, MPI_DOUBLE_INT, right, 128, 1, pairs, MPI_MAXLOC, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Get(back, 2, MPI_DOUBLE_INT, right, 128, 1, pairs, win));
  TRY(MPI_Win_unlock(right, win));
  CHECK(back[0].value == 3 && back[0].at == 1 && back[1].value == 4 && back[1].at == 6,
        "%g %d, %g %d", back[0].value, back[0].at, back[1].value, back[1].at);
  MPI_Type_free(&pairs);
  MPI_Type_free(&every_other);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* One element that is not at the start of its type: the first update learns the type, the next
 * ones take a shorter way. */
static void check_displaced(MPI_Win win) {
  enum { place = 3, times = 3 };
  const int length = 1, at = place;
  const double ones[place + 1] = {100, 100, 100, 1};
  double got[place + 1] = {0}, zeros[place + 1] = {0};
  MPI_Datatype displaced;
  MPI_Type_indexed(1, &length, &at, MPI_DOUBLE, &displaced);
  MPI_Type_commit(&displaced);
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  TRY(MPI_Put(zeros, place + 1, MPI_DOUBLE, right, 0, place + 1, MPI_DOUBLE, win));
  TRY(MPI_Win_flush(right, win));
  for (int k = 0; k < times; ++k)
    TRY(MPI_Accumulate(ones, 1, displaced, right, 0, 1, displaced, MPI_SUM, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Get(got, place + 1, MPI_DOUBLE, right, 0, place + 1, MPI_DOUBLE, win));
  TRY(MPI_Win_unlock(right, win));
  CHECK(got[0] == 0 && got[place] == times, "%g and %g", got[0], got[place]);
  MPI_Type_free(&displaced);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void check_swap_of(MPI_Datatype type, int bytes, MPI_Win win) {
  int64_t desired = 5 + rank, compare = 0, old = 0, zero = 0, seen = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  TRY(MPI_Put(&zero, bytes, MPI_BYTE, right, 64, bytes, MPI_BYTE, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Compare_and_swap(&desired, &compare, &old, type, right, 64, win));
  TRY(MPI_Win_flush(right, win));
  CHECK(old == 0, "%lld with %d bytes", (long long)old, bytes);
  TRY(MPI_Compare_and_swap(&zero, &compare, &old, type, right, 64, win));
  TRY(MPI_Win_flush(right, win));
  TRY(MPI_Get(&seen, bytes, MPI_BYTE, right, 64, bytes, MPI_BYTE, win));
  TRY(MPI_Win_unlock(right, win));
  CHECK(old == desired && seen == desired, "%lld %lld", (long long)old, (long long)seen);
}

/* All ranks at once, to one place each for numbers, pairs, complex ones and odd addresses. */
static void check_concurrent(char* memory, MPI_Win win) {
  enum { times = 200 };
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
  memset(memory, 0, room);
  TRY(MPI_Win_unlock(rank, win));
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock_all(0, win));
  for (int k = 0; k < times; ++k) {
    const int one = 1, number = times * rank + k;
    const double half = 0.5;
    const long double sums[2] = {1, 2};
    const struct {
      double value;
      int at;
    } high = {number, rank};
    int old = -1, expected = 0;
    TRY(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
    TRY(MPI_Accumulate(&half, 1, MPI_DOUBLE, 0, 8, 1, MPI_DOUBLE, MPI_SUM, win));
    TRY(MPI_Accumulate(&one, 1, MPI_INT, 0, 19, 1, MPI_INT, MPI_SUM, win));
    TRY(MPI_Accumulate(sums, 1, MPI_C_LONG_DOUBLE_COMPLEX, 0, 32, 1, MPI_C_LONG_DOUBLE_COMPLEX,
                       MPI_SUM, win));
    TRY(MPI_Accumulate(&high, 1, MPI_DOUBLE_INT, 0, 64, 1, MPI_DOUBLE_INT, MPI_MAXLOC, win));
    do { /* a counter by compare and swap */
      const int desired = expected + 1;
      old = expected;
      TRY(MPI_Compare_and_swap(&desired, &expected, &old, MPI_INT, 0, 96, win));
      TRY(MPI_Win_flush(0, win));
      if (old == expected) break;
      expected = old;
    } while (1);
  }
  TRY(MPI_Win_unlock_all(win));
  MPI_Barrier(MPI_COMM_WORLD);
  TRY(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
  if (rank == 0) {
    int sum, odd, counter;
    double halves;
    long double pair_of[2];
    struct {
      double value;
      int at;
    } high;
    memcpy(&sum, memory, 4), memcpy(&halves, memory + 8, 8), memcpy(&odd, memory + 19, 4);
    memcpy(pair_of, memory + 32, 32), memcpy(&high, memory + 64, 16),
        memcpy(&counter, memory + 96, 4);
    CHECK(sum == times * size, "%d", sum);
    CHECK(odd == times * size, "%d", odd);
    CHECK(halves == 0.5 * times * size, "%g", halves);
    CHECK(pair_of[0] == times * size && pair_of[1] == 2 * times * size, "%Lg %Lg", pair_of[0],
          pair_of[1]);
    CHECK(high.value == times * size - 1 && high.at == size - 1, "%g %d", high.value, high.at);
    CHECK(counter == times * size, "%d", counter);
  }
  TRY(MPI_Win_unlock(rank, win));
}

/* A rank and an address in one update: a fetch gets both of one writer. MPI promises
 * it of each element only, but programs rely on it (lists in dynamic windows). Where the two lie
 * must not matter: here they stand around multiples of 4096 in the target's memory. */
static void check_short(void) {
  enum { apart = 4096, far = 2 * apart };
  if (getenv("SKERRY_USER_CHECKS") == NULL) return;
  long* const mine = aligned_alloc(apart, far);
  MPI_Win wins[2];
  long* allocated = NULL;
  memset(mine, 0, far);
  TRY(MPI_Win_create(mine, far, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &wins[0]));
  TRY(MPI_Win_allocate(far, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &allocated, &wins[1]));
  for (int k = 0; k < 2; ++k) {
    TRY(MPI_Win_lock_all(0, wins[k]));
    for (int turn = 0; turn < 400; ++turn) {
      const long two[2] = {rank * 1000 + turn, rank * 1000 + turn};
      long seen[2] = {-1, -1};
      TRY(MPI_Accumulate(two, 16, MPI_BYTE, 0, apart - 8, 16, MPI_BYTE, MPI_REPLACE, wins[k]));
      TRY(MPI_Win_flush(0, wins[k]));
      TRY(MPI_Get_accumulate(NULL, 0, MPI_BYTE, seen, 16, MPI_BYTE, 0, apart - 8, 16, MPI_BYTE,
                             MPI_NO_OP, wins[k]));
      TRY(MPI_Win_flush(0, wins[k]));
      CHECK(seen[0] == seen[1], "%ld and %ld", seen[0], seen[1]);
    }
    TRY(MPI_Win_unlock_all(wins[k]));
    MPI_Barrier(MPI_COMM_WORLD);
    TRY(MPI_Win_free(&wins[k]));
  }
  free(mine);
}

void check_updates(void) {
  make_types();
  make_ops();
  for (int created = 0; created < 2; ++created) {
    char* memory = aligned_alloc(64, room);
    char* const given = memory;
    MPI_Win win;
    memset(memory, 0, room);
    if (created) TRY(MPI_Win_create(memory, room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    else TRY(MPI_Win_allocate(room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    for (int k = 0; k < made; ++k)
      for (int o = 0; o < operations; ++o)
        if ((ops[o].sorts & BIT(types[k].sort)) != 0) check_one(k, o, memory, win, 128);
    check_one(4, 0, memory, win, 131); /* an int off its alignment */
    check_derived(win);
    check_displaced(win);
    check_swap_of(MPI_INT8_T, 1, win), check_swap_of(MPI_INT16_T, 2, win);
    check_swap_of(MPI_INT, 4, win), check_swap_of(MPI_LONG, 8, win);
    check_swap_of(MPI_BYTE, 1, win);
    check_concurrent(memory, win);
    MPI_Barrier(MPI_COMM_WORLD);
    TRY(MPI_Win_free(&win));
    free(given);
  }
  check_short();
}
