// One merge of a mirrored array that is full on every node, or an allreduce of as many bytes: the
// slowest rank's time, the median of several.
//   skerry run --hosts ... merge_row BYTES TURNS [allreduce]
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <skerry/array.hpp>
#include <span>
#include <vector>

#include "../micro/common.hpp"

int main(int argc, char** argv) {
  const bool plain = argc == 4 && std::strcmp(argv[3], "allreduce") == 0;
  if (argc != 3 && !plain)
    return std::fprintf(stderr, "usage: merge_row BYTES TURNS [allreduce]\n"), 2;
  const std::int64_t elements = std::atoll(argv[1]) / 8;
  sk::Job job;
  sk::ArrayOptions options;
  options.placement = sk::Placement::mirrored;
  const sk::Array<double> array(job.world(), {elements}, options);
  std::vector<double> seconds, sums(plain ? static_cast<std::size_t>(elements) : 0);
  for (int turn = 0; turn <= std::atoi(argv[2]); ++turn) {
    array.fill(1);
    std::fill(sums.begin(), sums.end(), 1);
    job.world().sync();
    const uint64_t start = bench::now_ns();
    if (plain) job.world().allreduce(std::span<double>(sums), sk::Reduction::sum);
    else array.merge();
    const double mine = static_cast<double>(bench::now_ns() - start) * 1e-9;
    const double slowest = job.world().allreduce(mine, sk::Reduction::max);
    if (turn > 0) seconds.push_back(slowest);  // the first one opens connections
  }
  double last;
  if (plain) last = sums.back();
  else array.get({elements - 1, elements}, &last);
  if (static_cast<int>(last) != job.nodes())
    return std::fprintf(stderr, "the sum is %g\n", last), 1;
  std::sort(seconds.begin(), seconds.end());
  const char* const name = plain ? "allreduce" : "merge";
  if (job.rank() == 0) bench::report(name, seconds[seconds.size() / 2], "s");
}
