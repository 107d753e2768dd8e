// bury: ranks that died are taken out of a mutex, at whatever step of a change they died.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "core/owner_lock.hpp"
#include "lock/mutex.hpp"

namespace skerry::lock {
namespace {

class Asker final : public Caller {
 public:
  explicit Asker(const WaiterPool& records) : Caller(records) {}
  bool acquire(OwnerWord& guard) override { return guard.try_lock(0); }
  void release(OwnerWord& guard) override { unlock_word(guard); }
  bool reaches(const Waiter&) const override { return true; }
  void tell(const Waiter& waiter) override { told.push_back(rank_of(waiter.holder)); }
  bool invites(const Waiter&) const override { return invites_all; }
  void record_freed() override {}

  std::vector<Rank> told;
  bool invites_all = false;
};

// The node's data server after a death: takes over the guard of a dead owner.
class Undertaker final : public Caller {
 public:
  explicit Undertaker(Asker& node) : Caller(node.pool), node_(node) {}
  bool acquire(OwnerWord& guard) override {
    OwnerWatch watch;
    watch.is_dead = [](const void*, uint32_t owner) { return owner == dead_owner; };
    watch.takes_over = true;
    return try_lock_word(guard, 99, watch) == LockResult::locked;
  }
  void release(OwnerWord& guard) override { unlock_word(guard); }
  bool reaches(const Waiter&) const override { return true; }
  void tell(const Waiter& waiter) override { node_.tell(waiter); }
  bool invites(const Waiter&) const override { return false; }
  void record_freed() override {}
  static constexpr uint32_t dead_owner = 7;

 private:
  Asker& node_;
};

class BuryTest : public ::testing::Test {
 protected:
  static constexpr uint32_t records = 16;
  struct alignas(32) Block {
    std::byte bytes[32] = {};
  };
  std::vector<Block> memory_ = std::vector<Block>(records + 1);
  Asker node_{WaiterPool(memory_[0].bytes, records)};
  Undertaker undertaker_{node_};
  Mutex mutex_{};
  std::set<Rank> dead_;

  static Holder holder(Rank rank) { return make_holder(rank, 1); }
  LockAnswer ask(Rank rank) {
    return request(mutex_, make_waiter(holder(rank), rank, 1, 1), node_);
  }
  void give(Rank rank) {
    ASSERT_EQ(release(mutex_, holder(rank), node_), UnlockAnswer::released);
  }
  Rank owner() const {
    const uint64_t word = mutex_.word.load() & ~open_word;
    return word == 0 ? no_rank : rank_of(word);
  }
  void bury(std::initializer_list<Rank> dead) {
    dead_.insert(dead.begin(), dead.end());
    const auto is_dead = [](const void* context, Rank rank) {
      return static_cast<const std::set<Rank>*>(context)->contains(rank);
    };
    ASSERT_TRUE(lock::bury(mutex_, undertaker_, is_dead, &dead_));
  }
  // The rest goes on as ever, and no record was lost.
  void expect_order(std::vector<Rank> ranks) {
    for (const Rank rank : ranks) {
      ASSERT_EQ(owner(), rank);
      give(rank);
    }
    EXPECT_EQ(mutex_.word.load(), 0u);
    std::set<uint32_t> taken;
    for (uint32_t i = 0; i < records; ++i) taken.insert(node_.pool.take());
    EXPECT_EQ(taken.size(), records);
    EXPECT_FALSE(taken.contains(0));
  }
};

TEST_F(BuryTest, AHoldersDeathFreesTheMutexAndTheNextIsToldOnce) {
  ASSERT_EQ(ask(1), LockAnswer::granted);
  bury({1});
  EXPECT_EQ(owner(), no_rank);
  ASSERT_EQ(ask(2), LockAnswer::granted);
  EXPECT_EQ(take_death(mutex_), 1);
  EXPECT_EQ(take_death(mutex_), no_rank);
  expect_order({2});
}

TEST_F(BuryTest, TheFirstWaiterThatLivesGetsIt) {
  for (const Rank rank : {1, 2, 3, 4, 5}) (void)ask(rank);
  bury({1, 2, 4});
  EXPECT_EQ(node_.told, std::vector<Rank>{3});
  EXPECT_EQ(take_death(mutex_), 1);
  expect_order({3, 5});
}

TEST_F(BuryTest, ADeadWaiterLeavesTheLineAndNobodyElseNotices) {
  for (const Rank rank : {1, 2, 3}) (void)ask(rank);
  bury({3});
  EXPECT_TRUE(node_.told.empty());
  bury({2});
  EXPECT_TRUE(node_.told.empty());
  EXPECT_EQ(mutex_.word.load(), holder(1));
  EXPECT_EQ(take_death(mutex_), no_rank);
  expect_order({1});
}

TEST_F(BuryTest, AMutexOfTheLivingStaysAsItIs) {
  for (const Rank rank : {1, 2, 3}) (void)ask(rank);
  bury({9});
  EXPECT_TRUE(node_.told.empty());
  expect_order({1, 2, 3});
}

// ---- deaths under the guard ---------------------------------------------------------------------

TEST_F(BuryTest, WhileQueueingBeforeItsRecordWasLinked) {
  ASSERT_EQ(ask(1), LockAnswer::granted);
  mutex_.word.store(holder(1) | queued_bit);
  ASSERT_TRUE(mutex_.guard.try_lock(Undertaker::dead_owner));
  bury({2});
  expect_order({1});
}

TEST_F(BuryTest, WhileQueueingBeforeTheLastWasMovedOn) {
  for (const Rank rank : {1, 2, 3}) (void)ask(rank);
  mutex_.last = mutex_.first;  // 3 is linked behind 2
  ASSERT_TRUE(mutex_.guard.try_lock(Undertaker::dead_owner));
  bury({3});
  ASSERT_EQ(ask(4), LockAnswer::queued);
  expect_order({1, 2, 4});
}

TEST_F(BuryTest, WhileHandingOverToOneThatIsQueuedStill) {
  for (const Rank rank : {1, 2, 3}) (void)ask(rank);
  mutex_.word.store(holder(2) | queued_bit);  // 1 gave it to 2, and died before the queue moved on
  ASSERT_TRUE(mutex_.guard.try_lock(Undertaker::dead_owner));
  bury({1});
  EXPECT_TRUE(node_.told.empty());  // it looks for itself: host/wait.hpp
  expect_order({2, 3});
}

TEST_F(BuryTest, WhileInvitingOneThatWasNotTold) {
  node_.invites_all = true;
  for (const Rank rank : {1, 2, 3}) (void)ask(rank);
  mutex_.word.store(open_word);
  ASSERT_TRUE(mutex_.guard.try_lock(Undertaker::dead_owner));
  bury({1});
  EXPECT_EQ(node_.told, std::vector<Rank>{2});
  node_.invites_all = false;
  expect_order({2, 3});
}

// Nobody is awake that would try: the invitation goes with the invited.
TEST_F(BuryTest, TheInvitedDiesAndTheNextIsHandedTheMutex) {
  node_.invites_all = true;
  for (const Rank rank : {1, 2, 3}) (void)ask(rank);
  give(1);
  EXPECT_EQ(mutex_.word.load(), open_word);
  node_.told.clear();
  ASSERT_EQ(try_lock(mutex_, holder(4)), LockAnswer::granted);  // a newcomer passes
  bury({2});
  EXPECT_TRUE(node_.told.empty());
  node_.invites_all = false;
  expect_order({4, 3});
}

TEST_F(BuryTest, WhileTakingItsTurn) {
  node_.invites_all = true;
  for (const Rank rank : {1, 2, 3}) (void)ask(rank);
  give(1);
  mutex_.word.store(holder(2) | queued_bit);  // it has the word, and its record still
  ASSERT_TRUE(mutex_.guard.try_lock(Undertaker::dead_owner));
  bury({2});
  EXPECT_EQ(take_death(mutex_), 2);
  node_.invites_all = false;
  expect_order({3});
}

// Any order of requests, releases and deaths: every waiter that lives gets the mutex, once.
TEST_F(BuryTest, AnyOrderOfRequestsReleasesAndDeaths) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Rank> line;  // the holder first
    Rank next = 100 * (round + 1);
    for (int step = 0; step < 30; ++step) {
      const auto what = random() % 4;
      if (what < 2 && line.size() < records) {
        const LockAnswer answer = ask(next);
        ASSERT_EQ(answer, line.empty() ? LockAnswer::granted : LockAnswer::queued);
        line.push_back(next++);
      } else if (what == 2 && !line.empty()) {
        give(line.front());
        line.erase(line.begin());
      } else if (!line.empty()) {
        const size_t i = random() % line.size();
        dead_.clear();
        bury({line[i]});
        const Rank died = line[i];
        line.erase(line.begin() + static_cast<std::ptrdiff_t>(i));
        ASSERT_EQ(take_death(mutex_), i == 0 ? died : no_rank);
      }
      ASSERT_EQ(owner(), line.empty() ? no_rank : line.front());
    }
    while (!line.empty()) {
      ASSERT_EQ(owner(), line.front());
      give(line.front());
      line.erase(line.begin());
    }
    ASSERT_EQ(mutex_.word.load(), 0u);
  }
  expect_order({});
}

}  // namespace
}  // namespace skerry::lock
