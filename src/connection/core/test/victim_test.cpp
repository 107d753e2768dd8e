#include "connection/core/victim.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>

namespace skerry::connection {

struct VictimTest {
  // As far as remembered.
  static uint32_t teardowns(VictimPolicy& policy, Partner server) {
    if (const uint32_t index = policy.find(server); index != VictimPolicy::none)
      return policy.entries_[index].teardowns;
    for (const auto& past : policy.set_of(server))
      if (past.server == server) return past.teardowns;
    return 0;
  }
};

namespace {

const auto nobody = [](Partner) { return false; };

TEST(Victim, UnknownNamesMakeNothing) {
  EXPECT_EQ(VictimPolicy::make("fifo", 4), nullptr);
  for (const std::string_view name : VictimPolicy::names())
    EXPECT_NE(VictimPolicy::make(name, 4), nullptr) << name;
}

TEST(Victim, LruTakesTheOneUnusedForLongest) {
  auto policy = VictimPolicy::make("lru", 3);
  for (const Partner p : {1u, 2u, 3u}) policy->opened(p);
  policy->used(1);
  EXPECT_EQ(policy->choose(nobody), 2u);
  EXPECT_EQ(policy->choose([](Partner p) { return p == 2; }), 3u);
  EXPECT_EQ(policy->choose([](Partner) { return true; }), std::nullopt);
}

// The paper's reason for several queues: the counter's server is asked for regularly, so it was
// torn down before, and is kept.
TEST(Victim, LruMPrefersTheOneTornDownLeastOften) {
  auto policy = VictimPolicy::make("lru_m", 2);
  policy->opened(7);
  policy->closed(7, true);
  policy->opened(7);
  policy->opened(8);
  // Expect: 7 was used longer ago, but it was torn down once and 8 never.
  EXPECT_EQ(policy->choose(nobody), 8u);
  policy->closed(8, true);
  policy->opened(8);
  // Expect: equal queues again, so the less recent.
  EXPECT_EQ(policy->choose(nobody), 7u);
}

TEST(Victim, BreaksAndServersWishesAreNotCounted) {
  auto policy = VictimPolicy::make("lru_m", 2);
  policy->opened(1);
  policy->closed(1, false);
  EXPECT_EQ(VictimTest::teardowns(*policy, 1), 0u);
  policy->opened(1);
  policy->closed(1, true);
  EXPECT_EQ(VictimTest::teardowns(*policy, 1), 1u);
}

TEST(Victim, LateAndDuplicateEventsDoNothing) {
  auto policy = VictimPolicy::make("lru", 2);
  policy->used(5);
  policy->closed(5, true);
  EXPECT_EQ(VictimTest::teardowns(*policy, 5), 0u);
  policy->opened(5);
  policy->opened(5);
  EXPECT_EQ(policy->size(), 1u);
  policy->closed(5, true);
  policy->closed(5, true);
  EXPECT_EQ(VictimTest::teardowns(*policy, 5), 1u);
  EXPECT_EQ(policy->choose(nobody), std::nullopt);
}

TEST(Victim, MemoryDependsOnTheCapacityOnly) {
  for (const std::string_view name : VictimPolicy::names()) {
    auto policy = VictimPolicy::make(name, 16);
    const uint64_t before = policy->bytes();
    EXPECT_LT(before, 32768u);
    for (Partner p = 0; p < 1'000'000; ++p) {
      if (policy->size() == 16) policy->closed(*policy->choose(nobody), true);
      policy->opened(p);
    }
    EXPECT_EQ(policy->bytes(), before);
  }
}

// Set-ups under a cap of `cap` when partners are used in this order.
uint64_t setups(std::string_view name, uint32_t cap, const std::vector<Partner>& uses) {
  auto policy = VictimPolicy::make(name, cap);
  uint64_t opened = 0;
  for (const Partner p : uses) {
    if (!policy->is_open(p)) {
      if (policy->size() == cap) policy->closed(*policy->choose(nobody), true);
      policy->opened(p);
      ++opened;
    }
    policy->used(p);
  }
  return opened;
}

std::vector<Partner> circle(int rounds) {
  std::vector<Partner> uses;
  for (int round = 0; round < rounds; ++round)
    for (Partner p = 0; p < 6; ++p) uses.push_back(p);
  return uses;
}

// Six neighbours in turn under a cap of four: least recently used evicts exactly the one that is
// wanted next.
TEST(Victim, ReuseKeepsPartOfACircle) {
  EXPECT_EQ(setups("lru", 4, circle(100)), 600u);
  EXPECT_LT(setups("reuse", 4, circle(100)), 250u);
}

TEST(Victim, AdaptiveIsNearTheBestWhateverTheProgramDoes) {
  std::mt19937 engine(1);
  const auto random = [&](uint32_t bound) { return static_cast<uint32_t>(engine() % bound); };
  // First a circle, then a counter between random partners, then sets of partners that change.
  std::vector<std::vector<Partner>> phases{circle(300), {}, {}};
  for (int i = 0; i < 2000; ++i) phases[1].push_back(i % 5 == 0 ? 0 : 1 + random(40));
  for (int i = 0; i < 2000; ++i) phases[2].push_back(static_cast<Partner>(i / 100) * 5 + random(5));
  std::vector<Partner> all;
  for (const auto& phase : phases) {
    all.insert(all.end(), phase.begin(), phase.end());
    uint64_t best = ~uint64_t{0};
    for (const char* name : {"lru", "lru_m", "reuse"})
      best = std::min(best, setups(name, 4, phase));
    EXPECT_LT(setups("adaptive", 4, phase), best * 105 / 100 + 20);
  }
  for (const char* name : {"lru", "lru_m", "reuse"})
    EXPECT_LT(setups("adaptive", 4, all), setups(name, 4, all)) << name;
}

// With fewer servers than remembered places the counts are exact, however often they come and go.
TEST(Victim, CountsOutliveConnections) {
  auto policy = VictimPolicy::make("lru_m", 4);
  for (int round = 0; round < 50; ++round)
    for (Partner p = 0; p < 200; ++p) {
      policy->opened(p);
      EXPECT_EQ(VictimTest::teardowns(*policy, p), static_cast<uint32_t>(round));
      policy->closed(p, true);
    }
}

TEST(Victim, CountsAgeInsteadOfOverflowing) {
  auto policy = VictimPolicy::make("lru_m", 2);
  policy->opened(1);
  policy->closed(1, true);
  policy->opened(1);
  policy->closed(1, true);
  for (uint32_t i = 0; i < 1u << 20; ++i) {
    policy->opened(2);
    policy->closed(2, true);
  }
  EXPECT_EQ(VictimTest::teardowns(*policy, 2), 1u << 19);
  EXPECT_EQ(VictimTest::teardowns(*policy, 1), 1u);
}

// The paper's words, literally: lists ordered by use, most recent in front; one list per number of
// teardowns.
struct Naive {
  bool by_teardowns;
  std::map<uint32_t, std::list<Partner>> queues;
  std::map<Partner, uint32_t> torn;
  uint32_t queue_of(Partner p) { return by_teardowns ? torn[p] : 0; }
  bool open(Partner p) {
    return std::count(queues[queue_of(p)].begin(), queues[queue_of(p)].end(), p) != 0;
  }
  void use(Partner p) {
    if (!open(p)) return;
    queues[queue_of(p)].remove(p);
    queues[queue_of(p)].push_front(p);
  }
  void start(Partner p) {
    if (!open(p)) queues[queue_of(p)].push_front(p);
    use(p);
  }
  void end(Partner p, bool evicted) {
    if (!open(p)) return;
    queues[queue_of(p)].remove(p);
    if (evicted) ++torn[p];
  }
  std::optional<Partner> choose(const std::set<Partner>& pinned) {
    for (auto& [count, queue] : queues)
      for (auto p = queue.rbegin(); p != queue.rend(); ++p)
        if (!pinned.count(*p)) return *p;
    return std::nullopt;
  }
  size_t size() {
    size_t n = 0;
    for (auto& [count, queue] : queues) n += queue.size();
    return n;
  }
};

TEST(Victim, AgreesWithTheNaiveQueues) {
  for (const bool by_teardowns : {false, true})
    for (uint32_t seed = 0; seed < 60; ++seed) {
      std::mt19937 engine(seed);
      const auto random = [&] { return static_cast<uint32_t>(engine()); };
      const uint32_t capacity = 1 + random() % 12, peers = 1 + random() % 100;
      auto policy = VictimPolicy::make(by_teardowns ? "lru_m" : "lru", capacity);
      Naive naive{by_teardowns, {}, {}};
      for (int step = 0; step < 3000; ++step) {
        const Partner p = random() % peers;
        switch (random() % 8) {
          case 0:
            policy->closed(p, false);
            naive.end(p, false);
            break;
          default:
            std::set<Partner> pinned;
            for (uint32_t i = random() % 3; i > 0; --i) pinned.insert(random() % peers);
            if (!policy->is_open(p) && policy->size() == capacity) {
              const auto victim = policy->choose([&](Partner q) { return pinned.count(q) != 0; });
              ASSERT_EQ(victim, naive.choose(pinned)) << "seed " << seed << " step " << step;
              if (!victim) break;
              policy->closed(*victim, true);
              naive.end(*victim, true);
            }
            policy->opened(p);
            naive.start(p);
            for (uint32_t i = random() % 4; i > 0; --i) {
              const Partner q = random() % peers;
              policy->used(q);
              naive.use(q);
            }
        }
        ASSERT_EQ(policy->size(), naive.size());
        ASSERT_EQ(policy->is_open(p), naive.open(p));
        ASSERT_EQ(VictimTest::teardowns(*policy, p), naive.torn[p]);
      }
    }
}

}  // namespace
}  // namespace skerry::connection
