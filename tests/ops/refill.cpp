// A job whose ranks die at any moment, and in which spares take their places. All that are in the
// group count steps together; a spare takes the state from a member that has it. A step adds one to
// a counter of every member, by everybody.
//
// refill SPARES [DEATHS]: the ranks that die are drawn by their own process numbers, one at a time
// or two at once, until DEATHS (as many as there are spares) have died. Fails if
//   - the group has not its old size while there are spares
//   - members do not agree on the step, or a counter in the group is not exact
#include <skerry/skerry.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

skerry_job* job = nullptr;

[[noreturn]] void wrong(const char* what, long a = 0, long b = 0) {
  std::printf("wrong: rank %d: %s (%ld, %ld): %s\n", skerry_rank(job), what, a, b,
              skerry_last_error());
  std::fflush(stdout);
  _exit(3);
}

struct State {
  int64_t step = 0, sum = 0;
};

int deaths() {
  int dead = 0;
  if (skerry_failed(job, nullptr, 0, &dead) != SKERRY_OK) wrong("failed");
  return dead;
}

// Everything over a new group. False: somebody died meanwhile.
class Work {
 public:
  explicit Work(skerry_group* group) : group_(group), size_(skerry_group_size(group)) {}
  // The state of the member that is furthest; all others take it.
  bool begin(State* state) {
    int64_t words[2] = {state->step, state->sum};
    if (!all(skerry_allreduce(group_, SKERRY_INT64, SKERRY_MAX, words, 2))) return false;
    *state = {words[0], words[1]};
    return all(skerry_segment_alloc(group_, 4096, &segment_));
  }
  bool step(State* state) {
    const int64_t one = 1;
    for (int i = 0; i < size_; ++i)
      if (!mine(skerry_acc(segment_, skerry_group_rank(group_, i), 0, SKERRY_INT64, &one, &one,
                           1)))
        return false;
    if (!mine(skerry_fence_all(job))) return false;
    int64_t words[2] = {state->step + 1, skerry_rank(job) + 1};
    if (!all(skerry_allreduce(group_, SKERRY_INT64, SKERRY_SUM, words, 2))) return false;
    if (words[0] != (state->step + 1) * size_) wrong("steps differ", words[0], state->step);
    ++state->step;
    ++steps_;
    state->sum += words[1];
    const auto* const counter = static_cast<int64_t*>(skerry_segment_local(segment_));
    const int64_t counted = __atomic_load_n(counter, __ATOMIC_ACQUIRE);
    // Others may be in the next step already.
    if (counted < steps_ * size_ || counted > (steps_ + 1) * size_)
      wrong("counter", counted, steps_ * size_);
    return true;
  }

 private:
  static bool all(int status) {
    if (status != SKERRY_OK && status != SKERRY_ERR_PEER_DEAD) wrong("a collective", status);
    return status == SKERRY_OK;
  }
  // A member that has met an error tells the others by refilling, which they come to as well.
  static bool mine(int status) { return all(status); }

  skerry_group* group_;
  const int size_;
  skerry_segment* segment_ = nullptr;
  int64_t steps_ = 0;
};

}  // namespace

int main(int count, char** words) {
  const int spares = count > 1 ? std::atoi(words[1]) : 0;
  const int most = count > 2 ? std::atoi(words[2]) : spares;
  skerry_options options = SKERRY_OPTIONS_INIT;
  options.on_failure = SKERRY_FAILURE_CONTINUES;
  if (skerry_init(&options, &job) != SKERRY_OK)
    return std::printf("wrong: %s\n", skerry_last_error());
  skerry_group* group = skerry_world(job);
  const int size = skerry_size(job);
  if (!skerry_is_spare(job) && skerry_group_size(group) != size) wrong("the world's size");
  if (skerry_is_spare(job) && skerry_rank(job) < size) wrong("a spare's rank");
  std::mt19937 random(static_cast<unsigned>(getpid()));
  State state;
  bool refills = skerry_is_spare(job) != 0;
  for (bool done = false; !done;) {
    if (refills && skerry_group_refill(group, -1, &group) != SKERRY_OK) wrong("refill");
    refills = true;
    Work work(group);
    if (!work.begin(&state)) continue;
    const int expected = size - std::max(0, deaths() - spares);
    if (deaths() <= spares && skerry_group_size(group) != size && deaths() == 0)
      wrong("the group's size", skerry_group_size(group), expected);
    for (int calm = 0; !done;) {
      const int before = deaths();
      if (before < most && random() % 150 == 0) (void)kill(getpid(), SIGKILL);
      if (!work.step(&state)) break;
      calm = deaths() >= most ? calm + 1 : 0;
      int32_t over = calm >= 20 ? 1 : 0;
      if (skerry_allreduce(group, SKERRY_INT32, SKERRY_MIN, &over, 1) != SKERRY_OK) break;
      done = over != 0;
    }
  }
  std::printf("rank %d ends in a group of %d after %ld steps without %d\n", skerry_rank(job),
              skerry_group_size(group), static_cast<long>(state.step), deaths());
  return skerry_finalize(job) == SKERRY_OK ? 0 : 1;
}
