// Small puts and accumulates that travel together: which ones do, in which order, and what a break
// brings again.
#include <vector>

#include "origin/test/hand_server.hpp"

namespace skerry::origin::test {
namespace {

class BatchTest : public EngineTest {
 protected:
  // A request is on its way and not acknowledged: from here on small ones are held back. Without
  // the helper, which would send them at any time.
  void start_unacknowledged(bool helper = false) {
    helper_ = helper;
    start(0);
    std::thread caller([&] { accumulate(1, 0, 0); });  // waits for the connection
    EXPECT_TRUE(until([&] { return one().got.size() == 1; }));
    caller.join();
    EXPECT_FALSE(has_pieces(one().got[0]));  // the first one goes alone, and at once
    one().got.clear();
  }
  template <class Word>
  void accumulate_words(const Target& target, uint64_t offset, std::vector<Word> words,
                        const Accumulate& what, Mode mode = Mode::implicit) {
    Side from, there;
    from.bytes = there.bytes = words.size() * sizeof(Word);
    from.base = reinterpret_cast<std::byte*>(words.data());
    there.offset = offset;
    EXPECT_TRUE(engine_->issue(Access::accumulate(target, there, from, what, mode)).ok());
  }
  void accumulate(Rank rank, uint64_t offset, uint64_t value, Operation operation = Operation::sum,
                  uint64_t scale = 1, SegmentId in = segment) {
    accumulate_words<uint64_t>(
        {rank, in}, offset, {value},
        {ElementType::uint64, memory::Scale::of(ElementType::uint64, &scale), operation});
  }
  void accumulate_blocking(uint64_t value) {
    accumulate_words<uint64_t>({1, segment}, 0, {value}, {ElementType::uint64}, Mode::blocking);
  }
  void put_at(uint64_t offset, uint64_t value, Mode mode) {
    Side from, there;
    from.bytes = there.bytes = 8;
    from.base = reinterpret_cast<std::byte*>(&value);
    there.offset = offset;
    EXPECT_TRUE(engine_->issue(Access::put({1, segment}, there, from, mode)).ok());
  }
  // Sends what is held back.
  void push() { EXPECT_TRUE(engine_->push_out(monotonic_ns()).ok()); }

  static bool has_pieces(const HandServer::Got& got) { return got.request.has(wire::flag_vector); }
  struct One {
    uint64_t offset, value;
    bool operator==(const One&) const = default;
  };
  // The pieces of a batch of 64-bit words.
  static std::vector<One> pieces_of(const HandServer::Got& got) {
    EXPECT_TRUE(has_pieces(got));
    const uint64_t count = got.request.header.piece_count;
    EXPECT_EQ(got.payload.size(), count * (sizeof(Piece) + 8));
    std::vector<One> pieces(count);
    for (uint64_t i = 0; i < count; ++i) {
      Piece piece;
      std::memcpy(&piece, got.payload.data() + i * sizeof piece, sizeof piece);
      EXPECT_EQ(piece.bytes, 8u);
      pieces[i].offset = piece.offset;
      std::memcpy(&pieces[i].value, got.payload.data() + count * sizeof piece + i * 8, 8);
    }
    return pieces;
  }
  bool hears(size_t requests) {
    return until([&] { return one().got.size() >= requests; });
  }
};

TEST_F(BatchTest, AccumulatesInARowTravelInOrderInOneMessage) {
  start_unacknowledged();
  // Repeats of a word, and pieces that overlap, are all there.
  const std::vector<One> sent{{8, 1}, {16, 2}, {8, 3}, {8, 3}, {0, 4}};
  for (const One& one : sent) accumulate(1, one.offset, one.value);
  push();
  ASSERT_TRUE(hears(1));
  const wire::Request& r = one().got[0].request;
  EXPECT_EQ(r.kind(), wire::Kind::accumulate);
  EXPECT_EQ(r.header.type, static_cast<uint8_t>(ElementType::uint64));
  EXPECT_EQ(r.header.operation, static_cast<uint8_t>(Operation::sum));
  EXPECT_FALSE(r.has(wire::flag_scaled));
  EXPECT_EQ(r.header.number, 2u);
  EXPECT_EQ(pieces_of(one().got[0]), sent);
}

TEST_F(BatchTest, WhatDoesSomethingElseBeginsABatchOfItsOwn) {
  start_unacknowledged();
  accumulate(1, 0, 1);
  accumulate(1, 0, 2, Operation::sum, 3);  // another scale
  accumulate(1, 8, 3, Operation::sum, 3);
  accumulate(1, 0, 4, Operation::max);                                       // another operation
  accumulate_words<double>({1, segment}, 0, {1.0}, {ElementType::float64});  // another type
  put_at(0, 5, Mode::implicit);
  put_at(8, 6, Mode::implicit);
  accumulate(1, 0, 7);
  accumulate(1, 0, 8, Operation::sum, 1, {1, 2});  // another segment
  push();
  ASSERT_TRUE(hears(7));
  const auto& got = one().got;
  EXPECT_EQ(pieces_of(got[0]), (std::vector<One>{{0, 1}}));
  EXPECT_EQ(pieces_of(got[1]), (std::vector<One>{{0, 2}, {8, 3}}));
  uint64_t scale = 0;
  std::memcpy(&scale, got[1].request.scale.value, sizeof scale);
  EXPECT_TRUE(got[1].request.has(wire::flag_scaled));
  EXPECT_EQ(scale, 3u);
  EXPECT_EQ(pieces_of(got[2]), (std::vector<One>{{0, 4}}));
  EXPECT_EQ(got[2].request.header.operation, static_cast<uint8_t>(Operation::max));
  EXPECT_FALSE(got[2].request.has(wire::flag_scaled));
  EXPECT_EQ(got[3].request.header.type, static_cast<uint8_t>(ElementType::float64));
  EXPECT_EQ(got[4].request.kind(), wire::Kind::put);
  EXPECT_EQ(pieces_of(got[4]), (std::vector<One>{{0, 5}, {8, 6}}));
  EXPECT_EQ(got[5].request.kind(), wire::Kind::accumulate);
  EXPECT_EQ(pieces_of(got[5]), (std::vector<One>{{0, 7}}));
  EXPECT_EQ(pieces_of(got[6]), (std::vector<One>{{0, 8}}));
  EXPECT_EQ(got[6].request.header.segment_generation, 2u);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(got[i].number(), i + 2);
}

// A batch leaves before whatever else goes to its server: the order of issue is that of the
// numbers.
TEST_F(BatchTest, NothingOvertakesABatch) {
  start_unacknowledged();
  accumulate(1, 0, 1);
  put_at(0, 2, Mode::blocking);
  accumulate(1, 0, 3);
  uint64_t found = 0;
  const Handle handle = get(1, &found);
  push();
  ASSERT_TRUE(hears(4));
  EXPECT_EQ(pieces_of(one().got[0]), (std::vector<One>{{0, 1}}));
  EXPECT_EQ(one().got[1].request.kind(), wire::Kind::put);
  EXPECT_FALSE(has_pieces(one().got[1]));
  EXPECT_EQ(pieces_of(one().got[2]), (std::vector<One>{{0, 3}}));
  EXPECT_EQ(one().got[3].request.kind(), wire::Kind::get);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(one().got[i].number(), i + 2);
  one().reply(one().got[3], 5, bytes(7));
  watch(handle);
  ASSERT_TRUE(until([&] { return watched_ == 0; }));
  EXPECT_EQ(found, 7u);
}

// What a get that is not answered may still read is not written by a later accumulate: it waits.
TEST_F(BatchTest, AnAccumulateBehindAnUnansweredGetDoesNotJoin) {
  start_unacknowledged();
  uint64_t found = 0;
  const Handle handle = get(1, &found);
  accumulate(1, 64, 1);
  push();
  ASSERT_TRUE(hears(2));
  EXPECT_FALSE(has_pieces(one().got[1]));
  one().reply(one().got[0], 3, bytes(7));
  watch(handle);
  ASSERT_TRUE(until([&] { return watched_ == 0; }));
}

TEST_F(BatchTest, AFullBatchLeavesByItself) {
  start_unacknowledged();
  constexpr uint64_t more = 5;
  for (uint64_t i = 0; i < Batch::most_pieces + more; ++i) accumulate(1, i * 8, i);
  push();
  ASSERT_TRUE(hears(2));
  // By bytes: elements of 16, in pieces of 256.
  const std::vector<long double> sixteen(16, 1.0L);
  const uint64_t fit = Batch::most_bytes / 256;
  for (uint64_t i = 0; i <= fit; ++i)
    accumulate_words({1, segment}, i * 256, sixteen, {ElementType::long_double});
  push();
  ASSERT_TRUE(hears(4));
  const std::vector<One> full = pieces_of(one().got[0]), rest = pieces_of(one().got[1]);
  ASSERT_EQ(full.size(), Batch::most_pieces);
  EXPECT_EQ(full.back(), (One{(Batch::most_pieces - 1) * 8, Batch::most_pieces - 1}));
  ASSERT_EQ(rest.size(), more);
  EXPECT_EQ(rest.front(), (One{Batch::most_pieces * 8, Batch::most_pieces}));
  EXPECT_EQ(one().got[2].request.header.piece_count, fit);
  EXPECT_EQ(one().got[2].payload.size(), fit * (sizeof(Piece) + 256));
  EXPECT_EQ(one().got[3].request.header.piece_count, 1u);
}

TEST_F(BatchTest, LongerOnesAndBlockingOnesGoByThemselves) {
  start_unacknowledged();
  accumulate_words<uint64_t>({1, segment}, 0, std::vector<uint64_t>(33, 1), {ElementType::uint64});
  put_at(0, 5, Mode::blocking);
  push();
  ASSERT_TRUE(hears(2));
  EXPECT_FALSE(has_pieces(one().got[0]));
  EXPECT_FALSE(has_pieces(one().got[1]));
}

// Blocking accumulates that come one right after the other are a stream. (The clock decides, so
// here only what holds at any speed: all of it is there, in order, whatever joined.)
TEST_F(BatchTest, BlockingAccumulatesAreThereInOrder) {
  start_unacknowledged(true);
  constexpr uint64_t count = 3000;
  std::thread caller([&] {
    for (uint64_t i = 0; i < count; ++i) accumulate_blocking(i);
  });
  std::vector<uint64_t> values;
  size_t seen = 0;
  EXPECT_TRUE(until([&] {
    for (; seen < one().got.size(); ++seen) {
      const HandServer::Got& got = one().got[seen];
      EXPECT_EQ(got.number(), seen + 2);
      if (has_pieces(got)) {
        for (const One& one : pieces_of(got)) values.push_back(one.value);
      } else {
        EXPECT_EQ(got.payload.size(), 8u);
        std::memcpy(&values.emplace_back(), got.payload.data(), 8);
      }
      one().acknowledge(got.number() - 1);  // never all
    }
    return values.size() == count;
  }));
  caller.join();
  for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], i);
}

class StreamTest : public BatchTest {
 protected:
  // Three blocking accumulates to a server that owes an acknowledgement; what it hears of them.
  void accumulate_three(int64_t gap_ns) {
    stream_gap_ns_ = gap_ns;
    start_unacknowledged(true);
    for (uint64_t i = 0; i < 3; ++i) accumulate_blocking(i);
  }
  static uint64_t elements_of(const HandServer::Got& got) {
    return has_pieces(got) ? pieces_of(got).size() : 1;
  }
  // Of those three: how many came as pieces.
  uint64_t in_batches() {
    uint64_t all = 0, pieces = 0;
    EXPECT_TRUE(until([&] {
      all = pieces = 0;
      for (const HandServer::Got& got : one().got) {
        all += elements_of(got);
        pieces += has_pieces(got) ? elements_of(got) : 0;
      }
      return all == 3;
    }));
    return pieces;
  }
};

TEST_F(StreamTest, AllButTheFirstOfAStreamTravelInBatches) {
  accumulate_three(INT64_MAX / 2);  // since the one before, if there was one, or since the start
  EXPECT_GE(in_batches(), 2u);
}

TEST_F(StreamTest, ThoseThatComeAloneGoAtOnce) {
  accumulate_three(0);
  EXPECT_EQ(in_batches(), 0u);
}

// Without the helper nobody would send what the program leaves behind.
TEST_F(BatchTest, BlockingAccumulatesGoAtOnceWithoutAHelper) {
  start_unacknowledged();
  for (uint64_t i = 0; i < 3; ++i) accumulate_blocking(i);
  ASSERT_TRUE(hears(3));
  for (const HandServer::Got& got : one().got) EXPECT_FALSE(has_pieces(got));
}

// Of memory that the program gave, each piece may cost the server two calls of the kernel.
TEST_F(BatchTest, BatchesToGivenMemoryAreShort) {
  start_unacknowledged();
  for (uint64_t i = 0; i <= Batch::most_given_pieces; ++i)
    accumulate_words<uint64_t>({1, segment, true}, i * 8, {i}, {ElementType::uint64});
  push();
  ASSERT_TRUE(hears(2));
  EXPECT_EQ(one().got[0].request.header.piece_count, Batch::most_given_pieces);
  EXPECT_EQ(one().got[1].request.header.piece_count, 1u);
}

TEST_F(BatchTest, AfterABreakABatchComesAgainAsItWas) {
  start_unacknowledged();
  for (uint64_t i = 0; i < 9; ++i) accumulate(1, i * 8, i);
  put_at(0, 5, Mode::implicit);
  push();
  ASSERT_TRUE(hears(2));
  const std::deque<HandServer::Got> before = one().got;
  one().applied = 1;  // of both batches nothing, or not all
  one().break_connection();
  one().got.clear();
  std::thread caller([&] { EXPECT_TRUE(engine_->fence_node(1).ok()); });
  EXPECT_TRUE(hears(2));
  one().acknowledge(3);
  std::atomic<bool> joined{false};
  std::thread joiner([&] {
    caller.join();
    joined = true;
  });
  EXPECT_TRUE(until([&] { return joined.load(); }));
  joiner.join();
  ASSERT_EQ(one().got.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(one().got[i].number(), before[i].number());
    EXPECT_EQ(one().got[i].payload, before[i].payload);
    EXPECT_EQ(one().got[i].request.header.kind, before[i].request.header.kind);
    EXPECT_EQ(one().got[i].request.header.piece_count, before[i].request.header.piece_count);
  }
}

// The connection breaks while a batch grows. (The helper may send it before that, or after.)
TEST_F(BatchTest, ABreakLosesNothingOfAnOpenBatch) {
  start_unacknowledged(true);
  accumulate(1, 8, 1);
  one().applied = 1;
  one().break_connection();
  accumulate(1, 16, 2);
  push();
  std::vector<One> all;
  ASSERT_TRUE(until([&] {
    all.clear();
    uint64_t seen = 1;
    for (const HandServer::Got& got : one().got) {
      if (got.number() <= seen) continue;  // it came again
      seen = got.number();
      for (const One& one : pieces_of(got)) all.push_back(one);
    }
    return all.size() == 2;
  }));
  EXPECT_EQ(all, (std::vector<One>{{8, 1}, {16, 2}}));
}

// The helper sends it while the program computes, or polls something else.
TEST_F(BatchTest, NobodyNeedAskForIt) {
  start_unacknowledged(true);
  accumulate(1, 8, 1);
  ASSERT_TRUE(hears(1));
  EXPECT_EQ(pieces_of(one().got[0]), (std::vector<One>{{8, 1}}));
}

}  // namespace
}  // namespace skerry::origin::test
