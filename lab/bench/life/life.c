/* What a program makes and frees, with Skerry: microseconds of each, made and freed again, one JSON
 * line a row from rank 0.
 *
 *   life [ROUNDS]
 */
#define _POSIX_C_SOURCE 199309L
#include <skerry/skerry.h>
#include <skerry/window.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static skerry_job* job;
static skerry_group* world;

static void must(int status) {
  if (status == SKERRY_OK) return;
  fprintf(stderr, "life: %s\n", skerry_last_error());
  exit(1);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void segment(uint64_t bytes, int writes) {
  skerry_segment* made;
  must(skerry_segment_alloc(world, bytes, &made));
  if (writes) memset(skerry_segment_local(made), 1, bytes);
  must(skerry_segment_free(made));
}

static void segment_64(void) { segment(64, 0); }
static void segment_1m(void) { segment(1 << 20, 1); }
static void segment_64m(void) { segment(64 << 20, 1); }
static void segment_64m_untouched(void) { segment(64 << 20, 0); }

static void split(void) {
  skerry_group* group;
  must(skerry_group_split(world, 0, 0, &group));
  must(skerry_group_free(group));
}

static void mutexes(void) {
  skerry_mutexes* made;
  must(skerry_mutexes_create(world, 10, &made));
  must(skerry_mutexes_free(made));
}

static void window(uint64_t bytes) {
  skerry_window* made;
  must(skerry_window_allocate(world, bytes, 1, &made));
  must(skerry_window_free(made));
}
static void window_64(void) { window(64); }
static void window_1m(void) { window(1 << 20); }

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*call)(void);
    int per_thousand;  /* of ROUNDS */
  } rows[] = {
      {"segment of 64 B", segment_64, 1000},
      {"segment of 1 MiB, written", segment_1m, 200},
      {"segment of 64 MiB, written", segment_64m, 5},
      {"segment of 64 MiB, untouched", segment_64m_untouched, 5},
      {"group split", split, 500},
      {"10 mutexes", mutexes, 500},
      {"window of 64 B", window_64, 1000},
      {"window of 1 MiB", window_1m, 200},
  };
  const int rounds = argc > 1 ? atoi(argv[1]) : 1000;
  must(skerry_init(NULL, &job));
  world = skerry_world(job);
  const int rank = skerry_rank(job);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    int n = rounds * rows[r].per_thousand / 1000;
    if (n < 2) n = 2;
    for (int i = 0; i < n / 10 + 1; ++i) rows[r].call();
    must(skerry_barrier(world));
    const double began = now_us();
    for (int i = 0; i < n; ++i) rows[r].call();
    must(skerry_barrier(world));
    if (rank == 0)
      printf("{\"row\": \"%s\", \"value\": %.2f}\n", rows[r].name, (now_us() - began) / n);
    fflush(stdout);
  }
  must(skerry_finalize(job));
  return 0;
}
