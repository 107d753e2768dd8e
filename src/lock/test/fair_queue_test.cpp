// The fair queue through the interface that ranks and data servers use.
#include <gtest/gtest.h>

#include <vector>

#include "lock/mutex.hpp"

namespace skerry::lock {
namespace {

// Reaches ranks below `reach`; takes the guard unless it is told not to.
struct QueueCaller final : Caller {
  QueueCaller(const WaiterPool& records, Rank r) : Caller(records), reach(r) {}
  bool acquire(OwnerWord& guard) override { return !no_guard && guard.try_lock(1); }
  void release(OwnerWord& guard) override { (void)guard.release(); }
  bool reaches(const Waiter& waiter) const override { return rank_of(waiter.holder) < reach; }
  void tell(const Waiter& waiter) override { told.push_back(waiter); }
  bool invites(const Waiter& waiter) const override {
    return inviting && rank_of(waiter.holder) < 10;
  }
  void record_freed() override { ++freed; }

  Rank reach;
  bool no_guard = false;
  bool inviting = false;  // waiters of the node
  std::vector<Waiter> told;
  int freed = 0;
};

class FairQueue : public testing::Test {
 protected:
  Waiter waiter(Rank rank) const { return make_waiter(make_holder(rank, 1), rank, 3, 7); }
  Holder holder(Rank rank) const { return make_holder(rank, 1); }

  struct alignas(32) Record {
    std::byte bytes[waiter_record_bytes] = {};
  };
  Record memory_[3];
  WaiterPool pool_{memory_[0].bytes, 2};
  Mutex mutex_{};
  QueueCaller server_{pool_, 1000}, rank_{pool_, 10};  // the node has ranks 0 to 9
};

TEST_F(FairQueue, GrantsInOrderAndTellsTheNext) {
  EXPECT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  EXPECT_EQ(request(mutex_, waiter(20), server_), LockAnswer::queued);
  EXPECT_EQ(request(mutex_, waiter(2), rank_), LockAnswer::queued);
  EXPECT_EQ(holds(mutex_, holder(1), server_), LockAnswer::granted);
  EXPECT_EQ(release(mutex_, holder(1), server_), UnlockAnswer::released);
  ASSERT_EQ(server_.told.size(), 1u);
  EXPECT_EQ(rank_of(server_.told[0].holder), 20);
  EXPECT_EQ(slot_of(server_.told[0]), 3u);
  EXPECT_EQ(tag_of(server_.told[0]), 7u);
  EXPECT_EQ(server_.freed, 1);
  EXPECT_EQ(holds(mutex_, holder(20), server_), LockAnswer::granted);
}

// A rank cannot tell a waiter on another node: its data server releases the lock in its name.
TEST_F(FairQueue, ARankLeavesAWaiterOutOfItsReachToTheServer) {
  EXPECT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  EXPECT_EQ(request(mutex_, waiter(20), server_), LockAnswer::queued);
  EXPECT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::out_of_reach);
  // Expect: nothing was changed, and the guard is free.
  EXPECT_EQ(holds(mutex_, holder(1), server_), LockAnswer::granted);
  EXPECT_TRUE(rank_.told.empty());
  EXPECT_EQ(release(mutex_, holder(1), server_), UnlockAnswer::released);
  EXPECT_EQ(server_.told.size(), 1u);
}

TEST_F(FairQueue, ABatchOfSharersIsToldTogetherIfAllAreInReach) {
  Waiter near = waiter(2), far = waiter(20);
  near.holder |= shared_bit;
  far.holder |= shared_bit;
  EXPECT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  EXPECT_EQ(request(mutex_, near, rank_), LockAnswer::queued);
  EXPECT_EQ(request(mutex_, far, server_), LockAnswer::queued);
  EXPECT_EQ(holds(mutex_, far.holder, server_), LockAnswer::queued);
  EXPECT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::out_of_reach);
  EXPECT_EQ(release(mutex_, holder(1), server_), UnlockAnswer::released);
  EXPECT_EQ(server_.told.size(), 2u);
  EXPECT_EQ(holds(mutex_, far.holder, server_), LockAnswer::granted);
  EXPECT_EQ(release(mutex_, near.holder, rank_), UnlockAnswer::released);
  EXPECT_EQ(release(mutex_, far.holder, server_), UnlockAnswer::released);
  EXPECT_EQ(release(mutex_, far.holder, server_), UnlockAnswer::not_holder);
}

TEST_F(FairQueue, WithoutARecordOrTheGuardNothingChanges) {
  EXPECT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  rank_.no_guard = true;
  EXPECT_EQ(request(mutex_, waiter(2), rank_), LockAnswer::no_guard);
  rank_.no_guard = false;
  EXPECT_EQ(request(mutex_, waiter(2), rank_), LockAnswer::queued);
  EXPECT_EQ(request(mutex_, waiter(3), rank_), LockAnswer::queued);
  EXPECT_EQ(request(mutex_, waiter(4), rank_), LockAnswer::no_record);
  rank_.no_guard = true;
  EXPECT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::no_guard);
  rank_.no_guard = false;
  EXPECT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::released);
  // Expect: the record that came back serves the one that had none.
  EXPECT_EQ(request(mutex_, waiter(4), rank_), LockAnswer::queued);
}

// ---- an invited waiter ------------------------------------------------------------------------

TEST_F(FairQueue, AnInvitedWaiterTakesTheLock) {
  rank_.inviting = true;
  ASSERT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  ASSERT_EQ(request(mutex_, waiter(2), rank_), LockAnswer::queued);
  EXPECT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::released);
  EXPECT_EQ(mutex_.word.load(), open_word);
  ASSERT_EQ(rank_.told.size(), 1u);
  EXPECT_EQ(holds(mutex_, holder(2), rank_), LockAnswer::queued);
  EXPECT_EQ(try_turn(mutex_, holder(2), rank_), LockAnswer::granted);
  EXPECT_EQ(holds(mutex_, holder(2), rank_), LockAnswer::granted);
  EXPECT_EQ(release(mutex_, holder(2), rank_), UnlockAnswer::released);
  EXPECT_EQ(mutex_.word.load(), 0u);
  EXPECT_EQ(release(mutex_, holder(2), rank_), UnlockAnswer::not_holder);
}

TEST_F(FairQueue, OneThatRestsIsInvitedAgain) {
  rank_.inviting = true;
  ASSERT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  ASSERT_EQ(request(mutex_, waiter(2), rank_), LockAnswer::queued);
  ASSERT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::released);
  // A newcomer passes it. It unlocks without the guard, and wakes nobody.
  rank_.no_guard = true;
  EXPECT_EQ(request(mutex_, waiter(3), rank_), LockAnswer::granted);
  EXPECT_EQ(release(mutex_, holder(3), rank_), UnlockAnswer::released);
  EXPECT_EQ(request(mutex_, waiter(3), rank_), LockAnswer::granted);
  EXPECT_EQ(request(mutex_, waiter(3), rank_), LockAnswer::recursive);
  rank_.no_guard = false;
  EXPECT_EQ(rank_.told.size(), 1u);
  EXPECT_EQ(try_turn(mutex_, holder(2), rank_), LockAnswer::queued);
  const Waiter again = make_waiter(holder(2), 2, 3, 8);
  EXPECT_EQ(rest(mutex_, again, false, rank_), LockAnswer::queued);
  EXPECT_EQ(release(mutex_, holder(3), rank_), UnlockAnswer::released);
  ASSERT_EQ(rank_.told.size(), 2u);
  EXPECT_EQ(tag_of(rank_.told[1]), 8u);
  // Expect: it found the lock free as it lay down to rest.
  EXPECT_EQ(rest(mutex_, again, false, rank_), LockAnswer::granted);
  EXPECT_EQ(release(mutex_, holder(2), rank_), UnlockAnswer::released);
  EXPECT_EQ(mutex_.word.load(), 0u);
}

TEST_F(FairQueue, AnImpatientWaiterIsHandedTheLock) {
  rank_.inviting = true;
  ASSERT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  ASSERT_EQ(request(mutex_, waiter(2), rank_), LockAnswer::queued);
  ASSERT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::released);
  ASSERT_EQ(request(mutex_, waiter(3), rank_), LockAnswer::granted);
  EXPECT_EQ(rest(mutex_, waiter(2), true, rank_), LockAnswer::queued);
  EXPECT_EQ(release(mutex_, holder(3), rank_), UnlockAnswer::released);
  EXPECT_EQ(request(mutex_, waiter(3), rank_), LockAnswer::queued);
  EXPECT_EQ(try_turn(mutex_, holder(2), rank_), LockAnswer::granted);
}

TEST_F(FairQueue, ABoundedNumberOfNewcomersPass) {
  rank_.inviting = true;
  ASSERT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  ASSERT_EQ(request(mutex_, waiter(2), rank_), LockAnswer::queued);
  ASSERT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::released);
  uint32_t passed = 0;
  for (; request(mutex_, waiter(3), rank_) == LockAnswer::granted; ++passed)
    ASSERT_EQ(release(mutex_, holder(3), rank_), UnlockAnswer::released);
  EXPECT_EQ(passed, most_passes);
  EXPECT_EQ(try_turn(mutex_, holder(2), rank_), LockAnswer::granted);
  // Expect: the next waiter's count begins anew.
  EXPECT_EQ(release(mutex_, holder(2), rank_), UnlockAnswer::released);
  EXPECT_EQ(mutex_.word.load(), open_word);
}

// Neither sharers nor waiters of other nodes are invited: they do not look at the word.
TEST_F(FairQueue, OthersAreHandedTheLock) {
  rank_.inviting = server_.inviting = true;
  Waiter sharer = waiter(2);
  sharer.holder |= shared_bit;
  ASSERT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  ASSERT_EQ(request(mutex_, sharer, rank_), LockAnswer::queued);
  ASSERT_EQ(request(mutex_, waiter(20), server_), LockAnswer::queued);
  EXPECT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::released);
  EXPECT_EQ(holds(mutex_, sharer.holder, rank_), LockAnswer::granted);
  EXPECT_EQ(release(mutex_, sharer.holder, server_), UnlockAnswer::released);
  EXPECT_EQ(holds(mutex_, holder(20), server_), LockAnswer::granted);
}

TEST_F(FairQueue, NobodyPassesWhileAnotherNodeWaits) {
  rank_.inviting = true;
  ASSERT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  ASSERT_EQ(request(mutex_, waiter(2), rank_), LockAnswer::queued);
  ASSERT_EQ(request(mutex_, waiter(20), server_), LockAnswer::queued);
  EXPECT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::released);
  EXPECT_EQ(holds(mutex_, holder(2), rank_), LockAnswer::granted);
}

// Duplicate and past.
TEST_F(FairQueue, WrongRequestsAreErrors) {
  EXPECT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::not_holder);
  EXPECT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::granted);
  EXPECT_EQ(request(mutex_, waiter(1), rank_), LockAnswer::recursive);
  EXPECT_EQ(release(mutex_, holder(2), rank_), UnlockAnswer::not_holder);
  EXPECT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::released);
  EXPECT_EQ(release(mutex_, holder(1), rank_), UnlockAnswer::not_holder);
}

}  // namespace
}  // namespace skerry::lock
