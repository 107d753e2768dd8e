// Data and its notification in one operation: the receiver sleeps until both are there.
//   skerry run -n 4 --nodes 2 build/bin/examples/notify
#include <cstdio>
#include <vector>

#include "skerry/skerry.hpp"

int main() {
  sk::Job job;
  // A token and 1000 numbers, then the counter.
  constexpr std::uint64_t counter_offset = 1000 * sizeof(double);
  sk::Segment box(job.world(), counter_offset + sizeof(std::uint64_t));
  const int right = (job.rank() + 1) % job.size();
  std::vector<double> message(1000, 0.0);
  if (job.rank() != 0) {
    box.notify_wait(counter_offset, 1);
    box.get(job.rank(), 0, std::span<double>(message));
  }
  for (double& x : message) x += 1;
  box.put_notify(right, 0, std::span<const double>(message), counter_offset);
  if (job.rank() == 0) {
    box.notify_wait(counter_offset, 1);
    std::printf("the message went through %g hands\n", box.get<double>(0, 0));
  }
  job.world().sync();
}
