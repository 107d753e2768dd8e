// Jobs that get into trouble, one kind per word. trouble.py starts them and looks at how they end.
#include <pthread.h>
#include <signal.h>
#include <skerry/window.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>

#include "capi/handles.hpp"
#include "ops/check.hpp"

using namespace skerry;
using namespace skerry::test;

static std::atomic<bool> memory_is_out{false};  // from here on no `new` of this process succeeds

[[gnu::noinline]] void* operator new(size_t bytes) {
  void* const made = memory_is_out.load() ? nullptr : std::malloc(bytes);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

// Says something to trouble.py, whole and at once.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(1, text.data(), text.size()) < 0) std::_Exit(3);
}
void await_input() {
  char c = 0;
  while (read(0, &c, 1) == 1 && c != '\n') {
  }
}
[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// The victim dies holding the lock of a window, by the protocol of SKERRY_LOCK, for which all other
// ranks wait.
int hold_window(skerry_job* job, skerry_segment* s, int victim) {
  const int rank = skerry_rank(job), size = skerry_size(job);
  skerry_group* const world = skerry_world(job);
  int64_t seen = 0;
  skerry_window* w = nullptr;
  OK(skerry_window_allocate(world, 8, 8, &w));
  const auto take = [&] {
    // A lock of another node may be taken by the first access.
    const int locked = skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, 0, 0);
    return locked != SKERRY_OK
               ? locked
               : skerry_window_compare_swap(w, 0, 0, SKERRY_INT64, &seen, &seen, &seen);
  };
  if (rank == victim) {
    OK(take());
    OK(skerry_barrier(world));
    OK(skerry_notify_wait(s, 8, static_cast<uint64_t>(size) - 1, patience_ns, nullptr));
    die();
  }
  OK(skerry_barrier(world));
  OK(skerry_put_notify(s, victim, 0, nullptr, 0, 8, 1));
  if (take() == SKERRY_OK) return 0;
  std::fprintf(stderr, "told: %s\n", skerry_last_error());
  return 6;
}

// For "told", calls return errors when a rank dies.
// From here on no thread can be started, as there is no room for its stack; and again.
void allow_threads(bool allowed) {
  pthread_attr_t attributes;
  EXPECT_IS(pthread_attr_init(&attributes), 0);
  EXPECT_IS(pthread_attr_setstacksize(&attributes, size_t{1} << (allowed ? 20 : 47)), 0);
  EXPECT_IS(pthread_setattr_default_np(&attributes), 0);
}

bool start(const std::string& kind, skerry_job** job) {
  skerry_options options = SKERRY_OPTIONS_INIT;
  if (kind == "told") options.on_failure = SKERRY_FAILURE_RETURNS;
  const int status = skerry_init(&options, job);
  if (status != SKERRY_OK)
    std::fprintf(stderr, "init: %s: %s\n", skerry_status_name(status), skerry_last_error());
  if (kind == "no-thread") allow_threads(false);
  return status == SKERRY_OK;
}

// The victim is stopped by trouble.py; the worker uses its memory when told to.
int work_with_stopped(skerry_job* job, skerry_segment* s, int victim, int worker) {
  const int rank = skerry_rank(job);
  if (rank == victim) say("victim " + std::to_string(getpid()));
  if (rank == 0) {
    say("ready");
    await_input();
    OK(skerry_put_notify(s, worker, 0, nullptr, 0, 8, 1));
  }
  if (rank != worker) return 0;
  OK(skerry_notify_wait(s, 8, 1, patience_ns, nullptr));
  std::vector<char> buffer(100'000);
  int64_t seen = 0;
  for (int i = 0; i < 50; ++i) {
    OK(skerry_fetch_add_i64(s, victim, 0, 1, &seen));
    EXPECT_IS(seen, i);
    OK(skerry_put(s, victim, 64, buffer.data(), buffer.size()));
    OK(skerry_get(s, victim, 64, buffer.data(), buffer.size()));
  }
  OK(skerry_fence(job, victim));
  say("worked");
  return 0;
}

// Everyone puts its rank into everyone's segment and into memory that the other gave for a window,
// and adds under a lock. For ranks in containers: whatever is shared between them, values arrive
// where they should, and nowhere else.
void reach_all(skerry_job* job) {
  const int rank = skerry_rank(job), size = skerry_size(job);
  skerry_group* const world = skerry_world(job);
  const auto count = static_cast<size_t>(size) + 1;
  std::vector<int64_t> given(count, -1);
  skerry_segment* s = nullptr;
  skerry_window* w = nullptr;
  OK(skerry_segment_alloc(world, count * 8, &s));
  OK(skerry_window_create(world, given.data(), count * 8, 8, &w));
  given[count - 1] = 0;
  OK(skerry_sync(world));
  const auto at = static_cast<uint64_t>(rank), sum = count - 1;
  const int64_t mine = rank;
  for (int to = 0; to < size; ++to) {
    int64_t value = 0;
    OK(skerry_put(s, to, 8 * at, &mine, 8));
    OK(skerry_fetch_add_i64(s, to, 8 * sum, 1, nullptr));
    OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, to, 0));
    OK(skerry_window_put(w, to, at, &mine, 8));
    OK(skerry_window_get(w, to, sum, &value, 8));
    OK(skerry_window_flush(w, to));
    ++value;
    OK(skerry_window_put(w, to, sum, &value, 8));
    OK(skerry_window_unlock(w, to));
  }
  OK(skerry_sync(world));
  const auto* const own = static_cast<const int64_t*>(skerry_segment_local(s));
  for (int from = 0; from < size; ++from) {
    EXPECT_IS(own[from], from);
    EXPECT_IS(given[static_cast<size_t>(from)], from);
  }
  EXPECT_IS(own[sum], size);
  EXPECT_IS(given[sum], size);
  OK(skerry_barrier(world));
  OK(skerry_window_free(w));
  OK(skerry_segment_free(s));
  if (rank == 0) say("nodes " + std::to_string(skerry_node_count(job)));
}

// Transfers progress without a thread for them.
void do_without_thread(skerry_job* job, skerry_segment* s) {
  const std::vector<char> buffer(4u << 20);
  const int to = (skerry_rank(job) + 1) % skerry_size(job);
  OK(skerry_put_nb(s, to, 0, buffer.data(), buffer.size(), SKERRY_IMPLICIT));
  OK(skerry_wait_implicit(job));
}

// A job of one rank, without a launcher. What runs out is an error of the call, and no exception.
int run_out_of_room() {
  skerry_job* job = nullptr;
  allow_threads(false);
  EXPECT_ERROR(skerry_init(nullptr, &job), SKERRY_ERR_NO_MEMORY, "no thread can be started");
  allow_threads(true);
  OK(skerry_init(nullptr, &job));
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(skerry_world(job), 8, &s));
  int64_t value = 0;
  const std::vector<skerry_piece> pieces(1 << 20, skerry_piece{&value, 0, 8});
  rlimit usual{};
  getrlimit(RLIMIT_AS, &usual);
  rlimit none = usual;
  none.rlim_cur = 1;
  setrlimit(RLIMIT_AS, &none);
  EXPECT_ERROR(skerry_put_vector(s, 0, pieces.data(), pieces.size()), SKERRY_ERR_NO_MEMORY,
               "no memory left");
  setrlimit(RLIMIT_AS, &usual);
  OK(skerry_put_vector(s, 0, pieces.data(), pieces.size()));
  OK(skerry_finalize(job));
  return 0;
}

// All members get the same answer.
void ask_for(skerry_group* world, int rank, uint64_t wanted) {
  skerry_segment* large = nullptr;
  const int answer = skerry_segment_alloc(world, wanted, &large);
  int32_t answers[2] = {answer, -answer};
  OK(skerry_allreduce(world, SKERRY_INT32, SKERRY_MAX, answers, 2));
  EXPECT_IS(answers[0], -answers[1]);
  if (rank == 0)
    say(std::string("answer ") + skerry_status_name(answer) + ": " +
        (answer == SKERRY_OK ? "" : skerry_last_error()));
  if (large != nullptr) OK(skerry_segment_free(large));
}

// The victim gets no memory for a while. A call that needs some says so; all others go on, and what
// calls that succeeded have added is there at the end.
void starve(skerry_job* job, skerry_segment* s, int victim) {
  constexpr int rounds = 60, first_starved = 20, last_starved = 40;
  const int rank = skerry_rank(job), size = skerry_size(job);
  std::vector<double> buffer((1 << 20) / sizeof(double), 1.0);
  const std::vector<skerry_piece> pieces(1000, skerry_piece{buffer.data(), 1 << 20, 8});
  int64_t added = 0, refused = 0;
  int other = SKERRY_OK;  // an error that is another one; said when there is memory for it
  const auto take = [&](int answer) {
    refused += answer == SKERRY_ERR_NO_MEMORY;
    if (answer != SKERRY_OK && answer != SKERRY_ERR_NO_MEMORY) other = answer;
    return answer == SKERRY_OK;
  };
  for (int i = 0; i < rounds; ++i) {
    if (i == first_starved || i == last_starved) {
      memory_is_out = false;
      OK(skerry_barrier(skerry_world(job)));
      memory_is_out = rank == victim && i == first_starved;
    }
    for (int target = 0; target < size; ++target) {
      int64_t old = 0;
      take(skerry_put_vector(s, target, pieces.data(), pieces.size()));
      take(skerry_acc(s, target, 2 << 20, SKERRY_DOUBLE, nullptr, buffer.data(), 1 << 16));
      take(skerry_get(s, target, 1 << 20, buffer.data(), 1 << 20));
      added += take(skerry_fetch_add_i64(s, target, 0, 1, &old)) ? 1 : 0;
    }
  }
  EXPECT_IS(other, static_cast<int>(SKERRY_OK));
  OK(skerry_fence_all(job));
  OK(skerry_sync(skerry_world(job)));
  int64_t there = 0;
  OK(skerry_get(s, rank, 0, &there, sizeof there));
  int64_t sums[2] = {added, there};
  OK(skerry_allreduce(skerry_world(job), SKERRY_INT64, SKERRY_SUM, sums, 2));
  EXPECT_IS(sums[0], sums[1]);
  say("starved: " + std::to_string(refused) + " refused");
}

// All get from all, through whatever servers; the victim dies in the middle of its own. Every other
// rank's calls must say so, and then it ends in order.
int be_told(skerry_job* job, skerry_segment* s, int victim) {
  const int rank = skerry_rank(job), size = skerry_size(job);
  std::vector<char> buffer(100'000);
  int told = SKERRY_OK;
  for (int i = 0; told == SKERRY_OK; ++i) {
    if (rank == victim && i == 20 * size) die();
    told = skerry_get(s, (rank + i) % size, 0, buffer.data(), buffer.size());
  }
  say("rank " + std::to_string(rank) + " was told " + skerry_status_name(told) + ": " +
      skerry_last_error());
  (void)skerry_finalize(job);  // cannot meet the dead rank
  return 0;
}

// Each adds to the last rank before and after the recording of its handshake was sent again.
void be_recorded(skerry_job* job, skerry_segment* s) {
  const int size = skerry_size(job);
  for (int turn = 0; turn < 2; ++turn) {
    int64_t seen = 0;
    OK(skerry_fetch_add_i64(s, size - 1, 0, 1, nullptr));
    OK(skerry_fence_all(job));
    OK(skerry_barrier(skerry_world(job)));
    OK(skerry_get(s, size - 1, 0, &seen, sizeof seen));
    EXPECT_IS(seen, int64_t{turn + 1} * size);
    OK(skerry_barrier(skerry_world(job)));
    if (turn == 0 && skerry_rank(job) == 0) {
      say("ready");
      await_input();
    }
  }
}

// The victim, which hosts its node's data server, has no descriptor left when rank 1 opens its
// first connection to it. Rank 1's call must say that; then it ends, and the job with it.
void be_refused(skerry_job* job, skerry_segment* s, int victim) {
  const int rank = skerry_rank(job);
  if (rank == victim) {
    const rlimit few{512, 512};
    EXPECT_IS(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (dup(STDERR_FILENO) >= 0) {
    }
  }
  OK(skerry_barrier(skerry_world(job)));
  if (rank != 1) return;
  const int64_t value = 1;
  int told = skerry_put(s, victim, 0, &value, sizeof value);
  if (told == SKERRY_OK) told = skerry_fence(job, victim);
  say("refused: " + std::string(skerry_status_name(told)) + ": " + skerry_last_error());
  std::_Exit(6);
}

// Kinds of trouble that a job lives through. False: it is none.
bool live_through(const std::string& kind, skerry_job* job, skerry_segment* s, int victim) {
  if (kind == "reach") reach_all(job);
  else if (kind == "no-thread") do_without_thread(job, s);
  else if (kind == "starved") starve(job, s, victim);
  else if (kind == "recorded") be_recorded(job, s);
  else if (kind == "refused") be_refused(job, s, victim);
  else return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  const int victim = argc > 2 ? std::atoi(argv[2]) : 0;
  const int worker = argc > 3 ? std::atoi(argv[3]) : 0;
  const char* const rank_text = std::getenv("SKERRY_RANK");
  const int early_rank = rank_text == nullptr ? 0 : std::atoi(rank_text);
  if (kind == "before-init" && early_rank == victim) die();
  skerry_job* job = nullptr;
  if (kind == "no-room") return run_out_of_room();
  for (int i = 0; kind == "again" && i < 3; ++i) {
    if (!start(kind, &job)) return 5;
    OK(skerry_finalize(job));
  }
  if (!start(kind, &job)) return 5;
  const int rank = skerry_rank(job), size = skerry_size(job);
  skerry_group* const world = skerry_world(job);
  skerry_segment* s = nullptr;
  skerry_mutexes* m = nullptr;
  const uint64_t bytes = 4u << 20;
  OK(skerry_segment_alloc(world, bytes, &s));
  OK(skerry_mutexes_create(world, 1, &m));
  OK(skerry_sync(world));
  std::vector<char> buffer(bytes);
  int64_t seen = 0;

  if (kind == "gets") {
    // All get from the victim and from the next rank; the victim dies in the middle of its own.
    for (int i = 0;; ++i) {
      if (rank == victim && i == 20) die();
      if (skerry_get(s, victim, 0, buffer.data(), bytes) != SKERRY_OK ||
          skerry_get(s, (rank + 1) % size, 0, buffer.data(), 8) != SKERRY_OK)
        break;
    }
    std::fprintf(stderr, "told: %s\n", skerry_last_error());
    return 6;
  }
  if (kind == "stripe") {
    // The victim dies holding every stripe of its node; the others want one there.
    if (rank == victim) {
      const memory::Control& control = capi::of(job)->control();
      for (uint32_t i = 0; i < memory::stripe_count; ++i)
        (void)try_lock_word(control.stripes()[i].word, capi::of(job)->member_index(),
                            control.watch());
      die();
    }
    while (skerry_fetch_add_i64(s, victim, 64, 1, &seen) == SKERRY_OK) {
    }
    std::fprintf(stderr, "told: %s\n", skerry_last_error());
    return 6;
  }
  if (kind == "mutex") {
    // The victim dies holding a mutex for which all other ranks wait.
    if (rank == victim) {
      OK(skerry_mutex_lock(m, 0, 0));
      OK(skerry_barrier(world));
      OK(skerry_notify_wait(s, 8, static_cast<uint64_t>(size) - 1, patience_ns, nullptr));
      die();
    }
    OK(skerry_barrier(world));
    OK(skerry_put_notify(s, victim, 0, nullptr, 0, 8, 1));
    if (skerry_mutex_lock(m, 0, 0) == SKERRY_OK) return 0;
    std::fprintf(stderr, "told: %s\n", skerry_last_error());
    return 6;
  }
  if (kind == "told") return be_told(job, s, victim);
  const bool is_done = live_through(kind, job, s, victim);
  if (kind == "window") return hold_window(job, s, victim);
  if (kind == "no-finalize") {
    if (rank == victim) return 0;
    const int told = skerry_barrier(world);
    std::fprintf(stderr, "told: %s: %s\n", skerry_status_name(told), skerry_last_error());
    return 6;
  }
  if (kind == "stopped") {
    if (const int bad = work_with_stopped(job, s, victim, worker); bad != 0) return bad;
  } else if (kind == "unauthenticated") {
    if (rank == size - 1) say("server " + std::to_string(getpid()));
    if (rank == 0) {
      say("ready");
      await_input();
    }
    OK(skerry_barrier(world));
    // Rank 1 is no leader: this is its first connection.
    if (rank == 1) {
      OK(skerry_put(s, size - 1, 0, buffer.data(), bytes));
      OK(skerry_fetch_add_i64(s, size - 1, 0, 1, &seen));
      say("worked");
    }
  } else if (kind == "memory") {
    ask_for(world, rank, std::strtoull(argv[2], nullptr, 0));
  } else if (kind != "fine" && kind != "again" && !is_done) {
    std::fprintf(stderr, "unknown kind %s\n", kind.c_str());
    return 2;
  }
  OK(skerry_sync(world));
  OK(skerry_finalize(job));
  return 0;
}
