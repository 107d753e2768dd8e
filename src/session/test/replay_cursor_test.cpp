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

// Sends what the cursor gives until it has nothing; returns how much.
uint32_t send_all(ReplayCursor& cursor, const ReplayLog& log) {
  uint32_t sent = 0;
  while (const uint64_t number = cursor.next(&log)) {
    cursor.passed(number);
    ++sent;
  }
  return sent;
}

TEST_F(ReplayCursorTest, BreaksHalveAPortionAndAnswersDoubleIt) {
  for (uint64_t n = 1; n <= 1000; ++n) issue(n);
  cursor.start(1, ReplayCursor::Scope::all);
  EXPECT_EQ(send_all(cursor, log), 64u);
  EXPECT_TRUE(cursor.waits_for_answers(&log));
  // Expect: a portion that has not got through whole lets nothing follow.
  log.acknowledge(63);
  EXPECT_EQ(send_all(cursor, log), 0u);
  log.acknowledge(64);
  EXPECT_EQ(send_all(cursor, log), 128u);
  log.acknowledge(192);
  EXPECT_EQ(send_all(cursor, log), 256u);
  // Expect: breaks without a single answer come down to one request at a time.
  for (const uint32_t portion : {128u, 64u, 32u, 16u, 8u, 4u, 2u, 1u, 1u}) {
    cursor.stop();
    cursor.start(1, ReplayCursor::Scope::all);
    EXPECT_EQ(send_all(cursor, log), portion);
  }
  // Expect: from there to the end, and then nothing is waited for.
  uint64_t sent = 193;
  for (uint32_t portion = 2; sent + portion < 1000; portion *= 2) {
    log.acknowledge(sent);
    ASSERT_EQ(send_all(cursor, log), portion);
    sent += portion;
  }
  log.acknowledge(sent);
  EXPECT_EQ(send_all(cursor, log), 1000 - sent);
  EXPECT_FALSE(cursor.waits_for_answers(&log));
}

TEST_F(ReplayCursorTest, WhatGotThroughBeforeABreakShrinksNothing) {
  for (uint64_t n = 1; n <= 1000; ++n) issue(n);
  cursor.start(1, ReplayCursor::Scope::all, log.first_number());
  EXPECT_EQ(send_all(cursor, log), 64u);
  log.acknowledge(64);
  // Expect: the portion was answered before the connection broke: the next one is larger.
  cursor.start(1, ReplayCursor::Scope::all, log.first_number());
  EXPECT_EQ(send_all(cursor, log), 128u);
  // Expect: one that was not is halved.
  log.acknowledge(100);
  cursor.start(1, ReplayCursor::Scope::all, log.first_number());
  EXPECT_EQ(send_all(cursor, log), 64u);
}

TEST_F(ReplayCursorTest, WhatSaysNothingOfTheNetworkLeavesThePortionAsItIs) {
  for (uint64_t n = 1; n <= 1000; ++n) issue(n);
  cursor.start(1, ReplayCursor::Scope::all, log.first_number());
  EXPECT_EQ(send_all(cursor, log), 64u);
  // Expect: a server that closes in order is no break.
  cursor.forget_portion();
  cursor.start(1, ReplayCursor::Scope::all, log.first_number());
  EXPECT_EQ(send_all(cursor, log), 64u);
  // Expect: neither is a portion whose first request the fabric refused an answered one.
  cursor.start(1, ReplayCursor::Scope::all, log.first_number());
  EXPECT_EQ(cursor.next(&log), 1u);
  cursor.start(1, ReplayCursor::Scope::all, log.first_number());
  EXPECT_EQ(send_all(cursor, log), 32u);
}

TEST_F(ReplayCursorTest, APortionEndsWhereAnAnswerIsOwed) {
  for (uint64_t n = 1; n <= 100; ++n) issue(n);
  cursor.start(1, ReplayCursor::Scope::all);
  // Expect: requests 60 to 70 are parts of one transfer, acknowledged together.
  uint64_t last = 0;
  while (const uint64_t number = cursor.next(&log)) {
    cursor.passed(number, number >= 60 && number < 70);
    last = number;
  }
  EXPECT_EQ(last, 70u);
}

TEST_F(ReplayCursorTest, WhatWasOnlyQueuedGoesAtOnce) {
  for (uint64_t n = 1; n <= 1000; ++n) issue(n);
  cursor.start(1, ReplayCursor::Scope::queued);
  EXPECT_EQ(send_all(cursor, log), 1000u);
}

}  // namespace
}  // namespace skerry::session
