// The fair queue through the interface that ranks and data servers use.
#include <gtest/gtest.h>

#include <vector>

#include "lock/protocol.hpp"

namespace skerry::lock {
namespace {

// Reaches ranks below `reach`; takes the guard unless it is told not to.
struct TestCaller final : Caller {
  explicit TestCaller(Rank r) : reach(r) {}
  bool acquire(OwnerWord& guard) override { return !no_guard && guard.try_lock(1); }
  void release(OwnerWord& guard) override { (void)guard.release(); }
  bool reaches(const Waiter& waiter) const override { return rank_of(waiter.holder) < reach; }
  void tell(const Waiter& waiter) override { told.push_back(waiter); }
  void record_freed() override { ++freed; }

  Rank reach;
  bool no_guard = false;
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
  const Protocol& lock_ = fair_queue();
  TestCaller server_{1000}, rank_{10};  // the node has ranks 0 to 9
};

TEST_F(FairQueue, GrantsInOrderAndTellsTheNext) {
  EXPECT_EQ(lock_.request(mutex_, waiter(1), pool_, rank_), Request::granted);
  EXPECT_EQ(lock_.request(mutex_, waiter(20), pool_, server_), Request::queued);
  EXPECT_EQ(lock_.request(mutex_, waiter(2), pool_, rank_), Request::queued);
  EXPECT_EQ(lock_.holds(mutex_, holder(1), pool_, server_), Holds::yes);
  EXPECT_EQ(lock_.release(mutex_, holder(1), pool_, server_), Release::released);
  ASSERT_EQ(server_.told.size(), 1u);
  EXPECT_EQ(rank_of(server_.told[0].holder), 20);
  EXPECT_EQ(slot_of(server_.told[0]), 3u);
  EXPECT_EQ(tag_of(server_.told[0]), 7u);
  EXPECT_EQ(server_.freed, 1);
  EXPECT_EQ(lock_.holds(mutex_, holder(20), pool_, server_), Holds::yes);
}

// A rank cannot tell a waiter on another node: its data server releases the lock in its name.
TEST_F(FairQueue, ARankLeavesAWaiterOutOfItsReachToTheServer) {
  EXPECT_EQ(lock_.request(mutex_, waiter(1), pool_, rank_), Request::granted);
  EXPECT_EQ(lock_.request(mutex_, waiter(20), pool_, server_), Request::queued);
  EXPECT_EQ(lock_.release(mutex_, holder(1), pool_, rank_), Release::out_of_reach);
  // Expect: nothing was changed, and the guard is free.
  EXPECT_EQ(lock_.holds(mutex_, holder(1), pool_, server_), Holds::yes);
  EXPECT_TRUE(rank_.told.empty());
  EXPECT_EQ(lock_.release(mutex_, holder(1), pool_, server_), Release::released);
  EXPECT_EQ(server_.told.size(), 1u);
}

TEST_F(FairQueue, ABatchOfSharersIsToldTogetherIfAllAreInReach) {
  Waiter near = waiter(2), far = waiter(20);
  near.holder |= shared_bit;
  far.holder |= shared_bit;
  EXPECT_EQ(lock_.request(mutex_, waiter(1), pool_, rank_), Request::granted);
  EXPECT_EQ(lock_.request(mutex_, near, pool_, rank_), Request::queued);
  EXPECT_EQ(lock_.request(mutex_, far, pool_, server_), Request::queued);
  EXPECT_EQ(lock_.holds(mutex_, far.holder, pool_, server_), Holds::no);
  EXPECT_EQ(lock_.release(mutex_, holder(1), pool_, rank_), Release::out_of_reach);
  EXPECT_EQ(lock_.release(mutex_, holder(1), pool_, server_), Release::released);
  EXPECT_EQ(server_.told.size(), 2u);
  EXPECT_EQ(lock_.holds(mutex_, far.holder, pool_, server_), Holds::yes);
  EXPECT_EQ(lock_.release(mutex_, near.holder, pool_, rank_), Release::released);
  EXPECT_EQ(lock_.release(mutex_, far.holder, pool_, server_), Release::released);
  EXPECT_EQ(lock_.release(mutex_, far.holder, pool_, server_), Release::not_holder);
}

TEST_F(FairQueue, WithoutARecordOrTheGuardNothingChanges) {
  EXPECT_EQ(lock_.request(mutex_, waiter(1), pool_, rank_), Request::granted);
  rank_.no_guard = true;
  EXPECT_EQ(lock_.request(mutex_, waiter(2), pool_, rank_), Request::no_guard);
  rank_.no_guard = false;
  EXPECT_EQ(lock_.request(mutex_, waiter(2), pool_, rank_), Request::queued);
  EXPECT_EQ(lock_.request(mutex_, waiter(3), pool_, rank_), Request::queued);
  EXPECT_EQ(lock_.request(mutex_, waiter(4), pool_, rank_), Request::no_record);
  rank_.no_guard = true;
  EXPECT_EQ(lock_.release(mutex_, holder(1), pool_, rank_), Release::no_guard);
  rank_.no_guard = false;
  EXPECT_EQ(lock_.release(mutex_, holder(1), pool_, rank_), Release::released);
  // Expect: the record that came back serves the one that had none.
  EXPECT_EQ(lock_.request(mutex_, waiter(4), pool_, rank_), Request::queued);
}

// Duplicate and past.
TEST_F(FairQueue, WrongRequestsAreErrors) {
  EXPECT_EQ(lock_.release(mutex_, holder(1), pool_, rank_), Release::not_holder);
  EXPECT_EQ(lock_.request(mutex_, waiter(1), pool_, rank_), Request::granted);
  EXPECT_EQ(lock_.request(mutex_, waiter(1), pool_, rank_), Request::recursive);
  EXPECT_EQ(lock_.release(mutex_, holder(2), pool_, rank_), Release::not_holder);
  EXPECT_EQ(lock_.release(mutex_, holder(1), pool_, rank_), Release::released);
  EXPECT_EQ(lock_.release(mutex_, holder(1), pool_, rank_), Release::not_holder);
}

}  // namespace
}  // namespace skerry::lock
