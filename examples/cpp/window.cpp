// A window: memory that others access between lock and unlock, or between two fences.
//   skerry run -n 4 --nodes 2 build/bin/examples/window
#include <cstdio>

#include "skerry/window.hpp"

int main() {
  sk::Job job;
  const int right = (job.rank() + 1) % job.size();
  const sk::Window window = sk::Window::allocate<double>(job.world(), 2);
  {
    const sk::Lock locked = window.lock(0, sk::LockMode::exclusive);  // rank 0 takes no part
    const double sum = window.get<double>(0, 0) + job.rank();
    window.put(0, 0, sum);
  }  // unlocked: the next holder sees the sum
  window.fence();
  const double value = 100.0 + job.rank();
  window.put(right, 1, value);
  window.fence(sk::Promise::no_succeed);  // everybody's puts are visible
  const double expected = job.size() * (job.size() - 1) / 2.0;
  const double* mine = window.local<double>();
  std::printf("rank %d got %g\n", job.rank(), mine[1]);
  if (job.rank() == 0) std::printf("sum %g, expected %g\n", mine[0], expected);
  const bool is_right = mine[1] == 100.0 + (job.rank() + job.size() - 1) % job.size() &&
                        (job.rank() != 0 || mine[0] == expected);
  return is_right ? 0 : 1;
}
