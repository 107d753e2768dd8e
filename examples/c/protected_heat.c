/* Heat in a rod, whoever dies: those that live go on, with spares in the places of the dead. At the
 * end every cell is compared with a computation on one rank: it has the same bits.
 *
 * Use skerry_protected_next like this for loops whose state is in memory of the program's own.
 *
 *   skerry run -n 4 --nodes 2 --spares 2 build/bin/examples/protected_heat --deaths 2
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <unistd.h>

#include "example.h"

enum { cells = 840 }; /* in all; 1 to 8 members can divide them evenly */

typedef struct rod {
  skerry_job* job;
  double part[cells]; /* this member's cells come first */
  uint64_t count;     /* how many these are: the same on all members */
} rod;

/* One step of `count` cells between two neighbours. */
static void spread(double* part, uint64_t count, double left, double right) {
  for (uint64_t i = 0; i < count; ++i) {
    double old = part[i], next = i + 1 < count ? part[i + 1] : right;
    part[i] = old + 0.25 * (left - 2 * old + next);
    left = old;
  }
}

/* A part of the state that was saved by other members than there are now. */
static int divide(void* context, skerry_protected* kept) {
  rod* r = context;
  skerry_group* group = skerry_protected_group(kept);
  r->count = cells / (uint64_t)skerry_group_size(group);
  uint64_t first = r->count * (uint64_t)skerry_group_index(group, skerry_rank(r->job));
  uint64_t before = cells / (uint64_t)skerry_protected_places(kept); /* of each member */
  for (uint64_t i = 0, n; i < r->count; i += n) {
    uint64_t at = (first + i) % before;
    n = r->count - i < before - at ? r->count - i : before - at;
    int status = skerry_protected_read(kept, (int)((first + i) / before), at * sizeof(double),
                                       r->part + i, n * sizeof(double));
    if (status != SKERRY_OK) return status;
  }
  OK(skerry_protected_forget(kept));
  return skerry_protected_add(kept, r->part, r->count * sizeof(double));
}

/* The work on one step: SKERRY_OK, or SKERRY_ERR_PEER_DEAD, and then it is done again. */
static int work(rod* r, skerry_group* group) {
  int size = skerry_group_size(group), me = skerry_group_index(group, skerry_rank(r->job));
  double edges[2] = {r->part[0], r->part[r->count - 1]}, all[2 * cells];
  int status = skerry_allgather(group, edges, sizeof edges, all);
  if (status != SKERRY_OK) return status;
  spread(r->part, r->count, me == 0 ? 100 : all[2 * me - 1], me + 1 == size ? 0 : all[2 * me + 2]);
  return SKERRY_OK;
}

/* For trying it: by and by as many ranks kill themselves. */
static void maybe_die(rod* r, skerry_group* group, uint64_t step, int deaths) {
  int me = skerry_group_index(group, skerry_rank(r->job)), dead = 0;
  if ((uint64_t)me != step % (uint64_t)skerry_group_size(group)) return;
  if (mix((uint64_t)getpid() << 32 | step) % 6 != 0) return;
  OK(skerry_hear(r->job)); /* a spare may not have heard of all */
  OK(skerry_failed(r->job, NULL, 0, &dead));
  if (dead < deaths) kill(getpid(), SIGKILL);
}

static int64_t wrong_cells(const rod* r, skerry_group* group, uint64_t steps) {
  double all[cells] = {0};
  for (uint64_t step = 0; step < steps; ++step) spread(all, cells, 100, 0);
  const double* mine = all + r->count * (uint64_t)skerry_group_index(group, skerry_rank(r->job));
  int64_t wrong = 0;
  for (uint64_t i = 0; i < r->count; ++i) wrong += r->part[i] != mine[i];
  return wrong;
}

int main(int argc, char** argv) {
  option given[] = {{"steps", 400, "of the heat"},
                    {"every", 10, "steps from one saved state to the next"},
                    {"deaths", 0, "ranks that kill themselves at random"}};
  read_options(argc, argv, "protected_heat: heat in a rod, whoever dies", given, 3);
  uint64_t steps = (uint64_t)given[0].value, every = (uint64_t)given[1].value, step = 0;
  static rod r;
  skerry_options options = SKERRY_OPTIONS_INIT;
  options.on_failure = SKERRY_FAILURE_CONTINUES;
  OK(skerry_init(&options, &r.job));
  r.count = cells / (uint64_t)skerry_size(r.job);

  skerry_protected* kept;
  skerry_group* group;
  int distance = skerry_node_count(r.job) > 1; /* on one node there is no partner */
  OK(skerry_protected_create(skerry_world(r.job), distance, &kept));
  OK(skerry_protected_add(kept, r.part, r.count * sizeof(double)));
  OK(skerry_protected_divide(kept, divide, &r));
  for (int status = SKERRY_OK;;) {
    OK(skerry_protected_next(kept, steps, every, status, &step, &group));
    if (step == steps) break;
    maybe_die(&r, group, step, (int)given[2].value);
    status = work(&r, group);
  }

  int64_t wrong = wrong_cells(&r, group, steps);
  int dead = 0;
  OK(skerry_allreduce(group, SKERRY_INT64, SKERRY_SUM, &wrong, 1));
  OK(skerry_failed(r.job, NULL, 0, &dead));
  if (skerry_group_index(group, skerry_rank(r.job)) == 0)
    printf("%s after %ld steps, %d died, %d live\n", wrong == 0 ? "exact" : "wrong", (long)steps,
           dead, skerry_group_size(group));
  OK(skerry_protected_free(kept));
  OK(skerry_finalize(r.job));
  return wrong == 0 ? 0 : 1;
}
