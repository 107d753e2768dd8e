// Hooks change what they are about and nothing else. (That they keep the contract is checked by the
// conformance tests, which run over them.)
#include "fabric/test/faults.hpp"

#include "fabric/test/delaying.hpp"
#include "fabric/test/loop/loop.hpp"
#include "fabric/test/side.hpp"

namespace skerry::fabric::test {
namespace {

using Wrap = std::function<std::unique_ptr<Fabric>(std::unique_ptr<Fabric>)>;

struct Pair : TwoSides {
  explicit Pair(const Wrap& wrap) {
    const auto network = make_loop_network({});
    std::unique_ptr<Fabric> a, b;
    EXPECT_TRUE(make_loop_fabric(network, {}, &a).ok() && make_loop_fabric(network, {}, &b).ok());
    client = std::make_unique<Side>(wrap(std::move(a)));
    target = std::make_unique<Side>(std::move(b));
    EXPECT_TRUE(target->fabric->listen(&address).ok());
    join();
  }
};

TEST(Hooks, DropsAfterSoManyMessagesAndTellsBothEnds) {
  auto log = std::make_shared<FaultLog>();
  FaultPlan plan;
  plan.drop_after_sent = 3;
  Pair pair([&](auto inner) { return hook_faults(std::move(inner), plan, log); });
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(send(*pair.client, pair.near, "x"), SendResult::accepted);  // the last seven are lost
  ASSERT_TRUE(
      pair.until([&] { return !pair.client->closed.empty() && !pair.target->closed.empty(); }));
  EXPECT_EQ(pair.client->reasons[0], CloseReason::reset);
  EXPECT_LE(pair.target->message_count, 3u);
  EXPECT_EQ(log->drops, 1u);
  EXPECT_EQ(send(*pair.client, pair.near, "x"), SendResult::closed);
  pair.join();
  log->enabled = false;
  pair.target->message_count = 0;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(send(*pair.client, pair.near, "x"), SendResult::accepted);
  ASSERT_TRUE(pair.until([&] { return pair.target->message_count == 10; }));
}

TEST(Hooks, DropsAfterReceivedOnesAndFailsRma) {
  auto log = std::make_shared<FaultLog>();
  FaultPlan plan;
  plan.drop_after_received = 1;
  Pair pair([&](auto inner) { return hook_faults(std::move(inner), plan, log); });
  std::byte local[8]{}, remote[8]{};
  pair.expose(remote, 8);
  send(*pair.target, pair.far, "y");
  ASSERT_EQ(pair.client->fabric->put(pair.near, local, pair.key, 0, 8, 5), SendResult::accepted);
  ASSERT_TRUE(run_until({pair.client.get()}, [&] { return !pair.client->closed.empty(); }));
  EXPECT_EQ(pair.client->message_count, 1u);
  EXPECT_EQ(pair.client->rma_done.size() + pair.client->rma_failed.size(), 1u);
}

TEST(Hooks, FaultsAreReadFromAVariable) {
  const auto added = [](std::string faults) {
    Options options;
    options.faults = std::move(faults);
    std::unique_ptr<Fabric> fabric;
    EXPECT_TRUE(make_loop_fabric(make_loop_network({}), {}, &fabric).ok());
    return add_faults(options, &fabric);
  };
  for (const char* good : {"drop=100,seed=1", "seed=7,drop=0", "drop=1000000"})
    EXPECT_TRUE(added(good).ok()) << good;
  for (const char* bad : {"drop", "drop=", "drop=1000001", "drop=-1", "seed=x", "100", ",drop=1"})
    EXPECT_EQ(added(bad).code(), Code::config) << bad;
}

TEST(Hooks, DelaysKeepOrder) {
  const auto delays = std::make_shared<uint64_t>(0);
  Pair pair(
      [&](auto inner) { return std::make_unique<Delaying>(std::move(inner), 300'000, delays); });
  for (int i = 0; i < 100; ++i) send(*pair.target, pair.far, std::to_string(i));
  ASSERT_TRUE(pair.until([&] { return pair.client->message_count == 100; }));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pair.client->messages[i].header, std::to_string(i));
  EXPECT_GT(*delays, 10u);
}

}  // namespace
}  // namespace skerry::fabric::test
