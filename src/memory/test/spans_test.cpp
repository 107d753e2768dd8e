// What calls record of themselves, and when they do not.
#include "memory/spans.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace skerry::memory {
namespace {

constexpr int64_t second_ns = 1'000'000'000;

void call(Spans& spans, SpanKind kind = SpanKind::put) { const CallSpan span(&spans, kind, 3, 8); }

uint64_t recorded(const Spans& spans) {
  const SpanRing* const ring = spans.ring.load();
  return ring == nullptr ? 0 : ring->last.load();
}

void pass(int64_t ns) {
  for (const int64_t end_ns = monotonic_ns() + ns; monotonic_ns() < end_ns;) {
  }
}

TEST(Spans, OffTheyTakeNoMemoryAndRecordNothing) {
  Spans spans;
  for (int i = 0; i < 1000; ++i) call(spans);
  {
    const WaitSpan span(&spans, [] { return std::string("never asked"); });
  }
  EXPECT_EQ(spans.ring.load(), nullptr);
}

TEST(Spans, NobodyToRecordForIsAllowed) {
  const CallSpan span(nullptr, SpanKind::get, 0, 1);
  const WaitSpan wait(nullptr, [] { return std::string(); });
}

TEST(Spans, ARecordSaysWhatWhenAndForWhom) {
  Spans spans;
  const int64_t before_ns = monotonic_ns();
  spans.until_ns = before_ns + 100 * second_ns;
  call(spans, SpanKind::get);
  ASSERT_EQ(recorded(spans), 1);
  const Span& span = spans.ring.load()->spans[1];
  EXPECT_EQ(span.number, 1);
  EXPECT_EQ(span.kind, SpanKind::get);
  EXPECT_EQ(span.target, 3);
  EXPECT_EQ(span.bytes, 8);
  EXPECT_EQ(span.of, 1);
  EXPECT_LE(before_ns, span.begin_ns);
  EXPECT_LE(span.begin_ns, span.end_ns);
}

TEST(Spans, RecordingEndsByItselfWhenItsReaderDoesNotComeBack) {
  Spans spans;
  spans.until_ns = monotonic_ns() - 1;
  call(spans);
  EXPECT_EQ(recorded(spans), 0);
  EXPECT_FALSE(spans.is_on());
}

// Whatever a program does, records of a kind come about once in a period.
TEST(Spans, OfShortCallsOneInManyIsRecordedAndSaysOfHowMany) {
  Spans spans;
  const int64_t begin_ns = monotonic_ns();
  spans.until_ns = begin_ns + 100 * second_ns;
  constexpr uint32_t calls = 200'000;
  for (uint32_t i = 0; i < calls; ++i) call(spans);
  const int64_t took_ns = monotonic_ns() - begin_ns;
  const uint64_t records = recorded(spans);
  EXPECT_GT(records, 0);
  EXPECT_LT(records, calls / 10) << "in " << took_ns << " ns";
  uint64_t of = 0;
  const SpanRing& ring = *spans.ring.load();
  if (records <= SpanRing::size) {
    for (uint64_t k = 1; k <= records; ++k) of += ring.spans[k % SpanRing::size].of;
    EXPECT_LE(of, calls);
    EXPECT_GE(of + 1024, calls) << "the rest stands for the next record";
  }
}

TEST(Spans, LongCallsAreAllRecorded) {
  Spans spans;
  spans.until_ns = monotonic_ns() + 100 * second_ns;
  for (int i = 0; i < 50; ++i) {
    const CallSpan span(&spans, SpanKind::fence, no_rank, 0);
    pass(3 * Spans::period_ns);
  }
  EXPECT_EQ(recorded(spans), 50);
}

TEST(Spans, OneKindDoesNotKeepAnotherFromBeingRecorded) {
  Spans spans;
  spans.until_ns = monotonic_ns() + 100 * second_ns;
  for (int i = 0; i < 10'000; ++i) call(spans, SpanKind::put);
  const uint64_t before = recorded(spans);
  call(spans, SpanKind::fence);
  EXPECT_EQ(recorded(spans), before + 1);
}

TEST(Spans, AWaitIsRecordedWithItsTextAndLockIfItIsLong) {
  Spans spans;
  spans.until_ns = monotonic_ns() + 100 * second_ns;
  const std::string text(100, 'x');
  const LockName lock{{5, 6}, 7, 8};
  {
    const WaitSpan span(&spans, [&] { return text; }, lock);
    pass(2 * Spans::shortest_wait_ns);
  }
  ASSERT_EQ(recorded(spans), 1);
  const Span& span = spans.ring.load()->spans[1];
  EXPECT_EQ(span.kind, SpanKind::waited);
  EXPECT_EQ(std::string_view(span.text), text.substr(0, Span::text_bytes - 1));
  EXPECT_EQ(span.lock_segment, (SegmentId{5, 6}.packed()));
  EXPECT_EQ(span.lock_place, uint64_t{7} << 32 | 8);
}

}  // namespace
}  // namespace skerry::memory
