#include "lock/mutex.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/owner_lock.hpp"

namespace skerry::lock {
namespace {

// A local process, which sleeps for the guard, or a data server, which tries once.
class TestCaller final : public Caller {
 public:
  TestCaller(const WaiterPool& records, uint32_t owner, bool sleeps)
      : Caller(records), owner_(owner), sleeps_(sleeps) {}
  bool acquire(OwnerWord& guard) override {
    return sleeps_ ? lock_word(guard, owner_, {}) == LockResult::locked : guard.try_lock(owner_);
  }
  void release(OwnerWord& guard) override { unlock_word(guard); }
  bool reaches(const Waiter&) const override { return true; }
  void tell(const Waiter& waiter) override { told.push_back(waiter); }
  bool invites(const Waiter&) const override { return false; }
  void record_freed() override {}

  std::vector<Waiter> told;  // by the last unlock

 private:
  const uint32_t owner_;
  const bool sleeps_;
};

class Host {
 public:
  explicit Host(uint32_t records)
      : memory_((records + 1) * waiter_record_bytes / sizeof(Block)),
        pool(memory_[0].bytes, records) {}

 private:
  struct alignas(32) Block {
    std::byte bytes[32] = {};
  };
  std::vector<Block> memory_;

 public:
  WaiterPool pool;
  Mutex mutex{};
  TestCaller sleeping{pool, 0, true}, trying{pool, 99, false};
};

Waiter waiter_of(Rank rank, uint32_t thread = 0) {
  return Waiter{make_holder(rank, thread), {static_cast<uint64_t>(rank), 7}};
}

enum class Unlocked : uint8_t { released, handed_over, not_holder, no_guard, damaged };

// Those that were handed the mutex: caller.told.
Unlocked unlock(Mutex& mutex, Holder holder, TestCaller& caller) {
  caller.told.clear();
  switch (release(mutex, holder, caller)) {
    case UnlockAnswer::released:
      return caller.told.empty() ? Unlocked::released : Unlocked::handed_over;
    case UnlockAnswer::not_holder: return Unlocked::not_holder;
    case UnlockAnswer::no_guard: return Unlocked::no_guard;
    case UnlockAnswer::contended:
    case UnlockAnswer::out_of_reach: ADD_FAILURE() << "no answer here"; break;
    case UnlockAnswer::damaged: break;
  }
  return Unlocked::damaged;
}

// Unlocks a mutex whose next batch is one waiter.
Unlocked unlock_to(Host& host, Holder holder, Waiter* next, TestCaller& caller) {
  const Unlocked answer = unlock(host.mutex, holder, caller);
  EXPECT_EQ(caller.told.size(), answer == Unlocked::handed_over ? 1u : 0u);
  if (!caller.told.empty()) *next = caller.told[0];
  return answer;
}

TEST(Mutex, HolderCarriesRankAndThread) {
  const Holder holder = make_holder(0x3fff'fffd, most_holder_thread);
  EXPECT_EQ(rank_of(holder), 0x3fff'fffd);
  EXPECT_EQ(thread_of(holder), 0x7fff'ffffu);
  EXPECT_EQ(holder & (queued_bit | shared_bit | joins_bit), 0u);
  EXPECT_EQ(rank_of(holder | shared_bit | joins_bit), 0x3fff'fffd);
  EXPECT_EQ(thread_of(holder | shared_bit | joins_bit), 0x7fff'ffffu);
  EXPECT_NE(make_holder(0, 0), 0u);
}

// A program that wrote over a mutex ended the data server of its node.
TEST(Mutex, ADamagedQueueIsAnErrorOfTheRequest) {
  enum { first, last, next, none, endless, kinds };
  for (int kind = 0; kind < kinds; ++kind) {
    Host host(8);
    const Holder holder = make_holder(0, 0);
    ASSERT_EQ(request(host.mutex, waiter_of(0), host.sleeping), LockAnswer::granted);
    for (const Rank rank : {1, 2}) {
      Waiter waiter = waiter_of(rank);
      waiter.holder |= shared_bit;
      ASSERT_EQ(request(host.mutex, waiter, host.sleeping), LockAnswer::queued);
    }
    switch (kind) {
      case first: host.mutex.first = 9; break;
      case last: host.mutex.last = 0x0bad'0bad; break;
      case next: host.pool.at(host.mutex.first).next = 0x7fff'ffff; break;
      case none: host.mutex.first = 0; break;
      case endless: host.pool.at(host.mutex.last).next = host.mutex.first; break;
    }
    const uint64_t word = host.mutex.word;
    if (kind == first || kind == last) {
      EXPECT_EQ(request(host.mutex, waiter_of(3), host.sleeping), LockAnswer::damaged);
    }
    EXPECT_EQ(holds(host.mutex, make_holder(7, 0) | shared_bit, host.sleeping),
              LockAnswer::granted);  // it does not wait
    if (kind != last) {
      EXPECT_EQ(unlock(host.mutex, holder, host.sleeping), Unlocked::damaged) << kind;
      EXPECT_EQ(host.mutex.word, word);
    }
    // An invited waiter whose record is gone.
    host.mutex.word = open_word;
    host.mutex.first = 9;
    EXPECT_EQ(try_turn(host.mutex, make_holder(1, 0), host.sleeping), LockAnswer::damaged);
    EXPECT_EQ(rest(host.mutex, waiter_of(1), false, host.sleeping), LockAnswer::damaged);
  }
}

TEST(Mutex, ADamagedListOfFreeRecordsIsAnErrorOfTheRequest) {
  Host host(8);
  host.pool.give_back(host.pool.take());
  const uint32_t free = host.pool.take();
  host.pool.at(free).next = 1'000'000;
  host.pool.give_back(free);
  host.pool.at(free).next = 1'000'000;
  ASSERT_EQ(request(host.mutex, waiter_of(0), host.sleeping), LockAnswer::granted);
  ASSERT_EQ(request(host.mutex, waiter_of(1), host.sleeping), LockAnswer::queued);
  EXPECT_EQ(request(host.mutex, waiter_of(2), host.sleeping), LockAnswer::damaged);
}

TEST(Mutex, GrantsInTheOrderOfRequests) {
  Host host(8);
  Waiter next;
  ASSERT_EQ(request(host.mutex, waiter_of(0), host.sleeping), LockAnswer::granted);
  for (Rank rank = 1; rank <= 3; ++rank) {
    EXPECT_EQ(try_lock(host.mutex, make_holder(rank, 0)), LockAnswer::contended);
    EXPECT_EQ(request(host.mutex, waiter_of(rank), host.sleeping), LockAnswer::queued);
  }
  for (Rank rank = 1; rank <= 3; ++rank) {
    ASSERT_EQ(unlock_to(host, make_holder(rank - 1, 0), &next, host.sleeping),
              Unlocked::handed_over);
    EXPECT_EQ(next.holder, make_holder(rank, 0));
    EXPECT_EQ(next.reply[0], static_cast<uint64_t>(rank));
    EXPECT_EQ(next.reply[1], 7u);
  }
  EXPECT_EQ(unlock_to(host, make_holder(3, 0), &next, host.sleeping), Unlocked::released);
  EXPECT_EQ(host.mutex.word.load(), 0u);
}

TEST(Mutex, NobodyOvertakesTheQueue) {
  Host host(8);
  Waiter next;
  ASSERT_EQ(request(host.mutex, waiter_of(0), host.sleeping), LockAnswer::granted);
  ASSERT_EQ(request(host.mutex, waiter_of(1), host.sleeping), LockAnswer::queued);
  ASSERT_EQ(unlock_to(host, make_holder(0, 0), &next, host.sleeping), Unlocked::handed_over);
  // Expect: handed over, never free, though rank 1 has not woken yet.
  EXPECT_EQ(try_lock(host.mutex, make_holder(0, 0)), LockAnswer::contended);
}

TEST(Mutex, MisuseIsAnError) {
  Host host(8);
  Waiter next;
  EXPECT_EQ(unlock_to(host, make_holder(0, 0), &next, host.sleeping), Unlocked::not_holder);
  ASSERT_EQ(request(host.mutex, waiter_of(0, 1), host.sleeping), LockAnswer::granted);
  EXPECT_EQ(request(host.mutex, waiter_of(0, 1), host.sleeping), LockAnswer::recursive);
  EXPECT_EQ(unlock_to(host, make_holder(0, 2), &next, host.sleeping),
            Unlocked::not_holder);  // another thread's
  ASSERT_EQ(request(host.mutex, waiter_of(1), host.sleeping), LockAnswer::queued);
  // Expect: the same answers with somebody in the queue; and a waiter is no holder.
  EXPECT_EQ(request(host.mutex, waiter_of(0, 1), host.sleeping), LockAnswer::recursive);
  EXPECT_EQ(unlock_to(host, make_holder(1, 0), &next, host.sleeping), Unlocked::not_holder);
}

TEST(Mutex, AnExhaustedPoolChangesNothing) {
  Host host(1);
  Waiter next;
  ASSERT_EQ(request(host.mutex, waiter_of(0), host.sleeping), LockAnswer::granted);
  ASSERT_EQ(request(host.mutex, waiter_of(1), host.sleeping), LockAnswer::queued);
  const uint32_t freed = host.pool.freed().load();
  EXPECT_EQ(request(host.mutex, waiter_of(2), host.sleeping), LockAnswer::no_record);
  ASSERT_EQ(unlock_to(host, make_holder(0, 0), &next, host.sleeping), Unlocked::handed_over);
  EXPECT_NE(host.pool.freed().load(), freed)
      << "who waits for a record must be able to see that one is free";
  EXPECT_EQ(request(host.mutex, waiter_of(2), host.sleeping), LockAnswer::queued);
}

TEST(Mutex, TheImpatientChangeNothingWhenTheGuardIsHeld) {
  Host host(4);
  Waiter next;
  ASSERT_EQ(request(host.mutex, waiter_of(0), host.trying), LockAnswer::granted);
  ASSERT_EQ(request(host.mutex, waiter_of(1), host.trying), LockAnswer::queued);
  ASSERT_TRUE(host.mutex.guard.try_lock(5));
  EXPECT_EQ(request(host.mutex, waiter_of(2), host.trying), LockAnswer::no_guard);
  EXPECT_EQ(unlock_to(host, make_holder(0, 0), &next, host.trying), Unlocked::no_guard);
  (void)host.mutex.guard.release();
  EXPECT_EQ(unlock_to(host, make_holder(0, 0), &next, host.trying), Unlocked::handed_over);
}

TEST(Mutex, RandomRequestsAreServedInOrder) {
  // Against a plain queue, over random streams of requests, unlocks and cancellations.
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    Host host(16);
    std::deque<Rank> model;  // front: the holder
    for (int step = 0; step < 500; ++step) {
      const Rank rank = static_cast<Rank>(random() % 12);
      const auto found = std::find(model.begin(), model.end(), rank);
      switch (random() % 2) {
        case 0: {
          if (found != model.end() && found != model.begin())
            break;  // it waits: its thread cannot ask again
          const LockAnswer answer = request(host.mutex, waiter_of(rank), host.sleeping);
          ASSERT_EQ(answer, found != model.end() ? LockAnswer::recursive
                            : model.empty()      ? LockAnswer::granted
                                                 : LockAnswer::queued);
          if (found == model.end()) model.push_back(rank);
          break;
        }
        case 1: {
          Waiter next;
          const Unlocked answer = unlock_to(host, make_holder(rank, 0), &next, host.sleeping);
          if (model.empty() || model.front() != rank) {
            ASSERT_EQ(answer, Unlocked::not_holder);
            break;
          }
          model.pop_front();
          ASSERT_EQ(answer, model.empty() ? Unlocked::released : Unlocked::handed_over);
          if (!model.empty()) {
            ASSERT_EQ(next.holder, make_holder(model.front(), 0));
          }
          break;
        }
      }
    }
  }
}

TEST(Mutex, ThreadsExcludeEachOtherAndAllAreServed) {
  // Grants travel through a word per thread, as they do through completion slots.
  constexpr uint32_t thread_count = 6;
  constexpr int rounds = 3000;
  Host host(4);  // too few: some wait for a record now and then
  std::atomic<uint32_t> granted[thread_count] = {};
  uint64_t counter = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      TestCaller caller(host.pool, t, true);
      const Waiter me{make_holder(static_cast<Rank>(t), 0), {t, 0}};
      for (int i = 0; i < rounds; ++i) {
        for (;;) {
          host.pool.starving().fetch_add(1);
          const uint32_t freed = host.pool.freed().load();
          const LockAnswer answer = request(host.mutex, me, caller);
          if (answer == LockAnswer::no_record) futex_wait(&host.pool.freed(), freed, wait_slice_ns);
          host.pool.starving().fetch_sub(1);
          if (answer == LockAnswer::granted) break;
          if (answer == LockAnswer::no_record) continue;
          ASSERT_EQ(answer, LockAnswer::queued);
          (void)wait_until(&granted[t], [](uint32_t v) { return v == 1; }, no_deadline, nullptr);
          granted[t].store(0, std::memory_order_relaxed);
          break;
        }
        ++counter;
        Waiter next;
        const Unlocked answer = unlock_to(host, me.holder, &next, caller);
        if (answer == Unlocked::handed_over) {
          std::atomic<uint32_t>& word = granted[next.reply[0]];
          word.store(1, std::memory_order_release);
          futex_wake(&word, 1);
          if (host.pool.starving().load() != 0) futex_wake(&host.pool.freed(), 1 << 30);
        } else {
          ASSERT_EQ(answer, Unlocked::released);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, uint64_t{thread_count} * rounds);
  EXPECT_EQ(host.mutex.word.load(), 0u);
}

Waiter sharer_of(Rank rank) {
  Waiter waiter = waiter_of(rank);
  waiter.holder |= shared_bit;
  return waiter;
}

TEST(Mutex, SharersHoldItTogetherAndKeepOthersOut) {
  Host host(8);
  Waiter next;
  for (Rank rank = 0; rank < 3; ++rank)
    EXPECT_EQ(request(host.mutex, sharer_of(rank), host.sleeping), LockAnswer::granted);
  EXPECT_EQ(try_lock(host.mutex, make_holder(5, 0)), LockAnswer::contended);
  EXPECT_EQ(unlock_to(host, make_holder(5, 0), &next, host.sleeping), Unlocked::not_holder);
  for (Rank rank = 0; rank < 3; ++rank)
    EXPECT_EQ(unlock_to(host, sharer_of(rank).holder, &next, host.sleeping), Unlocked::released);
  EXPECT_EQ(host.mutex.word.load(), 0u);
  EXPECT_EQ(unlock_to(host, sharer_of(1).holder, &next, host.sleeping), Unlocked::not_holder);
}

TEST(Mutex, ASharerOvertakesNobody) {
  Host host(8);
  Waiter next;
  ASSERT_EQ(request(host.mutex, sharer_of(0), host.sleeping), LockAnswer::granted);
  ASSERT_EQ(request(host.mutex, waiter_of(1), host.sleeping), LockAnswer::queued);
  EXPECT_EQ(request(host.mutex, sharer_of(2), host.sleeping), LockAnswer::queued);
  EXPECT_EQ(unlock_to(host, sharer_of(0).holder, &next, host.sleeping), Unlocked::handed_over);
  EXPECT_EQ(rank_of(next.holder), 1);
  EXPECT_EQ(unlock_to(host, make_holder(1, 0), &next, host.sleeping), Unlocked::handed_over);
  EXPECT_EQ(rank_of(next.holder), 2);
  // Expect: nobody is queued now, so another sharer joins.
  EXPECT_EQ(request(host.mutex, sharer_of(3), host.sleeping), LockAnswer::granted);
}

// Two requesters that share two locks each in opposite order, with a waiter for exclusive use at
// both: they waited for each other for ever.
TEST(Mutex, ASharerThatHoldsOthersJoinsPresentSharers) {
  Host host(8);
  Waiter next, joiner = sharer_of(2);
  joiner.holder |= joins_bit;
  ASSERT_EQ(request(host.mutex, sharer_of(0), host.sleeping), LockAnswer::granted);
  ASSERT_EQ(request(host.mutex, waiter_of(1), host.sleeping), LockAnswer::queued);
  EXPECT_EQ(request(host.mutex, joiner, host.trying), LockAnswer::granted);
  // Expect: the one that waits gets it from the last of them, whichever that is.
  EXPECT_EQ(unlock_to(host, sharer_of(0).holder, &next, host.sleeping), Unlocked::released);
  EXPECT_EQ(unlock_to(host, joiner.holder, &next, host.sleeping), Unlocked::handed_over);
  EXPECT_EQ(next.holder, make_holder(1, 0));
  // Expect: beside an exclusive holder it queues up like others.
  ASSERT_EQ(request(host.mutex, waiter_of(3), host.sleeping), LockAnswer::queued);
  EXPECT_EQ(request(host.mutex, joiner, host.sleeping), LockAnswer::queued);
  EXPECT_EQ(unlock_to(host, make_holder(1, 0), &next, host.sleeping), Unlocked::handed_over);
  EXPECT_EQ(next.holder, make_holder(3, 0));
  EXPECT_EQ(unlock_to(host, make_holder(3, 0), &next, host.sleeping), Unlocked::handed_over);
  EXPECT_EQ(next.holder, joiner.holder);
  EXPECT_EQ(unlock_to(host, joiner.holder, &next, host.sleeping), Unlocked::released);
  EXPECT_EQ(host.mutex.word.load(), 0u);
}

TEST(Mutex, AHandOverTakesAllSharersAtTheHead) {
  Host host(8);
  ASSERT_EQ(request(host.mutex, waiter_of(0), host.sleeping), LockAnswer::granted);
  for (const Waiter& waiter : {sharer_of(1), sharer_of(2), waiter_of(3), sharer_of(4)})
    ASSERT_EQ(request(host.mutex, waiter, host.sleeping), LockAnswer::queued);
  ASSERT_EQ(unlock(host.mutex, make_holder(0, 0), host.sleeping), Unlocked::handed_over);
  Waiter next;
  std::vector<Rank> told;
  for (const Waiter& one : host.sleeping.told) told.push_back(rank_of(one.holder));
  EXPECT_EQ(told, (std::vector<Rank>{1, 2}));
  // Expect: the first of them to go counts itself out, and the last one hands over to rank 3.
  EXPECT_EQ(unlock_to(host, sharer_of(2).holder, &next, host.sleeping), Unlocked::released);
  EXPECT_EQ(unlock_to(host, sharer_of(1).holder, &next, host.sleeping), Unlocked::handed_over);
  EXPECT_EQ(next.holder, make_holder(3, 0));
}

// Random requests, unlocks and cancellations of both kinds against a plain queue.
TEST(Mutex, BothKindsAgreeWithAPlainQueue) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    Host host(16);
    std::vector<Holder> holders;
    std::deque<Holder> queue;
    const auto admit = [&] {
      while (!queue.empty() &&
             (holders.empty() || (shares(queue.front()) && shares(holders.front())))) {
        holders.push_back(queue.front());
        queue.pop_front();
      }
    };
    for (int step = 0; step < 600; ++step) {
      const Rank rank = static_cast<Rank>(random() % 12);
      const auto mine = [&](Holder h) { return rank_of(h) == rank; };
      const auto held = std::find_if(holders.begin(), holders.end(), mine);
      const auto queued = std::find_if(queue.begin(), queue.end(), mine);
      if (held != holders.end()) {
        const Holder holder = *held;
        const Unlocked answer = unlock(host.mutex, holder, host.sleeping);
        holders.erase(held);
        std::vector<Holder> told, expected;
        for (const Waiter& next : host.sleeping.told) told.push_back(next.holder);
        const size_t before = holders.size();
        if (before == 0) admit();
        expected.assign(holders.begin() + static_cast<std::ptrdiff_t>(before), holders.end());
        ASSERT_EQ(told, expected) << "seed " << seed << " step " << step;
        ASSERT_EQ(answer, told.empty() ? Unlocked::released : Unlocked::handed_over);
      } else if (queued != queue.end()) {
        continue;  // it waits: its thread cannot ask again
      } else {
        const Waiter waiter = random() % 2 == 0 ? waiter_of(rank) : sharer_of(rank);
        queue.push_back(waiter.holder);
        const bool first = queue.size() == 1;
        if (first) admit();
        ASSERT_EQ(request(host.mutex, waiter, host.sleeping),
                  queue.empty() ? LockAnswer::granted : LockAnswer::queued);
      }
    }
  }
}

TEST(Mutex, ThreadsThatShareAndThreadsThatDoNotAreAllServed) {
  constexpr uint32_t thread_count = 6;
  constexpr int rounds = 2000;
  Host host(16);
  std::atomic<uint32_t> granted[thread_count] = {};
  std::atomic<int> inside_shared{0}, inside_alone{0};
  uint64_t counter = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      TestCaller caller(host.pool, t, true);
      std::mt19937 random(t);
      for (int i = 0; i < rounds; ++i) {
        const bool alone = random() % 3 == 0;
        const Waiter me{make_holder(static_cast<Rank>(t), 0) | (alone ? 0 : shared_bit), {t, 0}};
        const LockAnswer asked = request(host.mutex, me, caller);
        if (asked == LockAnswer::queued) {
          (void)wait_until(&granted[t], [](uint32_t v) { return v == 1; }, no_deadline, nullptr);
          granted[t].store(0, std::memory_order_relaxed);
        } else {
          ASSERT_EQ(asked, LockAnswer::granted);
        }
        if (alone) {
          EXPECT_EQ(inside_alone.fetch_add(1), 0);
          EXPECT_EQ(inside_shared.load(), 0);
          ++counter;
          inside_alone.fetch_sub(1);
        } else {
          inside_shared.fetch_add(1);
          EXPECT_EQ(inside_alone.load(), 0);
          inside_shared.fetch_sub(1);
        }
        (void)unlock(host.mutex, me.holder, caller);
        for (const Waiter& next : caller.told) {
          std::atomic<uint32_t>& word = granted[next.reply[0]];
          word.store(1, std::memory_order_release);
          futex_wake(&word, 1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(counter, 0u);
  EXPECT_EQ(host.mutex.word.load(), 0u);
}

}  // namespace
}  // namespace skerry::lock
