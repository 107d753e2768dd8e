// The launcher's pure parts: command line, placement, exchange, lines, plan.
#include <gtest/gtest.h>

#include <random>

#include "launcher/auth.hpp"
#include "launcher/describe.hpp"
#include "launcher/exchange.hpp"
#include "launcher/limits.hpp"
#include "launcher/meetings.hpp"
#include "launcher/options.hpp"
#include "launcher/output.hpp"
#include "launcher/plan.hpp"
#include "launcher/variables.hpp"

namespace skerry::launcher {
namespace {

std::string parse_error(const std::vector<std::string>& words) {
  RunOptions options;
  Status status = parse_run_options(words, &options);
  Placement placement;
  if (status.ok()) status = place(&options, "here", &placement);
  EXPECT_FALSE(status.ok());
  return status.message();
}

TEST(RunOptions, EverySpellingIsUnderstoodAndTheProgramsArgumentsAreLeftAlone) {
  RunOptions options;
  ASSERT_TRUE(
      parse_run_options(std::vector<std::string>{"-n", "4", "--nodes=2", "-l", "--env", "A=b",
                                                 "--bind", "core", "prog", "-n", "9"},
                        &options)
          .ok());
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.nodes, 2);
  EXPECT_TRUE(options.prefix);
  EXPECT_EQ(options.bind, Bind::core);
  EXPECT_EQ(options.environment, std::vector<std::string>{"A=b"});
  EXPECT_EQ(options.command, (std::vector<std::string>{"prog", "-n", "9"}));
  RunOptions joined;
  ASSERT_TRUE(parse_run_options(std::vector<std::string>{"-n3", "--", "-odd-name"}, &joined).ok());
  EXPECT_EQ(joined.ranks, 3);
  EXPECT_EQ(joined.command, std::vector<std::string>{"-odd-name"});
}

TEST(Limits, MoreRanksThanTheMachineHoldsAreRefusedBeforeTheyStart) {
  EXPECT_TRUE(check_room(1000, Room{}).ok());
  Room room{1024, 4096, uint64_t{8} << 30};
  EXPECT_TRUE(check_room(200, room).ok());
  const auto expect = [&](int ranks, const char* words) {
    const std::string message = check_room(ranks, room).message();
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  expect(300, "ulimit -n");
  EXPECT_TRUE(check_room_for_hosts(400, room).ok());
  EXPECT_NE(check_room_for_hosts(500, room).message().find("ulimit -n"), std::string::npos);
  room.descriptors = 1 << 20;
  expect(5000, "ulimit -u");
  room.processes = 0;
  expect(100'000, "KiB of memory each");
}

TEST(RunOptions, CountersAreAVariableOfTheRanks) {
  RunOptions options;
  ASSERT_TRUE(
      parse_run_options(std::vector<std::string>{"-n", "2", "--counters", "prog"}, &options).ok());
  EXPECT_EQ(options.environment, std::vector<std::string>{"SKERRY_COUNTERS=1"});
}

TEST(RunOptions, AMistakeIsNamedWithItsRemedy) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--node", "2", "x"}, "did you mean --nodes"},
      {{"-n", "0", "x"}, "at least 1, not \"0\""},
      {{"-n", "4x", "x"}, "not \"4x\""},
      {{"-n"}, "needs a value"},
      {{"-n", "2"}, "no program to run"},
      {{"x"}, "how many ranks"},
      {{"-n", "2", "--nodes", "3", "x"}, "--nodes 2 or fewer"},
      {{"-n", "2", "--bind", "socket", "x"}, "\"none\" or \"core\""},
      {{"--hosts", "a:b", "x"}, "host \"a:b\""},
      {{"--hosts", "-oProxyCommand=x", "x"}, "may not begin"},
      {{"--hosts", "a:1,b:1", "-n", "3", "x"}, "only 2 slots"},
      {{"--hosts", "a:3,b:1", "--nodes", "2", "x"},
       "would put ranks 2 and 3 of hosts a and b on one node"},
      {{"-l=yes", "-n", "1", "x"}, "unknown option"},
      {{"--prefix=yes", "-n", "1", "x"}, "takes no value"},
      {{"--env", "=1", "-n", "1", "x"}, "--env needs"},
      {{"--elastic", "hosts", "-n", "1", "x"}, "--elastic needs --spares K"},
      {{"--elastic", "hosts", "--spares", "3", "--hosts", "a:2,b:2", "x"}, "give 1 spares less"},
  };
  for (const auto& [words, expected] : mistakes) {
    const std::string message = parse_error(words);
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

TEST(Variables, RanksWouldFindTheseSoTheyAreChecked) {
  const char* const mine[] = {"SKERRY_SLOTS=lots", "PATH=/bin", nullptr};
  Config config;
  EXPECT_FALSE(read_variables(mine, {}, &config).ok());
  // --env is what ranks find.
  const std::vector<std::string> better = {"SKERRY_SLOTS=64", "PATH"};
  EXPECT_TRUE(read_variables(mine, better, &config).ok());
  EXPECT_EQ(config.slots, 64u);
  // Two variables are known to other rooms than the configuration's.
  for (const char* const wrong : {"SKERRY_VICTIM=oldest", "SKERRY_LOCK=fairest"}) {
    const char* const one[] = {wrong, nullptr};
    const Status status = read_variables(one, {}, &config);
    EXPECT_NE(status.message().find(wrong), std::string::npos) << wrong;
  }
}

TEST(Variables, OneForOtherLaunchersHasNoEffect) {
  Config config;
  EXPECT_EQ(idle_variable(config, 1), "");
  config.nodes = 4;
  EXPECT_EQ(idle_variable(config, 4), "");
  EXPECT_NE(idle_variable(config, 1).find("give --nodes 4"), std::string::npos);
}

TEST(Placement, HostsAreFilledInOrderAndEachIsANode) {
  RunOptions options;
  ASSERT_TRUE(
      parse_run_options(
          std::vector<std::string>{"--hosts", "a:2,b,a:1,[fe80::1]:2", "-n", "5", "x"}, &options)
          .ok());
  Placement placement;
  ASSERT_TRUE(place(&options, "here", &placement).ok());
  ASSERT_EQ(placement.hosts.size(), 3u);
  EXPECT_EQ(placement.hosts[0].host, "a");
  EXPECT_EQ(placement.hosts[0].ranks.size(), 3u);
  EXPECT_EQ(placement.hosts[1].ranks[0].rank, 3u);
  EXPECT_EQ(placement.hosts[2].host, "fe80::1");
  EXPECT_EQ(placement.hosts[2].ranks[0].node, 2u);
  EXPECT_EQ(placement.nodes, 3);
}

TEST(Placement, VirtualNodesDivideHosts) {
  RunOptions options;
  ASSERT_TRUE(parse_run_options(std::vector<std::string>{"--hosts", "a:2,b:2", "--nodes", "4", "x"},
                                &options)
                  .ok());
  Placement placement;
  ASSERT_TRUE(place(&options, "here", &placement).ok());
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(placement.hosts[1].ranks[1].node, 3u);
}

TEST(Placement, SparesWithoutASlotComeLaterOnNodesAsLargeAsTheLargest) {
  RunOptions options;
  ASSERT_TRUE(parse_run_options(std::vector<std::string>{"--hosts", "a:2,b:1,c:1", "-n", "3",
                                                         "--spares", "5", "--elastic", "f", "x"},
                                &options)
                  .ok());
  Placement placement;
  ASSERT_TRUE(place(&options, "here", &placement).ok());
  EXPECT_EQ(placement.ranks, 8);
  EXPECT_EQ(placement.nodes, 5);
  EXPECT_EQ(placement.late, 4);
  EXPECT_EQ(placement.late_per_node, 2);
  EXPECT_EQ(placement.hosts.size(), 3u);
  EXPECT_EQ(placement.late_node(4), 3);
  EXPECT_EQ(placement.late_node(5), 3);
  EXPECT_EQ(placement.late_node(7), 4);
}

TEST(Placement, WithAnElasticFileAllSlotsThatAreThereAreAtWork) {
  RunOptions options;
  ASSERT_TRUE(parse_run_options(std::vector<std::string>{"--hosts", "a:2,b:2", "--spares", "2",
                                                         "--elastic", "f", "x"},
                                &options)
                  .ok());
  Placement placement;
  ASSERT_TRUE(place(&options, "here", &placement).ok());
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(placement.late, 2);
}

TEST(HostFile, BothSpellingsAndComments) {
  std::vector<Host> hosts;
  ASSERT_TRUE(parse_hostfile("# cluster\na slots=4\n\nb:2  # slow\nc\n", &hosts).ok());
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(hosts[0].slots, 4);
  EXPECT_EQ(hosts[1].slots, 2);
  EXPECT_EQ(hosts[2].slots, 1);
  EXPECT_FALSE(parse_hostfile("a cores=4\n", &hosts).ok());
  std::vector<Host> none;
  EXPECT_FALSE(parse_hostfile("# nothing\n", &none).ok());
  EXPECT_TRUE(parse_host_lines("# nothing\n", &none).ok());
}

std::vector<std::byte> some_bytes() { return std::vector<std::byte>(3, std::byte{1}); }

TEST(Exchange, AFenceIsDoneWhenAllAreInIt) {
  Exchange exchange(2);
  ASSERT_TRUE(exchange.hello(0).ok());
  ASSERT_TRUE(exchange.put(0, "k", some_bytes()).ok());
  ASSERT_TRUE(exchange.fence(0).ok());
  EXPECT_EQ(exchange.advance(), Exchange::Event::none);
  ASSERT_TRUE(exchange.hello(1).ok());
  ASSERT_TRUE(exchange.fence(1).ok());
  EXPECT_EQ(exchange.advance(), Exchange::Event::fence_done);
  EXPECT_EQ(exchange.advance(), Exchange::Event::none);
  EXPECT_TRUE(exchange.get(0, "k").has_value());
  EXPECT_FALSE(exchange.get(1, "k").has_value());
  EXPECT_FALSE(exchange.get(7, "k").has_value());
}

// What the frames of get_all list: rank and first byte of its value.
std::vector<std::pair<uint32_t, int>> listed(const std::vector<Exchange::Payload>& frames) {
  std::vector<std::pair<uint32_t, int>> found;
  for (const auto& payload : frames) {
    job::FrameReader reader(job::Frame{job::FrameType::values, 0, *payload});
    EXPECT_EQ(reader.u8(), &payload == &frames.back() ? 1 : 0);
    while (reader.ok() && !reader.done()) {
      const uint32_t first = reader.u32(), count = reader.u32();
      const auto value = reader.bytes(reader.u32());
      for (uint32_t rank = first; rank < first + count; ++rank)
        found.emplace_back(rank, value.empty() ? -1 : static_cast<int>(value[0]));
    }
    EXPECT_TRUE(reader.ok());
    EXPECT_LE(payload->size(), job::max_values_payload);
  }
  return found;
}

TEST(Exchange, OneAnswerListsEveryRanksValueAndOneFindsTheLowestRank) {
  Exchange exchange(3);
  for (const uint32_t rank : {0u, 1u, 2u}) ASSERT_TRUE(exchange.hello(rank).ok());
  EXPECT_TRUE(listed(exchange.get_all("k")).empty());
  const std::vector<std::byte> a(1, std::byte{7}), b(1, std::byte{8});
  ASSERT_TRUE(exchange.put(2, "k", a).ok());
  ASSERT_TRUE(exchange.put(0, "k", b).ok());
  EXPECT_EQ(listed(exchange.get_all("k")), (std::vector<std::pair<uint32_t, int>>{{0, 8}, {2, 7}}));
  ASSERT_TRUE(exchange.put(1, "k", a).ok());  // after the list was made
  EXPECT_EQ(listed(exchange.get_all("k")),
            (std::vector<std::pair<uint32_t, int>>{{0, 8}, {1, 7}, {2, 7}}));
  EXPECT_EQ(exchange.lowest("k", a), 1u);
  EXPECT_EQ(exchange.lowest("k", b), 0u);
  EXPECT_EQ(exchange.lowest("l", a), std::nullopt);
  for (const uint32_t rank : {0u, 1u, 2u}) ASSERT_TRUE(exchange.finish(rank).ok());
  EXPECT_EQ(exchange.advance(), Exchange::Event::finish_done);
  EXPECT_TRUE(listed(exchange.get_all("k")).empty());
  EXPECT_EQ(exchange.lowest("k", a), std::nullopt);
}

TEST(Exchange, ALongListComesInSeveralFrames) {
  Exchange exchange(100);
  for (uint32_t rank = 0; rank < 100; ++rank) {
    ASSERT_TRUE(exchange.hello(rank).ok());
    const std::vector<std::byte> value(job::max_value_bytes, static_cast<std::byte>(rank));
    ASSERT_TRUE(exchange.put(rank, "k", value).ok());
  }
  EXPECT_GT(exchange.get_all("k").size(), 3u);
  EXPECT_EQ(listed(exchange.get_all("k")).size(), 100u);
}

// The list of all ranks' hosts grew with the ranks, and every node's leader reads it: 40 MB each of
// a job of a million ranks.
TEST(Exchange, RanksInARowThatSayTheSameAreListedOnce) {
  Exchange exchange(6400);
  std::vector<std::pair<uint32_t, int>> expected;
  for (uint32_t rank = 0; rank < 6400; ++rank) {
    ASSERT_TRUE(exchange.hello(rank).ok());
    const uint32_t node = rank / 64;
    ASSERT_TRUE(exchange.put(rank, "k", std::vector<std::byte>(32, std::byte(node))).ok());
    expected.emplace_back(rank, static_cast<int>(node));
  }
  EXPECT_EQ(listed(exchange.get_all("k")), expected);
  EXPECT_EQ(exchange.get_all("k").size(), 1u);
  EXPECT_LE(exchange.get_all("k")[0]->size(), 1 + 100 * (12 + 32));
}

TEST(Exchange, CountsAgreeWithALookAtEveryRankWhateverHappens) {
  std::mt19937 random(1);  // the seed replays a failure
  for (int round = 0; round < 300; ++round) {
    const auto size = static_cast<uint32_t>(1 + random() % 5);
    Exchange exchange(size);
    struct Seen {
      RankState state = RankState::absent;
      bool gone = false, tolerated = false;
    };
    std::vector<Seen> ranks(size);
    for (int step = 0; step < 200; ++step) {
      const auto rank = static_cast<uint32_t>(random() % size);
      auto& one = ranks[rank];
      switch (random() % 12) {
        case 0:
        case 1:
        case 2:
          if (exchange.hello(rank).ok()) one.state = RankState::joined;
          break;
        case 3:
        case 4:
        case 5:
        case 6:
          if (exchange.fence(rank).ok()) one.state = RankState::fencing;
          break;
        case 7:
        case 8:
        case 9:
        case 10:
          if (exchange.finish(rank).ok()) one.state = RankState::finishing;
          break;
        default:
          if (random() % 8 != 0 || one.gone) break;
          one.gone = true;
          one.tolerated = random() % 2 == 0;
          exchange.gone(rank, one.tolerated);
      }
      uint32_t living = 0, fencing = 0, finishing = 0, missing = 0;
      for (const auto& r : ranks) {
        living += !r.tolerated;
        fencing += !r.tolerated && r.state == RankState::fencing;
        finishing += !r.tolerated && r.state == RankState::finishing;
        missing += r.gone && !r.tolerated && r.state == RankState::absent;
      }
      ASSERT_EQ(exchange.stuck().has_value(), missing > 0 && fencing + finishing > 0);
      const auto expected = living == 0           ? Exchange::Event::none
                            : fencing == living   ? Exchange::Event::fence_done
                            : finishing == living ? Exchange::Event::finish_done
                                                  : Exchange::Event::none;
      ASSERT_EQ(exchange.advance(), expected);
      for (auto& r : ranks) {
        if (expected == Exchange::Event::fence_done && r.state == RankState::fencing)
          r.state = RankState::joined;
        if (expected == Exchange::Event::finish_done) r.state = RankState::absent;
      }
    }
  }
}

TEST(Exchange, ACompletedFinishForgetsValuesAndLetsRanksJoinAgain) {
  Exchange exchange(1);
  ASSERT_TRUE(exchange.hello(0).ok());
  ASSERT_TRUE(exchange.put(0, "k", some_bytes()).ok());
  ASSERT_TRUE(exchange.finish(0).ok());
  EXPECT_EQ(exchange.advance(), Exchange::Event::finish_done);
  EXPECT_EQ(exchange.epoch(), 1u);
  EXPECT_FALSE(exchange.joined(0));
  EXPECT_FALSE(exchange.get(0, "k").has_value());
  EXPECT_TRUE(exchange.hello(0).ok());
}

TEST(Exchange, ARankMayNotDoTwoThingsAtOnce) {
  Exchange exchange(2);
  EXPECT_FALSE(exchange.put(0, "k", some_bytes()).ok());  // before hello
  ASSERT_TRUE(exchange.hello(0).ok());
  EXPECT_FALSE(exchange.hello(0).ok());
  EXPECT_FALSE(exchange.put(0, "Bad Key", some_bytes()).ok());
  ASSERT_TRUE(exchange.fence(0).ok());
  EXPECT_FALSE(exchange.fence(0).ok());
  EXPECT_FALSE(exchange.finish(0).ok());
}

TEST(Exchange, AFenceIsStuckWhenARankWentWithoutJoining) {
  Exchange exchange(3);
  ASSERT_TRUE(exchange.hello(0).ok());
  exchange.gone(2, false);
  EXPECT_FALSE(exchange.stuck().has_value());  // nobody waits yet
  ASSERT_TRUE(exchange.fence(0).ok());
  const auto stuck = exchange.stuck();
  ASSERT_TRUE(stuck.has_value());
  EXPECT_EQ(stuck->waiting, 0u);
  EXPECT_EQ(stuck->gone, 2u);
}

TEST(Exchange, ToleratedDeathsAreNotWaitedFor) {
  Exchange exchange(3);
  for (const uint32_t rank : {0u, 1u, 2u}) ASSERT_TRUE(exchange.hello(rank).ok());
  ASSERT_TRUE(exchange.fence(0).ok());
  ASSERT_TRUE(exchange.fence(1).ok());
  EXPECT_EQ(exchange.advance(), Exchange::Event::none);
  exchange.gone(2, true);
  EXPECT_EQ(exchange.advance(), Exchange::Event::fence_done);
  EXPECT_FALSE(exchange.stuck().has_value());
}

TEST(Exchange, LateRanksStartAmongThemselvesAndThenAreWaitedFor) {
  Exchange exchange(5, 3);
  for (const uint32_t rank : {0u, 1u}) ASSERT_TRUE(exchange.hello(rank).ok());
  for (const uint32_t rank : {0u, 1u}) ASSERT_TRUE(exchange.fence(rank).ok());
  EXPECT_EQ(exchange.advance(), Exchange::Event::fence_done);
  exchange.admit(3, 2);
  EXPECT_FALSE(exchange.is_starting(2));
  for (const uint32_t rank : {3u, 4u}) ASSERT_TRUE(exchange.hello(rank).ok());
  ASSERT_TRUE(exchange.put(3, "address", some_bytes()).ok());
  ASSERT_TRUE(exchange.fence(3).ok());
  EXPECT_TRUE(exchange.advance_starting(3).empty());
  EXPECT_EQ(exchange.advance(), Exchange::Event::none);
  ASSERT_TRUE(exchange.fence(4).ok());
  EXPECT_EQ(exchange.advance_starting(4), (std::vector<uint32_t>{3, 4}));
  // A fence of the others does not let go those that start.
  ASSERT_TRUE(exchange.fence(3).ok());
  for (const uint32_t rank : {0u, 1u}) ASSERT_TRUE(exchange.fence(rank).ok());
  EXPECT_EQ(exchange.advance(), Exchange::Event::fence_done);
  EXPECT_TRUE(exchange.advance_starting(3).empty());
  ASSERT_TRUE(exchange.fence(4).ok());
  EXPECT_EQ(exchange.advance_starting(4).size(), 2u);
  exchange.settle(3);
  EXPECT_FALSE(exchange.is_starting(4));
  for (const uint32_t rank : {0u, 1u, 3u}) ASSERT_TRUE(exchange.finish(rank).ok());
  EXPECT_EQ(exchange.advance(), Exchange::Event::none);
  exchange.gone(4, true);
  EXPECT_EQ(exchange.advance(), Exchange::Event::finish_done);
}

// ---- meetings ---------------------------------------------------------------------------------

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Meetings, AllThatLiveLearnWhoCameAndWithWhat) {
  Meetings meetings(5);
  const Meetings::Run members[] = {{0, 2}, {3, 1}};
  bool is_first = false;
  EXPECT_TRUE(meetings.come(3, "a", members, bytes_of("three"), &is_first).empty());
  EXPECT_TRUE(is_first);
  EXPECT_TRUE(meetings.come(0, "a", members, bytes_of("zero"), &is_first).empty());
  EXPECT_FALSE(is_first);
  const auto done = meetings.come(1, "a", members, {}, &is_first);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].key, "a");
  EXPECT_EQ(done[0].tell, (std::vector<uint32_t>{0, 1, 3}));
  ASSERT_EQ(done[0].came.size(), 3u);
  EXPECT_EQ(done[0].came[2], (std::pair{3u, bytes_of("three")}));
  EXPECT_TRUE(done[0].missing.empty());
  EXPECT_EQ(meetings.open(), 0u);
  EXPECT_TRUE(meetings.expire("a").empty());  // late: it is over
}

TEST(Meetings, ADeathEndsTheWaitingAndDropsWhatTheDeadBrought) {
  Meetings meetings(4);
  const Meetings::Run all[] = {{0, 4}};
  bool is_first = false;
  (void)meetings.come(0, "a", all, bytes_of("dies"), &is_first);
  (void)meetings.come(1, "a", all, {}, &is_first);
  EXPECT_TRUE(meetings.died(0).empty());  // 2 and 3 live
  (void)meetings.come(2, "a", all, {}, &is_first);
  const auto done = meetings.died(3);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tell, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(done[0].came.size(), 2u);
  // Expect: the dead come no more.
  EXPECT_TRUE(meetings.come(3, "b", all, {}, &is_first).empty());
  EXPECT_EQ(meetings.open(), 0u);
  // Expect: the limit counts anew if all that had come have died.
  (void)meetings.come(1, "c", all, {}, &is_first);
  EXPECT_TRUE(meetings.died(1).empty());
  (void)meetings.come(2, "c", all, {}, &is_first);
  EXPECT_EQ(meetings.open(), 0u);  // it was the last one
}

TEST(Meetings, OneWhoComesTooLateGetsTheAnswerOfTheOthers) {
  Meetings meetings(4);
  const Meetings::Run all[] = {{0, 4}};
  bool is_first = false;
  (void)meetings.come(0, "a", all, {}, &is_first);
  (void)meetings.died(3);
  (void)meetings.come(2, "a", all, {}, &is_first);
  const auto failed = meetings.expire("a");
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].tell, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(failed[0].missing, std::vector<uint32_t>{1});
  EXPECT_TRUE(failed[0].came.empty());
  const auto late = meetings.come(1, "a", all, {}, &is_first);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].tell, std::vector<uint32_t>{1});
  EXPECT_EQ(late[0].missing, std::vector<uint32_t>{1});
}

TEST(Meetings, SparesTakeTheFreePlacesAndLearnWithWhatTheOthersCame) {
  Meetings meetings(6);
  const Meetings::Run four[] = {{0, 4}};
  bool is_first = false;
  EXPECT_TRUE(meetings.wait_as_spare(5, "spare.5").empty());
  EXPECT_TRUE(meetings.wait_as_spare(4, "spare.4").empty());
  EXPECT_EQ(meetings.living_at_work(), 4u);
  (void)meetings.died(1);
  (void)meetings.come(0, "a", four, bytes_of("order"), &is_first, 4);
  (void)meetings.come(3, "a", four, bytes_of("order"), &is_first, 4);
  const auto done = meetings.come(2, "a", four, bytes_of("order"), &is_first, 4);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].key, "spare.4");
  EXPECT_EQ(done[0].tell, std::vector<uint32_t>{4});
  EXPECT_EQ(done[0].came.front(), (std::pair{0u, bytes_of("order")}));
  EXPECT_EQ(done[1].tell, (std::vector<uint32_t>{0, 2, 3}));
  ASSERT_EQ(done[1].came.size(), 4u);
  EXPECT_EQ(done[1].came.back().first, 4u);
  // Expect: a dead spare is not taken in, and then nobody is left to be.
  (void)meetings.died(5);
  (void)meetings.died(3);
  (void)meetings.come(0, "b", four, {}, &is_first, 4);
  const auto fewer = meetings.come(2, "b", four, {}, &is_first, 4);
  ASSERT_EQ(fewer.size(), 1u);
  EXPECT_EQ(fewer[0].came.size(), 2u);
}

// Bug guarded against: a death right after the start, which slow spares did not take the place of.
TEST(Meetings, AMeetingWaitsForSparesThatAreOnTheirWayToItsLimit) {
  Meetings meetings(6, 3);
  const Meetings::Run three[] = {{0, 3}};
  bool is_first = false;
  (void)meetings.died(1);
  EXPECT_TRUE(meetings.come(0, "a", three, {}, &is_first, 3).empty());
  EXPECT_TRUE(meetings.come(2, "a", three, {}, &is_first, 3).empty());
  const auto done = meetings.wait_as_spare(5, "spare.5");
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].tell, std::vector<uint32_t>{5});
  EXPECT_EQ(done[1].came.size(), 3u);
  // Of two free places one is taken when the other spare dies on its way.
  (void)meetings.died(2);
  EXPECT_TRUE(meetings.wait_as_spare(4, "spare.4").empty());
  EXPECT_TRUE(meetings.come(0, "b", three, {}, &is_first, 3).empty());
  const auto fewer = meetings.died(3);
  ASSERT_EQ(fewer.size(), 2u);
  EXPECT_EQ(fewer[1].came.size(), 2u);
  // At the limit it goes on without.
  Meetings slow(3, 1);
  const Meetings::Run two[] = {{0, 2}};
  (void)slow.died(1);
  EXPECT_TRUE(slow.come(0, "a", two, {}, &is_first, 2).empty());
  const auto late = slow.expire("a");
  ASSERT_EQ(late.size(), 1u);
  EXPECT_TRUE(late[0].missing.empty());
  EXPECT_EQ(late[0].came.size(), 1u);
}

TEST(Meetings, ALateSpareIsNotThereUntilItArrives) {
  Meetings meetings(4, 2, 2);
  const Meetings::Run all[] = {{0, 4}}, two[] = {{0, 2}};
  bool is_first = false;
  EXPECT_TRUE(meetings.is_dead(2));
  (void)meetings.died(1);
  const auto alone = meetings.come(0, "a", two, {}, &is_first, 2);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].came.size(), 1u);
  // Expect: the next refill waits for it, and so does the end of the job.
  meetings.arrives(3);
  EXPECT_TRUE(meetings.come(0, "b", two, {}, &is_first, 2).empty());
  EXPECT_EQ(meetings.waiting_spares(), 0u);
  const auto done = meetings.wait_as_spare(3, "spare.3");
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[1].came.size(), 2u);
  EXPECT_TRUE(meetings.come(0, "finalize", all, {}, &is_first).empty());
  meetings.arrives(2);
  EXPECT_TRUE(meetings.come(3, "finalize", all, {}, &is_first).empty());
  const auto end = meetings.wait_as_spare(2, "spare.2");
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(end[0].tell, std::vector<uint32_t>{2});
}

TEST(Meetings, ASpareThatLeavesIsNotTakenInAndNobodyWaitsForIt) {
  Meetings meetings(5);
  const Meetings::Run all[] = {{0, 5}}, three[] = {{0, 3}};
  bool is_first = false;
  (void)meetings.wait_as_spare(3, "spare.3");
  (void)meetings.wait_as_spare(4, "spare.4");
  meetings.leaves(3);
  (void)meetings.died(1);
  (void)meetings.come(0, "a", three, {}, &is_first, 3);
  const auto done = meetings.come(2, "a", three, {}, &is_first, 3);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].tell, std::vector<uint32_t>{4});
  EXPECT_TRUE(meetings.is_spare(3));
  for (const uint32_t rank : {0u, 2u}) (void)meetings.come(rank, "finalize", all, {}, &is_first);
  const auto end = meetings.come(4, "finalize", all, {}, &is_first);
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(end[0].tell, std::vector<uint32_t>{3});
}

TEST(Meetings, WhoHasComeToOneMeetingIsWantedAtAnother) {
  Meetings meetings(4);
  const Meetings::Run all[] = {{0, 4}}, pair[] = {{0, 1}, {2, 1}}, alone[] = {{3, 1}};
  bool is_first = false;
  const auto wanted_after = [&](uint32_t rank, const char* key,
                                std::span<const Meetings::Run> members) {
    (void)meetings.come(rank, key, members, {}, &is_first);
    return meetings.wanted_elsewhere("finalize", key, rank, is_first);
  };
  EXPECT_TRUE(wanted_after(0, "a", pair).empty());
  EXPECT_TRUE(wanted_after(1, "finalize", all).empty());
  EXPECT_TRUE(wanted_after(3, "finalize", all).empty());
  EXPECT_EQ(wanted_after(2, "finalize", all), std::vector<uint32_t>{2});
  EXPECT_EQ(meetings.died(2).size(), 1u);  // "a", with rank 0 alone
  EXPECT_TRUE(wanted_after(3, "hear.3.1", alone).empty());
  // The first that comes to a meeting behind them wants all that have left, the next nobody new.
  EXPECT_EQ(wanted_after(0, "b", all), (std::vector<uint32_t>{1, 3}));
  EXPECT_TRUE(wanted_after(0, "b", all).empty());
  EXPECT_TRUE(meetings.is_wanted("finalize", 3));
  (void)meetings.died(0);  // who wanted them
  EXPECT_FALSE(meetings.is_wanted("finalize", 3));
}

// What a meeting of 160,000 ranks was told each rank in megabytes.
TEST(Meetings, RanksInARowThatGaveTheSameAreToldOfAsOne) {
  Meetings::Outcome outcome{"a", {}, {}, {}};
  for (uint32_t rank = 0; rank < 100'000; ++rank)
    if (rank != 70'000) outcome.came.emplace_back(rank, bytes_of(rank == 9 ? "nine" : "other"));
  const auto payloads = Meetings::payloads_of(outcome);
  ASSERT_EQ(payloads.size(), 1u);
  job::FrameReader reader(job::Frame{.payload = *payloads[0]});
  EXPECT_EQ(reader.string(), "a");
  EXPECT_EQ(reader.u8(), 1);  // the last
  EXPECT_EQ(reader.u8(), 0);
  const uint32_t firsts[] = {0, 9, 10, 70'001}, counts[] = {9, 1, 69'990, 29'999};
  for (int run = 0; run < 4; ++run) {
    EXPECT_EQ(reader.u32(), firsts[run]);
    EXPECT_EQ(reader.u32(), counts[run]);
    const auto gave = reader.bytes(reader.u32());
    EXPECT_TRUE(std::ranges::equal(gave, bytes_of(run == 1 ? "nine" : "other")));
  }
  EXPECT_TRUE(reader.done());
}

TEST(Meetings, TheMissingAreListedInSeveralFramesIfTheyAreMany) {
  Meetings::Outcome outcome{"a", {}, {}, {}};
  for (uint32_t rank = 0; rank < 50'000; ++rank) outcome.missing.push_back(rank);
  const auto payloads = Meetings::payloads_of(outcome);
  ASSERT_GT(payloads.size(), 1u);
  uint32_t next = 0;
  for (const auto& payload : payloads) {
    job::FrameReader reader(job::Frame{.payload = *payload});
    EXPECT_EQ(reader.string(), "a");
    EXPECT_EQ(reader.u8(), payload == payloads.back());
    EXPECT_EQ(reader.u8(), 1);
    while (!reader.done()) ASSERT_EQ(reader.u32(), next++);
  }
  EXPECT_EQ(next, 50'000u);
  EXPECT_EQ(Meetings::payloads_of(Meetings::Outcome{"a", {}, {}, {}}).size(), 1u);
}

TEST(Meetings, MembersMayBeNamedTwiceAndInAnyOrder) {
  Meetings meetings(8);
  const Meetings::Run crooked[] = {{5, 2}, {0, 3}, {1, 3}, {6, 1}, {7, 0}};  // 0 to 3, 5 and 6
  bool is_first = false;
  for (const uint32_t rank : {5u, 0u, 3u, 2u, 2u})
    EXPECT_TRUE(meetings.come(rank, "a", crooked, {}, &is_first).empty());
  EXPECT_TRUE(meetings.died(7).empty());
  EXPECT_TRUE(meetings.died(6).empty());
  EXPECT_TRUE(meetings.died(6).empty());  // once is enough
  const auto done = meetings.come(1, "a", crooked, {}, &is_first);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tell, (std::vector<uint32_t>{0, 1, 2, 3, 5}));
}

TEST(Meetings, SparesAreDismissedWhenAMeetingWaitsForThemAloneOrNobodyIsAtWork) {
  Meetings meetings(4);
  const Meetings::Run all[] = {{0, 4}}, first[] = {{0, 2}};
  bool is_first = false;
  (void)meetings.wait_as_spare(2, "spare.2");
  (void)meetings.wait_as_spare(3, "spare.3");
  (void)meetings.come(0, "a", first, {}, &is_first);
  EXPECT_EQ(meetings.come(1, "a", first, {}, &is_first).size(), 1u);  // without them
  EXPECT_TRUE(meetings.come(0, "finalize", all, {}, &is_first).empty());
  auto told = meetings.come(1, "finalize", all, {}, &is_first);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1].key, "spare.3");
  EXPECT_TRUE(told[1].came.empty() && told[1].missing.empty());
  Meetings lonely(2);
  (void)lonely.wait_as_spare(1, "spare.1");
  told = lonely.died(0);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].tell, std::vector<uint32_t>{1});
}

TEST(Meetings, TheFirstProposalIsEverybodys) {
  Meetings meetings(2);
  EXPECT_EQ(meetings.decide("call.0.1.7", 1), 1);
  EXPECT_EQ(meetings.decide("call.0.1.7", 0), 1);
  EXPECT_EQ(meetings.decide("call.0.1.8", 0), 0);
  meetings.forget();
  EXPECT_EQ(meetings.decide("call.0.1.7", 0), 0);
}

TEST(LineCutter, LinesComeWholeAndPartialsWait) {
  LineCutter lines("[1] ");
  std::string out;
  lines.add("ab", &out);
  EXPECT_EQ(out, "");
  EXPECT_TRUE(lines.has_partial());
  lines.add("c\nd\n\nef", &out);
  EXPECT_EQ(out, "[1] abc\n[1] d\n[1] \n");
  lines.flush(&out);
  EXPECT_TRUE(lines.mid_line());
  lines.add("g\nh\n", &out);
  EXPECT_EQ(out, "[1] abc\n[1] d\n[1] \n[1] efg\n[1] h\n");
}

TEST(LineCutter, WithoutAPrefixBytesPassUnchanged) {
  std::mt19937 random(1);
  LineCutter lines("");
  std::string in, out;
  for (int i = 0; i < 2000; ++i) {
    std::string part(random() % 300, 'x');
    for (auto& c : part) c = static_cast<char>(random() % 12 == 0 ? '\n' : random());
    in += part;
    lines.add(part, &out);
    if (random() % 10 == 0) lines.flush(&out);
  }
  lines.flush(&out);
  EXPECT_EQ(in, out);
}

Plan some_plan() {
  Plan plan;
  plan.size = 3;
  plan.nodes = 2;
  plan.input = Input::piped;
  plan.directory = "/tmp";
  plan.command = {"prog", "", "a b"};
  plan.environment = {"A=1"};
  plan.ranks = {{1, 0}, {2, 1}};
  return plan;
}

Status decode_bytes(const std::vector<std::byte>& bytes, Plan* plan) {
  job::FrameBuffer buffer(job::max_link_payload);
  buffer.append(bytes);
  std::optional<job::Frame> frame;
  SKERRY_TRY(buffer.next(&frame));
  if (!frame) return error(Code::network, "incomplete");
  return decode(*frame, plan);
}

TEST(Plan, SurvivesTheWire) {
  Plan plan;
  ASSERT_TRUE(decode_bytes(encode(some_plan()), &plan).ok());
  EXPECT_EQ(plan.command, some_plan().command);
  EXPECT_EQ(plan.environment, some_plan().environment);
  EXPECT_EQ(plan.directory, "/tmp");
  EXPECT_EQ(plan.input, Input::piped);
  ASSERT_EQ(plan.ranks.size(), 2u);
  EXPECT_EQ(plan.ranks[1].node, 1u);
}

TEST(Plan, DamagedPlansAreRefusedOrHarmless) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    auto bytes = encode(some_plan());
    for (int change = 0; change < 3; ++change)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    Plan plan;
    if (!decode_bytes(bytes, &plan).ok()) continue;
    ASSERT_FALSE(plan.command.empty());
    for (const auto& planned : plan.ranks) ASSERT_LT(planned.rank, plan.size);
  }
}

TEST(Proof, DependsOnKeySideAgentAndBothNonces) {
  const Key key = random_key();
  const Nonce a = random_nonce(), b = random_nonce();
  const Proof proof = prove(key, "agent", 1, a, b);
  EXPECT_TRUE(same(proof, prove(key, "agent", 1, a, b)));
  EXPECT_FALSE(same(proof, prove(random_key(), "agent", 1, a, b)));
  EXPECT_FALSE(same(proof, prove(key, "launcher", 1, a, b)));
  EXPECT_FALSE(same(proof, prove(key, "agent", 2, a, b)));
  EXPECT_FALSE(same(proof, prove(key, "agent", 1, b, a)));
  EXPECT_FALSE(same(epoch_key(key, 0), epoch_key(key, 1)));
}

}  // namespace
}  // namespace skerry::launcher
