// Long gets under locks of windows, each of another rank than the last: with a cap of one
// connection every epoch has a fresh one. Meant for drops (tests/soak). Writers keep a window's
// words equal, so a reader that sees two values was let in too early or got too little.
#include <skerry/window.h>

#include <algorithm>

#include "ops/check.hpp"

namespace skerry::test {

void run_long_gets(Context& c) {
  constexpr uint64_t most_words = 300'000 / 8, least_words = 100'000 / 8;
  skerry_window* w = nullptr;
  OK(skerry_window_allocate(c.world(), 8 * most_words, 8, &w));
  Random random(c.seed + static_cast<uint64_t>(c.rank));
  std::vector<int64_t> block(most_words);
  int host = c.rank;
  for (int i = 0; i < 100; ++i) {
    host = (host + 1 + static_cast<int>(below(random, static_cast<uint64_t>(c.size)))) % c.size;
    const bool writes = chance(random, 20);
    const uint64_t words = least_words + below(random, most_words - least_words);
    OK(skerry_window_lock(w, writes ? SKERRY_LOCK_EXCLUSIVE : SKERRY_LOCK_SHARED, host, 0));
    if (writes) {
      std::fill(block.begin(), block.end(), int64_t{c.rank} * 1000 + i);
      OK(skerry_window_put(w, host, 0, block.data(), 8 * most_words));
    } else {
      OK(skerry_window_get(w, host, most_words - words, block.data(), 8 * words));
    }
    OK(skerry_window_unlock(w, host));
    EXPECT(std::all_of(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(words),
                       [&](int64_t word) { return word == block[0]; }));
  }
  OK(skerry_barrier(c.world()));
  OK(skerry_window_free(w));
}

}  // namespace skerry::test
