/* Work stealing: each rank has a deque of tasks. Its owner pushes and takes the newest; idle ranks
 * steal the oldest, while the owner computes.
 *
 * Use it when tasks make tasks and nobody knows how many: searching a tree, refining a mesh,
 * branch and bound. A shared counter (examples/cpp/work_queue.cpp) suits tasks that are numbered.
 *
 * The tasks here are the nodes of a random tree. A deque is guarded by the window's exclusive lock.
 *
 *   skerry run -n 4 --nodes 2 build/bin/examples/work_stealing --depth 14
 */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <stdbool.h>

#include "example.h"

/* Words of a rank's memory. Tasks top..bottom-1 are waiting, each in word FIRST + number % ROOM. */
enum { TOP, BOTTOM, FIRST, ROOM = 4096 };

typedef struct worker {
  skerry_window* deques; /* one displacement is one word */
  skerry_segment* idle;  /* word 0 of rank 0: how many ranks have nothing to do */
  int rank, size;
  long depth, work;
  int64_t done, sum, stolen; /* tasks done here; sum of their numbers; those from other ranks */
} worker;

/* ---- the tree: a task is a node's random number, with its level in the last byte ------------- */

static uint64_t child_of(uint64_t node, uint64_t i) {
  return (mix(node + i) & ~(uint64_t)255) | ((node & 255) + 1);
}
static uint64_t children_of(uint64_t node, long depth) {
  uint64_t level = node & 255;
  return level >= (uint64_t)depth ? 0 : level == 0 ? 16 : mix(node) % 4;
}
/* The same without ranks, to compare with. */
static void walk(uint64_t node, long depth, int64_t* nodes, int64_t* sum) {
  ++*nodes;
  *sum += (int64_t)(node >> 16);
  for (uint64_t i = 0; i < children_of(node, depth); ++i)
    walk(child_of(node, i), depth, nodes, sum);
}

/* ---- the deque ------------------------------------------------------------------------------- */

/* The own memory is simply loaded and stored, under the own lock. */
static void push(worker* w, uint64_t task) {
  int64_t* words = skerry_window_local(w->deques);
  OK(skerry_window_lock(w->deques, SKERRY_LOCK_EXCLUSIVE, w->rank, 0));
  if (words[BOTTOM] - words[TOP] == ROOM) {
    fprintf(stderr, "rank %d's deque is full: it has room for %d tasks\n", w->rank, ROOM);
    exit(1);
  }
  words[FIRST + words[BOTTOM]++ % ROOM] = (int64_t)task;
  OK(skerry_window_unlock(w->deques, w->rank));
}

static bool pop(worker* w, uint64_t* task) {
  int64_t* words = skerry_window_local(w->deques);
  OK(skerry_window_lock(w->deques, SKERRY_LOCK_EXCLUSIVE, w->rank, 0));
  bool some = words[BOTTOM] > words[TOP];
  if (some) *task = (uint64_t)words[FIRST + --words[BOTTOM] % ROOM];
  OK(skerry_window_unlock(w->deques, w->rank));
  return some;
}

/* Whether a deque has tasks, without keeping anybody from it for long. */
static bool looks_worthwhile(worker* w, int victim) {
  int64_t ends[2];
  OK(skerry_window_lock(w->deques, SKERRY_LOCK_SHARED, victim, 0));
  OK(skerry_window_get(w->deques, victim, TOP, ends, sizeof ends));
  OK(skerry_window_unlock(w->deques, victim));
  return ends[BOTTOM] > ends[TOP];
}

/* Takes the oldest task: near the root, so that it brings much work with it. */
static bool steal(worker* w, int victim, uint64_t* task) {
  int64_t ends[2];
  OK(skerry_window_lock(w->deques, SKERRY_LOCK_EXCLUSIVE, victim, 0));
  OK(skerry_window_get(w->deques, victim, TOP, ends, sizeof ends));
  OK(skerry_window_flush_local(w->deques, victim));
  bool some = ends[BOTTOM] > ends[TOP];
  if (some) {
    uint64_t at = FIRST + (uint64_t)ends[TOP] % ROOM;
    OK(skerry_window_get(w->deques, victim, at, task, sizeof *task));
    ++ends[TOP];
    OK(skerry_window_put(w->deques, victim, TOP, &ends[TOP], sizeof ends[TOP]));
  }
  OK(skerry_window_unlock(w->deques, victim));
  return some;
}

/* ---- the worker ------------------------------------------------------------------------------ */

static void run(worker* w, uint64_t task) {
  volatile uint64_t result = task;
  for (long i = 0; i < w->work; ++i) result = mix(result);
  ++w->done;
  w->sum += (int64_t)(task >> 16);
  for (uint64_t i = 0; i < children_of(task, w->depth); ++i) push(w, child_of(task, i));
}

static int64_t add_idle(worker* w, int64_t change) {
  int64_t before;
  OK(skerry_fetch_add_i64(w->idle, 0, 0, change, &before));
  return before + change;
}

/* Steals a task and runs it. Returns false when all work of the job is done: only a rank that is
 * not idle holds or pushes tasks, so none is left when all are idle. For the same reason a thief
 * is not idle while it tries. */
static bool find_work(worker* w) {
  int64_t idle = add_idle(w, 1);
  for (int victim = w->rank; idle < w->size; idle = add_idle(w, 0)) {
    victim = (victim + 1) % w->size;
    if (victim != w->rank && looks_worthwhile(w, victim)) {
      uint64_t task;
      add_idle(w, -1);
      if (steal(w, victim, &task)) {
        ++w->stolen;
        run(w, task);
        return true;
      }
      add_idle(w, 1);
    }
    sched_yield();
  }
  return false;
}

static bool check(worker* w, skerry_group* world) {
  int64_t done[3] = {w->done, w->sum, w->stolen}, nodes = 0, sum = 0;
  OK(skerry_allreduce(world, SKERRY_INT64, SKERRY_SUM, done, 3));
  walk(0, w->depth, &nodes, &sum);
  if (w->rank == 0)
    printf("%ld tasks done, %ld of them stolen; expected %ld\n", (long)done[0], (long)done[2],
           (long)nodes);
  return done[0] == nodes && done[1] == sum;
}

int main(int argc, char** argv) {
  option options[] = {{"depth", 12, "levels of the tree"},
                      {"work", 2000, "work of a task: rounds of a hash"}};
  read_options(argc, argv, "work_stealing: ranks walk a random tree, idle ones steal", options, 2);
  skerry_job* job;
  OK(skerry_init(NULL, &job));
  worker w = {.rank = skerry_rank(job),
              .size = skerry_size(job),
              .depth = options[0].value,
              .work = options[1].value};
  skerry_group* world = skerry_world(job);
  OK(skerry_window_allocate(world, (FIRST + ROOM) * sizeof(int64_t), sizeof(int64_t), &w.deques));
  OK(skerry_segment_alloc(world, sizeof(int64_t), &w.idle));
  if (w.rank == 0) push(&w, 0);
  OK(skerry_barrier(world));
  do {
    for (uint64_t task; pop(&w, &task);) run(&w, task);
  } while (find_work(&w));
  printf("rank %d did %ld tasks, stole %ld\n", w.rank, (long)w.done, (long)w.stolen);
  bool right = check(&w, world);
  OK(skerry_window_free(w.deques));
  OK(skerry_segment_free(w.idle));
  OK(skerry_finalize(job));
  return right ? 0 : 1;
}
