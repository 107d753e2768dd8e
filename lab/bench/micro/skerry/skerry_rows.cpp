// Skerry's own figures, in scenarios; rank 0 prints one line per row. Start with `skerry run`;
// placement comes from BENCH_CPUS (see job.hpp).
//
//   skerry_rows local       2 ranks, 1 node: rank 0 uses the memory of rank 1, which sleeps
//   skerry_rows local4      4 ranks, 1 node: all accumulate on parts of rank 0's slice
//   skerry_rows remote      2 ranks, 2 nodes
//   skerry_rows busy        2 ranks, 2 nodes; rank 1 computes all the time
//   skerry_rows overlap     2 ranks, 2 nodes: 1 MiB non-blocking get beside computing
//   skerry_rows fair        1 target (rank 0); the rest are origins on other nodes
//   skerry_rows collective  any number of ranks: barrier and allreduce by all
//   skerry_rows idle S      all ranks but 0 wait in a barrier that rank 0 enters after S seconds;
//                           prints "waiting" when all are there
//
// Times are in ns, bandwidths in GB/s, rates in M/s. A name in the second argument restricts the
// rows: skerry_rows remote get_8.
#include <atomic>

#include "../limits/compute.hpp"
#include "job.hpp"

namespace {

using bench::Job;

constexpr uint64_t mega = 1 << 20;
constexpr uint64_t half_footprint = 32 * mega;    // origin and target together rotate over 64 MiB
constexpr uint64_t word_offset = half_footprint;  // a page of words behind the blocks:
                                                  // read-modify-write, stop flag
constexpr uint64_t segment_bytes = half_footprint + 4096;
constexpr uint64_t
    segment_bytes_of_four = 4 *
                            half_footprint;  // local4: every rank rotates over 64 MiB of its own

class Rows {
 public:
  Rows(Job& job, int target, std::string only)
      : job_(job),
        segment_(job.segment()),
        target_(target),
        only_(std::move(only)),
        origin_(half_footprint / sizeof(double), 0.0) {}

  void local() {
    small("put_8",
          [&](uint64_t offset) { ok(skerry_put(segment_, target_, offset, origin_.data(), 8)); });
    small("get_8",
          [&](uint64_t offset) { ok(skerry_get(segment_, target_, offset, origin_.data(), 8)); });
    const skerry_strided shape = patch();
    row("get_strided_64x64",
        [&] { ok(skerry_get_strided(segment_, target_, 0, origin_.data(), &shape)); });
    against_memcpy(
        "put_1m", "put_1m_memcpy",
        [&](uint64_t at) { ok(skerry_put(segment_, target_, at, block(at), mega)); }, true);
    against_memcpy(
        "get_1m", "get_1m_memcpy",
        [&](uint64_t at) { ok(skerry_get(segment_, target_, at, block(at), mega)); }, false);
    against_memcpy(
        "acc_1m", "acc_1m_memcpy",
        [&](uint64_t at) {
          ok(skerry_acc(segment_, target_, at, SKERRY_DOUBLE, nullptr, block(at), mega / 8));
        },
        true);
    int64_t old = 0;
    row("fetch_add", [&] { ok(skerry_fetch_add_i64(segment_, target_, word_offset, 1, &old)); });
    row("acc_8",
        [&] { ok(skerry_acc(segment_, target_, 0, SKERRY_DOUBLE, nullptr, origin_.data(), 1)); });
  }

  // All ranks call: each on its own part, all at once, then the same with memcpy; the sum of the
  // four bandwidths.
  void local4() {
    const uint64_t mine = half_footprint * static_cast<uint64_t>(job_.rank());
    auto* target = static_cast<char*>(skerry_segment_pointer(segment_, 0));
    std::vector<double> accumulated;
    std::vector<double> copied;
    together([&](uint64_t i) {
      std::memset(target + mine + i * mega % half_footprint, 0, mega);
    });  // pages are there before anything is timed
    for (int turn = 0; turn < 7; ++turn) {
      accumulated.push_back(together([&](uint64_t i) {
        const uint64_t at = i * mega % half_footprint;
        ok(skerry_acc(segment_, 0, mine + at, SKERRY_DOUBLE, nullptr, block(at), mega / 8));
      }));
      copied.push_back(together([&](uint64_t i) {
        const uint64_t at = i * mega % half_footprint;
        std::memcpy(target + mine + at, block(at), mega);
        bench::keep(target);
      }));
    }
    if (job_.rank() != 0) return;
    bench::report("acc_1m_4", bench::median(accumulated), "GB/s");
    bench::report("acc_1m_4_memcpy", bench::median(copied), "GB/s");
  }

  void remote() {
    const skerry_strided shape = patch();
    int64_t old = 0;
    single("get_8", [&] { ok(skerry_get(segment_, target_, 0, origin_.data(), 8)); });
    single("put_8_fence", [&] {
      ok(skerry_put(segment_, target_, 0, origin_.data(), 8));
      fence();
    });
    single("acc_8_fence", [&] {
      ok(skerry_acc(segment_, target_, 0, SKERRY_DOUBLE, nullptr, origin_.data(), 1));
      fence();
    });
    single("fetch_add", [&] { ok(skerry_fetch_add_i64(segment_, target_, word_offset, 1, &old)); });
    pair(
        "get_strided_64x64",
        [&] { ok(skerry_get_strided(segment_, target_, 0, origin_.data(), &shape)); }, "get_4k",
        [&] { ok(skerry_get(segment_, target_, 0, origin_.data(), 4096)); });
    pair(
        "acc_4k_fence",
        [&] {
          ok(skerry_acc(segment_, target_, 0, SKERRY_DOUBLE, nullptr, origin_.data(), 512));
          fence();
        },
        "put_4k_fence",
        [&] {
          ok(skerry_put(segment_, target_, 0, origin_.data(), 4096));
          fence();
        });
    pair(
        "acc_1m_fence",
        [&] {
          ok(skerry_acc(segment_, target_, 0, SKERRY_DOUBLE, nullptr, origin_.data(), mega / 8));
          fence();
        },
        "put_1m_fence_ns",
        [&] {
          ok(skerry_put(segment_, target_, 0, origin_.data(), mega));
          fence();
        });
    bandwidth("put_1m_fence", [&] {
      ok(skerry_put(segment_, target_, 0, origin_.data(), mega));
      fence();
    });
    bandwidth("get_1m", [&] { ok(skerry_get(segment_, target_, 0, origin_.data(), mega)); });
    if (wanted("put_nb_8")) {
      const double ns = bench::time_each_ns(
          [&](uint64_t n) {
            for (uint64_t i = 0; i < n; ++i)
              ok(skerry_put_nb(segment_, target_, i * 8 & 0xffff, &origin_[i & 1023], 8,
                               SKERRY_IMPLICIT));
            job_.check(skerry_wait_implicit(job_.handle()), "wait_all");
            fence();
          },
          20);
      bench::report("put_nb_8", 1e3 / ns, "M/s");
    }
  }

  void busy() {
    int64_t old = 0;
    single("busy_get_8", [&] { ok(skerry_get(segment_, target_, 0, origin_.data(), 8)); });
    single("busy_acc_8_fence", [&] {
      ok(skerry_acc(segment_, target_, 0, SKERRY_DOUBLE, nullptr, origin_.data(), 1));
      fence();
    });
    single("busy_fetch_add",
           [&] { ok(skerry_fetch_add_i64(segment_, target_, word_offset, 1, &old)); });
  }

  void mutex() {
    skerry_mutexes* mutexes = nullptr;
    job_.check(skerry_mutexes_create(job_.world(), 1, &mutexes), "mutexes_create");
    if (job_.rank() == 0)
      row("lock", [&] {
        job_.check(skerry_mutex_lock(mutexes, target_, 0), "lock");
        job_.check(skerry_mutex_unlock(mutexes, target_, 0), "unlock");
      });
    job_.check(skerry_mutexes_free(mutexes), "mutexes_free");
  }

  void overlap(double total_ms) {
    skerry_handle handle = 0;
    bench::report(
        "overlap",
        bench::overlap_share(
            [&] { ok(skerry_get_nb(segment_, target_, 0, origin_.data(), mega, &handle)); },
            [&] { job_.check(skerry_wait(job_.handle(), &handle), "wait"); }, total_ms),
        "share");
  }

 private:
  bool wanted(const char* name) const { return only_.empty() || only_ == name; }
  void ok(int status) const { job_.check(status, "operation"); }
  void fence() const { job_.check(skerry_fence(job_.handle(), target_), "fence"); }
  double* block(uint64_t at) { return origin_.data() + at / sizeof(double); }

  // 64 pieces of 64 B, one in every 256 B of the target, packed at the origin.
  static skerry_strided patch() {
    skerry_strided shape{};
    shape.block_bytes = 64;
    shape.levels = 1;
    shape.count[0] = 64;
    shape.origin_stride[0] = 64;
    shape.target_stride[0] = 256;
    return shape;
  }

  template <typename Body>
  void row(const char* name, Body&& body) {
    if (!wanted(name)) return;
    bench::report(name, bench::time_each_ns([&](uint64_t n) {
                    for (uint64_t i = 0; i < n; ++i) body();
                  }),
                  "ns");
  }
  template <typename Body>
  void small(const char* name, Body&& body) {
    if (!wanted(name)) return;
    bench::report(name, bench::time_each_ns([&](uint64_t n) {
                    for (uint64_t i = 0; i < n; ++i) body(i * 8 & 4095);
                  }),
                  "ns");
  }
  template <typename Body>
  void single(const char* name, Body&& body) {
    if (wanted(name)) bench::report(name, bench::median_of_singles_ns(body), "ns");
  }
  template <typename Body>
  void bandwidth(const char* name, Body&& body) {
    if (wanted(name))
      bench::report(name, static_cast<double>(mega) / bench::median_of_singles_ns(body, 120),
                    "GB/s");
  }
  // An operation and the contiguous one it is judged by, taken in turn so that both meet the same
  // load.
  template <typename First, typename Second>
  void pair(const char* first_name, First&& first, const char* second_name, Second&& second) {
    if (!wanted(first_name)) return;
    std::vector<double> a;
    std::vector<double> b;
    for (int turn = 0; turn < 5; ++turn) {
      a.push_back(bench::median_of_singles_ns(first, 15));
      b.push_back(bench::median_of_singles_ns(second, 15));
    }
    bench::report(first_name, bench::median(a), "ns");
    bench::report(second_name, bench::median(b), "ns");
  }
  // A 1 MiB operation and memcpy between the same buffers, in turn, rotating over the footprint.
  template <typename Body>
  void against_memcpy(const char* name, const char* memcpy_name, Body&& body, bool to_target) {
    if (!wanted(name)) return;
    auto* target = static_cast<char*>(skerry_segment_pointer(segment_, target_));
    std::vector<double> operation;
    std::vector<double> copy;
    uint64_t at = 0;
    auto each = [&](auto&& one) {
      return static_cast<double>(mega) / bench::time_each_ns(
                                             [&](uint64_t n) {
                                               for (uint64_t i = 0; i < n; ++i) {
                                                 one(at);
                                                 at = (at + mega) % half_footprint;
                                               }
                                             },
                                             10, 1);
    };
    for (int turn = 0; turn < 9; ++turn) {
      operation.push_back(each(body));
      copy.push_back(each([&](uint64_t offset) {
        if (to_target) std::memcpy(target + offset, block(offset), mega);
        else std::memcpy(block(offset), target + offset, mega);
        bench::keep(target);
      }));
    }
    bench::report(name, bench::median(operation), "GB/s");
    bench::report(memcpy_name, bench::median(copy), "GB/s");
  }

  // Every rank repeats for a fixed time after a common start; the sum of all bandwidths, known to
  // all.
  template <typename Body>
  double together(Body&& body) {
    job_.barrier();
    const uint64_t start = bench::now_ns();
    const auto length_ns = static_cast<uint64_t>(40e6 * bench::time_scale());
    uint64_t blocks = 0;
    uint64_t now = start;
    for (; now - start < length_ns; now = bench::now_ns()) body(blocks++);
    double sum = static_cast<double>(blocks * mega) / static_cast<double>(now - start);
    job_.check(skerry_allreduce(job_.world(), SKERRY_DOUBLE, SKERRY_SUM, &sum, 1), "allreduce");
    return sum;
  }

  Job& job_;
  skerry_segment* segment_;
  int target_;
  std::string only_;
  std::vector<double> origin_;
};

// Rank 0 is the target; every other rank fetches 1 MiB blocks and 8 B words for a fixed time.
// Prints the most operations of any rank divided by the fewest.
void fair(Job& job) {
  std::vector<double> buffer(mega / 8);
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{65536}}) {
    job.sync();
    uint64_t done = 0;
    if (job.rank() != 0) {
      const uint64_t start = bench::now_ns();
      const auto length_ns = static_cast<uint64_t>(400e6 * bench::time_scale());
      for (; bench::now_ns() - start < length_ns; ++done)
        job.check(skerry_get(job.segment(), 0, 0, buffer.data(), bytes), "get");
    }
    std::vector<uint64_t> all(static_cast<size_t>(job.size()));
    job.check(skerry_allgather(job.world(), &done, sizeof done, all.data()), "allgather");
    if (job.rank() != 0) continue;
    const auto [least, most] = std::minmax_element(all.begin() + 1, all.end());
    bench::report(bytes == 8 ? "fair_get_8" : "fair_get_64k",
                  static_cast<double>(*most) / static_cast<double>(std::max<uint64_t>(*least, 1)),
                  "times");
  }
}

void idle(Job& job, double seconds) {
  job.barrier();
  if (job.rank() == 0) {
    std::puts("waiting");
    std::fflush(stdout);
    const timespec pause{
        static_cast<time_t>(seconds),
        static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
    nanosleep(&pause, nullptr);
  }
  job.barrier();
}

// Rank 1 computes until rank 0 has put something into its stop word.
void compute_as_target(Job& job) {
  auto* word = reinterpret_cast<int64_t*>(static_cast<char*>(skerry_segment_local(job.segment())) +
                                          word_offset + 64);
  const std::atomic_ref<int64_t> stop(*word);
  const double x = bench::compute_until([&] { return stop.load(std::memory_order_relaxed) != 0; });
  bench::keep(x);
}

// All ranks call. Rank 0 sets the number of calls, so that a batch takes some 20 ms with any number
// of ranks. The median of nine batches.
template <typename Body>
void collective_row(Job& job, const char* name, Body&& body) {
  const auto batch_ns = [&](int64_t n) {
    job.barrier();
    const uint64_t start = bench::now_ns();
    for (int64_t i = 0; i < n; ++i) body();
    return static_cast<double>(bench::now_ns() - start);
  };
  (void)batch_ns(3);
  const double some_ns = batch_ns(10);
  auto n = static_cast<int64_t>(10 * 20e6 * bench::time_scale() / some_ns) + 1;
  job.check(skerry_broadcast(job.world(), &n, sizeof n, 0), "broadcast");
  std::vector<double> each;
  for (int i = 0; i < 9; ++i) each.push_back(batch_ns(n) / static_cast<double>(n));
  if (job.rank() == 0) bench::report(name, bench::median(each), "ns");
}

void collectives(Job& job) {
  std::vector<double> values(mega / sizeof(double), 1.0);
  const auto allreduce = [&](uint64_t bytes) {
    job.check(skerry_allreduce(job.world(), SKERRY_DOUBLE, SKERRY_MAX, values.data(),
                               bytes / sizeof(double)),
              "allreduce");
  };
  collective_row(job, "barrier", [&] { job.barrier(); });
  collective_row(job, "allreduce_8", [&] { allreduce(8); });
  collective_row(job, "allreduce_64k", [&] { allreduce(64 << 10); });
  collective_row(job, "allreduce_1m", [&] { allreduce(mega); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "--help";
  const std::string only = argc > 2 ? argv[2] : "";
  if (scenario == "--help") {
    std::puts(
        "skerry run -n P [--nodes K] skerry_rows "
        "local|local4|remote|busy|overlap|fair|collective|idle "
        "[ROW|SECONDS]");
    return 0;
  }
  Job job(scenario == "local4" ? segment_bytes_of_four : segment_bytes);
  if (scenario == "fair") {
    fair(job);
    return 0;
  }
  if (scenario == "collective") {
    collectives(job);
    return 0;
  }
  if (scenario == "idle") {
    idle(job, only.empty() ? 10 : std::atof(only.c_str()));
    return 0;
  }
  const int needed = scenario == "local4" ? 4 : 2;
  if (job.size() < needed) {
    std::fprintf(stderr, "scenario %s needs %d ranks, this job has %d: skerry run -n %d\n",
                 scenario.c_str(), needed, job.size(), needed);
    return 2;
  }
  Rows rows(job, scenario == "local4" ? 0 : 1, only);
  const bool first = job.rank() == 0;
  if (scenario == "local4") {
    rows.local4();
  } else if (scenario == "local") {
    if (first) rows.local();
    job.barrier();
    rows.mutex();
  } else if (scenario == "remote") {
    if (first) rows.remote();
    job.barrier();
    rows.mutex();
  } else if (scenario == "busy") {
    if (first) {
      rows.busy();
      const int64_t stop = 1;
      job.check(skerry_put(job.segment(), 1, word_offset + 64, &stop, sizeof stop), "put");
      job.check(skerry_fence(job.handle(), 1), "fence");
    } else if (job.rank() == 1) {
      compute_as_target(job);
    }
  } else if (scenario == "overlap") {
    if (first) rows.overlap(only.empty() ? 60 : std::atof(only.c_str()));
  } else {
    std::fprintf(stderr, "unknown scenario \"%s\"; see skerry_rows --help\n", scenario.c_str());
    return 2;
  }
  return 0;
}
