// Tasks of unknown length, handed out by a shared counter.
//   skerry run -n 4 build/bin/examples/work_queue
#include <cmath>
#include <cstdio>

#include "skerry/skerry.hpp"

int main() {
  sk::Job job;
  sk::Counter tasks(job.world());
  int done = 0;
  double sum = 0;
  for (std::int64_t task; (task = tasks.next()) < 100; ++done)
    for (std::int64_t i = 1; i <= task * 1000; ++i) sum += std::sqrt(static_cast<double>(i));
  std::printf("rank %d did %d tasks\n", job.rank(), done);
  sum = job.world().allreduce(sum);
  if (job.rank() == 0) std::printf("sum %.6e\n", sum);
}
