// Every protocol in all interleavings of a few requesters, and in random ones of more; and without
// each of its rules, to see that the explorer notices.
#include <gtest/gtest.h>

#include "explorer.hpp"

namespace skerry::lock::machine {
namespace {

Requests local(uint8_t count = 1, bool shared = false) { return {true, 0, count, shared}; }
Requests remote(uint8_t node = 1, uint8_t count = 1, bool shared = false) {
  return {false, node, count, shared};
}

Scenario scenario(ProtocolKind kind, std::vector<Requests> requests, Domain domain = Domain::nic) {
  Scenario s;
  s.kind = kind;
  s.setup.domain = domain;
  s.setup.pauses.doublings = 0;  // fewer states
  s.setup.hand_overs = 1;
  s.requests = std::move(requests);
  return s;
}

std::string told(const Verdict& verdict) {
  std::string text = verdict.problem;
  for (const std::string& line : verdict.trail) text += "\n  " + line;
  return text;
}

void holds(const Scenario& s) {
  const Verdict verdict = explore(s);
  EXPECT_TRUE(verdict.problem.empty()) << told(verdict);
  EXPECT_TRUE(verdict.complete) << verdict.states << " states";
  std::printf("    %s, %s, %zu requesters: %llu states, bypass %u\n",
              std::string(to_string(s.kind)).c_str(),
              std::string(to_string(s.setup.domain)).c_str(), s.requests.size(),
              static_cast<unsigned long long>(verdict.states), verdict.bypass_most);
}

class EveryProtocol : public testing::TestWithParam<uint8_t> {
 protected:
  ProtocolKind kind() const { return static_cast<ProtocolKind>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Lock, EveryProtocol, testing::Range<uint8_t>(0, protocol_kinds),
                         [](const auto& one) {
                           return std::string(to_string(static_cast<ProtocolKind>(one.param)));
                         });

TEST_P(EveryProtocol, HasAName) {
  ProtocolKind found{};
  ASSERT_TRUE(from_string(to_string(kind()), &found));
  EXPECT_EQ(found, kind());
  EXPECT_FALSE(from_string("fastest", &found));
}

// Mutual exclusion, the units of all words, no lost wake-up.
TEST_P(EveryProtocol, HoldsInAllInterleavingsOfTwo) {
  for (const Domain domain : {Domain::server, Domain::nic}) {
    holds(scenario(kind(), {local(2), local(2)}, domain));
    holds(scenario(kind(), {local(2), remote(1, 2)}, domain));
    holds(scenario(kind(), {remote(1, 2), remote(2, 2)}, domain));
    holds(scenario(kind(), {remote(1, 2), remote(1, 2)}, domain));
  }
}

TEST_P(EveryProtocol, HoldsInAllInterleavingsOfThree) {
  holds(scenario(kind(), {local(), local(), remote()}));
  holds(scenario(kind(), {local(), remote(), remote(2)}));
  holds(scenario(kind(), {local(), remote(), remote(1)}));
  holds(scenario(kind(), {remote(), remote(1), remote(2)}));
}

TEST_P(EveryProtocol, HoldsInRandomInterleavingsOfMany) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<Requests> requests;
    for (uint8_t r = 0; r < 12; ++r) {
      const uint8_t node = static_cast<uint8_t>(r % 4);
      requests.push_back({node == 0, node, 20, (r + seed) % 3 == 0});
    }
    Scenario s = scenario(kind(), requests, seed % 2 == 0 ? Domain::nic : Domain::server);
    s.setup.hand_overs = 4;
    const Verdict verdict = wander(s, seed, 2'000'000);
    EXPECT_TRUE(verdict.problem.empty()) << "seed " << seed << ": " << told(verdict);
  }
}

TEST_P(EveryProtocol, RefusesMisuse) {
  machine::Setup setup;
  setup.requesters = 1;
  Client client = make_client(kind(), {0, true});
  Event event;
  event.kind = Event::Kind::unlock;
  EXPECT_EQ(step(client, event, setup).kind, Action::Kind::refused);
  event.kind = Event::Kind::lock;
  EXPECT_NE(step(client, event, setup).kind, Action::Kind::refused);
}

// Readers hold together where the protocol has readers, a writer never with one.
TEST_P(EveryProtocol, SharesAmongReaders) {
  const Scenario s = scenario(kind(), {local(1, true), remote(1, 1, true), remote(2)});
  const Verdict verdict = explore(s);
  EXPECT_TRUE(verdict.problem.empty()) << told(verdict);
  EXPECT_EQ(verdict.holders_most, has_readers(kind()) ? 2u : 1u);
}

// ---- hybrid ----

TEST(Hybrid, HoldsUnderEveryPolicy) {
  for (const Migration policy : {Migration::always, Migration::hysteresis, Migration::history}) {
    Scenario s = scenario(ProtocolKind::hybrid, {local(2), remote(1, 2)});
    s.setup.migration = policy;
    s.setup.in_a_row = 2;
    holds(s);
    s.requests = {local(2), local(1), remote(1, 2)};
    holds(s);
    s.requests = {local(1), remote(1, 1), remote(2, 1)};
    holds(s);
  }
}

// ---- without a rule ----

class WithoutRule : public testing::Test {
 protected:
  void TearDown() override { lock_rule_left_out = LockRule::none; }
  void finds(LockRule rule, const Scenario& s) {
    const Verdict before = explore(s);
    EXPECT_TRUE(before.problem.empty()) << told(before);
    lock_rule_left_out = rule;
    const Verdict verdict = explore(s);
    EXPECT_FALSE(verdict.problem.empty()) << "rule " << static_cast<int>(rule);
    std::printf("    rule %d: %s\n", static_cast<int>(rule), verdict.problem.c_str());
    lock_rule_left_out = LockRule::none;
  }
};

TEST_F(WithoutRule, TwoSidedFails) {
  const Scenario s = scenario(ProtocolKind::two_sided, {local(), remote()});
  finds(LockRule::manager_one_writer, s);
  finds(LockRule::manager_grants_next, s);
  Scenario fair = scenario(ProtocolKind::two_sided,
                           {local(endless, true), remote(1, endless, true), remote(2)});
  fair.bypass_bound = 2;
  finds(LockRule::manager_arrival_order, fair);
}

TEST_F(WithoutRule, OneSidedFails) {
  const Scenario s = scenario(ProtocolKind::one_sided, {local(), remote()});
  finds(LockRule::compare_holds, s);
  finds(LockRule::network_word_unit, s);
}

TEST_F(WithoutRule, HybridFails) {
  const Scenario s = scenario(ProtocolKind::hybrid, {local(2), remote(1, 2)});
  finds(LockRule::mode_again, s);
  finds(LockRule::both_locks, s);
  finds(LockRule::network_mode, s);
  Scenario kept = s;
  kept.setup.migration = Migration::history;
  finds(LockRule::unlock_by_kind, kept);
}

}  // namespace
}  // namespace skerry::lock::machine
