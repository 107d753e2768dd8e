/* nobody_home.c: a node whose processes are all stopped, and a rank of another that works on it
 * (C11).
 *
 *   nobody_home free|waits [ROUNDS [gets]]
 *
 * Rank 0 stops the ranks of the last rank's node (SIGSTOP), then so often: locks the last rank's
 * window, puts 8 bytes, gets 8 bytes, adds to a counter and fetches it, unlocks. If one round
 * takes too long it wakes them. `free`: it must not come to that. `waits`: it must. Every value is
 * checked, at the end also by the last rank. Only on one host, with virtual nodes.
 *
 * How long a round takes is counted in ticks of a timer, from the end of the one before. Ticks that
 * come while this machine stands still are one. So a slow machine needs longer for all rounds, and
 * is not taken for a node that does not answer. What takes very many ticks while no process is
 * stopped, or after they were woken, ends the program.
 *
 * `gets`: a round is one get of 8 bytes without a lock. Before the node stops there are so many
 * that the next `gets_by_adapter` are the first by the adapter: do no more rounds. */
#include <signal.h>
#include <skerry/skerry.h>
#include <skerry/window.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
  most_ranks = 64,
  gets_before = 18,
  gets_by_adapter = 2,
  ticks_a_second = 10,
  most_seconds = 600
};

static skerry_job* job;
static int64_t pids[most_ranks]; /* of the stopped */
static int stopped;
static volatile sig_atomic_t was_woken, ticks, most_ticks, may_wake;

#define CHECK(call) check((call), #call)
static void check(int status, const char* call) {
  if (status >= 0) return;
  fprintf(stderr, "nobody_home: %s: %s: %s\n", call, skerry_status_name(status),
          skerry_last_error());
  skerry_abort(job, 3, call);
}
static void expect(int64_t got, int64_t wanted, const char* what) {
  if (got == wanted) return;
  fprintf(stderr, "nobody_home: %s: got %lld, expected %lld\n", what, (long long)got,
          (long long)wanted);
  skerry_abort(job, 4, what);
}

static void send_all(int signal_number) {
  for (int i = 0; i < stopped; ++i) kill((pid_t)pids[i], signal_number);
}
static void begin(int seconds, int wakes) {
  ticks = 0;
  most_ticks = seconds * ticks_a_second;
  may_wake = wakes;
}
static void on_tick(int signal_number) {
  static const char text[] = "nobody_home: no progress, and all processes run\n";
  (void)signal_number;
  if (++ticks < most_ticks) return;
  send_all(SIGCONT);
  if (!may_wake) {
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(6);
    _exit(5);
  }
  was_woken = 1;
  begin(most_seconds, 0);
}
static void start_ticks(void) {
  const struct itimerval each = {{0, 1000000 / ticks_a_second}, {0, 1000000 / ticks_a_second}};
  begin(most_seconds, 0);
  signal(SIGALRM, on_tick);
  setitimer(ITIMER_REAL, &each, NULL);
}

static int is_stopped(int64_t pid) {
  char path[64], line[512] = "";
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
  FILE* file = fopen(path, "r");
  if (file == NULL) return 0;
  const char* const read = fgets(line, sizeof line, file);
  fclose(file);
  const char* const name_end = read == NULL ? NULL : strrchr(line, ')');
  return name_end != NULL && name_end[2] == 'T';
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Words of a slice: a counter, a value, the process. */
static void one_round(skerry_window* window, int there, int64_t round) {
  const int64_t one = 1, value = 1000 + round;
  int64_t back = 0, before = 0;
  CHECK(skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, there, 0));
  CHECK(skerry_window_put(window, there, 1, &value, 8));
  CHECK(skerry_window_get(window, there, 1, &back, 8));
  CHECK(skerry_window_fetch_update(window, there, 0, SKERRY_INT64, SKERRY_SUM, &one, &before, 1));
  CHECK(skerry_window_unlock(window, there));
  expect(back, value, "a get after a put");
  expect(before, round, "a counter");
}

static void one_get(skerry_segment* segment, int there) {
  int64_t value = 0;
  CHECK(skerry_get(segment, there, 0, &value, 8));
  expect(value, 77, "a get");
}

int main(int argc, char** argv) {
  const int rounds = argc > 2 ? atoi(argv[2]) : 1000;
  const int gets = argc > 3 && strcmp(argv[3], "gets") == 0;
  if (argc < 2 || rounds < 1 || (strcmp(argv[1], "free") != 0 && strcmp(argv[1], "waits") != 0))
    return fprintf(stderr, "usage: nobody_home free|waits [ROUNDS [gets]]\n"), 2;
  if (gets && rounds > gets_by_adapter)
    return fprintf(stderr, "nobody_home: %d gets at most\n", gets_by_adapter), 2;
  const int must_wait = strcmp(argv[1], "waits") == 0;
  if (skerry_init(NULL, &job) != SKERRY_OK) return fprintf(stderr, "%s\n", skerry_last_error()), 1;
  const int rank = skerry_rank(job), size = skerry_size(job), there = size - 1;
  skerry_window* window;
  CHECK(skerry_window_allocate(skerry_world(job), 24, 8, &window));
  skerry_segment* segment;
  CHECK(skerry_segment_alloc(skerry_world(job), 8, &segment));
  *(int64_t*)skerry_segment_local(segment) = 77;
  const int64_t pid = getpid();
  CHECK(skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, rank, 0));
  CHECK(skerry_window_put(window, rank, 2, &pid, 8));
  CHECK(skerry_window_unlock(window, rank));
  CHECK(skerry_barrier(skerry_world(job)));
  int failed = 0;
  if (rank == 0) {
    start_ticks();
    one_round(window, there, 0); /* connects, and the lock comes to our side */
    for (int r = 1; r < size && stopped < most_ranks; ++r) {
      if (skerry_node_of(job, r) != skerry_node_of(job, there)) continue;
      CHECK(skerry_window_lock(window, SKERRY_LOCK_SHARED, r, 0));
      CHECK(skerry_window_get(window, r, 2, &pids[stopped], 8));
      CHECK(skerry_window_unlock(window, r));
      ++stopped;
    }
    one_round(window, there, 1);
    for (int i = 0; gets && i < gets_before; ++i) one_get(segment, there);
    send_all(SIGSTOP);
    for (int i = 0; i < stopped; ++i)
      while (!is_stopped(pids[i])) usleep(1000);
    const double began = seconds();
    for (int round = 0; round < rounds; ++round) {
      begin(was_woken ? most_seconds : must_wait ? 3 : 60, !was_woken);
      if (gets) one_get(segment, there);
      else one_round(window, there, 2 + round);
    }
    const double took = seconds() - began;
    begin(most_seconds, 0);
    int still = 0;
    for (int i = 0; i < stopped; ++i) still += is_stopped(pids[i]);
    failed = must_wait ? !was_woken : was_woken || still != stopped;
    printf("nobody_home: %d rounds on a node with %d processes stopped: %s, %.0f us each\n", rounds,
           stopped, was_woken ? "waited until they went on" : "none waited", took / rounds * 1e6);
    fflush(stdout);
    send_all(SIGCONT);
  }
  CHECK(skerry_barrier(skerry_world(job)));
  if (rank == there) {
    int64_t counter = 0;
    CHECK(skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, rank, 0));
    CHECK(skerry_window_get(window, rank, 0, &counter, 8));
    CHECK(skerry_window_unlock(window, rank));
    expect(counter, gets ? 2 : 2 + rounds, "the counter in the end");
  }
  CHECK(skerry_segment_free(segment));
  CHECK(skerry_window_free(window));
  if (skerry_finalize(job) != SKERRY_OK) return 1;
  return failed;
}
