#include "connection/core/retry.hpp"

#include <gtest/gtest.h>

namespace skerry::connection {
namespace {

constexpr int64_t ms = 1'000'000, s = 1'000'000'000;
using Verdict = Retry::Verdict;

TEST(Retry, PausesDoubleUpToASecond) {
  Retry retry;
  int64_t now = s;
  for (int64_t pause : {1 * ms, 2 * ms, 4 * ms, 8 * ms, 16 * ms, 32 * ms, 64 * ms, 128 * ms,
                        256 * ms, 512 * ms, s, s, s}) {
    Retry shortest = retry;
    EXPECT_EQ(shortest.failed(now, Retry::no_limit_ns, 0), Verdict::again);
    EXPECT_EQ(shortest.due_ns(), now + pause / 2);
    EXPECT_EQ(retry.failed(now, Retry::no_limit_ns, UINT32_MAX), Verdict::again);
    EXPECT_GT(retry.due_ns(), now + pause - 2);
    EXPECT_LE(retry.due_ns(), now + pause);
    EXPECT_FALSE(retry.is_due(now));
    now = retry.due_ns();
    EXPECT_TRUE(retry.is_due(now));
    retry.attempt();
    EXPECT_EQ(retry.due_ns(), 0);
  }
  EXPECT_EQ(retry.failures(), 13u);
}

TEST(Retry, GivesUpAfterTheLimitSinceTheFirstFailure) {
  Retry retry;
  EXPECT_EQ(retry.failed(s, 60 * s, 0), Verdict::again);
  EXPECT_EQ(retry.failed(61 * s - 1, 60 * s, 0), Verdict::again);
  EXPECT_EQ(retry.failed(61 * s, 60 * s, 0), Verdict::give_up);
  EXPECT_EQ(retry.failing_for_ns(61 * s), 60 * s);
}

TEST(Retry, WhatGetsThroughMakesTheNextFailureAFirstOne) {
  Retry retry;
  for (int i = 0; i < 8; ++i) (void)retry.failed(s, Retry::no_limit_ns, 0);
  retry.succeeded();
  retry.succeeded();  // a duplicate
  EXPECT_EQ(retry.failures(), 0u);
  EXPECT_EQ(retry.failing_for_ns(100 * s), 0);
  EXPECT_EQ(retry.failed(100 * s, 60 * s, 0), Verdict::again);
  EXPECT_EQ(retry.due_ns(), 100 * s + ms / 2);
}

// A rank that waited for a mutex for a minute, on a connection that had failed a few times before,
// was told at the next break that it could not reach the server for a minute.
TEST(Retry, AConnectionThatStayedOpenMakesTheNextFailureAFirstOne) {
  Retry retry;
  (void)retry.failed(s, 60 * s, 0);
  retry.was_open(s - 1);
  EXPECT_EQ(retry.failures(), 1u);
  retry.was_open(s);
  EXPECT_EQ(retry.failures(), 0u);
  EXPECT_EQ(retry.failed(100 * s, 60 * s, 0), Verdict::again);
}

TEST(Retry, TheFirstAttemptAfterABreakDoesNotPause) {
  Retry retry;
  EXPECT_EQ(retry.failed(s, 60 * s, UINT32_MAX, Retry::Pause::none), Verdict::again);
  EXPECT_TRUE(retry.is_due(s));
  EXPECT_EQ(retry.failed(s, 60 * s, 0), Verdict::again);
  EXPECT_EQ(retry.due_ns(), s + ms);  // the second pause
}

// 256 gets that are asked for again go out in one burst. Where many messages break a connection,
// most attempts bring no answer. With pauses of a second the job took minutes, and was given up.
TEST(Retry, AServerThatWasReachedIsTriedAgainSoon) {
  Retry retry;
  for (int i = 0; i < 20; ++i) (void)retry.failed(s, Retry::no_limit_ns, 0, Retry::Pause::brief);
  Retry longest = retry;
  EXPECT_EQ(retry.failed(s, Retry::no_limit_ns, 0, Retry::Pause::brief), Verdict::again);
  EXPECT_EQ(retry.due_ns(), s + 32 * ms);
  EXPECT_EQ(longest.failed(s, Retry::no_limit_ns, UINT32_MAX, Retry::Pause::brief), Verdict::again);
  EXPECT_LE(longest.due_ns(), s + 64 * ms);
  // Expect: an attempt that does not reach it pauses as ever.
  EXPECT_EQ(retry.failed(s, Retry::no_limit_ns, 0), Verdict::again);
  EXPECT_EQ(retry.due_ns(), s + 500 * ms);
}

// A server that nobody needs may be away for long. A rank that needs it then waits the whole limit.
TEST(Retry, WhileNobodyWaitsTheLimitDoesNotRun) {
  Retry retry;
  (void)retry.failed(s, 60 * s, 0);
  retry.nobody_waits();
  EXPECT_EQ(retry.failed(100 * s, 60 * s, 0), Verdict::again);
  EXPECT_EQ(retry.failures(), 2u);
  EXPECT_EQ(retry.failed(160 * s, 60 * s, 0), Verdict::give_up);
}

}  // namespace
}  // namespace skerry::connection
