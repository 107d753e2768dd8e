// Read-modify-writes, notifications and what is atomic with what.
#include <algorithm>
#include <thread>

#include "ops/check.hpp"

namespace skerry::test {

void run_words(Context& c) {
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(c.world(), 4096, &s));
  auto* const mine = static_cast<int64_t*>(skerry_segment_local(s));
  const int rounds = c.as_threads ? 40 : 200;

  // Every fetch-and-add gets a ticket of its own: together all numbers, once each.
  for (int host = 0; host < c.size; ++host) {
    std::vector<int64_t> tickets(static_cast<size_t>(rounds)),
        all(tickets.size() * static_cast<size_t>(c.size));
    for (auto& ticket : tickets)
      OK(skerry_fetch_add_i64(s, host, 8 * static_cast<uint64_t>(host), 1, &ticket));
    EXPECT(std::is_sorted(tickets.begin(), tickets.end()));
    OK(skerry_allgather(c.world(), tickets.data(), tickets.size() * 8, all.data()));
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_IS(all[i], static_cast<int64_t>(i));
  }

  // 32 bits wrap around and leave the neighbouring word alone.
  OK(skerry_sync(c.world()));
  auto* const narrow = reinterpret_cast<int32_t*>(mine) + 64;
  if (c.rank == 0) {
    int32_t old = 7;
    OK(skerry_swap_i32(s, c.size - 1, 256, INT32_MAX, &old));
    EXPECT_IS(old, 0);
    OK(skerry_fetch_add_i32(s, c.size - 1, 256, 1, &old));
    EXPECT_IS(old, INT32_MAX);
    OK(skerry_compare_swap_i32(s, c.size - 1, 256, 0, 5, &old));  // does not match
    EXPECT_IS(old, INT32_MIN);
    OK(skerry_compare_swap_i32(s, c.size - 1, 256, INT32_MIN, -3, &old));
    EXPECT_IS(old, INT32_MIN);
    OK(skerry_fetch_add_i32(s, c.size - 1, 256, -4, &old));
    EXPECT_IS(old, -3);
    OK(skerry_fetch_add_i32(s, c.size - 1, 256, 0, nullptr));  // a result is not wanted
  }
  OK(skerry_sync(c.world()));
  if (c.rank == c.size - 1) {
    EXPECT_IS(narrow[0], -7);
    EXPECT_IS(narrow[1], 0);
  }

  // A lock made of compare-and-swap protects a word that is changed by get and put.
  OK(skerry_sync(c.world()));
  const int turns = c.as_threads ? 10 : 50;
  for (int i = 0; i < turns; ++i) {
    int64_t holder = 1, value = 0;
    for (;;) {
      OK(skerry_compare_swap_i64(s, 0, 512, 0, c.rank + 1, &holder));
      if (holder == 0) break;
      std::this_thread::yield();  // the data server only tries the word's stripe: ranks that hammer
                                  // on it keep it out for long
    }
    OK(skerry_get(s, 0, 1024, &value, 8));
    ++value;
    OK(skerry_put(s, 0, 1024, &value, 8));
    OK(skerry_fence(c.job, 0));
    OK(skerry_swap_i64(s, 0, 512, 0, &holder));
    EXPECT_IS(holder, c.rank + 1);
  }
  OK(skerry_sync(c.world()));
  if (c.rank == 0) EXPECT_IS(mine[128], int64_t{turns} * c.size);

  // Accumulate and fetch-and-add on one word are atomic together, from all nodes.
  for (int i = 0; i < rounds; ++i) {
    const int64_t one = 1;
    int64_t old = 0;
    if (i % 2 == 0) OK(skerry_acc(s, 0, 2048, SKERRY_INT64, nullptr, &one, 1));
    else OK(skerry_fetch_add_i64(s, 0, 2048, 1, &old));
  }
  OK(skerry_sync(c.world()));
  if (c.rank == 0) EXPECT_IS(mine[256], int64_t{rounds} * c.size);
  OK(skerry_segment_free(s));
}

void run_notify(Context& c) {
  const uint64_t data_bytes = 300'000;
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(c.world(), 64 + data_bytes, &s));
  const auto* const data = static_cast<const unsigned char*>(skerry_segment_local(s)) + 64;
  const int right = (c.rank + 1) % c.size;
  uint64_t value = 0;
  // A relay: data of every size travels around the ring, each hop notified; a rank that sees the
  // counter sees the data.
  std::vector<unsigned char> buffer(data_bytes);
  uint64_t round = 0;
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{65536}, data_bytes}) {
    ++round;
    const auto pattern = [&](uint64_t i) {
      return static_cast<unsigned char>(i * 7 + round + bytes);
    };
    if (c.rank == 0) {
      for (uint64_t i = 0; i < bytes; ++i) buffer[i] = pattern(i);
      OK(skerry_put_notify(s, right, 64, buffer.data(), bytes, 8, 1));
    }
    OK(skerry_notify_wait(s, 8, round, patience_ns, &value));
    EXPECT_IS(value, round);
    for (uint64_t i = 0; i < bytes; ++i) EXPECT(data[i] == pattern(i));
    if (c.rank != 0) OK(skerry_put_notify(s, right, 64, data, bytes, 8, 1));
    OK(skerry_barrier(c.world()));
  }
  // Increments of all ranks add up; nothing needs to be put.
  OK(skerry_put_notify(s, 0, 0, nullptr, 0, 16, static_cast<uint64_t>(c.rank) + 1));
  if (c.rank == 0)
    OK(skerry_notify_wait(s, 16,
                          static_cast<uint64_t>(c.size) * static_cast<uint64_t>(c.size + 1) / 2,
                          patience_ns, &value));
  // A counter that does not come in time.
  EXPECT_ERROR(skerry_notify_wait(s, 24, 1, 1'000'000, &value), SKERRY_ERR_TIMEOUT,
               "counter at offset 24 is 0, not 1");
  EXPECT_ERROR(skerry_notify_wait(s, 24, 1, 0, nullptr), SKERRY_ERR_TIMEOUT,
               "counter at offset 24");
  OK(skerry_notify_wait(s, 24, 0, 0, nullptr));
  // A fetch-and-add and an accumulate reach the sleeper as well.
  OK(skerry_barrier(c.world()));
  OK(skerry_segment_free(s));
}

}  // namespace skerry::test
