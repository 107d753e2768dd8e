// Connections that break, cannot be opened, or have to wait.
#include "operation/test/hand_server.hpp"

namespace skerry::operation::test {
namespace {

TEST_F(EngineTest, ABrokenConnectionIsResumedFromWhereTheServerIs) {
  start(2);
  put(1, 10);
  put(1, 11);
  uint64_t value = 0;
  watch(get(1, &value));
  ASSERT_TRUE(until([&] { return one().got.size() == 3; }));
  // The server applied the first, and nobody heard of it.
  one().applied = 1;
  one().got.clear();
  one().break_connection();
  // Expect: the second and third again, in order, and not the first.
  ASSERT_TRUE(until([&] { return one().got.size() == 2; }));
  EXPECT_EQ(one().got[0].number(), 2u);
  EXPECT_EQ(one().got[1].number(), 3u);
  // Expect (a second break, after everything was applied): the get alone is asked for again.
  one().applied = 3;
  const HandServer::Got before = one().got[1];
  one().got.clear();
  one().break_connection();
  ASSERT_TRUE(until([&] { return one().got.size() == 1; }));
  EXPECT_EQ(one().got[0].number(), 3u);
  EXPECT_EQ(one().got[0].request.header.reply_tag, before.request.header.reply_tag);
  one().reply(one().got[0], 3, bytes(8));
  ASSERT_TRUE(until([&] { return watched_ == 0; }));
  EXPECT_EQ(value, 8u);
  EXPECT_EQ(engine_->counters().connections_broken, 2u);
  EXPECT_EQ(engine_->counters().connections_resumed, 2u);
}

TEST_F(EngineTest, AServerThatForgotTheSessionIsAnError) {
  start(2);
  put(1, 1);
  uint64_t value = 0;
  watch(get(1, &value));
  ASSERT_TRUE(until([&] { return one().got.size() == 2; }));
  one().acknowledge(1);
  one().applied = 0;
  ASSERT_TRUE(until([&] { return engine_->counters().connections_opened == 1; }));
  Handle handle = std::exchange(watched_, 0);
  bool done = false;
  for (int i = 0; i < 100; ++i) {  // the acknowledgement is taken in
    one().step();
    ASSERT_TRUE(engine_->test(&handle, &done).ok());
  }
  one().break_connection();
  // Expect: never "start from here".
  Status status;
  ASSERT_TRUE(until([&] { return !(status = engine_->test(&handle, &done)).ok(); }));
  EXPECT_NE(status.message().find("lost the session"), std::string::npos);
}

// Connecting that fails at once once failed the link for good.
TEST_F(EngineTest, WithoutADescriptorItIsTriedAgain) {
  start(2, 5);
  std::thread program([&] {
    put(1, 1);
    EXPECT_TRUE(engine_->fence(server(1)).ok());
  });
  ASSERT_TRUE(until([&] { return one().got.size() == 1; }));
  one().acknowledge(1);
  program.join();
}

// Waiting for a counter for 100 ms took 8 s beside a server that had stopped: what was queued for
// it was waited for whatever the time.
TEST_F(EngineTest, PushingOutEndsAtItsDeadline) {
  start(1);
  two().accepts = false;
  uint64_t value = 0;
  watch(get(1, &value));
  ASSERT_TRUE(until([&] { return one().got.size() == 1; }));
  put(2, 7, Mode::implicit);
  // Expect: it returns though nobody lets the other server answer; what was queued still goes.
  EXPECT_TRUE(engine_->push_out(monotonic_ns()).ok());
  EXPECT_TRUE(engine_->push_out(monotonic_ns() + 1'000'000).ok());
  EXPECT_TRUE(two().got.empty());
  one().reply(one().got[0], 1, bytes(1));
  ASSERT_TRUE(until([&] { return two().has_held(); }));
  two().accept_held();
  ASSERT_TRUE(until([&] { return two().got.size() == 1; }));
  two().acknowledge(1);
}

// More than 2^24 once ended the process.
TEST_F(EngineTest, ALimitOfAnySizeIsTaken) {
  start(UINT32_MAX);
  EXPECT_TRUE(engine_->limit_connections((1u << 24) + 1).ok());
  EXPECT_LT(engine_->memory().fixed_bytes, 1u << 20);
  EXPECT_TRUE(engine_->limit_connections(0).ok());
}

// Crossing: the server says farewell, and a request is issued before we hear of it.
TEST_F(EngineTest, WhatCrossesAFarewellIsSentAgain) {
  start(2);
  put(1, 1);
  ASSERT_TRUE(until([&] { return one().got.size() == 1; }));
  one().acknowledge(1);
  one().applied = 1;
  one().say(wire::Kind::farewell, 1);
  one().break_connection();
  uint64_t value = 0;
  Handle handle = 0;
  std::thread program([&] {
    handle = get(1, &value);
    EXPECT_TRUE(engine_->wait(&handle).ok());
  });
  ASSERT_TRUE(until([&] { return one().got.size() == 2; }));
  EXPECT_EQ(one().got[1].number(), 2u);
  one().reply(one().got[1], 2, bytes(6));
  program.join();
  EXPECT_EQ(value, 6u);
  EXPECT_EQ(engine_->counters().connections_opened, 2u);
}

}  // namespace
}  // namespace skerry::operation::test
