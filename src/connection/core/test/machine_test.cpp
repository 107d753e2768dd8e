#include "connection/core/machine.hpp"

#include <gtest/gtest.h>

#include <random>

namespace skerry::connection {
namespace {

Machine opened() {
  Machine m;
  EXPECT_EQ(m.on(Event::want, m.generation(), false), Action::connect);
  EXPECT_EQ(m.on(Event::connected, m.generation(), false), Action::send_queued);
  return m;
}

TEST(Machine, OpensOnTheFirstWantOnly) {
  Machine m;
  EXPECT_EQ(m.on(Event::want, 0, false), Action::connect);
  EXPECT_EQ(m.on(Event::want, 1, false), Action::none);
  EXPECT_EQ(m.on(Event::connected, 1, false), Action::send_queued);
  EXPECT_EQ(m.on(Event::want, 1, true), Action::none);
  EXPECT_EQ(m.state(), State::open);
}

TEST(Machine, DrainsBeforeBye) {
  Machine m = opened();
  // Expect: with requests outstanding no bye goes out before they are acknowledged.
  EXPECT_EQ(m.on(Event::evict, 1, true), Action::start_drain);
  EXPECT_EQ(m.on(Event::drained, 1, true), Action::none);
  EXPECT_EQ(m.on(Event::drained, 1, false), Action::send_bye);
  EXPECT_EQ(m.on(Event::bye_answer, 1, false), Action::close_endpoint);
  EXPECT_EQ(m.state(), State::idle);
}

TEST(Machine, WantedWhileDrainingStaysOpen) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::evict, 1, true), Action::start_drain);
  EXPECT_EQ(m.on(Event::want, 1, true), Action::send_queued);
  // Expect: the drain that was under way reports late and must not close what is in use again.
  EXPECT_EQ(m.on(Event::drained, 1, true), Action::none);
  EXPECT_EQ(m.state(), State::open);
}

TEST(Machine, WantedWhileClosingOpensAfterTheAnswer) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::evict, 1, false), Action::send_bye);
  EXPECT_EQ(m.on(Event::want, 1, true), Action::none);
  EXPECT_EQ(m.state(), State::closing) << "nothing may follow a bye";
  EXPECT_EQ(m.on(Event::bye_answer, 1, true), Action::close_endpoint);
  EXPECT_EQ(m.on(Event::want, 1, true), Action::connect);
  EXPECT_EQ(m.generation(), 2u);
  // Expect: the old endpoint's close arrives late and does not touch the new opening.
  EXPECT_EQ(m.on(Event::closed, 1, true), Action::none);
  EXPECT_EQ(m.on(Event::connected, 2, true), Action::send_queued);
}

TEST(Machine, CloseAndByeAnswerMayCross) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::evict, 1, false), Action::send_bye);
  EXPECT_EQ(m.on(Event::closed, 1, false), Action::none);
  EXPECT_EQ(m.state(), State::idle);
  EXPECT_EQ(m.on(Event::bye_answer, 1, false), Action::none);
  EXPECT_EQ(m.state(), State::idle);
}

TEST(Machine, PleaseCloseWhileDrainingOrClosingChangesNothing) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::evict, 1, true), Action::start_drain);
  EXPECT_EQ(m.on(Event::please_close, 1, true), Action::none);
  EXPECT_EQ(m.on(Event::drained, 1, false), Action::send_bye);
  EXPECT_EQ(m.on(Event::please_close, 1, false), Action::none);
  EXPECT_EQ(m.state(), State::closing);
}

TEST(Machine, ALostConnectionWithNothingOutstandingIsAnUnplannedTeardown) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::closed, 1, false), Action::none);
  EXPECT_EQ(m.on(Event::want, 1, false), Action::connect);
  EXPECT_EQ(m.generation(), 2u);
}

TEST(Machine, ALostConnectionWithRequestsOutstandingIsBroken) {
  Machine m = opened();
  EXPECT_EQ(m.on(Event::closed, 1, true), Action::broken);
}

TEST(Machine, RefusedOpeningIsReported) {
  Machine m;
  EXPECT_EQ(m.on(Event::want, 0, true), Action::connect);
  EXPECT_EQ(m.on(Event::closed, 1, true), Action::refused);
  EXPECT_EQ(m.state(), State::idle);
}

// Whatever comes in whatever order: the generation only grows, and events of an old one change
// nothing.
TEST(Machine, RandomEventsKeepItsInvariants) {
  static constexpr Event events[] = {Event::want,         Event::connected, Event::evict,
                                     Event::please_close, Event::drained,   Event::bye_answer,
                                     Event::closed};
  std::mt19937 random(5);
  Machine m;
  for (int i = 0; i < 200000; ++i) {
    const uint32_t before = m.generation();
    const State state = m.state();
    const bool late = random() % 4 == 0 && before > 0;
    const Action action = m.on(events[random() % 7], late ? before - 1 : before, random() % 2);
    ASSERT_GE(m.generation(), before);
    if (late) {
      ASSERT_EQ(action, Action::none);
      ASSERT_EQ(m.state(), state);
    }
    if (action == Action::connect) {
      ASSERT_EQ(m.state(), State::opening);
    }
    if (action == Action::send_bye) {
      ASSERT_EQ(m.state(), State::closing);
    }
  }
}

}  // namespace
}  // namespace skerry::connection
