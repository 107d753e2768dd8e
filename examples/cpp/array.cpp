// A matrix spread over all ranks; any rank reads and writes any patch.
//   skerry run -n 4 --nodes 2 build/bin/examples/array
#include <cstdio>
#include <vector>

#include "skerry/array.hpp"

int main() {
  sk::Job job;
  sk::Array<double> a(job.world(), {1000, 800});

  // The own block is plain memory.
  const sk::Block<double> own = a.local();
  for (std::int64_t i = 0; i < own.patch.extent(0); ++i)
    for (std::int64_t j = 0; j < own.patch.extent(1); ++j) own.data[i * own.ld + j] = job.rank();
  a.sync();

  // Rank 0 reads ten rows, wherever they are.
  if (job.rank() == 0) {
    std::vector<double> rows(10 * 800);
    a.get({495, 505, 0, 800}, rows.data());
    std::printf("around the middle: %g %g\n", rows[0], rows.back());
    for (const auto& holder : a.locate(sk::Patch(495, 505, 0, 800)))
      std::printf("rank %d holds %s\n", holder.rank, sk::to_string(holder.patch).c_str());
  }

  // All ranks add to the same patch; each addition happens exactly once.
  const std::vector<double> ones(100, 1.0);
  a.sync();
  a.acc({0, 10, 0, 10}, ones.data(), 0.5);
  a.sync();
  double corner = 0;
  a.get({0, 1, 0, 1}, &corner);
  if (job.rank() == 0) std::printf("corner: %g, 0.5 from each of %d ranks\n", corner, job.size());
  a.sync();
}
