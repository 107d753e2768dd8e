// One merge of a mirrored array that is full on every node: the slowest rank's time, the median of
// several.
//   skerry run --hosts ... merge_row BYTES TURNS
#include <algorithm>
#include <cstdlib>
#include <skerry/array.hpp>
#include <vector>

#include "../micro/common.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: merge_row BYTES TURNS\n"), 2;
  const std::int64_t elements = std::atoll(argv[1]) / 8;
  sk::Job job;
  sk::ArrayOptions options;
  options.placement = sk::Placement::mirrored;
  const sk::Array<double> array(job.world(), {elements}, options);
  std::vector<double> seconds;
  for (int turn = 0; turn <= std::atoi(argv[2]); ++turn) {
    array.fill(1);
    job.world().sync();
    const uint64_t start = bench::now_ns();
    array.merge();
    const double mine = static_cast<double>(bench::now_ns() - start) * 1e-9;
    const double slowest = job.world().allreduce(mine, sk::Reduction::max);
    if (turn > 0) seconds.push_back(slowest);  // the first one opens connections
  }
  double last;
  array.get({elements - 1, elements}, &last);
  if (static_cast<int>(last) != job.nodes())
    return std::fprintf(stderr, "the sum is %g\n", last), 1;
  std::sort(seconds.begin(), seconds.end());
  if (job.rank() == 0) bench::report("merge", seconds[seconds.size() / 2], "s");
}
