/* What the peer programs share: a clock, medians, one line per figure, and rows that take a
 * function. Rank 0 measures on rank 1. */
#ifndef SKERRY_BENCH_PEER_H
#define SKERRY_BENCH_PEER_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double peer_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline double peer_scale(void) {
  const char* text = getenv("BENCH_TIME_SCALE");
  return text ? atof(text) : 1.0;
}

static int peer_compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Median time of one call over nine batches of about 8 ms, like bench::time_each_ns, but bounded: a
 * peer may take long. */
static inline double peer_time_ns(void (*body)(void)) {
  double each[9];
  const double batch_ns = 8e6 * peer_scale();
  long n = 1;
  for (;;) {
    const double start = peer_now_ns();
    for (long i = 0; i < n; ++i) body();
    if (peer_now_ns() - start >= batch_ns / 2 || n > 1000000) break;
    n *= 2;
  }
  for (int i = 0; i < 9; ++i) {
    const double start = peer_now_ns();
    for (long k = 0; k < n; ++k) body();
    each[i] = (peer_now_ns() - start) / (double)n;
  }
  qsort(each, 9, sizeof each[0], peer_compare);
  return each[4];
}

static inline void peer_report(const char* row, double value, const char* unit) {
  printf("{\"row\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", row, value, unit);
  fflush(stdout);
}

static inline void peer_row(const char* name, void (*body)(void)) {
  peer_report(name, peer_time_ns(body), "ns");
}
static inline void peer_bandwidth(const char* name, void (*body)(void), double bytes) {
  peer_report(name, bytes / peer_time_ns(body), "GB/s");
}
#endif
