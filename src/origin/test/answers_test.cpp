// What servers say, when it is in order, late, twice, too early, or crosses what we do.
#include "origin/test/hand_server.hpp"

namespace skerry::origin::test {
namespace {

TEST_F(EngineTest, RepliesInOrderLateTwiceAndTooEarly) {
  start(2);
  uint64_t first = 0, second = 0;
  Handle a = get(1, &first), b = get(1, &second);
  ASSERT_TRUE(until([&] { return one().got.size() == 2; }));
  // Expect (in order): the data is here, the operation done, the other one not.
  one().reply(one().got[0], 1, bytes(41));
  bool done = false;
  ASSERT_TRUE(until([&] { return engine_->test(&a, &done).ok() && done; }));
  EXPECT_EQ(first, 41u);
  ASSERT_TRUE(engine_->test(&b, &done).ok());
  EXPECT_FALSE(done);
  // Expect (duplicate, and an acknowledgement of the past): nothing changes.
  one().reply(one().got[0], 1, bytes(99));
  one().acknowledge(0);
  one().reply(one().got[1], 2, bytes(42));
  ASSERT_TRUE(until([&] { return engine_->test(&b, &done).ok() && done; }));
  EXPECT_EQ(first, 41u);
  EXPECT_EQ(second, 42u);
  // Expect (of another session): it is not ours, and changes nothing.
  one().incarnation = 7;
  one().acknowledge(1000);
  one().incarnation = 1;
  // Expect (future): nobody may acknowledge what was never sent; the link fails.
  Handle c = get(1, &first);
  ASSERT_TRUE(until([&] { return one().got.size() == 3; }));
  one().acknowledge(10);
  Status status;
  ASSERT_TRUE(until([&] { return !(status = engine_->test(&c, &done)).ok(); }));
  EXPECT_NE(status.message().find("does not speak our protocol"), std::string::npos);
}

// The grant of a mutex came into the slot by way of the node's own data server. The server's own
// answer came later and carried the last acknowledgement of a link that was to make way. Nobody
// then looked whether the link had drained, and the process hung for ever.
TEST_F(EngineTest, ALateReplyMayBeTheLastThingALinkWaitsFor) {
  start(1);
  std::thread locker([&] { EXPECT_TRUE(engine_->lock({1, segment}, 0, 1).ok()); });
  ASSERT_TRUE(until([&] { return one().got.size() == 1; }));
  const HandServer::Got lock = one().got[0];
  // Another thread needs the one connection there may be: the link drains.
  uint64_t value = 0;
  Handle handle = get(2, &value);
  std::thread reader([&] { EXPECT_TRUE(engine_->wait(&handle).ok()); });
  ASSERT_TRUE(until([&] { return engine_->counters().connections_evicted == 1; }));
  // The grant overtakes the answer.
  ASSERT_TRUE(until([&] {
    return memory::fill_slot(control_.slot(lock.request.header.reply_slot - 1),
                             lock.request.header.reply_tag, 0, 0);
  }));
  locker.join();
  EXPECT_TRUE(one().byes.empty());
  one().reply(lock, 1);
  // Expect: it says bye; its slot goes to the other.
  ASSERT_TRUE(until([&] { return one().byes.size() == 1 && two().got.size() == 1; }));
  EXPECT_EQ(one().byes[0], 1u);
  two().reply(two().got[0], 1, bytes(5));
  reader.join();
  EXPECT_EQ(value, 5u);
}

// Those who look at a rank that waits long see for which request: `skerry stacks`.
TEST_F(EngineTest, AWaitNamesItsOldestRequest) {
  start(2);
  put(1, 7);
  std::thread fencer([&] { EXPECT_TRUE(engine_->fence_node(1).ok()); });
  const memory::WaitNote& note = control_.member(0).waits;
  // It may first wait for its connection, on a slow machine long enough to say so.
  const auto told = [&] {
    std::string text(sizeof note.text, '\0');
    std::memcpy(text.data(), note.text.data(), text.size());
    return text;
  };
  const std::string wanted = "Engine::fence, node 1: put 1 of rank 0 (session 1) to rank 1, node 1";
  EXPECT_TRUE(until([&] { return note.since_ns != 0 && told().starts_with(wanted); })) << told();
  ASSERT_TRUE(until([&] { return one().got.size() == 1; }));
  one().acknowledge(1);
  ASSERT_TRUE(until([&] { return engine_->counters().fences == 1 && note.since_ns == 0; }));
  fencer.join();
}

TEST_F(EngineTest, PleaseCloseCrossesRequests) {
  start(2);
  uint64_t value = 0;
  watch(get(1, &value));
  ASSERT_TRUE(until([&] { return one().got.size() == 1; }));
  // Expect (twice, and a bye_answer that nobody asked for): one bye, after the last answer.
  one().say(wire::CloseKind::bye_answer);
  one().say(wire::CloseKind::please_close);
  one().say(wire::CloseKind::please_close);
  one().reply(one().got[0], 1, bytes(3));
  ASSERT_TRUE(until([&] { return !one().byes.empty(); }));
  EXPECT_EQ(one().byes, std::vector<uint64_t>{1});
  EXPECT_EQ(value, 3u);
  one().say(wire::CloseKind::bye_answer, 1);
  // Expect: the next request opens another connection.
  one().applied = 1;
  watch(get(1, &value));
  ASSERT_TRUE(until([&] { return one().got.size() == 2; }));
  EXPECT_EQ(one().connections, 2);
  one().reply(one().got[1], 2, bytes(4));
  ASSERT_TRUE(until([&] { return watched_ == 0; }));
  EXPECT_EQ(one().byes.size(), 1u);
}

// A refusal is told again after a break, as nobody knows whether it was heard.
TEST_F(EngineTest, ARefusalIsReportedOnce) {
  start(2);
  put(1, 1);
  ASSERT_TRUE(until([&] { return one().got.size() == 1; }));
  one().refuse(1, 1, "out of range");
  one().refuse(1, 1, "out of range");
  // Expect: the fence tells it; a duplicate that comes later tells nothing.
  Status status;
  ASSERT_TRUE(until([&] { return !(status = engine_->fence_node(1)).ok(); }));
  EXPECT_EQ(status.code(), Code::range);
  one().refuse(1, 1, "out of range");
  uint64_t value = 0;
  watch(get(1, &value));
  ASSERT_TRUE(until([&] { return one().got.size() == 2; }));
  one().reply(one().got[1], 2, bytes(0));
  ASSERT_TRUE(until([&] { return watched_ == 0; }));
  EXPECT_TRUE(engine_->fence_all().ok());
}

// A break hides an answer and a refusal behind it. On the next connection the refusal comes first:
// who confirmed everything up to it let the server forget the answer, and a second break left its
// thread waiting for ever.
TEST_F(EngineTest, ARefusalConfirmsNoAnswerThatIsMissing) {
  start(2);
  uint64_t old = 0;
  std::thread adder([&] {
    EXPECT_TRUE(
        engine_->read_modify_write({1, segment}, 0, wire::Rmw::fetch_add_64, 1, 0, &old).ok());
  });
  ASSERT_TRUE(until([&] { return one().got.size() == 1; }));
  put(1, 1);
  ASSERT_TRUE(until([&] { return one().got.size() == 2; }));
  one().refuse(2, 2, "out of range");
  EXPECT_EQ(engine_->fence_node(1).code(), Code::range);
  // Expect: the next request confirms nothing.
  uint64_t value = 0;
  watch(get(1, &value));
  ASSERT_TRUE(until([&] { return one().got.size() == 3; }));
  EXPECT_EQ(one().got[2].request.header.results_received, 0u);
  one().reply(one().got[0], 2, {}, 41);
  one().reply(one().got[2], 3, bytes(0));
  ASSERT_TRUE(until([&] { return watched_ == 0; }));
  adder.join();
  EXPECT_EQ(old, 41u);
  // Expect: it does when the answer is here.
  watch(get(1, &value));
  ASSERT_TRUE(until([&] { return one().got.size() == 4; }));
  EXPECT_EQ(one().got[3].request.header.results_received, 3u);
  one().reply(one().got[3], 4, bytes(0));
  ASSERT_TRUE(until([&] { return watched_ == 0; }));
}

// A thread that waits for a mutex leaves the last slots to others, so it waits while some are free.
// It was not woken when one more was given back, and slept out its time.
TEST_F(EngineTest, ASlotThatSomebodyMayWaitForIsKnown) {
  EngineContext context;
  context.config.control = control_;
  const Lock lock(context.mutex);
  Slots slots(context);
  std::vector<uint32_t> taken;
  for (uint32_t index = 0; slots.take(&index, Slots::Wait::for_ever);) taken.push_back(index);
  ASSERT_TRUE(slots.has(Slots::Wait::answered));
  slots.give_back(taken.back());
  EXPECT_TRUE(slots.has(Slots::Wait::for_ever) && slots.may_be_awaited());
  for (uint32_t index = 0; slots.take(&index);) taken.push_back(index);
  slots.give_back(taken.back());
  EXPECT_TRUE(slots.may_be_awaited());
  slots.give_back(taken.front());
  EXPECT_FALSE(slots.may_be_awaited());
}

}  // namespace
}  // namespace skerry::origin::test
