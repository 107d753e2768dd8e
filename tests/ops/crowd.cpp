// Threads x locks x everything else: each thread draws what it does next. What it counted is
// compared at the end, exactly. Meant for caps, sharing and drops (threads/main.cpp).
#include <array>
#include <atomic>
#include <thread>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

constexpr uint32_t mutexes_a_rank = 3;
constexpr uint64_t guarded_offset = 0;     // a word for each mutex, changed by get and put under it
constexpr uint64_t counted_offset = 64;    // fetch-and-add
constexpr uint64_t summed_offset = 72;     // accumulate
constexpr uint64_t scratch_offset = 4096;  // a block for each thread of the job
constexpr uint64_t scratch_bytes = 4096;

struct Tally {
  std::vector<std::array<std::atomic<int64_t>, mutexes_a_rank>> guarded;
  std::vector<std::atomic<int64_t>> counted, summed;
  explicit Tally(size_t size) : guarded(size), counted(size), summed(size) {}
};

struct Walker {
  Context& context;
  skerry_segment* segment;
  skerry_mutexes* mutexes;
  Tally& tally;
  uint64_t own_offset;
  std::mt19937_64 random;
  std::vector<unsigned char> out, back;

  uint64_t draw(uint64_t bound) { return random() % bound; }
  void guarded(int host) {
    const auto index = static_cast<uint32_t>(draw(mutexes_a_rank));
    const uint64_t offset = guarded_offset + 8 * index;
    int64_t value = 0;
    OK(skerry_mutex_lock(mutexes, host, index));
    OK(skerry_get(segment, host, offset, &value, 8));
    ++value;
    OK(skerry_put(segment, host, offset, &value, 8));
    OK(skerry_mutex_unlock(mutexes, host, index));
    ++tally.guarded[static_cast<size_t>(host)][index];
  }
  void summed(int host) {
    const int64_t one = 1;
    OK(skerry_acc(segment, host, summed_offset, SKERRY_INT64, nullptr, &one, 1));
    ++tally.summed[static_cast<size_t>(host)];
  }
  // What this thread put is what it gets, whatever the connection did in between.
  void put_get(int host) {
    const uint64_t bytes = 1 + draw(scratch_bytes);
    for (uint64_t i = 0; i < bytes; ++i) out[i] = static_cast<unsigned char>(random());
    OK(skerry_put(segment, host, own_offset, out.data(), bytes));
    if (draw(2) == 0) return;
    OK(skerry_get(segment, host, own_offset, back.data(), bytes));
    EXPECT(std::memcmp(out.data(), back.data(), bytes) == 0);
  }
  void run(int steps) {
    out.resize(scratch_bytes);
    back.resize(scratch_bytes);
    for (int i = 0; i < steps; ++i) {
      const int host = static_cast<int>(draw(static_cast<uint64_t>(context.size)));
      switch (draw(8)) {
        case 0:
        case 1:
        case 2: guarded(host); break;
        case 3: summed(host); break;
        case 4:
        case 5: put_get(host); break;
        case 6:
          OK(skerry_fetch_add_i64(segment, host, counted_offset, 1, nullptr));
          ++tally.counted[static_cast<size_t>(host)];
          break;
        case 7:
          if (draw(4) == 0) OK(skerry_fence(context.job, host));
          break;
      }
    }
  }
};

}  // namespace

void run_crowd(Context& c) {
  const auto size = static_cast<size_t>(c.size);
  const uint64_t threads = static_cast<uint64_t>(c.threads);
  skerry_segment* segment = nullptr;
  skerry_mutexes* mutexes = nullptr;
  OK(skerry_segment_alloc(c.world(), scratch_offset + size * threads * scratch_bytes, &segment));
  OK(skerry_mutexes_create(c.world(), mutexes_a_rank, &mutexes));
  Tally tally(size);
  std::vector<std::thread> walkers;
  for (uint64_t k = 0; k < threads; ++k)
    walkers.emplace_back([&, k] {
      const uint64_t id = static_cast<uint64_t>(c.rank) * threads + k;
      Walker{c,
             segment,
             mutexes,
             tally,
             scratch_offset + id * scratch_bytes,
             std::mt19937_64(c.seed * 1000 + id),
             {},
             {}}
          .run(c.rounds > 0 ? c.rounds : 300);
    });
  for (auto& walker : walkers) walker.join();
  OK(skerry_sync(c.world()));
  const auto* const mine = static_cast<const int64_t*>(skerry_segment_local(segment));
  constexpr size_t words = mutexes_a_rank + 2;
  std::vector<int64_t> sent(size * words), all(size * size * words);
  for (size_t host = 0; host < size; ++host) {
    for (size_t k = 0; k < mutexes_a_rank; ++k) sent[host * words + k] = tally.guarded[host][k];
    sent[host * words + mutexes_a_rank] = tally.counted[host];
    sent[host * words + mutexes_a_rank + 1] = tally.summed[host];
  }
  OK(skerry_allgather(c.world(), sent.data(), sent.size() * 8, all.data()));
  int64_t expected[words] = {};
  for (size_t from = 0; from < size; ++from)
    for (size_t k = 0; k < words; ++k)
      expected[k] += all[(from * size + static_cast<size_t>(c.rank)) * words + k];
  for (size_t k = 0; k < mutexes_a_rank; ++k) EXPECT_IS(mine[guarded_offset / 8 + k], expected[k]);
  EXPECT_IS(mine[counted_offset / 8], expected[mutexes_a_rank]);
  EXPECT_IS(mine[summed_offset / 8], expected[mutexes_a_rank + 1]);
  OK(skerry_mutexes_free(mutexes));
  OK(skerry_segment_free(segment));
}

}  // namespace skerry::test
