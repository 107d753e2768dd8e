#include "connection/dialer.hpp"

#include <gtest/gtest.h>

#include "connection/test/given.hpp"

namespace skerry::connection {
namespace {

TEST(Dialer, PausesDoubleUpToASecond) {
  Dialer dialer;
  int64_t now = s;
  for (int64_t pause : {1 * ms, 2 * ms, 4 * ms, 8 * ms, 16 * ms, 32 * ms, 64 * ms, 128 * ms,
                        256 * ms, 512 * ms, s, s, s}) {
    Dialer shortest = dialer;
    EXPECT_TRUE(shortest.failed(now, Dialer::no_limit_ns, 0));
    EXPECT_EQ(shortest.due_ns(), now + pause / 2);
    EXPECT_TRUE(dialer.failed(now, Dialer::no_limit_ns, UINT32_MAX));
    EXPECT_GT(dialer.due_ns(), now + pause - 2);
    EXPECT_LE(dialer.due_ns(), now + pause);
    EXPECT_FALSE(dialer.is_due(now));
    now = dialer.due_ns();
    EXPECT_TRUE(dialer.is_due(now));
    (void)dialer.dial({}, {});
    EXPECT_EQ(dialer.due_ns(), 0);
  }
  EXPECT_EQ(dialer.failures(), 13u);
}

TEST(Dialer, GivesUpAfterTheLimitSinceTheFirstFailure) {
  Dialer dialer;
  EXPECT_TRUE(dialer.failed(s, 60 * s, 0));
  EXPECT_TRUE(dialer.failed(61 * s - 1, 60 * s, 0));
  EXPECT_FALSE(dialer.failed(61 * s, 60 * s, 0));
  EXPECT_EQ(dialer.failing_for_ns(61 * s), 60 * s);
}

TEST(Dialer, WhatGetsThroughMakesTheNextFailureAFirstOne) {
  Dialer dialer;
  for (int i = 0; i < 8; ++i) (void)dialer.failed(s, Dialer::no_limit_ns, 0);
  dialer.succeeded();
  dialer.succeeded();  // a duplicate
  EXPECT_EQ(dialer.failures(), 0u);
  EXPECT_EQ(dialer.failing_for_ns(100 * s), 0);
  EXPECT_TRUE(dialer.failed(100 * s, 60 * s, 0));
  EXPECT_EQ(dialer.due_ns(), 100 * s + ms / 2);
}

// A rank waited for a mutex for a minute, on a connection that had failed a few times before. At
// the next break it was told that it could not reach the server for a minute.
TEST(Dialer, AConnectionThatStayedOpenMakesTheNextFailureAFirstOne) {
  Dialer dialer;
  (void)dialer.failed(s, 60 * s, 0);
  dialer.was_open(s - 1);
  EXPECT_EQ(dialer.failures(), 1u);
  dialer.was_open(s);
  EXPECT_EQ(dialer.failures(), 0u);
  EXPECT_TRUE(dialer.failed(100 * s, 60 * s, 0));
}

TEST(Dialer, TheFirstAttemptAfterABreakDoesNotPause) {
  Dialer dialer;
  EXPECT_TRUE(dialer.failed(s, 60 * s, UINT32_MAX, Dialer::Failure::broken));
  EXPECT_TRUE(dialer.is_due(s));
  EXPECT_TRUE(dialer.failed(s, 60 * s, 0));
  EXPECT_EQ(dialer.due_ns(), s + ms);  // the second pause
}

// 256 gets that are asked for again go out in one burst. Where many messages break a connection,
// most attempts bring no answer. With pauses of a second the job took minutes, and was given up.
TEST(Dialer, AServerThatWasReachedIsTriedAgainSoon) {
  Dialer dialer;
  for (int i = 0; i < 20; ++i)
    (void)dialer.failed(s, Dialer::no_limit_ns, 0, Dialer::Failure::broken);
  Dialer longest = dialer;
  EXPECT_TRUE(dialer.failed(s, Dialer::no_limit_ns, 0, Dialer::Failure::broken));
  EXPECT_EQ(dialer.due_ns(), s + 32 * ms);
  EXPECT_TRUE(longest.failed(s, Dialer::no_limit_ns, UINT32_MAX, Dialer::Failure::broken));
  EXPECT_LE(longest.due_ns(), s + 64 * ms);
  // Expect: an attempt that does not reach it pauses as ever.
  EXPECT_TRUE(dialer.failed(s, Dialer::no_limit_ns, 0));
  EXPECT_EQ(dialer.due_ns(), s + 500 * ms);
}

// A server that no rank needs may be away for long. A rank that needs it then waits the whole
// limit.
TEST(Dialer, WhileNobodyWaitsTheLimitDoesNotRun) {
  Dialer dialer;
  (void)dialer.failed(s, 60 * s, 0);
  dialer.restart_clock();
  EXPECT_TRUE(dialer.failed(100 * s, 60 * s, 0));
  EXPECT_EQ(dialer.failures(), 2u);
  EXPECT_FALSE(dialer.failed(160 * s, 60 * s, 0));
}

}  // namespace
}  // namespace skerry::connection
