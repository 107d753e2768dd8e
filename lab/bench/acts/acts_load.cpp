// A load whose partners keep changing, for measuring what connections cost (acts.py).
//
//   skerry run -n P --nodes P acts_load --kind pool|steal|drift
//     [--tasks N] [--compute-us N] [--bytes N]
//
//   pool   Tasks come from one shared counter. Each reads four blocks of ranks drawn at random and
//          adds to two.
//   steal  Each rank has its own tasks. A rank without tasks steals, four times of five from a near
//          rank.
//   drift  Each rank talks to eight ranks at a time, and to another eight every so often.
//
// What a task touches follows from its number alone, so that every run with the same options must
// end with the same sums. Rank 0 prints them, and what the connections did, as one line of JSON.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "skerry/skerry.hpp"

namespace {

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

struct Options {
  std::string kind = "pool";
  int64_t tasks = 40;        // per rank, in all
  int64_t compute_us = 200;  // of a task
  uint64_t bytes = 4096;     // of a block
};

class Load {
 public:
  Load(const sk::Job& job, const Options& options)
      : options_(options),
        rank_(job.rank()),
        ranks_(job.size()),
        data_(job.world(), counter_at + 64),
        block_(options.bytes / 8) {}

  void task(uint64_t number) {
    std::vector<int64_t> sum(block_.size(), 1);
    for (uint64_t i = 0; i < 4; ++i) {
      data_.get(partner(number, i), 0, std::span<int64_t>(block_));
      sum[i] += static_cast<int64_t>(block_.size());
    }
    compute();
    for (uint64_t i = 4; i < 6; ++i)
      data_.acc(partner(number, i), options_.bytes, std::span<const int64_t>(sum));
  }

  void run() {
    const auto total = options_.tasks * ranks_;
    if (options_.kind == "pool") {
      for (int64_t n; (n = data_.fetch_add<int64_t>(0, counter_at, 1)) < total;)
        task(static_cast<uint64_t>(n));
    } else if (options_.kind == "drift") {
      for (int64_t n = 0; n < options_.tasks; ++n)
        task(static_cast<uint64_t>(rank_) << 32 | static_cast<uint64_t>(n));
    } else {
      take_from(rank_);
      int empty = 0;
      for (uint64_t attempt = 0; empty < 3 * ranks_ / 2; ++attempt) {
        const uint64_t draw = mix(static_cast<uint64_t>(rank_) << 40 | attempt);
        const int64_t step = draw % 5 < 4
                                 ? static_cast<int64_t>(draw / 5 % 8) - 4
                                 : static_cast<int64_t>(draw / 5 % static_cast<uint64_t>(ranks_));
        const int victim = static_cast<int>((rank_ + step + ranks_) % ranks_);
        empty = take_from(victim) ? 0 : empty + 1;
      }
    }
  }

  int64_t checksum() const {
    const int64_t* own = data_.local<int64_t>();
    return std::accumulate(own + block_.size(), own + 2 * block_.size(), int64_t{0});
  }

 private:
  // Uneven queues, so that there is something to steal: those of even ranks hold twice as many.
  int64_t queue_of(int rank) const {
    return rank % 2 == 0 ? options_.tasks * 3 / 2 : options_.tasks / 2;
  }
  bool take_from(int victim) {
    bool any = false;
    for (int64_t n; (n = data_.fetch_add<int64_t>(victim, counter_at, 1)) < queue_of(victim);
         any = true) {
      task(static_cast<uint64_t>(victim) << 32 | static_cast<uint64_t>(n));
      if (victim != rank_) return true;  // one at a time from others
    }
    return any;
  }
  int partner(uint64_t number, uint64_t i) const {
    const uint64_t draw = mix(number * 8 + i);
    if (options_.kind != "drift") return static_cast<int>(draw % static_cast<uint64_t>(ranks_));
    const uint64_t window = (number & 0xffffffff) / 10;
    return static_cast<int>(mix((number >> 32) << 20 | window << 4 | draw % 8) %
                            static_cast<uint64_t>(ranks_));
  }
  void compute() {
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::microseconds(options_.compute_us);
    volatile double x = 1.1;
    while (std::chrono::steady_clock::now() < end)
      for (int i = 0; i < 100; ++i) x = x * 1.0000001;
  }

  static constexpr uint64_t counter_at = 256 << 10;
  Options options_;
  int rank_, ranks_;
  sk::Segment data_;
  std::vector<int64_t> block_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--kind") == 0) options.kind = argv[i + 1];
    else if (std::strcmp(argv[i], "--tasks") == 0) options.tasks = std::atoll(argv[i + 1]);
    else if (std::strcmp(argv[i], "--compute-us") == 0)
      options.compute_us = std::atoll(argv[i + 1]);
    else if (std::strcmp(argv[i], "--bytes") == 0)
      options.bytes = std::strtoull(argv[i + 1], nullptr, 0);
    else
      return std::fprintf(stderr, "acts_load: %s: no such option; see the top of acts_load.cpp\n",
                          argv[i]),
             2;
  }
  if ((options.kind != "pool" && options.kind != "steal" && options.kind != "drift") ||
      options.bytes < 64 || options.bytes > 128 << 10 || options.bytes % 8 != 0)
    return std::fprintf(
               stderr,
               "acts_load: --kind pool, steal or drift; --bytes from 64 to 131072, whole words\n"),
           2;
  sk::Job job;
  const sk::Group& world = job.world();
  Load load(job, options);
  world.sync();
  const sk::Counters before = job.counters();
  const auto begin = std::chrono::steady_clock::now();
  load.run();
  world.sync();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
                             .count();
  const sk::Counters c = job.counters();
  const auto sum = [&](uint64_t value) { return world.allreduce(static_cast<int64_t>(value)); };
  const auto most = [&](uint64_t value) {
    return world.allreduce(static_cast<int64_t>(value), sk::Reduction::max);
  };
  const int64_t checksum = world.allreduce(load.checksum());
  const struct {
    const char* name;
    int64_t value;
  } values[] = {
      {"checksum", checksum},
      {"operations", sum(c["remote_operations"] - before["remote_operations"])},
      {"opened", sum(c["connections_opened"] - before["connections_opened"])},
      {"evicted", sum(c["connections_evicted"] - before["connections_evicted"])},
      {"hidden", sum(c["teardowns_hidden"] - before["teardowns_hidden"])},
      {"broken", sum(c["connections_broken"] - before["connections_broken"])},
      {"teardown_ns", sum(c["teardown_ns"] - before["teardown_ns"])},
      {"teardown_exposed_ns", sum(c["teardown_exposed_ns"] - before["teardown_exposed_ns"])},
      {"setup_ns", sum(c["setup_ns"] - before["setup_ns"])},
      {"setup_exposed_ns", sum(c["setup_exposed_ns"] - before["setup_exposed_ns"])},
      {"peak", most(c["connections_peak"])},
      {"partners", most(c["servers_known"])},
      {"connection_bytes", most(c["connection_bytes"])},
  };
  if (job.rank() == 0) {
    std::printf("{\"seconds\": %.6f", seconds);
    for (const auto& [name, value] : values)
      std::printf(", \"%s\": %lld", name, static_cast<long long>(value));
    std::printf("}\n");
  }
}
