// Latency and bandwidth of put and get to each rank of other nodes, one after the other:
//   skerry run -n 4 --nodes 4 cluster_times [--rounds N] [--senders N]
// Rank 0 prints a line of JSON for each partner and size. Ranks 0 .. senders - 1 (default: 1), all
// of rank 0's node, are at it at the same time, each with its own part of the partner's memory.
//
// Times are medians, and a put's ends with its fence. Bandwidth: several puts at a time and one
// fence, several gets at a time and one wait.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../micro/common.hpp"
#include "skerry/skerry.hpp"

namespace {

constexpr uint64_t sizes[] = {8,        64,       512,       4 << 10, 16 << 10,
                              32 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
constexpr uint64_t longest_bytes = 4 << 20;
constexpr uint64_t window_bytes = 4 * longest_bytes;  // under way at a time, at most
constexpr int most_at_a_time = 64;

struct Times {
  double put_us, get_us;    // one at a time
  double puts_us, gets_us;  // at_a_time together
  int at_a_time;
};

class Sender {
 public:
  explicit Sender(const sk::Job& job, int senders)
      : job_(job),
        senders_(senders),
        memory_(job.world(), static_cast<uint64_t>(senders) * longest_bytes),
        block_(window_bytes, std::byte{1}) {}

  Times measure(int partner, uint64_t bytes, int64_t rounds) {
    const uint64_t offset = static_cast<uint64_t>(job_.rank()) * longest_bytes;
    const int many = static_cast<int>(
        std::min<uint64_t>(most_at_a_time, std::max<uint64_t>(window_bytes / bytes, 4)));
    const int64_t times = bytes > 64 * 1024 ? rounds / 10 + 1 : rounds;
    const int64_t volleys = std::max<int64_t>(times / 10, 5);
    const auto part = [&](int i) {
      return std::span<std::byte>(block_).subspan(static_cast<uint64_t>(i) * bytes, bytes);
    };
    const auto put = [&] {
      memory_.put(partner, offset, std::span<const std::byte>(part(0)));
      job_.fence(partner);
    };
    const auto get = [&] { memory_.get(partner, offset, part(0)); };
    const auto puts = [&] {
      std::vector<sk::Handle> under_way;
      for (int i = 0; i < many; ++i)
        under_way.push_back(memory_.put_nb(partner, offset, std::span<const std::byte>(part(i))));
      job_.fence(partner);
    };
    const auto gets = [&] {
      std::vector<sk::Handle> under_way;
      for (int i = 0; i < many; ++i) under_way.push_back(memory_.get_nb(partner, offset, part(i)));
      for (sk::Handle& each : under_way) each.wait();
    };
    put(), get();
    return {bench::median_of_rounds_us(times, put), bench::median_of_rounds_us(times, get),
            bench::median_of_rounds_us(volleys, puts), bench::median_of_rounds_us(volleys, gets),
            many};
  }
  bool takes_part() const { return job_.rank() < senders_; }

 private:
  const sk::Job& job_;
  const int senders_;
  sk::Segment memory_;
  std::vector<std::byte> block_;
};

}  // namespace

int main(int argc, char** argv) {
  int64_t rounds = 500;
  int senders = 1;
  for (int i = 1; i < argc; i += 2) {
    const bool has_value = i + 1 < argc;
    if (has_value && std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoll(argv[i + 1]);
    else if (has_value && std::strcmp(argv[i], "--senders") == 0) senders = std::atoi(argv[i + 1]);
    else rounds = 0;
  }
  if (rounds < 1 || senders < 1)
    return std::fprintf(stderr, "cluster_times: --rounds N and --senders N, from 1 on\n"), 2;
  sk::Job job;
  Sender sender(job, senders);
  job.world().sync();
  for (int partner = 0; partner < job.size(); ++partner) {
    if (job.node_of(partner) == job.node_of(0)) continue;
    for (const uint64_t bytes : sizes) {
      if (sender.takes_part()) {
        const Times t = sender.measure(partner, bytes, rounds);
        if (job.rank() == 0)
          std::printf(
              "{\"partner\": %d, \"bytes\": %llu, \"put_us\": %.3f, \"get_us\": %.3f, "
              "\"puts_us\": %.3f, \"gets_us\": %.3f}\n",
              partner, static_cast<unsigned long long>(bytes), t.put_us, t.get_us,
              t.puts_us / t.at_a_time, t.gets_us / t.at_a_time);
      }
      job.world().sync();
    }
  }
  return 0;
}
