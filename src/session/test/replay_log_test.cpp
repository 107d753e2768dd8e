#include "session/replay_log.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace skerry::session {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::span<const std::byte> span) { return {span.begin(), span.end()}; }

// Header and payload whose every byte follows from the number.
Bytes pattern(uint64_t number, uint64_t size, uint64_t salt) {
  Bytes out(size);
  for (uint64_t i = 0; i < size; ++i)
    out[i] = static_cast<std::byte>((number * 131 + i * 7 + salt) & 0xff);
  return out;
}

void put(ReplayLog& log, uint64_t number, uint64_t payload, uint32_t header, bool awaits_reply) {
  std::byte* room = log.reserve(payload + 512);  // more than is used: callers may not know yet
  const Bytes p = pattern(number, payload, 0), h = pattern(number, header, 1);
  if (payload > 0) std::memcpy(room, p.data(), payload);
  std::memcpy(room + payload, h.data(), header);
  log.commit(number, payload, header, awaits_reply);
}

TEST(ReplayLog, KeepsUntilAcknowledged) {
  ReplayLog log;
  for (uint64_t n = 1; n <= 3; ++n) put(log, n, 8, 80, false);
  log.acknowledge(2);
  EXPECT_EQ(log.first_number(), 3u);
  EXPECT_EQ(bytes_of(log.request(3).payload), pattern(3, 8, 0));
  log.acknowledge(3);
  EXPECT_TRUE(log.empty());
}

TEST(ReplayLog, KeepsWhatIsAppliedButNotAnswered) {
  ReplayLog log;
  put(log, 1, 0, 88, true);
  put(log, 2, 100, 80, false);
  log.acknowledge(2);
  ASSERT_FALSE(log.empty());
  EXPECT_TRUE(log.is_wanted(1));
  EXPECT_FALSE(log.is_wanted(2));
  log.answered(1);
  EXPECT_TRUE(log.empty());
}

TEST(ReplayLog, ReferencesStayWhereTheyAre) {
  ReplayLog log;
  const Bytes mine = pattern(9, 100'000, 0);
  std::byte* room = log.reserve(512);
  std::memset(room, 7, 90);
  log.commit(1, mine.size(), 90, false, mine.data());
  EXPECT_EQ(log.request(1).payload.data(), mine.data());
  EXPECT_EQ(log.request(1).header.size(), 90u);
  EXPECT_LT(log.memory_bytes(), 10'000u);
}

TEST(ReplayLog, StartsAtTheFrontAgainWhenEmptySoThatItStaysSmall) {
  ReplayLog log;
  for (uint64_t n = 1; n <= 10'000; ++n) {
    put(log, n, 200, 80, false);
    log.acknowledge(n);
  }
  EXPECT_LE(log.memory_bytes(), 8192u);
  log.trim();
  EXPECT_EQ(log.memory_bytes(), 0u);
}

// Random traffic beside a plain map: sizes, wraps, growth, references to nothing, acknowledgements
// and replies in any order.
TEST(ReplayLog, AgreesWithAMapUnderRandomTraffic) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    ReplayLog log;
    struct Known {
      uint64_t payload;
      uint32_t header;
      bool awaits;
    };
    std::map<uint64_t, Known> known;
    uint64_t issued = 0, applied = 0;
    for (int step = 0; step < 4000; ++step) {
      if (random() % 2 == 0 && known.size() < 200) {
        const Known k{random() % 8 == 0 ? random() % 40'000 : random() % 300,
                      static_cast<uint32_t>(16 + random() % 400), random() % 3 == 0};
        put(log, ++issued, k.payload, k.header, k.awaits);
        known[issued] = k;
      } else if (random() % 2 == 0) {
        applied = applied + (issued == applied ? 0 : random() % (issued - applied + 1));
        log.acknowledge(applied);
      } else if (!known.empty()) {
        auto any = std::next(known.begin(), static_cast<std::ptrdiff_t>(random() % known.size()));
        any->second.awaits = false;
        log.answered(any->first);
      }
      while (!known.empty() && known.begin()->first <= applied && !known.begin()->second.awaits)
        known.erase(known.begin());
      ASSERT_EQ(log.empty(), known.empty()) << "seed " << seed << " step " << step;
      if (known.empty()) continue;
      ASSERT_EQ(log.first_number(), known.begin()->first);
      ASSERT_EQ(log.last_number(), issued);
      const auto any = std::next(known.begin(),
                                 static_cast<std::ptrdiff_t>(random() % known.size()));
      ASSERT_EQ(bytes_of(log.request(any->first).payload),
                pattern(any->first, any->second.payload, 0))
          << "seed " << seed << " step " << step;
      ASSERT_EQ(bytes_of(log.request(any->first).header),
                pattern(any->first, any->second.header, 1));
      ASSERT_EQ(log.is_wanted(any->first), any->first > applied || any->second.awaits);
    }
  }
}

// A burst once left 8 MiB with every connection for as long as that lasted.
TEST(ReplayLog, ARingThatABurstMadeLargeShrinksWhenItIsNotNeeded) {
  ReplayLog log;
  uint64_t number = 0;
  const auto burst = [&](uint64_t requests, uint64_t bytes) {
    for (uint64_t i = 0; i < requests; ++i) {
      log.reserve(bytes);
      log.commit(++number, bytes - 8, 8, false);
    }
    log.acknowledge(number);
  };
  burst(64, 64 * 1024);
  EXPECT_GE(log.memory_bytes(), 4u << 20);
  // Expect: it stays while bursts come, even if not every time.
  for (uint32_t i = 0; i < 4 * ReplayLog::drains_before_shrinking; ++i)
    burst(i % 8 == 0 ? 64 : 1, 64 * 1024);
  EXPECT_GE(log.memory_bytes(), 4u << 20);
  // Expect: it goes when they have stopped; and what is sent then is kept as ever.
  for (uint32_t i = 0; i < 2 * ReplayLog::drains_before_shrinking; ++i) burst(1, 100);
  EXPECT_LE(log.memory_bytes(), 8192u);
  burst(3, 1000);
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(log.first_number(), number + 1);
}

}  // namespace
}  // namespace skerry::session
