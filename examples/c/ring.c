/* A token that goes round all ranks; each computes, adds its number and passes it on.
 *
 * Use it when work goes from rank to rank in order: pipelines, a Gauss-Seidel sweep, or anything of
 * which there is only one. It also shows what one hop costs while the ranks compute.
 *
 * It goes round twice: by lock, put, unlock, where the receiver looks into its own memory; and by
 * post, start, complete, wait, where the receiver sleeps until the token is there.
 *
 *   skerry run -n 4 --nodes 4 build/bin/examples/ring --work 1000
 */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "example.h"

typedef struct token {
  int64_t hops; /* made so far */
  int64_t sum;  /* of rank + 1 of all that had it */
} token;

typedef struct ring {
  skerry_window* window; /* one token */
  int rank, left, right;
  long work_us;
} ring;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void compute(const ring* r, token* t) {
  for (double end = now_us() + (double)r->work_us; now_us() < end;) continue;
  t->sum += r->rank + 1;
  ++t->hops;
}

/* ---- passive target: the receiver takes no part, and looks ----------------------------------- */

static void send_by_lock(const ring* r, const token* t) {
  OK(skerry_window_lock(r->window, SKERRY_LOCK_EXCLUSIVE, r->right, 0));
  OK(skerry_window_put(r->window, r->right, 0, t, sizeof *t));
  OK(skerry_window_unlock(r->window, r->right));
}

static token receive_by_looking(const ring* r, int64_t hops) {
  for (;;) {
    OK(skerry_window_lock(r->window, SKERRY_LOCK_SHARED, r->rank, 0));
    token t = *(const token*)skerry_window_local(r->window);
    OK(skerry_window_unlock(r->window, r->rank));
    if (t.hops == hops) return t;
    sched_yield();
  }
}

/* ---- active target: post here, start there --------------------------------------------------- */

static void send_by_start(const ring* r, const token* t) {
  OK(skerry_window_start(r->window, &r->right, 1, 0));
  OK(skerry_window_put(r->window, r->right, 0, t, sizeof *t));
  OK(skerry_window_complete(r->window));
}

static token receive_by_wait(const ring* r) {
  OK(skerry_window_wait(r->window));
  return *(const token*)skerry_window_local(r->window);
}

/* ---------------------------------------------------------------------------------------------- */

/* Rank 0 begins each round and ends it. Returns the token as this rank had it last. */
static token go_round(const ring* r, long rounds, int size, bool active) {
  token t = {0, 0};
  for (long round = 0; round < rounds; ++round) {
    int64_t hops = round * size + (r->rank == 0 ? size : r->rank); /* of the token on arrival */
    if (active) OK(skerry_window_post(r->window, &r->left, 1, 0));
    if (r->rank != 0) t = active ? receive_by_wait(r) : receive_by_looking(r, hops);
    compute(r, &t);
    active ? send_by_start(r, &t) : send_by_lock(r, &t);
    if (r->rank == 0) t = active ? receive_by_wait(r) : receive_by_looking(r, hops);
  }
  return t;
}

static bool measure(const ring* r, skerry_group* world, long rounds, bool active) {
  int size = skerry_group_size(world);
  memset(skerry_window_local(r->window), 0, sizeof(token));
  OK(skerry_barrier(world));
  double start = now_us();
  token t = go_round(r, rounds, size, active);
  double hop_us = rounds > 0 ? (now_us() - start) / (double)(rounds * size) : 0;
  OK(skerry_barrier(world));
  if (r->rank != 0) return true;
  int64_t expected = (int64_t)rounds * size * (size + 1) / 2;
  printf("%-20s %.1f us per hop, %ld us of them computing; sum %ld, expected %ld\n",
         active ? "post, start:" : "lock, put, unlock:", hop_us, r->work_us, (long)t.sum,
         (long)expected);
  return t.sum == expected && t.hops == (int64_t)rounds * size;
}

int main(int argc, char** argv) {
  option options[] = {{"rounds", 20, "times round the ring"},
                      {"work", 100, "microseconds of computing per hop"}};
  read_options(argc, argv, "ring: a token goes round all ranks, each computes", options, 2);
  skerry_job* job;
  OK(skerry_init(NULL, &job));
  int rank = skerry_rank(job), size = skerry_size(job);
  ring r = {NULL, rank, (rank + size - 1) % size, (rank + 1) % size, options[1].value};
  skerry_group* world = skerry_world(job);
  OK(skerry_window_allocate(world, sizeof(token), 1, &r.window));
  bool right = measure(&r, world, options[0].value, false);
  right = measure(&r, world, options[0].value, true) && right;
  OK(skerry_window_free(r.window));
  OK(skerry_finalize(job));
  return right ? 0 : 1;
}
