// A storm of one-sided operations with exact sums, for runs in which connections are broken from
// outside or inside:
//   storm [--seed N] [--epochs N] [--operations N] [--threads N] [--report DIR]
// Each thread of each rank issues all operations to every rank: accumulates in three forms,
// fetch-and-adds, swaps, compare-and-swaps, long and strided puts that it reads back, lock cycles,
// notifications, non-blocking operations. After each epoch of `operations` every sum is checked,
// exactly. Runs for `epochs`, or with 0 until DIR/stop exists (checked between epochs; DIR/end ends
// the current one). DIR/rank.N says how far each rank is.
#include <dirent.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

#include "ops/check.hpp"

using namespace skerry::test;

namespace {

constexpr uint64_t elements = 2048;  // that all add to, per slice
constexpr uint64_t ticket_at = 32 << 10, swap_at = ticket_at + 64, cas_at = ticket_at + 128,
                   notify_at = ticket_at + 192, locked_at = ticket_at + 1024;
constexpr uint32_t mutexes = 8;
// Of each origin thread, in each slice: no other thread writes there.
constexpr uint64_t own_at = 64 << 10, own_bytes = 256 << 10;
constexpr uint64_t notified_bytes = 64;  // of these, the last: what put_notify writes

// The sums that belong to one target. All 64-bit words, so that one allreduce adds them.
struct Sums {
  std::array<int64_t, elements> added{};
  int64_t tickets = 0, ticket_sum = 0, ticket_squares = 0;
  int64_t swapped_in = 0, swapped_out = 0;
  int64_t cas_won = 0;
  int64_t notified = 0;
  std::array<int64_t, mutexes> locked{};
};
static_assert(sizeof(Sums) % 8 == 0);

uint64_t open_files() {
  uint64_t count = 0;
  DIR* const directory = opendir("/proc/self/fd");
  while (directory != nullptr && readdir(directory) != nullptr) ++count;
  if (directory != nullptr) closedir(directory);
  return count;
}

uint64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10);
  return 0;
}

// What all threads of a rank share.
struct Shared {
  skerry_job* job = nullptr;
  int rank = 0, size = 0, threads = 1;
  std::string directory;  // empty: no reports
  skerry_segment* segment = nullptr;
  skerry_mutexes* mutexes = nullptr;
  std::atomic<uint64_t> operations{0};
  std::atomic<bool> end{false};  // DIR/end was seen: this epoch is over
};

// One thread of a rank: its operations, and what they must add up to.
class Worker {
 public:
  Worker(Shared& shared, int thread, uint64_t seed)
      : shared_(shared),
        job_(shared.job),
        segment_(shared.segment),
        mutexes_(shared.mutexes),
        size_(shared.size),
        index_(static_cast<uint64_t>(shared.rank * shared.threads + thread)),
        random_(seed * 1000 + index_) {
    sums_.resize(static_cast<size_t>(size_));
    shadow_.assign(static_cast<size_t>(size_),
                   std::vector<unsigned char>(own_bytes - notified_bytes));
  }

  void run(uint64_t operations) {
    for (uint64_t i = 0; i < operations && !shared_.end.load(std::memory_order_relaxed); ++i) {
      one(static_cast<int>(below(random_, static_cast<uint64_t>(size_))));
      shared_.operations.fetch_add(1, std::memory_order_relaxed);
      if (each_) each_();
    }
  }
  // Called after each operation.
  void after_each(std::function<void()> call) { each_ = std::move(call); }

  Sums& sums(int target) { return sums_[static_cast<size_t>(target)]; }

 private:
  std::vector<unsigned char>& shadow(int target) { return shadow_[static_cast<size_t>(target)]; }
  uint64_t own() const { return own_at + own_bytes * index_; }

  void one(int target) {
    switch (below(random_, 14)) {
      case 0: return add(target);
      case 1: return add_strided(target);
      case 2: return add_vector(target);
      case 3: return ticket(target);
      case 4: return swap(target);
      case 5: return compare_swap(target);
      case 6: return put(target);
      case 7: return put_strided(target);
      case 8: return get(target);
      case 9: return get_strided(target);
      case 10: return lock_cycle(target);
      case 11: return notify(target);
      case 12: return many_at_once();
      case 13:
        OK(chance(random_, 20) ? skerry_fence_all(job_) : skerry_fence(job_, target));
        return;
    }
  }

  void add(int target) {
    const uint64_t count = chance(random_, 20) ? elements : 1 + below(random_, 200);
    const uint64_t first = below(random_, elements - count + 1);
    std::vector<int64_t> values(count);
    for (uint64_t i = 0; i < count; ++i)
      sums(target).added[first + i] += values[i] = static_cast<int64_t>(below(random_, 2001)) -
                                                   1000;
    OK(skerry_acc(segment_, target, first * 8, SKERRY_INT64, nullptr, values.data(), count));
  }

  // Rows of a matrix of 64 columns, scaled by 3.
  void add_strided(int target) {
    const uint64_t columns = 1 + below(random_, 16), rows = 1 + below(random_, 16),
                   first = below(random_, 48) + 64 * below(random_, 16);
    std::vector<int64_t> values(columns * rows);
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < columns; ++c) {
        const auto value = static_cast<int64_t>(below(random_, 100));
        values[r * columns + c] = value;
        sums(target).added[first + 64 * r + c] += 3 * value;
      }
    skerry_strided shape{};
    shape.block_bytes = columns * 8;
    shape.levels = 1;
    shape.count[0] = rows;
    shape.origin_stride[0] = static_cast<int64_t>(columns * 8);
    shape.target_stride[0] = 64 * 8;
    const int64_t scale = 3;
    OK(skerry_acc_strided(segment_, target, first * 8, SKERRY_INT64, &scale, values.data(),
                          &shape));
  }

  void add_vector(int target) {
    std::array<int64_t, 32> values;
    std::array<skerry_piece, 32> pieces;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const uint64_t at = 64 * i + below(random_, 64);
      values[i] = static_cast<int64_t>(below(random_, 100));
      sums(target).added[at] += values[i];
      pieces[i] = {&values[i], at * 8, 8};
    }
    OK(skerry_acc_vector(segment_, target, SKERRY_INT64, nullptr, pieces.data(), pieces.size()));
  }

  // Numbers 0, 1, 2, ... are drawn, each once: their sum and the sum of their squares say so.
  void ticket(int target) {
    int64_t drawn = 0;
    OK(skerry_fetch_add_i64(segment_, target, ticket_at, 1, &drawn));
    Sums& s = sums(target);
    ++s.tickets;
    s.ticket_sum += drawn;
    s.ticket_squares += drawn * drawn;
  }

  // Every value put in comes out once, or is still there.
  void swap(int target) {
    const auto token = static_cast<int64_t>(below(random_, 1u << 31));
    int64_t old = 0;
    OK(skerry_swap_i64(segment_, target, swap_at, token, &old));
    sums(target).swapped_in += token;
    sums(target).swapped_out += old;
  }

  void compare_swap(int target) {
    int64_t now = 0, old = 0;
    OK(skerry_fetch_add_i64(segment_, target, cas_at, 0, &now));
    OK(skerry_compare_swap_i64(segment_, target, cas_at, now, now + 1, &old));
    sums(target).cas_won += old == now;
  }

  void put(int target) {
    const uint64_t room = shadow(target).size();
    const uint64_t bytes = chance(random_, 20) ? 1 + below(random_, room)
                                               : 1 + below(random_, 4000);
    const uint64_t at = below(random_, room - bytes + 1);
    for (uint64_t i = 0; i < bytes; ++i)
      shadow(target)[at + i] = static_cast<unsigned char>(random_());
    OK(skerry_put(segment_, target, own() + at, shadow(target).data() + at, bytes));
  }

  skerry_strided draw_shape(uint64_t* at) {
    skerry_strided shape{};
    shape.block_bytes = 1 + below(random_, 300);
    shape.levels = 2;
    shape.count[0] = 1 + below(random_, 20);
    shape.count[1] = 1 + below(random_, 20);
    for (int k = 0; k < 2; ++k)
      shape.target_stride[k] = shape.origin_stride[k] = k == 0 ? 400 : 20 * 400 + 64;
    *at = below(random_, 64 << 10);
    return shape;
  }
  template <class Visit>
  static void for_each_block(const skerry_strided& shape, uint64_t at, Visit&& visit) {
    for (uint64_t j = 0; j < shape.count[1]; ++j)
      for (uint64_t i = 0; i < shape.count[0]; ++i)
        visit(at + i * static_cast<uint64_t>(shape.target_stride[0]) +
                  j * static_cast<uint64_t>(shape.target_stride[1]),
              shape.block_bytes);
  }
  void put_strided(int target) {
    uint64_t at = 0;
    const skerry_strided shape = draw_shape(&at);
    for_each_block(shape, at, [&](uint64_t begin, uint64_t bytes) {
      for (uint64_t i = 0; i < bytes; ++i)
        shadow(target)[begin + i] = static_cast<unsigned char>(random_());
    });
    OK(skerry_put_strided(segment_, target, own() + at, shadow(target).data() + at, &shape));
  }

  void get(int target) {
    const uint64_t room = shadow(target).size();
    const uint64_t bytes = chance(random_, 20) ? 1 + below(random_, room)
                                               : 1 + below(random_, 4000);
    const uint64_t at = below(random_, room - bytes + 1);
    seen_.assign(bytes, 0);
    OK(skerry_get(segment_, target, own() + at, seen_.data(), bytes));
    if (std::memcmp(seen_.data(), shadow(target).data() + at, bytes) != 0)
      fail(__FILE__, __LINE__, "a get did not return what was put");
  }
  void get_strided(int target) {
    uint64_t at = 0;
    const skerry_strided shape = draw_shape(&at);
    seen_.assign(own_bytes, 0);
    OK(skerry_get_strided(segment_, target, own() + at, seen_.data() + at, &shape));
    for_each_block(shape, at, [&](uint64_t begin, uint64_t bytes) {
      if (std::memcmp(seen_.data() + begin, shadow(target).data() + begin, bytes) != 0)
        fail(__FILE__, __LINE__, "a strided get did not return what was put");
    });
  }

  // The counter is read and written apart: only the lock keeps its sum right.
  void lock_cycle(int target) {
    const auto index = static_cast<uint32_t>(below(random_, mutexes));
    int64_t value = 0;
    OK(skerry_mutex_lock(mutexes_, target, index));
    OK(skerry_get(segment_, target, locked_at + 64 * index, &value, 8));
    ++value;
    OK(skerry_put(segment_, target, locked_at + 64 * index, &value, 8));
    OK(skerry_mutex_unlock(mutexes_, target, index));
    ++sums(target).locked[index];
  }

  void notify(int target) {
    std::array<unsigned char, notified_bytes> data;
    data.fill(static_cast<unsigned char>(random_()));
    OK(skerry_put_notify(segment_, target, own() + own_bytes - notified_bytes, data.data(),
                         data.size(), notify_at, 1));
    ++sums(target).notified;
  }

  void many_at_once() {
    constexpr size_t count = 12;
    std::array<std::array<int64_t, 100>, count> values;
    std::array<std::array<unsigned char, 3000>, count> read;
    std::array<skerry_handle, count> handles{};
    std::array<int, count> targets;
    for (size_t i = 0; i < count; ++i) {
      const int target = targets[i] = static_cast<int>(
          below(random_, static_cast<uint64_t>(size_)));
      if (i % 3 == 2) {
        OK(skerry_get_nb(segment_, target, own() + 1000 * i, read[i].data(), read[i].size(),
                         &handles[i]));
        continue;
      }
      for (size_t k = 0; k < values[i].size(); ++k)
        sums(target).added[k + 100 * i] += values[i][k] = static_cast<int64_t>(k + i);
      OK(skerry_acc_nb(segment_, target, 800 * i, SKERRY_INT64, nullptr, values[i].data(),
                       values[i].size(), i % 2 == 0 ? &handles[i] : SKERRY_IMPLICIT));
    }
    for (skerry_handle& handle : handles) OK(skerry_wait(job_, &handle));
    OK(skerry_wait_implicit(job_));
    for (size_t i = 2; i < count; i += 3)
      if (std::memcmp(read[i].data(), shadow(targets[i]).data() + 1000 * i, read[i].size()) != 0)
        fail(__FILE__, __LINE__, "a non-blocking get did not return what was put");
  }

  Shared& shared_;
  skerry_job* job_;
  skerry_segment* segment_;
  skerry_mutexes* mutexes_;
  int size_;
  uint64_t index_;  // of this thread, among all of the job
  Random random_;
  std::function<void()> each_;
  std::vector<Sums> sums_;                          // ours, by target
  std::vector<std::vector<unsigned char>> shadow_;  // by target: what our own bytes there must be
  std::vector<unsigned char> seen_;
};

class Storm {
 public:
  Storm(skerry_job* job, uint64_t seed, int threads, std::string directory) {
    shared_.job = job;
    shared_.rank = skerry_rank(job);
    shared_.size = skerry_size(job);
    shared_.threads = threads;
    shared_.directory = std::move(directory);
    const uint64_t origins = static_cast<uint64_t>(shared_.size) * static_cast<uint64_t>(threads);
    OK(skerry_segment_alloc(skerry_world(job), own_at + own_bytes * origins, &shared_.segment));
    OK(skerry_mutexes_create(skerry_world(job), mutexes, &shared_.mutexes));
    for (int thread = 0; thread < threads; ++thread)
      workers_.push_back(std::make_unique<Worker>(shared_, thread, seed));
    workers_[0]->after_each([this] {
      if (report(false) && access((shared_.directory + "/end").c_str(), F_OK) == 0)
        shared_.end.store(true, std::memory_order_relaxed);
    });
    OK(skerry_sync(skerry_world(job)));
  }

  void epoch(uint64_t operations) {
    std::vector<std::thread> threads;
    for (size_t i = 1; i < workers_.size(); ++i)
      threads.emplace_back([this, i, operations] { workers_[i]->run(operations); });
    workers_[0]->run(operations);
    for (std::thread& thread : threads) thread.join();
    check();
    ++epochs_;
    report(true);
  }

  bool told_to_stop() const {
    int64_t stop = shared_.rank == 0 && access((shared_.directory + "/stop").c_str(), F_OK) == 0;
    OK(skerry_broadcast(skerry_world(shared_.job), &stop, sizeof stop, 0));
    return stop != 0;
  }

  void end() {
    OK(skerry_mutexes_free(shared_.mutexes));
    OK(skerry_segment_free(shared_.segment));
  }

 private:
  // All ranks' sums against what lies in our slice.
  void check() {
    OK(skerry_sync(skerry_world(shared_.job)));
    Sums mine;
    for (int target = 0; target < shared_.size; ++target) {
      Sums all = sum_of_threads(target);
      OK(skerry_allreduce(skerry_world(shared_.job), SKERRY_INT64, SKERRY_SUM, &all,
                          sizeof(Sums) / 8));
      if (target == shared_.rank) mine = all;
    }
    const auto* slice = static_cast<const std::byte*>(skerry_segment_local(shared_.segment));
    auto word = [&](uint64_t at) {
      int64_t value = 0;
      std::memcpy(&value, slice + at, 8);
      return value;
    };
    for (uint64_t i = 0; i < elements; ++i) EXPECT_IS(word(i * 8), mine.added[i]);
    const int64_t n = mine.tickets;
    EXPECT_IS(word(ticket_at), n);
    EXPECT_IS(mine.ticket_sum, n * (n - 1) / 2);
    EXPECT_IS(mine.ticket_squares, (n - 1) * n * (2 * n - 1) / 6);
    EXPECT_IS(word(swap_at), mine.swapped_in - mine.swapped_out);
    EXPECT_IS(word(cas_at), mine.cas_won);
    EXPECT_IS(word(notify_at), mine.notified);
    for (uint32_t i = 0; i < mutexes; ++i) EXPECT_IS(word(locked_at + 64 * i), mine.locked[i]);
    OK(skerry_barrier(
        skerry_world(shared_.job)));  // no rank goes on writing while another still checks
  }

  // True if it was time to.
  bool report(bool now) {
    if (shared_.directory.empty()) return false;
    const auto time = std::chrono::steady_clock::now();
    if (!now && time - reported_ < std::chrono::milliseconds(200)) return false;
    reported_ = time;
    const Counted c(shared_.job);
    const std::string name = shared_.directory + "/rank." + std::to_string(shared_.rank),
                      fresh = name + ".new";
    std::ofstream(fresh) << "{\"operations\": " << shared_.operations << ", \"epochs\": " << epochs_
                         << ", \"broken\": " << c["connections_broken"]
                         << ", \"resumed\": " << c["connections_resumed"]
                         << ", \"replayed\": " << c["requests_replayed"]
                         << ", \"opened\": " << c["connections_opened"]
                         << ", \"refused_connections\": " << c["refused_connections"]
                         << ", \"refused_replayed\": " << c["refused_replayed"]
                         << ", \"refused_malformed\": " << c["refused_malformed"]
                         << ", \"refused_crowded_out\": " << c["refused_crowded_out"]
                         << ", \"refused_silent\": " << c["refused_silent"]
                         << ", \"files\": " << open_files()
                         << ", \"resident_kib\": " << resident_kib() << "}\n";
    (void)rename(fresh.c_str(), name.c_str());
    return true;
  }

  Sums sum_of_threads(int target) const {
    Sums all{};
    auto* const total = reinterpret_cast<int64_t*>(&all);
    for (const auto& worker : workers_) {
      const auto* const part = reinterpret_cast<const int64_t*>(&worker->sums(target));
      for (size_t i = 0; i < sizeof(Sums) / 8; ++i) total[i] += part[i];
    }
    return all;
  }

  Shared shared_;
  std::vector<std::unique_ptr<Worker>> workers_;  // the first runs in the rank's main thread
  uint64_t epochs_ = 0;
  std::chrono::steady_clock::time_point reported_{};
};

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 1, epochs = 1, operations = 2000;
  int threads = 1;
  std::string directory;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    if (word == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 0);
    else if (word == "--epochs") epochs = std::strtoull(argv[i + 1], nullptr, 0);
    else if (word == "--operations") operations = std::strtoull(argv[i + 1], nullptr, 0);
    else if (word == "--threads") threads = std::max(1, std::atoi(argv[i + 1]));
    else if (word == "--report") directory = argv[i + 1];
  }
  skerry_job* job = nullptr;
  skerry_options options{};
  options.size = sizeof options;
  options.thread_level = threads > 1 ? SKERRY_THREAD_MULTIPLE : SKERRY_THREAD_SINGLE;
  OK(skerry_init(&options, &job));
  const int rank = skerry_rank(job);
  {
    Storm storm(job, seed, threads, directory);
    for (uint64_t done = 0; epochs == 0 ? !storm.told_to_stop() : done < epochs; ++done)
      storm.epoch(operations);
    storm.end();
  }
  OK(skerry_finalize(job));
  if (rank == 0) std::printf("storm: every sum exact\n");
  return 0;
}
