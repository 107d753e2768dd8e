// The job side of the benchmark programs: joining, placement, one segment, and errors that end the
// job.
#pragma once
#include <skerry/skerry.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "../common.hpp"

namespace bench {

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
