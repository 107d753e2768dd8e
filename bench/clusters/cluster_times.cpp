// Latency and bandwidth of put and get from rank 0 to each other rank, one after the other:
//   skerry run -n 4 --nodes 4 cluster_times [--rounds N]
// The sizes are those of the clustering paper's figures 6 and 7. Rank 0 prints a line of JSON for
// each partner and size. Times are medians; a put's ends with its fence.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../micro/common.hpp"
#include "skerry/skerry.hpp"

namespace {

constexpr uint64_t longest_bytes = 4 << 20;

}  // namespace

int main(int argc, char** argv) {
  int64_t rounds = 500;
  if (argc == 3 && std::strcmp(argv[1], "--rounds") == 0) rounds = std::atoll(argv[2]);
  else if (argc != 1) return std::fprintf(stderr, "cluster_times: give --rounds N or nothing\n"), 2;
  sk::Job job;
  sk::Segment data(job.world(), longest_bytes);
  std::vector<std::byte> block(longest_bytes, std::byte{1});
  job.world().sync();
  for (int partner = 1; partner < job.size(); ++partner) {
    for (uint64_t bytes = 8; job.rank() == 0 && bytes <= longest_bytes; bytes *= 8) {
      const auto part = std::span<std::byte>(block).first(bytes);
      const int64_t times = bytes > 64 * 1024 ? rounds / 10 + 1 : rounds;
      const auto put = [&] {
        data.put(partner, 0, std::span<const std::byte>(part));
        job.fence(partner);
      };
      const auto get = [&] { data.get(partner, 0, part); };
      put(), get();
      const double put_us = bench::median_of_rounds_us(times, put),
                   get_us = bench::median_of_rounds_us(times, get);
      std::printf("{\"partner\": %d, \"bytes\": %llu, \"put_us\": %.3f, \"get_us\": %.3f}\n",
                  partner, static_cast<unsigned long long>(bytes), put_us, get_us);
    }
    job.world().sync();
  }
  return 0;
}
