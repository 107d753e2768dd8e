// What the server does with messages in order, of the past, twice, of the future, and crossing.
#include "fabric/test/forward.hpp"
#include "fabric/test/side.hpp"
#include "server/test/world.hpp"

namespace skerry::server::test {
namespace {

using ServerProtocol = WithOrigin;

TEST_F(ServerProtocol, InOrder) {
  EXPECT_EQ(a.applied, 0u);
  a.put(1, 8, 42);
  a.fetch_add(2, 8, 1);
  a.run([&] { return a.answer_to(2) != nullptr; });
  // Expect: applied in order, and the answer acknowledges both.
  EXPECT_EQ(world.word(8), 43);
  EXPECT_EQ(a.answer_to(2)->reply.result, 42u);
  EXPECT_EQ(a.answer_to(2)->reply.applied, 2u);
}

TEST_F(ServerProtocol, ADuplicatePutIsAcknowledgedAndNotApplied) {
  a.put(1, 8, 1);
  a.put(2, 8, 2);
  a.put(1, 8, 1);
  a.settle();
  // Expect: the past changes nothing.
  EXPECT_EQ(world.word(8), 2);
  EXPECT_TRUE(a.is_open);
  EXPECT_EQ(a.heard.back().reply.applied, 2u);
}

TEST_F(ServerProtocol, ADuplicateFetchAddIsAnsweredFromWhatWasKept) {
  a.fetch_add(1, 8, 5);
  a.settle();
  a.open();  // its connection broke before the answer came
  EXPECT_EQ(a.applied, 1u);
  a.heard.clear();
  a.fetch_add(1, 8, 5);
  a.run([&] { return a.answer_to(1) != nullptr; });
  // Expect: the old result, and the sum once.
  EXPECT_EQ(a.answer_to(1)->reply.result, 0u);
  EXPECT_EQ(world.word(8), 5);
}

// To register a slice makes all its pages.
TEST_F(ServerProtocol, ALongSliceHasAKeyForShortAccessesOnlyOnceALongOneAskedForIt) {
  const auto code_of_key = [&](uint64_t number, uint64_t most_bytes) {
    a.ask_key(number, most_bytes);
    a.run([&] { return a.answer_to(number) != nullptr; });
    return static_cast<Code>(a.answer_to(number)->reply.code);
  };
  EXPECT_EQ(code_of_key(1, slice_bytes - 1), Code::unsupported);
  EXPECT_EQ(code_of_key(2, 0), Code::ok);
  EXPECT_EQ(code_of_key(3, slice_bytes - 1), Code::ok);
  // Expect: the session went on after the refusal.
  a.put(4, 8, 1);
  a.settle();
  EXPECT_EQ(world.word(8), 1);
}

TEST_F(ServerProtocol, AFutureRequestEndsTheConnection) {
  a.put(2, 8, 1);
  a.run([&] { return a.is_closed; });
  // Expect: nothing applied; the session goes on where it was.
  EXPECT_EQ(world.word(8), 0);
  a.open();
  EXPECT_EQ(a.applied, 0u);
  a.put(1, 8, 1);
  a.settle();
  EXPECT_EQ(world.word(8), 1);
}

TEST_F(ServerProtocol, AnOldGenerationIsRefused) {
  a.open();
  a.generation -= 2;
  a.connect();  // a hello that was recorded
  a.run([&] { return a.is_closed; });
  EXPECT_FALSE(a.is_open);
  EXPECT_EQ(world.server().counters().clients.load(), 1u);
}

// With 32 bits an origin was refused for ever after 2^32 connections, 5 days of 10,000 a second.
TEST(ServerWorlds, GenerationsHave64Bits) {
  World world;
  Origin a(world, 1), b(world, 2);
  a.generation = UINT32_MAX - 1;
  a.open();  // 2^32 - 1
  a.put(1, 8, 1);
  a.settle();
  a.open();  // 2^32
  EXPECT_EQ(a.applied, 1u);
  a.break_off();  // from here on 20 bytes are kept of it
  b.open();
  a.generation = UINT32_MAX - 1;
  a.connect();  // a hello that was recorded
  a.run([&] { return a.is_closed; });
  EXPECT_FALSE(a.is_open);
  a.generation = uint64_t{1} << 32;
  a.open();
  EXPECT_EQ(a.applied, 1u);
}

// Crossing: the origin connects anew while the server still reads its old connection.
TEST_F(ServerProtocol, NothingOfAnOldConnectionIsAppliedAfterTheNewOneIsAnswered) {
  a.put(1, 8, 1);
  a.connect();  // its hello and the put are both on their way
  a.run([&] { return a.is_open; });
  const int64_t told = static_cast<int64_t>(a.applied);
  a.settle();
  // Expect: either applied and told, or neither.
  EXPECT_EQ(world.word(8), told);
}

TEST_F(ServerProtocol, RequestsInAnothersNameEndTheConnection) {
  wire::Request r = a.request(wire::Kind::put, 1);
  r.header.origin_rank = 2;
  a.send(r, "12345678");
  a.run([&] { return a.is_closed; });
  EXPECT_EQ(world.word(0), 0);
}

// ---- byes -------------------------------------------------------------------------------------

TEST_F(ServerProtocol, AByeThatAgreesEndsInOrder) {
  a.put(1, 8, 1);
  a.settle();
  a.bye(1);
  a.run([&] { return a.is_closed; });
  EXPECT_EQ(world.server().counters().clients.load(), 0u);
}

TEST_F(ServerProtocol, AByeOfTheFutureIsAnError) {
  a.bye(3);
  a.run([&] { return a.is_closed; });
  a.open();
  EXPECT_EQ(a.applied, 0u);
}

// Guards against: the last result of a rank that did one fetch-and-add was kept for ever.
TEST_F(ServerProtocol, AByeLeavesNothingBehind) {
  world.server().turn(0);
  a.fetch_add(1, 8, 5);
  a.run([&] { return a.answer_to(1) != nullptr; });
  const uint64_t before = world.server().memory().known_bytes;
  a.bye(1);
  a.run([&] { return a.is_closed; });
  EXPECT_LT(world.server().memory().known_bytes, before);
  // Expect: no more than an origin leaves that never had a result.
  World quiet;
  Origin b(quiet, 1);
  b.open();
  b.put(1, 8, 1);
  b.settle();
  b.bye(1);
  b.run([&] { return b.is_closed; });
  EXPECT_EQ(world.server().memory().known_bytes, quiet.server().memory().known_bytes);
}

// A rank that had left took as much as one that is connected, for ever; under a limit it still did
// when it no longer did without.
class RanksThatLeft : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(ServerProtocol, RanksThatLeft, testing::Values(0u, 100u),
                         [](const auto& one) {
                           return one.param == 0 ? std::string("without_a_limit")
                                                 : std::string("under_a_limit");
                         });
TEST_P(RanksThatLeft, TakeLittleAndGoOnWhereTheyWere) {
  constexpr Rank size = 64;
  World world(GetParam(), 0, size);
  std::vector<std::unique_ptr<Origin>> origins;
  for (Rank rank = 1; rank < size; ++rank) {
    Origin& one = *origins.emplace_back(std::make_unique<Origin>(world, rank));
    one.open();
    for (uint64_t number = 1; number <= 3; ++number)
      one.put(number, 8 * static_cast<uint64_t>(rank), rank);
    one.settle();
  }
  const fabric::ConnectionsMemory connected = world.server().memory();
  for (auto& one : origins) {
    one->bye(3);
    one->run([&] { return one->is_closed; });
  }
  const fabric::ConnectionsMemory left = world.server().memory();
  EXPECT_EQ(left.known, connected.known);
  EXPECT_LT(left.known_bytes, connected.known_bytes / 2);
  // Expect: a recorded hello is still refused, and the session goes on.
  Origin& first = *origins.front();
  first.generation -= 1;
  first.connect();
  first.run([&] { return first.is_closed; });
  EXPECT_FALSE(first.is_open);
  first.open();
  EXPECT_EQ(first.applied, 3u);
  first.put(3, 8, 77);  // again: changes nothing
  first.put(4, 16, 78);
  first.settle();
  EXPECT_EQ(world.word(8), 1);
  EXPECT_EQ(world.word(16), 78);
  EXPECT_EQ(world.server().memory().known, connected.known);
}

// ---- refusals ---------------------------------------------------------------------------------

TEST_F(ServerProtocol, ARefusedUnlockIsToldBeforeItIsAcknowledged) {
  a.unlock(1, 0);
  a.run([&] { return !a.heard.empty(); });
  EXPECT_TRUE(a.heard[0].is(wire::AnswerKind::failure));
  EXPECT_EQ(a.heard[0].reply.number, 1u);
}

// Guards against: over libfabric the refusal of an unlock was never told when its connection broke.
// The answer to the next hello said that the unlock was applied, and nothing else.
TEST_F(ServerProtocol, ARefusalThatABreakSwallowedIsAnnouncedAndToldAgain) {
  a.reads = false;
  a.unlock(1, 0);
  a.unlock(2, 1);
  a.settle();
  a.break_off();
  a.reads = true;
  a.open();
  // Expect: "applied" comes with "but refusals follow", and they come before all else.
  EXPECT_EQ(a.applied, 2u);
  EXPECT_TRUE(a.refusals_follow);
  a.run([&] { return a.count(wire::AnswerKind::acknowledge) == 1; });
  ASSERT_EQ(a.heard.size(), 3u);
  EXPECT_TRUE(a.heard[0].is(wire::AnswerKind::failure));
  EXPECT_EQ(a.heard[0].reply.number, 1u);
  EXPECT_TRUE(a.heard[1].is(wire::AnswerKind::failure));
  EXPECT_EQ(a.heard[1].reply.number, 2u);
  EXPECT_NE(a.heard[0].text.find("does not hold"), std::string::npos);
  // Guards against: the fence that tells of it did not say which request it was.
  EXPECT_NE(a.heard[0].text.find("it was unlock 1 of rank "), std::string::npos) << a.heard[0].text;
  // Duplicate: until it is confirmed, after every break.
  a.open();
  EXPECT_TRUE(a.refusals_follow);
  a.results_received = 2;
  a.put(3, 8, 1);
  a.settle();
  a.open();
  EXPECT_FALSE(a.refusals_follow);
}

// ---- locks ------------------------------------------------------------------------------------

// ---- long puts --------------------------------------------------------------------------------

// Its connection ends, with the payload on its way. Guards against: it was not counted, and sent
// again on each next connection.
TEST_F(ServerProtocol, ALongPutThatIsRefusedIsCountedAndToldOnTheNextConnection) {
  const std::string payload(2 * fabric::inline_payload_bytes, 'x');
  const auto refused = [&](const wire::Request& r) {
    a.send(r, payload);
    a.run([&] { return a.is_closed; });
    a.heard.clear();
    a.open();
    // Expect: the origin resumes past it, and hears why.
    EXPECT_EQ(a.applied, r.header.number);
    EXPECT_TRUE(a.refusals_follow);
    a.run([&] { return a.count(wire::AnswerKind::failure) == 1; });
    EXPECT_EQ(a.heard[0].reply.number, r.header.number);
    a.results_received = r.header.number;
    return a.heard[0].reply.code;
  };
  wire::Request r = a.request(wire::Kind::put, 1);
  r.header.segment_generation = segment.generation + 7;
  EXPECT_EQ(refused(r), static_cast<int>(Code::freed));
  r = a.request(wire::Kind::put, 2);
  r.header.offset = slice_bytes - 8;  // leaves the slice
  EXPECT_EQ(refused(r), static_cast<int>(Code::range));
  EXPECT_EQ(world.word(0), 0);
  EXPECT_EQ(world.word(slice_bytes - 8), 0);
  a.put(3, 8, 42);
  a.run([&] { return world.word(8) == 42; });
}

// ---- puts that were announced ------------------------------------------------------------------

constexpr uint64_t landing_at = 4096, counter_at = 64;
constexpr Rank sender = 1;  // of `a`

wire::Request notifying_put(Origin& a, uint64_t number) {
  wire::Request r = a.request(wire::Kind::put, number);
  r.header.offset = landing_at;
  r.header.flags = wire::flag_notify;
  r.notify = {counter_at, 1};
  return r;
}

// Placed by the fabric while it arrives, and short enough to come as a message.
TEST_F(ServerProtocol, AnAnnouncedPutGoesToTheProgramsBufferOnce) {
  const Landings::Place place{segment, 0, landing_at};
  uint64_t number = 0;
  for (const uint64_t bytes :
       {Landings::least_bytes, uint64_t{fabric::inline_payload_bytes},
        uint64_t{2 * fabric::inline_payload_bytes}}) {
    const std::string payload(bytes, static_cast<char>('a' + number)), nothing(bytes, '\0');
    std::string buffer = nothing;
    world.landings.announce(place, sender, reinterpret_cast<std::byte*>(buffer.data()), bytes);
    a.send(notifying_put(a, ++number), payload);
    a.run([&] { return world.word(counter_at) == static_cast<int64_t>(number); });
    EXPECT_EQ(world.landings.take(place), reinterpret_cast<std::byte*>(buffer.data()));
    EXPECT_EQ(buffer, payload);
    // Expect: the slice has what it had; the next one, not announced, goes there.
    EXPECT_EQ(world.word(landing_at), 0);
  }
  const std::string payload(Landings::least_bytes, 'x');
  a.send(notifying_put(a, ++number), payload);
  a.run([&] { return world.word(counter_at) == static_cast<int64_t>(number); });
  EXPECT_EQ(world.landings.take(place), nullptr);
  EXPECT_EQ(world.text(landing_at, payload.size()), payload);
}

// Guards against: bytes of another put over the end of the buffer.
TEST_F(ServerProtocol, APutThatIsNotWhatWasAnnouncedGoesIntoItsSegment) {
  const Landings::Place place{segment, 0, landing_at};
  const std::string payload(2 * Landings::least_bytes, 'x');
  std::string buffer(payload.size(), '\0');
  const std::string untouched = buffer;
  auto* const to = reinterpret_cast<std::byte*>(buffer.data());
  uint64_t number = 0;
  const auto comes = [&](const wire::Request& r) {
    a.send(r, payload);
    ++number;
    a.put(number, 8, static_cast<int64_t>(number));
    a.run([&] { return world.word(8) == static_cast<int64_t>(number); });
    EXPECT_EQ(buffer, untouched);
    EXPECT_EQ(world.landings.take(place), nullptr);
  };
  world.landings.announce(place, sender, to, payload.size() - 8);  // shorter
  comes(notifying_put(a, ++number));
  world.landings.announce(place, sender + 1, to, payload.size());  // of another rank
  comes(notifying_put(a, ++number));
  world.landings.announce(place, sender, to, payload.size());
  wire::Request r = notifying_put(a, ++number);
  r.header.offset += 8;  // elsewhere
  comes(r);
  world.landings.announce(place, sender, to, payload.size());
  r = notifying_put(a, ++number);
  r.header.flags = 0;  // of which nobody hears
  comes(r);
  EXPECT_EQ(world.text(landing_at, payload.size()), payload);
}

TEST_F(ServerProtocol, NothingIsWrittenToABufferWhoseAnnouncementWasWithdrawn) {
  const Landings::Place place{segment, 0, landing_at};
  const std::string payload(Landings::least_bytes, 'x');
  std::string buffer(payload.size(), '\0');
  const std::string untouched = buffer;
  auto* const to = reinterpret_cast<std::byte*>(buffer.data());
  world.landings.announce(place, sender, to, payload.size());
  world.landings.announce({mutexes, 0, 0}, sender, to, payload.size());  // stays: another segment
  EXPECT_FALSE(world.landings.withdraw(segment)) << "nothing of it is on its way";
  a.send(notifying_put(a, 1), payload);
  a.run([&] { return world.word(counter_at) == 1; });
  EXPECT_EQ(buffer, untouched);
  EXPECT_EQ(world.text(landing_at, payload.size()), payload);
  EXPECT_NE(world.landings.begin({mutexes, 0, 0}, sender, payload.size()), nullptr);
  // Expect: a payload that has begun is said to be on its way.
  EXPECT_TRUE(world.landings.withdraw(mutexes));
  EXPECT_EQ(world.landings.begin({mutexes, 0, 0}, sender, payload.size()), nullptr);
}

// ---- long gets --------------------------------------------------------------------------------

// The answer was sent from memory that was gone. The kernel notices that; a server that copies
// parts of a long payload itself was killed by it, and its node's ranks with it.
TEST(ServerWorlds, ALongGetOfASegmentThatIsFreedIsRefusedOnTheNextConnection) {
  constexpr uint64_t bytes = 2 * fabric::inline_payload_bytes;
  for (void (Origin::*get)(uint64_t, uint64_t) : {&Origin::get, &Origin::get_strided}) {
    World world;
    Origin a(world, 1), b(world, 2);
    a.open();
    b.open();
    (b.*get)(1, bytes);
    b.run([&] { return b.answer_to(1) != nullptr; });
    a.reads = false;
    (a.*get)(1, bytes);
    a.settle();
    world.free_segment();
    a.reads = true;
    a.run([&] { return a.is_closed; });
    a.heard.clear();
    a.open();
    (a.*get)(1, bytes);
    a.run([&] { return a.answer_to(1) != nullptr; });
    EXPECT_EQ(a.answer_to(1)->reply.code, static_cast<int>(Code::freed));
    // Expect: the one whose answer is read already notices nothing.
    b.settle();
    EXPECT_TRUE(b.is_open);
  }
}

// It ended the data server's process where long payloads go through other servers in parts.
TEST(ServerWorlds, AGetOfMoreThanTheFabricSendsInOneMessageIsRefused) {
  constexpr uint64_t most = 2 * fabric::inline_payload_bytes;
  for (void (Origin::*get)(uint64_t, uint64_t) : {&Origin::get, &Origin::get_strided}) {
    World world(0, 0, ranks, most);
    Origin a(world, 1);
    a.open();
    (a.*get)(1, most + 4096);
    a.run([&] { return a.answer_to(1) != nullptr; });
    EXPECT_EQ(a.answer_to(1)->reply.code, static_cast<int>(Code::invalid));
    (a.*get)(2, most);
    a.run([&] { return a.answer_to(2) != nullptr; });
    EXPECT_EQ(a.answer_to(2)->reply.code, 0);
  }
}

TEST_F(ServerProtocol, QuietNotificationsAreAcknowledgedTogetherOrByTimer) {
  const auto notify = [&](uint64_t number) {
    wire::Request r = a.request(wire::Kind::put, number);
    r.header.flags = wire::flag_notify | wire::flag_more;
    r.notify = {64, 1};
    a.send(r, "12345678");
  };
  const auto told = [&] { return a.heard.empty() ? 0 : a.heard.back().reply.applied; };
  // Expect: many of them, one acknowledgement, although nothing else is sent.
  constexpr uint64_t many = 200;
  for (uint64_t number = 1; number <= many; ++number) notify(number);
  a.run([&] { return told() == many; });
  EXPECT_EQ(world.word(64), static_cast<int64_t>(many));
  EXPECT_LT(a.count(wire::AnswerKind::acknowledge), many / 10);
  // Expect: a put that a fence waits for is acknowledged at once, with what is before it.
  notify(many + 1);
  a.put(many + 2, 0, 7);
  a.run([&] { return told() == many + 2; });
}

// Mutex 0, each with its first request.
void one_waits_for(Origin& holder, Origin& waiter) {
  holder.lock(1, 0);
  holder.run([&] { return holder.granted(1); });
  waiter.lock(1, 0);
  waiter.run([&] { return waiter.count(wire::AnswerKind::acknowledge) == 1; });
}

TEST_F(ServerProtocol, ALockIsHandedOverToTheConnectionOfTheNextWaiter) {
  Origin b(world, 2);
  b.open();
  one_waits_for(a, b);
  EXPECT_FALSE(b.granted(1));
  a.unlock(2, 0);
  b.run([&] { return b.granted(1); });
}

// Two servers of the node: ranks 1 and 3 are origins of the second one, rank 2 of the first.
TEST(ServerWorlds, ALockIsHandedOverBetweenTwoServersOfANode) {
  World world(0, 0, ranks, fabric::LoopCapabilities().max_payload_bytes, 2);
  Origin a(world, 1), b(world, 2), c(world, 3);
  a.open();
  b.open();
  c.open();
  one_waits_for(a, b);
  c.lock(1, 0);
  c.run([&] { return c.count(wire::AnswerKind::acknowledge) == 1; });
  // Expect: each hears it over its own connection, in the order of asking.
  a.unlock(2, 0);
  b.run([&] { return b.granted(1); });
  c.settle();
  EXPECT_FALSE(c.granted(1));
  b.unlock(2, 0);
  c.run([&] { return c.granted(1); });
  c.unlock(2, 0);
  c.run([&] { return world.mutex(0).word.load() == 0; });
}

// A lock that is asked for again, after a break: its rank must learn that the server looked. The
// end of the connection does not say so, since it might have come for want of slots.
TEST_F(ServerProtocol, AByeBehindALockThatIsAskedForAgainIsAnswered) {
  Origin b(world, 2);
  b.open();
  one_waits_for(a, b);
  b.break_off();
  b.open();
  b.lock(1, 0);
  b.bye(1);
  b.run([&] { return b.count(wire::CloseKind::bye_answer) == 1; });
  EXPECT_FALSE(b.granted(1));
}

// The second server's client left while it waited: the first server tells its node, on its own
// thread. Guards against: the second one told that node itself. Each would count connections for
// itself then, and the other node refuses a count that does not grow.
TEST(ServerWorlds, OneServerOfANodeSendsGrantsToOtherNodes) {
  World world(0, 0, ranks, fabric::LoopCapabilities().max_payload_bytes, 2);
  Origin b(world, 2), c(world, 3);
  b.open();
  c.open();
  b.lock(1, 0);
  b.run([&] { return b.granted(1); });
  c.lock(1, 0);
  c.run([&] { return c.count(wire::AnswerKind::acknowledge) == 1; });
  c.bye(1);
  c.run([&] { return c.is_closed; });
  ASSERT_EQ(world.server_index_of(2), 0);
  ASSERT_EQ(world.server_index_of(3), 1);
  fabric::test::Side node(nullptr);  // what `elsewhere` hears
  node.accept_requests = false;
  const auto hears = [&] {
    world.elsewhere().poll(0, fabric::no_endpoint);
    world.elsewhere().dispatch(node);
    return !node.hellos.empty();
  };
  b.unlock(2, 0);
  // Expect: the first one applies it and leaves c to the second one, ...
  while (world.mutex(0).word.load() != lock::make_holder(3, 1)) world.turn_of(0);
  for (int i = 0; i < 20; ++i) world.turn_of(1);
  // ... which leaves the telling to the first one.
  EXPECT_FALSE(hears());
  for (int i = 0; i < 20 && !hears(); ++i) world.turn_of(0);
  ASSERT_TRUE(hears());
  connection::Hello hello;
  const connection::Peer peer{3, 0, wire::version, connection::Role::server};
  EXPECT_TRUE(connection::check_hello(world.key(), peer, fabric::test::as_bytes(node.hellos.at(0)),
                                      &hello, connection::Role::relay)
                  .ok());
  EXPECT_EQ(hello.rank, 0u);  // of the node, not of a server of it
}

// Another node's server opens a connection; then somebody repeats that hello, and an earlier one.
TEST(ServerWorlds, ARecordedHelloOfAnotherServerIsRefused) {
  World world;
  fabric::test::Side node(world.make_fabric());
  const auto open = [&](uint64_t generation) {
    const connection::Peer peer{0, 0, wire::version, connection::Role::server};
    const auto hello = connection::make_hello(world.key(), peer, 3, generation,
                                              connection::Role::relay);
    fabric::EndpointId endpoint = fabric::no_endpoint;
    ASSERT_TRUE(node.fabric->connect(world.address(0), hello, &endpoint).ok());
    for (int i = 0; i < 20; ++i) {
      world.turn();
      node.step();
    }
  };
  open(2);
  ASSERT_EQ(node.connected.size(), 1u);
  open(2);
  open(1);
  EXPECT_EQ(node.connected.size(), 1u);
  EXPECT_EQ(node.closed.size(), 2u);
  EXPECT_EQ(std::ranges::count(node.closed, node.connected[0]), 0);
  open(3);  // the server's own next one: its earlier one broke
  EXPECT_EQ(node.connected.size(), 2u);
  EXPECT_EQ(node.closed.back(), node.connected[0]);
}

// Guards against: the thread of one server was held up with a hand-over. Meanwhile the rank had
// found that it holds the lock, gave it back and asked for another with the same slot. The late
// telling took the place of the newer one, for which the rank then waited for ever.
TEST(Relay, AnEarlierUseOfASlotDoesNotReplaceALaterOne) {
  World world;
  const auto fabric = world.make_fabric();
  const ServerConfig config{{0, 0}, world.key(), ranks, 0};
  NodeView view;
  view.map = &world.map();
  Counters counters;
  Relay relay(config, view, *fabric, counters);
  const auto tag = [&] {
    EXPECT_EQ(relay.waiting(3).size(), 1u);
    return relay.waiting(3).front().tag;
  };
  constexpr uint32_t last_tag = (1u << 30) - 1;
  relay.send(3, 5, last_tag - 1);
  relay.send(3, 5, last_tag);
  EXPECT_EQ(tag(), last_tag);
  relay.send(3, 5, 0);  // tags wrap
  EXPECT_EQ(tag(), 0u);
  relay.send(3, 5, last_tag);
  EXPECT_EQ(tag(), 0u);
}

// Guards against: when no record for one more waiter was left, the server stopped the session of
// the request, and behind it the holder's own unlock. 67 threads of one rank that waited for one
// mutex waited for ever.
TEST(ServerWorlds, WithoutAWaitersRecordTheSessionGoesOn) {
  World world(0, 4);
  const uint32_t records = world.control().layout().waiters - 1;
  Origin a(world, 1);
  a.open();
  uint64_t number = 0;
  a.lock(++number, 0, 1);
  const uint32_t threads = records + 5;
  for (uint32_t thread = 2; thread <= threads; ++thread) a.lock(++number, 0, thread);
  a.settle();
  EXPECT_TRUE(a.granted(1));
  for (uint32_t thread = 1; thread <= threads; ++thread) {
    a.run([&] { return a.granted(thread); });
    // Expect: one holder, in the order of asking, also of those that had no record.
    if (thread < threads) {
      EXPECT_FALSE(a.granted(thread + 1));
    }
    a.unlock(++number, 0, thread);
  }
  a.run([&] { return world.mutex(0).word.load() == 0; });
}

TEST(ServerWorlds, ALockThatIsKeptIsRefusedWhenItsMemoryGoes) {
  World world(0, 4);
  const uint32_t records = world.control().layout().waiters - 1;
  Origin a(world, 1), b(world, 2);
  a.open();
  b.open();
  for (uint32_t thread = 1; thread <= records + 1; ++thread) a.lock(thread, 0, thread);
  a.settle();
  b.lock(1, 0);
  b.settle();
  world.lose_mutexes();
  b.run([&] { return b.answer_to(1) != nullptr; });
  EXPECT_EQ(b.answer_to(1)->reply.code, static_cast<int>(Code::freed));
}

// Late: the connection broke while it waited, and the grant was sent into the void.
TEST_F(ServerProtocol, AGrantThatWasLostIsToldWhenAskedAgain) {
  Origin b(world, 2);
  b.open();
  a.lock(1, 0);
  a.settle();
  b.lock(1, 0);
  b.settle();
  b.reads = false;
  a.unlock(2, 0);
  a.settle();
  b.break_off();
  b.reads = true;
  b.heard.clear();
  b.open();
  b.lock(1, 0);
  b.run([&] { return b.granted(1); });
}

// Duplicate: a get that took a lock along comes again while the next request of its session waits
// for a stripe, with a lock of its own. Guards against: the get was read without its lock, which
// was then released although somebody else had it.
TEST_F(ServerProtocol, AnAccessThatComesAgainTakesItsOwnLock) {
  Origin b(world, 2);
  b.open();
  const lock::Holder reader = lock::make_holder(1, 1) | lock::shared_bit;
  b.locked(wire::Kind::get, 1, 0, lock::make_holder(2, 1) | lock::shared_bit, 0);
  b.run([&] { return b.answer_to(1) != nullptr; });
  EXPECT_EQ(world.mutex(0).word.load(), 0u);
  world.mutex(0).word = lock::shared_bit | 1;  // rank 0 shares it
  const memory::Stripes stripes(world.control().stripes(), 0, world.control().watch());
  ASSERT_EQ(stripes.lock(memory::stripe_index(7, 0), memory::Patience::try_once),
            LockResult::locked);
  a.reads = false;
  a.locked(wire::Kind::get, 1, 0, reader, 0);
  a.locked(wire::Kind::accumulate, 2, 1, lock::make_holder(1, 2), 0);
  a.settle();
  EXPECT_NE(world.mutex(1).word.load(), 0u);
  a.break_off();
  a.reads = true;
  a.open();
  EXPECT_EQ(a.applied, 1u);
  a.locked(wire::Kind::get, 1, 0, reader, 0);
  a.run([&] { return a.answer_to(1) != nullptr; });
  // Expect: rank 0 shares it as before.
  EXPECT_EQ(world.mutex(0).word.load(), lock::shared_bit | 1);
  stripes.unlock(memory::stripe_index(7, 0));
  a.locked(wire::Kind::accumulate, 2, 1, lock::make_holder(1, 2), 0);
  a.run([&] { return a.answer_to(2) != nullptr; });
  EXPECT_EQ(world.word(0), 1);
  EXPECT_EQ(world.mutex(1).word.load(), 0u);
}

// Guards against: its holder asked for it once more, to share it, and was told that it holds it.
TEST_F(ServerProtocol, AReleaseThatIsOwedKeepsItsHolderFromNothing) {
  Origin b(world, 2);
  b.open();
  const lock::Holder holder = lock::make_holder(1, 1);
  const memory::Stripes stripes(world.control().stripes(), 0, world.control().watch());
  ASSERT_EQ(stripes.lock(memory::stripe_index(7, 0), memory::Patience::try_once),
            LockResult::locked);
  a.locked(wire::Kind::accumulate, 1, 0, holder, 0);
  a.settle();
  b.lock(1, 0);
  b.settle();
  ASSERT_TRUE(world.mutex(0).guard.try_lock(0));  // rank 0 stops while it changes the queue
  stripes.unlock(memory::stripe_index(7, 0));
  a.run([&] { return a.answer_to(1) != nullptr; });
  a.lock(2, 0, 1, lock::shared_bit);
  a.settle();
  EXPECT_FALSE(b.granted(1));
  EXPECT_EQ(a.answer_to(2), nullptr);  // it is not refused
  (void)world.mutex(0).guard.release();
  b.run([&] { return b.granted(1); });
  b.unlock(2, 0);
  a.heard.clear();
  a.run([&] { return a.granted(1); });
}

// ---- connection slots -------------------------------------------------------------------------

TEST(ServerSlots, ANewcomerIsToldToWaitAndGetsTheSlotOfAnIdleClient) {
  World world(1);
  Origin a(world, 1), b(world, 2);
  a.open();
  a.put(1, 8, 1);
  a.settle();
  b.connect();
  b.run([&] { return b.was_held || b.is_open; });
  b.run([&] { return b.is_open; });
  a.run([&] { return a.is_closed; });
  EXPECT_EQ(world.server().counters().clients_peak.load(), 1u);
}

// Guards against: a stopped reader with unsent answers could be neither dropped nor drained. A
// newcomer waited for half a minute.
TEST(ServerSlots, AStoppedReaderLosesItsSlot) {
  World world(1);
  Origin a(world, 1), b(world, 2);
  a.open();
  a.reads = false;
  // Answers of 60,000 bytes each until neither the fabric nor the server takes more.
  for (uint64_t number = 1; number <= 12; ++number) {
    wire::Request r = a.request(wire::Kind::get, number);
    r.extent_bytes = 60'000;
    r.header.reply_slot = static_cast<uint32_t>(number);
    a.send(r);
    a.settle();
  }
  b.connect();
  b.run([&] { return b.was_held; });
  b.run([&] {
    world.server().turn(1'000'000);
    return b.is_open;
  });
  // Expect: nothing is lost; its session goes on when it reads again.
  a.reads = true;
  a.run([&] { return a.is_closed; });
  const uint64_t applied = 12;
  b.bye(0);
  a.heard.clear();
  a.open();
  EXPECT_LE(a.applied, applied);
  a.put(a.applied + 1, 8, 7);
  a.run([&] { return world.word(8) == 7; });
}

TEST(ServerSlots, SlotsAndClientsAgreeHoweverConnectionsEnd) {
  World world(2);
  Origin a(world, 1), b(world, 2), c(world, 3);
  a.open();
  b.open();
  a.break_off();
  c.open();
  c.break_off();
  c.open();  // duplicate: its old connection is not known to have ended
  b.bye(0);
  b.run([&] { return b.is_closed; });
  b.open();
  a.open();
  EXPECT_LE(world.server().counters().clients_peak.load(), 2u);
}

// A fabric that still has something of each endpoint to send, whose end is here or not.
class Unsent final : public fabric::Forward {
 public:
  using Forward::Forward;
  uint64_t unsent_bytes(fabric::EndpointId) const override { return 1; }
  fabric::SendResult flush(fabric::EndpointId) override {
    return has_ended ? fabric::SendResult::closed : fabric::SendResult::accepted;
  }
  bool has_ended = false;
};

// Guards against: an origin died with an answer half sent. Its server looked at its next request
// again and again, used a core, and never came to the end of the connection. Seen in a storm.
TEST(ServerAnswers, WhatHasEndedIsServedThoughAnAnswerIsUnderWay) {
  World world;
  Unsent fabric(world.make_fabric());
  Answers answers(fabric);
  Client client;
  client.keep().sending.emplace_back();
  client.keep().late.emplace_back();
  EXPECT_FALSE(answers.has_room(client));
  EXPECT_EQ(client.late(), 1u);
  fabric.has_ended = true;
  EXPECT_TRUE(answers.has_room(client));
  EXPECT_EQ(client.late(), 0u);
}

}  // namespace
}  // namespace skerry::server::test
