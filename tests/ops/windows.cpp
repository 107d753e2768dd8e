// Windows: every kind of epoch, contention of readers and writers, and each mistake's error.
#include <skerry/window.h>

#include <algorithm>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

class OwnWindow {
 public:
  OwnWindow(Context& c, uint64_t bytes, uint64_t unit) : context_(c) {
    OK(skerry_window_allocate(c.world(), bytes, unit, &window_));
  }
  ~OwnWindow() { OK(skerry_window_free(window_)); }
  operator skerry_window*() const { return window_; }
  int64_t* words() const { return static_cast<int64_t*>(skerry_window_local(window_)); }

 private:
  Context& context_;
  skerry_window* window_ = nullptr;
};

// A counter and its copy, changed under exclusive locks, read under shared ones: a reader never
// sees them differ.
void check_readers_and_writers(Context& c) {
  OwnWindow w(c, 4096, 8);
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

// Epochs of one short access, which travel whole: a pair of equal words is written and read under
// contention, and nobody sees half of it.
void check_single_accesses(Context& c) {
  OwnWindow w(c, 4096, 1);
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
void check_completion(Context& c) {
  const uint64_t bytes = 300'000;  // in several messages
  OwnWindow w(c, bytes, 1);
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
  OK(skerry_wait(c.job, &handle));
  EXPECT(std::equal(copy.begin(), copy.begin() + 64, back.begin()));
  OK(skerry_window_unlock(w, host));
  OK(skerry_barrier(c.world()));
}

void check_fences(Context& c) {
  OwnWindow w(c, 64 * static_cast<uint64_t>(c.size), 8);
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
void check_post_start(Context& c) {
  OwnWindow w(c, 128, 8);
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
  OK(skerry_window_post(w, nullptr, 0, 0));
  OK(skerry_window_start(w, nullptr, 0, 0));
  OK(skerry_window_complete(w));
  OK(skerry_window_wait(w));
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
    OK(skerry_window_put(w, host, 0, nullptr, 0));
    OK(skerry_window_unlock(w, host));
  }
  EXPECT_ERROR(skerry_window_lock(w, 0, c.size, 0), SKERRY_ERR_INVALID, "does not exist");
  EXPECT_ERROR(skerry_window_unlock_all(w), SKERRY_ERR_INVALID, "without lock_all");
  EXPECT_ERROR(skerry_window_complete(w), SKERRY_ERR_INVALID, "without start");
  EXPECT_ERROR(skerry_window_wait(w), SKERRY_ERR_INVALID, "without post");
  EXPECT_IS(word, 42);
  OK(skerry_barrier(c.world()));
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
  EXPECT_ERROR(skerry_window_lock(windows[0], 0, 0, 0), SKERRY_ERR_FREED, "was freed");
  EXPECT_ERROR(skerry_window_free(windows[0]), SKERRY_ERR_FREED, "was freed");
  EXPECT(skerry_window_local(windows[0]) == nullptr);
}

}  // namespace

void run_windows(Context& c) {
  check_life(c);
  check_mistakes(c);
  check_completion(c);
  check_fences(c);
  check_post_start(c);
  check_readers_and_writers(c);
  check_single_accesses(c);
}

}  // namespace skerry::test
