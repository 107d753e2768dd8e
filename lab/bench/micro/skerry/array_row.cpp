// A 10 x 10 patch of doubles, inside one block of another rank of the same node, read through the
// C++ arrays.
//   skerry run -n 2 array_row
#include <skerry/array.hpp>

#include "../common.hpp"

int main() {
  sk::Job job;
  const sk::Array<double> array(job.world(), {1000, 1000});
  const int holder = job.size() - 1;
  const sk::Patch block = array.distribution(holder);
  if (job.rank() == 0) {
    const sk::Patch patch(block.lo[0] + 3, block.lo[0] + 13, block.lo[1] + 5, block.lo[1] + 15);
    double out[100];
    bench::report("array_get_10x10", bench::time_each_ns([&](uint64_t n) {
                    for (uint64_t i = 0; i < n; ++i) {
                      array.get(patch, out);
                      bench::keep(out[0]);
                    }
                  }),
                  "ns");
  }
  array.sync();
}
