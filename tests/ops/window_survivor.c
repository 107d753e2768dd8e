/* A program with SKERRY_FAILURE_RETURNS: the last rank kills itself while it holds the lock of rank
 * 0's window, for which the others wait. They learn it from that call, which names the dead rank,
 * and end in order. With an argument its agent, which runs the ranks, is stopped until another rank
 * of the node has ended because of that, and hears of both at once. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <skerry/window.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(int rank, const char* what) {
  fprintf(stderr, "rank %d: %s: %s\n", rank, what, skerry_last_error());
  return 1;
}

/* A lock of another node may be taken by the first access that needs it. */
static int take(skerry_window* window) {
  int64_t seen = 0, wanted = 0;
  int status = skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, 0, 0);
  return status != SKERRY_OK
             ? status
             : skerry_window_compare_swap(window, 0, 0, SKERRY_INT64, &wanted, &wanted, &seen);
}

/* A process of its own continues the agent when this one has ended. */
static int end_before_the_agent_hears(void) {
  pid_t agent = getppid();
  struct pollfd end = {(int)syscall(SYS_pidfd_open, getpid(), 0), POLLIN, 0};
  if (end.fd < 0) return kill(agent, SIGCONT), 1;
  if (fork() == 0) {
    setsid();
    poll(&end, 1, -1);
    kill(agent, SIGCONT);
  }
  _exit(0);
}

int main(int count, char** words) {
  (void)words;
  int is_late = count > 1;
  skerry_options options = SKERRY_OPTIONS_INIT;
  options.on_failure = SKERRY_FAILURE_RETURNS;
  skerry_job* job;
  if (skerry_init(&options, &job) != SKERRY_OK) return fail(-1, "init");
  int rank = skerry_rank(job), last = skerry_size(job) - 1;
  skerry_window* window;
  if (skerry_window_allocate(skerry_world(job), 8, 8, &window) != SKERRY_OK)
    return fail(rank, "allocate");
  if (rank == last && take(window) != SKERRY_OK) return fail(rank, "the first lock");
  if (skerry_barrier(skerry_world(job)) != SKERRY_OK) return fail(rank, "barrier");
  if (rank == last) {
    if (is_late) kill(getppid(), SIGSTOP);
    kill(getpid(), SIGKILL);
  }
  if (take(window) != SKERRY_ERR_PEER_DEAD) return fail(rank, "a lock of a dead rank answered");
  char name[32];
  snprintf(name, sizeof name, "rank %d ", last);
  if (strstr(skerry_last_error(), name) == NULL) return fail(rank, "the error names nobody");
  printf("rank %d goes on\n", rank);
  fflush(stdout);
  if (is_late && rank == last - 1) return end_before_the_agent_hears();
  skerry_finalize(job); /* cannot meet the dead rank: answers PEER_DEAD, too */
  return 0;
}
