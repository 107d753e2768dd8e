/* Ranks that meet in collectives until one of them gets SIGUSR1, in a job that goes on. Prints a
 * line a rank when it begins, and one when it ends: rounds, and deaths that it has heard of. */
#include <signal.h>
#include <skerry/skerry.h>
#include <stdio.h>

static volatile sig_atomic_t told = 0;

static void on_signal(int number) {
  (void)number;
  told = 1;
}

int main(void) {
  skerry_options options = SKERRY_OPTIONS_INIT;
  skerry_job* job = NULL;
  skerry_group* group = NULL;
  int dead = 0, status = SKERRY_OK;
  long rounds = 0;
  signal(SIGUSR1, on_signal);
  options.on_failure = SKERRY_FAILURE_CONTINUES;
  if (skerry_init(&options, &job) != SKERRY_OK) return fprintf(stderr, "%s\n", skerry_last_error());
  group = skerry_world(job);
  printf("rank %d is at work\n", skerry_rank(job));
  fflush(stdout);
  for (int32_t all = 0; all == 0; ++rounds) {
    all = told;
    status = skerry_allreduce(group, SKERRY_INT32, SKERRY_MAX, &all, 1);
    if (status == SKERRY_ERR_PEER_DEAD) {
      status = skerry_group_shrink(group, -1, &group);
      all = 0;
    }
    if (status != SKERRY_OK) return fprintf(stderr, "%s\n", skerry_last_error());
  }
  if (skerry_hear(job) != SKERRY_OK) return fprintf(stderr, "%s\n", skerry_last_error());
  skerry_failed(job, NULL, 0, &dead);
  printf("rank %d ends after %ld rounds, %d dead\n", skerry_rank(job), rounds, dead);
  return skerry_finalize(job) != SKERRY_OK;
}
