// A mutex that any rank may hold: what its holder wrote, the next holder sees.
//   skerry run -n 4 --nodes 2 build/bin/examples/mutex
#include <cstdio>

#include "skerry/skerry.hpp"

int main() {
  sk::Job job;
  sk::Segment account(job.world(), sizeof(double));
  sk::Mutexes mutexes(job.world(), 1);
  for (int i = 0; i < 10; ++i) {
    mutexes.lock(0);
    const double balance = account.get<double>(0, 0);
    account.put(0, 0, balance + 1);
    mutexes.unlock(0);
  }
  job.world().sync();
  if (job.rank() == 0)
    std::printf("balance %g, expected %d\n", *account.local<double>(), 10 * job.size());
  job.world().sync();
}
