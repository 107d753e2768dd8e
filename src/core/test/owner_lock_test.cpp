#include "core/owner_lock.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace skerry {
namespace {

TEST(OwnerLock, ExcludesAndCounts) {
  OwnerWord word;
  uint64_t counter = 0;  // plain: ThreadSanitizer sees a lock that does not lock
  std::vector<std::thread> threads;
  for (uint32_t owner = 0; owner < 4; ++owner) {
    threads.emplace_back([&, owner] {
      for (int i = 0; i < 20'000; ++i) {
        ASSERT_EQ(lock_word(word, owner, {}), LockResult::locked);
        ++counter;
        unlock_word(word);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 80'000u);
  EXPECT_EQ(word.value.load(), 0u);
}

TEST(OwnerLock, NamesItsOwnerAndRefusesTheImpatient) {
  OwnerWord word;
  ASSERT_TRUE(word.try_lock(41));
  EXPECT_EQ(OwnerWord::owner_of(word.value.load()), 41u);
  EXPECT_EQ(try_lock_word(word, 1, {}), LockResult::busy);
  unlock_word(word);
  EXPECT_EQ(try_lock_word(word, 1, {}), LockResult::locked);
}

TEST(OwnerLock, FindsADeadOwner) {
  OwnerWord word;
  std::atomic<bool> dead{false};
  OwnerWatch watch;
  watch.is_dead = [](const void* context, uint32_t owner) {
    return owner == 3 && static_cast<const std::atomic<bool>*>(context)->load();
  };
  watch.context = &dead;
  ASSERT_TRUE(word.try_lock(3));
  std::thread undertaker([&] { dead = true; });
  // Expect: the sleeper finds out by itself, without a wake.
  EXPECT_EQ(lock_word(word, 1, watch), LockResult::owner_dead);
  EXPECT_EQ(try_lock_word(word, 1, watch), LockResult::owner_dead);
  undertaker.join();
}

// What a dead owner guarded is taken over by those who say that they can put it right.
TEST(OwnerLock, ADeadOwnersLockIsTakenOverOnce) {
  OwnerWord word;
  OwnerWatch watch;
  watch.is_dead = [](const void*, uint32_t owner) { return owner == 3; };
  watch.takes_over = true;
  ASSERT_TRUE(word.try_lock(3));
  EXPECT_EQ(try_lock_word(word, 1, watch), LockResult::locked);
  EXPECT_EQ(OwnerWord::owner_of(word.value.load()), 1u);
  EXPECT_EQ(try_lock_word(word, 2, watch), LockResult::busy);
  unlock_word(word);
  ASSERT_TRUE(word.try_lock(3));
  uint64_t inside = 0, counter = 0;  // plain: ThreadSanitizer sees a lock that does not lock
  std::vector<std::thread> threads;
  for (uint32_t owner = 4; owner < 8; ++owner)
    threads.emplace_back([&, owner] {
      ASSERT_EQ(lock_word(word, owner, watch), LockResult::locked);
      EXPECT_EQ(++inside, 1u);
      ++counter;
      --inside;
      unlock_word(word);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 4u);
}

TEST(OwnerLock, GivesUpWhenTheJobEnds) {
  OwnerWord word;
  std::atomic<uint32_t> abort{0};
  OwnerWatch watch;
  watch.abort = &abort;
  ASSERT_TRUE(word.try_lock(0));
  std::thread ender([&] { abort = 1; });
  EXPECT_EQ(lock_word(word, 1, watch), LockResult::aborted);
  ender.join();
}

}  // namespace
}  // namespace skerry
