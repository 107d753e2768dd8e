// A job whose ranks die at any moment, and whose others go on and end exact. Each rank adds to
// counters of others, holds mutexes, makes and frees segments, and meets the others in collectives
// of every kind. Victims kill themselves from a thread, wherever their main thread is.
//
// going_on SEED VICTIM ... : the ranks that kill themselves, at moments that follow from SEED;
// those below 0, -1 - rank, when the job is about to end.
// Prints a line a rank that lives. Fails if anything is not as promised:
//   - a collective succeeds on all members that live, or fails on all
//   - a rank's additions to memory that lives are there, each once
//   - a mutex has one holder; the next one learns if the last one died
//   - what concerns the dead alone says PEER_DEAD, and nothing waits for ever
#include <skerry/skerry.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace {

int me = -1;

[[noreturn]] void wrong(const char* what, long a = 0, long b = 0) {
  std::printf("wrong: rank %d: %s (%ld, %ld): %s\n", me, what, a, b, skerry_last_error());
  std::fflush(stdout);
  _exit(3);
}

void must(int status, const char* what) {
  if (status != SKERRY_OK) wrong(what, status);
}

constexpr uint64_t counters_at = 0, flags_at = 4096, bytes_each = 8192;
constexpr uint32_t mutexes_each = 2;

class Rank {
 public:
  Rank(skerry_job* job, uint64_t seed)
      : job_(job),
        size_(skerry_size(job)),
        group_(skerry_world(job)),
        random_(seed * 1000 + static_cast<uint64_t>(me)),
        added_(static_cast<size_t>(size_)) {
    must(skerry_segment_alloc(group_, bytes_each, &segment_), "alloc");
    must(skerry_mutexes_create(group_, mutexes_each, &mutexes_), "mutexes");
  }

  // Until so many have died and all have met some times after that.
  void work(int victims) {
    for (int calm = 0; calm < 12;) {
      for (int i = 0; i < 40; ++i) operate();
      int dead = 0;
      must(skerry_failed(job_, nullptr, 0, &dead), "failed");
      int64_t few = dead < victims ? 0 : 1;
      if (meet(&few) && few != 0) ++calm;
    }
  }

  void finish() {
    must(skerry_fence_all(job_), "the last fence");
    must(skerry_barrier(group_), "the last barrier");
    for (int rank = 0; rank < size_; ++rank) {
      if (is_lost(rank)) continue;
      int64_t there = 0;
      must(skerry_get(segment_, rank, counters_at + 8 * static_cast<uint64_t>(me), &there, 8),
           "get of a counter");
      if (there != added_[static_cast<size_t>(rank)])
        wrong("additions", there, added_[static_cast<size_t>(rank)]);
    }
    must(skerry_barrier(group_), "a barrier behind the look");
    std::printf("rank %d exact after %ld calls, %ld shrinks, %ld owners died\n", me, calls_,
                shrinks_, owners_died_);
    std::fflush(stdout);
  }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }

  // Is the node of this rank known to be gone?
  bool is_lost(int rank) {
    std::vector<int> dead(static_cast<size_t>(size_));
    int count = 0;
    must(skerry_failed(job_, dead.data(), size_, &count), "failed");
    dead.resize(static_cast<size_t>(count));
    const int leader = skerry_node_rank(job_, skerry_node_of(job_, rank), 0);
    return std::find(dead.begin(), dead.end(), leader) != dead.end();
  }
  // An operation on `rank` was answered.
  bool went_well(int status, int rank, const char* what) {
    if (status == SKERRY_OK) return true;
    if (status != SKERRY_ERR_PEER_DEAD) wrong(what, status, rank);
    if (!is_lost(rank)) wrong("PEER_DEAD of a node that lives", rank);
    if (std::strstr(skerry_last_error(), "rank") == nullptr) wrong("an error that names nobody");
    return false;
  }
  // A fence may tell of any lost node.
  void fence() {
    const int status = skerry_fence_all(job_);
    if (status != SKERRY_OK && status != SKERRY_ERR_PEER_DEAD) wrong("fence", status);
  }

  void operate() {
    const int rank = pick(size_);
    const uint64_t counter = counters_at + 8 * static_cast<uint64_t>(me);
    int64_t one = 1, old = 0;
    switch (pick(6)) {
      case 0:
        if (went_well(skerry_fetch_add_i64(segment_, rank, counter, 1, &old), rank, "fetch_add")) {
          if (old != added_[static_cast<size_t>(rank)] && !is_lost(rank))
            wrong("fetch_add found", old, added_[static_cast<size_t>(rank)]);
          ++added_[static_cast<size_t>(rank)];
        }
        return;
      case 1: {
        const int64_t scale = 1;
        if (went_well(skerry_acc(segment_, rank, counter, SKERRY_INT64, &scale, &one, 1), rank,
                      "acc"))
          ++added_[static_cast<size_t>(rank)];
        return;
      }
      case 2:
        if (!went_well(skerry_get(segment_, rank, counter, &old, 8), rank, "get")) return;
        if (old != added_[static_cast<size_t>(rank)] && !is_lost(rank))
          wrong("get found", old, added_[static_cast<size_t>(rank)]);
        return;
      case 3: {
        std::vector<char> much(1 << 12, static_cast<char>(me));
        const auto bytes = 1 + static_cast<uint64_t>(pick(1000));
        (void)went_well(skerry_put(segment_, rank, flags_at, much.data(), bytes), rank, "put");
        return;
      }
      case 4: fence(); return;
      case 5: hold(rank); return;
    }
  }

  // The flag of a mutex is 1 while somebody holds it.
  void hold(int rank) {
    const auto index = static_cast<uint32_t>(pick(mutexes_each));
    const uint64_t flag = flags_at + 1024 + 8 * index;
    int64_t is_held = 0, yes = 1, no = 0;
    const int status = skerry_mutex_lock(mutexes_, rank, index);
    if (status != SKERRY_ERR_OWNER_DIED && !went_well(status, rank, "lock")) return;
    owners_died_ += status == SKERRY_ERR_OWNER_DIED;
    if (!went_well(skerry_get(segment_, rank, flag, &is_held, 8), rank, "get of a flag")) return;
    if (is_held != 0 && status != SKERRY_ERR_OWNER_DIED) wrong("two hold a mutex", rank, is_held);
    if (!went_well(skerry_put(segment_, rank, flag, &yes, 8), rank, "put of a flag")) return;
    if (pick(8) == 0) usleep(static_cast<useconds_t>(pick(300)));
    if (!went_well(skerry_put(segment_, rank, flag, &no, 8), rank, "put of a flag")) return;
    (void)went_well(skerry_mutex_unlock(mutexes_, rank, index), rank, "unlock");
  }

  // One collective of the group, the same kind on all members, and another. After a failure the
  // group shrinks. *least becomes the least of all. False: it failed.
  bool meet(int64_t* least) {
    bool is_right = true;
    const int64_t number = calls_++;
    int status = did(call(number, &is_right));
    if (status == SKERRY_OK && !is_right) wrong("a result of call", number % 8, number);
    if (status == SKERRY_OK)
      status = did(skerry_allreduce(group_, SKERRY_INT64, SKERRY_MIN, least, 1));
    if (status != SKERRY_OK && status != SKERRY_ERR_PEER_DEAD)
      wrong("a collective answered", status, number % 8);
    if (status == SKERRY_OK) return true;
    if (std::strstr(skerry_last_error(), "rank") == nullptr) wrong("an error that names nobody");
    shrink();
    return false;
  }

  int did(int status) {
    good_ += status == SKERRY_OK;
    return status;
  }

  int call(int64_t number, bool* right) {
    const int members = skerry_group_size(group_);
    int status = SKERRY_OK;
    bool& is_right = *right;
    switch (number % 8) {
      case 0: status = skerry_barrier(group_); break;
      case 1: {
        int64_t sum = 1;
        status = skerry_allreduce(group_, SKERRY_INT64, SKERRY_SUM, &sum, 1);
        is_right = sum == members;
        break;
      }
      case 2: {
        std::vector<int32_t> much(60000, 1);
        status = skerry_allreduce(group_, SKERRY_INT32, SKERRY_SUM, much.data(), much.size());
        is_right = std::all_of(much.begin(), much.end(), [&](int32_t x) { return x == members; });
        break;
      }
      case 3: {
        int64_t word = number;
        const int root = skerry_group_rank(group_, static_cast<int>(number / 8) % members);
        if (me != root) word = -1;
        status = skerry_broadcast(group_, &word, sizeof word, root);
        is_right = word == number;
        break;
      }
      case 4: {
        skerry_segment* made = nullptr;
        status = did(skerry_segment_alloc(group_, 100000, &made));
        if (status == SKERRY_OK) status = skerry_segment_free(made);
        break;
      }
      case 5: {
        std::vector<int32_t> all(static_cast<size_t>(members));
        status = skerry_allgather(group_, &me, sizeof me, all.data());
        for (int i = 0; i < members && status == SKERRY_OK; ++i)
          is_right = is_right && all[static_cast<size_t>(i)] == skerry_group_rank(group_, i);
        break;
      }
      case 6: {
        int64_t sum = 1;
        const int root = skerry_group_rank(group_, static_cast<int>(number / 8) % members);
        status = skerry_reduce(group_, SKERRY_INT64, SKERRY_SUM, &sum, 1, root);
        is_right = me != root || sum == members;
        break;
      }
      case 7: {
        skerry_group* part = nullptr;
        const int position = skerry_group_index(group_, me);
        status = skerry_group_split(group_, position % 2, position, &part);
        int64_t sum = 1;
        if (status == SKERRY_OK) {
          const int others = skerry_allreduce(part, SKERRY_INT64, SKERRY_SUM, &sum, 1);
          if (others != SKERRY_OK && others != SKERRY_ERR_PEER_DEAD) wrong("allreduce of a part");
        }
        break;
      }
    }
    return status;
  }

  // The living compare how many collectives had succeeded. If more die meanwhile it goes round
  // again.
  void shrink() {
    int status = SKERRY_OK;
    do {
      skerry_group* living = nullptr;
      must(skerry_group_shrink(group_, 30'000'000'000, &living), "shrink");
      if (skerry_barrier(group_) != SKERRY_ERR_INVALID) wrong("the old group works");
      group_ = living;
      ++shrinks_;
      int64_t seen[2] = {good_, -good_};
      status = skerry_allreduce(group_, SKERRY_INT64, SKERRY_MAX, seen, 2);
      if (status == SKERRY_OK && (seen[0] != good_ || seen[1] != -good_))
        wrong("some were told of a failure earlier", seen[0], -seen[1]);
    } while (status == SKERRY_ERR_PEER_DEAD);
    must(status, "the first call of the living");
  }

  skerry_job* const job_;
  const int size_;
  skerry_group* group_;
  std::mt19937_64 random_;
  std::vector<int64_t> added_;  // to each rank's memory
  skerry_segment* segment_ = nullptr;
  skerry_mutexes* mutexes_ = nullptr;
  int64_t good_ = 0;  // collectives of all members that succeeded
  long calls_ = 0, shrinks_ = 0, owners_died_ = 0;
};

void die_in(uint64_t us) {
  std::thread([us] {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    (void)kill(getpid(), SIGKILL);
  }).detach();
}

}  // namespace

int main(int count, char** words) {
  skerry_options options = SKERRY_OPTIONS_INIT;
  options.on_failure = SKERRY_FAILURE_CONTINUES;
  skerry_job* job = nullptr;
  if (skerry_init(&options, &job) != SKERRY_OK) {
    std::fprintf(stderr, "%s\n", skerry_last_error());
    return 1;
  }
  me = skerry_rank(job);
  const uint64_t seed = std::strtoull(count > 1 ? words[1] : "1", nullptr, 10);
  Rank rank(job, seed);
  must(skerry_barrier(skerry_world(job)), "the first barrier");
  std::vector<bool> early(static_cast<size_t>(skerry_size(job)));
  bool dies_late = false;
  std::mt19937_64 moments(seed * 31 + static_cast<uint64_t>(me));
  for (int i = 2; i < count; ++i) {
    const int victim = std::atoi(words[i]);
    if (victim >= 0) early[static_cast<size_t>(victim)] = true;
    dies_late = dies_late || -1 - victim == me;
    if (victim == me) die_in(moments() % 300'000);
  }
  // A leader takes its node along.
  int lost = 0;
  for (int r = 0; r < skerry_size(job); ++r) {
    const int leader = skerry_node_rank(job, skerry_node_of(job, r), 0);
    lost += early[static_cast<size_t>(r)] || early[static_cast<size_t>(leader)];
  }
  rank.work(lost);
  rank.finish();
  if (dies_late) die_in(moments() % 3'000);
  must(skerry_finalize(job), "finalize");
  return 0;
}
