// Fetching updates at their origin: cut into parts, bounded, resumed after a break.
#include "origin/test/hand_server.hpp"

namespace skerry::origin::test {
namespace {

class FetchTest : public EngineTest {
 protected:
  static constexpr uint64_t count = 40'000;  // 320 kB: ten parts

  void SetUp() override {
    EngineTest::SetUp();
    for (uint64_t i = 0; i < count; ++i) operands[i] = i;
  }
  Handle fetch(Operation operation) {
    Side there, from, to;
    there.bytes = from.bytes = to.bytes = count * 8;
    from.base = reinterpret_cast<std::byte*>(operands.data());
    to.base = reinterpret_cast<std::byte*>(result.data());
    const Accumulate what{ElementType::uint64, memory::Scale::one(), operation};
    Handle handle = 0;
    const auto access = Access::fetch_update({1, segment}, there, from, to, what, Mode::handle);
    EXPECT_TRUE(engine_->issue(access, &handle).ok());
    return handle;
  }
  // The answer that a server of which element i is 7 * i would give.
  static std::string old_of(const HandServer::Got& got) {
    std::vector<uint64_t> old(got.request.extent_bytes / 8);
    for (uint64_t i = 0; i < old.size(); ++i) old[i] = 7 * (got.request.header.offset / 8 + i);
    return {reinterpret_cast<const char*>(old.data()), old.size() * 8};
  }
  void expect_result() {
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(result[i], 7 * i);
  }

  std::vector<uint64_t> operands = std::vector<uint64_t>(count), result = operands;
};

TEST_F(FetchTest, PartsCarryTheOperandsAndFewAreUnanswered) {
  start(0);
  std::atomic<Handle> handle{0};
  std::thread caller([&] { handle = fetch(Operation::sum); });
  uint64_t answered = 0, most = 0, bytes = 0;
  ASSERT_TRUE(until([&] {
    // The engine is let come as far as it gets.
    if (one().got.size() == answered) return bytes == count * 8;
    uint64_t unanswered = 0;
    for (size_t i = answered; i < one().got.size(); ++i)
      unanswered += one().got[i].request.extent_bytes;
    most = std::max(most, unanswered);
    const HandServer::Got& got = one().got[answered++];
    EXPECT_EQ(got.request.kind(), wire::Kind::fetch_update);
    EXPECT_EQ(got.request.header.operation, static_cast<uint8_t>(Operation::sum));
    EXPECT_EQ(got.payload.size(), got.request.extent_bytes);
    EXPECT_EQ(std::memcmp(got.payload.data(), operands.data() + got.request.header.offset / 8,
                          got.payload.size()),
              0);
    one().reply(got, answered, old_of(got));
    bytes += got.request.extent_bytes;
    return false;
  }));
  caller.join();
  EXPECT_LE(most, Transfers::most_fetching_bytes);
  EXPECT_GT(answered, 4u);
  watch(handle);
  ASSERT_TRUE(until([&] { return watched_ == 0; }));
  expect_result();
}

// The answers of some parts are lost in a break. Their requests come again as they were, the others
// do not.
TEST_F(FetchTest, AfterABreakOnlyWhatIsUnansweredComesAgain) {
  start(0);
  std::atomic<Handle> handle{0};
  std::thread caller([&] { handle = fetch(Operation::replace); });
  ASSERT_TRUE(until([&] { return one().got.size() == 4; }));
  one().reply(one().got[0], 1, old_of(one().got[0]));
  ASSERT_TRUE(until([&] { return one().got.size() == 5; }));  // it was heard
  const std::deque<HandServer::Got> before = one().got;
  one().applied = 3;  // two more, whose answers are lost
  one().break_connection();
  one().got.clear();
  ASSERT_TRUE(until([&] { return one().got.size() == 4; }));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(one().got[i].number(), before[i + 1].number());
    EXPECT_EQ(one().got[i].payload, before[i + 1].payload);
  }
  uint64_t answered = 0, bytes = before[0].request.extent_bytes;
  ASSERT_TRUE(until([&] {
    if (one().got.size() == answered) return bytes == count * 8;
    const HandServer::Got& got = one().got[answered++];
    one().reply(got, std::max<uint64_t>(3, got.number()), old_of(got));
    bytes += got.request.extent_bytes;
    return false;
  }));
  caller.join();
  watch(handle);
  ASSERT_TRUE(until([&] { return watched_ == 0; }));
  expect_result();
}

TEST_F(FetchTest, ANoOpCarriesNothing) {
  start(0);
  std::atomic<Handle> handle{0};
  std::thread caller([&] { handle = fetch(Operation::no_op); });
  uint64_t answered = 0, bytes = 0;
  ASSERT_TRUE(until([&] {
    if (one().got.size() == answered) return bytes == count * 8;
    const HandServer::Got& got = one().got[answered++];
    EXPECT_TRUE(got.payload.empty());
    one().reply(got, answered, old_of(got));
    bytes += got.request.extent_bytes;
    return false;
  }));
  caller.join();
  watch(handle);
  ASSERT_TRUE(until([&] { return watched_ == 0; }));
  expect_result();
}

TEST_F(FetchTest, AnAnswerOfTheWrongLengthIsNoAnswer) {
  start(0);
  std::thread caller([&] {
    Side there, from, to;
    there.bytes = from.bytes = to.bytes = 8;
    from.base = reinterpret_cast<std::byte*>(operands.data());
    to.base = reinterpret_cast<std::byte*>(result.data());
    const Status status = engine_->issue(
        Access::fetch_update({1, segment}, there, from, to, {ElementType::uint64}, Mode::blocking));
    EXPECT_NE(status.message().find("does not speak our protocol"), std::string::npos);
  });
  ASSERT_TRUE(until([&] { return !one().got.empty(); }));
  one().reply(one().got[0], 1, "short");
  caller.join();
}

}  // namespace
}  // namespace skerry::origin::test
