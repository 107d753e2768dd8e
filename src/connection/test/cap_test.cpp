#include "connection/cap.hpp"

#include <gtest/gtest.h>

#include <map>

namespace skerry::connection {
namespace {

using Answer = Cap::Answer;
using Hold = Cap::Hold;
using Standing = Cap::Standing;

struct CapTest : testing::Test {
  Cap cap;
  Cap::Claim a{0}, b{1}, c{2}, d{3};
  std::map<Partner, Standing> standing;  // settled unless it says otherwise
  Cap::Claim* victim = nullptr;

  Answer ask(Cap& of, int64_t now_ns) {
    return of.ask(
        now_ns,
        [&](const Cap::Claim& claim) {
          const auto found = standing.find(claim.partner);
          return found == standing.end() ? Standing::settled : found->second;
        },
        &victim);
  }
  Answer ask(int64_t now_ns = 100) { return ask(cap, now_ns); }
  void open(Cap::Claim& claim, int64_t now_ns) {
    cap.hold(claim, Hold::occupied, now_ns);
    cap.connected(claim, now_ns + 1);
  }
};

TEST_F(CapTest, PatienceGrowsWithEvictionsAndShrinksWithAnswers) {
  Cap patient(Cap::Patience{4, 16});
  ASSERT_TRUE(patient.set_limit(1, "lru").ok());
  patient.hold(a, Hold::occupied, 0);
  patient.connected(a, 0);
  standing[0] = Standing::unproven;
  // Expect: pinned until its time is up, and then it makes way.
  EXPECT_EQ(ask(patient, 3), Answer::wait);
  EXPECT_EQ(patient.look_again_ns(), 4);
  ASSERT_EQ(ask(patient, 4), Answer::evict);
  // Expect: the next one has twice the time, up to the most.
  EXPECT_EQ(ask(patient, 7), Answer::wait);
  EXPECT_EQ(patient.look_again_ns(), 8);
  ASSERT_EQ(ask(patient, 8), Answer::evict);
  ASSERT_EQ(ask(patient, 16), Answer::evict);
  EXPECT_EQ(patient.patience_ns(0), 16);
  // Expect: answers take that back, down to the least.
  patient.proven(a);
  EXPECT_EQ(patient.patience_ns(0), 8);
  for (int i = 0; i < 3; ++i) patient.proven(a);
  EXPECT_EQ(patient.patience_ns(0), 4);
  // Expect: a proven victim changes nothing.
  standing[0] = Standing::settled;
  ASSERT_EQ(ask(patient, 17), Answer::evict);
  EXPECT_EQ(patient.patience_ns(0), 4);
}

// Guards against: a partner that answers at once, and is always wanted, took back the time that a
// slow one needs. That one was evicted before each of its answers, for ever.
TEST_F(CapTest, AFastPartnerLeavesASlowOneItsTime) {
  Cap patient(Cap::Patience{4, 100});
  ASSERT_TRUE(patient.set_limit(1, "lru").ok());
  constexpr int64_t answer_takes = 20;  // of b
  int64_t now_ns = 0;
  for (int turn = 0;; ++turn) {
    ASSERT_LT(turn, 4) << "b never gets its answer";
    standing[1] = Standing::unproven;
    patient.hold(b, Hold::occupied, now_ns);
    patient.connected(b, now_ns);
    if (ask(patient, now_ns + answer_takes) == Answer::wait) break;
    now_ns += answer_takes;
    patient.hold(b, Hold::leaving, now_ns, true);
    patient.hold(b, Hold::none, now_ns);
    patient.hold(a, Hold::occupied, now_ns);
    patient.connected(a, now_ns);
    patient.proven(a);
    patient.hold(a, Hold::leaving, ++now_ns, true);
    patient.hold(a, Hold::none, now_ns);
  }
}

// However long the other one waits already.
TEST_F(CapTest, ASettledOneMakesWayBeforeOneWhoseTimeIsUp) {
  Cap patient(Cap::Patience{4, 16});
  ASSERT_TRUE(patient.set_limit(2, "lru").ok());
  for (Cap::Claim* claim : {&a, &b}) {
    patient.hold(*claim, Hold::occupied, 0);
    patient.connected(*claim, 0);
  }
  standing[0] = Standing::unproven;
  ASSERT_EQ(ask(patient, 50), Answer::evict);
  EXPECT_EQ(victim->partner, 1u);
  EXPECT_EQ(patient.patience_ns(0), 4);
}

TEST_F(CapTest, WithoutALimitEverybodyIsGranted) {
  for (Cap::Claim* claim : {&a, &b, &c, &d}) {
    EXPECT_EQ(ask(), Answer::granted);
    open(*claim, 1);
  }
  EXPECT_EQ(cap.occupied(), 4u);
  EXPECT_EQ(cap.counters().peak, 4u);
  EXPECT_EQ(cap.counters().setup_ns, 4u);
}

TEST_F(CapTest, AtTheLimitTheLeastRecentlyUsedMakesWay) {
  ASSERT_TRUE(cap.set_limit(2, "lru").ok());
  open(a, 1);
  open(b, 2);
  cap.used(a);
  // Expect: b, which was used longest ago.
  ASSERT_EQ(ask(), Answer::evict);
  EXPECT_EQ(victim->partner, 1u);
  cap.hold(b, Hold::leaving, 10, true);
  // Expect: its slot is free while it closes.
  EXPECT_EQ(ask(), Answer::granted);
  open(c, 11);
  EXPECT_EQ(cap.occupied(), 2u);
  EXPECT_EQ(cap.leaving(), 1u);
  // Expect: while one leaves nobody else has to.
  EXPECT_EQ(ask(), Answer::hasten);
  cap.hold(b, Hold::none, 15);
  EXPECT_EQ(ask(), Answer::evict);
  EXPECT_EQ(cap.counters().evicted, 1u);
  EXPECT_EQ(cap.counters().peak, 3u);
}

TEST_F(CapTest, AReportThatComesTwiceChangesNothing) {
  ASSERT_TRUE(cap.set_limit(1, "lru").ok());
  open(a, 1);
  cap.hold(a, Hold::occupied, 2);
  EXPECT_EQ(cap.occupied(), 1u);
  cap.hold(a, Hold::leaving, 3, true);
  cap.hold(a, Hold::leaving, 4);
  EXPECT_EQ(cap.leaving(), 1u);
  cap.hold(a, Hold::none, 5);
  cap.hold(a, Hold::none, 6);
  EXPECT_EQ(cap.leaving(), 0u);
  EXPECT_EQ(cap.occupied(), 0u);
  EXPECT_EQ(cap.counters().evicted, 1u);
  EXPECT_EQ(cap.counters().teardown_ns, 2u);
}

// Crossing: it is wanted again before it has drained, and takes its slot back.
TEST_F(CapTest, OneThatLeavesMayComeBack) {
  ASSERT_TRUE(cap.set_limit(1, "lru").ok());
  open(a, 1);
  cap.hold(a, Hold::leaving, 3, true);
  EXPECT_EQ(ask(), Answer::granted);
  cap.hold(a, Hold::occupied, 4);
  EXPECT_EQ(cap.leaving(), 0u);
  EXPECT_EQ(cap.occupied(), 1u);
  EXPECT_EQ(cap.counters().teardown_ns, 0u);  // no teardown came of it
}

TEST_F(CapTest, BusyAndUnprovenConnectionsArePinned) {
  ASSERT_TRUE(cap.set_limit(2, "lru").ok());
  open(a, 1);
  open(b, 2);
  standing = {{0, Standing::busy}, {1, Standing::unproven}};
  EXPECT_EQ(ask(), Answer::wait);
  EXPECT_EQ(cap.look_again_ns(), INT64_MAX);  // only an answer helps
  EXPECT_EQ(ask(cap, INT64_MAX), Answer::wait);
  // Expect: an answer has come back to b.
  standing.erase(1);
  ASSERT_EQ(ask(), Answer::evict);
  EXPECT_EQ(victim->partner, 1u);
}

TEST_F(CapTest, WhereTheDriverSaysSoPatienceWithTheUnprovenEnds) {
  Cap patient(Cap::Patience{50, 50});
  ASSERT_TRUE(patient.set_limit(1, "lru").ok());
  patient.hold(a, Hold::occupied, 100);
  patient.connected(a, 110);
  standing = {{0, Standing::unproven}};
  EXPECT_EQ(ask(patient, 159), Answer::wait);
  EXPECT_EQ(patient.look_again_ns(), 160);
  EXPECT_EQ(ask(patient, 160), Answer::evict);
}

TEST_F(CapTest, ALowerLimitIsReachedStepByStep) {
  open(a, 1);
  open(b, 2);
  open(c, 3);
  ASSERT_TRUE(cap.set_limit(1, "lru_m").ok());
  ASSERT_EQ(ask(), Answer::evict);
  EXPECT_EQ(victim->partner, 0u);
  cap.hold(a, Hold::leaving, 10, true);
  EXPECT_TRUE(cap.at_limit());
  cap.denied(11);
  cap.hold(a, Hold::none, 15);
  EXPECT_EQ(cap.counters().teardown_exposed_ns, 4u);
  EXPECT_EQ(cap.counters().teardowns_hidden, 0u);
}

// Servers ask for connections when they like, so that several leave at once. Each left its slot to
// a newcomer, and there were up to twice as many connections as the limit allows.
TEST_F(CapTest, BesideSeveralThatLeaveThereAreNoMoreThanOneBeyondTheLimit) {
  ASSERT_TRUE(cap.set_limit(2, "lru").ok());
  open(a, 1);
  open(b, 2);
  cap.hold(a, Hold::leaving, 3);
  cap.hold(b, Hold::leaving, 4);
  ASSERT_EQ(ask(), Answer::granted);
  open(c, 5);
  // Expect: a slot is free, but there are three already.
  EXPECT_FALSE(cap.at_limit());
  EXPECT_EQ(ask(), Answer::hasten);
  cap.denied(10);
  cap.hold(a, Hold::none, 12);
  EXPECT_EQ(ask(), Answer::granted);
  open(d, 13);
  EXPECT_EQ(cap.counters().peak, 3u);
  // Expect: with no limit nobody waits for those that leave.
  ASSERT_TRUE(cap.set_limit(0, "lru").ok());
  cap.hold(c, Hold::leaving, 14);
  EXPECT_EQ(ask(), Answer::granted);
}

// A limit of more than 2^24 once ended the process; its table is that of the partners there are.
TEST_F(CapTest, AHugeLimitCostsNoMoreThanTheServersOfTheJob) {
  ASSERT_TRUE(cap.set_limit(UINT32_MAX, "reuse").ok());
  for (Cap::Claim* claim : {&a, &b, &c, &d}) {
    EXPECT_EQ(ask(), Answer::granted);
    open(*claim, 1);
  }
  EXPECT_LT(cap.memory_bytes(), 200u);
  EXPECT_EQ(cap.set_limit(3, "none such").code(), Code::config);
  EXPECT_EQ(cap.limit(), UINT32_MAX);
}

TEST_F(CapTest, ExposedAndHiddenTeardownsAreToldApart) {
  ASSERT_TRUE(cap.set_limit(1, "lru").ok());
  open(a, 1);
  cap.hold(a, Hold::leaving, 10, true);
  cap.hold(a, Hold::none, 30);
  // Expect: nobody was denied: hidden.
  EXPECT_EQ(cap.counters().teardowns_hidden, 1u);
  EXPECT_EQ(cap.counters().teardown_exposed_ns, 0u);
  cap.denied(31);  // late: nobody is leaving any more
  open(b, 40);
  cap.hold(b, Hold::leaving, 50, true);
  cap.denied(60);
  cap.denied(65);
  cap.hold(b, Hold::none, 70);
  EXPECT_EQ(cap.counters().teardowns_hidden, 1u);
  EXPECT_EQ(cap.counters().teardown_exposed_ns, 10u);
  EXPECT_EQ(cap.counters().teardown_ns, 40u);
}

TEST_F(CapTest, TheQueueIsServedInTheOrderOfAsking) {
  for (Cap::Claim* claim : {&c, &a, &b, &a}) cap.open(*claim);
  std::vector<Partner> seen;
  cap.serve_queue([&](Cap::Claim& claim) {
    seen.push_back(claim.partner);
    if (&claim == &c) {  // it, and one that comes later, need nothing more
      cap.withdraw(c);
      cap.withdraw(b);
    }
  });
  EXPECT_EQ(seen, (std::vector<Partner>{2, 0}));
  EXPECT_TRUE(a.waits);
  EXPECT_FALSE(b.waits);
  cap.withdraw(b);  // a duplicate
}

// Serving one makes another ask, from within: it gets its turn in the next round, not in the
// middle.
TEST_F(CapTest, AskingWhileTheQueueIsServedIsHeard) {
  cap.open(a);
  std::vector<Partner> seen;
  const auto serve = [&](auto&& self, Cap::Claim& claim) -> void {
    seen.push_back(claim.partner);
    cap.withdraw(claim);
    if (&claim != &a) return;
    cap.open(b);
    cap.serve_queue([&](Cap::Claim& other) { self(self, other); });
  };
  cap.serve_queue([&](Cap::Claim& claim) { serve(serve, claim); });
  EXPECT_EQ(seen, (std::vector<Partner>{0, 1}));
  EXPECT_FALSE(cap.anyone_waits());
}

}  // namespace
}  // namespace skerry::connection
