// Windows: every kind of epoch, contention of readers and writers, and each mistake's error.
#include <skerry/window.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

enum class Memory { allocated, given };

class OwnWindow {
 public:
  OwnWindow(Context& c, uint64_t bytes, uint64_t unit, Memory memory = Memory::allocated) {
    if (memory == Memory::allocated) {
      OK(skerry_window_allocate(c.world(), bytes, unit, &window_));
    } else {
      given_.resize(bytes / 8 + 1);
      OK(skerry_window_create(c.world(), given_.data(), bytes, unit, &window_));
    }
  }
  ~OwnWindow() { OK(skerry_window_free(window_)); }
  operator skerry_window*() const { return window_; }
  int64_t* words() const { return static_cast<int64_t*>(skerry_window_local(window_)); }

 private:
  skerry_window* window_ = nullptr;
  std::vector<int64_t> given_;
};

// A counter and its copy, changed under exclusive locks, read under shared ones: a reader never
// sees them differ.
void check_readers_and_writers(Context& c, Memory memory) {
  OwnWindow w(c, 4096, 8, memory);
  const int turns = c.as_threads ? 10 : 60;
  Random random(c.seed + static_cast<uint64_t>(c.rank));
  int64_t written = 0;
  for (int host = 0; host < c.size; ++host) {
    for (int i = 0; i < turns; ++i) {
      int64_t pair[2] = {-1, -2};
      const bool writes = chance(random, 40);
      OK(skerry_window_lock(w, writes ? SKERRY_LOCK_EXCLUSIVE : SKERRY_LOCK_SHARED, host, 0));
      OK(skerry_window_get(w, host, 4, pair, 16));
      OK(skerry_window_flush(w, host));
      EXPECT_IS(pair[0], pair[1]);
      if (writes) {
        ++pair[0];
        OK(skerry_window_put(w, host, 5, &pair[0], 8));
        OK(skerry_window_put(w, host, 4, &pair[0], 8));
        ++written;
      }
      OK(skerry_window_unlock(w, host));
    }
  }
  OK(skerry_barrier(c.world()));
  int64_t total = 0;
  OK(skerry_window_lock_all(w, 0));
  for (int host = 0; host < c.size; ++host) {
    int64_t value = 0;
    OK(skerry_window_get(w, host, 4, &value, 8));
    OK(skerry_window_flush_local(w, host));
    total += value;
  }
  OK(skerry_window_unlock_all(w));
  OK(skerry_allreduce(c.world(), SKERRY_INT64, SKERRY_SUM, &written, 1));
  EXPECT_IS(total, written);
  OK(skerry_barrier(c.world()));
}

// Reads and then writes: two at once would lose a count.
void increment_alone(skerry_window* w, int host, uint64_t word) {
  int64_t value = 0;
  OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
  OK(skerry_window_get(w, host, word, &value, 8));
  OK(skerry_window_flush(w, host));
  ++value;
  OK(skerry_window_put(w, host, word, &value, 8));
  OK(skerry_window_unlock(w, host));
}

// Two ranks inside lock_all touch the same two members in opposite order, two others want each of
// them alone: they waited for each other for ever. (With the other protocols of SKERRY_LOCK they
// still may: docs/windows.md, "Known limits".)
void check_opposite_orders(Context& c, Memory memory) {
  if (!c.fair_locks) return;
  OwnWindow w(c, 64, 8, memory);
  OK(skerry_barrier(c.world()));
  const int turns = c.as_threads ? 20 : 200;
  for (int i = 0; i < turns && c.size >= 4; ++i) {
    const int first = c.rank % 2;
    int64_t value = 0, again = 0;
    if (c.rank < 2) {
      OK(skerry_window_lock_all(w, 0));
      for (const int host : {first, 1 - first, first}) {
        OK(skerry_window_get(w, host, 0, &value, 8));
        OK(skerry_window_flush(w, host));
        OK(skerry_window_get(w, host, 0, &again, 8));
        OK(skerry_window_flush(w, host));
        EXPECT_IS(value, again);
      }
      OK(skerry_window_unlock_all(w));
    } else {
      increment_alone(w, first, 0);
    }
  }
  OK(skerry_barrier(c.world()));
  int64_t total = 0;
  OK(skerry_window_lock(w, SKERRY_LOCK_SHARED, 0, 0));
  OK(skerry_window_get(w, 0, 0, &total, 8));
  OK(skerry_window_unlock(w, 0));
  EXPECT_IS(total, c.size >= 4 ? int64_t{turns} * ((c.size - 1) / 2) : 0);
  OK(skerry_barrier(c.world()));
}

// Epochs of one short access, which travel whole: a pair of equal words is written and read under
// contention, and nobody sees half of it.
void check_single_accesses(Context& c, Memory memory) {
  OwnWindow w(c, 4096, 1, memory);
  const int turns = c.as_threads ? 20 : 150;
  Random random(c.seed + static_cast<uint64_t>(c.rank));
  for (int i = 0; i < turns; ++i) {
    const int host = static_cast<int>(below(random, static_cast<uint64_t>(c.size)));
    const bool writes = chance(random, 50);
    int64_t block[64];
    std::fill(block, block + 64, int64_t{c.rank} * 1000 + i);
    OK(skerry_window_lock(w, writes ? SKERRY_LOCK_EXCLUSIVE : SKERRY_LOCK_SHARED, host, 0));
    if (writes) OK(skerry_window_put(w, host, 40, block, sizeof block));
    else OK(skerry_window_get(w, host, 40, block, sizeof block));
    if (chance(random, 10)) OK(skerry_window_flush(w, host));
    OK(skerry_window_unlock(w, host));
    for (int64_t word : block) EXPECT_IS(word, block[0]);
  }
  OK(skerry_barrier(c.world()));
}

// What unlock and flush promise: the next holder, and the target itself, see everything.
void check_completion(Context& c, Memory memory) {
  const uint64_t bytes = 300'000;  // in several messages
  OwnWindow w(c, bytes, 1, memory);
  const int host = (c.rank + 1) % c.size;
  std::vector<unsigned char> block(bytes), back(bytes);
  for (size_t i = 0; i < block.size(); ++i)
    block[i] = static_cast<unsigned char>(i * 7 + static_cast<size_t>(c.rank));
  OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
  OK(skerry_window_put(w, host, 0, block.data(), bytes));
  OK(skerry_window_flush(w, host));
  std::vector<unsigned char> copy = block;
  std::fill(block.begin(), block.end(), 0);  // flushed: the buffer is ours again
  OK(skerry_window_get(w, host, 0, back.data(), bytes));
  OK(skerry_window_unlock(w, host));
  EXPECT(back == copy);
  skerry_handle handle = 0;
  OK(skerry_window_lock(w, SKERRY_LOCK_SHARED, host, SKERRY_NO_CHECK));
  OK(skerry_window_put_nb(w, host, 8, copy.data(), 64, &handle));
  OK(skerry_wait(c.job, &handle));
  OK(skerry_window_get_nb(w, host, 8, back.data(), 64, &handle));
  OK(skerry_window_flush_local(w, host));  // of request-based ones, too
  EXPECT(std::equal(copy.begin(), copy.begin() + 64, back.begin()));
  OK(skerry_wait(c.job, &handle));
  EXPECT(std::equal(copy.begin(), copy.begin() + 64, back.begin()));
  OK(skerry_window_unlock(w, host));
  OK(skerry_barrier(c.world()));
}

void check_fences(Context& c, Memory memory) {
  OwnWindow w(c, 64 * static_cast<uint64_t>(c.size), 8, memory);
  for (int round = 0; round < 4; ++round) {
    OK(skerry_window_fence(w, round == 0 ? SKERRY_NO_PRECEDE : 0));
    const int64_t value = c.rank * 100 + round;
    for (int host = 0; host < c.size; ++host)
      OK(skerry_window_put(w, host, static_cast<uint64_t>(8 * c.rank), &value, 8));
    OK(skerry_window_fence(w, round == 3 ? SKERRY_NO_SUCCEED : 0));
    for (int from = 0; from < c.size; ++from) EXPECT_IS(w.words()[8 * from], from * 100 + round);
  }
  int64_t value = 0;
  EXPECT_ERROR(skerry_window_get(w, 0, 0, &value, 8), SKERRY_ERR_INVALID, "outside an epoch");
  OK(skerry_barrier(c.world()));
}

// Rings of post, start, complete, wait: to the right, then to both sides; and a group of none.
void check_post_start(Context& c, Memory memory) {
  OwnWindow w(c, 128, 8, memory);
  const int right = (c.rank + 1) % c.size, left = (c.rank + c.size - 1) % c.size;
  for (int round = 0; round < 20; ++round) {
    w.words()[0] = -1;
    OK(skerry_window_post(w, &left, 1, 0));
    OK(skerry_window_start(w, &right, 1, 0));
    const int64_t value = c.rank + 1000 * round;
    OK(skerry_window_put(w, right, 0, &value, 8));
    OK(skerry_window_complete(w));
    if (round % 2 == 0) {
      OK(skerry_window_wait(w));
    } else {
      for (int done = 0; done == 0;) OK(skerry_window_test(w, &done));
    }
    EXPECT_IS(w.words()[0], left + 1000 * round);
  }
  if (c.size > 2) {
    const int both[2] = {left, right};
    OK(skerry_window_post(w, both, 2, 0));
    OK(skerry_window_start(w, both, 2, 0));
    const int64_t value = c.rank;
    OK(skerry_window_put(w, left, 1, &value, 8));
    OK(skerry_window_put(w, right, 2, &value, 8));
    EXPECT_ERROR(skerry_window_put(w, c.rank, 1, &value, 8), SKERRY_ERR_INVALID,
                 "does not cover it");
    OK(skerry_window_complete(w));
    OK(skerry_window_wait(w));
    EXPECT_IS(w.words()[1], int64_t{right});
    EXPECT_IS(w.words()[2], int64_t{left});
  }
  // A rank named twice would be waited for twice, and answers once: start hung.
  const int twice[3] = {right, c.rank, right};
  EXPECT_ERROR(skerry_window_post(w, twice, 3, 0), SKERRY_ERR_INVALID, "in the group twice");
  EXPECT_ERROR(skerry_window_start(w, twice, 3, 0), SKERRY_ERR_INVALID, "in the group twice");
  OK(skerry_window_post(w, nullptr, 0, 0));
  OK(skerry_window_start(w, nullptr, 0, 0));
  OK(skerry_window_complete(w));
  OK(skerry_window_wait(w));
  OK(skerry_barrier(c.world()));
}

// The first put of an epoch may go with its complete: also then accesses to one rank are done in
// order, and what is too long for that, or not alone, arrives as well.
void check_order_in_start(Context& c, Memory memory) {
  OwnWindow w(c, 128, 8, memory);
  const int right = (c.rank + 1) % c.size, left = (c.rank + c.size - 1) % c.size;
  int64_t values[16] = {};
  // With checks a second put to the same bytes is a conflict: MPI promises no order.
  const int rounds = std::getenv("SKERRY_CHECK") == nullptr ? 12 : 8;
  for (int round = 0; round < rounds; ++round) {
    std::fill_n(w.words(), 16, -1);
    for (int i = 0; i < 16; ++i) values[i] = 1000 * round + 10 * c.rank + i;
    const int64_t theirs = 1000 * round + 10 * left;
    const auto words = static_cast<uint64_t>(1 + round % 8);
    int64_t seen = 0, one = 1;
    OK(skerry_window_post(w, &left, 1, 0));
    OK(skerry_window_start(w, &right, 1, 0));
    OK(skerry_window_put(w, right, 1, values, 8 * words));
    if (round >= 8) {
      OK(skerry_window_put(w, right, 1, values + 9, 8));
      OK(skerry_window_get(w, right, 1, &seen, 8));
      OK(skerry_window_put(w, right, 2, values + 5, 8));
      OK(skerry_window_update(w, right, 2, SKERRY_INT64, SKERRY_SUM, &one, 1));
    }
    OK(skerry_window_complete(w));
    if (round >= 8) EXPECT_IS(seen, values[9]);
    OK(skerry_window_wait(w));
    EXPECT_IS(w.words()[0], int64_t{-1});
    EXPECT_IS(w.words()[1], theirs + (round >= 8 ? 9 : 0));
    if (round >= 8) EXPECT_IS(w.words()[2], theirs + 6);
    for (uint64_t i = round >= 8 ? 2 : 1; i < words; ++i)
      EXPECT_IS(w.words()[1 + i], theirs + static_cast<int64_t>(i));
    EXPECT_IS(w.words()[10], int64_t{-1});
  }
  OK(skerry_barrier(c.world()));
}

// Every rank updates every other's words with several types and operations, at once; sums, products
// of signs, minima and bits come out as if one rank had done it all.
void check_updates(Context& c, Memory memory) {
  OwnWindow w(c, 4096, 8, memory);
  const int turns = c.as_threads ? 5 : 25;
  std::vector<double> ones(300, 1.0), before(300);
  w.words()[500] = INT64_MAX;
  OK(skerry_barrier(c.world()));
  for (int i = 0; i < turns; ++i) {
    for (int host = 0; host < c.size; ++host) {
      const int64_t one = 1, bit = int64_t{1} << c.rank, small = c.rank - 100 * i;
      const int16_t step = 1;
      int64_t old = -1;
      OK(skerry_window_lock(w, SKERRY_LOCK_SHARED, host, 0));
      OK(skerry_window_update(w, host, 0, SKERRY_DOUBLE, SKERRY_SUM, ones.data(), 300));
      OK(skerry_window_update(w, host, 400, SKERRY_INT16, SKERRY_SUM, &step, 1));
      OK(skerry_window_update(w, host, 401, SKERRY_INT64, SKERRY_BOR, &bit, 1));
      OK(skerry_window_update(w, host, 500, SKERRY_INT64, SKERRY_MIN, &small, 1));
      OK(skerry_window_fetch_update(w, host, 402, SKERRY_INT64, SKERRY_SUM, &one, &old, 1));
      OK(skerry_window_fetch_update(w, host, 0, SKERRY_DOUBLE, SKERRY_NO_OP, nullptr, before.data(),
                                    300));
      OK(skerry_window_unlock(w, host));
      EXPECT(old >= i && old < int64_t{turns} * c.size);
      EXPECT(before[0] >= i + 1 && before[299] >= i + 1);
      // An epoch of one update, and of one that fetches: whole in one message.
      OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
      OK(skerry_window_update(w, host, 403, SKERRY_INT64, SKERRY_SUM, &one, 1));
      OK(skerry_window_unlock(w, host));
      OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
      OK(skerry_window_fetch_update(w, host, 403, SKERRY_INT64, SKERRY_SUM, &one, &old, 1));
      OK(skerry_window_unlock(w, host));
      EXPECT(old >= 2 * i + 1);
      for (;;) {  // a counter by compare-and-swap
        const int64_t more = old + 1;
        int64_t found = 0;
        OK(skerry_window_lock(w, SKERRY_LOCK_SHARED, host, 0));
        OK(skerry_window_compare_swap(w, host, 404, SKERRY_INT64, &old, &more, &found));
        OK(skerry_window_unlock(w, host));
        if (found == old) break;
        old = found;
      }
    }
  }
  OK(skerry_window_fence(w, 0));
  const int64_t all = int64_t{turns} * c.size;
  double sums[300];
  std::memcpy(sums, w.words(), sizeof sums);
  for (double sum : sums) EXPECT_IS(sum, static_cast<double>(all));
  int16_t narrow = 0;
  std::memcpy(&narrow, &w.words()[400], 2);
  EXPECT_IS(narrow, static_cast<int16_t>(all));
  EXPECT_IS(w.words()[401], (int64_t{1} << c.size) - 1);
  EXPECT_IS(w.words()[402], all);
  EXPECT_IS(w.words()[403], 2 * all);
  EXPECT_IS(w.words()[404], all);
  EXPECT_IS(w.words()[500], int64_t{-100} * (turns - 1));
  OK(skerry_window_fence(w, SKERRY_NO_SUCCEED));
}

// Does `address` lie in memory of this process that Skerry shares?
bool is_shared_memory(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 &&
        begin <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < end)
      return line.find("memfd:") != std::string::npos;
  }
  return false;
}

// Given memory keeps its address and contents, whether its whole pages are moved
// (SKERRY_MOVE_GIVEN) or not; accesses may cross from pages that stay into pages that moved.
void check_given_memory(Context& c) {
  constexpr uint64_t page = 4096, words = 5 * page / 8;
  std::vector<int64_t> memory(words + 3);
  int64_t* const mine = memory.data() + 3;
  for (uint64_t i = 0; i < words; ++i) mine[i] = static_cast<int64_t>(i);
  skerry_window* w = nullptr;
  OK(skerry_window_create(c.world(), mine, words * 8, 8, &w));
  const char* const moves = std::getenv("SKERRY_MOVE_GIVEN");
  EXPECT_IS(is_shared_memory(mine + words / 2), moves != nullptr && std::string(moves) == "1");
  EXPECT(skerry_window_local(w) == mine);
  for (uint64_t i = 0; i < words; ++i) EXPECT_IS(mine[i], static_cast<int64_t>(i));
  OK(skerry_barrier(c.world()));
  const int host = (c.rank + 1) % c.size;
  const std::vector<int64_t> tens(words, 10), hundreds(2, 100);
  std::vector<int64_t> got(words);
  OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
  OK(skerry_window_update(w, host, 0, SKERRY_INT64, SKERRY_SUM, tens.data(), words));
  OK(skerry_window_flush(w, host));
  for (uint64_t at = 0; at + 2 <= words; at += 37)
    OK(skerry_window_put(w, host, at, hundreds.data(), 16));
  OK(skerry_window_flush(w, host));
  for (uint64_t at = 0; at < words; at += 37) {
    int64_t old = 0;
    OK(skerry_window_fetch_update(w, host, at, SKERRY_INT64, SKERRY_MAX, &tens[0], &old, 1));
    OK(skerry_window_flush(w, host));
    EXPECT_IS(old, int64_t{at + 2 <= words ? 100 : static_cast<int64_t>(at) + 10});
  }
  OK(skerry_window_get(w, host, 0, got.data(), words * 8));
  OK(skerry_window_unlock(w, host));
  EXPECT(skerry_window_pointer(w, host) == nullptr);
  OK(skerry_barrier(c.world()));
  EXPECT(std::equal(got.begin(), got.end(), mine));  // the left neighbour has done the same here
  OK(skerry_window_free(w));
  EXPECT(!is_shared_memory(mine + words / 2));
  for (uint64_t i = 0; i < words; ++i) {
    const bool put = i % 37 < 2 && i / 37 * 37 + 2 <= words;
    EXPECT_IS(mine[i], put ? int64_t{100} : static_cast<int64_t>(i) + 10);
  }
  EXPECT_IS(memory[2], 0);
}

// Still open when the job ends, which gives the memory back to the program.
void leave_open(Context& c) {
  static std::vector<int64_t> memory(4096, 7);
  skerry_window* w = nullptr;
  OK(skerry_window_create(c.world(), memory.data(), memory.size() * 8, 8, &w));
}

// Memory that comes and goes; its address is the displacement.
void check_dynamic(Context& c) {
  skerry_window* w = nullptr;
  OK(skerry_window_create_dynamic(c.world(), &w));
  std::vector<int64_t> first(200'000), second(10);
  int64_t mine[2] = {7, 0};
  EXPECT_ERROR(skerry_window_detach(w, first.data()), SKERRY_ERR_INVALID, "nothing is attached");
  OK(skerry_window_attach(w, second.data(), 80));
  OK(skerry_window_attach(w, first.data(), first.size() * 8));
  OK(skerry_window_attach(w, mine, 16));
  EXPECT_ERROR(skerry_window_attach(w, &first[5], 8), SKERRY_ERR_INVALID, "overlap");
  EXPECT_ERROR(skerry_window_attach(w, nullptr, 8), SKERRY_ERR_INVALID, "are no memory");
  OK(skerry_window_attach(w, &first[5], 0));  // nothing, also inside what is attached
  OK(skerry_window_detach(w, &first[5]));
  EXPECT_ERROR(skerry_window_detach(w, &first[5]), SKERRY_ERR_INVALID, "nothing is attached");
  struct Told {
    uint64_t first, second, mine;
  };
  const Told told{reinterpret_cast<uint64_t>(first.data()),
                  reinterpret_cast<uint64_t>(second.data()), reinterpret_cast<uint64_t>(mine)};
  std::vector<Told> all(static_cast<size_t>(c.size));
  OK(skerry_allgather(c.world(), &told, sizeof told, all.data()));
  const int host = (c.rank + 1) % c.size, left = (c.rank + c.size - 1) % c.size;
  const Told& there = all[static_cast<size_t>(host)];
  std::vector<int64_t> data(first.size(), c.rank + 1), back(first.size());
  const int64_t one = 1;
  OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
  OK(skerry_window_put(w, host, there.first, data.data(), data.size() * 8));
  OK(skerry_window_put(w, host, there.second + 72, &data[0], 8));
  OK(skerry_window_update(w, host, there.mine, SKERRY_INT64, SKERRY_SUM, &one, 1));
  OK(skerry_window_flush(w, host));
  OK(skerry_window_get(w, host, there.first, back.data(), back.size() * 8));
  OK(skerry_window_unlock(w, host));
  EXPECT(back == data);
  // Outside: told at once on this node, at the end of the epoch elsewhere.
  OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
  const int status = skerry_window_put(w, host, there.second + 76, &one, 8);
  const int later = skerry_window_unlock(w, host);
  EXPECT((status == SKERRY_ERR_RANGE) != (later == SKERRY_ERR_RANGE));
  OK(skerry_barrier(c.world()));
  EXPECT_IS(first.back(), int64_t{left + 1});
  EXPECT_IS(second[9], int64_t{left + 1});
  EXPECT_IS(mine[0], int64_t{8});
  OK(skerry_window_detach(w, first.data()));
  EXPECT_ERROR(skerry_window_detach(w, first.data()), SKERRY_ERR_INVALID, "nothing is attached");
  OK(skerry_barrier(c.world()));
  OK(skerry_window_free(w));
}

// A transfer of no bytes touches nothing: it succeeds where a dynamic window has no memory.
void check_no_bytes(Context& c) {
  skerry_window* w = nullptr;
  OK(skerry_window_create_dynamic(c.world(), &w));
  for (int host = 0; host < c.size; ++host) {
    OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
    OK(skerry_window_put(w, host, 0, nullptr, 0));
    OK(skerry_window_unlock(w, host));
    OK(skerry_window_lock(w, SKERRY_LOCK_SHARED, host, 0));
    OK(skerry_window_get(w, host, 64, nullptr, 0));
    OK(skerry_window_update(w, host, 64, SKERRY_INT64, SKERRY_SUM, nullptr, 0));
    OK(skerry_window_flush(w, host));
    OK(skerry_window_put(w, host, 0, nullptr, 0));
    OK(skerry_window_get(w, host, 0, nullptr, 0));
    OK(skerry_window_unlock(w, host));
  }
  OK(skerry_barrier(c.world()));
  OK(skerry_window_free(w));
}

// An access that its target refuses is told to its origin alone: the target's wait still ends.
void check_refused_in_start(Context& c) {
  skerry_window* w = nullptr;
  int64_t word = 5, got = 0;
  OK(skerry_window_create_dynamic(c.world(), &w));
  OK(skerry_window_attach(w, &word, 8));
  const int left = (c.rank + c.size - 1) % c.size, right = (c.rank + 1) % c.size;
  OK(skerry_window_post(w, &left, 1, 0));
  OK(skerry_window_start(w, &right, 1, 0));
  const int status = skerry_window_get(w, right, 8, &got, 8);
  const std::string at_once = status == SKERRY_OK ? "" : skerry_last_error();
  const int later = skerry_window_complete(w);
  const std::string told = status == SKERRY_OK ? skerry_last_error() : at_once;
  EXPECT((status == SKERRY_ERR_RANGE) != (later == SKERRY_ERR_RANGE));
  EXPECT(told.find("gave") != std::string::npos);
  OK(skerry_window_wait(w));
  EXPECT_IS(got, int64_t{0});
  OK(skerry_barrier(c.world()));
  OK(skerry_window_free(w));
}

// Locks of several members at a time, in one order everywhere, but accessed in any: a lock that is
// taken at the first access would make ranks wait for each other for ever. So would one of another
// window.
void check_lock_order(Context& c) {
  if (c.size < 2) return;
  OwnWindow one(c, 64, 8), two(c, 64, 8);
  skerry_window* const windows[] = {one, two};
  const int hosts[] = {0, c.size - 1};
  const int turns = c.as_threads ? 10 : 100;
  Random random(c.seed + static_cast<uint64_t>(c.rank));
  const int64_t mine = 1;
  for (int i = 0; i < turns; ++i) {
    for (skerry_window* w : windows)
      for (int host : hosts) OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
    int64_t seen[4] = {};
    for (uint64_t first = below(random, 4), k = 0; k < 4; ++k) {
      skerry_window* const w = windows[(first + k) / 2 % 2];
      const int host = hosts[(first + k) % 2];
      OK(skerry_window_put(w, host, 0, &mine, 8));
      if (chance(random, 50)) OK(skerry_window_flush(w, host));
      OK(skerry_window_get(w, host, 1, &seen[k], 8));
    }
    for (skerry_window* w : windows)
      for (int host : hosts) OK(skerry_window_unlock(w, host));
  }
  OK(skerry_barrier(c.world()));
}

// A window's lock and a mutex inside it, in one order everywhere: once a rank had the mutex before
// the lock, if the lock's owner was elsewhere, and the owner got the lock and waited for the mutex.
void check_lock_before_mutex(Context& c) {
  OwnWindow w(c, 64, 8);
  skerry_mutexes* mutexes = nullptr;
  OK(skerry_mutexes_create(c.world(), 1, &mutexes));
  const int first = c.size - 1, turns = c.as_threads ? 5 : 50;
  for (int i = 0; i < turns; ++i) {
    int64_t value = 0;
    if (c.rank != first) OK(skerry_barrier(c.world()));  // then it has both
    OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, 0, 0));
    OK(skerry_mutex_lock(mutexes, 0, 0));
    if (c.rank == first) OK(skerry_barrier(c.world()));
    OK(skerry_window_get(w, 0, 0, &value, 8));
    OK(skerry_window_flush(w, 0));
    ++value;
    OK(skerry_window_put(w, 0, 0, &value, 8));
    OK(skerry_window_flush(w, 0));
    OK(skerry_mutex_unlock(mutexes, 0, 0));
    OK(skerry_window_unlock(w, 0));
    OK(skerry_barrier(c.world()));
  }
  if (c.rank == 0) EXPECT_IS(w.words()[0], int64_t{turns} * c.size);
  OK(skerry_mutexes_free(mutexes));
}

// An epoch of one short put is one request, also if the put has a handle, as Python's has: three
// requests once.
void check_requests_of_an_epoch(Context& c) {
  if (c.nodes < 2 || c.threads > 1) return;  // threads: the lock comes first, by itself
  OwnWindow w(c, 64, 8);
  constexpr int64_t epochs = 200;
  const auto requests = [&] {  // of all data servers
    int64_t sum = 0;
    OK(skerry_sync(c.world()));
    const Counted counted(c.job);
    if (counted.status() == SKERRY_OK) sum = static_cast<int64_t>(counted["server_requests"]);
    OK(skerry_allreduce(c.world(), SKERRY_INT64, SKERRY_SUM, &sum, 1));
    return sum;
  };
  const int64_t before = requests();
  const int64_t of_asking = requests() - before;
  if (c.rank == 0) {
    const int far = c.size - 1;
    for (int64_t i = 0; i < epochs; ++i) {
      skerry_handle handle = 0;
      OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, far, 0));
      if (i % 2 == 0) OK(skerry_window_put_nb(w, far, 0, &i, 8, &handle));
      else OK(skerry_window_update_nb(w, far, 1, SKERRY_INT64, SKERRY_SUM, &i, 1, &handle));
      OK(skerry_wait(c.job, &handle));
      OK(skerry_window_unlock(w, far));
    }
  }
  const int64_t of_epochs = requests() - before - of_asking;
  if (c.fair_locks) EXPECT(of_epochs - of_asking < epochs * 3 / 2);
  if (c.rank == c.size - 1) {
    EXPECT_IS(w.words()[0], epochs - 2);
    EXPECT_IS(w.words()[1], epochs / 2 * (epochs / 2));
  }
}

// The first updates of an epoch may go another way than those that follow. All are in order.
void check_many_updates(Context& c, Memory memory) {
  OwnWindow w(c, 64, 8, memory);
  const int host = (c.rank + 1) % c.size;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
    for (int64_t i = 0; i < 12; ++i) {
      const int64_t one = 1, ten = 10 * i;
      int64_t before = -1, seen = -1, back = -1;
      OK(skerry_window_put(w, host, 0, &ten, 8));
      OK(skerry_window_flush(w, host));
      OK(skerry_window_update(w, host, 0, SKERRY_INT64, SKERRY_SUM, &one, 1));
      OK(skerry_window_fetch_update(w, host, 0, SKERRY_INT64, SKERRY_SUM, &one, &before, 1));
      OK(skerry_window_flush(w, host));
      EXPECT_IS(before, ten + 1);
      const int64_t expected = ten + 2, wanted = ten + 3;
      OK(skerry_window_compare_swap(w, host, 0, SKERRY_INT64, &expected, &wanted, &seen));
      EXPECT_IS(seen, expected);
      OK(skerry_window_update(w, host, 1, SKERRY_INT64, SKERRY_SUM, &one, 1));
      OK(skerry_window_flush(w, host));
      OK(skerry_window_get(w, host, 0, &back, 8));
      OK(skerry_window_flush(w, host));
      EXPECT_IS(back, wanted);
    }
    OK(skerry_window_unlock(w, host));
  }
  OK(skerry_barrier(c.world()));
  OK(skerry_window_lock(w, SKERRY_LOCK_SHARED, c.rank, 0));
  EXPECT_IS(w.words()[1], int64_t{36});
  OK(skerry_window_unlock(w, c.rank));
  OK(skerry_barrier(c.world()));
}

void check_mistakes(Context& c) {
  int64_t word = 42;
  skerry_window* none = nullptr;
  EXPECT_ERROR(skerry_window_allocate(c.world(), 8, 0, &none), SKERRY_ERR_INVALID, "unit is 0");
  OwnWindow w(c, 64, 8);
  for (int host = 0; host < c.size; host += c.size > 1 ? c.size - 1 : 1) {
    EXPECT_ERROR(skerry_window_put(w, host, 0, &word, 8), SKERRY_ERR_INVALID, "outside an epoch");
    EXPECT_ERROR(skerry_window_unlock(w, host), SKERRY_ERR_INVALID, "has not locked");
    EXPECT_ERROR(skerry_window_flush(w, host), SKERRY_ERR_INVALID, "has not locked");
    EXPECT_ERROR(skerry_window_flush_all(w), SKERRY_ERR_INVALID, "needs lock or lock_all");
    EXPECT_ERROR(skerry_window_flush_local(w, host), SKERRY_ERR_INVALID, "has not locked");
    EXPECT_ERROR(skerry_window_flush_local_all(w), SKERRY_ERR_INVALID, "needs lock or lock_all");
    EXPECT_ERROR(skerry_window_lock(w, 7, host, 0), SKERRY_ERR_INVALID, "mode 7");
    EXPECT_ERROR(skerry_window_lock(w, 0, host, 4), SKERRY_ERR_INVALID, "promises 4");
    OK(skerry_window_lock(w, SKERRY_LOCK_SHARED, host, 0));
    EXPECT_ERROR(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0), SKERRY_ERR_INVALID,
                 "cannot become an exclusive one");
    EXPECT_ERROR(skerry_window_lock_all(w, 0), SKERRY_ERR_INVALID, "inside a lock epoch");
    EXPECT_ERROR(skerry_window_fence(w, 0), SKERRY_ERR_INVALID, "inside a lock epoch");
    EXPECT_ERROR(skerry_window_start(w, &host, 1, 0), SKERRY_ERR_INVALID, "inside a lock epoch");
    EXPECT_ERROR(skerry_window_free(w), SKERRY_ERR_INVALID, "inside a lock epoch");
    EXPECT_ERROR(skerry_window_get(w, host, 8, &word, 1), SKERRY_ERR_RANGE,
                 "displacement 8 (unit 8) lie outside the 64 bytes");
    EXPECT_ERROR(skerry_window_put(w, host, ~uint64_t{0}, &word, 8), SKERRY_ERR_RANGE, "outside");
    EXPECT_ERROR(skerry_window_put(w, host, 0, nullptr, 8), SKERRY_ERR_INVALID, "origin");
    EXPECT_ERROR(skerry_window_update(w, host, 0, SKERRY_DOUBLE, SKERRY_BXOR, &word, 1),
                 SKERRY_ERR_INVALID, "double");
    EXPECT_ERROR(skerry_window_update(w, host, 0, 99, SKERRY_SUM, &word, 1), SKERRY_ERR_INVALID,
                 "type 99");
    EXPECT_ERROR(skerry_window_fetch_update(w, host, 0, SKERRY_INT64, 77, &word, &word, 1),
                 SKERRY_ERR_INVALID, "operation 77");
    EXPECT_ERROR(skerry_window_fetch_update(w, host, 0, SKERRY_INT64, SKERRY_SUM, &word, &word, 1),
                 SKERRY_ERR_INVALID, "origin and result overlap");
    EXPECT_ERROR(skerry_window_compare_swap(w, host, 0, SKERRY_DOUBLE, &word, &word, &word),
                 SKERRY_ERR_INVALID, "give an integer type");
    OK(skerry_window_put(w, host, 0, nullptr, 0));
    OK(skerry_window_unlock(w, host));
    EXPECT_ERROR(skerry_window_unlock(w, host), SKERRY_ERR_INVALID, "has not locked");
    OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
    EXPECT_ERROR(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0), SKERRY_ERR_INVALID,
                 "again: unlock it first");
    EXPECT_ERROR(skerry_window_flush(w, c.size), SKERRY_ERR_INVALID, "does not exist");
    OK(skerry_window_unlock(w, host));
    OK(skerry_window_lock_all(w, 0));
    EXPECT_ERROR(skerry_window_lock(w, 0, host, 0), SKERRY_ERR_INVALID, "inside a lock_all epoch");
    EXPECT_ERROR(skerry_window_unlock(w, host), SKERRY_ERR_INVALID, "has not locked");
    OK(skerry_window_unlock_all(w));
  }
  EXPECT_ERROR(skerry_window_lock(w, 0, c.size, 0), SKERRY_ERR_INVALID, "does not exist");
  EXPECT_ERROR(skerry_window_unlock_all(w), SKERRY_ERR_INVALID, "without lock_all");
  EXPECT_ERROR(skerry_window_complete(w), SKERRY_ERR_INVALID, "without start");
  EXPECT_ERROR(skerry_window_wait(w), SKERRY_ERR_INVALID, "without post");
  EXPECT_IS(word, 42);
  OK(skerry_barrier(c.world()));
}

// Displacements count in the target's units; elements must be aligned there, and nothing wraps.
void check_units(Context& c) {
  OwnWindow bytes(c, 64, 1), odd(c, 63, 9);
  const int host = (c.rank + 1) % c.size;
  int64_t word = 1;
  for (skerry_window* w : {static_cast<skerry_window*>(bytes), static_cast<skerry_window*>(odd)})
    OK(skerry_window_lock(w, SKERRY_LOCK_SHARED, host, 0));
  EXPECT_ERROR(skerry_window_update(bytes, host, 4, SKERRY_INT64, SKERRY_SUM, &word, 1),
               SKERRY_ERR_INVALID, "byte 4 of the target's memory is not a multiple of 8");
  EXPECT_ERROR(skerry_window_compare_swap(bytes, host, 2, SKERRY_INT32, &word, &word, &word),
               SKERRY_ERR_INVALID, "not a multiple of 4");
  EXPECT_ERROR(skerry_window_get(bytes, host, 57, &word, 8), SKERRY_ERR_RANGE,
               "at byte 57 lie outside the 64 bytes");
  EXPECT_ERROR(skerry_window_get(odd, host, 7, &word, 1), SKERRY_ERR_RANGE, "(unit 9)");
  EXPECT_ERROR(skerry_window_put(odd, host, UINT64_MAX / 9 + 1, &word, 1), SKERRY_ERR_RANGE,
               "outside");
  OK(skerry_window_get(odd, host, 6, &word, 8));
  OK(skerry_window_unlock(odd, host));
  OK(skerry_window_unlock(bytes, host));
  OwnWindow nothing(c, 0, 8);
  OK(skerry_window_lock_all(nothing, 0));
  EXPECT_ERROR(skerry_window_put(nothing, host, 0, &word, 1), SKERRY_ERR_RANGE,
               "outside the 0 bytes");
  OK(skerry_window_put(nothing, host, 0, nullptr, 0));
  OK(skerry_window_unlock_all(nothing));
  EXPECT(skerry_window_local(nothing) == nullptr);
}

void check_life(Context& c) {
  // Many, some of no bytes, of different units; queries.
  std::vector<skerry_window*> windows(c.as_threads ? 8 : 40);
  for (size_t i = 0; i < windows.size(); ++i) {
    const uint64_t unit = 1 + static_cast<uint64_t>(c.rank) % 3;
    const uint64_t bytes = (i + static_cast<uint64_t>(c.rank)) % 3 * 100;
    OK(skerry_window_allocate(c.world(), bytes, unit, &windows[i]));
    for (int host = 0; host < c.size; ++host) {
      EXPECT_IS(skerry_window_bytes(windows[i], host), (i + static_cast<uint64_t>(host)) % 3 * 100);
      EXPECT_IS(skerry_window_unit(windows[i], host), 1 + static_cast<uint64_t>(host) % 3);
      EXPECT((skerry_window_pointer(windows[i], host) != nullptr) ==
             (skerry_same_node(c.job, host) == 1 && skerry_window_bytes(windows[i], host) > 0));
    }
    EXPECT(skerry_window_bytes(windows[i], c.size) == 0);
    EXPECT(skerry_window_group(windows[i]) == c.world());
  }
  for (skerry_window* window : windows) OK(skerry_window_free(window));
  // Every call knows a freed window.
  skerry_window* const gone = windows[0];
  int64_t word = 0;
  int done = 0;
  skerry_handle handle = 0;
  const int host = c.rank;
  const int answers[] = {
      skerry_window_lock(gone, 0, 0, 0),
      skerry_window_unlock(gone, 0),
      skerry_window_lock_all(gone, 0),
      skerry_window_unlock_all(gone),
      skerry_window_flush(gone, 0),
      skerry_window_flush_all(gone),
      skerry_window_flush_local(gone, 0),
      skerry_window_flush_local_all(gone),
      skerry_window_sync(gone),
      skerry_window_fence(gone, 0),
      skerry_window_post(gone, &host, 1, 0),
      skerry_window_start(gone, &host, 1, 0),
      skerry_window_complete(gone),
      skerry_window_wait(gone),
      skerry_window_test(gone, &done),
      skerry_window_attach(gone, &word, 8),
      skerry_window_detach(gone, &word),
      skerry_window_put(gone, 0, 0, &word, 8),
      skerry_window_get(gone, 0, 0, &word, 8),
      skerry_window_put_nb(gone, 0, 0, &word, 8, &handle),
      skerry_window_get_nb(gone, 0, 0, &word, 8, &handle),
      skerry_window_update(gone, 0, 0, SKERRY_INT64, SKERRY_SUM, &word, 1),
      skerry_window_fetch_update(gone, 0, 0, SKERRY_INT64, SKERRY_NO_OP, nullptr, &word, 1),
      skerry_window_compare_swap(gone, 0, 0, SKERRY_INT64, &word, &word, &word),
  };
  for (int answer : answers) EXPECT_IS(answer, int{SKERRY_ERR_FREED});
  EXPECT_ERROR(skerry_window_lock(windows[0], 0, 0, 0), SKERRY_ERR_FREED, "was freed");
  EXPECT_ERROR(skerry_window_free(windows[0]), SKERRY_ERR_FREED, "was freed");
  EXPECT(skerry_window_local(windows[0]) == nullptr);
}

// A group keeps memory of freed windows for the next ones, which know nothing of those before.
void check_next_windows(Context& c) {
  skerry_group* group = nullptr;
  OK(skerry_group_split(c.world(), 0, c.rank, &group));
  const int host = (c.rank + 1) % c.size;
  std::array<std::array<int64_t, 4>, 3> memory{};
  for (int turn = 0; turn < 3; ++turn) {
    // Two at a time, which must not share a lock or memory.
    skerry_window *allocated = nullptr, *other = nullptr, *given = nullptr, *dynamic = nullptr;
    auto& mine = memory[static_cast<size_t>(turn)];
    OK(skerry_window_allocate(group, 64, 8, &allocated));
    OK(skerry_window_allocate(group, 64, 8, &other));
    OK(skerry_window_create(group, mine.data(), 8 * static_cast<uint64_t>(turn + 1), 8, &given));
    OK(skerry_window_create_dynamic(group, &dynamic));
    const auto* const words = static_cast<const int64_t*>(skerry_window_local(allocated));
    EXPECT(std::all_of(words, words + 8, [](int64_t word) { return word == 0; }));
    EXPECT(skerry_window_local(allocated) != skerry_window_local(other));
    OK(skerry_sync(group));
    const int64_t value = 100 * (turn + 1) + c.rank;
    for (skerry_window* window : {allocated, other, given})
      OK(skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, host, 0));
    OK(skerry_window_put(allocated, host, 7, &value, 8));
    OK(skerry_window_put(given, host, static_cast<uint64_t>(turn), &value, 8));
    EXPECT_ERROR(skerry_window_put(given, host, static_cast<uint64_t>(turn) + 1, &value, 8),
                 SKERRY_ERR_RANGE, "outside");
    for (skerry_window* window : {given, other, allocated}) OK(skerry_window_unlock(window, host));
    // Attached to the one before, and not to this one.
    OK(skerry_window_attach(dynamic, mine.data(), 32));
    EXPECT_ERROR(skerry_window_detach(dynamic, memory[static_cast<size_t>((turn + 2) % 3)].data()),
                 SKERRY_ERR_INVALID, "nothing is attached");
    for (int again = 0; again < 2; ++again) {
      OK(skerry_window_post(other, &c.rank, 1, 0));
      OK(skerry_window_start(other, &c.rank, 1, 0));
      OK(skerry_window_complete(other));
      OK(skerry_window_wait(other));
    }
    OK(skerry_sync(group));
    const int left = (c.rank + c.size - 1) % c.size;
    EXPECT_IS(words[7], int64_t{100 * (turn + 1) + left});
    EXPECT_IS(mine[static_cast<size_t>(turn)], int64_t{100 * (turn + 1) + left});
    for (skerry_window* window : {allocated, other, given, dynamic}) OK(skerry_window_free(window));
    EXPECT_ERROR(skerry_window_lock(allocated, 0, host, 0), SKERRY_ERR_FREED, "was freed");
  }
  skerry_window* wrong = nullptr;  // fails on one, and so on all; the next one is made
  const uint64_t unit = c.rank == 0 ? 0 : 1;
  EXPECT_ERROR(skerry_window_allocate(group, 64, unit, &wrong), SKERRY_ERR_INVALID, "unit is 0");
  OK(skerry_window_allocate(group, 64, 1, &wrong));
  OK(skerry_window_free(wrong));
  OK(skerry_group_free(group));
}

// ---- several threads ----------------------------------------------------------------------------

// A thread that waits for a lock of lock_all once kept all others out of the window: also the one
// whose put its holder waits for.
void check_waiting_thread(Context& c) {
  OwnWindow w(c, 64, 8);
  const int holder = 1, host = c.size - 1;
  constexpr int64_t puts = 1000;
  if (c.rank == holder) {
    const int64_t one = 1;
    OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
    OK(skerry_window_put(w, host, 0, &one, 8));
    OK(skerry_window_flush(w, host));
  }
  OK(skerry_barrier(c.world()));
  if (c.rank == 0) {
    OK(skerry_window_lock_all(w, 0));
    std::atomic<bool> started{false};
    std::thread waiter([&] {
      int64_t value = 0;
      started = true;
      OK(skerry_window_get(w, host, 0, &value, 8));
      OK(skerry_window_flush(w, host));
      EXPECT_IS(value, int64_t{1});
    });
    while (!started) std::this_thread::yield();
    for (int64_t i = 1; i <= puts; ++i) {
      OK(skerry_window_put(w, holder, 1, &i, 8));
      OK(skerry_window_flush(w, holder));
    }
    waiter.join();
    OK(skerry_window_unlock_all(w));
  }
  if (c.rank == holder) {
    const volatile int64_t* const mine = w.words();
    while (__atomic_load_n(&mine[1], __ATOMIC_ACQUIRE) < puts) std::this_thread::yield();
    OK(skerry_window_unlock(w, host));
  }
  OK(skerry_barrier(c.world()));
}

// Threads of every rank work on one window in every way that may meet: in lock_all with flushes of
// all, then with locks of different members. Sums are exact.
void check_threads_in_epochs(Context& c) {
  OwnWindow w(c, 64, 8);
  const int turns = c.rounds > 0 ? c.rounds : 5;
  const int64_t one = 1;
  const auto all_threads = [&](auto&& work) {
    std::vector<std::thread> threads;
    for (int t = 0; t < c.threads; ++t) threads.emplace_back([&work, t] { work(t); });
    for (std::thread& thread : threads) thread.join();
  };
  for (int turn = 0; turn < turns; ++turn) {
    OK(skerry_window_lock_all(w, 0));
    all_threads([&](int t) {
      for (int i = 0; i < c.size; ++i) {
        const int host = (i + t + c.rank) % c.size;
        int64_t before = -1;
        OK(skerry_window_update(w, host, 0, SKERRY_INT64, SKERRY_SUM, &one, 1));
        if (t % 2 == 0) OK(skerry_window_flush_all(w));
        else OK(skerry_window_flush_local_all(w));
        OK(skerry_window_fetch_update(w, host, 0, SKERRY_INT64, SKERRY_NO_OP, nullptr, &before, 1));
        OK(skerry_window_flush(w, host));
        EXPECT(before >= 1);
      }
    });
    OK(skerry_window_unlock_all(w));
    OK(skerry_barrier(c.world()));
    // Each thread its own member: a rank locks a member once at a time.
    all_threads([&](int t) {
      for (int host = t; host < c.size; host += c.threads) {
        increment_alone(w, host, 1);
      }
    });
    OK(skerry_barrier(c.world()));
  }
  OK(skerry_window_fence(w, 0));
  EXPECT_IS(w.words()[0], int64_t{turns} * c.size * c.threads);
  EXPECT_IS(w.words()[1], int64_t{turns} * c.size);
  OK(skerry_window_fence(w, SKERRY_NO_SUCCEED));
}

// Threads of a rank read and write different places of one member, each with flushes of its own.
// In the debug mode a flush of one thread once completed what another had begun meanwhile.
void check_threads_beside_each_other(Context& c) {
  constexpr uint64_t words = 64;
  OwnWindow w(c, words * 8 * static_cast<uint64_t>(c.threads), 8);
  const int host = c.size - 1;
  if (c.rank == 0) {
    OK(skerry_window_lock_all(w, 0));
    std::vector<std::thread> threads;
    for (int t = 0; t < c.threads; ++t)
      threads.emplace_back([&, first = words * static_cast<uint64_t>(t)] {
        Random random(c.seed + first);
        for (int turn = 0; turn < 100; ++turn) {
          const uint64_t at = first + random() % (words - 4);
          int64_t out[4] = {turn, turn + 1, turn + 2, turn + 3}, in[4] = {-1, -1, -1, -1};
          OK(skerry_window_put(w, host, at, out, sizeof out));
          OK(skerry_window_flush(w, host));
          OK(skerry_window_get(w, host, at, in, sizeof in));
          OK(skerry_window_flush(w, host));
          for (int k = 0; k < 4; ++k) EXPECT_IS(in[k], out[k]);
        }
      });
    for (std::thread& thread : threads) thread.join();
    OK(skerry_window_unlock_all(w));
  }
  OK(skerry_barrier(c.world()));
}

// Guards against: threads of a rank share its lock, and under a lock of the adapter each updated by
// a get and a put. What another did in between was lost.
void check_threads_under_one_lock(Context& c) {
  OwnWindow w(c, 64, 8);
  const int host = c.size - 1;
  constexpr int updates = 50;
  if (c.rank == 0) {
    const int64_t one = 1;
    OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
    std::vector<std::thread> threads;
    for (int t = 0; t < c.threads; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < updates; ++i) {
          int64_t before = -1, expected = 0;
          OK(skerry_window_update(w, host, 0, SKERRY_INT64, SKERRY_SUM, &one, 1));
          OK(skerry_window_fetch_update(w, host, 1, SKERRY_INT64, SKERRY_SUM, &one, &before, 1));
          OK(skerry_window_flush(w, host));
          EXPECT(before >= i);
          for (bool done = false; !done; expected = before) {
            const int64_t wanted = expected + 1;
            OK(skerry_window_compare_swap(w, host, 2, SKERRY_INT64, &expected, &wanted, &before));
            done = before == expected;
          }
        }
      });
    for (std::thread& thread : threads) thread.join();
    OK(skerry_window_unlock(w, host));
  }
  OK(skerry_barrier(c.world()));
  OK(skerry_window_lock(w, SKERRY_LOCK_SHARED, c.rank, 0));
  if (c.rank == host)
    for (int i = 0; i < 3; ++i) EXPECT_IS(w.words()[i], int64_t{updates} * c.threads);
  OK(skerry_window_unlock(w, c.rank));
  OK(skerry_barrier(c.world()));
}

// ---- the debug mode -----------------------------------------------------------------------------

bool says(const char* part) { return std::strstr(skerry_last_error(), part) != nullptr; }

// Two accesses of one rank to the same bytes, in one epoch.
void check_conflicts(Context& c, Memory memory, bool as_mpi) {
  OwnWindow w(c, 256, 8, memory);
  const int host = (c.rank + 1) % c.size;
  int64_t one = 1, two[2] = {2, 2}, got = -1, got_too = -1;
  skerry_handle handle = 0;
  const std::string me = "rank " + std::to_string(c.rank) + "'s ";
  OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
  OK(skerry_window_put(w, host, 2, &one, 8));
  EXPECT_ERROR(skerry_window_put(w, host, 1, two, 16), SKERRY_ERR_CONFLICT, "conflicts with");
  EXPECT(says((me + "put at ").c_str()) && says("bytes [16, 24)") && says("window (0, "));
  EXPECT(says(("of rank " + std::to_string(host) + "'s memory").c_str()) && says("+0x"));
  EXPECT_ERROR(skerry_window_get(w, host, 2, &got, 8), SKERRY_ERR_CONFLICT,
               (me + "get at ").c_str());
  EXPECT_IS(got, -1);
  EXPECT_ERROR(skerry_window_update(w, host, 2, SKERRY_INT64, SKERRY_SUM, &one, 1),
               SKERRY_ERR_CONFLICT, "sum of int64");
  OK(skerry_window_put(w, host, 3, two, 16));
  OK(skerry_window_flush(w, host));
  OK(skerry_window_get(w, host, 2, &got, 8));  // flushed between
  OK(skerry_window_get(w, host, 2, &got_too, 8));
  EXPECT_ERROR(skerry_window_put(w, host, 2, two, 8), SKERRY_ERR_CONFLICT, "conflicts with");
  OK(skerry_window_flush_local(w, host));
  EXPECT(got == 1 && got_too == 1);
  OK(skerry_window_put(w, host, 2, two, 8));
  OK(skerry_window_flush(w, host));
  // Waited for: done. Not waited for: a conflict, unless it was done at once.
  OK(skerry_window_get_nb(w, host, 2, &got, 8, &handle));
  OK(skerry_wait(c.job, &handle));
  OK(skerry_window_put(w, host, 2, &one, 8));
  OK(skerry_window_get_nb(w, host, 3, &got, 8, &handle));
  if (handle != 0) {
    EXPECT_ERROR(skerry_window_put(w, host, 3, &one, 8), SKERRY_ERR_CONFLICT, "conflicts with");
    OK(skerry_wait(c.job, &handle));
  }
  // Updates are atomic with each other. MPI wants one operation.
  OK(skerry_window_update(w, host, 8, SKERRY_INT64, SKERRY_SUM, &one, 1));
  OK(skerry_window_update(w, host, 8, SKERRY_INT64, SKERRY_SUM, &one, 1));
  OK(skerry_window_fetch_update(w, host, 8, SKERRY_INT64, SKERRY_NO_OP, nullptr, &got, 1));
  const int mixed = skerry_window_update(w, host, 8, SKERRY_INT64, SKERRY_MAX, &one, 1);
  EXPECT_IS(mixed, as_mpi ? int{SKERRY_ERR_CONFLICT} : int{SKERRY_OK});
  const int swapped = skerry_window_compare_swap(w, host, 8, SKERRY_INT64, &one, &one, &got_too);
  EXPECT_IS(swapped, as_mpi ? int{SKERRY_ERR_CONFLICT} : int{SKERRY_OK});
  // A library that stands between the program and Skerry says who called it, and what is not an
  // access of the program.
  const char* const elsewhere = reinterpret_cast<const char*>(&std::getenv);
  OK(skerry_window_put(w, host, 20, &one, 8));
  skerry_window_caller(elsewhere + 1, 1);
  OK(skerry_window_put(w, host, 20, two, 8));
  OK(skerry_window_compare_swap(w, host, 20, SKERRY_INT64, &one, &one, &got_too));
  skerry_window_caller(elsewhere + 1, 0);
  EXPECT_ERROR(skerry_window_put(w, host, 20, &one, 8), SKERRY_ERR_CONFLICT, "getenv");
  skerry_window_caller(nullptr, 0);
  EXPECT_ERROR(skerry_window_put(w, host, 20, &one, 8), SKERRY_ERR_CONFLICT, "conflicts with");
  EXPECT(!says("getenv"));
  OK(skerry_window_unlock(w, host));
  EXPECT_IS(got, 2);
  EXPECT_ERROR(skerry_window_put(w, host, 0, &one, 8), SKERRY_ERR_INVALID, "called at ");
  EXPECT(says("outside an epoch") && says("window (0, "));
  OK(skerry_barrier(c.world()));
}

// Accesses of two ranks in one epoch of fence: told by the fence that ends it, to all.
void check_conflicts_of_ranks(Context& c) {
  if (c.size < 2) return;
  OwnWindow w(c, 256, 8);
  const int64_t value = c.rank;
  for (const bool wrong : {false, true, false}) {
    OK(skerry_window_fence(w, 0));
    const uint64_t at = wrong ? 5 : static_cast<uint64_t>(c.rank);
    if (c.rank < 2) OK(skerry_window_put(w, 0, at, &value, 8));
    if (!wrong) {
      OK(skerry_window_fence(w, 0));
    } else {
      EXPECT_ERROR(skerry_window_fence(w, 0), SKERRY_ERR_CONFLICT, "Put a fence between them");
      EXPECT(says("rank 0's put at") && says("rank 1's put at") && says("bytes [40, 48)"));
    }
  }
  OK(skerry_window_fence(w, SKERRY_NO_SUCCEED));
}

// Buffers that the program uses before they are done.
void check_buffers(Context& c, Memory memory) {
  OwnWindow w(c, 256, 8, memory);
  const int host = (c.rank + 1) % c.size;
  int64_t from = 7, to = -1;
  OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));
  OK(skerry_window_put(w, host, 0, &from, 8));
  from = 8;
  EXPECT_ERROR(skerry_window_flush(w, host), SKERRY_ERR_INVALID, "(8 bytes) was changed");
  OK(skerry_window_get(w, host, 0, &to, 8));
  EXPECT_IS(to, int64_t(0xDBDBDBDBDBDBDBDBull));  // read too early
  OK(skerry_window_flush_local(w, host));
  EXPECT(to == 7 || to == 8);
  OK(skerry_window_get(w, host, 0, &to, 8));
  to = 5;
  EXPECT_ERROR(skerry_window_unlock(w, host), SKERRY_ERR_INVALID, "(8 bytes) was written");
  EXPECT(says("get from rank") && says("flush first"));
  OK(skerry_window_lock(w, SKERRY_LOCK_EXCLUSIVE, host, 0));  // unlocked all the same
  OK(skerry_window_unlock(w, host));
  OK(skerry_barrier(c.world()));
}

}  // namespace

// With SKERRY_CHECK=1, or mpi.
void run_window_checks(Context& c) {
  const char* const level = std::getenv("SKERRY_CHECK");
  if (level == nullptr || std::string(level) == "0") return;
  for (Memory memory : {Memory::allocated, Memory::given}) {
    check_conflicts(c, memory, std::string(level) == "mpi");
    check_buffers(c, memory);
  }
  check_conflicts_of_ranks(c);
}

// At thread level multiple (--threads), of three ranks or more.
void run_window_threads(Context& c) {
  if (c.threads < 2 || c.size < 3) return;
  check_waiting_thread(c);
  check_threads_in_epochs(c);
  check_threads_beside_each_other(c);
  check_threads_under_one_lock(c);
}

void run_windows(Context& c) {
  check_life(c);
  check_next_windows(c);
  check_mistakes(c);
  check_units(c);
  check_dynamic(c);
  check_given_memory(c);
  leave_open(c);
  check_no_bytes(c);
  check_refused_in_start(c);
  check_lock_order(c);
  check_lock_before_mutex(c);
  check_requests_of_an_epoch(c);
  for (Memory memory : {Memory::allocated, Memory::given}) {
    check_completion(c, memory);
    check_many_updates(c, memory);
    check_fences(c, memory);
    check_post_start(c, memory);
    check_order_in_start(c, memory);
    check_readers_and_writers(c, memory);
    check_single_accesses(c, memory);
    check_opposite_orders(c, memory);
    check_updates(c, memory);
  }
}

}  // namespace skerry::test
