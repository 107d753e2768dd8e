#include "session/replay_log.hpp"

#include <gtest/gtest.h>

namespace skerry::session {
namespace {

struct ReplayCursorTest : testing::Test {
  ReplayLog log;
  ReplayCursor cursor;
  void issue(uint64_t number) {
    log.reserve(8);
    log.commit(number, 0, 8, false);
  }
};

TEST_F(ReplayCursorTest, GoesThroughTheLogAndThenTheSlots) {
  for (uint64_t n = 1; n <= 3; ++n) issue(n);
  cursor.start(1, ReplayCursor::Scope::all);
  for (uint64_t n = 1; n <= 3; ++n) {
    EXPECT_EQ(cursor.next(&log), n);
    EXPECT_EQ(cursor.next(&log), n);  // the fabric was full: the same one comes again
    cursor.passed(n);
  }
  EXPECT_EQ(cursor.next(&log), 0u);
  EXPECT_EQ(cursor.next_slot(2), 0u);
  cursor.passed_slot();
  EXPECT_EQ(cursor.next(&log), 0u);  // on_writable calls again: not from the front
  EXPECT_EQ(cursor.next_slot(2), 1u);
  cursor.passed_slot();
  EXPECT_EQ(cursor.next_slot(2), 2u);
  cursor.stop();
  EXPECT_FALSE(cursor.running());
}

TEST_F(ReplayCursorTest, AnAcknowledgementThatCrossesIsSkipped) {
  for (uint64_t n = 1; n <= 4; ++n) issue(n);
  cursor.start(1, ReplayCursor::Scope::all);
  cursor.passed(1);
  // Expect: the server says meanwhile that it has three; the fourth is next.
  log.acknowledge(3);
  EXPECT_EQ(cursor.next(&log), 4u);
  // Expect: it has all, before the fourth went: the log is through.
  log.acknowledge(4);
  EXPECT_EQ(cursor.next(&log), 0u);
  EXPECT_EQ(cursor.next(nullptr), 0u);
}

TEST_F(ReplayCursorTest, WhatIsIssuedMeanwhileComesLast) {
  issue(1);
  cursor.start(1, ReplayCursor::Scope::all);
  cursor.passed(1);
  EXPECT_EQ(cursor.next(&log), 0u);
  issue(2);
  EXPECT_EQ(cursor.next(&log), 2u);
}

TEST_F(ReplayCursorTest, WhatWasOnlyQueuedAsksForNoLocksAgain) {
  for (uint64_t n = 1; n <= 3; ++n) issue(n);
  cursor.start(3, ReplayCursor::Scope::queued);
  EXPECT_EQ(cursor.next(&log), 3u);
  cursor.passed(3);
  EXPECT_EQ(cursor.next(&log), 0u);
  EXPECT_EQ(cursor.next_slot(64), 64u);
}

TEST_F(ReplayCursorTest, ASecondBreakStartsAgainFromTheFront) {
  for (uint64_t n = 1; n <= 3; ++n) issue(n);
  cursor.start(1, ReplayCursor::Scope::all);
  cursor.passed(1);
  cursor.stop();
  cursor.start(1, ReplayCursor::Scope::all);
  EXPECT_EQ(cursor.next(&log), 1u);
  // Expect: one that skips ahead stops the process.
  EXPECT_DEATH(cursor.passed(2), "one after the other");
}

}  // namespace
}  // namespace skerry::session
