/* Windows over memory of processes that may not be traced are refused when they are made, on every
 * member alike, with the remedy: not at the first access. Allocated ones need no such right. */
#include <errno.h>
#include <linux/capability.h>
#include <skerry/window.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void drop_tracing(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  const unsigned bit = 1u << CAP_SYS_PTRACE;
  if (syscall(SYS_capget, &header, data) != 0) exit(2);
  data[0].effective &= ~bit, data[0].permitted &= ~bit, data[0].inheritable &= ~bit;
  if (syscall(SYS_capset, &header, data) != 0) exit(2);
}

static void fail(int line, const char* what) {
  fprintf(stderr, "untraceable: line %d: %s: %s\n", line, what, skerry_last_error());
  exit(1);
}
#define CHECK(condition) \
  if (!(condition)) fail(__LINE__, #condition)

static void use(skerry_window* window, int right) {
  long value = 7, seen = 0;
  CHECK(skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, right, 0) == SKERRY_OK);
  CHECK(skerry_window_put(window, right, 1, &value, 8) == SKERRY_OK);
  CHECK(skerry_window_flush(window, right) == SKERRY_OK);
  CHECK(skerry_window_get(window, right, 1, &seen, 8) == SKERRY_OK);
  CHECK(skerry_window_unlock(window, right) == SKERRY_OK);
  CHECK(seen == 7);
  CHECK(skerry_window_free(window) == SKERRY_OK);
}

enum { BROADCAST = 1, REDUCE = 2, GATHER = 4, ALL = 7 };

/* Where two ranks have a core each, these are read where they lie while the system lets them, and
 * go through shared memory from the first read that it refuses. */
static void share(skerry_group* group, int rank, int kinds, int count) {
  static int mine[300000], all[900000];
  const int size = skerry_group_size(group), me = skerry_group_index(group, rank);
  static int turn = 0;
  ++turn;
  for (int root = 0; root < size; ++root) {
    const int to = skerry_group_rank(group, root);
    if (kinds & BROADCAST) {
      for (int i = 0; i < count; ++i) mine[i] = me == root ? i * 3 + root + turn : -1;
      CHECK(skerry_broadcast(group, mine, 4 * (uint64_t)count, to) == SKERRY_OK);
      for (int i = 0; i < count; ++i) CHECK(mine[i] == i * 3 + root + turn);
    }
    if (kinds & REDUCE) {
      for (int i = 0; i < count; ++i) mine[i] = i * 5 + me + turn;
      CHECK(skerry_reduce(group, SKERRY_INT32, SKERRY_SUM, mine, count, to) == SKERRY_OK);
      for (int i = 0; i < count; ++i) {
        const int sum = size * (i * 5 + turn) + size * (size - 1) / 2;
        CHECK(mine[i] == (me == root ? sum : i * 5 + me + turn));
      }
    }
  }
  if (!(kinds & GATHER)) return;
  for (int i = 0; i < count; ++i) mine[i] = i * 7 + me + turn;
  CHECK(skerry_allgather(group, mine, 4 * (uint64_t)count, all) == SKERRY_OK);
  for (int m = 0; m < size; ++m)
    for (int i = 0; i < count; ++i) CHECK(all[m * count + i] == i * 7 + m + turn);
}

int main(void) {
  static long given[8];
  skerry_job* job = NULL;
  skerry_window* window = NULL;
  drop_tracing();
  CHECK(skerry_init(NULL, &job) == SKERRY_OK);
  skerry_group* const world = skerry_world(job);
  CHECK(skerry_size(job) <= 3);
  const int rank = skerry_rank(job), right = (rank + 1) % skerry_size(job);
  CHECK(skerry_window_create(world, given, sizeof given, 8, &window) == SKERRY_OK);
  use(window, right);
  const int counts[] = {1, 1024, 1025, 2047, 2048, 131072, 131073, 262144, 262145, 300000};
  for (size_t k = 0; k < sizeof counts / sizeof *counts; ++k) share(world, rank, ALL, counts[k]);
  skerry_group* group[4];
  for (int k = 0; k < 4; ++k) {
    CHECK(skerry_group_split(world, 0, k % 2 ? rank : -rank, &group[k]) == SKERRY_OK);
    if (k < 3) share(group[k], rank, ALL, 20000);
  }
  CHECK(skerry_barrier(world) == SKERRY_OK);
  if (rank == 1) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* one of them is enough */
  CHECK(skerry_barrier(world) == SKERRY_OK);
  for (int k = 0; k < 4; ++k) {
    share(group[k], rank, k < 3 ? 1 << k : ALL, 20000); /* of each kind the first that fails */
    share(group[k], rank, ALL, 20000);
    CHECK(skerry_group_free(group[k]) == SKERRY_OK);
  }
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(skerry_window_create(world, given, sizeof given, 8, &window) == SKERRY_ERR_UNSUPPORTED);
    CHECK(strstr(skerry_last_error(), "PR_SET_DUMPABLE") != NULL);
    CHECK(skerry_window_create_dynamic(world, &window) == SKERRY_ERR_UNSUPPORTED);
    CHECK(skerry_window_allocate(world, 64, 8, &window) == SKERRY_OK);
    use(window, right);
  }
  CHECK(skerry_barrier(world) == SKERRY_OK);
  if (rank == 1) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  CHECK(skerry_barrier(world) == SKERRY_OK);
  CHECK(skerry_window_create(world, given, sizeof given, 8, &window) == SKERRY_OK);
  use(window, right);
  share(world, rank, ALL, 20000);
  CHECK(skerry_finalize(job) == SKERRY_OK);
  if (rank == 0) printf("untraceable: ok\n");
  return 0;
}
