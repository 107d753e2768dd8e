// What comes after a loop of protected memory, in a job in which rank 2 dies.
//
// protected_again again: a loop that ended before it took a step begins anew with other contents,
// and goes back to these. Then a second one, over the group that lives: a former spare is a member
// of it like any other.
// protected_again refused: fewer live, and all but one cannot take their shares. All hear of it.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <skerry/skerry.h>
#include <string_view>

namespace {

constexpr std::uint64_t steps = 6, every = 2, victim_step = 1;
constexpr int victim = 2, nobody = -1;

int rank = 0;

void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("wrong: rank %d: %s (%s)\n", rank, what, skerry_last_error());
  std::fflush(stdout);
  std::abort();
}

// Each step adds one to the value, which began at `first`. The status that ends the loop.
int loop(skerry_protected* kept, std::uint64_t* value, std::uint64_t first, int dies) {
  int status = SKERRY_OK;
  for (;;) {
    skerry_group* group = nullptr;
    std::uint64_t step = 0;
    status = skerry_protected_next(kept, steps, every, status, &step, &group);
    if (status != SKERRY_OK) return status;
    check(*value == first + step, "the value is not that of the step");
    if (step == steps) return SKERRY_OK;
    if (step == victim_step && rank == dies) (void)kill(getpid(), SIGKILL);
    std::int64_t one = 1;
    status = skerry_allreduce(group, SKERRY_INT64, SKERRY_SUM, &one, 1);
    if (status == SKERRY_OK) ++*value;
  }
}

int refuses(void*, skerry_protected* kept) {
  const bool takes = skerry_group_index(skerry_protected_group(kept), rank) == 0;
  return takes ? SKERRY_OK : SKERRY_ERR_NO_MEMORY;
}

void again(skerry_job* job, skerry_protected* kept) {
  constexpr std::uint64_t first = 100;
  std::uint64_t value = 0, step = 0;
  skerry_group* group = nullptr;
  check(skerry_protected_add(kept, &value, sizeof value) == SKERRY_OK, "add");
  if (skerry_is_spare(job) == 0) {
    check(skerry_protected_next(kept, steps, every, SKERRY_OK, &step, &group) == SKERRY_OK, "next");
    const int ended = SKERRY_ERR_RANGE;
    check(skerry_protected_next(kept, steps, every, ended, &step, &group) == ended, "its end");
    value = first;
  }
  const int status = loop(kept, &value, first, victim);
  if (status != SKERRY_OK && skerry_is_spare(job) != 0) return;  // it was not needed
  check(status == SKERRY_OK, "the first loop");
  check(value == first + steps, "what the first loop made");
  skerry_protected* other = nullptr;
  skerry_group* const living = skerry_protected_group(kept);
  check(skerry_protected_create(living, 0, &other) == SKERRY_OK, "a second one");
  std::uint64_t more = 0;
  check(skerry_protected_add(other, &more, sizeof more) == SKERRY_OK, "add to the second one");
  check(loop(other, &more, 0, nobody) == SKERRY_OK && more == steps, "the second loop");
  check(skerry_protected_free(other) == SKERRY_OK, "free");
  check(skerry_protected_group(other) == nullptr && skerry_protected_step(other) == -1, "freed");
}

void refused(skerry_protected* kept) {
  std::uint64_t value = 0;
  check(skerry_protected_add(kept, &value, sizeof value) == SKERRY_OK, "add");
  check(skerry_protected_divide(kept, refuses, nullptr) == SKERRY_OK, "divide");
  check(loop(kept, &value, 0, victim) == SKERRY_ERR_NO_MEMORY, "a share was refused");
}

}  // namespace

int main(int count, char** words) {
  skerry_options options = SKERRY_OPTIONS_INIT;
  options.on_failure = SKERRY_FAILURE_CONTINUES;
  skerry_job* job = nullptr;
  skerry_protected* kept = nullptr;
  check(skerry_init(&options, &job) == SKERRY_OK, "init");
  rank = skerry_rank(job);
  check(skerry_protected_create(skerry_world(job), 0, &kept) == SKERRY_OK, "create");
  if (count > 1 && std::string_view(words[1]) == "again") again(job, kept);
  else refused(kept);
  std::printf("rank %d: right\n", rank);
  return skerry_finalize(job);
}
