#include "placement/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/pure/status.hpp"

namespace skerry::placement {
namespace {

constexpr uint64_t tcp_bytes = 6 * 1024;

TEST(Plan, AutoStaysWithinAQuarterOfTheBudget) {
  const Plan without = plan({500, 64, 1}, {}, tcp_bytes);
  EXPECT_TRUE(without.routes.is_direct());
  EXPECT_EQ(without.cluster_size, 1);
  EXPECT_EQ(without.connections, 64u * 499);
  const Plan within = plan({500, 64, 1}, {Settings::auto_cluster, false, 32 << 20}, tcp_bytes);
  EXPECT_EQ(within.cluster_size, 28);  // the example of docs/tuning.md
  EXPECT_LE(within.connections * tcp_bytes, 8u << 20);
  EXPECT_EQ(within.budget.connection_bytes, 8u << 20);
}

TEST(Plan, TheServersOfANodeShareRanksAndBudgetButNotTheirTrunks) {
  const Settings settings{10, false, 64 << 20};
  const Plan one = plan({100, 12, 1}, settings, tcp_bytes);
  const Plan four = plan({100, 12, 4}, settings, tcp_bytes);
  const Neighbours all = one.routes.most_neighbours(12);
  EXPECT_EQ(one.connections, all.ranks + all.servers);
  EXPECT_EQ(four.connections, all.ranks / 4 + all.servers);
  EXPECT_EQ(four.budget.pool_bytes, one.budget.pool_bytes / 4);
}

TEST(Plan, AClusterIsAtMostTheJobAndOneNodeSharesNothing) {
  EXPECT_EQ(plan({4, 2, 1}, {9, false, 0}, tcp_bytes).cluster_size, 4);
  EXPECT_TRUE(plan({1, 2, 1}, {1, true, 0}, tcp_bytes).routes.is_direct());
  EXPECT_EQ(plan({100, 2, 1}, {Settings::sqrt_cluster, false, 0}, tcp_bytes).cluster_size, 10);
}

TEST(Plan, SaysWhichSettingsCannotHold) {
  const auto said = [](const Shape& shape, const Settings& settings) {
    return remark(shape, settings, tcp_bytes).text;
  };
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(said({4, 2, 1}, {}), "");
  EXPECT_EQ(said({4, 2, 1}, {4, true, 0}), "");
  EXPECT_EQ(said({500, 64, 1}, {Settings::auto_cluster, false, 32 << 20}), "");
  EXPECT_EQ(said({1, 64, 1}, {Settings::auto_cluster, false, 1 << 20}), "");
  expect(said({4, 2, 1}, {9, false, 0}), "=9, but the job has 4 nodes: they form one cluster");
  expect(said({1, 2, 1}, {2, false, 0}), "has 1 node: there is nothing");
  // 499 * 64 connections of 6 KiB, four times.
  expect(said({500, 64, 1}, {1, false, 32 << 20}), "=32M is less");
  expect(said({500, 64, 1}, {1, false, 32 << 20}), "give 749M, or leave SKERRY_CLUSTER_SIZE out");
  // Too little for any size; shared connections need fewer.
  expect(said({500, 64, 1}, {Settings::auto_cluster, false, 4 << 20}), "or set SKERRY_SHARE=1");
  // Bug guarded against: "0 KiB are for them", and no word of the pools.
  expect(said({6, 2, 1}, {Settings::auto_cluster, false, 160 << 10}),
         "nothing is left for them beside 2 MiB of pools; give 3M");
}

// Expect: with the number that the remark gives there is no remark, with 1 MiB less there is.
TEST(Plan, TheBudgetThatARemarkGivesSuffices) {
  int remarks = 0;
  for (const NodeId nodes : {2, 6, 33, 500})
    for (const uint32_t ranks : {1u, 7u, 64u})
      for (const uint32_t servers : {1u, 3u, 8u})
        for (const NodeId size : {1, 4, 0, -1})
          for (const bool shared : {false, true})
            for (const uint64_t budget : {160u << 10, 1u << 20, 5u << 20, 32u << 20}) {
              const Shape shape{nodes, ranks, servers};
              const Settings given{std::min(size, nodes), shared, budget};
              const Remark said = remark(shape, given, tcp_bytes);
              if (said.weight == 0) continue;
              ++remarks;
              Settings better = given;
              better.budget_bytes = said.weight;
              EXPECT_NE(said.text.find(concat("give ", said.weight >> 20, "M")), std::string::npos);
              EXPECT_EQ(remark(shape, better, tcp_bytes).text, "") << said.text;
              better.budget_bytes -= 1 << 20;
              if (better.budget_bytes > budget) {
                EXPECT_NE(remark(shape, better, tcp_bytes).text, "") << said.text;
              }
            }
  EXPECT_GT(remarks, 100);
}

}  // namespace
}  // namespace skerry::placement
