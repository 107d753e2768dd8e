// Memory that a program gave: its description, and reaching it from another process.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>
#include <random>

#include "core/futex.hpp"
#include "memory/given.hpp"

namespace skerry::memory {
namespace {

// In memory that a forked child shares.
struct Shared {
  Given given;
  std::atomic<uint32_t> turn;
};

class GivenTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const mapped = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    shared_ = new (mapped) Shared{};
  }
  void TearDown() override { munmap(shared_, sizeof(Shared)); }
  void await(uint32_t turn) {
    (void)wait_until(
        &shared_->turn, [turn](uint32_t now) { return now >= turn; }, no_deadline, nullptr);
  }
  void next_turn() {
    shared_->turn.fetch_add(1);
    futex_wake(&shared_->turn, INT32_MAX);
  }

  Shared* shared_ = nullptr;
};

TEST_F(GivenTest, OneAreaIsFoundByOffset) {
  char memory[100];
  uint64_t address = 0;
  EXPECT_FALSE(shared_->given.find(0, 1, &address)) << "nothing is given yet";
  shared_->given.give_one(memory, sizeof memory);
  EXPECT_TRUE(shared_->given.find(10, 90, &address));
  EXPECT_EQ(address, reinterpret_cast<uint64_t>(memory + 10));
  EXPECT_TRUE(shared_->given.find(100, 0, &address));
  EXPECT_FALSE(shared_->given.find(10, 91, &address));
  EXPECT_FALSE(shared_->given.find(101, 0, &address));
  EXPECT_FALSE(shared_->given.find(1, UINT64_MAX, &address));
}

// Random attaches and detaches against a plain map.
TEST_F(GivenTest, ManyAreasAgreeWithAMap) {
  Given& given = shared_->given;
  given.give_many();
  std::map<uint64_t, uint64_t> model;
  std::mt19937_64 random(1);
  const auto inside = [&](uint64_t at, uint64_t bytes) {
    auto after = model.upper_bound(at);
    if (after == model.begin()) return false;
    --after;
    uint64_t end = after->first + after->second;
    while (at + bytes > end && ++after != model.end() && after->first == end) end += after->second;
    return at + bytes <= end;
  };
  for (int step = 0; step < 5000; ++step) {
    const uint64_t at = 0x10000 + random() % 4000, bytes = 1 + random() % 60;
    const bool overlaps = [&] {
      for (const auto& [begin, size] : model)
        if (begin < at + bytes && at < begin + size) return true;
      return false;
    }();
    if (random() % 2 == 0) {
      EXPECT_EQ(given.add(reinterpret_cast<void*>(at), bytes).ok(), !overlaps);
      if (!overlaps) model[at] = bytes;
    } else {
      EXPECT_EQ(given.remove(reinterpret_cast<void*>(at)).ok(), model.erase(at) == 1);
    }
    const uint64_t look = 0x10000 + random() % 4000, length = 1 + random() % 30;
    uint64_t address = 0;
    EXPECT_EQ(given.find(look, length, &address), inside(look, length)) << "step " << step;
  }
  EXPECT_EQ(given.add(nullptr, 8).code(), Code::invalid);
  EXPECT_EQ(given.add(reinterpret_cast<void*>(uint64_t{8}), UINT64_MAX).code(), Code::invalid);
}

TEST_F(GivenTest, AnotherProcessReadsAndWrites) {
  if (Status allowed = allow_given(); !allowed.ok()) GTEST_SKIP() << allowed.message();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    static uint64_t words[4] = {1, 2, 3, 4};
    (void)allow_given();
    shared_->given.give_one(words, sizeof words);
    next_turn();
    await(2);
    _exit(words[0] == 1 && words[1] == 77 && words[3] == 4 ? 0 : 1);
  }
  await(1);
  uint64_t seen[2] = {};
  const Status read = shared_->given.read(seen, 8, 16);
  const uint64_t word = 77;
  const Status written = shared_->given.write(8, &word, 8);
  const Status beyond = shared_->given.write(32, &word, 8);
  next_turn();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (read.code() == Code::unsupported) GTEST_SKIP() << read.message();
  EXPECT_TRUE(read.ok()) << read.message();
  EXPECT_TRUE(written.ok()) << written.message();
  EXPECT_EQ(beyond.code(), Code::range);
  EXPECT_EQ(seen[0], 2u);
  EXPECT_EQ(seen[1], 3u);
  EXPECT_EQ(status, 0) << "the owner did not see what was written";
  // Expect: the owner has ended, and the error says so.
  EXPECT_EQ(shared_->given.read(seen, 0, 8).code(), Code::peer_dead);
}

// A reader once waited for ever for an owner that was stopped, or died, in the middle of a change.
TEST_F(GivenTest, NobodyWaitsForAnOwnerThatStopsOrDies) {
  Given& given = shared_->given;
  constexpr uint64_t first = 0x10000, second = 0x20000;
  given.give_many();
  ASSERT_TRUE(given.add(reinterpret_cast<void*>(first), 64).ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    next_turn();
    for (;;) {  // its parent ends it
      (void)given.add(reinterpret_cast<void*>(second), 64);
      (void)given.remove(reinterpret_cast<void*>(second));
    }
  }
  await(1);
  int status = 0;
  for (int i = 0; i < 200; ++i) {
    const bool dies = i == 199;
    ASSERT_EQ(kill(child, dies ? SIGKILL : SIGSTOP), 0);
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    uint64_t address = 0;
    EXPECT_TRUE(given.find(first + 8, 56, &address));
    EXPECT_EQ(address, first + 8);
    EXPECT_FALSE(given.find(first + 8, 57, &address));
    (void)given.find(second, 64, &address);
    if (!dies) {
      ASSERT_EQ(kill(child, SIGCONT), 0);
    }
  }
  EXPECT_TRUE(WIFSIGNALED(status));
}

}  // namespace
}  // namespace skerry::memory
