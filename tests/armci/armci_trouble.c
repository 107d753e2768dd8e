/* armci_trouble: one mistake or failure a run, by name; run.py knows how each must end.
 *   mpirun -n N armci_trouble CASE */
#include <armci.h>
#include <dirent.h>
#include <message.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static int me, n;

static void start(void) {
  if (ARMCI_Init() != 0) exit(4);
  me = my_rank = armci_msg_me();
  n = armci_msg_nproc();
}

static int end(void) {
  ARMCI_Finalize();
  MPI_Finalize();
  if (failures == 0 && me == 0) printf("armci_trouble: survived\n");
  return failures != 0;
}

static int wrong_arguments(void) { /* all of them are answered, none of them does anything */
  MPI_Init(NULL, NULL);
  start();
  void* p[64];
  CHECK(ARMCI_Malloc(p, 800) == 0, "malloc");
  long x[4] = {0};
  int stride[1] = {16}, count[2] = {8, 2}, minus[2] = {8, -2};
  CHECK(ARMCI_Put(NULL, p[0], 8, 0) != 0, "null source");
  CHECK(ARMCI_Put(x, NULL, 8, 0) != 0, "null target");
  CHECK(ARMCI_Put(x, p[0], -8, 0) != 0, "negative size");
  CHECK(ARMCI_Put(x, p[0], 8, n) != 0 && ARMCI_Get(p[0], x, 8, -1) != 0, "no such process");
  CHECK(ARMCI_PutS(x, stride, p[0], stride, count, 9, 0) != 0, "nine levels");
  CHECK(ARMCI_PutS(x, stride, p[0], stride, minus, 1, 0) != 0, "negative count");
  CHECK(ARMCI_PutS(x, NULL, p[0], stride, count, 1, 0) != 0, "no strides");
  CHECK(ARMCI_Acc(17, x, x, p[0], 8, 0) != 0, "unknown type");
  CHECK(ARMCI_Acc(ARMCI_ACC_DBL, x, x, p[0], 12, 0) != 0, "half an element");
  CHECK(ARMCI_Rmw(9, x, p[0], 1, 0) != 0, "unknown operation");
  CHECK(ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, x, (char*)p[0] + 4, 1, 0) != 0, "misaligned");
  CHECK(ARMCI_Rmw(ARMCI_FETCH_AND_ADD, NULL, p[0], 1, 0) != 0, "null");
  armci_giov_t bad = {NULL, NULL, 8, 2};
  CHECK(ARMCI_PutV(&bad, 1, 0) != 0 && ARMCI_GetV(NULL, 1, 0) != 0, "null vectors");
  CHECK(ARMCI_Wait(NULL) != 0, "null handle");
  CHECK(ARMCI_Create_mutexes(me == 0 ? -1 : 2) != 0, "negative number on one process");
  CHECK(ARMCI_Destroy_mutexes() != 0, "nothing to destroy");
  CHECK(ARMCI_Create_mutexes(1) == 0 && ARMCI_Create_mutexes(1) != 0, "twice");
  CHECK(ARMCI_Destroy_mutexes() == 0, "destroy");
  /* A misaligned transfer is none of ours to refuse. */
  char bytes[16] = "misaligned bytes";
  CHECK(ARMCI_Put(bytes + 1, (char*)p[me] + 3, 9, me) == 0 &&
            memcmp((char*)p[me] + 3, "isaligned", 9) == 0,
        "misaligned bytes");
  /* If one member frees wrongly, no member frees. */
  CHECK(ARMCI_Free(me == 0 ? (void*)x : p[me]) != 0, "freed what is not allocated");
  void* q[64];
  CHECK(ARMCI_Malloc(q, 100) == 0, "malloc");
  if (n > 1) CHECK(ARMCI_Free(me == 0 ? q[me] : p[me]) != 0, "freed two allocations at once");
  CHECK(ARMCI_Free(q[me]) == 0, "free");
  CHECK(ARMCI_Free(q[me]) != 0, "freed twice");
  CHECK(ARMCI_Free(p[me]) == 0, "free");
  return end();
}

static int no_memory(void) { /* the same answer on all members, and life goes on */
  MPI_Init(NULL, NULL);
  start();
  void* p[64];
  int answer = ARMCI_Malloc(p, me == n - 1 ? 1L << 50 : 100), least = answer, most = answer;
  armci_msg_igop(&least, 1, "min");
  armci_msg_igop(&most, 1, "max");
  CHECK(answer != 0 && least == most, "answers %d to %d", least, most);
  CHECK(ARMCI_Malloc(p, -1) != 0, "negative size");
  CHECK(ARMCI_Malloc(p, 100) == 0, "a modest one");
  ARMCI_PutValueInt(me, p[(me + 1) % n], (me + 1) % n);
  ARMCI_Barrier();
  CHECK(*(int*)p[me] == (me + n - 1) % n, "value %d", *(int*)p[me]);
  CHECK(ARMCI_Free(p[me]) == 0, "free");
  return end();
}

static int outside(void) {
  MPI_Init(NULL, NULL);
  start();
  void* p[64];
  ARMCI_Malloc(p, 800);
  long x = 0;
  if (me == 0) ARMCI_Put(&x, (char*)p[n - 1] + (1L << 40), 8, n - 1);
  ARMCI_Barrier();
  return end();
}

static int beyond(void) { /* begins inside and ends outside */
  MPI_Init(NULL, NULL);
  start();
  void* p[64];
  ARMCI_Malloc(p, 800);
  static char much[100000];
  if (me == 0) ARMCI_Put(much, p[n - 1], sizeof much, n - 1);
  ARMCI_Barrier();
  return end();
}

static int wrong_group(void) {
  MPI_Init(NULL, NULL);
  start();
  int all[64];
  for (int i = 0; i < n; ++i) all[i] = i;
  ARMCI_Group group, copy;
  ARMCI_Group_create(n, all, &group);
  copy = group;
  ARMCI_Group_free(&group);
  ARMCI_Group_create(n, all, &group); /* may lie where the first one did */
  armci_msg_group_barrier(&copy);
  return end();
}

static int unknown_mutex(void) {
  MPI_Init(NULL, NULL);
  start();
  ARMCI_Create_mutexes(2);
  if (me == 0) ARMCI_Lock(1, n);
  ARMCI_Barrier();
  return end();
}

static int mutex_too_high(void) {
  MPI_Init(NULL, NULL);
  start();
  ARMCI_Create_mutexes(2);
  if (me == 0) ARMCI_Lock(5, n - 1);
  ARMCI_Barrier();
  return end();
}

static int exits_with(int status) {
  MPI_Init(NULL, NULL);
  start();
  void* p[64];
  ARMCI_Malloc(p, 800);
  if (me == n - 1) exit(status);
  ARMCI_Barrier();
  return end();
}
static int exit_in_the_middle(void) { return exits_with(0); }
static int exit_256(void) { return exits_with(256); }

static int ends_by_error(int code) {
  MPI_Init(NULL, NULL);
  start();
  if (me == 0) ARMCI_Error("a program's own reason", code);
  ARMCI_Barrier();
  return end();
}
static int error_call(void) { return ends_by_error(17); }
static int error_512(void) {
  return ends_by_error(512);
} /* whose low eight bits, which are all that launchers see, are 0 */

static int forked(void) { /* a child that exits has nothing to do with the job */
  MPI_Init(NULL, NULL);
  start();
  void* p[64];
  CHECK(ARMCI_Malloc(p, 800) == 0, "malloc");
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) exit(0);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
  ARMCI_PutValueInt(me, p[(me + 1) % n], (me + 1) % n);
  ARMCI_Barrier();
  CHECK(*(int*)p[me] == (me + n - 1) % n, "value %d", *(int*)p[me]);
  return end();
}

/* A vector operation aggregates its parts; a handle in use that does not aggregate was left doing
 * so. */
static int vector_on_busy_handle(void) {
  MPI_Init(NULL, NULL);
  start();
  void* p[64];
  CHECK(ARMCI_Malloc(p, 1 << 20) == 0, "malloc");
  static char much[1 << 20];
  const int far = n - 1 - me;
  long words[2];
  void *from[2] = {p[far], (char*)p[far] + 64}, *to[2] = {words, words + 1};
  armci_giov_t pieces = {from, to, 8, 2};
  armci_hdl_t handle;
  ARMCI_INIT_HANDLE(&handle);
  ARMCI_NbGet(p[far], much, sizeof much, far, &handle);
  ARMCI_NbGetV(&pieces, 1, far, &handle);
  ARMCI_Wait(&handle);
  CHECK(handle.request == 0, "%x is left of the handle", (unsigned)handle.request);
  ARMCI_SET_AGGREGATE_HANDLE(&handle);
  ARMCI_NbGetV(&pieces, 1, far, &handle);
  ARMCI_Wait(&handle);
  CHECK(handle.request != 0, "aggregates no more");
  ARMCI_Barrier();
  return end();
}

static int interrupted(void) { /* run.py sends the launcher SIGINT when it reads "waiting" */
  MPI_Init(NULL, NULL);
  start();
  printf("armci_trouble: process %d\n", (int)getpid());
  fflush(stdout);
  armci_msg_barrier();
  if (me == 0) {
    puts("armci_trouble: waiting");
    fflush(stdout);
    for (;;) pause();
  }
  ARMCI_Barrier();
  return end();
}

static int mpi_first(void) { /* MPI is finalised before ARMCI */
  MPI_Init(NULL, NULL);
  start();
  void* p[64];
  CHECK(ARMCI_Malloc(p, 800) == 0, "malloc");
  MPI_Finalize();
  ARMCI_PutValueInt(me + 1, p[(me + 1) % n], (me + 1) % n);
  ARMCI_Barrier();
  CHECK(*(int*)p[me] == (me + n - 1) % n + 1, "value %d", *(int*)p[me]);
  ARMCI_Finalize();
  if (failures == 0 && me == 0) printf("armci_trouble: survived\n");
  return failures != 0;
}

static int never_finalised(void) { /* MPI is, ARMCI is left to the end of the process */
  MPI_Init(NULL, NULL);
  start();
  armci_msg_barrier();
  if (me == 0) printf("armci_trouble: survived\n");
  fflush(stdout);
  MPI_Finalize();
  return 0;
}

/* Called by MPI_Finalize. */
static int mpi_ends(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  if (failures == 0 && me == 0) printf("armci_trouble: survived\n");
  return MPI_SUCCESS;
}

/* ARMCI starts MPI and leaves it to the end of the process: Global Arrays frees a communicator
 * after ARMCI_Finalize, which died when that had finalised MPI. */
static int without_mpi(void) {
  for (int round = 0; round < 2; ++round) {
    start();
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    int one = 1, finalized = 0;
    armci_msg_igop(&one, 1, "+");
    CHECK(one == n, "%d", one);
    ARMCI_Finalize();
    MPI_Finalized(&finalized);
    CHECK(!finalized, "MPI is gone");
    MPI_Comm_free(&copy);
  }
  int key;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, mpi_ends, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
  return failures != 0;
}

static int without_mpi_but_its_end(void) { /* the program finalises what ARMCI started */
  start();
  return end();
}

static int too_many_nodes(
    void) { /* Global Arrays went on without what ARMCI_Init had failed to make */
  setenv("SKERRY_NODES", "9", 1);
  MPI_Init(NULL, NULL);
  ARMCI_Init();
  puts("armci_trouble: goes on");
  return end();
}

static int started_too_late(void) {
  MPI_Init(NULL, NULL);
  MPI_Finalize();
  ARMCI_Init();
  puts("armci_trouble: goes on");
  return 0;
}

/* Over a communicator with another order, on half of the processes. */
static int part_of_world(void) {
  MPI_Init(NULL, NULL);
  int world, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &world);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, world % 2, -world, &half);
  if (ARMCI_Init_mpi_comm(half) != 0) return 4;
  me = my_rank = armci_msg_me();
  n = armci_msg_nproc();
  int rank;
  MPI_Comm_rank(half, &rank);
  CHECK(rank == me, "rank %d", me);
  void* p[64];
  CHECK(ARMCI_Malloc(p, 8) == 0, "malloc");
  ARMCI_PutValueInt(world + 1, p[(me + 1) % n], (me + 1) % n);
  ARMCI_Barrier();
  CHECK((*(int*)p[me] - 1) % 2 == world % 2, "from the other half");
  ARMCI_Free(p[me]);
  MPI_Comm_free(&half);
  ARMCI_Finalize();
  int all = failures;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  if (all == 0 && world == 0) printf("armci_trouble: survived\n");
  return all != 0;
}

static int part_of_nodes(void) { /* half of the processes are fewer than SKERRY_NODES */
  setenv("SKERRY_NODES", "3", 1);
  const int status = part_of_world();
  CHECK(strcmp(getenv("SKERRY_NODES"), "3") == 0, "it is %s", getenv("SKERRY_NODES"));
  return status != 0 || failures != 0;
}

/* ---- threads ---- */

static void* targets[64];
static void* hammer(void* argument) {
  const long thread = (long)argument;
  for (int k = 0; k < 300; ++k) {
    const int proc = (me + k + (int)thread) % n;
    long old;
    double one = 1, x = 1;
    ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &old, targets[proc], 1, proc);
    ARMCI_Acc(ARMCI_ACC_DBL, &one, &x, (double*)targets[proc] + 1, 8, proc);
    armci_hdl_t handle;
    ARMCI_INIT_HANDLE(&handle);
    double y;
    ARMCI_NbGet((double*)targets[proc] + 1, &y, 8, proc, &handle);
    ARMCI_Wait(&handle);
    CHECK(y >= 1, "read %g", y);
  }
  return NULL;
}

static int threads_of(int level) {
  int provided;
  MPI_Init_thread(NULL, NULL, level, &provided);
  if (ARMCI_Init_thread(MPI_THREAD_MULTIPLE) != 0) return 4;
  me = my_rank = armci_msg_me();
  n = armci_msg_nproc();
  CHECK(ARMCI_Malloc(targets, 16) == 0, "malloc");
  pthread_t threads[3];
  for (long t = 0; t < 3; ++t) pthread_create(&threads[t], NULL, hammer, (void*)t);
  for (int t = 0; t < 3; ++t) pthread_join(threads[t], NULL);
  ARMCI_Barrier();
  long count = *(long*)targets[me];
  double sum = ((double*)targets[me])[1];
  armci_msg_lgop(&count, 1, "+");
  armci_msg_dgop(&sum, 1, "+");
  CHECK(count == 900L * n && sum == 900.0 * n, "%ld and %g of %d", count, sum, 900 * n);
  ARMCI_Free(targets[me]);
  return end();
}

/* Waits for everything while another thread waits for its own: whose wait returned at once, without
 * its data. */
static volatile int is_over;
static void* wait_for_all(void* argument) {
  (void)argument;
  while (!is_over) ARMCI_WaitAll();
  return NULL;
}
static int wait_all_beside(void) {
  enum { words = 1 << 16 };
  int provided;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
  start();
  CHECK(ARMCI_Malloc(targets, sizeof(int) * words) == 0, "malloc");
  for (int k = 0; k < words; ++k) ((int*)targets[me])[k] = me + 1;
  ARMCI_Barrier();
  pthread_t beside;
  pthread_create(&beside, NULL, wait_for_all, NULL);
  static int got[words];
  const int far = n - 1 - me;
  for (int k = 0; k < 300; ++k) {
    memset(got, 0, sizeof got);
    armci_hdl_t handle;
    ARMCI_INIT_HANDLE(&handle);
    ARMCI_NbGet(targets[far], got, sizeof got, far, &handle);
    if (k % 2 == 0) ARMCI_Wait(&handle);
    else
      while (ARMCI_Test(&handle) != 0) {
      }
    CHECK(got[words - 1] == far + 1, "round %d: %d", k, got[words - 1]);
  }
  is_over = 1;
  pthread_join(beside, NULL);
  ARMCI_Barrier();
  ARMCI_Free(targets[me]);
  return end();
}

static int threads(void) { return threads_of(MPI_THREAD_MULTIPLE); }
static int threads_unknown_to_mpi(void) { return threads_of(MPI_THREAD_SINGLE); }

static int serialized(void) {
  int provided;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
  start();
  CHECK(ARMCI_Malloc(targets, 16) == 0, "malloc");
  pthread_t thread; /* another thread than the one that started ARMCI */
  pthread_create(&thread, NULL, hammer, NULL);
  pthread_join(thread, NULL);
  ARMCI_Barrier();
  ARMCI_Free(targets[me]);
  return end();
}

static int alone(void) { /* mirrored by run.py without any launcher */
  MPI_Init(NULL, NULL);
  start();
  CHECK(n == 1 && armci_domain_count(ARMCI_DOMAIN_SMP) == 1, "%d processes", n);
  return end();
}

static int before_start(void) {
  MPI_Init(NULL, NULL);
  long x = 0;
  ARMCI_Put(&x, &x, 8, 0);
  return end();
}

static int open_files(void) {
  int count = 0;
  DIR* files = opendir("/proc/self/fd");
  while (files != NULL && readdir(files) != NULL) ++count;
  if (files != NULL) closedir(files);
  return count;
}

static int again(void) { /* ended and started anew */
  MPI_Init(NULL, NULL);
  armci_hdl_t left; /* never waited for where it was made */
  ARMCI_INIT_HANDLE(&left);
  int files = 0;
  for (int round = 0; round < 3; ++round) {
    start();
    void* p[64];
    CHECK(ARMCI_Malloc(p, 80) == 0, "malloc");
    CHECK(ARMCI_WaitAll() == 0 && ARMCI_Wait(&left) == 0, "a handle of the round before");
    long word;
    CHECK(ARMCI_NbGet((char*)p[n - 1 - me] + 64, &word, 8, n - 1 - me, &left) == 0, "get");
    ARMCI_PutValueInt(me + round, p[(me + 1) % n], (me + 1) % n);
    ARMCI_Barrier();
    CHECK(*(int*)p[me] == (me + n - 1) % n + round, "round %d", round);
    ARMCI_Finalize();
    if (round == 1) files = open_files();
    CHECK(round < 2 || open_files() == files, "%d open files, %d before", open_files(), files);
  }
  MPI_Finalize();
  if (failures == 0 && me == 0) printf("armci_trouble: survived\n");
  return failures != 0;
}

static const struct {
  const char* name;
  int (*run)(void);
} cases[] = {{"wrong_arguments", wrong_arguments},
             {"no_memory", no_memory},
             {"outside", outside},
             {"beyond", beyond},
             {"wrong_group", wrong_group},
             {"unknown_mutex", unknown_mutex},
             {"mutex_too_high", mutex_too_high},
             {"exit_in_the_middle", exit_in_the_middle},
             {"error_call", error_call},
             {"exit_256", exit_256},
             {"error_512", error_512},
             {"forked", forked},
             {"vector_on_busy_handle", vector_on_busy_handle},
             {"wait_all_beside", wait_all_beside},
             {"interrupted", interrupted},
             {"mpi_first", mpi_first},
             {"never_finalised", never_finalised},
             {"without_mpi", without_mpi},
             {"without_mpi_but_its_end", without_mpi_but_its_end},
             {"too_many_nodes", too_many_nodes},
             {"started_too_late", started_too_late},
             {"part_of_world", part_of_world},
             {"part_of_nodes", part_of_nodes},
             {"threads", threads},
             {"threads_unknown_to_mpi", threads_unknown_to_mpi},
             {"serialized", serialized},
             {"alone", alone},
             {"before_start", before_start},
             {"again", again}};

int main(int argc, char** argv) {
  for (size_t k = 0; argc == 2 && k < sizeof cases / sizeof *cases; ++k)
    if (strcmp(argv[1], cases[k].name) == 0) return cases[k].run();
  fprintf(stderr, "usage: armci_trouble CASE; cases are");
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) fprintf(stderr, " %s", cases[k].name);
  fprintf(stderr, "\n");
  return 2;
}
