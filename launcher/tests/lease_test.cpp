// Leases: a host that the launcher declares dead has ended its ranks, however messages travel.
#include "launcher/lease.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace skerry::launcher {
namespace {

using Ms = std::chrono::milliseconds;
constexpr Ms length{1000};

// An agent and the launcher, with messages that take their time, in order, or are cut off.
struct World {
  explicit World(uint32_t seed) : dice(seed) {}
  struct Message {
    LeaseTime at;
    uint32_t number;
  };
  std::mt19937 dice;
  LeaseTime now{};
  Lease lease;
  Heard heard;
  std::deque<Message> questions, answers;
  LeaseTime next{};                    // when the agent acts
  LeaseTime agent_sleeps{}, cut{};     // until then
  bool has_ended = false, is_declared = false;
  bool counts_from_answers = false;  // a mistake of the agent's

  int roll(int below) { return std::uniform_int_distribution<int>(0, below - 1)(dice); }
  void send(std::deque<Message>& way, uint32_t number, int slowest_ms) {
    LeaseTime at = std::max(now, cut) + Ms(roll(slowest_ms));
    if (!way.empty()) at = std::max(at, way.back().at);
    way.push_back({at, number});
  }
  void step(int slowest_ms) {
    now += Ms(1);
    for (; !questions.empty() && questions.front().at <= now; questions.pop_front()) {
      heard.beat(now);
      send(answers, questions.front().number, slowest_ms);
    }
    if (now >= agent_sleeps && !has_ended) {
      for (; !answers.empty() && answers.front().at <= now; answers.pop_front())
        if (counts_from_answers) lease.begin(now, length);
        else lease.answer(answers.front().number);
      if (now >= next) {
        has_ended = !lease.holds(now);
        if (!has_ended) send(questions, lease.ask(now), slowest_ms);
        next = now + lease.pause(now);
      }
    }
    is_declared = is_declared || heard.has_run_out(now);
  }
};

// Until the host is declared dead, or for 8 s: long and lossy ways, and an agent that is stopped.
void run(World& world) {
  world.heard.begin(world.now, length);
  world.now += Ms(world.roll(999));  // the first message takes less than the lease
  world.lease.begin(world.now, length);
  for (int i = 0; i < 8000 && !world.is_declared; ++i) {
    if (world.roll(1500) == 0) world.agent_sleeps = world.now + Ms(world.roll(3000));
    if (world.roll(1500) == 0) world.cut = world.now + Ms(world.roll(3000));
    world.step(1 + world.roll(900));
  }
}

TEST(Lease, ADeclaredHostHoldsNoLeaseHoweverLongMessagesTake) {
  int declared = 0, stopped = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    World world(seed);
    run(world);
    if (!world.is_declared) continue;
    ++declared;
    EXPECT_FALSE(world.lease.holds(world.now)) << "seed " << seed;
    // One that was stopped ends its ranks as soon as it goes on.
    stopped += world.has_ended ? 0 : 1;
    world.agent_sleeps = world.now;
    for (int i = 0; i < 250; ++i) world.step(1);
    EXPECT_TRUE(world.has_ended) << "seed " << seed;
  }
  EXPECT_GT(declared, 100);
  EXPECT_GT(stopped, 5);
}

TEST(Lease, AnAgentThatCountsFromTheAnswerIsFoundOut) {
  int found = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    World world(seed);
    world.counts_from_answers = true;
    run(world);
    found += world.is_declared && world.lease.holds(world.now) ? 1 : 0;
  }
  EXPECT_GT(found, 0);
}

TEST(Lease, AHostThatIsSlowIsNotDead) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    World world(seed);
    world.heard.begin(world.now, length);
    world.lease.begin(world.now, length);
    for (int i = 0; i < 20'000; ++i) {
      if (world.roll(1000) == 0) world.agent_sleeps = world.now + Ms(world.roll(150));
      world.step(100);
      ASSERT_FALSE(world.has_ended || world.is_declared) << "seed " << seed;
    }
  }
}

TEST(Lease, AnAnswerCountsFromItsQuestion) {
  Lease lease;
  EXPECT_TRUE(lease.holds(LeaseTime{} + Ms(5000)));  // none was given
  LeaseTime now{};
  lease.begin(now, length);
  const uint32_t first = lease.ask(now + Ms(100)), second = lease.ask(now + Ms(400));
  lease.answer(second + 1);  // nobody asked
  EXPECT_FALSE(lease.holds(now + Ms(1000)));
  lease.begin(now, length);
  const uint32_t third = lease.ask(now + Ms(300));
  EXPECT_NE(third, first);
  lease.answer(third);
  EXPECT_TRUE(lease.holds(now + Ms(1299)));
  EXPECT_FALSE(lease.holds(now + Ms(1300)));
  lease.answer(third);  // again
  EXPECT_FALSE(lease.holds(now + Ms(1300)));
  EXPECT_EQ(lease.pause(now + Ms(1290)), Ms(10));
  EXPECT_EQ(lease.pause(now + Ms(5000)), Ms(250));  // it asks on
  // Of a launcher that stood still: its answers to old questions do not count, that to a new does.
  uint32_t last = 0;
  for (int i = 0; i < 1000; ++i) last = lease.ask(now + Ms(2000 + 250 * i));
  lease.answer(last - 990);
  EXPECT_FALSE(lease.holds(now + Ms(252'000)));
  lease.answer(last);
  EXPECT_TRUE(lease.holds(now + Ms(252'000)));
}

}  // namespace
}  // namespace skerry::launcher
