#include "connection/quota.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "connection/test/given.hpp"

namespace skerry::connection {
namespace {

using State = Quota::State;
using Kind = Quota::Action::Kind;
using Busy = Quota::Busy;
using Arrival = Quota::Arrival;

std::string_view to_string(Quota::Action::Kind kind) {
  switch (kind) {
    case Quota::Action::Kind::none: return "none";
    case Quota::Action::Kind::admit: return "admit";
    case Quota::Action::Kind::ask: return "ask";
    case Quota::Action::Kind::dismiss: return "dismiss";
    case Quota::Action::Kind::close: return "close";
  }
  return "unknown";
}

// A quota with its clients' states as a server keeps them.
struct World {
  explicit World(uint32_t connections, uint32_t held = 1024)
      : quota([&] {
          Quota::Limits limits;
          limits.connections = connections;
          limits.held = held;
          return limits;
        }()) {}
  Arrival arrive(uint32_t name) { return quota.arrive(name, now_ns, &id[name]); }
  Quota::Action next() {
    const Quota::Action action = quota.next(now_ns,
                                            [&](uint32_t name, Quota::Id) { return busy[name]; });
    if (action.kind == Kind::dismiss || action.kind == Kind::close) id[action.name] = 0;
    return action;
  }
  void heard(uint32_t name) { quota.heard(id[name], now_ns); }
  // Arrives, is admitted and gets something done.
  void connect(uint32_t name) {
    EXPECT_EQ(arrive(name), Arrival::held);
    const Quota::Action action = next();
    EXPECT_EQ(action.kind, Kind::admit);
    EXPECT_EQ(action.name, name);
    heard(name);
  }
  void expect(Kind kind, uint32_t name) {
    const Quota::Action action = next();
    EXPECT_EQ(to_string(action.kind), to_string(kind));
    if (kind != Kind::none) {
      EXPECT_EQ(action.name, name);
    }
  }
  State state(uint32_t name) { return quota.state(id[name]); }

  Quota quota;
  int64_t now_ns = 1'000 * ms;
  std::map<uint32_t, Quota::Id> id;
  std::map<uint32_t, Busy> busy;
};

TEST(Quota, AdmitsInOrderOfArrivalWhileThereAreSlots) {
  World w(2);
  for (const uint32_t name : {7u, 3u, 5u}) EXPECT_EQ(w.arrive(name), Arrival::held);
  w.expect(Kind::admit, 7);
  w.expect(Kind::admit, 3);
  // Expect: fresh clients are nobody's victim.
  w.expect(Kind::none, 0);
  EXPECT_EQ(w.quota.held(), 1u);
}

TEST(Quota, AnIdleClientGoesWithoutBeingAsked) {
  World w(1);
  w.connect(1);
  w.now_ns += 2 * ms;
  w.arrive(2);
  w.expect(Kind::dismiss, 1);
  w.expect(Kind::admit, 2);
}

TEST(Quota, TheLeastRecentlyHeardGoes) {
  World w(3);
  for (const uint32_t name : {1u, 2u, 3u}) w.connect(name);
  w.heard(1);
  w.now_ns += 2 * ms;
  w.arrive(4);
  w.expect(Kind::dismiss, 2);
}

TEST(Quota, WhoSaidByeGoesFirst) {
  World w(2);
  w.connect(1);
  w.connect(2);
  w.quota.said_bye(w.id[2], w.now_ns);
  w.now_ns += 2 * ms;
  w.arrive(3);
  w.expect(Kind::close, 2);
  w.expect(Kind::admit, 3);
}

// A client that was admitted and broke at once, or only wanted its lost answers.
TEST(Quota, AFreshClientThatSaysNothingGoesAfterAWhile) {
  World w(1);
  w.arrive(1);
  w.expect(Kind::admit, 1);
  w.arrive(2);
  w.now_ns += 49 * ms;
  w.expect(Kind::none, 0);
  w.now_ns += 1 * ms;
  w.expect(Kind::dismiss, 1);
}

TEST(Quota, ABusyClientIsAskedAndGoesWhenIdle) {
  World w(1);
  w.connect(1);
  w.arrive(2);
  w.expect(Kind::ask, 1);
  EXPECT_EQ(w.state(1), State::asked);
  // Expect: asked once; what it still sends is no reason to wait longer than it takes.
  w.expect(Kind::none, 0);
  w.heard(1);
  EXPECT_EQ(w.state(1), State::asked);
  w.now_ns += 1 * ms;
  w.expect(Kind::dismiss, 1);
  w.expect(Kind::admit, 2);
}

// Guards against: a stopped process with unsent answers could be neither dropped nor drained, and
// a newcomer waited for half a minute.
TEST(Quota, AClientThatDoesNotReadLosesItsSlot) {
  World w(1);
  w.connect(1);
  w.busy[1] = {Busy::With::answers, 4096};
  w.arrive(2);
  w.expect(Kind::ask, 1);
  w.now_ns += 99 * ms;
  w.expect(Kind::none, 0);
  w.now_ns += 1 * ms;
  w.expect(Kind::close, 1);
  w.expect(Kind::admit, 2);
}

TEST(Quota, AClientThatReadsSlowlyKeepsItsSlotUntilItHadItsTime) {
  World w(1);
  w.connect(1);
  w.busy[1] = {Busy::With::answers, 1 << 20};
  w.arrive(2);
  w.expect(Kind::ask, 1);
  const int64_t asked_ns = w.now_ns;
  while (w.now_ns < asked_ns + 9'950 * ms) {
    const Quota::Action action = w.next();
    // Expect: it may be reminded, never closed.
    EXPECT_TRUE(action.kind == Kind::none || action.kind == Kind::ask);
    w.now_ns += 50 * ms;
    w.busy[1].unread_bytes -= 100;
  }
  w.now_ns += 50 * ms;
  w.expect(Kind::close, 1);
}

TEST(Quota, ALongPayloadIsNotCutShortByPatience) {
  World w(1);
  w.connect(1);
  w.busy[1] = {Busy::With::receiving, 0};
  w.arrive(2);
  w.expect(Kind::ask, 1);
  w.now_ns += 5'000 * ms;
  w.expect(Kind::ask, 1);
  w.expect(Kind::none, 0);
  w.busy[1] = {};
  w.expect(Kind::dismiss, 1);
}

// Guards against: one busy client that was asked to leave kept others from being asked.
TEST(Quota, AsManyAreAskedAsWait) {
  World w(3);
  for (const uint32_t name : {1u, 2u, 3u}) w.connect(name);
  w.arrive(4);
  w.arrive(5);
  w.expect(Kind::ask, 1);
  w.expect(Kind::ask, 2);
  w.expect(Kind::none, 0);
}

TEST(Quota, OneThatWasAskedInVainKeepsNobodyFromBeingAsked) {
  World w(2);
  w.connect(1);
  w.connect(2);
  for (const uint32_t name : {1u, 2u}) w.busy[name] = {Busy::With::receiving, 0};
  w.arrive(3);
  w.expect(Kind::ask, 1);
  w.expect(Kind::none, 0);
  w.now_ns += 100 * ms;
  w.expect(Kind::ask, 2);
  w.expect(Kind::none, 0);
  // Expect: then the first once more; it may have missed it.
  w.now_ns += 100 * ms;
  w.expect(Kind::ask, 1);
}

// Crossing: its bye is on its way while we ask.
TEST(Quota, AByeThatCrossesTheQuestion) {
  World w(1);
  w.connect(1);
  w.busy[1] = {Busy::With::answers, 10};
  w.arrive(2);
  w.expect(Kind::ask, 1);
  w.quota.said_bye(w.id[1], w.now_ns);
  w.expect(Kind::none, 0);  // our answer to it is not read yet
  w.busy[1] = {};
  w.expect(Kind::close, 1);
}

TEST(Quota, ALeaverThatDoesNotReadItsAnswerIsClosed) {
  World w(1);
  w.connect(1);
  w.busy[1] = {Busy::With::answers, 10};
  w.quota.said_bye(w.id[1], w.now_ns);
  w.arrive(2);
  w.expect(Kind::none, 0);
  w.now_ns += 100 * ms;
  w.expect(Kind::close, 1);
}

// Duplicate: it gave an attempt up and asks again.
TEST(Quota, AskingAgainKeepsTheTurn) {
  World w(1);
  w.connect(1);
  w.arrive(2);
  w.arrive(3);
  EXPECT_EQ(w.arrive(2), Arrival::held);
  EXPECT_EQ(w.quota.held(), 2u);
  w.quota.closed(w.id[1]);
  w.expect(Kind::admit, 2);
}

// Late: the request had ended when its turn came.
TEST(Quota, AClientWhoseRequestEndedKeepsItsTurnForAWhile) {
  World w(1);
  w.connect(1);
  w.arrive(2);
  w.arrive(3);
  w.quota.closed(w.id[1]);
  w.expect(Kind::admit, 2);
  w.quota.request_ended(w.id[2], w.now_ns);  // the accept failed
  w.expect(Kind::admit, 3);
  w.arrive(4);
  EXPECT_EQ(w.arrive(2), Arrival::held);
  w.quota.closed(w.id[3]);
  // Expect: before 4, which came later.
  w.expect(Kind::admit, 2);
}

TEST(Quota, ATurnLapses) {
  World w(1);
  w.connect(1);
  w.arrive(2);
  w.quota.request_ended(w.id[2], w.now_ns);
  EXPECT_EQ(w.quota.away(), 1u);
  w.now_ns += 5'000 * ms;
  w.arrive(3);
  EXPECT_EQ(w.quota.away(), 0u);
  // Past: its old record may be another's by now.
  EXPECT_EQ(w.arrive(2), Arrival::held);
  EXPECT_EQ(w.state(3), State::waiting);
  EXPECT_EQ(w.quota.held(), 2u);
}

// Guards against: beyond a number of waiters the quota refused origins, and the one that came first
// after an admission got the place.
TEST(Quota, WhoIsToldToComeBackKeepsItsTurn) {
  World w(1, 2);
  w.connect(1);
  EXPECT_EQ(w.arrive(2), Arrival::held);
  EXPECT_EQ(w.arrive(3), Arrival::held);
  EXPECT_EQ(w.arrive(4), Arrival::come_back);
  w.quota.closed(w.id[1]);
  w.expect(Kind::admit, 2);
  // Expect: room is kept for 4, which waits longer than this newcomer.
  EXPECT_EQ(w.arrive(5), Arrival::come_back);
  EXPECT_EQ(w.arrive(4), Arrival::held);
  EXPECT_EQ(w.arrive(5), Arrival::come_back);
  w.quota.closed(w.id[2]);
  w.expect(Kind::admit, 3);
  EXPECT_EQ(w.arrive(5), Arrival::held);
  w.quota.closed(w.id[3]);
  w.expect(Kind::admit, 4);
}

TEST(Quota, NothingIsDoneForNobody) {
  World w(1);
  w.connect(1);
  w.now_ns += 100'000 * ms;
  w.expect(Kind::none, 0);
  EXPECT_LT(w.quota.next_look_ns(), 0);
}

// Random clients that stop reading, break, give up and come back: never more than the limit, and
// every client that keeps asking gets in.
TEST(Quota, EverybodyGetsInUnderRandomTraffic) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    World w(1 + static_cast<uint32_t>(random() % 3), 1 + static_cast<uint32_t>(random() % 6));
    constexpr uint32_t clients = 12;
    std::map<uint32_t, int64_t> wants_since;
    std::set<uint32_t> connected;
    uint64_t admitted = 0;
    for (int step = 0; step < 20'000; ++step) {
      w.now_ns += static_cast<int64_t>(random() % 2'000'000);
      const uint32_t name = 1 + static_cast<uint32_t>(random() % clients);
      if (connected.count(name) == 0) {
        wants_since.try_emplace(name, w.now_ns);
        w.arrive(name);
      } else {
        switch (random() % 6) {
          case 0: w.busy[name] = {Busy::With::answers, random() % 1000}; break;
          case 1: w.busy[name] = {}; break;
          case 2:
            w.quota.closed(w.id[name]);
            w.id[name] = 0;
            connected.erase(name);
            break;
          case 3:
            if (w.state(name) != State::leaving) w.quota.said_bye(w.id[name], w.now_ns);
            break;
          default:
            if (w.state(name) != State::leaving) w.heard(name);
            break;
        }
      }
      for (Quota::Action a = w.next(); a.kind != Kind::none; a = w.next()) {
        if (a.kind == Kind::admit) {
          if (random() % 4 == 0) {
            w.quota.request_ended(w.id[a.name], w.now_ns);
            continue;
          }
          ++admitted;
          connected.insert(a.name);
          wants_since.erase(a.name);
          w.busy[a.name] = {};
        } else if (a.kind != Kind::ask) {
          connected.erase(a.name);
        }
      }
      ASSERT_EQ(w.quota.connected(), connected.size()) << "seed " << seed << " step " << step;
      for (const auto& [who, since_ns] : wants_since)
        ASSERT_LT(w.now_ns - since_ns, 60'000 * ms) << "seed " << seed << ": " << who;
    }
    EXPECT_GT(admitted, 100u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace skerry::connection
