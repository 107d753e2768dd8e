
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "connection/cap.hpp"

namespace skerry::connection {
namespace {

// Partners under a cap with one of the policies.
struct Capped {
  Cap cap;
  Policy policy;
  std::map<Partner, Cap::Claim> claims;
  std::map<Partner, Uses> seen;  // of each when a victim was chosen last

  Capped(std::string_view name, uint32_t limit) {
    EXPECT_TRUE(find_policy(name, &policy).ok()) << name;
    cap.set_limit(limit, [this](Partner partner, const Uses& uses, uint64_t now) {
      seen[partner] = uses;
      return policy(partner, uses, now);
    });
  }
  Cap::Claim& claim(Partner p) { return claims.try_emplace(p, p).first->second; }
  bool is_open(Partner p) { return claim(p).hold == Cap::Hold::occupied; }
  void open(Partner p) { cap.hold(claim(p), Cap::Hold::occupied, 0); }
  void use(Partner p) {
    if (is_open(p)) cap.used(claim(p));
  }
  void close(Partner p, bool evicted) {
    if (evicted) cap.hold(claim(p), Cap::Hold::leaving, 0, true);
    cap.hold(claim(p), Cap::Hold::none, 0);
  }
  // At the limit.
  std::optional<Partner> choose(const std::set<Partner>& pinned = {}) {
    Cap::Claim* victim = nullptr;
    const auto standing = [&](const Cap::Claim& one) {
      return pinned.count(one.partner) != 0 ? Cap::Standing::busy : Cap::Standing::settled;
    };
    if (cap.ask(0, standing, &victim) != Cap::Answer::evict) return std::nullopt;
    return victim->partner;
  }
};

TEST(Victim, AnUnknownNameIsAnswered) {
  const Status status = find_policy("fifo");
  EXPECT_EQ(status.code(), Code::config);
  EXPECT_NE(status.message().find("lru, lru_m, reuse"), std::string::npos) << status.message();
}

TEST(Victim, LruTakesTheOneUnusedForLongest) {
  Capped capped("lru", 3);
  for (const Partner p : {1u, 2u, 3u}) capped.open(p);
  capped.use(1);
  EXPECT_EQ(capped.choose(), 2u);
  EXPECT_EQ(capped.choose({2}), 3u);
  EXPECT_EQ(capped.choose({1, 2, 3}), std::nullopt);
}

// The paper's reason for several queues: the counter's server is asked for regularly, so it was
// torn down before, and is kept.
TEST(Victim, LruMPrefersTheOneTornDownLeastOften) {
  Capped capped("lru_m", 2);
  capped.open(7);
  capped.close(7, true);
  capped.open(7);
  capped.open(8);
  // Expect: 7 was used longer ago, but it was torn down once and 8 never.
  EXPECT_EQ(capped.choose(), 8u);
  capped.close(8, true);
  capped.open(8);
  // Expect: equal queues again, so the less recent.
  EXPECT_EQ(capped.choose(), 7u);
}

TEST(Victim, BreaksAndServersWishesAreNotCounted) {
  Capped capped("lru_m", 1);
  capped.open(1);
  capped.close(1, false);
  capped.open(1);
  EXPECT_EQ(capped.choose(), 1u);
  EXPECT_EQ(capped.seen[1].teardowns, 0u);
  capped.close(1, true);
  capped.open(1);
  EXPECT_EQ(capped.choose(), 1u);
  EXPECT_EQ(capped.seen[1].teardowns, 1u);
}

TEST(Victim, ABurstIsOneUse) {
  Capped capped("lru", 2);
  capped.open(1);
  capped.open(2);
  capped.use(1);
  for (int i = 0; i < 5; ++i) capped.use(2);
  EXPECT_EQ(capped.choose(), 1u);
  EXPECT_EQ(capped.seen[2].last - capped.seen[1].last, 1u);
  EXPECT_EQ(capped.seen[2].last - capped.seen[2].before, 2u);
}

// Set-ups under a cap of `cap` when partners are used in this order.
uint64_t setups(std::string_view name, uint32_t cap, const std::vector<Partner>& uses) {
  Capped capped(name, cap);
  uint64_t opened = 0;
  for (const Partner p : uses) {
    if (!capped.is_open(p)) {
      if (const auto victim = capped.choose()) capped.close(*victim, true);
      capped.open(p);
      ++opened;
    }
    capped.use(p);
  }
  return opened;
}

// Six neighbours in turn under a cap of four: least recently used evicts exactly the one that is
// wanted next.
TEST(Victim, ReuseKeepsPartOfACircle) {
  std::vector<Partner> circle;
  for (int round = 0; round < 100; ++round)
    for (Partner p = 0; p < 6; ++p) circle.push_back(p);
  EXPECT_EQ(setups("lru", 4, circle), 600u);
  EXPECT_LT(setups("reuse", 4, circle), 250u);
}

// However often partners come and go.
TEST(Victim, CountsOutliveConnections) {
  Capped capped("lru_m", 1);
  for (int round = 0; round < 50; ++round)
    for (Partner p = 0; p < 200; ++p) {
      capped.open(p);
      EXPECT_EQ(capped.choose(), p);
      EXPECT_EQ(capped.seen[p].teardowns, static_cast<uint32_t>(round));
      capped.close(p, true);
    }
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
      const uint32_t limit = 1 + random() % 12, peers = 1 + random() % 100;
      Capped capped(by_teardowns ? "lru_m" : "lru", limit);
      Naive naive{by_teardowns, {}, {}};
      for (int step = 0; step < 3000; ++step) {
        const Partner p = random() % peers;
        switch (random() % 8) {
          case 0:
            capped.close(p, false);
            naive.end(p, false);
            break;
          default:
            std::set<Partner> pinned;
            for (uint32_t i = random() % 3; i > 0; --i) pinned.insert(random() % peers);
            if (!capped.is_open(p) && capped.cap.at_limit()) {
              const auto victim = capped.choose(pinned);
              ASSERT_EQ(victim, naive.choose(pinned)) << "seed " << seed << " step " << step;
              if (!victim) break;
              capped.close(*victim, true);
              naive.end(*victim, true);
            }
            capped.use(p);
            capped.open(p);
            naive.start(p);
            for (uint32_t i = random() % 4; i > 0; --i) {
              const Partner q = random() % peers;
              capped.use(q);
              naive.use(q);
            }
        }
        ASSERT_EQ(capped.cap.occupied(), naive.size());
        ASSERT_EQ(capped.is_open(p), naive.open(p));
      }
    }
}

}  // namespace
}  // namespace skerry::connection
