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

// What rank 0 saw, in the order of the steps above; 0 and 3: before them.
struct Measured {
  Moment m[6];
  Kernel kernel_before, kernel_after;
  uint64_t connections_before = 0, connections_after = 0;  // of all ranks

  const skerry_memory& account(int i) const { return m[i].account; }
};

// Collective.
Measured measure(Probe& probe, skerry_job* job, int rank, int size) {
  Measured out;
  Moment* const m = out.m;
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
  out.connections_before = probe.sum(memory(job).connections);
  out.kernel_before = kernel_memory();
  probe.barrier();
  if (rank != 0) probe.touch_all(0);
  probe.barrier();
  if (rank == 0) m[5] = probe.now();
  out.kernel_after = kernel_memory();
  out.connections_after = probe.sum(memory(job).connections);
  return out;
}

// Bytes.
struct Costs {
  Cost connection, known, client, origin, unknown_node;
  double kernel = NAN;           // of one end; NAN: for root to see
  double kernel_buffers = 0;     // of this
  double ends = 0, sockets = 0;  // that appeared
};

Costs costs_of(const Measured& seen, int size) {
  const auto account = [&](int i) -> const skerry_memory& { return seen.account(i); };
  const Moment* const m = seen.m;
  Costs out;
  // Connections come and go in step 1, and those of before may have gone; step 2 only adds.
  out.connection = each(m[1], m[2], account(1).connection_bytes, account(2).connection_bytes,
                        grown(account(1).connections, account(2).connections));
  out.known = each(m[0], m[1], account(0).known_bytes, account(1).known_bytes,
                   grown(account(0).servers_known, account(1).servers_known),
                   grown(account(0).connections, account(1).connections), out.connection);
  out.client = each(m[4], m[5], account(4).server_connection_bytes,
                    account(5).server_connection_bytes,
                    grown(account(4).server_connections, account(5).server_connections));
  out.origin = each(m[3], m[4], account(3).server_known_bytes, account(4).server_known_bytes,
                    grown(account(3).server_ranks_known, account(4).server_ranks_known),
                    grown(account(3).server_connections, account(4).server_connections),
                    out.client);
  out.unknown_node = {static_cast<double>(account(0).node_table_bytes) / size, NAN, NAN};
  // Both ends of all connections are on this machine.
  out.ends = 2 * grown(seen.connections_before, seen.connections_after);
  out.sockets = seen.kernel_after.sockets - seen.kernel_before.sockets;
  const double buffers = seen.kernel_after.buffer_bytes - seen.kernel_before.buffer_bytes;
  if (out.ends > 0) out.kernel_buffers = std::max(0.0, buffers / out.ends);
  if (seen.kernel_after.objects_known)
    out.kernel = seen.kernel_after.object_bytes + out.kernel_buffers;
  return out;
}

void print(const Measured& seen, const Costs& costs, const char* fabric, int size) {
  const bool is_tcp = std::string(fabric) == "tcp";
  const std::string kernel = is_tcp ? amount(costs.kernel) : "-";
  std::printf(
      "connections, bytes each (fabric %s, %d ranks on as many virtual nodes, %llu connections, "
      "measured now)\n",
      fabric, size, static_cast<unsigned long long>(seen.connections_after));
  std::printf("  %-34s %12s %12s %14s %12s\n", "", "own account", "allocator", "resident",
              "kernel");
  line("origin, a connection", costs.connection, kernel);
  line("origin, a node talked to before", costs.known, "0");
  line("data server, a connection", costs.client, kernel);
  line("data server, a rank seen before", costs.origin, "0");
  line("a node never talked to", costs.unknown_node, "0");
  std::printf("  fixed: origin %.0f, data server %.0f\n",
              static_cast<double>(seen.account(5).fixed_bytes),
              static_cast<double>(seen.account(5).server_fixed_bytes));
  if (is_tcp && seen.kernel_after.objects_known)
    std::printf(
        "  kernel: %.0f of objects of one end (socket, inode, file, directory entry, epoll), "
        "%.0f of buffers; %.0f sockets appeared for %.0f ends\n",
        seen.kernel_after.object_bytes, costs.kernel_buffers, costs.sockets, costs.ends);
  else if (is_tcp)
    std::printf("  kernel: %.0f of buffers an end; sizes of its objects are for root to see\n",
                costs.kernel_buffers);
  std::printf(
      "  resident: pages of the process, so for a few dozen connections only good to some "
      "hundred bytes\n");
}

// `path`: "-" for standard output. False: it cannot be written.
bool write_json(const std::string& path, const Measured& seen, const Costs& costs,
                const char* fabric, int size) {
  std::FILE* const file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  const double kernel = std::string(fabric) == "tcp" ? costs.kernel : NAN;
  const auto number = [](double v) { return std::isnan(v) ? std::string("null") : amount(v); };
  const auto row = [&](const char* name, const Cost& c, double of_kernel, const char* end) {
    std::fprintf(
        file,
        "  \"%s\": {\"account\": %s, \"allocator\": %s, \"resident\": %s, \"kernel\": %s}%s\n",
        name, number(c.account).c_str(), number(c.heap).c_str(), number(c.resident).c_str(),
        number(of_kernel).c_str(), end);
  };
  std::fprintf(file, "{\n  \"fabric\": \"%s\", \"ranks\": %d, \"connections\": %llu,\n", fabric,
               size, static_cast<unsigned long long>(seen.connections_after));
  row("origin_connection", costs.connection, kernel, ",");
  row("origin_known_node", costs.known, 0, ",");
  row("server_connection", costs.client, kernel, ",");
  row("server_known_rank", costs.origin, 0, ",");
  row("unknown_node", costs.unknown_node, 0, "");
  std::fprintf(file, "}\n");
  if (file != stdout) std::fclose(file);
  return true;
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
  const Measured seen = measure(probe, job, rank, size);
  if (rank == 0) {
    const char* const fabric = skerry_fabric_name(job);
    const Costs costs = costs_of(seen, size);
    print(seen, costs, fabric, size);
    if (!json.empty() && !write_json(json, seen, costs, fabric, size))
      skerry_abort(job, 1, ("cannot write " + json).c_str());
  }
  probe.barrier();
  check(skerry_segment_free(probe.segment()), "free");
  check(skerry_finalize(job), "cannot finish");
  return 0;
}
