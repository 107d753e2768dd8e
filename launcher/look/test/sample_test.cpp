// What one machine tells another of a job, and how the parts become a whole.
#include "launcher/look/sample.hpp"

#include <gtest/gtest.h>

namespace skerry::look {
namespace {

const memory::LockName lock{{3, 4}, 5, 6};

RankSample rank_of(Rank rank, int32_t node) {
  RankSample out;
  out.rank = rank;
  out.node = node;
  out.pid = 100 + rank;
  out.time_ns = 7;
  out.values[bytes] = 1000;
  out.to.resize(3);
  out.to[2] = {11, 12};
  return out;
}

Sample sample_of(Rank rank, int32_t node) {
  Sample out;
  out.job = "abcd";
  out.program = "./prog with words";
  out.all_ranks = 6;
  out.all_nodes = 3;
  out.age_ns = 123;
  out.ranks.push_back(rank_of(rank, node));
  out.nodes.push_back({node, 8, {1, 2, 3, 4, 5}});
  return out;
}

Sample decoded(const Sample& sample) {
  Sample out;
  EXPECT_TRUE(decode(encode(sample), &out).ok());
  return out;
}

TEST(Sample, GoesThroughBytesUnchanged) {
  Sample sent = sample_of(5, 2);
  sent.ranks[0].wait = Wait{-3, "lock 6 of rank 5", lock};
  sent.locks.push_back({lock, {true, 9, {1, 2}, 3}});
  const Sample got = decoded(sent);
  EXPECT_EQ(got.job, "abcd");
  EXPECT_EQ(got.program, "./prog with words");
  EXPECT_EQ(got.all_ranks, 6);
  EXPECT_EQ(got.all_nodes, 3);
  EXPECT_EQ(got.age_ns, 123);
  ASSERT_EQ(got.ranks.size(), 1);
  const RankSample& rank = got.ranks[0];
  EXPECT_EQ(rank.rank, 5);
  EXPECT_EQ(rank.node, 2);
  EXPECT_EQ(rank.pid, 105);
  EXPECT_EQ(rank.time_ns, 7);
  EXPECT_EQ(rank.values[bytes], 1000);
  ASSERT_TRUE(rank.wait);
  EXPECT_EQ(rank.wait->since_ns, -3);
  EXPECT_EQ(rank.wait->text, "lock 6 of rank 5");
  EXPECT_EQ(rank.wait->lock.index, 6);
  ASSERT_EQ(rank.to.size(), 3);
  EXPECT_EQ(rank.to[0].operations, 0);
  EXPECT_EQ(rank.to[2].bytes, 12);
  ASSERT_EQ(got.nodes.size(), 1);
  EXPECT_EQ(got.nodes[0].values[memory_bytes], 5);
  const Holders holders = got.holders_of(lock);
  EXPECT_TRUE(holders.is_known);
  EXPECT_EQ(holders.ranks, (std::vector<Rank>{1, 2}));
  EXPECT_EQ(holders.unnamed, 3);
}

TEST(Sample, CutOrForeignBytesAreAnError) {
  Sample sent = sample_of(5, 2);
  sent.ranks[0].wait = Wait{1, "x", lock};
  sent.locks.push_back({lock, {true, 9, {1}, 0}});
  std::vector<std::byte> whole = encode(sent);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    Sample got;
    EXPECT_FALSE(decode(std::span(whole).first(bytes), &got).ok()) << bytes;
  }
  whole[0] = std::byte{99};  // another version
  Sample got;
  EXPECT_FALSE(decode(whole, &got).ok());
}

TEST(Sample, ALockWithoutHolderIsKnownToBeFreeOnlyWhereItsHomeIsSeen) {
  Sample sample = sample_of(1, 0);
  EXPECT_FALSE(sample.holders_of(lock).is_known);
  merge(sample_of(5, 2), &sample);
  EXPECT_TRUE(sample.holders_of(lock).is_known);
  EXPECT_TRUE(sample.holders_of(lock).ranks.empty());
}

// Each machine counts the locks of its own homes: together they are a rank's.
TEST(Sample, ARanksLocksOnOtherMachinesAreItsLocks) {
  Sample one = sample_of(1, 0), other = sample_of(5, 2);
  one.ranks[0].values[locks_taken] = 1;
  one.locks.push_back({{{3, 4}, 1, 0}, {true, 9, {1}, 0}});
  one.locks.push_back({{{3, 4}, 1, 1}, {true, 9, {5}, 0}});
  other.locks.push_back({{{3, 4}, 5, 0}, {true, 9, {1}, 0}});
  merge(std::move(other), &one);
  EXPECT_EQ(one.find(1)->values[locks_taken], 2);
  EXPECT_EQ(one.find(5)->values[locks_taken], 1);
  EXPECT_EQ(one.locks.size(), 3);
}

TEST(Sample, WhatIsSeenTwiceCountsOnce) {
  Sample one = sample_of(1, 0);
  merge(sample_of(1, 0), &one);
  merge(sample_of(0, 0), &one);
  ASSERT_EQ(one.ranks.size(), 2);
  EXPECT_EQ(one.ranks[0].rank, 0);
  EXPECT_EQ(one.nodes.size(), 1);
}

}  // namespace
}  // namespace skerry::look
