// What a process or a node keeps of the members of a group, in bytes measured on the structures.
#include "placement/members.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "placement/member_values.hpp"

namespace skerry::placement {
namespace {

constexpr int32_t million = 1'000'000;

void expect_members(const std::vector<Rank>& ranks) {
  Sequence sequence;
  for (const Rank rank : ranks) sequence.add(rank);
  const Members members{std::move(sequence)};
  ASSERT_EQ(members.size(), static_cast<int32_t>(ranks.size()));
  std::map<Rank, int32_t> position;
  for (size_t i = 0; i < ranks.size(); ++i) {
    ASSERT_EQ(members.rank_of(static_cast<int32_t>(i)), ranks[i]);
    position[ranks[i]] = static_cast<int32_t>(i);
  }
  const auto [low, high] = std::ranges::minmax(ranks);
  EXPECT_EQ(members.lowest(), low);
  for (Rank rank = low - 2; rank <= high + 2; ++rank)
    ASSERT_EQ(members.index_of(rank), position.contains(rank) ? position[rank] : -1) << rank;
  EXPECT_EQ(members.rank_of(-1), no_rank);
  EXPECT_EQ(members.rank_of(members.size()), no_rank);
  EXPECT_EQ(members.find_double(), no_rank);
}

TEST(Members, AreFoundInAnyOrder) {
  expect_members({0});
  expect_members({5, 3, 1});
  expect_members({0, 2, 4, 6, 1, 3, 5, 7});
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Rank> ranks(1 + random() % 200);
    std::iota(ranks.begin(), ranks.end(), static_cast<Rank>(random() % 3));
    std::shuffle(ranks.begin(), ranks.end(), random);
    ranks.resize(1 + random() % ranks.size());
    if (round % 2 == 0) std::ranges::sort(ranks);
    // Blocks of a few in a wild order.
    if (round % 4 == 1)
      for (size_t i = 0; i + 8 <= ranks.size(); i += 8)
        std::ranges::sort(ranks.begin() + static_cast<long>(i),
                          ranks.begin() + static_cast<long>(i) + 8);
    expect_members(ranks);
  }
  std::vector<Rank> blocks;  // more than the few runs that are looked through
  for (const int block : {11, 3, 7, 0, 9, 1, 10, 5, 2, 8, 6, 4})
    for (int i = 0; i < 20; ++i) blocks.push_back(block * 20 + i);
  expect_members(blocks);
}

TEST(Members, TellARankNamedTwice) {
  for (const std::vector<Rank>& ranks :
       {std::vector<Rank>{1, 1}, {0, 1, 2, 1}, {4, 9, 2, 7, 1, 30, 20, 22, 9, 3, 5, 6, 8}}) {
    Sequence sequence;
    for (const Rank rank : ranks) sequence.add(rank);
    EXPECT_NE(Members(std::move(sequence)).find_double(), no_rank);
  }
}

// Each of a million members took 8 bytes in every process.
TEST(Members, AMillionInOrderTakeOneRun) {
  const auto bytes_of = [](Rank first, Rank step, int32_t count) {
    Sequence sequence;
    for (int32_t i = 0; i < count; ++i) sequence.add(first + step * i);
    const Members members{std::move(sequence)};
    EXPECT_EQ(members.index_of(first + step * (count - 1)), count - 1);
    return members.bytes();
  };
  EXPECT_EQ(bytes_of(0, 1, million), 16u);  // the world
  EXPECT_EQ(Members::all(million).bytes(), 16u);
  EXPECT_EQ(Members::all(million).index_of(999'999), 999'999);
  EXPECT_EQ(bytes_of(0, 64, million / 64), 16u);   // leaders of nodes
  EXPECT_EQ(bytes_of(million, -1, million), 16u);  // backwards
  Sequence shuffled;                               // in no order: as much as before
  std::vector<Rank> ranks(million);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), std::mt19937(2));
  for (const Rank rank : ranks) shuffled.add(rank);
  EXPECT_EQ(Members(std::move(shuffled)).bytes(), 8u * million);
}

std::vector<std::byte> table_of(const MemberValues::Builder& builder) {
  std::vector<std::byte> table(builder.table_bytes());
  builder.store(table.data());
  return table;
}

TEST(MemberValues, AreWhatWasAdded) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint64_t> values(1 + random() % 100);
    for (uint64_t& value : values) value = random() % (1 + static_cast<unsigned>(round) % 7);
    if (round % 3 == 0) std::ranges::sort(values);
    MemberValues::Builder keeps(true), counts(false);
    for (const uint64_t value : values) {
      keeps.add(value);
      counts.add(value);
    }
    ASSERT_EQ(keeps.table_bytes(), counts.table_bytes());
    const auto table = table_of(keeps);
    const MemberValues theirs = counts.view(table.data());
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(theirs.at(static_cast<int32_t>(i)), values[i]);
  }
}

// A segment's table took 16 bytes a member on every node.
TEST(MemberValues, OfAMillionEqualOnesTakeNothing) {
  MemberValues::Builder builder(true);
  for (int32_t i = 0; i < million; ++i) builder.add(4096);
  EXPECT_EQ(builder.table_bytes(), 0u);
  EXPECT_EQ(builder.view(nullptr).at(999'999), 4096u);
  // A last one that is shorter, and one in the middle: each exception is a run or two.
  MemberValues::Builder few(true);
  few.add(8, 500'000);
  few.add(100);
  few.add(8, 499'998);
  few.add(3);
  EXPECT_EQ(few.table_bytes(), 4u * 16);
  // All different: a run each.
  MemberValues::Builder all(true);
  for (int32_t i = 0; i < million; ++i) all.add(static_cast<uint64_t>(i));
  EXPECT_EQ(all.table_bytes(), 16u * million);
  EXPECT_EQ(all.view(table_of(all).data()).at(777'777), 777'777u);
}

}  // namespace
}  // namespace skerry::placement
