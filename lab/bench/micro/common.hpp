// Shared by all benchmark programs: a clock, placement, medians and one line of output per figure.
// Header only and without Skerry, so that the limits stay independent of what they judge.
#pragma once
#include <dirent.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace bench {

inline uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

// Binds the calling thread (and threads it makes later) to one core. A negative core: leave it
// where it is.
inline void pin(int core) {
  if (core < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    std::perror("sched_setaffinity: no such core, or it is outside this process's cpuset");
    std::exit(2);
  }
}

// Which core this rank belongs on: BENCH_CPUS is a list such as "0,1", used in turn by rank; empty:
// anywhere.
inline int core_of_rank(int rank) {
  const char* text = std::getenv("BENCH_CPUS");
  if (text == nullptr || *text == 0) return -1;
  std::vector<int> cores;
  for (const char* at = text; *at;) {
    char* end = nullptr;
    cores.push_back(static_cast<int>(std::strtol(at, &end, 10)));
    if (end == at) {
      std::fprintf(stderr, "BENCH_CPUS must be numbers separated by commas, not \"%s\"\n", text);
      std::exit(2);
    }
    at = *end == ',' ? end + 1 : end;
  }
  return cores[static_cast<size_t>(rank) % cores.size()];
}

// Binds every thread of this process. The library may have freed its own threads from the binding
// of the thread that started them, but both ends of a limit stay on given cores.
inline void pin_all_threads(int core) {
  if (core < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return;
  while (const dirent* task = readdir(tasks)) {
    const int id = std::atoi(task->d_name);
    if (id > 0) sched_setaffinity(id, sizeof set, &set);
  }
  closedir(tasks);
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  return values[middle];
}

// One line for the harness: row name, value, unit.
inline void report(const char* row, double value, const char* unit) {
  std::printf("{\"row\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", row, value, unit);
  std::fflush(stdout);
}

// A switch for the harness's --quick: shortens every measurement.
inline double time_scale() {
  static const double scale = [] {
    const char* text = std::getenv("BENCH_TIME_SCALE");
    return text ? std::atof(text) : 1.0;
  }();
  return scale;
}

// Runs `body(n)` (n operations) until a batch takes about `batch_ms`, then `batches` times; the
// median time of one operation in ns.
template <typename Body>
double time_each_ns(Body&& body, double batch_ms = 8, int batches = 9) {
  batch_ms *= time_scale();
  uint64_t n = 1;
  const auto took_ns = [&] {
    const uint64_t start = now_ns();
    body(n);
    return static_cast<double>(now_ns() - start);
  };
  for (;;) {
    // Twice: one pause of the machine would end the search with too few.
    double took_ms = took_ns() / 1e6;
    if (took_ms >= batch_ms / 2) took_ms = std::min(took_ms, took_ns() / 1e6);
    if (took_ms >= batch_ms / 2) break;
    n = took_ms < batch_ms / 64 ? n * 16 : n * 2;
  }
  std::vector<double> each;
  for (int i = 0; i < batches; ++i) each.push_back(took_ns() / static_cast<double>(n));
  return median(each);
}

// The same for single operations that are long enough for the clock: median over all samples of
// about `total_ms`.
template <typename Body>
double median_of_singles_ns(Body&& body, double total_ms = 60) {
  total_ms *= time_scale();
  for (int i = 0; i < 20; ++i) body();
  std::vector<double> each;
  const uint64_t start = now_ns();
  uint64_t before = start;
  do {
    body();
    const uint64_t after = now_ns();
    each.push_back(static_cast<double>(after - before));
    before = after;
  } while (static_cast<double>(before - start) < total_ms * 1e6 || each.size() < 5);
  return median(each);
}

// The median time of one of `rounds` (>= 1) operations, in us.
template <typename Body>
double median_of_rounds_us(int64_t rounds, Body&& body) {
  std::vector<double> each_us;
  for (int64_t i = 0; i < rounds; ++i) {
    const uint64_t before = now_ns();
    body();
    each_us.push_back(static_cast<double>(now_ns() - before) / 1e3);
  }
  return median(std::move(each_us));
}

template <typename T>
inline void keep(T const& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// `name value` pairs of a command line, e.g. --port 7; what is not given is the default.
class Arguments {
 public:
  Arguments(int count, char** values) : values_(values, values + count) {}
  std::string text(const char* name, const char* otherwise) const {
    for (size_t i = 1; i + 1 < values_.size(); ++i)
      if (values_[i] == name) return values_[i + 1];
    return otherwise;
  }
  long number(const char* name, long otherwise) const {
    return std::atol(text(name, std::to_string(otherwise).c_str()).c_str());
  }
  bool has(const char* name) const {
    return std::find(values_.begin(), values_.end(), name) != values_.end();
  }

 private:
  std::vector<std::string> values_;
};

}  // namespace bench
