// window.hpp over several ranks and nodes: epochs as guards, typed access, ownership and errors.
// Every rank runs every test; EXPECT, not ASSERT, where others would be left waiting.
#include <gtest/gtest.h>

#include <array>
#include <complex>
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

TEST(Update, HasEveryTypeAndOperation) {
  const sk::Window w = sk::Window::allocate(world(), 64, 8);
  const auto add_all = [&]<class T>(std::uint64_t at, T one) {
    const sk::Lock locked = w.lock_all();
    for (int i = 0; i < 10; ++i) w.update(0, at, one, sk::Operation::sum);
  };
  add_all(0, std::int8_t{1});
  add_all(1, std::uint16_t{1});
  add_all(2, 1u);
  add_all(3, 1ull);
  add_all(4, std::complex<float>{1, -1});
  add_all(6, 1.0L);  // 16 bytes
  world().barrier();
  if (job->rank() == 0) {
    const sk::Lock locked = w.lock(0, LockMode::exclusive);
    const int n = 10 * job->size();
    EXPECT_EQ(w.get<std::int8_t>(0, 0), n);
    EXPECT_EQ(w.get<std::uint16_t>(0, 1), n);
    EXPECT_EQ(w.get<unsigned>(0, 2), static_cast<unsigned>(n));
    EXPECT_EQ(w.get<unsigned long long>(0, 3), static_cast<unsigned long long>(n));
    EXPECT_EQ(w.get<std::complex<float>>(0, 4),
              std::complex<float>(static_cast<float>(n), static_cast<float>(-n)));
    EXPECT_EQ(w.get<long double>(0, 6), n);
    using enum sk::Operation;
    EXPECT_EQ(w.fetch_update(0, 5, 12, replace), 0);
    EXPECT_EQ(w.fetch_update(0, 5, 3, prod), 12);
    EXPECT_EQ(w.fetch_update(0, 5, 7, min), 36);
    EXPECT_EQ(w.fetch_update(0, 5, 9, max), 7);
    EXPECT_EQ(w.fetch_update(0, 5, 0, logical_or), 9);
    EXPECT_EQ(w.fetch_update(0, 5, 6, bit_xor), 1);
    EXPECT_EQ(w.fetch_update(0, 5, 0, no_op), 7);
    EXPECT_EQ(w.compare_swap(0, 5, 8, 1), 7);
    EXPECT_EQ(w.compare_swap(0, 5, 7, 1), 7);
    EXPECT_EQ(w.get<int>(0, 5), 1);
    expect_error(SKERRY_ERR_INVALID, "", [&] { (void)w.fetch_update(0, 5, 1.0f, bit_and); });
  }
  world().barrier();
}

TEST(Update, HandsOutNumbersOnceEach) {
  const sk::Window w = sk::Window::allocate<std::int64_t>(world(), 4);
  std::vector<std::int64_t> drawn;
  {
    const sk::Lock locked = w.lock_all();
    for (int i = 0; i < 25; ++i)
      drawn.push_back(w.fetch_update<std::int64_t>(0, 1, 1, sk::Operation::sum));
    const std::array<std::int64_t, 2> values = {1, 2};
    std::array<std::int64_t, 2> old = {-1, -1};
    w.fetch_update<std::int64_t>(job->rank(), 2, values, old, sk::Operation::replace);
    EXPECT_EQ(old[1], 0);
    w.update_nb<std::int64_t>(job->rank(), 2, values, sk::Operation::sum).wait();
    w.flush(job->rank());
    w.fetch_update<std::int64_t>(job->rank(), 2, {}, old, sk::Operation::no_op);
    EXPECT_EQ(old[1], 4);
    expect_error(SKERRY_ERR_INVALID, "one place for each", [&] {
      w.fetch_update<std::int64_t>(0, 2, std::span(values).first(1), old, sk::Operation::sum);
    });
  }
  std::int64_t sum = 0;
  for (std::int64_t number : drawn) sum += number;
  const std::int64_t n = 25 * job->size();
  EXPECT_EQ(world().allreduce(sum), n * (n - 1) / 2);
}

TEST(Create, ReachesMemoryOfTheProgram) {
  std::vector<double> memory(100, job->rank());
  const sk::Window w = sk::Window::create<double>(world(), memory);
  EXPECT_EQ(w.local<double>(), memory.data());
  EXPECT_EQ(w.pointer(right()), nullptr);
  world().barrier();
  {
    const sk::Lock locked = w.lock(right(), LockMode::exclusive);
    EXPECT_EQ(w.get<double>(right(), 99), right());
    const double value = 0.5;
    w.put(right(), 99, value);
    w.update(right(), 98, value, sk::Operation::sum);
  }
  world().barrier();
  EXPECT_EQ(memory[99], 0.5);
  EXPECT_EQ(memory[98], job->rank() + 0.5);
}

TEST(CreateDynamic, ReachesWhatIsAttached) {
  const sk::Window w = sk::Window::create_dynamic(world());
  std::array<int, 50> memory{};
  memory[7] = job->rank();
  w.attach<int>(memory);
  expect_error(SKERRY_ERR_INVALID, "", [&] { w.attach<int>(std::span(memory).first(1)); });
  const auto addresses = world().allgather(sk::Window::address_of(memory.data()));
  const auto there = addresses[static_cast<std::size_t>(right())];
  {
    const sk::Lock locked = w.lock(right(), LockMode::shared);
    EXPECT_EQ(w.get<int>(right(), there + 7 * sizeof(int)), right());
    expect_error(SKERRY_ERR_RANGE, "", [&] {
      (void)w.get<int>(right(), there + sizeof memory);
      w.flush(right());
    });
  }
  world().barrier();
  w.detach(memory.data());
  expect_error(SKERRY_ERR_INVALID, "", [&] { w.detach(memory.data()); });
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
