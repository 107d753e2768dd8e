// A mirrored array: one copy per node, spread over the ranks there. Reading and adding never leave
// the node; merge sums the copies.
//   skerry run -n 4 --nodes 2 build/bin/examples/mirrored
#include <cstdio>
#include <vector>

#include "skerry/array.hpp"

int main() {
  sk::Job job;
  sk::Array<double> data(job.world(), {512, 512});
  data.fill(1);

  sk::ArrayOptions mirrored;
  mirrored.placement = sk::Placement::mirrored;
  sk::Array<double> near(job.world(), {512, 512}, mirrored);
  sk::Array<double> result(job.world(), {512, 512}, mirrored);

  data.copy_to(near);  // every node fetches what it lacks, once

  // Work as often as you like on the near copy: no bytes cross.
  const auto before = job.counters();
  std::vector<double> block(64 * 64);
  for (std::int64_t i = job.rank() * 64; i < 512; i += 64 * job.size()) {
    near.get({i, i + 64, 0, 64}, block.data());
    for (double& x : block) x *= 2;
    result.acc({i, i + 64, 0, 64}, block.data());
  }
  const auto after = job.counters();

  result.merge();  // sums the copies; moves only what is not zero
  const sk::Counters counted = sk::array_counters(job.world());
  double first = 0;
  result.get({0, 1, 0, 1}, &first);
  std::printf(
      "rank %d: result %g; %llu operations left the node while working; merge fetched %llu bytes "
      "and skipped %llu\n",
      job.rank(), first,
      static_cast<unsigned long long>(after["remote_operations"] - before["remote_operations"]),
      static_cast<unsigned long long>(counted["merge_bytes_moved"]),
      static_cast<unsigned long long>(counted["merge_bytes_skipped"]));

  result.copy_to(data);  // back to the distributed array: local copies only
}
