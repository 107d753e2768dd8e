#include "core/futex.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

namespace skerry {
namespace {

TEST(WaitUntil, ReturnsAtOnceWhenTheWordAlreadySatisfies) {
  std::atomic<uint32_t> word{7};
  std::atomic<uint32_t> abort{1};
  // Expect: reached, even with an abort and a deadline that has passed.
  EXPECT_EQ(wait_until(&word, [](uint32_t v) { return v == 7; }, 0, &abort), WaitResult::reached);
}

TEST(WaitUntil, ReportsTheDeadline) {
  std::atomic<uint32_t> word{0};
  const int64_t deadline_ns = deadline_after(2'000'000);
  EXPECT_EQ(wait_until(
                &word, [](uint32_t v) { return v != 0; }, deadline_ns, nullptr),
            WaitResult::timeout);
  EXPECT_GE(monotonic_ns(), deadline_ns);
}

TEST(WaitUntil, ReportsTheAbortFlagWithoutAWake) {
  std::atomic<uint32_t> word{0};
  std::atomic<uint32_t> abort{0};
  std::thread ender(
      [&] { abort.store(1, std::memory_order_release); });  // no wake: found by the slice
  EXPECT_EQ(wait_until(
                &word, [](uint32_t v) { return v != 0; }, no_deadline, &abort),
            WaitResult::aborted);
  ender.join();
}

TEST(WaitUntil, PassesDataFromWakerToWaiter) {
  std::atomic<uint32_t> word{0};
  for (uint32_t round = 1; round <= 300; ++round) {
    uint32_t data = 0;
    std::thread waker([&] {
      data = round;
      word.store(round, std::memory_order_release);
      futex_wake(&word, 1);
    });
    ASSERT_EQ(wait_until(
                  &word, [round](uint32_t v) { return v == round; }, no_deadline, nullptr),
              WaitResult::reached);
    ASSERT_EQ(data, round);
    waker.join();
  }
}

char state_of(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos ? '\0' : text.at(name_end + 2);
}

// A wake-up that never comes: the sleeper looks after its slice, and says that it had to.
TEST(WaitUntil, CountsWhatItsLookFoundAndNoWakeUpTold) {
  std::atomic<uint32_t> word{0};
  for (const bool wakes : {true, false}) {
    const uint64_t before = waits_found_late();
    word = 0;
    std::atomic<pid_t> sleeper_id{0};
    std::thread sleeper([&] {
      sleeper_id = gettid();
      EXPECT_EQ(wait_until(
                    &word, [](uint32_t v) { return v != 0; }, no_deadline, nullptr),
                WaitResult::reached);
    });
    while (sleeper_id == 0 || state_of(sleeper_id) != 'S') std::this_thread::yield();
    word.store(1, std::memory_order_release);
    if (wakes) futex_wake(&word, 1);
    sleeper.join();
    EXPECT_EQ(waits_found_late() - before, wakes ? 0u : 1u);
  }
}

TEST(DeadlineAfter, NegativeIsNone) {
  EXPECT_EQ(deadline_after(-1), no_deadline);
  EXPECT_EQ(deadline_after(INT64_MAX), INT64_MAX);
}

// The computing thread has the core for a time slice after each yield. What a waiter waits for
// comes in that time, as a server's request does.
TEST(IdleCoreSpin, RestsBesideAComputingThreadAlsoIfSomethingIsReadyAfterAYield) {
  std::atomic<bool> computes{false}, ends{false};
  std::atomic<bool> has_rested{false};
  std::thread both([&] {
    const int cpu = sched_getcpu();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    std::thread computing([&] {  // on the same core: it inherits that
      computes.store(true);
      while (!ends.load(std::memory_order_relaxed)) spin_pause();
    });
    while (!computes.load()) sched_yield();
    IdleCoreSpin spin;
    for (int turn = 0; turn < 500 && !has_rested; ++turn) {
      int looks = 0;
      // Expect: one of the calls makes a single look, and yields no more.
      if (!spin.give_way([&] { return ++looks == 2; }, 100'000)) has_rested = looks == 1;
    }
    ends.store(true);
    computing.join();
  });
  both.join();
  EXPECT_TRUE(has_rested);
}

}  // namespace
}  // namespace skerry
