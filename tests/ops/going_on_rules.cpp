// What holds after a death in a job that goes on, one thing after the other. The last rank dies.
#include <skerry/skerry.h>
#include <skerry/window.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int me = -1, size = 0, last = 0;
bool leads = false;  // the last rank, which dies, its node
char last_name[32];
skerry_job* job = nullptr;
skerry_group* world = nullptr;
skerry_segment* segment = nullptr;
skerry_mutexes* mutexes = nullptr;

void expect(bool right, const char* what, long value = 0) {
  if (right) return;
  std::printf("wrong: rank %d: %s (%ld): %s\n", me, what, value, skerry_last_error());
  std::fflush(stdout);
  _exit(3);
}
void must(int status, const char* what) { expect(status == SKERRY_OK, what, status); }
bool says(const char* text) { return std::strstr(skerry_last_error(), text) != nullptr; }

void refuse_what_is_not_there() {
  // What is not there yet says so, and does no harm.
  skerry_window* window = nullptr;
  expect(skerry_window_allocate(world, 64, 8, &window) == SKERRY_ERR_UNSUPPORTED, "a window");
  skerry_handle handle = 0;
  expect(skerry_barrier_nb(world, &handle) == SKERRY_ERR_UNSUPPORTED, "barrier_nb");
  int dead = -1, who = -1;
  must(skerry_hear(job), "hear");
  must(skerry_failed(job, &who, 1, &dead), "failed");
  expect(dead == 0, "somebody is said to have died", dead);
}

void die_with_mutexes() {
  must(skerry_segment_alloc(world, 4096, &segment), "alloc");
  must(skerry_mutexes_create(world, 2, &mutexes), "mutexes");
  must(skerry_sync(world), "sync");
  // The last rank holds a mutex of rank 0 and one of its own, and has not answered when it dies.
  if (me == last) {
    must(skerry_mutex_lock(mutexes, 0, 0), "lock");
    must(skerry_mutex_lock(mutexes, last, 1), "lock");
  }
  must(skerry_barrier(world), "barrier");
  if (me == last) {
    usleep(20'000);
    (void)kill(getpid(), SIGKILL);
  }
}

void lock_after_the_dead() {
  // One of those that wait gets the mutex, and knows. The others get it after that one.
  const int locked = skerry_mutex_lock(mutexes, 0, 0);
  expect(locked == SKERRY_OK || locked == SKERRY_ERR_OWNER_DIED, "lock of a dead holder", locked);
  expect(locked == SKERRY_OK || says(last_name), "an owner that died has a name");
  int64_t told = 0;
  if (locked == SKERRY_ERR_OWNER_DIED)
    must(skerry_fetch_add_i64(segment, 0, 0, 1, &told), "fetch_add");
  must(skerry_mutex_unlock(mutexes, 0, 0), "unlock");
}

void fail_together() {
  // The barrier fails on all that live, and so does every call after it.
  expect(skerry_barrier(world) == SKERRY_ERR_PEER_DEAD && says(last_name),
         "barrier with a dead rank");
  int64_t one = 1;
  expect(skerry_allreduce(world, SKERRY_INT64, SKERRY_SUM, &one, 1) == SKERRY_ERR_PEER_DEAD,
         "allreduce with a dead rank");
  expect(skerry_sync(world) == SKERRY_ERR_PEER_DEAD, "sync with a dead rank");
  skerry_segment* none = nullptr;
  expect(skerry_segment_alloc(world, 64, &none) == SKERRY_ERR_PEER_DEAD, "alloc with a dead rank");
  // Another member may have told of the death before the launcher did.
  int dead = 0, who = -1;
  for (; dead == 0; usleep(1000)) must(skerry_failed(job, &who, 1, &dead), "failed");
  expect(dead == 1 && who == last, "the dead", dead);
  uint64_t value = 0;
  expect(skerry_notify_wait(segment, 64, 1, -1, &value) == SKERRY_ERR_PEER_DEAD,
         "a wait for what the dead might have sent");
}

void use_what_is_left() {
  // A rank that leads nothing leaves its memory behind.
  int64_t word = 0;
  const uint64_t mine = 128 + 8 * static_cast<uint64_t>(me);
  const int got = skerry_fetch_add_i64(segment, last, mine, 1, &word);
  if (leads) {
    expect(got == SKERRY_ERR_PEER_DEAD && says(last_name), "an operation on a lost node", got);
    expect(skerry_put(segment, last, mine, &word, 8) == SKERRY_ERR_PEER_DEAD,
           "a put to a lost node");
    expect(skerry_mutex_lock(mutexes, last, 1) == SKERRY_ERR_PEER_DEAD, "a lock of a lost node");
    must(skerry_fence_all(job), "a fence with nothing outstanding");
  } else {
    must(got, "fetch_add on a dead rank's memory");
    must(skerry_fetch_add_i64(segment, last, mine, 1, &word), "fetch_add");
    expect(word == 1, "what was added to a dead rank's memory", static_cast<long>(word));
    const int again = skerry_mutex_lock(mutexes, last, 1);
    expect(again == SKERRY_OK || again == SKERRY_ERR_OWNER_DIED, "a mutex of a dead rank", again);
    must(skerry_mutex_unlock(mutexes, last, 1), "unlock");
  }
}

skerry_group* shrink() {
  // Shrink by some only ends with the name of the one that is missing. Who is late hears the same.
  skerry_group* living = nullptr;
  constexpr size_t told_at = 2048;
  int64_t told = 0;
  while (me == 0 && told < size - 2) {
    must(skerry_fetch_add_i64(segment, 0, told_at, 0, &told), "fetch_add");
    usleep(1000);
  }
  expect(skerry_group_shrink(world, 200'000'000, &living) == SKERRY_ERR_TIMEOUT && says(": 0"),
         "shrink without rank 0");
  if (me != 0) must(skerry_fetch_add_i64(segment, 0, told_at, 1, &told), "fetch_add");
  must(skerry_group_shrink(world, 30'000'000'000, &living), "shrink");
  expect(skerry_group_size(living) == size - 1, "the living", skerry_group_size(living));
  expect(skerry_barrier(world) == SKERRY_ERR_INVALID && says("shrunk"), "the old group");
  skerry_group* twice = nullptr;
  expect(skerry_group_shrink(world, -1, &twice) == SKERRY_ERR_INVALID, "shrunk twice");
  return living;
}

void work_in_the_new_group(skerry_group* living) {
  // In the new group all works.
  int64_t one = 1, told = 0;
  must(skerry_allreduce(living, SKERRY_INT64, SKERRY_SUM, &one, 1), "allreduce of the living");
  expect(one == size - 1, "their number", static_cast<long>(one));
  must(skerry_get(segment, 0, 0, &told, 8), "get");
  expect(told == 1, "how many heard of the dead holder", static_cast<long>(told));
  skerry_segment* fresh = nullptr;
  must(skerry_segment_alloc(living, 4096, &fresh), "alloc of the living");
  const int next = skerry_group_rank(living, (skerry_group_index(living, me) + 1) % (size - 1));
  must(skerry_put_notify(fresh, next, 8, &one, 8, 0, 1), "put_notify");
  must(skerry_notify_wait(fresh, 0, 1, -1, nullptr), "notify_wait");
  must(skerry_sync(living), "sync of the living");
  must(skerry_segment_free(fresh), "free");
  skerry_group* half = nullptr;
  must(skerry_group_split(living, me % 2, me, &half), "split");
  must(skerry_barrier(half), "barrier of a half");
  must(skerry_group_free(half), "free of a half");
}

}  // namespace

int main() {
  skerry_options options = SKERRY_OPTIONS_INIT;
  options.on_failure = SKERRY_FAILURE_CONTINUES;
  if (skerry_init(&options, &job) != SKERRY_OK) {
    std::fprintf(stderr, "%s\n", skerry_last_error());
    return 1;
  }
  me = skerry_rank(job);
  world = skerry_world(job);
  size = skerry_size(job);
  last = size - 1;
  leads = skerry_node_rank(job, skerry_node_of(job, last), 0) == last;
  std::snprintf(last_name, sizeof last_name, "rank %d", last);
  refuse_what_is_not_there();
  die_with_mutexes();
  lock_after_the_dead();
  fail_together();
  use_what_is_left();
  work_in_the_new_group(shrink());
  must(skerry_finalize(job), "finalize");
  std::printf("rank %d: all rules hold\n", me);
  return 0;
}
