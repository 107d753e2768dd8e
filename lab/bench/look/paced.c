/* One rank that does the same call again and again and says how fast, for look.py.
 *
 *   paced CALL SECONDS   rank 0 calls on the memory of the last rank; the others sleep in a barrier
 *     CALL: put_8 get_8 get_64k fetch_add acc_8 put_fence_8 compute
 *
 * Prints a line for every 20 ms: "end of the round in monotonic ns, calls, ns per call". */
#include <skerry/skerry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void ok(int status) {
  if (status == SKERRY_OK) return;
  fprintf(stderr, "paced: %s\n", skerry_last_error());
  exit(1);
}

static skerry_job* job;
static skerry_segment* memory;
static int target;
static double buffer[8192];

static void put_8(void) { ok(skerry_put(memory, target, 0, buffer, 8)); }
static void get_8(void) { ok(skerry_get(memory, target, 0, buffer, 8)); }
static void get_64k(void) { ok(skerry_get(memory, target, 0, buffer, sizeof buffer)); }
static void acc_8(void) { ok(skerry_acc(memory, target, 0, SKERRY_DOUBLE, NULL, buffer, 1)); }
static void fetch_add(void) {
  int64_t old;
  ok(skerry_fetch_add_i64(memory, target, 8, 1, &old));
}
static void put_fence_8(void) {
  put_8();
  ok(skerry_fence(job, target));
}
static void compute(void) {
  for (int i = 0; i < 8192; ++i) buffer[i] = buffer[i] * 0.999 + 1.0;
}

static const struct {
  const char* name;
  void (*call)(void);
} calls[] = {{"put_8", put_8},         {"get_8", get_8}, {"get_64k", get_64k},
             {"fetch_add", fetch_add}, {"acc_8", acc_8}, {"put_fence_8", put_fence_8},
             {"compute", compute}};

static void run(void (*call)(void), double seconds) {
  enum { round_ns = 20000000, batch = 16 };
  const int64_t end = now_ns() + (int64_t)(seconds * 1e9);
  while (now_ns() < end) {
    const int64_t begin = now_ns();
    int64_t done = 0, at;
    do {
      for (int i = 0; i < batch; ++i) call();
      done += batch;
      at = now_ns();
    } while (at - begin < round_ns);
    printf("%lld %lld %.3f\n", (long long)at, (long long)done, (double)(at - begin) / (double)done);
  }
}

int main(int count, char** words) {
  setvbuf(stdout, NULL, _IOLBF, 0); /* look.py starts when the first line is there */
  ok(skerry_init(NULL, &job));
  target = skerry_size(job) - 1;
  ok(skerry_segment_alloc(skerry_world(job), sizeof buffer, &memory));
  for (size_t i = 0; count == 3 && skerry_rank(job) == 0 && i < sizeof calls / sizeof *calls; ++i)
    if (strcmp(words[1], calls[i].name) == 0) run(calls[i].call, atof(words[2]));
  ok(skerry_barrier(skerry_world(job)));
  return skerry_finalize(job) == SKERRY_OK ? 0 : 1;
}
