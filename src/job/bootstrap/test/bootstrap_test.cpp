#include "job/bootstrap/bootstrap.hpp"
#include "job/bootstrap/exchange.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>

#include "job/bootstrap/run_client.hpp"
#include "job/bootstrap/test/thread_bootstrap.hpp"

namespace skerry::job {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

TEST(BlockNode, SplitsIntoContiguousBlocksThatDifferByAtMostOne) {
  for (int size = 1; size <= 12; ++size) {
    for (int nodes = 1; nodes <= size; ++nodes) {
      std::vector<int> ranks(static_cast<size_t>(nodes));
      int last = 0;
      for (int rank = 0; rank < size; ++rank) {
        const int node = block_node(rank, size, nodes);
        ASSERT_GE(node, last);
        last = node;
        ++ranks[static_cast<size_t>(node)];
      }
      for (const int count : ranks) {
        EXPECT_GE(count, size / nodes);
        EXPECT_LE(count, size / nodes + 1);
      }
    }
  }
}

TEST(Alone, FindsItsOwnValuesAndNamesAMissingOne) {
  const std::unique_ptr<Bootstrap> alone = make_alone();
  ASSERT_TRUE(alone->put("a/b", bytes_of("x")).ok());
  ASSERT_TRUE(alone->fence().ok());
  std::vector<std::byte> value;
  ASSERT_TRUE(alone->get(0, "a/b", &value).ok());
  EXPECT_EQ(value, bytes_of("x"));
  const Status missing = alone->get(0, "c", &value);
  EXPECT_EQ(missing.code(), Code::network);
  EXPECT_NE(missing.message().find("\"c\""), std::string::npos);
  EXPECT_EQ(alone->put("Upper", {}).code(), Code::invalid);
  EXPECT_EQ(alone->put("long", std::vector<std::byte>(max_value_bytes + 1)).code(), Code::invalid);
}

TEST(ThreadBootstrap, ExchangesValuesAndOneKeyAcrossFences) {
  constexpr int size = 4;
  auto bootstraps = make_thread_bootstraps(size, 2);
  std::vector<JobKey> keys(size);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      Bootstrap& mine = *bootstraps[static_cast<size_t>(rank)];
      EXPECT_EQ(mine.rank(), rank);
      EXPECT_EQ(mine.size(), size);
      EXPECT_EQ(mine.node_hint(), rank / 2);
      for (int round = 0; round < 50; ++round) {
        EXPECT_TRUE(mine.put(concat("round/", round), bytes_of(concat(rank, ":", round))).ok());
        EXPECT_TRUE(mine.fence().ok());
        for (int other = 0; other < size; ++other) {
          std::vector<std::byte> value;
          EXPECT_TRUE(mine.get(other, concat("round/", round), &value).ok());
          EXPECT_EQ(value, bytes_of(concat(other, ":", round)));
        }
      }
      EXPECT_TRUE(job_key(mine, &keys[static_cast<size_t>(rank)]).ok());
      EXPECT_TRUE(mine.finish().ok());
    });
  }
  for (auto& rank : ranks) rank.join();
  for (const auto& key : keys) EXPECT_EQ(key, keys[0]);
  EXPECT_NE(keys[0], JobKey{});
}

TEST(ThreadBootstrap, AFenceFailsWhenARankLeavesUnfinished) {
  auto bootstraps = make_thread_bootstraps(2);
  std::thread waiting([&] { EXPECT_EQ(bootstraps[0]->fence().code(), Code::network); });
  bootstraps[1].reset();
  waiting.join();
}

// The launcher's side of a control connection, played by the test.
struct FakeLauncher {
  FakeLauncher() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0); }
  ~FakeLauncher() {
    for (const int fd : fds) close(fd);
  }
  void send(const std::vector<std::byte>& frame) const {
    ASSERT_EQ(write(fds[0], frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  }
  void welcome(uint32_t rank, uint32_t size) const {
    FrameWriter frame(FrameType::welcome);
    send(frame.u32(rank).u32(size).u32(0).u32(0).u32(0).u32(1).bytes(JobKey{}).finish());
  }
  int fds[2] = {-1, -1};  // 0: the launcher's end
};

TEST(RunBootstrap, KeepsADeathThatIsReportedWhileItWaitsForAnAnswer) {
  FakeLauncher launcher;
  launcher.welcome(1, 3);
  std::unique_ptr<Bootstrap> mine;
  ASSERT_TRUE(RunBootstrap::connect(launcher.fds[1], &mine).ok());
  EXPECT_EQ(mine->rank(), 1);
  EXPECT_EQ(mine->size(), 3);
  launcher.send(FrameWriter(FrameType::rank_died).u32(2).string("was killed").u32(7).finish());
  launcher.send(FrameWriter(FrameType::fence_done).finish());
  ASSERT_TRUE(mine->fence().ok());
  std::vector<DeadRank> dead;
  ASSERT_TRUE(mine->take_events(&dead).ok());
  ASSERT_EQ(dead.size(), 1u);
  EXPECT_EQ(dead[0].rank, 2);
  EXPECT_EQ(dead[0].cause, "was killed");
  EXPECT_EQ(dead[0].view, 7u);
  ASSERT_TRUE(mine->take_events(&dead).ok());
  EXPECT_TRUE(dead.empty());
}

// In a job that goes on: a death, the outcome of a meeting in two frames, a decision.
TEST(RunBootstrap, TakesWhatTheLauncherSaysOfViewsMeetingsAndDecisions) {
  FakeLauncher launcher;
  launcher.welcome(1, 3);
  std::unique_ptr<Bootstrap> mine;
  ASSERT_TRUE(RunBootstrap::connect(launcher.fds[1], &mine).ok());
  const auto met = [](bool last, bool failed) {
    FrameWriter writer(FrameType::met);
    writer.string("shrink.0.1.1").u8(last).u8(failed);
    return writer;
  };
  launcher.send(FrameWriter(FrameType::rank_died).u32(2).string("was killed").u32(1).finish());
  launcher.send(met(false, false).u32(0).u32(1).u32(2).bytes(bytes_of("ab")).finish());
  News news;
  ASSERT_TRUE(mine->take_news(&news).ok());
  ASSERT_EQ(news.dead.size(), 1u);
  EXPECT_TRUE(news.met.empty());  // its last frame has not come
  launcher.send(met(true, false).u32(1).u32(2).u32(0).finish());
  launcher.send(FrameWriter(FrameType::decided).string("call.0.1.5").u8(1).finish());
  launcher.send(met(true, true).u32(0).finish());
  ASSERT_TRUE(mine->take_news(&news).ok());
  EXPECT_TRUE(news.dead.empty());
  ASSERT_EQ(news.met.size(), 2u);
  EXPECT_EQ(news.met[0].key, "shrink.0.1.1");
  ASSERT_EQ(news.met[0].came.size(), 3u);  // ranks 1 and 2 gave the same: nothing
  EXPECT_EQ(news.met[0].came[2].first, 2);
  EXPECT_EQ(news.met[0].came[0].first, 0);
  EXPECT_TRUE(std::ranges::equal(news.met[0].came[0].second, bytes_of("ab")));
  EXPECT_EQ(news.met[1].missing, std::vector<int>{0});
  EXPECT_TRUE(news.met[1].came.empty());
  ASSERT_EQ(news.decided.size(), 1u);
  EXPECT_EQ(news.decided[0].value, 1);
  // Expect: a rank that does not exist is no news but an error.
  launcher.send(FrameWriter(FrameType::rank_died).u32(3).string("was killed").u32(2).finish());
  EXPECT_EQ(mine->take_news(&news).code(), Code::network);
  launcher.send(met(true, false).u32(1).u32(3).u32(0).finish());
  EXPECT_EQ(mine->take_news(&news).code(), Code::network);
}

// A rank that asked for the values of all ranks one by one made start-up quadratic: at 192 nodes
// 37,000 round trips through the launcher, each of which looked at all ranks.
TEST(RunBootstrap, TheValuesOfManyRanksAndTheLowestWithAValueAreOneRequestEach) {
  FakeLauncher launcher;
  launcher.welcome(900, 1000);
  std::unique_ptr<Bootstrap> mine;
  ASSERT_TRUE(RunBootstrap::connect(launcher.fds[1], &mine).ok());
  // Ranks 0 to 99 say the same, all others something of their own.
  const auto said = [](uint32_t rank) { return bytes_of(concat(1000 + std::max(rank, 99u))); };
  const auto add = [&](FrameWriter* writer, uint32_t rank) {
    if (rank > 0 && rank < 100) return;
    writer->u32(rank).u32(rank == 0 ? 100 : 1).u32(4).bytes(said(rank));
  };
  FrameWriter first(FrameType::values), second(FrameType::values);
  first.u8(0);
  second.u8(1);
  for (uint32_t rank = 0; rank < 1000; ++rank) add(rank < 600 ? &first : &second, rank);
  launcher.send(first.finish());
  launcher.send(second.finish());
  std::vector<int> wanted;
  for (int rank = 0; rank < 1000; rank += 3) wanted.push_back(rank);
  std::vector<int> seen;
  const auto check = [&](int rank, int count, std::span<const std::byte> value) {
    EXPECT_EQ(count, 1);
    EXPECT_TRUE(std::ranges::equal(value, said(static_cast<uint32_t>(rank)))) << rank;
    seen.push_back(rank);
    return Status{};
  };
  ASSERT_TRUE(mine->get_runs(wanted, "k", check).ok());
  EXPECT_EQ(seen, wanted);
  launcher.send(FrameWriter(FrameType::lowest_is).u32(12).finish());
  int lowest = -1;
  ASSERT_TRUE(mine->lowest_with("k", bytes_of("v"), &lowest).ok());
  EXPECT_EQ(lowest, 12);
  // hello, get_all, lowest: nothing else was sent.
  std::byte sent[4096];
  const ssize_t got = read(launcher.fds[0], sent, sizeof sent);
  FrameBuffer buffer(max_control_payload);
  buffer.append(std::span(sent, static_cast<size_t>(got)));
  std::vector<FrameType> types;
  for (std::optional<Frame> frame; buffer.next(&frame).ok() && frame;) types.push_back(frame->type);
  EXPECT_EQ(types, (std::vector{FrameType::hello, FrameType::get_all, FrameType::lowest}));

  launcher.send(FrameWriter(FrameType::values).u8(1).u32(0).u32(5).u32(0).finish());
  const auto any = [](int, int, std::span<const std::byte>) { return Status{}; };
  const Status missing = mine->get_runs(std::vector<int>{0, 5}, "k", any);
  EXPECT_NE(missing.message().find("rank 5"), std::string::npos) << missing.message();
}

// Values that are equal in a row come once.
TEST(RunBootstrap, ListsRunsOfEqualValues) {
  FakeLauncher launcher;
  launcher.welcome(0, 1'000'000);
  std::unique_ptr<Bootstrap> mine;
  ASSERT_TRUE(RunBootstrap::connect(launcher.fds[1], &mine).ok());
  const auto list = [&](uint32_t first, uint32_t second, uint32_t count) {
    launcher.send(FrameWriter(FrameType::values).u8(0).u32(0).u32(first).u32(0).finish());
    launcher.send(FrameWriter(FrameType::values).u8(1).u32(second).u32(count).u32(0).finish());
  };
  std::vector<std::pair<int, int>> runs;
  const auto note = [&](int first, int count, std::span<const std::byte>) {
    runs.emplace_back(first, count);
    return Status{};
  };
  list(600'000, 600'000, 400'000);
  ASSERT_TRUE(mine->get_runs({}, "k", note).ok());
  EXPECT_EQ(runs, (std::vector<std::pair<int, int>>{{0, 600'000}, {600'000, 400'000}}));
  // Expect: ranks that put nothing are named, between two runs and after the last.
  list(5, 6, 999'994);
  EXPECT_NE(mine->get_runs({}, "k", note).message().find("rank 5 "), std::string::npos);
  list(5, 5, 5);
  EXPECT_NE(mine->get_runs({}, "k", note).message().find("rank 10 "), std::string::npos);
  // Expect: an error of the caller is returned, and the next answer is not mixed up with the rest.
  list(5, 5, 999'995);
  const auto refuse = [](int, int, std::span<const std::byte>) {
    return error(Code::config, "not so");
  };
  EXPECT_EQ(mine->get_runs({}, "k", refuse).message(), "not so");
  list(5, 5, 999'995);
  EXPECT_TRUE(mine->get_runs({}, "k", note).ok());
  // Expect: no rank beyond the last.
  list(5, 5, 999'996);
  EXPECT_NE(mine->get_runs({}, "k", note).message().find("do not exist"), std::string::npos);
}

TEST(RunBootstrap, EveryWaitNoticesThatTheLauncherHasGone) {
  FakeLauncher launcher;
  launcher.welcome(0, 2);
  std::unique_ptr<Bootstrap> mine;
  ASSERT_TRUE(RunBootstrap::connect(launcher.fds[1], &mine).ok());
  close(launcher.fds[0]);
  launcher.fds[0] = -1;
  EXPECT_EQ(mine->fence().code(), Code::network);
  std::vector<DeadRank> dead;
  EXPECT_EQ(mine->take_events(&dead).code(), Code::network);
}

TEST(RunBootstrap, RefusesAWelcomeThatMakesNoSense) {
  FakeLauncher launcher;
  launcher.welcome(5, 3);
  std::unique_ptr<Bootstrap> mine;
  EXPECT_EQ(RunBootstrap::connect(launcher.fds[1], &mine).code(), Code::network);
  EXPECT_EQ(RunBootstrap::connect(launcher.fds[1] + 100, &mine).code(), Code::config);
}

// Every process kept what all ranks had put, some 140 bytes a rank, for as long as the job ran.
TEST(ExchangeBootstrap, ForgetsWhatWasPutWhenTheStartIsOver) {
  Exchange exchange;
  exchange.gather = gather_by(
      [](std::span<const std::byte> in, std::byte* out) {
        std::ranges::copy(in, out);
        return Status();
      },
      1);
  ExchangeBootstrap mine(exchange);
  ASSERT_TRUE(mine.put("host", bytes_of("card")).ok());
  ASSERT_TRUE(mine.fence().ok());
  std::vector<std::byte> value;
  ASSERT_TRUE(mine.get(0, "host", &value).ok());
  EXPECT_EQ(value, bytes_of("card"));
  mine.start_is_over();
  EXPECT_EQ(mine.get(0, "host", &value).code(), Code::network);
  EXPECT_TRUE(mine.fence().ok());
}

}  // namespace
}  // namespace skerry::job
