// Private pages that become shared ones at the same address, and private again.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "memory/moved.hpp"

namespace skerry::memory {
namespace {

constexpr uint64_t page = 4096;

std::byte* map(uint64_t bytes, int flags) {
  void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  return made == MAP_FAILED ? nullptr : static_cast<std::byte*>(made);
}

TEST(MovedTest, OnlyWholePagesMove) {
  std::byte* const memory = map(8 * page, MAP_PRIVATE);
  const Pages pages = movable_pages(memory + 100, 5 * page);
  EXPECT_EQ(pages.begin, memory + page);
  EXPECT_EQ(pages.bytes, 4 * page);
  EXPECT_EQ(movable_pages(memory, 8 * page).bytes, 8 * page);
  EXPECT_EQ(movable_pages(memory + 1, 2 * page - 2).bytes, 0u);
  EXPECT_EQ(movable_pages(memory, 0).bytes, 0u);
  EXPECT_EQ(movable_pages(nullptr, page).bytes, 0u);
  munmap(memory, 8 * page);
}

TEST(MovedTest, WhatIsNotPlainPrivateMemoryStays) {
  std::byte* const shared = map(4 * page, MAP_SHARED);
  EXPECT_EQ(movable_pages(shared, 4 * page).bytes, 0u);
  std::byte* const memory = map(4 * page, MAP_PRIVATE);
  mprotect(memory + page, page, PROT_READ);
  EXPECT_EQ(movable_pages(memory, 4 * page).bytes, 0u);
  mprotect(memory + page, page, PROT_READ | PROT_WRITE);
  EXPECT_EQ(movable_pages(memory, 4 * page).bytes, 4 * page);
  madvise(memory + 2 * page, page, MADV_DONTFORK);  // as memory that a device reads and writes
  EXPECT_EQ(movable_pages(memory, 4 * page).bytes, 0u);
  EXPECT_EQ(movable_pages(memory, 2 * page).bytes, 2 * page);
  munmap(memory + page, page);
  EXPECT_EQ(movable_pages(memory, 2 * page).bytes, 0u) << "a hole";
  char stack[4 * page];
  EXPECT_EQ(movable_pages(stack, sizeof stack).bytes, 0u);
  static const char constant[4 * page] = {};
  EXPECT_EQ(movable_pages(const_cast<char*>(constant), sizeof constant).bytes, 0u);
  munmap(shared, 4 * page);
  munmap(memory, 4 * page);
}

TEST(MovedTest, OthersSeeStoresAtOnce) {
  std::vector<uint64_t> words(8 * page / 8);
  for (size_t i = 0; i < words.size(); ++i) words[i] = i;
  const Pages pages = movable_pages(words.data(), words.size() * 8);
  ASSERT_GE(pages.bytes, 6 * page);
  std::byte* const shared = map(8 * page, MAP_SHARED);
  Moved moved;
  ASSERT_TRUE(moved.move_in(pages, shared));
  EXPECT_TRUE(moved.is_moved());
  for (size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], i);
  auto* const here = reinterpret_cast<uint64_t*>(pages.begin);
  auto* const there = reinterpret_cast<uint64_t*>(shared);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    there[5] = 555;
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(here[5], 555u);
  here[6] = 666;
  EXPECT_EQ(there[6], 666u);
  ASSERT_TRUE(moved.move_out().ok());
  EXPECT_FALSE(moved.is_moved());
  EXPECT_EQ(here[5], 555u);
  EXPECT_EQ(here[6], 666u);
  there[6] = 1;
  EXPECT_EQ(here[6], 666u) << "private again";
  EXPECT_EQ(movable_pages(words.data(), words.size() * 8).bytes, pages.bytes);
  munmap(shared, 8 * page);
}

// A program that gives its memory back too early keeps what it maps there afterwards.
TEST(MovedTest, MemoryThatWasUnmappedIsLeftAlone) {
  std::byte* const memory = map(4 * page, MAP_PRIVATE);
  std::byte* const shared = map(4 * page, MAP_SHARED);
  Moved moved;
  ASSERT_TRUE(moved.move_in(movable_pages(memory, 4 * page), shared));
  munmap(memory, 4 * page);
  void* const other = mmap(memory, 4 * page, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(other, memory);
  std::memset(memory, 7, 4 * page);
  ASSERT_TRUE(moved.move_out().ok());
  EXPECT_EQ(memory[page], std::byte{7});
  munmap(memory, 4 * page);
  munmap(shared, 4 * page);
}

}  // namespace
}  // namespace skerry::memory
