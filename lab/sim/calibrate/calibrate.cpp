// skerry-calibrate: what requests and connections cost on this machine, through the public
// interface alone. `skerry-sim calibrate` starts it as a job of one rank on each of some virtual
// nodes; rank 0 measures, the others wait in a barrier, so that their servers sleep.
//
// Costs that cannot be told apart from outside are divided by a rule, written beside each number.
// Only their sums were measured.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/probes/probe.hpp"

namespace {

constexpr uint64_t block_bytes = 1 << 20;

using namespace skerry::probes;

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

}  // namespace

int main(int count, char** arguments) {
  const std::string out = count > 1 ? arguments[1] : "out/costs.json";
  skerry_job* job = nullptr;
  check(skerry_init(nullptr, &job), "cannot start");
  skerry_group* world = skerry_world(job);
  const int rank = skerry_rank(job), size = skerry_size(job);
  if (skerry_node_count(job) != size || size < 4) {
    if (rank == 0)
      std::fprintf(stderr,
                   "skerry-sim calibrate: %d ranks on %d nodes: start it with 4 ranks at least, "
                   "each on a node of its own\n",
                   size, skerry_node_count(job));
    return 2;
  }
  skerry_segment* segment = nullptr;
  check(skerry_segment_alloc(world, block_bytes, &segment), "cannot allocate");
  check(skerry_barrier(world), "barrier");
  if (rank == 0) {
    std::vector<char> buffer(block_bytes, 1);
    // Teardown: bound to one connection, gets from two servers in turn, so that each evicts the
    // other's. Counters tell the whole of it and what the program waited for; the processor time is
    // what such a get takes beyond one that finds its connection, less the connecting.
    check(skerry_connections_limit(job, 1), "limit");
    const int far = size - 1;
    const auto in_turn = [&](int i) {
      check(skerry_get(segment, i % 2 == 0 ? far : far - 1, 0, buffer.data(), 8), "get");
    };
    for (int i = 0; i < 50; ++i) in_turn(i);
    const Counters capped = counters(job);
    const Timed evicting = timed(15, 40, in_turn);
    const Counters torn = counters(job);
    check(skerry_connections_limit(job, 0), "limit");
    // Rank 0 is the root of collectives and has connections to some nodes already; only first uses
    // count as set-ups.
    std::vector<double> first_wall, first_processor;
    const skerry_memory memory_before = memory(job);
    const double heap_before = heap_bytes();
    uint64_t opened = 0;
    for (int r = 1; r < size; ++r) {
      const Counters a = counters(job);
      const int64_t w = clock_ns(CLOCK_MONOTONIC), p = clock_ns(CLOCK_THREAD_CPUTIME_ID);
      check(skerry_get(segment, r, 0, buffer.data(), 8), "get");
      const int64_t w2 = clock_ns(CLOCK_MONOTONIC), p2 = clock_ns(CLOCK_THREAD_CPUTIME_ID);
      if (counters(job)["connections_opened"] == a["connections_opened"]) continue;
      ++opened;
      first_wall.push_back(static_cast<double>(w2 - w));
      first_processor.push_back(static_cast<double>(p2 - p));
    }
    const skerry_memory memory_after = memory(job);
    const double heap_each = opened > 0 ? std::max(0.0, (heap_bytes() - heap_before) /
                                                            static_cast<double>(opened))
                                        : 0;
    const Timed get = timed(
        31, 100, [&](int) { check(skerry_get(segment, far, 0, buffer.data(), 8), "get"); });
    // Requests one after the other without waiting: what the slower side takes for each.
    const Timed flood = timed(11, 1, [&](int) {
      for (int i = 0; i < 2000; ++i)
        check(skerry_get_nb(segment, far, 0, buffer.data() + 8 * (i % 64), 8, SKERRY_IMPLICIT),
              "get");
      check(skerry_wait_implicit(job), "wait");
    });
    const Timed issue = timed(31, 1, [&](int) {
      static skerry_handle handles[64];
      for (skerry_handle& h : handles)
        check(skerry_get_nb(segment, far, 0, buffer.data(), 8, &h), "get");
    });
    check(skerry_fence_all(job), "fence");
    const Timed large = timed(
        11, 3, [&](int) { check(skerry_get(segment, far, 0, buffer.data(), block_bytes), "get"); });

    const double request_ns = issue.processor_ns / 64;
    const double service_ns = flood.wall_ns /
                              2000;  // throughput of the slower side, taken for the server
    const double reply_ns = std::max(
        100.0, get.processor_ns - request_ns);  // the rest of the caller's processor time for a get
    const double latency_ns = std::max(100.0,
                                       (get.wall_ns - request_ns - reply_ns - service_ns) /
                                           2);  // what is left, half each way: wake-ups are in it
    const double setup_ns = std::max(0.0, median(first_wall) - get.wall_ns);
    const double connect_ns = std::min(setup_ns,
                                       std::max(0.0, median(first_processor) - get.processor_ns));
    const double accept_ns = std::max(0.0, setup_ns - connect_ns - 2 * latency_ns);
    const double ns_per_byte = std::max(
        0.0, (large.wall_ns - get.wall_ns) / static_cast<double>(block_bytes));

    const auto more = [&](const char* name) {
      return static_cast<double>(torn[name] - capped[name]);
    };
    const double evictions = std::max(1.0, more("connections_evicted"));
    const double opens = std::max(1.0, more("connections_opened"));
    const double teardown_ns = more("teardown_ns") / evictions;
    const double exposed_ns = more("teardown_exposed_ns") / evictions;
    const double setup_again_ns = more("setup_ns") / opens;
    const double hidden = more("teardowns_hidden") / evictions;
    const double leaving_ns = std::max(
        0.0, evicting.processor_ns - get.processor_ns -
                 connect_ns);  // choosing, the bye, closing: of the origin's processor
    const double choose_ns = std::min(200.0,
                                      leaving_ns / 3);  // a walk over as many entries as are open
    const double bye_ns = std::min(request_ns,
                                   (leaving_ns - choose_ns) / 2);  // as much as any small message
    const double close_ns = leaving_ns - choose_ns - bye_ns;       // the rest
    const double bye_service_ns = std::min(
        service_ns,
        teardown_ns);  // as much as any small request; waiting for a processor is no part of it

    // An open connection's memory: by our own account and by the kernel, which keeps as much at
    // either end.
    const Kernel kernel = kernel_memory();
    const double grown = static_cast<double>(memory_after.connections - memory_before.connections);
    const double account_each = grown > 0 ? static_cast<double>(memory_after.connection_bytes -
                                                                memory_before.connection_bytes) /
                                                grown
                                          : 0;
    const bool is_tcp = std::string(skerry_fabric_name(job)) == "tcp";
    const double origin_bytes = account_each +
                                (is_tcp && kernel.objects_known ? kernel.object_bytes : 4096);
    const double server_each = memory_after.server_connections > 0
                                   ? static_cast<double>(memory_after.server_connection_bytes) /
                                         static_cast<double>(memory_after.server_connections)
                                   : 0;
    const double server_bytes = (server_each > 0 ? server_each : account_each) +
                                (is_tcp && kernel.objects_known ? kernel.object_bytes : 4096);
    const double link_bytes = static_cast<double>(memory_after.known_bytes) /
                              static_cast<double>(
                                  std::max<uint64_t>(1, memory_after.servers_known));
    const double session_bytes = memory_after.server_ranks_known > 0
                                     ? static_cast<double>(memory_after.server_known_bytes) /
                                           static_cast<double>(memory_after.server_ranks_known)
                                     : 72;

    std::filesystem::path path(out);
    std::error_code ignored;
    if (!path.parent_path().empty())
      std::filesystem::create_directories(path.parent_path(), ignored);
    std::FILE* file = std::fopen(out.c_str(), "w");
    if (file == nullptr) {
      std::fprintf(stderr, "skerry-sim calibrate: cannot write %s: %s\n", out.c_str(),
                   std::strerror(errno));
      skerry_abort(job, 1, "cannot write");
    }
    const auto write = [&](std::FILE* to) {
      std::fprintf(
          to,
          "{\n  \"base\": \"tcp\",\n  \"source\": \"measured: skerry-sim calibrate, %d virtual "
          "nodes, fabric %s, Skerry %s\",\n"
          "  \"latency_ns\": %.0f,\n  \"ns_per_byte\": %.4g,\n  \"request_ns\": %.0f,\n  "
          "\"reply_ns\": %.0f,\n  \"service_ns\": %.0f,\n"
          "  \"connect_ns\": %.0f,\n  \"accept_ns\": %.0f,\n  \"ready_ns\": 0,\n  "
          "\"overlapped_setup\": false,\n"
          "  \"choose_ns\": %.0f,\n  \"bye_ns\": %.0f,\n  \"bye_service_ns\": %.0f,\n  "
          "\"close_ns\": %.0f,\n"
          "  \"origin_connection_bytes\": %.0f,\n  \"server_connection_bytes\": %.0f,\n  "
          "\"origin_link_bytes\": %.0f,\n  \"server_session_bytes\": %.0f,\n"
          "  \"note_get_ns\": %.0f,\n  \"note_first_get_ns\": %.0f,\n  "
          "\"note_connections_opened\": %llu,\n  \"note_heap_bytes_per_connection\": %.0f,\n"
          "  \"note_evicting_get_ns\": %.0f,\n  \"note_evictions\": %.0f,\n  \"note_teardown_ns\": "
          "%.0f,\n  \"note_teardown_exposed_ns\": %.0f,\n"
          "  \"note_teardowns_hidden\": %.3f,\n  \"note_setup_ns\": %.0f\n}\n",
          size, skerry_fabric_name(job), skerry_version(), latency_ns, ns_per_byte, request_ns,
          reply_ns, service_ns, connect_ns, accept_ns, choose_ns, bye_ns, bye_service_ns, close_ns,
          origin_bytes, server_bytes, link_bytes, session_bytes, get.wall_ns, median(first_wall),
          static_cast<unsigned long long>(opened), heap_each, evicting.wall_ns, evictions,
          teardown_ns, exposed_ns, hidden, setup_again_ns);
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
