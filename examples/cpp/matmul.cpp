// c = a b^T, each rank computing its own block of c from panels that it fetches while BLAS works.
//   skerry run -n 4 --nodes 2 build/bin/examples/matmul
#include <cstdio>

#include "skerry/array.hpp"

int main() {
  sk::Job job;
  sk::Array<double> a(job.world(), {600, 500}), b(job.world(), {400, 500}),
      c(job.world(), {600, 400});
  a.fill(2);
  b.fill(3);
  sk::matmul(a, b, c, 1.0, 0.0, false, true);
  double corner = 0;
  c.get({599, 600, 399, 400}, &corner);
  if (job.rank() == 0) std::printf("%g, expected %d\n", corner, 2 * 3 * 500);
  c.sync();
}
