#include "session/resting.hpp"

#include <gtest/gtest.h>

namespace skerry::session {
namespace {

TEST(Resting, GivesBackWhatWasPut) {
  Resting resting;
  for (Rank rank = 0; rank < 1000; rank += 3)
    resting.put(rank, {(uint64_t{1} << 40) + static_cast<uint64_t>(rank), 7,
                       (uint64_t{1} << 55) + static_cast<uint64_t>(rank)});
  EXPECT_EQ(resting.size(), 334u);
  Resting::Origin origin{};
  EXPECT_FALSE(resting.take(1, &origin));
  EXPECT_FALSE(resting.take(100'000, &origin));
  for (Rank rank = 999; rank >= 0; rank -= 3) {
    ASSERT_TRUE(resting.take(rank, &origin));
    EXPECT_EQ(origin.applied, (uint64_t{1} << 40) + static_cast<uint64_t>(rank));
    EXPECT_EQ(origin.incarnation, 7u);
    EXPECT_EQ(origin.generation, (uint64_t{1} << 55) + static_cast<uint64_t>(rank));
    EXPECT_FALSE(resting.take(rank, &origin));
  }
  EXPECT_EQ(resting.size(), 0u);
}

// A rank that was served once took 72 bytes for ever.
TEST(Resting, AMillionRanksTakeSome20BytesEach) {
  Resting resting;
  for (Rank rank = 0; rank < 1'000'000; ++rank) resting.put(rank, {1, 1, 1});
  EXPECT_LE(resting.memory_bytes(), 22'000'000u);
}

}  // namespace
}  // namespace skerry::session
