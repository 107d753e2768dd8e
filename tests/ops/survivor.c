/* A program with SKERRY_FAILURE_RETURNS: the last rank kills itself; the others learn it from their
 * calls and end in order. */
#include <signal.h>
#include <skerry/skerry.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  skerry_options options = SKERRY_OPTIONS_INIT;
  options.on_failure = SKERRY_FAILURE_RETURNS;
  skerry_job* job;
  if (skerry_init(&options, &job) != SKERRY_OK) {
    fprintf(stderr, "%s\n", skerry_last_error());
    return 1;
  }
  int rank = skerry_rank(job), last = skerry_size(job) - 1;
  if (skerry_barrier(skerry_world(job)) != SKERRY_OK) return 1;
  if (rank == last) kill(getpid(), SIGKILL);
  int status = skerry_barrier(skerry_world(job));
  if (status != SKERRY_ERR_PEER_DEAD) {
    fprintf(stderr, "rank %d: the barrier with a dead rank answered %s\n", rank,
            skerry_status_name(status));
    return 1;
  }
  if (strstr(skerry_last_error(), "rank") == NULL) {
    fprintf(stderr, "rank %d: the error names nobody: %s\n", rank, skerry_last_error());
    return 1;
  }
  printf("rank %d goes on\n", rank);
  fflush(stdout);
  skerry_finalize(job); /* cannot meet the dead rank: answers PEER_DEAD, too */
  return 0;
}
