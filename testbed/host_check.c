/* host_check.c: every kind of operation from every rank to every rank, checked; the same binary for
 * every launcher and fabric (C11).
 *
 *   host_check [ROUNDS] [EXPECTED_SIZE] [EXPECTED_NODES]      0: any
 *
 * Rank 0 prints one line, "host_check: 8 ranks on 4 nodes over tcp: ok". A wrong value is reported
 * and ends the job. */
#include <skerry/skerry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { block_doubles = 40000, word_bytes = 64, words_used = 3 };

static skerry_job* job;
static int rank, size;

#define CHECK(call) check((call), #call)
static void check(int status, const char* call) {
  if (status >= 0) return;
  fprintf(stderr, "host_check: rank %d: %s: %s: %s\n", rank, call, skerry_status_name(status),
          skerry_last_error());
  skerry_abort(job, 3, call);
}
static void expect(double got, double wanted, const char* what, int peer) {
  if (got == wanted) return;
  fprintf(stderr, "host_check: rank %d: %s with rank %d: got %g, expected %g\n", rank, what, peer,
          got, wanted);
  skerry_abort(job, 4, what);
}

/* Every rank's slice: `size` lanes of block_doubles doubles, one for each origin, then a few words.
 */
static uint64_t lane(int origin) { return (uint64_t)origin * block_doubles * sizeof(double); }
static uint64_t word(int index) {
  return (uint64_t)size * block_doubles * sizeof(double) + (uint64_t)index * word_bytes;
}

static void put_and_get(skerry_segment* segment, double* buffer, double* back, int count,
                        double salt) {
  for (int peer = 0; peer < size; ++peer) {
    for (int i = 0; i < count; ++i) buffer[i] = salt + rank * 1000.0 + peer + i * 0.5;
    CHECK(skerry_put(segment, peer, lane(rank), buffer, (uint64_t)count * sizeof(double)));
    memset(back, 0, (size_t)count * sizeof(double));
    CHECK(skerry_get(segment, peer, lane(rank), back, (uint64_t)count * sizeof(double)));
    for (int i = 0; i < count; ++i) expect(back[i], buffer[i], "get after put", peer);
  }
}

static void strided(skerry_segment* segment, double* buffer, double* back) {
  skerry_strided shape;
  memset(&shape, 0, sizeof shape);
  shape.block_bytes = 8 * sizeof(double);
  shape.levels = 2;
  shape.count[0] = 10, shape.count[1] = 7;
  shape.origin_stride[0] = 64, shape.origin_stride[1] = 640;
  shape.target_stride[0] = 256, shape.target_stride[1] = 4096;
  for (int i = 0; i < 560; ++i) buffer[i] = rank + i;
  for (int peer = 0; peer < size; ++peer) {
    CHECK(skerry_put_strided(segment, peer, lane(rank), buffer, &shape));
    memset(back, 0, 560 * sizeof(double));
    CHECK(skerry_get_strided(segment, peer, lane(rank), back, &shape));
    for (int i = 0; i < 560; ++i) expect(back[i], buffer[i], "strided get after put", peer);
    double one = 0;
    CHECK(skerry_get(segment, peer, lane(rank) + 3 * 4096 + 2 * 256 + 5 * 8, &one, sizeof one));
    expect(one, buffer[3 * 80 + 2 * 8 + 5], "an element of a strided put", peer);
  }
}

static void accumulate(skerry_segment* segment, double* buffer, int count) {
  double scale = 2;
  memset(skerry_segment_local(segment), 0, (size_t)word(words_used));
  CHECK(skerry_sync(skerry_world(job)));
  for (int i = 0; i < count; ++i) buffer[i] = i;
  for (int peer = 0; peer < size; ++peer)
    CHECK(skerry_acc(segment, peer, 0, SKERRY_DOUBLE, &scale, buffer, (uint64_t)count));
  CHECK(skerry_sync(skerry_world(job)));
  const double* own = skerry_segment_local(segment);
  for (int i = 0; i < count; ++i)
    expect(own[i], 2.0 * i * size, "sum of everybody's accumulates", rank);
  CHECK(skerry_sync(skerry_world(job)));
}

static void words(skerry_segment* segment, skerry_mutexes* mutexes) {
  int64_t old = 0;
  for (int peer = 0; peer < size; ++peer)
    for (int i = 0; i < 50; ++i) CHECK(skerry_fetch_add_i64(segment, peer, word(0), 1, &old));
  for (int i = 0; i < 20; ++i) { /* not atomic by itself: the mutex makes it so */
    CHECK(skerry_mutex_lock(mutexes, size - 1, 0));
    CHECK(skerry_get(segment, size - 1, word(1), &old, sizeof old));
    ++old;
    CHECK(skerry_put(segment, size - 1, word(1), &old, sizeof old));
    CHECK(skerry_mutex_unlock(mutexes, size - 1, 0));
  }
  CHECK(skerry_sync(skerry_world(job)));
  CHECK(skerry_get(segment, (rank + 1) % size, word(0), &old, sizeof old));
  expect((double)old, 50.0 * size, "fetch-adds of all", (rank + 1) % size);
  CHECK(skerry_get(segment, size - 1, word(1), &old, sizeof old));
  expect((double)old, 20.0 * size, "increments under the mutex", size - 1);
  CHECK(skerry_sync(skerry_world(job)));
}

static void notify(skerry_segment* segment, double* buffer, double round) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  buffer[0] = round * 100 + rank;
  CHECK(skerry_put_notify(segment, next, lane(rank), buffer, 4096, word(2), 1));
  uint64_t value = 0;
  CHECK(skerry_notify_wait(segment, word(2), 1, -1, &value));
  expect(*(const double*)((const char*)skerry_segment_local(segment) + lane(before)),
         round * 100 + before, "data of a notified put", before);
}

static void nonblocking(skerry_segment* segment, double* buffer, double* back) {
  skerry_handle handle = 0;
  for (int peer = 0; peer < size; ++peer)
    for (int i = 0; i < 100; ++i) {
      buffer[i] = i + peer;
      CHECK(skerry_put_nb(segment, peer, lane(rank) + (uint64_t)i * 8, &buffer[i], 8,
                          SKERRY_IMPLICIT));
      if (i % 25 == 24) CHECK(skerry_wait_implicit(job));
    }
  CHECK(skerry_fence_all(job));
  for (int peer = 0; peer < size; ++peer) {
    CHECK(skerry_get_nb(segment, peer, lane(rank), back, 100 * sizeof(double), &handle));
    CHECK(skerry_wait(job, &handle));
    for (int i = 0; i < 100; ++i) expect(back[i], i + peer, "non-blocking get", peer);
  }
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 1;
  int status = skerry_init(NULL, &job);
  if (status != SKERRY_OK) {
    fprintf(stderr, "host_check: skerry_init: %s: %s\n", skerry_status_name(status),
            skerry_last_error());
    return 2;
  }
  rank = skerry_rank(job);
  size = skerry_size(job);
  if (argc > 2 && atoi(argv[2])) expect(size, atoi(argv[2]), "size of the job", rank);
  if (argc > 3 && atoi(argv[3]))
    expect(skerry_node_count(job), atoi(argv[3]), "nodes of the job", rank);
  skerry_segment* segment = NULL;
  skerry_mutexes* mutexes = NULL;
  CHECK(skerry_segment_alloc(skerry_world(job), word(words_used), &segment));
  CHECK(skerry_mutexes_create(skerry_world(job), 1, &mutexes));
  double* buffer = malloc(block_doubles * sizeof(double));
  double* back = malloc(block_doubles * sizeof(double));
  if (!buffer || !back) return 2;
  for (int round = 0; round < rounds; ++round) {
    put_and_get(segment, buffer, back, 1, round);
    put_and_get(segment, buffer, back, 500, round);
    put_and_get(segment, buffer, back, block_doubles, round);
    strided(segment, buffer, back);
    nonblocking(segment, buffer, back);
    CHECK(skerry_sync(skerry_world(job)));
    accumulate(segment, buffer, 5000);
    words(segment, mutexes);
    notify(segment, buffer, round);
    double sum = rank;
    CHECK(skerry_allreduce(skerry_world(job), SKERRY_DOUBLE, SKERRY_SUM, &sum, 1));
    expect(sum, size * (size - 1) / 2.0, "allreduce", rank);
    CHECK(skerry_sync(skerry_world(job)));
  }
  if (rank == 0)
    printf("host_check: %d ranks on %d nodes over %s: ok\n", size, skerry_node_count(job),
           skerry_fabric_name(job));
  free(buffer);
  free(back);
  CHECK(skerry_mutexes_free(mutexes));
  CHECK(skerry_segment_free(segment));
  return skerry_finalize(job) == SKERRY_OK ? 0 : 2;
}
