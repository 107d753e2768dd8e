// Every protocol in all interleavings of a few requesters, and in random ones of more; and without
// each of its rules, to see that the explorer notices.
#include <gtest/gtest.h>

#include <algorithm>

#include "explorer.hpp"
#include "lock/migrating.hpp"
#include "locks/lab_rule.hpp"
#include "locks/machine.hpp"

namespace skerry::lock::machine {
namespace {

Requests local(uint8_t count = 1, bool shared = false) { return {true, 0, count, shared}; }
Requests remote(uint8_t node = 1, uint8_t count = 1, bool shared = false) {
  return {false, node, count, shared};
}

Scenario scenario(ProtocolKind kind, std::vector<Requests> requests, Domain domain = Domain::nic) {
  Scenario s;
  s.kind = kind;
  s.config.domain = domain;
  s.config.cpu_pauses.doublings = s.config.network_pauses.doublings = 0;  // fewer states
  s.config.hand_overs = 1;
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
              std::string(to_string(s.config.domain)).c_str(), s.requests.size(),
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

// With the count of sharers around it every protocol has readers.
TEST_P(EveryProtocol, SharesByCounting) {
  const auto with_sharers = [&](std::vector<Requests> requests) {
    Scenario s = scenario(kind(), std::move(requests), Domain::server);
    s.counts_sharers = true;
    holds(s);
    return explore(s).holders_most;
  };
  EXPECT_EQ(with_sharers({local(1, true), remote(1, 1, true)}), 2u);
  EXPECT_EQ(with_sharers({local(2), remote(1, 2, true)}), 1u);
  EXPECT_EQ(with_sharers({local(1), remote(1, 1, true), remote(2, 1, true)}), 2u);
  EXPECT_EQ(with_sharers({local(1, true), remote(1), remote(1, 1, true)}), 2u);
}

TEST_P(EveryProtocol, HoldsInAllInterleavingsOfThree) {
  holds(scenario(kind(), {local(), local(), remote()}));
  holds(scenario(kind(), {local(), remote(), remote(2)}));
  holds(scenario(kind(), {local(), remote(), remote(1)}));
  holds(scenario(kind(), {remote(), remote(1), remote(2)}));
}

TEST_P(EveryProtocol, HoldsInAllInterleavingsOfTwiceThreeAndOfFour) {
  holds(scenario(kind(), {local(2), local(2), remote(1, 2)}));
  holds(scenario(kind(), {local(2), remote(1, 2), remote(1, 2)}));
  holds(scenario(kind(), {local(), local(), remote(), remote(1)}));
  holds(scenario(kind(), {local(1, true), remote(1, 1, true), remote(1), remote(2, 1, true)}));
}

TEST_P(EveryProtocol, HoldsInRandomInterleavingsOfMany) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<Requests> requests;
    for (uint8_t r = 0; r < 12; ++r) {
      const uint8_t node = static_cast<uint8_t>(r % 4);
      requests.push_back({node == 0, node, 20, (r + seed) % 3 == 0});
    }
    Scenario s = scenario(kind(), requests, seed % 2 == 0 ? Domain::nic : Domain::server);
    s.config.hand_overs = 4;
    const Verdict verdict = wander(s, seed, 2'000'000);
    EXPECT_TRUE(verdict.problem.empty()) << "seed " << seed << ": " << told(verdict);
  }
}

TEST_P(EveryProtocol, RefusesMisuse) {
  Config config;
  config.requesters = 1;
  Client client(machines_of(kind()), {0, true});
  Event event;
  event.kind = Event::Kind::unlock;
  EXPECT_EQ(client.step(event, config).kind, Action::Kind::refused);
  event.kind = Event::Kind::lock;
  EXPECT_NE(client.step(event, config).kind, Action::Kind::refused);
}

// Readers hold together where the protocol has readers, a writer never with one.
TEST_P(EveryProtocol, SharesAmongReaders) {
  const Scenario s = scenario(kind(), {local(1, true), remote(1, 1, true), remote(2)});
  const Verdict verdict = explore(s);
  EXPECT_TRUE(verdict.problem.empty()) << told(verdict);
  EXPECT_EQ(verdict.holders_most, machines_of(kind()).has_readers ? 2u : 1u);
}

// Grants to others while one stands in line. Two of the three ask without end, from the lock's node
// or from another one; `hand_overs` is 1, so a cohort has the lock twice in a row at most.
TEST_P(EveryProtocol, OvertakingIsBoundedWhereItSaysSo) {
  if (!is_fair(kind())) return;  // tries again after a pause
  const bool has_cohorts = kind() == ProtocolKind::cohort || kind() == ProtocolKind::asymmetric;
  for (Scenario s :
       {scenario(kind(), {local(endless), local(endless), remote(1, endless)}),
        scenario(kind(), {local(endless), remote(1, endless), remote(1, endless)}),
        scenario(kind(), {local(endless), remote(1, endless), remote(2, endless)}),
        scenario(kind(), {remote(1, endless), remote(1, endless), remote(2, endless)})}) {
    s.bypass_bound = has_cohorts ? 3 : 2;
    // Its tickets only grow: without an end there are states without end.
    if (kind() == ProtocolKind::reader_writer)
      for (Requests& one : s.requests) one.count = 3;
    holds(s);
  }
}

// A driver keeps a machine for each requester: 100,000 of them must be small.

TEST(Pause, DoublesWithinItsBounds) {
  Config config;
  config.cpu_pauses = {.first_ns = 1000, .doublings = 4};
  config.turn_ns = 1000;
  for (const uint64_t random : {uint64_t{0}, uint64_t{12345}, UINT64_MAX})
    for (uint8_t attempt = 0; attempt < 10; ++attempt) {
      const int64_t bound = 1000 << std::min<int>(attempt, 4);
      const int64_t pause_is = pause_ns(pause(config, Unit::cpu, attempt), random);
      EXPECT_LE(pause_is, bound);
      EXPECT_GE(pause_is, bound / 2);
    }
  // Expect: as long as the line.
  EXPECT_LE(pause_ns(pause_for_turns(config, Unit::cpu, 3), 0), 3000);
  EXPECT_GE(pause_ns(pause_for_turns(config, Unit::cpu, 3), 0), 1500);
  EXPECT_EQ(pause_ns(pause_for_turns(config, Unit::cpu, 1000), 0), 1'000'000);
  EXPECT_EQ(pause_ns(pause_for_turns(config, Unit::cpu, UINT32_MAX), 0), longest_pause_ns);
}

TEST(Policy, MigratesAfterItsRule) {
  Config config;
  const auto after = [&](std::vector<bool> remote) {
    History history = 0;  // a new lock: as if all requests had been local
    for (const bool one : remote) history = seen(history, one);
    return shall_migrate(config, history);
  };
  config.migration = Migration::always;
  EXPECT_TRUE(after({true}));
  config.migration = Migration::hysteresis;
  config.in_a_row = 3;
  EXPECT_FALSE(after({true, true}));
  EXPECT_TRUE(after({true, true, true}));
  EXPECT_FALSE(after({true, true, false, true}));
  EXPECT_FALSE(after({true, true, true, false}));
  config.migration = Migration::history;
  EXPECT_FALSE(after(std::vector<bool>(8, true)));
  EXPECT_TRUE(after(std::vector<bool>(9, true)));
  Migration found{};
  EXPECT_TRUE(from_string("hysteresis", &found));
  EXPECT_EQ(found, Migration::hysteresis);
  EXPECT_FALSE(from_string("sometimes", &found));
}

TEST(Words, ChangeByTheUnitOfTheirLabelAlone) {
  Config config;
  config.domain = Domain::nic;
  EXPECT_FALSE(may_touch(config, Label::network, store(Unit::cpu, Place::home, 0, 1)));
  EXPECT_FALSE(may_touch(config, Label::cpu, swap(Unit::network, Place::home, 0, 1)));
  EXPECT_FALSE(may_touch(config, Label::both, swap(Unit::cpu, Place::home, 0, 1)));
  EXPECT_TRUE(may_touch(config, Label::both, store(Unit::cpu, Place::home, 0, 1)));
  EXPECT_TRUE(may_touch(config, Label::network, load(Unit::cpu, Place::home, 0)));
  config.domain = Domain::server;
  EXPECT_TRUE(may_touch(config, Label::network, swap(Unit::cpu, Place::home, 0, 1)));
}

// ---- migrating ----

Scenario with_sharers(std::vector<Requests> requests, Domain domain) {
  Scenario s = scenario(ProtocolKind::migrating, std::move(requests), domain);
  s.counts_sharers = true;
  return s;
}

// A free word says whether there may be sharers, over migrations to both sides.
TEST(Migrating, LooksForSharersWhereThereMayBeSome) {
  for (const Domain domain : {Domain::server, Domain::nic})
    for (const Migration policy : {Migration::always, Migration::history}) {
      for (Scenario s : {with_sharers({remote(1, 2, true), remote(2, 2)}, domain),
                         with_sharers({local(2), remote(1, 2, true), remote(2)}, domain),
                         with_sharers({local(2, true), remote(1, 2), remote(2)}, domain),
                         with_sharers({local(1, true), remote(1, 2, true), remote(2, 2)}, domain),
                         with_sharers({local(2, true), local(1), remote(1, 2)}, domain)}) {
        s.config.migration = policy;
        holds(s);
      }
    }
}

TEST(Migrating, HoldsUnderEveryPolicy) {
  for (const Migration policy : {Migration::always, Migration::hysteresis, Migration::history}) {
    Scenario s = scenario(ProtocolKind::migrating, {local(2), remote(1, 2)});
    s.config.migration = policy;
    s.config.in_a_row = 2;
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
  void TearDown() override { leave_out(LockRule::none), leave_out(LabRule::none); }
  static void leave_out(LockRule rule) { lock_rule_left_out = rule; }
  static void leave_out(LabRule rule) { lab_rule_left_out = rule; }
  template <class Rule>
  void finds(Rule rule, const Scenario& s) {
    const Verdict before = explore(s);
    EXPECT_TRUE(before.problem.empty()) << told(before);
    leave_out(rule);
    const Verdict verdict = explore(s);
    EXPECT_FALSE(verdict.problem.empty()) << "rule " << static_cast<int>(rule);
    std::printf("    rule %d: %s\n", static_cast<int>(rule), verdict.problem.c_str());
    leave_out(Rule::none);
  }
};

TEST_F(WithoutRule, TwoSidedFails) {
  const Scenario s = scenario(ProtocolKind::two_sided, {local(), remote()});
  finds(LabRule::manager_one_writer, s);
  finds(LabRule::manager_grants_next, s);
  Scenario fair = scenario(ProtocolKind::two_sided,
                           {local(endless, true), remote(1, endless, true), remote(2)});
  fair.bypass_bound = 2;
  finds(LabRule::manager_arrival_order, fair);
}

TEST_F(WithoutRule, OneSidedFails) {
  const Scenario s = scenario(ProtocolKind::one_sided, {local(), remote()});
  finds(LabRule::compare_holds, s);
  finds(LabRule::network_word_unit, s);
}

TEST_F(WithoutRule, MigratingFails) {
  const Scenario s = scenario(ProtocolKind::migrating, {local(2), remote(1, 2)});
  finds(LockRule::mode_again, s);
  finds(LockRule::both_locks, s);
  finds(LockRule::network_mode, s);
  Scenario kept = s;
  kept.config.migration = Migration::history;
  finds(LockRule::unlock_by_kind, kept);
  finds(LockRule::tells_sharers, with_sharers({remote(1, 1, true), remote(2)}, Domain::nic));
}

TEST_F(WithoutRule, QueueFails) {
  finds(LabRule::await_link, scenario(ProtocolKind::queue, {local(), remote()}));
}

TEST_F(WithoutRule, CohortFails) {
  Scenario s = scenario(ProtocolKind::cohort, {remote(1, 2), remote(1, 2), local()});
  finds(LabRule::renew, s);
  s.requests = {remote(1, endless), remote(1, endless), local(endless)};
  s.bypass_bound = 3;
  finds(LabRule::bounded_hand_over, s);
}

TEST_F(WithoutRule, AsymmetricFails) {
  Scenario s = scenario(ProtocolKind::asymmetric, {local(2), remote(1, 2)});
  finds(LabRule::victim, s);
  s.requests = {remote(1, endless), remote(2, endless), local(endless)};
  s.bypass_bound = 3;
  finds(LabRule::bounded_hand_over, s);
}

TEST_F(WithoutRule, ReaderWriterFails) {
  const Scenario s = scenario(ProtocolKind::reader_writer,
                              {local(1, true), remote(1, 1, true), remote(2)});
  finds(LabRule::writers_wait_for_readers, s);
  finds(LabRule::readers_wait_for_writers, s);
}

}  // namespace
}  // namespace skerry::lock::machine
