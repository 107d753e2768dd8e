// Shared by the sections of the operation tests. They use the public interface only, so that the
// same code runs as processes under `skerry run` (ops/main.cpp) and as threads of one process under
// ThreadSanitizer (threads/main.cpp). No globals: several ranks may be running in one process.
#pragma once

#include <skerry/skerry.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace skerry::test {

struct Context {
  skerry_job* job = nullptr;
  int rank = 0;
  int size = 1;
  int nodes = 1;
  uint64_t seed = 1;
  int rounds = 0;           // 0: the section's own choice
  int threads = 1;          // user threads per rank; more than one only at thread level multiple
  bool fair_locks = true;   // windows' locks are the default ones
  bool as_threads = false;  // ranks are threads of one process
  bool thorough = false;    // also what takes long or much memory
  // As skerry_put, to a segment that is freed at the target alone; null: the library hides what
  // this takes. (Through the interface only a race of two threads of one program comes to it.)
  int (*put_freed)(skerry_job* job, int target, const void* origin, uint64_t bytes) = nullptr;

  skerry_group* world() const { return skerry_world(job); }
  int node_of(int r) const { return skerry_node_of(job, r); }
};

struct Section {
  const char* name;
  void (*run)(Context&);
  bool by_default;  // part of "all"
};
// In order; ends with a null name.
extern const Section sections[];

void run_random_collectives(Context&);
void run_stream(Context&);
void run_transfer(Context&);
void run_words(Context&);
void run_notify(Context&);
void run_update(Context&);
void run_groups(Context&);
void run_collectives(Context&);
void run_many_ranks(Context&);
void run_mutexes(Context&);
void run_windows(Context&);
void run_window_threads(Context&);
void run_window_litmus(Context&);
void run_window_checks(Context&);
void run_segments(Context&);
void run_makers(Context&);
void run_counters(Context&);
void run_errors(Context&);
void run_litmus(Context&);
void run_huge(Context&);
void run_queued(Context&);
void run_crowd(Context&);
void run_long_gets(Context&);

// This process's counters so far, by name.
class Counted {
 public:
  explicit Counted(const skerry_job* job) : values_(size_t(skerry_counter_count())) {
    status_ = skerry_counter_values(job, static_cast<int>(values_.size()), values_.data());
  }
  int status() const { return status_; }
  uint64_t operator[](const char* name) const {
    const int index = skerry_counter_find(name);
    if (index < 0 || status_ != SKERRY_OK) {
      std::fprintf(stderr, "no counter %s: %s\n", name, skerry_last_error());
      std::abort();
    }
    return values_[static_cast<size_t>(index)];
  }

 private:
  std::vector<uint64_t> values_;
  int status_ = SKERRY_OK;
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

#define OK(call)                                                                                 \
  do {                                                                                           \
    const int status_ = (call);                                                                  \
    if (status_ != SKERRY_OK)                                                                    \
      ::skerry::test::fail(                                                                      \
          __FILE__, __LINE__,                                                                    \
          std::string(#call) + ": " + skerry_status_name(status_) + ": " + skerry_last_error()); \
  } while (0)

#define EXPECT(condition)                                                             \
  do {                                                                                \
    if (!(condition))                                                                 \
      ::skerry::test::fail(__FILE__, __LINE__, std::string("not so: ") + #condition); \
  } while (0)

// The same with values.
#define EXPECT_IS(left, right)                                                              \
  do {                                                                                      \
    const auto left_ = (left);                                                              \
    const auto right_ = (right);                                                            \
    if (!(left_ == right_))                                                                 \
      ::skerry::test::fail(__FILE__, __LINE__,                                              \
                           std::string(#left) + " is " + std::to_string(left_) + ", not " + \
                               std::to_string(right_));                                     \
  } while (0)

// The call must fail with this status and a message that contains `fragment`.
#define EXPECT_ERROR(call, wanted, fragment)                                           \
  do {                                                                                 \
    const int status_ = (call);                                                        \
    if (status_ != (wanted))                                                           \
      ::skerry::test::fail(__FILE__, __LINE__,                                         \
                           std::string(#call) + ": " + skerry_status_name(status_) +   \
                               " instead of " + skerry_status_name(wanted));           \
    if (std::strstr(skerry_last_error(), fragment) == nullptr)                         \
      ::skerry::test::fail(__FILE__, __LINE__,                                         \
                           std::string(#call) + ": message \"" + skerry_last_error() + \
                               "\" lacks \"" + fragment + "\"");                       \
  } while (0)

using Random = std::mt19937_64;

// A uniform number below `limit` (at least 1).
inline uint64_t below(Random& random, uint64_t limit) { return random() % limit; }
inline bool chance(Random& random, unsigned percent) { return below(random, 100) < percent; }

constexpr int64_t
    patience_ns = 60'000'000'000;  // for waits that must succeed: long enough for a loaded machine

}  // namespace skerry::test
