// Sharing by flags, its end by a requester for exclusive use, and both with waiters that are
// invited.
#include "lock/readers.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "core/owner_lock.hpp"
#include "lock/mutex.hpp"

namespace skerry::lock {
namespace {

constexpr uint32_t ranks = 6;

// The memory of a node, and its ranks as threads.
struct Node {
  struct alignas(32) Record {
    std::byte bytes[waiter_record_bytes] = {};
  };
  ReaderLine memory[ranks + 1] = {};
  ReaderLines lines{memory, ranks};
  Record records[ranks + 1];
  WaiterPool pool{records[0].bytes, ranks, lines};
  Mutex mutex{};
  std::atomic<uint32_t> told[ranks] = {};  // the last use of a rank's slot that was told
};

class RankCaller final : public Caller {
 public:
  RankCaller(Node& node, uint32_t me) : Caller(node.pool), node_(node), me_(me) {}
  bool acquire(OwnerWord& guard) override {
    return lock_word(guard, me_, {}) == LockResult::locked;
  }
  void release(OwnerWord& guard) override { unlock_word(guard); }
  bool reaches(const Waiter&) const override { return true; }
  bool invites(const Waiter&) const override { return true; }
  void tell(const Waiter& waiter) override {
    std::atomic<uint32_t>& word = node_.told[rank_of(waiter.holder)];
    word.store(tag_of(waiter), std::memory_order_release);
    futex_wake(&word, 1);
  }
  void record_freed() override {}

 private:
  Node& node_;
  const uint32_t me_;
};

Holder holder_of(uint32_t rank) { return make_holder(static_cast<Rank>(rank), 1); }

bool share(Node& node, uint32_t me) {
  return share(node.mutex, node.lines, me, holder_of(me) | shared_bit);
}

void bias(Node& node) {
  ASSERT_TRUE(share(node, 0));
  for (uint32_t i = 0; i < bias_after; ++i) {
    ASSERT_TRUE(share(node, 1));
    if (!unshare_by_flag(node.mutex, node.lines, 1)) {
      ASSERT_EQ(try_unshare(node.mutex), UnlockAnswer::released);
    }
  }
  ASSERT_EQ(node.mutex.word.load(), shared_bit | biased_bit | 1);
}

TEST(Readers, MeetOthersOftenBeforeTheLockIsBiased) {
  Node node;
  for (uint32_t i = 0; i < 2 * bias_after; ++i) {  // alone: never
    ASSERT_TRUE(share(node, 0));
    ASSERT_EQ(try_unshare(node.mutex), UnlockAnswer::released);
  }
  EXPECT_EQ(node.mutex.word.load(), 0u);
  bias(node);
  // Expect: from now on the word stays as it is.
  EXPECT_TRUE(share(node, 1));
  EXPECT_TRUE(share(node, 2));
  EXPECT_EQ(node.mutex.word.load(), shared_bit | biased_bit | 1);
  EXPECT_TRUE(unshare_by_flag(node.mutex, node.lines, 2));
  EXPECT_FALSE(unshare_by_flag(node.mutex, node.lines, 2));
  EXPECT_TRUE(unshare_by_flag(node.mutex, node.lines, 1));
  EXPECT_EQ(try_unshare(node.mutex), UnlockAnswer::released);
  EXPECT_EQ(try_unshare(node.mutex), UnlockAnswer::not_holder);
}

TEST(Readers, AreCountedByOneThatWantsTheLockForItself) {
  Node node;
  bias(node);
  ASSERT_TRUE(share_by_flag(node.mutex, node.lines, 1));
  EXPECT_EQ(try_lock(node.mutex, holder_of(2)), LockAnswer::contended);
  RankCaller two(node, 2), one(node, 1);
  const Waiter waiter = make_waiter(holder_of(2), 2, 1, 5);
  EXPECT_EQ(request(node.mutex, waiter, two), LockAnswer::queued);
  EXPECT_EQ(node.mutex.word.load(), shared_bit | queued_bit | 2);
  // Expect: no flag is taken behind it, and those that were are counts now.
  EXPECT_FALSE(share(node, 3));
  EXPECT_FALSE(unshare_by_flag(node.mutex, node.lines, 1));
  EXPECT_EQ(release(node.mutex, holder_of(1) | shared_bit, one), UnlockAnswer::released);
  EXPECT_EQ(release(node.mutex, holder_of(0) | shared_bit, one), UnlockAnswer::released);
  EXPECT_EQ(node.told[2].load(), 5u);
  EXPECT_EQ(holds(node.mutex, holder_of(2), two), LockAnswer::granted);
}

TEST(Readers, ABiasedLockWithoutReadersIsTakenAtOnce) {
  Node node;
  bias(node);
  ASSERT_EQ(try_unshare(node.mutex), UnlockAnswer::released);
  ASSERT_EQ(node.mutex.word.load(), shared_bit | biased_bit);
  RankCaller two(node, 2);
  const Waiter waiter = make_waiter(holder_of(2), 2, 1, 5);
  EXPECT_EQ(request(node.mutex, waiter, two), LockAnswer::granted);
  EXPECT_EQ(node.mutex.word.load(), holder_of(2));
}

// A holder's rank has all of the word's bits between the count and the marks.
TEST(Readers, NoRankThatHoldsTheLockLooksLikeABias) {
  for (const Rank rank : {Rank{255}, Rank{511}, most_holder_ranks - 1}) {
    Node node;
    const Holder holder = make_holder(rank, 1);
    ASSERT_EQ(try_lock(node.mutex, holder), LockAnswer::granted);
    // Expect: nobody shares it, and a requester for exclusive use queues up.
    EXPECT_FALSE(share_by_flag(node.mutex, node.lines, 0)) << rank;
    revoke_bias(node.mutex, node.lines);
    ASSERT_EQ(node.mutex.word.load(), holder) << rank;
    RankCaller two(node, 2);
    const Waiter waiter = make_waiter(holder_of(2), 2, 1, 5);
    EXPECT_EQ(request(node.mutex, waiter, two), LockAnswer::queued);
    EXPECT_EQ(release(node.mutex, holder, two), UnlockAnswer::released);
  }
}

// A flag that is taken by another lock: by count.
TEST(Readers, ShareByCountWhenTheirFlagIsTaken) {
  Node node;
  bias(node);
  node.lines.flag(1, node.mutex.name.load()).store(node.mutex.name.load() + ReaderLine::flags);
  EXPECT_TRUE(share(node, 1));
  EXPECT_EQ(node.mutex.word.load(), shared_bit | biased_bit | 2);
  EXPECT_FALSE(unshare_by_flag(node.mutex, node.lines, 1));
}

// ---- threads ----------------------------------------------------------------------------------

void wait_for_turn(Node& node, uint32_t me, Holder holder, uint32_t* tag, RankCaller& caller) {
  for (int rests = 0;; ++rests) {
    (void)wait_until(
        &node.told[me], [&](uint32_t told) { return told == *tag; }, no_deadline, nullptr);
    if (shares(holder)) return;
    for (int look = 0; look < 20; ++look)
      if (try_turn(node.mutex, holder, caller) == LockAnswer::granted) return;
    ++*tag;
    const Waiter again = make_waiter(holder, static_cast<Rank>(me), 1, *tag);
    if (rest(node.mutex, again, rests > 3, caller) == LockAnswer::granted) return;
  }
}

TEST(Readers, AndWritersInThreadsAreAllServed) {
  Node node;
  uint64_t pair[2] = {};  // plain: the thread sanitizer watches them
  std::latch start(ranks);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < ranks; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      RankCaller caller(node, t);
      std::mt19937 random(t);
      uint32_t tag = 0;
      for (int i = 0; i < 4000; ++i) {
        const bool reads = i % 1000 < 600 ? random() % 50 != 0 : random() % 2 == 0;
        const Holder holder = holder_of(t) | (reads ? shared_bit : 0);
        if (!reads || !share(node, t)) {
          ++tag;
          const Waiter me = make_waiter(holder, static_cast<Rank>(t), 1, tag);
          const LockAnswer asked = request(node.mutex, me, caller);
          if (asked == LockAnswer::queued) wait_for_turn(node, t, holder, &tag, caller);
          else ASSERT_EQ(asked, LockAnswer::granted);
        }
        if (reads) {
          EXPECT_EQ(pair[0], pair[1]);
          // Threads meet by chance; here the lock is biased now and then in any case.
          if (random() % 8 == 0)
            for (uint32_t met = 0; met < bias_after; ++met) met_others(node.mutex, node.lines);
        } else {
          ++pair[0];
          ++pair[1];
        }
        if (reads && unshare_by_flag(node.mutex, node.lines, t)) continue;
        ASSERT_EQ(release(node.mutex, holder, caller), UnlockAnswer::released);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(node.mutex.name.load(), 0u);
  EXPECT_EQ(node.mutex.word.load() & ~(shared_bit | biased_bit), 0u);
}

}  // namespace
}  // namespace skerry::lock
