#include "session/session.hpp"

#include <gtest/gtest.h>

namespace skerry::session {
namespace {

TEST(OriginSession, FencesWaitForTheCumulativeAcknowledgement) {
  OriginSession s(1, Credits{});
  EXPECT_EQ(s.issue(8), 1u);
  EXPECT_EQ(s.issue(8), 2u);
  EXPECT_FALSE(s.drained());
  EXPECT_TRUE(s.acknowledge(1).ok());
  EXPECT_FALSE(s.drained());
  EXPECT_TRUE(s.acknowledge(2).ok());
  EXPECT_TRUE(s.drained());
}

TEST(OriginSession, LateAcknowledgementsDoNotMoveBackwards) {
  OriginSession s(1, Credits{});
  for (int i = 0; i < 3; ++i) s.issue(1);
  EXPECT_TRUE(s.acknowledge(3).ok());
  EXPECT_TRUE(s.acknowledge(1).ok());
  EXPECT_EQ(s.applied(), 3u);
}

TEST(OriginSession, AnAcknowledgementOfTheFutureIsABrokenInvariant) {
  OriginSession s(1, Credits{});
  s.issue(1);
  EXPECT_EQ(s.acknowledge(2).code(), Code::internal);
}

TEST(OriginSession, CreditsBoundWhatIsUnacknowledged) {
  OriginSession s(1, Credits{2, 100});
  EXPECT_TRUE(s.may_issue(1000));  // alone, larger than all credits: allowed, or it could never go
  s.issue(60);
  EXPECT_FALSE(s.may_issue(60));
  EXPECT_TRUE(s.may_issue(40));
  s.issue(40);
  EXPECT_FALSE(s.may_issue(0));
  EXPECT_TRUE(s.acknowledge(2).ok());
  EXPECT_TRUE(s.may_issue(100));
}

// Random acknowledgements: credits never leak and never exceed the bound by more than one window.
TEST(OriginSession, CreditsComeBackWhateverTheAcknowledgementPattern) {
  OriginSession s(1, Credits{64, 1000});
  uint64_t x = 88172645463325252ull;
  for (int i = 0; i < 100000; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    if (s.may_issue(x % 50)) s.issue(x % 50);
    else ASSERT_TRUE(s.acknowledge(s.applied() + 1 + (x >> 8) % (s.issued() - s.applied())).ok());
    ASSERT_LE(s.issued() - s.applied(), 64u);
  }
  ASSERT_TRUE(s.acknowledge(s.issued()).ok());
  EXPECT_TRUE(s.may_issue(1000));
}

// What was once returned was taken back by the first partial acknowledgement after a complete one:
// the origin then waited for acknowledgements that nobody owed it.
TEST(OriginSession, CreditsThatCameBackStay) {
  OriginSession s(1, Credits{64, 1000});
  s.issue(10);
  s.issue(10);
  EXPECT_TRUE(s.acknowledge(1).ok());  // the mark is at request 2, of 20 bytes
  EXPECT_TRUE(s.acknowledge(2).ok());
  for (int i = 0; i < 50; ++i) {  // 5000 bytes, each acknowledged before the next
    s.issue(100);
    EXPECT_TRUE(s.acknowledge(s.issued()).ok());
  }
  s.issue(10);
  s.issue(10);
  EXPECT_TRUE(s.acknowledge(s.issued() - 1).ok());
  EXPECT_TRUE(s.may_issue(500));
  EXPECT_TRUE(s.at_ease());
}

// A server that held back acknowledgements while the origin was out of credits made both wait for
// ever.
TEST(OriginSession, IsNotAtEaseBeforeItsCreditsEnd) {
  OriginSession s(1, Credits{8, 1000});
  while (s.at_ease()) {
    ASSERT_TRUE(s.may_issue(100));
    s.issue(100);
  }
  EXPECT_TRUE(s.may_issue(100));
  EXPECT_TRUE(s.acknowledge(s.issued()).ok());
  EXPECT_TRUE(s.at_ease());
}

TEST(TargetSession, AppliesInOrderAndOnce) {
  TargetSession t(7);
  EXPECT_EQ(t.classify(2), Order::gap);
  EXPECT_EQ(t.classify(1), Order::apply);
  t.applied_next();
  EXPECT_EQ(t.classify(1), Order::duplicate);
  EXPECT_EQ(t.classify(2), Order::apply);
}

TEST(TargetSession, AReplayedReadModifyWriteIsAnsweredFromTheKeptResult) {
  TargetSession t(7);
  t.applied_next();
  t.keep_result(1, 42);
  ASSERT_NE(t.kept(1), nullptr);
  EXPECT_EQ(t.kept(1)->result, 42u);
  EXPECT_EQ(t.kept(1)->code, 0);
  t.confirm(1);
  EXPECT_EQ(t.kept(1), nullptr);
}

TEST(TargetSession, AFailureIsKeptUntilItsOriginHasHeardOfIt) {
  TargetSession t(7);
  t.applied_next();
  t.keep_failure(1, -3, true, "out of range");
  t.applied_next();
  t.keep_result(2, 5);
  t.confirm(0);
  ASSERT_EQ(t.kept().size(), 2u);
  EXPECT_EQ(t.kept().front().payload, "out of range");
  t.confirm(1);
  EXPECT_EQ(t.kept().size(), 1u);
}

// Guards against: a server kept the last result of a rank that did one fetch-and-add, for ever.
TEST(TargetSession, AByeConfirmsWhatItsOriginWaitedFor) {
  TargetSession t(7);
  for (int i = 0; i < 3; ++i) t.applied_next();
  t.keep_result(1, 42);
  t.keep_failure(2, -3, true, "an unlock, of which it was told");
  t.confirm_bye();
  EXPECT_TRUE(t.kept().empty());
  EXPECT_EQ(t.memory_bytes(), 0u);
}

// A lock request that waits does not keep its connection, so a bye says nothing about its answer.
TEST(TargetSession, AByeKeepsTheRefusalOfALock) {
  TargetSession t(7);
  t.applied_next();
  t.keep_failure(1, -3, false, "it holds it already");
  t.confirm_bye();
  ASSERT_NE(t.kept(1), nullptr);
  EXPECT_FALSE(t.owes_refusals());
}

TEST(TargetSession, OwesRefusalsOfOneWayRequestsOnly) {
  TargetSession t(7);
  EXPECT_FALSE(t.owes_refusals());
  t.keep_result(1, 42);
  EXPECT_FALSE(t.owes_refusals());
  t.keep_failure(2, -3, true, "not held");
  EXPECT_TRUE(t.owes_refusals());
  t.confirm(2);
  EXPECT_FALSE(t.owes_refusals());
}

// Guards against: an unlock was refused, and its connection broke before the origin was told. The
// answer to the next opening says "applied", a message behind it says "refused": a fence in between
// reported success.
TEST(OriginSession, IsNotDrainedBeforeItIsToldOfARefusal) {
  OriginSession s(1, Credits{});
  s.issue(8);
  EXPECT_TRUE(s.resume(1, true).ok());
  EXPECT_EQ(s.applied(), 1u);
  EXPECT_TRUE(s.refusal_due());
  EXPECT_FALSE(s.drained());
  // Crossing: it breaks again before the message came. The next answer says the same.
  EXPECT_TRUE(s.resume(1, true).ok());
  EXPECT_FALSE(s.drained());
  s.refusal_told();
  EXPECT_TRUE(s.drained());
  // Late: the server had our confirmation meanwhile, so nothing is due.
  EXPECT_TRUE(s.resume(1, false).ok());
  EXPECT_TRUE(s.drained());
}

TEST(TargetSession, ProgressBelongsToTheNextRequestAndOutlivesItsConnection) {
  TargetSession t(7);
  t.add_progress(4096);
  t.add_progress(4096);
  EXPECT_EQ(t.progress_bytes(), 8192u);
  t.set_notify_pending();
  EXPECT_TRUE(t.notify_pending());
  EXPECT_EQ(t.progress_bytes(), 8192u);
  t.applied_next();
  EXPECT_EQ(t.progress_bytes(), 0u);
  EXPECT_FALSE(t.notify_pending());
}

TEST(OriginSession, ResumesWhereTheServerIsAndNeverFromLess) {
  OriginSession s(1, Credits{});
  for (int i = 0; i < 5; ++i) s.issue(1);
  EXPECT_TRUE(s.acknowledge(2).ok());
  EXPECT_TRUE(s.resume(4).ok());
  EXPECT_EQ(s.applied(), 4u);
  EXPECT_EQ(s.resume(3).code(), Code::internal);
  EXPECT_EQ(s.resume(6).code(), Code::internal);
}

}  // namespace
}  // namespace skerry::session
