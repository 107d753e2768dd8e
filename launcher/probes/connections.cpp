// skerry-connections: what a connection and an idle remote node cost in memory, at either end: by
// the runtime's own account, by the allocator, and by the operating system. `skerry info
// --connections` starts it as a job of one rank on each of some virtual nodes.
//
// Rank 0 is measured, first as an origin, then as the host of a data server. The others sleep in a
// barrier, then all talk to all:
//   1 bound to one connection, rank 0 talks to each: it *knows* them now
//   2 without the bound, again: it is *connected* to them
//   3 the others do as 1
//   4 the others do as 2
// What a step adds is divided by how many it added, which the account tells: collectives have
// connections of their own.
#include <cmath>
#include <functional>

#include "launcher/probes/probe.hpp"

namespace {

using namespace skerry::probes;

struct Moment {
  skerry_memory account{};
  double heap = 0, resident = 0;
};

struct Cost {
  double account = 0, heap = 0, resident = 0;
};

class Probe {
 public:
  explicit Probe(skerry_job* job) : job_(job), rank_(skerry_rank(job)), size_(skerry_size(job)) {
    check(skerry_segment_alloc(skerry_world(job), 4096, &segment_), "cannot allocate");
  }

  void barrier() { check(skerry_barrier(skerry_world(job_)), "barrier"); }
  void touch_all(uint32_t bound) { touch(bound, size_ - 1); }
  void touch(uint32_t bound, int ranks) {
    check(skerry_connections_limit(job_, bound), "limit");
    for (int step = 1; step <= ranks; ++step) {
      uint64_t word = 0;  // each in its own order, so that no server is asked by all at once
      check(skerry_get(segment_, (rank_ + step) % size_, 0, &word, sizeof word), "get");
    }
    check(skerry_fence_all(job_), "fence");
  }
  Moment now() { return {memory(job_), heap_bytes(), resident_bytes()}; }
  uint64_t sum(uint64_t own) {
    int64_t value = static_cast<int64_t>(own);
    check(skerry_allreduce(skerry_world(job_), SKERRY_INT64, SKERRY_SUM, &value, 1), "sum");
    return static_cast<uint64_t>(value);
  }
  skerry_segment* segment() { return segment_; }

 private:
  skerry_job* job_;
  int rank_, size_;
  skerry_segment* segment_ = nullptr;
};

double grown(uint64_t before, uint64_t after) {
  return static_cast<double>(after) - static_cast<double>(before);
}

// What was added between two moments, less `already` for each of `others`, for each of `count`.
Cost each(const Moment& a, const Moment& b, uint64_t account_before, uint64_t account_after,
          double count, double others = 0, Cost already = {}) {
  if (count <= 0) return {NAN, NAN, NAN};
  return {grown(account_before, account_after) / count,
          (b.heap - a.heap - others * already.heap) / count,
          (b.resident - a.resident - others * already.resident) / count};
}

std::string amount(double bytes) {
  char text[32];
  if (std::isnan(bytes)) return "-";
  std::snprintf(text, sizeof text, "%.0f", std::max(0.0, bytes));
  return text;
}

void line(const char* what, const Cost& cost, const std::string& kernel) {
  std::printf("  %-34s %12s %12s %14s %12s\n", what, amount(cost.account).c_str(),
              amount(cost.heap).c_str(), amount(cost.resident).c_str(), kernel.c_str());
}

}  // namespace

int main(int count, char** arguments) {
  const std::string json = count > 1 ? arguments[1] : "";
  skerry_job* job = nullptr;
  check(skerry_init(nullptr, &job), "cannot start");
  const int rank = skerry_rank(job), size = skerry_size(job);
  if (skerry_node_count(job) != size || size < 4) {
    if (rank == 0)
      std::fprintf(stderr,
                   "skerry info: %d ranks on %d nodes: connections are measured with at least 4 "
                   "ranks, each on a node of its own\n",
                   size, skerry_node_count(job));
    return 2;
  }
  Probe probe(job);
  probe.barrier();
  Moment m[6];
  // As an origin.
  if (rank == 0) {
    probe.touch(1, size / 4);  // the policy's tables, buffers that stay, what the first look
                               // allocates: no part of what is measured
    (void)probe.now();
    m[0] = probe.now();
    probe.touch_all(1);
    m[1] = probe.now();
    probe.touch_all(0);
    m[2] = probe.now();
  }
  probe.barrier();
  if (rank == 0) m[3] = probe.now();
  probe.barrier();
  // As a server. Without requests of rank 0's own: it is connected to all.
  if (rank != 0) probe.touch_all(1);
  probe.barrier();
  if (rank == 0) m[4] = probe.now();
  const uint64_t connections_before = probe.sum(memory(job).connections);
  const Kernel kernel_before = kernel_memory();
  probe.barrier();
  if (rank != 0) probe.touch_all(0);
  probe.barrier();
  if (rank == 0) m[5] = probe.now();
  const Kernel kernel_after = kernel_memory();
  const uint64_t connections_after = probe.sum(memory(job).connections);

  if (rank == 0) {
    const auto account = [&](int i) -> const skerry_memory& { return m[i].account; };
    // Connections come and go in step 1, and those of before may have gone; step 2 only adds.
    const double opened = grown(account(1).connections, account(2).connections);
    const Cost connection = each(m[1], m[2], account(1).connection_bytes,
                                 account(2).connection_bytes, opened);
    const Cost known = each(m[0], m[1], account(0).known_bytes, account(1).known_bytes,
                            grown(account(0).servers_known, account(1).servers_known),
                            grown(account(0).connections, account(1).connections), connection);
    const double admitted = grown(account(4).server_connections, account(5).server_connections);
    const Cost client = each(m[4], m[5], account(4).server_connection_bytes,
                             account(5).server_connection_bytes, admitted);
    const Cost origin = each(
        m[3], m[4], account(3).server_known_bytes, account(4).server_known_bytes,
        grown(account(3).server_ranks_known, account(4).server_ranks_known),
        grown(account(3).server_connections, account(4).server_connections), client);
    const double table = static_cast<double>(account(0).node_table_bytes) / size;
    // Both ends of all connections are on this machine.
    const double ends = 2 * grown(connections_before, connections_after);
    const bool is_tcp = std::string(skerry_fabric_name(job)) == "tcp";
    const double sockets = kernel_after.sockets - kernel_before.sockets;
    const double buffers = ends > 0
                               ? std::max(0.0,
                                          (kernel_after.buffer_bytes - kernel_before.buffer_bytes) /
                                              ends)
                               : 0;
    const double kernel = kernel_after.objects_known ? kernel_after.object_bytes + buffers : NAN;

    std::printf(
        "connections, bytes each (fabric %s, %d ranks on as many virtual nodes, %llu connections, "
        "measured now)\n",
        skerry_fabric_name(job), size, static_cast<unsigned long long>(connections_after));
    std::printf("  %-34s %12s %12s %14s %12s\n", "", "own account", "allocator", "resident",
                "kernel");
    line("origin, a connection", connection, is_tcp ? amount(kernel) : "-");
    line("origin, a node talked to before", known, "0");
    line("data server, a connection", client, is_tcp ? amount(kernel) : "-");
    line("data server, a rank seen before", origin, "0");
    line("a node never talked to", {table, NAN, NAN}, "0");
    std::printf("  fixed: origin %.0f, data server %.0f\n",
                static_cast<double>(account(5).fixed_bytes),
                static_cast<double>(account(5).server_fixed_bytes));
    if (is_tcp && kernel_after.objects_known)
      std::printf(
          "  kernel: %.0f of objects of one end (socket, inode, file, directory entry, epoll), "
          "%.0f of buffers; %.0f sockets appeared for %.0f ends\n",
          kernel_after.object_bytes, buffers, sockets, ends);
    else if (is_tcp)
      std::printf("  kernel: %.0f of buffers an end; sizes of its objects are for root to see\n",
                  buffers);
    std::printf(
        "  resident: pages of the process, so for a few dozen connections only good to some "
        "hundred bytes\n");

    if (!json.empty()) {
      std::FILE* file = json == "-" ? stdout : std::fopen(json.c_str(), "w");
      if (file == nullptr) skerry_abort(job, 1, ("cannot write " + json).c_str());
      const auto number = [](double v) { return std::isnan(v) ? std::string("null") : amount(v); };
      const auto row = [&](const char* name, const Cost& c, double of_kernel, bool last) {
        std::fprintf(
            file,
            "  \"%s\": {\"account\": %s, \"allocator\": %s, \"resident\": %s, \"kernel\": %s}%s\n",
            name, number(c.account).c_str(), number(c.heap).c_str(), number(c.resident).c_str(),
            number(of_kernel).c_str(), last ? "" : ",");
      };
      std::fprintf(file, "{\n  \"fabric\": \"%s\", \"ranks\": %d, \"connections\": %llu,\n",
                   skerry_fabric_name(job), size,
                   static_cast<unsigned long long>(connections_after));
      row("origin_connection", connection, is_tcp ? kernel : NAN, false);
      row("origin_known_node", known, 0, false);
      row("server_connection", client, is_tcp ? kernel : NAN, false);
      row("server_known_rank", origin, 0, false);
      row("unknown_node", {table, NAN, NAN}, 0, true);
      std::fprintf(file, "}\n");
      if (file != stdout) std::fclose(file);
    }
  }
  probe.barrier();
  check(skerry_segment_free(probe.segment()), "free");
  check(skerry_finalize(job), "cannot finish");
  return 0;
}
