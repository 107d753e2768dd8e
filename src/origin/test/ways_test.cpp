// Short puts and gets, by messages or by the adapter: which way they take, and that a server that
// does not look does not hold up those by the adapter.
#include "origin/send/ways.hpp"

#include "origin/test/hand_server.hpp"

namespace skerry::origin::test {
namespace {

using Way = Ways::Way;
constexpr auto get = Ways::Kind::get;
constexpr auto put = Ways::Kind::put;

// Gets take `message_ns` and `adapter_ns` from now on: so many of each way are made of `count`.
struct Made {
  int messages = 0, by_adapter = 0;
};
Made make(Ways& ways, int count, int64_t message_ns, int64_t adapter_ns, uint64_t bytes = 8) {
  Made made;
  for (int i = 0; i < count; ++i) {
    const Way way = ways.next(get, bytes);
    ++(way == Way::adapter ? made.by_adapter : made.messages);
    ways.got(bytes, way, way == Way::adapter ? adapter_ns : message_ns);
  }
  return made;
}
// The same for a put with its fence, which takes the time of a message.
Way put_and_fence(Ways& ways, int64_t message_ns, int64_t adapter_ns) {
  const Way way = ways.next(put, 8);
  ways.issued_put();
  ways.put_alone(8, way, way == Way::adapter ? adapter_ns : 1);
  ways.fenced(way == Way::adapter ? 1 : message_ns);
  return way;
}

TEST(Ways, MessagesFirstThenTheAdapterThenTheQuickerWay) {
  Ways ways;
  const int first = Ways::first_messages + Ways::first_by_adapter;
  const Made tried = make(ways, first, 20'000, 3'000);
  EXPECT_EQ(tried.messages, static_cast<int>(Ways::first_messages));
  EXPECT_EQ(make(ways, 200, 20'000, 3'000).messages, 0);

  Ways slow_adapter;
  make(slow_adapter, first, 20'000, 60'000);
  EXPECT_EQ(make(slow_adapter, 150, 20'000, 60'000).by_adapter, 0);
}

TEST(Ways, TheSlowerWayIsTriedAgainForASmallPartOfTheTime) {
  Ways ways;
  make(ways, Ways::first_messages + Ways::first_by_adapter, 20'000, 3'000);
  const Made made = make(ways, 10'000, 20'000, 3'000);
  EXPECT_GT(made.messages, 0);
  EXPECT_LE(uint64_t(made.messages) * 20'000 * Ways::try_part, uint64_t(made.by_adapter) * 3'000);
}

TEST(Ways, AServerThatBecomesSlowIsLeftAndComesBack) {
  Ways ways;
  make(ways, 100, 20'000, 60'000);
  EXPECT_EQ(make(ways, 100, 10'000'000, 60'000).messages, 1);  // it computes for 10 ms
  EXPECT_GT(make(ways, 30'000, 20'000, 60'000).messages, 10'000);
}

TEST(Ways, SizesDecideForThemselves) {
  Ways ways;
  make(ways, 100, 20'000, 60'000, 8);
  make(ways, 100, 90'000, 60'000, 8192);
  EXPECT_EQ(ways.next(get, 8), Way::message);
  EXPECT_EQ(ways.next(get, 8192), Way::adapter);
}

TEST(Ways, APutGoesByTheAdapterIfTheLastOnesWereAloneBeforeTheirFences) {
  Ways ways;
  // As alone counts what the last fences saw, the first two are needed besides.
  for (uint32_t i = 0; i < Ways::first_messages; ++i)
    EXPECT_EQ(put_and_fence(ways, 20'000, 3'000), Way::message);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(put_and_fence(ways, 20'000, 3'000), Way::adapter);
  ways.issued_put();
  EXPECT_EQ(ways.next(put, 8), Way::message);  // a second one
  ways.issued_put();
  ways.fenced(20'000);
  for (uint32_t i = 0; i < Ways::lone_fences; ++i)
    EXPECT_EQ(put_and_fence(ways, 20'000, 3'000), Way::message);
  EXPECT_EQ(put_and_fence(ways, 20'000, 3'000), Way::adapter);
}

class WaysTest : public EngineTest {
 protected:
  WaysTest() {
    capabilities_.rma = capabilities_.rma_unordered = true;
    one_thread_ = true;
    helper_ = false;
  }
  uint64_t get_now() {
    uint64_t value = 0;
    Side there, here;
    there.bytes = here.bytes = 8;
    here.base = reinterpret_cast<std::byte*>(&value);
    EXPECT_TRUE(engine_->issue(Access::get({1, segment}, there, here, Mode::blocking)).ok());
    return value;
  }
  // The server answers all that it hears, until the caller says that it is done.
  void serve_until(const std::atomic<bool>& done) {
    ASSERT_TRUE(until([&] {
      while (answered_ < one().got.size()) answer(one().got[answered_++]);
      return done.load();
    }));
  }

  size_t heard_of(wire::Kind kind) {
    return static_cast<size_t>(std::ranges::count_if(
        one().got, [&](const HandServer::Got& got) { return got.request.kind() == kind; }));
  }

  uint64_t word_ = 7;  // the target's
  bool is_long_ = false;  // the server says that its slice is too long for a key for short accesses

 private:
  void answer(const HandServer::Got& got) {
    const uint64_t number = got.number();
    switch (got.request.kind()) {
      case wire::Kind::get: return one().reply(got, number, bytes(word_));
      case wire::Kind::key: {
        EXPECT_EQ(got.request.header.offset, Rma::longest_for_short_bytes);
        if (is_long_) return one().reply_failed(got, number, "a long slice");
        const fabric::RemoteKey key = one().register_memory(&word_, sizeof word_);
        const wire::Key answer{key.key, key.base, 0};
        return one().reply(got, number, {reinterpret_cast<const char*>(&answer), sizeof answer});
      }
      case wire::Kind::put:
        std::memcpy(&word_, got.payload.data(), sizeof word_);
        return one().acknowledge(number);
      default: FAIL() << "an unexpected request";
    }
  }
  size_t answered_ = 0;
};

// The server is not let run again before the caller has what it wants.
TEST_F(WaysTest, GetsByTheAdapterNeedNoServer) {
  start(0);
  std::atomic<bool> has_key{false};
  std::thread caller([&] {
    get_now();  // opens the connection, and is not timed
    for (uint32_t i = 0; i < Ways::first_messages; ++i) EXPECT_EQ(get_now(), 7u);
    EXPECT_EQ(get_now(), 7u);  // asks for the key
    has_key = true;
  });
  serve_until(has_key);
  caller.join();
  const size_t heard = one().got.size();
  EXPECT_EQ(heard, 1u + Ways::first_messages + 1u);
  word_ = 8;
  for (uint32_t i = 1; i < Ways::first_by_adapter; ++i) EXPECT_EQ(get_now(), 8u);
  one().step();
  EXPECT_EQ(one().got.size(), heard);
}

// A get of 8 bytes once made a server register a slice whole, with all the pages that nobody had
// touched yet.
TEST_F(WaysTest, ALongSliceGetsNoKeyForShortAccessesAndItsServerIsAskedOnce) {
  is_long_ = true;
  start(0);
  std::atomic<bool> is_done{false};
  constexpr size_t gets = Ways::first_messages + 2 * Ways::first_by_adapter;
  std::thread caller([&] {
    for (size_t i = 0; i < gets; ++i) EXPECT_EQ(get_now(), 7u);
    is_done = true;
  });
  serve_until(is_done);
  caller.join();
  EXPECT_EQ(heard_of(wire::Kind::key), 1u);
  EXPECT_EQ(heard_of(wire::Kind::get), gets);
}

TEST_F(WaysTest, APutByTheAdapterIsThereBeforeItsFence) {
  start(0);
  std::atomic<bool> has_key{false};
  const auto put_and_fence = [&](uint64_t value) {
    put(1, value);
    EXPECT_TRUE(engine_->fence_node(1).ok());
  };
  std::thread caller([&] {
    for (uint32_t i = 0; i <= Ways::first_messages + 1; ++i) put_and_fence(i);
    has_key = true;
  });
  serve_until(has_key);
  caller.join();
  const size_t heard = one().got.size();
  for (uint64_t i = 1; i < Ways::first_by_adapter; ++i) {
    put_and_fence(100 + i);
    EXPECT_EQ(word_, 100 + i);
  }
  one().step();
  EXPECT_EQ(one().got.size(), heard);
}

}  // namespace
}  // namespace skerry::origin::test
