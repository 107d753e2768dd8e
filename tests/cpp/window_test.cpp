// window.hpp over several ranks and nodes: epochs as guards, typed access, ownership and errors.
// Every rank runs every test; EXPECT, not ASSERT, where others would be left waiting.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "skerry/window.hpp"

namespace {

sk::Job* job;
sk::Group world() { return job->world(); }
int right() { return (job->rank() + 1) % job->size(); }
int left() { return (job->rank() + job->size() - 1) % job->size(); }

using sk::LockMode;

// A put of a temporary does not compile: it would be gone before the put is done.
template <class T>
concept puts = requires(const sk::Window& w, T&& value) { w.put(0, 0, std::forward<T>(value)); };
static_assert(puts<int&> && puts<const double&> && puts<std::span<const int>>);
static_assert(!puts<int>);

template <class Action>
void expect_error(int code, const std::string& part, const Action& action) {
  try {
    action();
    ADD_FAILURE() << "no error; wanted " << skerry_status_name(code);
  } catch (const sk::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Window, KnowsItsMemory) {
  const auto count = static_cast<std::uint64_t>(10 + job->rank());
  const sk::Window w = sk::Window::allocate<double>(world(), count);
  EXPECT_EQ(w.bytes(right()), 8 * static_cast<std::uint64_t>(10 + right()));
  EXPECT_EQ(w.unit(right()), 8u);
  for (std::uint64_t i = 0; i < count; ++i) EXPECT_EQ(w.local<double>()[i], 0.0);
  EXPECT_EQ(w.pointer(right()) != nullptr, job->same_node(right()));
  const sk::Window none = sk::Window::allocate(world(), 0, 1);
  EXPECT_EQ(none.local(), nullptr);
  world().barrier();
}

TEST(Lock, AddsUpUnderExclusiveLocks) {
  const sk::Window w = sk::Window::allocate<std::int64_t>(world(), 4);
  for (int i = 0; i < 20; ++i) {
    const sk::Lock locked = w.lock(0, LockMode::exclusive);
    EXPECT_TRUE(locked.owns_lock());
    EXPECT_EQ(locked.rank(), 0);
    const auto sum = w.get<std::int64_t>(0, 2) + 1;
    w.put(0, 2, sum);
  }
  world().barrier();
  const sk::Lock locked = w.lock(0, LockMode::shared);
  EXPECT_EQ(w.get<std::int64_t>(0, 2), 20 * job->size());
}

TEST(Lock, UnlocksWhileAnExceptionUnwinds) {
  const sk::Window w = sk::Window::allocate<int>(world(), 1);
  for (int turn = 0; turn < 3; ++turn) {
    // The next rank gets the lock only if the last one's guard gave it back.
    expect_error(SKERRY_ERR_RANGE, "outside", [&] {
      const sk::Lock locked = w.lock(0, LockMode::exclusive);
      (void)w.get<int>(0, 1);
    });
  }
  world().barrier();
}

TEST(Lock, UnlocksOnce) {
  const sk::Window w = sk::Window::allocate<int>(world(), 1);
  sk::Lock first = w.lock(right(), LockMode::shared);
  sk::Lock second = std::move(first);
  EXPECT_FALSE(first.owns_lock());
  EXPECT_TRUE(second.owns_lock());
  second.unlock();
  second.unlock();
  EXPECT_FALSE(second.owns_lock());
  expect_error(SKERRY_ERR_INVALID, "outside an epoch", [&] { (void)w.get<int>(right(), 0); });
  world().barrier();
}

TEST(LockAll, ReachesEveryMember) {
  const sk::Window w = sk::Window::allocate<int>(world(), static_cast<unsigned>(job->size()));
  const int mine = 100 + job->rank();
  {
    sk::Lock locked = w.lock_all();
    for (int rank = 0; rank < job->size(); ++rank)
      w.put(rank, static_cast<unsigned>(job->rank()), mine);
    w.flush_local();
    w.flush(right());
    EXPECT_EQ(w.get<int>(right(), static_cast<unsigned>(job->rank())), mine);
    w.flush();
    locked.unlock();
  }
  world().barrier();
  w.sync();
  for (int rank = 0; rank < job->size(); ++rank) EXPECT_EQ(w.local<int>()[rank], 100 + rank);
  world().barrier();
}

TEST(Fence, MakesSpansVisible) {
  const sk::Window w = sk::Window::allocate<double>(world(), 3);
  const std::array<double, 2> values = {1.5, 100.0 + job->rank()};
  w.fence(sk::Promise::no_precede);
  w.put<double>(right(), 1, values);
  w.fence(sk::Promise::no_store | sk::Promise::no_succeed);
  EXPECT_EQ(w.local<double>()[1], 1.5);
  EXPECT_EQ(w.local<double>()[2], 100.0 + left());
  world().barrier();
}

TEST(PostStart, PassesValuesRound) {
  const sk::Window w = sk::Window::allocate<int>(world(), 1);
  const std::array<int, 1> before = {left()}, after = {right()};
  for (int round = 0; round < 4; ++round) {
    w.post(before);
    w.start(after);
    const int value = 10 * round + job->rank();
    w.put(right(), 0, value);
    w.complete();
    if (round % 2 == 0) w.wait();
    else
      while (!w.test()) {
      }
    EXPECT_EQ(*w.local<int>(), 10 * round + left());
  }
  world().barrier();
}

TEST(Handles, AreDoneWhenWaitedFor) {
  const sk::Window w = sk::Window::allocate<int>(world(), 1000);
  std::vector<int> sent(1000, job->rank()), got(1000);
  const sk::Lock locked = w.lock(right(), LockMode::exclusive);
  w.put_nb<int>(right(), 0, sent).wait();
  w.get_nb<int>(right(), 0, got).wait();
  EXPECT_EQ(got, sent);
}

TEST(Owner, RefusesToFreeInsideAnEpochAndStaysUsable) {
  sk::Window w = sk::Window::allocate<int>(world(), 1);
  {
    const sk::Lock locked = w.lock(right(), LockMode::shared);
    expect_error(SKERRY_ERR_INVALID, "inside a lock epoch", [&] { w.free(); });
    EXPECT_EQ(w.get<int>(right(), 0), 0);
  }
  w.free();
  EXPECT_FALSE(w);
  expect_error(SKERRY_ERR_FREED, "was freed", [&] { w.fence(); });
}

TEST(Errors, NameTheMistake) {
  const sk::Window w = sk::Window::allocate<int>(world(), 1);
  expect_error(SKERRY_ERR_INVALID, "does not exist",
               [&] { (void)w.lock(job->size(), LockMode::shared); });
  expect_error(SKERRY_ERR_INVALID, "without post", [&] { w.wait(); });
  const sk::Lock locked = w.lock(0, LockMode::shared);
  expect_error(SKERRY_ERR_INVALID, "unlock it first", [&] { (void)w.lock(0, LockMode::shared); });
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  sk::Job joined;
  job = &joined;
  const int failed = RUN_ALL_TESTS();
  return joined.world().allreduce(failed, sk::Reduction::max);
}
