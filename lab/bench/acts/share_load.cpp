// What sharing connections saves and costs (lab/bench/acts/acts.py --share):
//   skerry run -n P --nodes N share_load [--rounds N]
//
// Every rank talks to all ranks of other nodes; then rank 0 times single operations on the last
// rank, then all ranks at once. Rank 0 prints medians and the connections as one line of JSON.
#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "../micro/common.hpp"
#include "skerry/skerry.hpp"

namespace {

// Ends of TCP connections that this process holds, as the system sees them.
int64_t tcp_ends() {
  std::set<std::string> inodes;
  if (DIR* fds = opendir("/proc/self/fd")) {
    while (const dirent* entry = readdir(fds)) {
      char target[64];
      const ssize_t n = readlink((std::string("/proc/self/fd/") + entry->d_name).c_str(), target,
                                 sizeof target - 1);
      if (n > 8 && std::strncmp(target, "socket:[", 8) == 0)
        inodes.emplace(target + 8, static_cast<size_t>(n) - 9);
    }
    closedir(fds);
  }
  int64_t ends = 0;
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream table(path);
    for (std::string line; std::getline(table, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, skip, inode;
      words >> number >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      ends += state == "01" && inodes.count(inode) != 0;
    }
  }
  return ends;
}

constexpr uint64_t long_bytes = 1 << 20;

}  // namespace

int main(int argc, char** argv) {
  int64_t rounds = 2000;
  if (argc == 3 && std::strcmp(argv[1], "--rounds") == 0) rounds = std::atoll(argv[2]);
  else if (argc != 1) return std::fprintf(stderr, "share_load: give --rounds N or nothing\n"), 2;
  sk::Job job;
  const sk::Group& world = job.world();
  sk::Segment data(world, long_bytes);
  std::vector<int64_t> block(long_bytes / 8, job.rank());
  world.sync();
  for (int r = 0; r < job.size(); ++r)
    if (!job.same_node(r)) (void)data.fetch_add<int64_t>(r, 0, 1);
  world.sync();
  const int far = job.size() - 1;
  double put_us = 0, get_us = 0, rmw_us = 0, put_mib_s = 0, get_mib_s = 0;
  if (job.rank() == 0 && !job.same_node(far)) {
    const auto one = std::span<int64_t>(block).first(1);
    put_us = bench::median_of_rounds_us(
        rounds, [&] { data.put(far, 8, std::span<const int64_t>(one)), job.fence(far); });
    get_us = bench::median_of_rounds_us(rounds, [&] { data.get(far, 8, one); });
    rmw_us = bench::median_of_rounds_us(rounds, [&] { (void)data.fetch_add<int64_t>(far, 0, 1); });
    put_mib_s = 1e6 / bench::median_of_rounds_us(rounds / 20 + 1, [&] {
                  data.put(far, 0, std::span<const int64_t>(block)), job.fence(far);
                });
    get_mib_s = 1e6 / bench::median_of_rounds_us(
                          rounds / 20 + 1, [&] { data.get(far, 0, std::span<int64_t>(block)); });
  }
  world.sync();
  // All at once: each rank adds on ranks of other nodes in turn.
  const uint64_t begin_ns = bench::now_ns();
  int64_t added = 0;
  for (int64_t i = 0; i < rounds / 4; ++i) {
    const int partner = static_cast<int>((job.rank() + i) % job.size());
    if (job.same_node(partner)) continue;
    (void)data.fetch_add<int64_t>(partner, 0, 1);
    ++added;
  }
  world.sync();
  const double all_us = static_cast<double>(bench::now_ns() - begin_ns) / 1e3;
  const sk::Counters c = job.counters();
  const auto sum = [&](uint64_t value) {
    return static_cast<long long>(world.allreduce(static_cast<int64_t>(value)));
  };
  const auto most = [&](uint64_t value) {
    return static_cast<long long>(world.allreduce(static_cast<int64_t>(value), sk::Reduction::max));
  };
  const long long ends = sum(static_cast<uint64_t>(tcp_ends())), carriers = sum(c["trunks_peak"]),
                  node_carriers = most(c["trunks_peak"]), own = sum(c["connections_open"]);
  const long long all = sum(static_cast<uint64_t>(added));
  if (job.rank() == 0)
    std::printf(
        "{\"put_8_us\": %.2f, \"get_8_us\": %.2f, \"fetch_add_us\": %.2f, \"put_mib_s\": %.0f, "
        "\"get_mib_s\": %.0f, \"all_fetch_add_per_s\": %.0f, "
        "\"tcp_ends\": %lld, \"connections\": %lld, \"shared\": %lld, \"shared_per_node\": %lld}\n",
        put_us, get_us, rmw_us, put_mib_s, get_mib_s, static_cast<double>(all) / all_us * 1e6, ends,
        own, carriers, node_carriers);
}
