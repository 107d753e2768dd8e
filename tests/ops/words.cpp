// Read-modify-writes, notifications and what is atomic with what.
#include <algorithm>
#include <thread>

#include "ops/check.hpp"

namespace skerry::test {

namespace {

// Updates of every width to one word, by all ranks at once: local ones, and those that different
// data servers of the node serve. No part of the word carries into the next, so a lost or torn
// update shows in the end.
void all_widths_in_one_word(Context& c, skerry_segment* s) {
  constexpr uint64_t word = 3072;
  const int rounds = c.as_threads ? 25 : 101, turns = 4;
  const uint64_t my_bit = uint64_t{1} << (8 + c.rank % 8);
  const uint8_t one8 = 1;
  const uint16_t one16 = 1;
  for (int i = 0; i < rounds; ++i) {
    OK(skerry_update(s, 0, word, SKERRY_UINT8, SKERRY_SUM, &one8, 1));
    uint64_t old = 0;
    OK(skerry_fetch_update(s, 0, word, SKERRY_UINT64, SKERRY_BXOR, &my_bit, &old, 1));
    OK(skerry_update(s, 0, word + 2, SKERRY_UINT16, SKERRY_SUM, &one16, 1));
    OK(skerry_fetch_add_i32(s, 0, word + 4, 1, nullptr));
  }
  for (int i = 0; i < turns; ++i) {
    int64_t seen = 0, wanted = 0;
    OK(skerry_fetch_add_i64(s, 0, word, 0, &seen));
    do {  // each failure is another's success: they come to their end
      wanted = seen;
      OK(skerry_compare_swap_i64(s, 0, word, wanted, wanted ^ static_cast<int64_t>(my_bit), &seen));
    } while (seen != wanted);
  }
  OK(skerry_sync(c.world()));
  uint64_t value = 0, bits = 0;
  OK(skerry_get(s, 0, word, &value, sizeof value));
  const auto all = static_cast<uint64_t>(rounds) * static_cast<uint64_t>(c.size);
  for (int r = 0; r < c.size; ++r) bits ^= uint64_t{(rounds + turns) % 2 != 0} << (r % 8);
  EXPECT_IS(value & 0xff, all & 0xff);
  EXPECT_IS(value >> 8 & 0xff, bits);
  EXPECT_IS(value >> 16 & 0xffff, all & 0xffff);
  EXPECT_IS(value >> 32, all);
}

// The same of elements of 16 bytes, one of which lies in two stripes. What is read is never half
// of one update and half of another.
void wide_elements(Context& c, skerry_segment* s) {
  constexpr uint64_t pair = 4096 - 8, array = 8192 - 1200;
  constexpr int elements = 300;  // in two stripes as well
  const int rounds = c.as_threads ? 15 : 60;
  const double step[2] = {1, -1};
  const std::vector<double> ones(elements, 1);
  for (int i = 0; i < rounds; ++i) {
    double old[2] = {0, 0};
    OK(skerry_fetch_update(s, 0, pair, SKERRY_COMPLEX_DOUBLE, SKERRY_SUM, step, old, 1));
    EXPECT_IS(old[0], -old[1]);
    OK(skerry_fetch_update(s, 0, pair, SKERRY_COMPLEX_DOUBLE, SKERRY_NO_OP, nullptr, old, 1));
    EXPECT_IS(old[0], -old[1]);
    OK(skerry_acc(s, 0, array, SKERRY_DOUBLE, nullptr, ones.data(), elements));
  }
  OK(skerry_sync(c.world()));
  std::vector<double> seen(elements);
  OK(skerry_get(s, 0, array, seen.data(), elements * sizeof(double)));
  for (const double one : seen) EXPECT_IS(one, static_cast<double>(rounds * c.size));
  OK(skerry_get(s, 0, pair, seen.data(), 16));
  EXPECT_IS(seen[0], static_cast<double>(rounds * c.size));
  EXPECT_IS(seen[1], -seen[0]);
}

// Every fetch-and-add gets a ticket of its own: together all numbers, once each.
void tickets_of_every_host(Context& c, skerry_segment* s, int rounds) {
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
}

}  // namespace

void run_words(Context& c) {
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(c.world(), 12288, &s));
  auto* const mine = static_cast<int64_t*>(skerry_segment_local(s));
  const int rounds = c.as_threads ? 40 : 200;

  tickets_of_every_host(c, s, rounds);

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
  all_widths_in_one_word(c, s);
  wide_elements(c, s);
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
