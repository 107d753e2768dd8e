/* The shortest program that crosses nodes by every means; run under `skerry run -n P --nodes K`.
 * Exits 0 if all is right. */
#include <skerry/skerry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call)                                                                          \
  do {                                                                                    \
    int status_ = (call);                                                                 \
    if (status_ != SKERRY_OK) {                                                           \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, skerry_status_name(status_), \
              skerry_last_error());                                                       \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)
#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

enum { N = 300000 };

int main(void) {
  skerry_job* job;
  OK(skerry_init(NULL, &job));
  int rank = skerry_rank(job), size = skerry_size(job);
  skerry_segment* s;
  OK(skerry_segment_alloc(skerry_world(job), (N + 64) * sizeof(double), &s));
  double* mine = skerry_segment_local(s);
  for (int i = 0; i < N; ++i) EXPECT(mine[i] == 0);
  OK(skerry_barrier(skerry_world(job)));
  int right = (rank + 1) % size;
  double* buffer = malloc(N * sizeof(double));
  /* put small and large, get back */
  for (int n = 1; n <= N; n *= 7) {
    for (int i = 0; i < n; ++i) buffer[i] = rank * 1e6 + n + i;
    OK(skerry_put(s, right, 0, buffer, n * sizeof(double)));
    memset(buffer, 0, n * sizeof(double));
    OK(skerry_get(s, right, 0, buffer, n * sizeof(double)));
    for (int i = 0; i < n; ++i) EXPECT(buffer[i] == rank * 1e6 + n + i);
  }
  OK(skerry_sync(skerry_world(job)));
  /* all ranks add to rank 0 */
  memset(mine, 0, N * sizeof(double));
  OK(skerry_sync(skerry_world(job)));
  for (int i = 0; i < N; ++i) buffer[i] = i + 1;
  double scale = 2;
  for (int k = 0; k < 3; ++k) OK(skerry_acc(s, 0, 0, SKERRY_DOUBLE, &scale, buffer, N));
  OK(skerry_sync(skerry_world(job)));
  if (rank == 0)
    for (int i = 0; i < N; ++i) EXPECT(mine[i] == 6.0 * size * (i + 1));
  OK(skerry_sync(skerry_world(job)));
  /* fetch-and-add */
  memset(mine, 0, N * sizeof(double));
  OK(skerry_sync(skerry_world(job)));
  int64_t seen, last = -1, rounds = 1000;
  for (int k = 0; k < rounds; ++k) {
    OK(skerry_fetch_add_i64(s, 0, 8, 1, &seen));
    EXPECT(seen > last);
    last = seen;
  }
  OK(skerry_sync(skerry_world(job)));
  if (rank == 0) EXPECT(((int64_t*)mine)[1] == rounds * size);
  /* notify around the ring */
  double value = rank;
  OK(skerry_put_notify(s, right, 128, &value, 8, 256, 1));
  OK(skerry_notify_wait(s, 256, 1, 10000000000ll, NULL));
  EXPECT(mine[16] == (rank + size - 1) % size);
  /* mutexes: a counter without atomics */
  skerry_mutexes* m;
  OK(skerry_mutexes_create(skerry_world(job), 2, &m));
  for (int k = 0; k < 200; ++k) {
    int64_t x;
    OK(skerry_mutex_lock(m, 0, 1));
    OK(skerry_get(s, 0, 512, &x, 8));
    ++x;
    OK(skerry_put(s, 0, 512, &x, 8));
    OK(skerry_fence(job, 0));
    OK(skerry_mutex_unlock(m, 0, 1));
  }
  OK(skerry_sync(skerry_world(job)));
  if (rank == 0) EXPECT(((int64_t*)mine)[64] == 200 * size);
  OK(skerry_mutexes_free(m));
  OK(skerry_segment_free(s));
  if (rank == 0) printf("right on %d ranks, %d nodes\n", size, skerry_node_count(job));
  OK(skerry_finalize(job));
  free(buffer);
  return 0;
}
