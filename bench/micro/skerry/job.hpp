// The job side of the benchmark programs: joining, placement, one segment, and errors that end the
// job.
#pragma once
#include <dirent.h>
#include <skerry/skerry.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../common.hpp"

namespace bench {

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

class Job {
 public:
  explicit Job(uint64_t segment_bytes) {
    const char* rank_text = std::getenv("SKERRY_RANK");
    if (rank_text) pin(core_of_rank(std::atoi(rank_text)));
    const int status = skerry_init(nullptr, &job_);
    if (status != SKERRY_OK) {
      std::fprintf(stderr, "skerry_init: %s: %s\n", skerry_status_name(status),
                   skerry_last_error());
      std::exit(2);
    }
    pin_all_threads(core_of_rank(rank()));
    check(skerry_segment_alloc(world(), segment_bytes, &segment_), "skerry_segment_alloc");
    sync();
  }
  ~Job() {
    sync();
    check(skerry_segment_free(segment_), "skerry_segment_free");
    check(skerry_finalize(job_), "skerry_finalize");
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void check(int status, const char* what) const {
    if (status == SKERRY_OK) [[likely]]
      return;
    std::fprintf(stderr, "rank %d: %s: %s: %s\n", rank(), what, skerry_status_name(status),
                 skerry_last_error());
    skerry_abort(job_, 2, what);
  }
  void sync() const { check(skerry_sync(world()), "skerry_sync"); }
  void barrier() const { check(skerry_barrier(world()), "skerry_barrier"); }
  int rank() const { return skerry_rank(job_); }
  int size() const { return skerry_size(job_); }
  skerry_group* world() const { return skerry_world(job_); }
  skerry_job* handle() const { return job_; }
  skerry_segment* segment() const { return segment_; }

 private:
  skerry_job* job_ = nullptr;
  skerry_segment* segment_ = nullptr;
};

}  // namespace bench
