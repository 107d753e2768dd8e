/* armci_check: the interface of armci.h itself. Every section is collective and checks its results.
 *   mpirun -n N armci_check [SECTION...]
 * Rank 0 ends with "armci_check: N processes, M nodes, K checks, ok". */
#include <armci.h>
#include <math.h>
#include <message.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static int me, n;

static void** allocate(long bytes) {
  void** p = malloc(sizeof(void*) * (size_t)n);
  CHECK(ARMCI_Malloc(p, bytes) == 0, "no %ld bytes", bytes);
  return p;
}

static void release(void** p) {
  CHECK(ARMCI_Free(p[me]) == 0, "not freed");
  free(p);
}

static void contiguous(void) {
  void** p = allocate(8 * 100);
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  double out[100], in[100];
  for (int i = 0; i < 100; ++i) out[i] = 1000 * me + i;
  CHECK(ARMCI_Put(out, p[next], sizeof out, next) == 0, "put");
  ARMCI_Barrier();
  double* mine = p[me];
  CHECK(mine[0] == 1000 * before && mine[99] == 1000 * before + 99, "mine is %g %g", mine[0],
        mine[99]);
  CHECK(ARMCI_Get((double*)p[next] + 50, in, 8, next) == 0 && in[0] == 1000 * me + 50, "got %g",
        in[0]);
  ARMCI_Barrier();
  double two = 2;
  for (int proc = 0; proc < n; ++proc)
    CHECK(ARMCI_Acc(ARMCI_ACC_DBL, &two, out, p[proc], sizeof out, proc) == 0, "acc");
  ARMCI_Barrier();
  double sum = 1000 * before + 7;
  for (int proc = 0; proc < n; ++proc) sum += 2 * (1000.0 * proc + 7);
  CHECK(mine[7] == sum, "accumulated %g instead of %g", mine[7], sum);
  ARMCI_Barrier();
  /* Nothing is a transfer too, also without pointers. */
  CHECK(ARMCI_Put(NULL, NULL, 0, next) == 0 && ARMCI_Get(p[next], in, 0, next) == 0, "nothing");
  /* Values, and the flag that follows its data. */
  ARMCI_PutValueDouble(2.5, (double*)p[next] + 1, next);
  ARMCI_PutValueInt(-3, p[next], next);
  ARMCI_PutValueLong(1L << 40, (long*)p[next] + 2, next);
  ARMCI_PutValueFloat(0.25f, (float*)p[next] + 8, next);
  ARMCI_Fence(next);
  CHECK(ARMCI_GetValueInt(p[next], next) == -3 &&
            ARMCI_GetValueDouble((double*)p[next] + 1, next) == 2.5,
        "values");
  CHECK(ARMCI_GetValueLong((long*)p[next] + 2, next) == 1L << 40 &&
            ARMCI_GetValueFloat((float*)p[next] + 8, next) == 0.25f,
        "values");
  ARMCI_Barrier();
  volatile int* flag = (volatile int*)((double*)p[me] + 99);
  *flag = 0;
  ARMCI_Barrier();
  for (int i = 0; i < 90; ++i) out[i] = me + 0.5;
  ARMCI_Put_flag(out, p[next], 8 * 90, (int*)((double*)p[next] + 99), 77, next);
  while (*flag != 77) ARMCI_WaitAll();
  CHECK(mine[89] == before + 0.5, "the flag came before the data");
  ARMCI_Barrier();
  /* Local memory that was not allocated collectively. */
  double private_memory[4] = {1, 2, 3, 4}, half = 0.5, four[4] = {4, 4, 4, 4};
  ARMCI_Acc(ARMCI_ACC_DBL, &half, four, private_memory, sizeof four, me);
  ARMCI_Get(private_memory, in, sizeof private_memory, me);
  CHECK(in[3] == 6, "private memory: %g", in[3]);
  release(p);
}

static void strided(void) {
  /* A 3-d block [4][5][6 doubles] out of [7][8][9], to another place of the same array at the next
   * process. */
  enum { A = 7, B = 8, C = 9 };
  void** p = allocate(8 * A * B * C);
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  double *mine = p[me], *source = malloc(8 * A * B * C);
  for (int i = 0; i < A * B * C; ++i) source[i] = 10000.0 * me + i;
  int stride[2] = {8 * C, 8 * C * B}, count[3] = {8 * 6, 5, 4};
  ARMCI_Barrier();
  CHECK(ARMCI_PutS(source + 1 * B * C + 2 * C + 3, stride, (double*)p[next] + 2 * B * C + 1 * C + 2,
                   stride, count, 2, next) == 0,
        "puts");
  ARMCI_Barrier();
  int bad = 0;
  for (int a = 0; a < A; ++a)
    for (int b = 0; b < B; ++b)
      for (int c = 0; c < C; ++c) {
        const int inside = a >= 2 && a < 6 && b >= 1 && b < 6 && c >= 2 && c < 8;
        const double want = inside ? 10000.0 * before + (a - 1) * B * C + (b + 1) * C + c + 1 : 0;
        bad += mine[(a * B + b) * C + c] != want;
      }
  CHECK(bad == 0, "%d elements are wrong after a strided put", bad);
  ARMCI_Barrier();
  double packed[4 * 5 * 6];
  int dense[2] = {8 * 6, 8 * 6 * 5};
  CHECK(ARMCI_GetS((double*)p[next] + 2 * B * C + 1 * C + 2, stride, packed, dense, count, 2,
                   next) == 0,
        "gets");
  CHECK(packed[0] == 10000.0 * me + B * C + 2 * C + 3 &&
            packed[119] == 10000.0 * me + 4 * B * C + 6 * C + 8,
        "got %g %g", packed[0], packed[119]);
  char again[8 * 4 * 5 * 6];
  armci_write_strided(source + 1 * B * C + 2 * C + 3, 2, stride, count, again);
  CHECK(memcmp(again, packed, sizeof again) == 0, "packed otherwise than got");
  armci_read_strided(source, 2, stride, count, again);
  CHECK(source[3 * B * C + 4 * C + 5] == packed[119], "unpacked otherwise");
  ARMCI_Barrier();
  double one = 1;
  for (int i = 0; i < 120; ++i) packed[i] = 1;
  CHECK(ARMCI_AccS(ARMCI_ACC_DBL, &one, packed, dense, (double*)p[0] + 2 * B * C + 1 * C + 2,
                   stride, count, 2, 0) == 0,
        "accs");
  ARMCI_Barrier();
  if (me == 0)
    CHECK(mine[2 * B * C + C + 2] == 10000.0 * before + B * C + 2 * C + 3 + n, "accumulated %g",
          mine[2 * B * C + C + 2]);
  /* Large strides, one element each, and the eight levels there may be. */
  int wide[1] = {8 * 250}, ones[2] = {8, 2};
  double two[2] = {-1, -2};
  int narrow[1] = {8};
  ARMCI_Barrier();
  ARMCI_PutS(two, narrow, p[next], wide, ones, 1, next);
  ARMCI_Barrier();
  CHECK(mine[0] == -1 && mine[250] == -2, "wide: %g %g", mine[0], mine[250]);
  int deep_stride[8], deep_count[9] = {1};
  for (int k = 0, step = 1; k < 8; ++k, step *= 2) {
    deep_stride[k] = step * 2;
    deep_count[k + 1] = k < 7 ? 2 : 1;
  }
  unsigned char bytes[512], *there = p[next];
  for (int i = 0; i < 512; ++i) bytes[i] = (unsigned char)(i ^ me);
  ARMCI_Barrier();
  CHECK(ARMCI_PutS(bytes, deep_stride, there, deep_stride, deep_count, 8, next) == 0,
        "eight levels");
  ARMCI_Barrier();
  CHECK(((unsigned char*)p[me])[254] == (unsigned char)(254 ^ before) &&
            ((unsigned char*)p[me])[2] == (unsigned char)(2 ^ before),
        "eight levels");
  /* A count of nothing. */
  int zero[3] = {8, 0, 3};
  CHECK(ARMCI_PutS(source, stride, p[next], stride, zero, 2, next) == 0, "nothing");
  ARMCI_Barrier();
  free(source);
  release(p);
}

/* Accumulates to addresses that are no multiple of the element used to end the job. Everybody adds
 * to the same elements at the same time, and no addition may be lost. */
static void odd_strides(void) {
  enum { blocks = 40, bytes = 4 * 1024 };
  void** p = allocate(bytes);
  const double sums = n * (n + 1) / 2.0;
  double near[blocks], one = 1, two = 2;
  int packed[2] = {8, 8 * 8}, odd[2] = {12, 12 * 8 + 1}, count[3] = {8, 8, 5};
  for (int i = 0; i < blocks; ++i) near[i] = (me + 1) * (i + 1);
  for (int proc = 0; proc < n; ++proc) {
    CHECK(ARMCI_AccS(ARMCI_ACC_DBL, &two, near, packed, p[proc], odd, count, 2, proc) == 0,
          "doubles 12 bytes apart");
    armci_hdl_t handle;
    ARMCI_INIT_HANDLE(&handle);
    CHECK(
        ARMCI_NbAccS(ARMCI_ACC_DBL, &one, near, packed, p[proc], odd, count, 2, proc, &handle) == 0,
        "the same, later");
    CHECK(ARMCI_Wait(&handle) == 0, "wait");
  }
  ARMCI_Barrier();
  for (int i = 0; i < blocks; ++i) {
    double got;
    memcpy(&got, (char*)p[me] + 12 * (i % 8) + (12 * 8 + 1) * (i / 8), sizeof got);
    CHECK(got == 3 * (i + 1) * sums, "double %d is %g", i, got);
  }
  ARMCI_Barrier();
  release(p);
}

/* Contiguous and vectors, of every type, one byte from where they belong; a piece twice. */
static void odd_addresses(void) {
  void** p = allocate(4 * 1024);
  const int next = (me + 1) % n;
  double one = 1;
  int i4[2] = {me + 1, -1}, one4 = 1;
  long i8[2] = {me + 1, -1}, one8 = 1;
  float f4[4] = {(float)me + 1, -1, 2, -2}, onef[2] = {1, 0};
  double f8[4] = {me + 1, -1, 2, -2}, oned[2] = {0, 1};
  char* there = (char*)p[next] + 1024;
  ARMCI_Acc(ARMCI_ACC_INT, &one4, i4, there + 1, sizeof i4, next);
  ARMCI_Acc(ARMCI_ACC_LNG, &one8, i8, there + 11, sizeof i8, next);
  ARMCI_Acc(ARMCI_ACC_FLT, onef, f4, there + 101, sizeof f4, next);
  ARMCI_Acc(ARMCI_ACC_CPL, onef, f4, there + 201, sizeof f4, next);
  ARMCI_Acc(ARMCI_ACC_DCP, oned, f8, there + 301, sizeof f8, next); /* times i */
  void *from[4] = {f8, f8 + 1, f8, f8},
       *to[4] = {there + 404, there + 412, there + 404, there + 432};
  armci_giov_t pieces = {from, to, 8, 4};
  CHECK(ARMCI_AccV(ARMCI_ACC_DBL, &one, &pieces, 1, next) == 0, "pieces");
  ARMCI_Barrier();
  const int before = (me + n - 1) % n;
  char* mine = (char*)p[me] + 1024;
  double d[4];
  memcpy(i4, mine + 1, sizeof i4), memcpy(i8, mine + 11, sizeof i8);
  CHECK(i4[0] == before + 1 && i4[1] == -1 && i8[0] == before + 1 && i8[1] == -1, "integers");
  memcpy(f4, mine + 101, sizeof f4);
  CHECK(f4[0] == before + 1 && f4[3] == -2, "floats %g %g", f4[0], f4[3]);
  memcpy(f4, mine + 201, sizeof f4);
  CHECK(f4[0] == before + 1 && f4[3] == -2, "complex %g %g", f4[0], f4[3]);
  memcpy(d, mine + 301, sizeof d);
  CHECK(d[0] == 1 && d[1] == before + 1 && d[2] == 2 && d[3] == 2, "times i %g %g %g %g", d[0],
        d[1], d[2], d[3]);
  memcpy(d, mine + 404, sizeof d);
  CHECK(d[0] == 2 * (before + 1) && d[1] == -1, "pieces %g %g", d[0], d[1]);
  memcpy(d, mine + 432, sizeof d);
  CHECK(d[0] == before + 1, "the piece of eight-byte words %g", d[0]);
  ARMCI_Barrier();
  release(p);
}

/* More than is fetched at a time. */
static void odd_and_long(void) {
  enum { many = 300000 };
  void** p = allocate(8L * many + 8);
  double *much = malloc(8L * many), one = 1;
  for (int i = 0; i < many; ++i) much[i] = i + me;
  ARMCI_Acc(ARMCI_ACC_DBL, &one, much, (char*)p[0] + 4, 8 * many, 0);
  ARMCI_Barrier();
  if (me == 0) {
    memcpy(much, (char*)p[0] + 4, 8L * many);
    int wrong = 0;
    for (int i = 0; i < many; ++i) wrong += much[i] != (double)n * i + n * (n - 1) / 2;
    CHECK(wrong == 0, "%d of many", wrong);
  }
  ARMCI_Barrier();
  free(much);
  release(p);
}

static void vectors(void) {
  void **p = allocate(4000), **q = allocate(4000);
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  int out[40];
  void *from[40], *to[40], *back[40];
  int in[40];
  for (int i = 0; i < 40; ++i) {
    out[i] = 100 * me + i;
    from[i] = &out[i];
    to[i] = (char*)(i % 2 ? p : q)[next] + 80 * (39 - i); /* both allocations by turns */
    back[i] = &in[i];
  }
  ARMCI_Barrier();
  armci_giov_t pieces[2] = {{from, to, 4, 15}, {from + 15, to + 15, 4, 25}};
  CHECK(ARMCI_PutV(pieces, 2, next) == 0, "putv");
  ARMCI_Barrier();
  CHECK(*(int*)((char*)p[me] + 80 * 38) == 100 * before + 1 &&
            *(int*)((char*)q[me] + 80 * 39) == 100 * before,
        "putv");
  ARMCI_Barrier();
  int one = 1;
  armci_hdl_t handle;
  ARMCI_INIT_HANDLE(&handle);
  CHECK(ARMCI_NbAccV(ARMCI_ACC_INT, &one, pieces, 2, next, &handle) == 0, "accv");
  ARMCI_Wait(&handle);
  armci_giov_t get[1] = {{to, back, 4, 40}};
  CHECK(ARMCI_NbGetV(get, 1, next, &handle) == 0, "getv");
  ARMCI_Wait(&handle);
  int bad = 0;
  for (int i = 0; i < 40; ++i) bad += in[i] != 2 * (100 * me + i);
  CHECK(bad == 0, "%d of 40 pieces are wrong", bad);
  ARMCI_Barrier();
  release(q);
  release(p);
}

static void non_blocking(void) {
  enum { many = 300 };
  void** p = allocate(8 * many * n);
  double out[many], in[many];
  armci_hdl_t handles[many];
  for (int i = 0; i < many; ++i) {
    out[i] = 1000 * me + i;
    ARMCI_INIT_HANDLE(&handles[i]);
    CHECK(ARMCI_NbPut(&out[i], (double*)p[i % n] + me * many + i, 8, i % n, &handles[i]) == 0,
          "nbput");
  }
  for (int i = many - 1; i >= 0; --i) ARMCI_Wait(&handles[i]);
  for (int i = 0; i < many; ++i)
    CHECK(ARMCI_Wait(&handles[i]) == 0 && ARMCI_Test(&handles[i]) == 0, "waiting again");
  ARMCI_Barrier();
  const int next = (me + 1) % n;
  armci_hdl_t all;
  ARMCI_INIT_HANDLE(&all);
  ARMCI_SET_AGGREGATE_HANDLE(&all);
  for (int i = 0; i < many; ++i)
    ARMCI_NbGet((double*)p[i % n] + next * many + i, &in[i], 8, i % n, &all);
  ARMCI_UNSET_AGGREGATE_HANDLE(&all);
  ARMCI_Wait(&all);
  int bad = 0;
  for (int i = 0; i < many; ++i) bad += in[i] != 1000 * next + i;
  CHECK(bad == 0, "%d aggregated gets are wrong", bad);
  ARMCI_Barrier();
  double one = 1;
  for (int i = 0; i < many; ++i)
    ARMCI_NbAcc(ARMCI_ACC_DBL, &one, &out[i], (double*)p[i % n] + me * many + i, 8, i % n, NULL);
  ARMCI_WaitAll();
  ARMCI_AllFence();
  /* One handle, used again without waiting in between: it waits by itself. */
  for (int i = 0; i < many; ++i)
    ARMCI_NbGet((double*)p[i % n] + me * many + i, &in[i], 8, i % n, &all);
  while (ARMCI_Test(&all) != 0) {
  }
  bad = 0;
  for (int i = 0; i < many; ++i) bad += in[i] != 2 * out[i];
  CHECK(bad == 0, "%d gets with one handle are wrong", bad);
  ARMCI_Barrier();
  release(p);
}

static void words(void) {
  void** p = allocate(me == n - 1 ? 64 : 0);
  CHECK((me == n - 1) == (p[me] != NULL), "own pointer %p", p[me]);
  long* home = p[n - 1];
  int *narrow = (int*)(home + 4), last = -1;
  long sum = 0;
  for (int k = 0; k < 100; ++k) {
    long got;
    CHECK(ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &got, home, 1, n - 1) == 0, "rmw");
    sum += got;
    int old;
    CHECK(ARMCI_Rmw(ARMCI_FETCH_AND_ADD, &old, narrow, 2, n - 1) == 0 && old > last && old % 2 == 0,
          "old %d after %d", old, last);
    last = old;
  }
  armci_msg_lgop(&sum, 1, "+");
  CHECK(sum == 100L * n * (100L * n - 1) / 2, "every number once: %ld", sum);
  long token = me + 1;
  ARMCI_Rmw(ARMCI_SWAP_LONG, &token, home + 1, 0, n - 1);
  int small = me + 1;
  ARMCI_Rmw(ARMCI_SWAP, &small, (int*)(home + 2), 0, n - 1);
  long tokens[2] = {token, small};
  ARMCI_Barrier();
  if (me == n - 1) {
    tokens[0] += home[1];
    tokens[1] += *(int*)(home + 2);
  }
  armci_msg_lgop(tokens, 2, "+");
  CHECK(tokens[0] == n * (n + 1) / 2 && tokens[1] == n * (n + 1) / 2, "swapped tokens: %ld %ld",
        tokens[0], tokens[1]);
  release(p);
}

static void mutexes(void) {
  void** p = allocate(8 * 4);
  CHECK(ARMCI_Create_mutexes(me % 3 + 1) == 0, "no mutexes");
  for (int k = 0; k < 60; ++k) {
    const int home = (me + k) % n, mutex = home % 3;
    long x;
    ARMCI_Lock(mutex, home);
    ARMCI_Get(p[home], &x, 8, home);
    ++x;
    ARMCI_Put(&x, p[home], 8, home);
    ARMCI_Fence(home);
    ARMCI_Unlock(mutex, home);
  }
  ARMCI_Barrier();
  long total = *(long*)p[me];
  armci_msg_lgop(&total, 1, "+");
  CHECK(total == 60L * n, "%ld increments under mutexes instead of %d", total, 60 * n);
  CHECK(ARMCI_Destroy_mutexes() == 0, "mutexes stay");
  release(p);
}

static void notification(void) {
  void** p = allocate(8 * n);
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  for (int round = 1; round <= 50; ++round) {
    double x = 100 * me + round;
    ARMCI_Put(&x, (double*)p[next] + me, 8, next);
    CHECK(armci_notify(next) == round, "number of notifications");
    int count = 0;
    armci_notify_wait(before, &count);
    CHECK(count == round, "count %d in round %d", count, round);
    CHECK(((volatile double*)p[me])[before] == 100 * before + round,
          "the notification came before the data");
    armci_msg_barrier();
  }
  release(p);
}

static void groups(void) {
  ARMCI_Group world, mine, other, inner, kept;
  ARMCI_Group_get_world(&world);
  int size = 0, rank = -1;
  ARMCI_Group_size(&world, &size);
  ARMCI_Group_rank(&world, &rank);
  CHECK(size == n && rank == me, "world: %d of %d", rank, size);
  /* Members only: evens and odds each make theirs, in descending order. */
  int list[64], count = 0;
  for (int r = n - 1; r >= 0; --r)
    if (r % 2 == me % 2) list[count++] = r;
  ARMCI_Group_create(count, list, &mine);
  ARMCI_Group_rank(&mine, &rank);
  CHECK(mine.size == count && list[rank] == me && ARMCI_Absolute_id(&mine, rank) == me,
        "rank %d in the group", rank);
  int comm_rank = -1;
  MPI_Comm_rank(armci_group_comm(&mine), &comm_rank);
  CHECK(comm_rank == rank && mine.comm == armci_group_comm(&mine), "rank %d in its communicator",
        comm_rank);
  void* q[64];
  CHECK(ARMCI_Malloc_group(q, 80, &mine) == 0, "no memory over the group");
  double one = 1, ten[10];
  for (int i = 0; i < 10; ++i) ten[i] = i;
  for (int i = 0; i < count; ++i)
    ARMCI_Acc(ARMCI_ACC_DBL, &one, ten, q[i], 80, ARMCI_Absolute_id(&mine, i));
  ARMCI_AllFence();
  armci_msg_group_barrier(&mine);
  CHECK(((double*)q[rank])[9] == 9.0 * count, "accumulated %g", ((double*)q[rank])[9]);
  double x[2] = {me, 1};
  armci_msg_group_dgop(x, 2, "+", &mine);
  CHECK(x[1] == count, "sum %g", x[1]);
  int y = rank == 0 ? me : -1;
  armci_msg_group_bcast_scope(SCOPE_ALL, &y, sizeof y, list[0], &mine);
  CHECK(y == list[0], "broadcast %d", y);
  /* A child of the group, named by ranks there; those left out may call it as well. */
  int half = (count + 1) / 2, first[64];
  for (int i = 0; i < half; ++i) first[i] = i;
  ARMCI_Group_create_child(half, first, &inner, &mine);
  if (rank < half) {
    long z = 1;
    armci_msg_group_lgop(&z, 1, "+", &inner);
    CHECK(z == half && ARMCI_Absolute_id(&inner, 0) == list[0], "child: %ld", z);
    ARMCI_Group_free(&inner);
  } else {
    CHECK(inner.comm == MPI_COMM_NULL && inner.size == 0, "no member, yet %d members", inner.size);
    ARMCI_Group_free(&inner);
  }
  CHECK(ARMCI_Free_group(q[rank], &mine) == 0, "not freed");
  /* The default group decides what ranks mean. */
  ARMCI_Group_set_default(&mine);
  ARMCI_Group_get_default(&kept);
  CHECK(kept.group == mine.group, "default");
  int zero = 0;
  ARMCI_Group_create(1, &zero, &other);
  CHECK((rank == 0) == (other.size == 1), "a group of one: %d", other.size);
  if (rank == 0) CHECK(ARMCI_Absolute_id(&other, 0) == me, "a group of one");
  ARMCI_Group_free(&other);
  ARMCI_Group_set_default(&world);
  ARMCI_Group_free(&mine);
  /* Many, made and freed: nothing is used up. */
  for (int k = 0; k < 40; ++k) {
    int pair[2] = {0, n - 1};
    ARMCI_Group_create(n > 1 ? 2 : 1, pair, &other);
    ARMCI_Group_free(&other);
  }
  ARMCI_Barrier();
}

static void messages(void) {
  double x[3] = {me, -me, 0.5};
  armci_msg_dgop(x, 3, "+");
  CHECK(x[0] == n * (n - 1) / 2 && x[1] == -x[0] && x[2] == 0.5 * n, "sum %g %g %g", x[0], x[1],
        x[2]);
  int bits = 1 << (me % 20), both[2] = {me, 1}, logical = me == 0;
  armci_msg_igop(&bits, 1, "or");
  CHECK(bits == (n >= 20 ? (1 << 20) - 1 : (1 << n) - 1), "or %x", bits);
  armci_msg_igop(both, 2, "&&");
  CHECK(both[0] == 0 && both[1] == 1, "and %d %d", both[0], both[1]);
  armci_msg_igop(&logical, 1, "||");
  CHECK(logical == 1, "or %d", logical);
  long long big = (1LL << 40) + me;
  armci_msg_llgop(&big, 1, "max");
  CHECK(big == (1LL << 40) + n - 1, "max %lld", big);
  float single[2] = {2, (float)-me - 1};
  armci_msg_fgop(single, 1, "*");
  CHECK(single[0] == powf(2, (float)n), "product %g", single[0]);
  armci_msg_fgop(single + 1, 1, "absmin");
  CHECK(single[1] == 1, "absmin %g", single[1]);
  long least = 10 - me;
  armci_msg_reduce(&least, 1, "min", ARMCI_LONG);
  if (me == 0) CHECK(least == 11 - n, "reduced to %ld", least);
  /* More than a chunk of the tree. */
  double* much = malloc(8 * 5000);
  for (int i = 0; i < 5000; ++i) much[i] = i;
  armci_msg_dgop(much, 5000, "+");
  CHECK(much[4999] == 4999.0 * n && much[1] == n, "long sum %g", much[4999]);
  for (int root = 0; root < n; ++root) {
    for (int i = 0; i < 5000; ++i) much[i] = me == root ? root + i : -1;
    armci_msg_bcast(much, 8 * 5000, root);
    CHECK(much[0] == root && much[4999] == root + 4999, "broadcast of %d gave %g", root,
          much[4999]);
  }
  free(much);
  int count = 1;
  armci_msg_gop_scope(SCOPE_NODE, &count, 1, "+", ARMCI_INT);
  CHECK(count == armci_domain_nprocs(ARMCI_DOMAIN_SMP, -1), "%d on this node", count);
  if (armci_domain_glob_proc_id(ARMCI_DOMAIN_SMP, armci_domain_my_id(ARMCI_DOMAIN_SMP), 0) == me) {
    int nodes = 1;
    armci_msg_gop_scope(SCOPE_MASTERS, &nodes, 1, "+", ARMCI_INT);
    CHECK(nodes == armci_domain_count(ARMCI_DOMAIN_SMP), "%d nodes", nodes);
  }
  struct {
    double value;
    int who;
  } chosen = {(double)((me * 7 + 3) % n), me};
  armci_msg_sel_scope(SCOPE_ALL, &chosen, sizeof chosen, "max", ARMCI_DOUBLE,
                      me % 2 == 0 || n == 1);
  CHECK(chosen.who % 2 == 0 && (chosen.who * 7 + 3) % n == (int)chosen.value, "selected %g of %d",
        chosen.value, chosen.who);
  /* A sum up the tree, by messages. */
  int root, up, left, right, length = 0;
  armci_msg_bintree(SCOPE_ALL, &root, &up, &left, &right);
  int sum = me, part;
  if (left >= 0) armci_msg_rcv(5, &part, sizeof part, &length, left), sum += part;
  if (right >= 0) armci_msg_rcv(5, &part, sizeof part, NULL, right), sum += part;
  if (up >= 0) armci_msg_snd(5, &sum, sizeof sum, up);
  if (me == root) CHECK(sum == n * (n - 1) / 2, "sum up the tree %d", sum);
  if (left >= 0) CHECK(length == sizeof part, "%d bytes received", length);
  if (n > 1 && me == 0) {
    int who = armci_msg_rcvany(6, &part, sizeof part, &length);
    CHECK(who == n - 1 && part == 42, "%d from %d", part, who);
  } else if (me == n - 1 && n > 1) {
    part = 42;
    armci_msg_snd(6, &part, sizeof part, 0);
  }
  double before = armci_timer();
  CHECK(armci_timer() >= before, "time runs back");
  int nodes = armci_domain_count(ARMCI_DOMAIN_SMP), seen = 0;
  for (int k = 0; k < nodes; ++k)
    for (int i = 0; i < armci_domain_nprocs(ARMCI_DOMAIN_SMP, k); ++i, ++seen) {
      const int proc = armci_domain_glob_proc_id(ARMCI_DOMAIN_SMP, k, i);
      CHECK(armci_domain_id(ARMCI_DOMAIN_SMP, proc) == k, "process %d", proc);
      CHECK(ARMCI_Same_node(proc) == (k == armci_domain_my_id(ARMCI_DOMAIN_SMP)), "process %d",
            proc);
    }
  CHECK(seen == n, "%d processes on all nodes", seen);
}

/* Operators end where their name ends, with no terminator: Fortran has none, and C programs pass
 * the address of one character. Behind the page's end nothing can be read; "behind" has more. */
static void operators(void) {
  const long page = sysconf(_SC_PAGESIZE);
  char* pages = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
  CHECK(pages != MAP_FAILED && mprotect(pages + page, (size_t)page, PROT_NONE) == 0, "two pages");
  const struct {
    const char* name;
    long is; /* of 13 + rank */
  } table[] = {{"max", 12 + n}, {"min", 13}, {"absmax", 12 + n}, {"absmin", 13},
               {"&&", 1},       {"land", 1}, {"||", 1},          {"lor", 1}};
  for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
    const size_t length = strlen(table[k].name);
    char* last = pages + page - length;
    memcpy(last, table[k].name, length);
    char behind[16];
    snprintf(behind, sizeof behind, "%s%s", table[k].name, "garbage");
    for (int form = 0; form < 2; ++form) {
      char* op = form == 0 ? last : behind;
      int a = 13 + me;
      long b = 13 + me;
      long long c = 13 + me;
      armci_msg_igop(&a, 1, op);
      armci_msg_lgop(&b, 1, op);
      armci_msg_llgop(&c, 1, op);
      CHECK(a == table[k].is && b == table[k].is && c == table[k].is, "%s: %d %ld %lld",
            table[k].name, a, b, c);
      if (k >= 4) continue; /* logical */
      float f = (float)(13 + me);
      double d = 13 + me;
      armci_msg_fgop(&f, 1, op);
      armci_msg_dgop(&d, 1, op);
      CHECK(f == table[k].is && d == table[k].is, "%s: %g %g", table[k].name, f, d);
    }
  }
  long sum = 0, product = 1, of_bits[2] = {~0L, 0};
  for (int proc = 0; proc < n; ++proc) {
    sum += 13 + proc;
    product *= 13 + proc % 3;
    of_bits[0] &= 13 + proc, of_bits[1] |= 13 + proc;
  }
  const struct {
    const char* name;
    long is;
  } more[] = {{"+", sum},          {"*", product},    {"band", of_bits[0]}, {"&", of_bits[0]},
              {"bor", of_bits[1]}, {"|", of_bits[1]}, {"or", of_bits[1]}};
  for (size_t k = 0; k < sizeof more / sizeof *more; ++k) {
    /* A bit operator of one character cannot be told from the logical one of two at a page's end.
     */
    const size_t length = strlen(more[k].name) + (*more[k].name == '&' || *more[k].name == '|');
    char* op = pages + page - length;
    memcpy(op, more[k].name, length);
    long x = k == 1 ? 13 + me % 3 : 13 + me;
    armci_msg_lgop(&x, 1, op);
    CHECK(x == more[k].is, "%s: %ld instead of %ld", more[k].name, x, more[k].is);
  }
  struct {
    double value;
    long who;
  } chosen = {1.0 + me, me};
  memcpy(pages + page - 3, "max", 3);
  armci_msg_sel_scope(SCOPE_ALL, &chosen, sizeof chosen, pages + page - 3, ARMCI_DOUBLE, 1);
  CHECK(chosen.value == n && chosen.who == n - 1, "selected %g of %ld", chosen.value, chosen.who);
  munmap(pages, 2 * (size_t)page);
}

/* Sends that are under way when their sender enters a barrier of ARMCI, as ScaLAPACK leaves them.
 * MPI moves them only in calls of MPI, so all ranks used to hang here. */
static void beside_mpi(void) {
  enum { numbers = 1 << 20 };
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  double *out = malloc(sizeof(double) * numbers), *in = calloc(numbers, sizeof(double));
  for (int k = 0; k < numbers; ++k) out[k] = me + k;
  MPI_Request sent;
  for (int late = 0; late < 2; ++late) {
    /* Half of the processes receive while the other half, whose messages they wait for, is in the
     * barrier already. */
    MPI_Isend(out, numbers, MPI_DOUBLE, next, 7, MPI_COMM_WORLD, &sent);
    if (me % 2 == late) ARMCI_Barrier();
    MPI_Recv(in, numbers, MPI_DOUBLE, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (me % 2 != late) ARMCI_Barrier();
    CHECK(in[0] == before && in[numbers - 1] == before + numbers - 1, "received %g and %g", in[0],
          in[numbers - 1]);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    ARMCI_Barrier();
  }
  /* A process that holds a mutex receives from one that waits for it, on the mutex's node or
   * another. */
  CHECK(ARMCI_Create_mutexes(1) == 0, "create");
  for (int host = 0; n > 1 && host < n; host += n - 1) {
    if (me == 0) ARMCI_Lock(0, host);
    ARMCI_Barrier();
    if (me == 0) {
      MPI_Recv(in, numbers, MPI_DOUBLE, n - 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      ARMCI_Unlock(0, host);
      CHECK(in[0] == n - 1, "received %g", in[0]);
    } else if (me == n - 1) {
      MPI_Isend(out, numbers, MPI_DOUBLE, 0, 8, MPI_COMM_WORLD, &sent);
      ARMCI_Lock(0, host);
      ARMCI_Unlock(0, host);
      MPI_Wait(&sent, MPI_STATUS_IGNORE);
    }
    ARMCI_Barrier();
  }
  ARMCI_Destroy_mutexes();
  free(out);
  free(in);
}

static void memory(void) {
  /* Zero bytes for some, freed by all; a null pointer where there is nothing. */
  void** p = allocate(me % 2 == 0 ? 4096 * (me + 1) + 1 : 0);
  for (int r = 0; r < n; ++r) CHECK((p[r] != NULL) == (r % 2 == 0), "pointer of %d is %p", r, p[r]);
  release(p);
  p = allocate(0);
  CHECK(p[me] == NULL, "nothing is at %p", p[me]);
  release(p);
  /* What same-node processes were given is loadable, and what the owner was given means the same.
   */
  p = allocate(16);
  *(long*)p[me] = 7000 + me;
  void* owners[64];
  owners[me] = p[me];
  armci_exchange_address(owners, n);
  ARMCI_Barrier();
  for (int r = 0; r < n; ++r) {
    if (ARMCI_Same_node(r)) CHECK(*(long*)p[r] == 7000 + r, "loaded %ld of %d", *(long*)p[r], r);
    else CHECK(p[r] == owners[r], "%p is not what %d has", p[r], r);
    CHECK(ARMCI_GetValueLong(p[r], r) == 7000 + r, "by the caller's address");
  }
  ARMCI_Barrier();
  release(p);
  /* Many alive at once, freed in another order. */
  void* many[50][64];
  for (int k = 0; k < 50; ++k) CHECK(ARMCI_Malloc(many[k], 100) == 0, "allocation %d", k);
  const int next = (me + 1) % n;
  for (int k = 0; k < 50; ++k) ARMCI_PutValueInt(100 * me + k, many[k][next], next);
  ARMCI_Barrier();
  int bad = 0;
  for (int k = 0; k < 50; ++k) bad += *(int*)many[k][me] != 100 * ((me + n - 1) % n) + k;
  CHECK(bad == 0, "%d allocations are wrong", bad);
  ARMCI_Barrier();
  for (int k = 0; k < 50; ++k) CHECK(ARMCI_Free(many[k * 7 % 50][me]) == 0, "free %d", k);
  double* local = ARMCI_Malloc_local(800);
  CHECK(local != NULL, "no local memory");
  local[99] = 1;
  ARMCI_Free_local(local);
  CHECK(ARMCI_Uses_shm() == 1, "no shared memory");
}

/* A tool's own ARMCI_Copy takes the place of ours; PARMCI_Copy still does the work. */
static int copies_seen;
void ARMCI_Copy(void* source, void* destination, int bytes) {
  ++copies_seen;
  PARMCI_Copy(source, destination, bytes);
}

static void profiling(void) {
  int a = 5, b = 0;
  ARMCI_Copy(&a, &b, sizeof a);
  CHECK(copies_seen == 1 && b == 5, "%d copies seen, %d", copies_seen, b);
}

static const struct {
  const char* name;
  void (*run)(void);
} sections[] = {{"contiguous", contiguous},
                {"strided", strided},
                {"vectors", vectors},
                {"odd_strides", odd_strides},
                {"odd_addresses", odd_addresses},
                {"odd_and_long", odd_and_long},
                {"non_blocking", non_blocking},
                {"words", words},
                {"mutexes", mutexes},
                {"notification", notification},
                {"groups", groups},
                {"messages", messages},
                {"operators", operators},
                {"beside_mpi", beside_mpi},
                {"memory", memory},
                {"profiling", profiling}};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  CHECK(!ARMCI_Initialized(), "initialised already");
  if (ARMCI_Init_args(&argc, &argv) != 0) return 3;
  CHECK(ARMCI_Init() == 0, "a second start"); /* counts; so one ARMCI_Finalize more */
  me = my_rank = armci_msg_me();
  n = armci_msg_nproc();
  for (size_t k = 0; k < sizeof sections / sizeof *sections; ++k) {
    int wanted = argc == 1;
    for (int a = 1; a < argc; ++a) wanted = wanted || strcmp(argv[a], sections[k].name) == 0;
    if (!wanted) continue;
    const int before = failures;
    sections[k].run();
    ARMCI_Barrier();
    if (failures != before) fprintf(stderr, "%d: section %s failed\n", me, sections[k].name);
  }
  const int nodes = armci_domain_count(ARMCI_DOMAIN_SMP);
  armci_msg_igop(&failures, 1, "+");
  armci_msg_igop(&checks, 1, "+");
  ARMCI_Finalize();
  CHECK(ARMCI_Initialized(), "the first end was the last");
  ARMCI_Finalize();
  CHECK(!ARMCI_Initialized(), "not ended");
  if (me == 0)
    printf("armci_check: %d processes, %d nodes, %d checks, %s\n", n, nodes, checks,
           failures == 0 ? "ok" : "FAILED");
  MPI_Finalize();
  return failures != 0;
}
