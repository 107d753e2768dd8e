// Memory that any rank reads and writes, without the owner's help.
//   skerry run -n 4 --nodes 2 build/bin/examples/put_get
#include <cstdio>

#include "skerry/skerry.hpp"

int main() {
  sk::Job job;
  const int right = (job.rank() + 1) % job.size();

  // Collective: every rank owns 1 KiB of it, zeroed.
  sk::Segment memory(job.world(), 1024);

  // Into the right neighbour's memory; it takes no part.
  const double values[] = {1.0 * job.rank(), 2.0 * job.rank()};
  memory.put(right, 64, std::span<const double>(values));

  // After a sync all have been written, and everyone may look at his own.
  job.world().sync();
  const double* mine = memory.local<double>() + 8;
  std::printf("rank %d on node %d got %g and %g\n", job.rank(), job.node(), mine[0], mine[1]);

  // Adding is atomic per element, so all may add to the same place.
  memory.acc(0, 0, std::span<const double>(values, 1));
  job.world().sync();
  if (job.rank() == 0) std::printf("sum of all ranks: %g\n", *memory.local<double>());

  // Several transfers under way at once; each handle waits for its own.
  double first = 0, second = 0;
  sk::Handle one = memory.get_nb(right, 64, std::span<double>(&first, 1));
  sk::Handle two = memory.get_nb(right, 72, std::span<double>(&second, 1));
  two.wait();
  one.wait();
  job.world().sync();
}
