#include "memory/mapping.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "memory/node_memory.hpp"

namespace skerry::memory {
namespace {

constexpr uint64_t mapped_bytes = uint64_t{4} << 20;

TEST(MappingTest, WhatIsHeldStaysUntilTheLastHoldGoes) {
  int fd = -1;
  std::byte* base = nullptr;
  ASSERT_TRUE(create_memfd(mapped_bytes, &fd).ok());
  ASSERT_TRUE(map_memfd(fd, mapped_bytes, 0, &base).ok());
  EXPECT_TRUE(hold(base + 100));
  EXPECT_TRUE(hold(base + 100));
  unmap(base, mapped_bytes);
  base[100] = std::byte{1};
  unhold(base + 100);
  EXPECT_TRUE(is_held(base));
  EXPECT_EQ(base[100], std::byte{1});
  unhold(base + 100);
  EXPECT_FALSE(is_held(base));
  EXPECT_FALSE(hold(base));
  close(fd);
}

// A thread of the parent is in the table at many a fork. The child has not that thread.
TEST(MappingTest, AForkedChildGivesUpItsViews) {
  int fd = -1;
  std::byte* base = nullptr;
  ASSERT_TRUE(create_memfd(mapped_bytes, &fd).ok());
  ASSERT_TRUE(map_memfd(fd, mapped_bytes, 0, &base).ok());
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      hold(base);
      unhold(base);
    }
  });
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      hold(base);
      unhold(base);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "the child of fork " << i << " waits for a thread that it has not";
  }
  done = true;
  other.join();
  unmap(base, mapped_bytes);
  close(fd);
}

}  // namespace
}  // namespace skerry::memory
