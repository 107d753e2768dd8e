// One hot spot, the same over every library: many ranks (clients) add to one counter of rank 0,
// then accumulate 4 KiB into its memory, then 8 bytes, each as fast as it can for a fixed time. 32
// accumulates go between two fences.
//
//   hot_spot [--ms N] [--count N]
//
// Rank 0 waits in a barrier meanwhile. The last rank is a bystander: it gets 8 bytes of rank 0's
// memory, one get after the other, also while nobody else does anything. All others are clients.
// --count: so many operations of each client in place of a time (for tests). Prints a line per
// figure; ends with an error if a sum is not exact.
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "../../micro/common.hpp"
#include "layer.hpp"

namespace {

constexpr size_t counter_at = 0;
constexpr size_t quiet_at = 4096;  // what the bystander gets: another page than the counter's
constexpr size_t sums_at = 8192;   // what is accumulated into
constexpr size_t sums = 4096 / sizeof(double);
constexpr int accumulates_a_fence = 32;

struct Span {  // that all ranks agree on, although a barrier lets them go one after the other
  uint64_t start_ns;
  uint64_t end_ns;
  bool holds(uint64_t time_ns) const { return time_ns >= start_ns && time_ns < end_ns; }
  double seconds() const { return static_cast<double>(end_ns - start_ns) * 1e-9; }
};

Span common_span(double ms) {
  const std::vector<double> times = layer::gather(static_cast<double>(bench::now_ns() / 1000));
  const auto last_us = static_cast<uint64_t>(*std::max_element(times.begin(), times.end()));
  const uint64_t start_ns = (last_us + 20'000) * 1000;  // the first 20 ms warm up
  return {start_ns, start_ns + static_cast<uint64_t>(ms * 1e6)};
}

struct Tally {
  int64_t all = 0;
  int64_t in_span = 0;
};
// Calls `body`, which does `each` operations, until the span is over, or `count` operations are
// done if that is not 0.
template <typename Body>
Tally repeat_in(const Span& span, int64_t count, int64_t each, Body&& body) {
  Tally tally;
  for (uint64_t now = 0; count != 0 ? tally.all < count : now < span.end_ns;) {
    body();
    now = bench::now_ns();
    tally.all += each;
    if (span.holds(now)) tally.in_span += each;
  }
  return tally;
}

struct Options {
  double ms;
  int64_t count;
};

bool is_bystander(int rank) { return rank == layer::size() - 1; }
bool is_client(int rank) { return rank != 0 && !is_bystander(rank); }

void report(const std::string& row, double value, const char* unit) {
  if (layer::rank() == 0) bench::report(row.c_str(), value, unit);
}

double sum_of(double mine) {
  double sum = 0;
  for (const double one : layer::gather(mine)) sum += one;
  return sum;
}

void expect(const char* what, double found, double expected) {
  if (found == expected) return;
  const std::string text = std::string("wrong result: ") + what + " is " + std::to_string(found) +
                           ", expected " + std::to_string(expected);
  layer::stop(text.c_str());
}

// Median and 99th percentile of single gets in the span, in ns; both of every rank's view.
void report_latency(const std::string& name, std::vector<double> latency_ns) {
  double median_ns = 0;
  double late_ns = 0;
  if (!latency_ns.empty()) {
    std::sort(latency_ns.begin(), latency_ns.end());
    median_ns = latency_ns[latency_ns.size() / 2];
    late_ns = latency_ns[latency_ns.size() * 99 / 100];
  }
  const auto last = static_cast<size_t>(layer::size()) - 1;
  median_ns = layer::gather(median_ns)[last];
  late_ns = layer::gather(late_ns)[last];
  report(name + ".bystander", median_ns, "ns");
  report(name + ".bystander_p99", late_ns, "ns");
}

std::vector<double> stand_by(layer::Memory& memory, const Span& span, int64_t count) {
  std::vector<double> latency_ns;
  latency_ns.reserve(1 << 16);
  uint64_t before = bench::now_ns();
  repeat_in(span, count, 1, [&] {
    (void)memory.get(0, quiet_at);
    const uint64_t after = bench::now_ns();
    if (span.holds(before) || count != 0) latency_ns.push_back(static_cast<double>(after - before));
    before = after;
  });
  return latency_ns;
}

double most_by_fewest(const std::vector<double>& counts) {
  if (counts.empty()) return 1;
  const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
  return *most / std::max(1.0, *fewest);
}

// Every client's share of the span.
void report_rate(const std::string& name, const Span& span, double mine) {
  const std::vector<double> counts = layer::gather(mine);
  const std::vector<double> near = layer::gather(layer::is_near(0) ? 1 : 0);
  std::vector<double> all, remote;
  double sum = 0;
  for (int rank = 0; rank < layer::size(); ++rank) {
    if (!is_client(rank)) continue;
    const auto at = static_cast<size_t>(rank);
    all.push_back(counts[at]);
    sum += counts[at];
    if (near[at] == 0) remote.push_back(counts[at]);
  }
  report(name + ".rate", sum / span.seconds(), "1/s");
  report(name + ".fairness_all", most_by_fewest(all), "times");
  if (remote.empty()) return;
  double remote_sum = 0;
  for (const double count : remote) remote_sum += count;
  report(name + ".remote_rate", remote_sum / span.seconds(), "1/s");
  report(name + ".fairness", most_by_fewest(remote), "times");
}

// What this process has run, all threads, in ns: in all, and in the program itself.
struct Busy {
  double all_ns = 0;
  double user_ns = 0;
};
Busy busy() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_usec) * 1e3;
  };
  return {ns(usage.ru_utime) + ns(usage.ru_stime), ns(usage.ru_utime)};
}

// One phase: clients call `body`, which does `each` operations (0: they wait in the barrier as
// well). Returns how many operations all did.
template <typename Body>
double phase(const std::string& name, layer::Memory& memory, const Options& options, int64_t each,
             Body&& body) {
  layer::barrier();
  const Span span = common_span(options.ms);
  const int me = layer::rank();
  Tally tally;
  std::vector<double> latency_ns;
  const Busy before = busy();
  if (is_bystander(me)) latency_ns = stand_by(memory, span, options.count);
  else if (is_client(me) && each != 0) tally = repeat_in(span, options.count, each, body);
  layer::barrier();
  const Busy after = busy();
  if (each != 0) report_rate(name, span, static_cast<double>(tally.in_span));
  const double gets = sum_of(static_cast<double>(latency_ns.size()));
  report_latency(name, std::move(latency_ns));
  const double sum = sum_of(static_cast<double>(tally.all));
  // The target's processor time for each of the clients' and the bystander's operations.
  const double operations = std::max(1.0, sum + gets);
  report(name + ".target_cpu", (after.all_ns - before.all_ns) / operations, "ns");
  report(name + ".target_user", (after.user_ns - before.user_ns) / operations, "ns");
  return sum;
}

// A field of /proc/self/status, in bytes.
double status_bytes(const char* field) {
  FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  char line[256];
  long found_kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr)
    if (std::strncmp(line, field, std::strlen(field)) == 0)
      found_kib = std::strtol(line + std::strlen(field), nullptr, 10);
  std::fclose(file);
  return static_cast<double>(found_kib) * 1024;
}

struct MemoryUse {
  double resident = 0;
  double account = 0;
};
MemoryUse server_use() {
  if (layer::rank() != 0) return {};
  return {status_bytes("VmRSS:"), layer::account_bytes()};
}

void run(const Options& options) {
  layer::Memory memory(sums_at + sums * sizeof(double));
  std::vector<double> ones(sums, 1.0);
  phase("quiet", memory, {options.ms / 2, options.count}, 0, [] {});
  // Every client has its connection before memory is looked at.
  double added = 0;
  if (is_client(layer::rank())) {
    (void)memory.fetch_add(0, counter_at);
    memory.accumulate(0, sums_at, ones);
    memory.finish(0);
    added = 1;
  }
  const double warm = sum_of(added);
  const MemoryUse before = server_use();
  const double counted = phase("fetch_add", memory, options, 1,
                               [&] { (void)memory.fetch_add(0, counter_at); });
  const auto accumulate = [&](const char* name, std::span<const double> from) {
    return phase(name, memory, options, accumulates_a_fence, [&] {
      for (int i = 0; i < accumulates_a_fence; ++i) memory.accumulate(0, sums_at, from);
      memory.finish(0);
    });
  };
  const double summed = accumulate("accumulate", ones);
  const double single = accumulate("accumulate_8", std::span(ones).first(1));
  const MemoryUse after = server_use();
  report("memory.resident_grown", after.resident - before.resident, "bytes");
  if (after.account >= 0) {
    report("memory.account", after.account, "bytes");
    report("memory.account_grown", after.account - before.account, "bytes");
  }
  layer::barrier();
  if (layer::rank() == 0) {
    expect("the counter", static_cast<double>(memory.get(0, counter_at)), warm + counted);
    for (const size_t at : {size_t{0}, sums - 1})
      expect("a sum", std::bit_cast<double>(memory.get(0, sums_at + at * sizeof(double))),
             warm + summed + (at == 0 ? single : 0));
  }
  layer::barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  layer::start(&argc, &argv);
  if (layer::size() < 3 || layer::size() > 128)
    layer::stop("hot_spot needs 3 to 128 ranks: a target, clients, a bystander");
  run({static_cast<double>(arguments.number("--ms", 500)), arguments.number("--count", 0)});
  layer::finish();
  return 0;
}
