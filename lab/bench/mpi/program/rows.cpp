// One-sided operations of an ordinary MPI program, which knows nothing of Skerry: bench.py runs it
// as it is and with Skerry preloaded.
//
//   rows ops|create|calls|none [--kind allocated|created] [--cpus LIST] [--scale S]
//
// ops: rank 0 reaches rank 1, which waits in a barrier (idle) or computes for 10 ms and calls
// nothing (computing). create: MPI_Win_create and free. calls: what a program without windows
// pays. --cpus: cores, used in turn by rank. Prints a line per figure; ends with an error if a
// result is wrong.
#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

#include "../../micro/common.hpp"
#include "../../micro/limits/compute.hpp"

namespace {

constexpr int target = 1;
constexpr double span_ns = 10e6;
constexpr int vector_blocks = 64;  // blocks of 64 bytes, one in every 128
constexpr int block_bytes = 64;
constexpr MPI_Aint big_bytes = 1 << 20;
// Bytes in each rank's memory.
constexpr MPI_Aint value_at = 0;
constexpr MPI_Aint count_at = 64;
constexpr MPI_Aint swap_at = 128;
constexpr MPI_Aint vector_at = 4096;
constexpr MPI_Aint big_at = vector_at + 2 * vector_blocks * block_bytes;
constexpr MPI_Aint window_bytes = big_at + big_bytes;

int my_rank = 0;

[[noreturn]] void stop(const std::string& text) {
  std::fprintf(stderr, "rank %d: %s\n", my_rank, text.c_str());
  MPI_Abort(MPI_COMM_WORLD, 3);
  std::abort();
}

void compute_for(double ns) {
  const uint64_t start = bench::now_ns();
  bench::keep(
      bench::compute_until([&] { return static_cast<double>(bench::now_ns() - start) >= ns; }));
}

void report(const std::string& row, double value, const char* unit) {
  if (my_rank == 0) bench::report(row.c_str(), value, unit);
}

struct Memory {
  explicit Memory(bool created) {
    if (created) {
      own.resize(static_cast<size_t>(window_bytes));
      base = own.data();
      MPI_Win_create(base, window_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    } else {
      MPI_Win_allocate(window_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, my_rank, 0, window);
    std::memset(base, 0, static_cast<size_t>(window_bytes));
    MPI_Win_unlock(my_rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~Memory() { MPI_Win_free(&window); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::vector<char> own;  // empty if MPI allocated the memory
  char* base = nullptr;
  MPI_Win window = MPI_WIN_NULL;
};

// The operations. Each leaves a trace at the target that check() looks for.
class Operations {
 public:
  explicit Operations(MPI_Win window) : window_(window), big_(static_cast<size_t>(big_bytes)) {
    MPI_Type_vector(vector_blocks, block_bytes, 2 * block_bytes, MPI_BYTE, &vector_);
    MPI_Type_commit(&vector_);
  }
  ~Operations() { MPI_Type_free(&vector_); }
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  void lock_put() {
    ++value_;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window_);
    MPI_Put(&value_, 1, MPI_INT64_T, target, value_at, 1, MPI_INT64_T, window_);
    MPI_Win_unlock(target, window_);
  }
  void put_flush() {
    ++value_;
    MPI_Put(&value_, 1, MPI_INT64_T, target, value_at, 1, MPI_INT64_T, window_);
    MPI_Win_flush(target, window_);
  }
  void fetch_and_op() {
    const int64_t one = 1;
    int64_t before = -1;
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, target, count_at, MPI_SUM, window_);
    MPI_Win_flush(target, window_);
    if (before != count_++) stop("wrong result: fetch_and_op");
  }
  void compare_and_swap() {
    const int64_t next = swapped_ + 1;
    int64_t before = -1;
    MPI_Compare_and_swap(&next, &swapped_, &before, MPI_INT64_T, target, swap_at, window_);
    MPI_Win_flush(target, window_);
    if (before != swapped_) stop("wrong result: compare_and_swap");
    swapped_ = next;
  }
  void vector_put() {
    big_[0] = static_cast<char>(big_[0] + 1);
    MPI_Put(big_.data(), 1, vector_, target, vector_at, 1, vector_, window_);
    MPI_Win_flush(target, window_);
  }
  void big_put() {
    big_[1] = static_cast<char>(big_[1] + 1);
    MPI_Put(big_.data(), static_cast<int>(big_bytes), MPI_BYTE, target, big_at,
            static_cast<int>(big_bytes), MPI_BYTE, window_);
    MPI_Win_flush(target, window_);
  }
  void check() {
    lock_put();
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window_);
    vector_put();
    big_put();
    int64_t found[3] = {};
    char first[2] = {};
    MPI_Get(&found[0], 1, MPI_INT64_T, target, value_at, 1, MPI_INT64_T, window_);
    MPI_Get(&found[1], 1, MPI_INT64_T, target, count_at, 1, MPI_INT64_T, window_);
    MPI_Get(&found[2], 1, MPI_INT64_T, target, swap_at, 1, MPI_INT64_T, window_);
    MPI_Get(&first[0], 1, MPI_BYTE, target, vector_at, 1, MPI_BYTE, window_);
    MPI_Get(&first[1], 1, MPI_BYTE, target, big_at + 1, 1, MPI_BYTE, window_);
    MPI_Win_unlock(target, window_);
    if (found[0] != value_ || found[1] != count_ || found[2] != swapped_ || first[0] != big_[0] ||
        first[1] != big_[1])
      stop("wrong result: the target does not hold what was put last");
  }

 private:
  MPI_Win window_;
  MPI_Datatype vector_ = MPI_DATATYPE_NULL;
  std::vector<char> big_;
  int64_t value_ = 0;
  int64_t count_ = 0;
  int64_t swapped_ = 0;
};

struct Operation {
  const char* name;
  bool in_epoch;  // of a shared lock; otherwise it takes its own
  void (Operations::*run)();
};
constexpr Operation operations[] = {
    {"lock_put", false, &Operations::lock_put},
    {"put_flush", true, &Operations::put_flush},
    {"fetch_and_op", true, &Operations::fetch_and_op},
    {"vector_put", true, &Operations::vector_put},
    {"put_1m", true, &Operations::big_put},
    {"compare_and_swap", true, &Operations::compare_and_swap},  // ends OpenMPI 4.1.4 by a signal
};

// The median time of those that begin in the first 60 % of the target's computing.
double each_during_ns(Operations& all, const Operation& one) {
  compute_for(0.1 * span_ns);  // by now the target computes
  const uint64_t start = bench::now_ns();
  std::vector<double> each_ns;
  int batch = 1;
  for (uint64_t before = start; static_cast<double>(before - start) < 0.6 * span_ns;) {
    for (int i = 0; i < batch; ++i) (all.*one.run)();
    const uint64_t after = bench::now_ns();
    each_ns.push_back(static_cast<double>(after - before) / batch);
    batch = each_ns.back() < 10'000 ? 32 : 1;
    before = after;
  }
  return bench::median(std::move(each_ns));
}

double idle_ns(Operations& all, const Operation& one) {
  double each_ns = 0;
  if (my_rank == 0)
    each_ns = bench::time_each_ns([&](uint64_t n) {
      for (uint64_t i = 0; i < n; ++i) (all.*one.run)();
    });
  MPI_Barrier(MPI_COMM_WORLD);
  return each_ns;
}

double computing_ns(Operations& all, const Operation& one) {
  const int repeats = 5 + static_cast<int>(4 * bench::time_scale());
  std::vector<double> each_ns;
  for (int i = 0; i < repeats; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank == target) compute_for(span_ns);
    if (my_rank == 0) each_ns.push_back(each_during_ns(all, one));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return bench::median(std::move(each_ns));
}

void ops(bool created) {
  Memory memory(created);
  Operations all(memory.window);
  for (const Operation& one : operations) {
    const bool epoch = one.in_epoch && my_rank == 0;
    if (epoch) MPI_Win_lock(MPI_LOCK_SHARED, target, 0, memory.window);
    report(std::string("idle.") + one.name, idle_ns(all, one), "ns");
    report(std::string("computing.") + one.name, computing_ns(all, one), "ns");
    if (epoch) MPI_Win_unlock(target, memory.window);
  }
  if (my_rank == 0) all.check();
  MPI_Barrier(MPI_COMM_WORLD);
}

void create(bool) {
  std::vector<char> own(65536);
  const int rounds = 20 + static_cast<int>(80 * bench::time_scale());
  std::vector<double> each_ns;
  for (int i = 0; i < rounds; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const uint64_t start = bench::now_ns();
    MPI_Win window = MPI_WIN_NULL;
    MPI_Win_create(own.data(), static_cast<MPI_Aint>(own.size()), 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &window);
    MPI_Win_free(&window);
    each_ns.push_back(static_cast<double>(bench::now_ns() - start));
  }
  report("create_free", bench::median(std::move(each_ns)), "ns");
}

void calls(bool) {
  int found = 0;
  report("comm_rank", bench::time_each_ns([&](uint64_t n) {
           for (uint64_t i = 0; i < n; ++i) MPI_Comm_rank(MPI_COMM_WORLD, &found);
         }),
         "ns");
  const int rounds = 2000 + static_cast<int>(18000 * bench::time_scale());
  char byte = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const uint64_t start = bench::now_ns();
  for (int i = 0; i < rounds && my_rank < 2; ++i) {
    if (my_rank == 0) MPI_Send(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(&byte, 1, MPI_CHAR, 1 - my_rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (my_rank == 1) MPI_Send(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  }
  report("ping_pong", static_cast<double>(bench::now_ns() - start) / rounds, "ns");
}

void none(bool) {}

struct Case {
  const char* name;
  void (*run)(bool created);
};
constexpr Case cases[] = {{"ops", ops}, {"create", create}, {"calls", calls}, {"none", none}};

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  const Case* chosen = nullptr;
  for (const Case& known : cases)
    if (argc > 1 && std::string(argv[1]) == known.name) chosen = &known;
  if (chosen == nullptr) {
    std::fputs("usage: rows ops|create|calls|none [--kind K] [--cpus LIST] [--scale S]\n", stderr);
    return 2;
  }
  // Launchers pass arguments to other hosts, but not the environment.
  setenv("BENCH_CPUS", arguments.text("--cpus", "").c_str(), 1);
  setenv("BENCH_TIME_SCALE", arguments.text("--scale", "1").c_str(), 1);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) stop("runs with two ranks");
  bench::pin_all_threads(bench::core_of_rank(my_rank));
  chosen->run(arguments.text("--kind", "allocated") == "created");
  MPI_Finalize();
  return 0;
}
