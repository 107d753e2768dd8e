#include "session/backlog.hpp"

#include <gtest/gtest.h>

namespace skerry::session {
namespace {

struct BacklogTest : testing::Test {
  Backlog backlog{{4, 1000}};
  Backlog::Part a{1}, b{2};
};

TEST_F(BacklogTest, WhatPassesAtOnceDoesNotWait) {
  Backlog::passed(a, 1);
  Backlog::passed(a, 2);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(a.sent, 2u);
  EXPECT_TRUE(backlog.empty());
}

TEST_F(BacklogTest, CountsAgreeFromTheFirstToTheLast) {
  Backlog::passed(a, 1);
  backlog.add(a, 100, true, 7);
  backlog.add(b, 50, false, 8);
  backlog.add(a, 10, false, 9);
  // Expect: the clock runs since the first; sessions stand in the order in which they began.
  EXPECT_EQ(backlog.since_ns(), 7);
  ASSERT_EQ(backlog.parts().size(), 2u);
  EXPECT_EQ(backlog.parts()[0]->owner, 1u);
  EXPECT_EQ(backlog.requests(), 3u);
  EXPECT_EQ(backlog.bytes(), 160u);
  EXPECT_EQ(backlog.replies(), 1u);

  // Expect (in order): the first of two goes; its session still waits, with its bytes.
  EXPECT_FALSE(backlog.sent(a, 2, true));
  EXPECT_EQ(backlog.replies(), 0u);
  EXPECT_EQ(backlog.bytes(), 160u);
  // Expect (the last one): its session waits no more, and takes its bytes along.
  EXPECT_TRUE(backlog.sent(a, 3, false));
  EXPECT_EQ(backlog.bytes(), 50u);
  ASSERT_EQ(backlog.parts().size(), 1u);
  EXPECT_TRUE(backlog.sent(b, 1, false));
  EXPECT_TRUE(backlog.empty());
  EXPECT_EQ(backlog.requests() + backlog.bytes() + backlog.replies(), 0u);
}

TEST_F(BacklogTest, PastAndFutureNumbersAreOurOwnMistake) {
  backlog.add(a, 1, false, 1);
  backlog.add(a, 1, false, 1);
  EXPECT_TRUE(!backlog.sent(a, 1, false));
  // Expect: a duplicate, or one that overtakes, stops the process and corrupts nothing.
  EXPECT_DEATH((void)backlog.sent(a, 1, false), "in its order");
  EXPECT_DEATH((void)backlog.sent(a, 3, false), "in its order");
}

TEST_F(BacklogTest, IsBoundedInRequestsAndBytes) {
  EXPECT_TRUE(backlog.takes(1000));
  EXPECT_FALSE(backlog.takes(1001));
  for (int i = 0; i < 4; ++i) backlog.add(a, 1, false, 1);
  EXPECT_FALSE(backlog.takes(0));
  // Expect: what was dropped makes room; a second drop, crossing the first, does nothing.
  backlog.drop(a);
  backlog.drop(a);
  EXPECT_TRUE(backlog.takes(1000));
  EXPECT_TRUE(backlog.empty());
  EXPECT_EQ(a.sent, 4u);
}

TEST_F(BacklogTest, TheSessionWithMoreThanItsShareIsUrgentOnceHalfIsUsed) {
  backlog.add(a, 400, false, 1);
  EXPECT_FALSE(backlog.is_urgent(a));
  backlog.add(b, 200, false, 1);
  EXPECT_TRUE(backlog.is_urgent(a));
  EXPECT_FALSE(backlog.is_urgent(b));
}

}  // namespace
}  // namespace skerry::session
