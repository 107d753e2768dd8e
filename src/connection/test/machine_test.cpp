#include "connection/machine.hpp"

#include <gtest/gtest.h>

#include <random>

namespace skerry::connection {
namespace {

Machine opened() {
  Machine m;
  EXPECT_EQ(m.on(Event::want, false), Action::connect);
  EXPECT_EQ(m.on(Event::connected, false), Action::send_queued);
  return m;
}

TEST(Machine, OpensOnTheFirstWantOnly) {
  Machine m;
  EXPECT_EQ(m.on(Event::want, false), Action::connect);
  EXPECT_EQ(m.on(Event::want, false), Action::none);
  EXPECT_EQ(m.on(Event::connected, false), Action::send_queued);
  EXPECT_EQ(m.on(Event::want, true), Action::none);
  EXPECT_EQ(m.state(), State::open);
}

TEST(Machine, DrainsBeforeBye) {
  Machine m = opened();
  // Expect: with requests outstanding no bye goes out before they are acknowledged.
  EXPECT_EQ(m.on(Event::evict, true), Action::none);
  EXPECT_EQ(m.on(Event::drained, true), Action::none);
  EXPECT_EQ(m.on(Event::drained, false), Action::send_bye);
  EXPECT_EQ(m.on(Event::bye_answer, false), Action::close_endpoint);
  EXPECT_EQ(m.state(), State::idle);
}

TEST(Machine, WantedWhileDrainingStaysOpen) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::evict, true), Action::none);
  EXPECT_EQ(m.on(Event::want, true), Action::send_queued);
  // Expect: the drain that was under way reports late and must not close what is in use again.
  EXPECT_EQ(m.on(Event::drained, true), Action::none);
  EXPECT_EQ(m.state(), State::open);
}

TEST(Machine, WantedWhileClosingOpensAfterTheAnswer) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::evict, false), Action::send_bye);
  EXPECT_EQ(m.on(Event::want, true), Action::none);
  EXPECT_EQ(m.state(), State::closing) << "nothing may follow a bye";
  EXPECT_EQ(m.on(Event::bye_answer, true), Action::close_endpoint);
  EXPECT_EQ(m.on(Event::want, true), Action::connect);
  EXPECT_EQ(m.on(Event::connected, true), Action::send_queued);
}

TEST(Machine, CloseAndByeAnswerMayCross) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::evict, false), Action::send_bye);
  EXPECT_EQ(m.on(Event::closed, false), Action::none);
  EXPECT_EQ(m.state(), State::idle);
  EXPECT_EQ(m.on(Event::bye_answer, false), Action::none);
  EXPECT_EQ(m.state(), State::idle);
}

TEST(Machine, PleaseCloseWhileDrainingOrClosingChangesNothing) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::evict, true), Action::none);
  EXPECT_EQ(m.on(Event::please_close, true), Action::none);
  EXPECT_EQ(m.on(Event::drained, false), Action::send_bye);
  EXPECT_EQ(m.on(Event::please_close, false), Action::none);
  EXPECT_EQ(m.state(), State::closing);
}

TEST(Machine, ALostConnectionWithNothingOutstandingIsAnUnplannedTeardown) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::closed, false), Action::none);
  EXPECT_EQ(m.on(Event::want, false), Action::connect);
}

TEST(Machine, ALostConnectionWithRequestsOutstandingIsBroken) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::closed, true), Action::broken);
}

TEST(Machine, ARefusedOpeningMayBeTriedAgain) {
  Machine m;
  EXPECT_EQ(m.on(Event::want, true), Action::connect);
  EXPECT_EQ(m.on(Event::closed, true), Action::none);
  EXPECT_EQ(m.state(), State::idle);
  EXPECT_EQ(m.on(Event::want, true), Action::connect);
}

// Whatever comes in whatever order.
TEST(Machine, RandomEventsKeepItsInvariants) {
  static constexpr Event events[] = {Event::want,         Event::connected, Event::evict,
                                     Event::please_close, Event::drained,   Event::bye_answer,
                                     Event::closed};
  std::mt19937 random(5);
  Machine m;
  for (int i = 0; i < 200000; ++i) {
    const State before = m.state();
    const bool unacknowledged = random() % 2;
    const Action action = m.on(events[random() % 7], unacknowledged);
    if (action == Action::connect) {
      ASSERT_EQ(before, State::idle);
      ASSERT_EQ(m.state(), State::opening);
    }
    if (action == Action::send_bye) {
      ASSERT_FALSE(unacknowledged);
      ASSERT_EQ(m.state(), State::closing);
    }
    if (action == Action::broken) {
      ASSERT_TRUE(unacknowledged);
      ASSERT_EQ(m.state(), State::idle);
    }
  }
}

}  // namespace
}  // namespace skerry::connection
