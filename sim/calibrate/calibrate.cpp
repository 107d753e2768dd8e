// skerry-calibrate: what requests and connections cost on this machine, through the public interface alone. `skerry calibrate` starts it as a
// job of one rank on each of some virtual nodes; rank 0 measures, the others wait in a barrier, so that their servers sleep as they usually do.
//
// What cannot be told apart from outside is divided by a rule, written beside each number: the sums are what was measured.
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "skerry/skerry.h"

namespace {

constexpr uint64_t block_bytes = 1 << 20;

int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void check(int status, const char* what) {
  if (status == SKERRY_OK) return;
  std::fprintf(stderr, "skerry calibrate: %s: %s\n", what, skerry_last_error());
  std::exit(1);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Timed {
  double wall_ns = 0;
  double processor_ns = 0;  // of the calling thread
};

template <class What>
Timed timed(int samples, int repeats, What&& what) {
  std::vector<double> wall, processor;
  for (int s = 0; s < samples; ++s) {
    const int64_t w = clock_ns(CLOCK_MONOTONIC), p = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int r = 0; r < repeats; ++r) what(s * repeats + r);
    wall.push_back(static_cast<double>(clock_ns(CLOCK_MONOTONIC) - w) / repeats);
    processor.push_back(static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - p) / repeats);
  }
  return {median(wall), median(processor)};
}

// Kilobytes of this process's own memory, and pages of all TCP buffers of this network namespace.
double resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with("RssAnon:")) return std::atof(line.c_str() + 8) * 1024;
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string out = count > 1 ? arguments[1] : "out/costs.json";
  skerry_job* job = nullptr;
  check(skerry_init(nullptr, &job), "cannot start");
  skerry_group* world = skerry_world(job);
  const int rank = skerry_rank(job), size = skerry_size(job);
  if (skerry_nodes(job) != size || size < 4) {
    if (rank == 0) std::fprintf(stderr, "skerry calibrate: %d ranks on %d nodes: start it with at least 4 ranks, each on a node of its own\n", size, skerry_nodes(job));
    return 2;
  }
  skerry_segment* segment = nullptr;
  check(skerry_segment_alloc(world, block_bytes, &segment), "cannot allocate");
  check(skerry_barrier(world), "barrier");
  if (rank == 0) {
    std::vector<char> buffer(block_bytes, 1);
    skerry_counters before{};
    before.size = sizeof before;
    check(skerry_counters_read(job, &before), "counters");
    // Rank 0 is the root of collectives and has connections to some nodes already; only first uses count as set-ups.
    std::vector<double> first_wall, first_processor;
    const double resident_before = resident_bytes();
    uint64_t opened = 0;
    for (int r = 1; r < size; ++r) {
      skerry_counters a{}, b{};
      a.size = b.size = sizeof a;
      check(skerry_counters_read(job, &a), "counters");
      const int64_t w = clock_ns(CLOCK_MONOTONIC), p = clock_ns(CLOCK_THREAD_CPUTIME_ID);
      check(skerry_get(segment, r, 0, buffer.data(), 8), "get");
      const int64_t w2 = clock_ns(CLOCK_MONOTONIC), p2 = clock_ns(CLOCK_THREAD_CPUTIME_ID);
      check(skerry_counters_read(job, &b), "counters");
      if (b.connections_opened == a.connections_opened) continue;
      ++opened;
      first_wall.push_back(static_cast<double>(w2 - w));
      first_processor.push_back(static_cast<double>(p2 - p));
    }
    const double resident_each = opened > 0 ? std::max(0.0, (resident_bytes() - resident_before) / static_cast<double>(opened)) : 0;
    const int far = size - 1;
    const Timed get = timed(31, 100, [&](int) { check(skerry_get(segment, far, 0, buffer.data(), 8), "get"); });
    // Requests one after the other without waiting: what the slower side takes for each.
    const Timed flood = timed(11, 1, [&](int) {
      for (int i = 0; i < 2000; ++i) check(skerry_get_nb(segment, far, 0, buffer.data() + 8 * (i % 64), 8, SKERRY_IMPLICIT), "get");
      check(skerry_wait_all(job), "wait");
    });
    const Timed issue = timed(31, 1, [&](int) {
      static skerry_handle handles[64];
      for (skerry_handle& h : handles) check(skerry_get_nb(segment, far, 0, buffer.data(), 8, &h), "get");
    });
    check(skerry_fence_all(job), "fence");
    const Timed large = timed(11, 3, [&](int) { check(skerry_get(segment, far, 0, buffer.data(), block_bytes), "get"); });

    const double request_ns = issue.processor_ns / 64;
    const double service_ns = flood.wall_ns / 2000;                                    // throughput of the slower side, taken for the server
    const double reply_ns = std::max(100.0, get.processor_ns - request_ns);            // the rest of the caller's processor time for a get
    const double latency_ns = std::max(100.0, (get.wall_ns - request_ns - reply_ns - service_ns) / 2);  // what is left, half each way: wake-ups are in it
    const double setup_ns = std::max(0.0, median(first_wall) - get.wall_ns);
    const double connect_ns = std::min(setup_ns, std::max(0.0, median(first_processor) - get.processor_ns));
    const double accept_ns = std::max(0.0, setup_ns - connect_ns - 2 * latency_ns);
    const double ns_per_byte = std::max(0.0, (large.wall_ns - get.wall_ns) / static_cast<double>(block_bytes));

    std::filesystem::path path(out);
    std::error_code ignored;
    if (!path.parent_path().empty()) std::filesystem::create_directories(path.parent_path(), ignored);
    std::FILE* file = std::fopen(out.c_str(), "w");
    if (file == nullptr) {
      std::fprintf(stderr, "skerry calibrate: cannot write %s: %s\n", out.c_str(), std::strerror(errno));
      skerry_abort(job, 1, "cannot write");
    }
    const auto write = [&](std::FILE* to) {
      std::fprintf(to,
                   "{\n  \"base\": \"tcp\",\n  \"source\": \"measured: skerry calibrate, %d virtual nodes, fabric %s, Skerry %s\",\n"
                   "  \"latency_ns\": %.0f,\n  \"ns_per_byte\": %.4g,\n  \"request_ns\": %.0f,\n  \"reply_ns\": %.0f,\n  \"service_ns\": %.0f,\n"
                   "  \"connect_ns\": %.0f,\n  \"accept_ns\": %.0f,\n  \"ready_ns\": 0,\n  \"overlapped_setup\": false,\n"
                   "  \"note_get_ns\": %.0f,\n  \"note_first_get_ns\": %.0f,\n  \"note_connections_opened\": %llu,\n  \"note_resident_bytes_per_connection\": %.0f\n}\n",
                   size, skerry_fabric_name(job), skerry_version(), latency_ns, ns_per_byte, request_ns, reply_ns, service_ns, connect_ns, accept_ns, get.wall_ns, median(first_wall),
                   static_cast<unsigned long long>(opened), resident_each);
    };
    write(file);
    std::fclose(file);
    write(stdout);
    std::fprintf(stderr, "wrote %s\n", out.c_str());
  }
  check(skerry_barrier(world), "barrier");
  check(skerry_segment_free(segment), "free");
  check(skerry_finalize(job), "cannot finish");
  return 0;
}
