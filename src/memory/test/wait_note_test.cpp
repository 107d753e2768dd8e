#include "memory/wait_note.hpp"

#include <gtest/gtest.h>

namespace skerry::memory {
namespace {

std::string text_of(const WaitNote& note) {
  char text[WaitNote::text_bytes + 1] = {};
  for (size_t i = 0; i < note.text.size(); ++i) {
    const uint64_t word = note.text[i].load();
    std::memcpy(text + 8 * i, &word, 8);
  }
  return text;
}

const LockName third{SegmentId{1, 5}, 2, 3};

TEST(WaitNote, IsThereWhileTheWaitLasts) {
  WaitNote note{};
  {
    NoteWait wait(&note);
    EXPECT_EQ(note.since_ns, 0);
    wait.tell(7, "fence, node 1");
    EXPECT_EQ(note.since_ns, 7);
    EXPECT_EQ(text_of(note), "fence, node 1");
    EXPECT_EQ(note.lock_segment, 0u);
  }
  EXPECT_EQ(note.since_ns, 0);
}

TEST(WaitNote, NamesTheLock) {
  WaitNote note{};
  NoteWait wait(&note);
  wait.tell(7, third);
  EXPECT_EQ(text_of(note), "lock 3 of rank 2");
  EXPECT_EQ(note.lock_segment, third.segment.packed());
  EXPECT_EQ(note.lock_place, uint64_t{2} << 32 | 3);
}

// Bug guarded against: a lock that was waited for in slices was told anew in each, so the wait
// seemed to begin again and again.
TEST(WaitNote, BeginsOnce) {
  WaitNote note{};
  NoteWait wait(&note);
  wait.tell(7, third);
  wait.tell(9, third);
  {
    NoteWait inner(&note);
    inner.tell(8, "wait_granted");
  }
  EXPECT_EQ(note.since_ns, 7);
  EXPECT_EQ(text_of(note), "lock 3 of rank 2");
}

TEST(WaitNote, OfAnotherThreadDoesNotEndIt) {
  WaitNote note{};
  NoteWait lock(&note);
  {
    NoteWait fence(&note);
    fence.tell(7, "fence");
    lock.tell(8, third);  // a lock is seen before what else is waited for
    EXPECT_EQ(note.since_ns, 8);
  }
  EXPECT_EQ(note.since_ns, 8);
}

TEST(WaitNote, TextsAreCut) {
  WaitNote note{};
  NoteWait wait(&note);
  wait.tell(7, std::string(200, 'x'));
  EXPECT_EQ(text_of(note), std::string(WaitNote::text_bytes, 'x'));
}

}  // namespace
}  // namespace skerry::memory
