// Hooks change what they are about and nothing else. (That they keep the contract is checked by the
// conformance tests, which run over them.)
#include "fabric/hooks/hooks.hpp"

#include "fabric/loop/loop.hpp"
#include "fabric/test/side.hpp"

namespace skerry::fabric::test {
namespace {

using Wrap = std::function<std::unique_ptr<Fabric>(std::unique_ptr<Fabric>)>;

struct Pair {
  explicit Pair(const Wrap& wrap) {
    const auto network = make_loop_network({});
    std::unique_ptr<Fabric> a, b;
    EXPECT_TRUE(make_loop_fabric(network, {}, &a).ok() && make_loop_fabric(network, {}, &b).ok());
    client = std::make_unique<Side>(wrap(std::move(a)));
    target = std::make_unique<Side>(std::move(b));
    EXPECT_TRUE(target->fabric->listen(&address).ok());
    join();
  }
  void join() {
    const size_t before = client->connected.size();
    EXPECT_TRUE(client->fabric->connect(address, {}, &near).ok());
    EXPECT_TRUE(
        run_until({client.get(), target.get()}, [&] { return client->connected.size() > before; }));
    far = target->accepted.back();
  }
  std::unique_ptr<Side> client, target;
  std::vector<std::byte> address;
  EndpointId near = no_endpoint, far = no_endpoint;
};

TEST(Hooks, CountsWhatPasses) {
  auto counts = std::make_shared<HookCounts>();
  Pair pair([&](auto inner) { return hook_count(std::move(inner), counts); });
  for (int i = 0; i < 5; ++i) send(*pair.client, pair.near, "1234", as_bytes("56"));
  send(*pair.target, pair.far, "12");
  ASSERT_TRUE(run_until({pair.client.get(), pair.target.get()}, [&] {
    return pair.target->message_count == 5 && pair.client->message_count == 1;
  }));
  pair.client->fabric->close(pair.near);
  EXPECT_EQ(counts->connects, 1u);
  EXPECT_EQ(counts->messages_sent, 5u);
  EXPECT_EQ(counts->bytes_sent, 30u);
  EXPECT_EQ(counts->messages_received, 1u);
  EXPECT_EQ(counts->bytes_received, 2u);
  EXPECT_EQ(counts->closed_by_us, 1u);
}

TEST(Hooks, TracesALinePerCall) {
  std::vector<std::string> lines;
  Pair pair([&](auto inner) {
    return hook_trace(std::move(inner), [&](std::string_view line) { lines.emplace_back(line); });
  });
  send(*pair.client, pair.near, "1234", as_bytes("56"), true);
  EXPECT_EQ(lines.back(), concat("send ", pair.near, " header 4 payload 2 more -> accepted"));
  pair.target->fabric->close(pair.far);
  ASSERT_TRUE(run_until({pair.client.get(), pair.target.get()},
                        [&] { return !pair.client->closed.empty(); }));
  EXPECT_TRUE(lines.back().starts_with(concat("on_closed ", pair.near, " closed by the peer")));
}

TEST(Hooks, ThrottleBlocksUntilTheNextDispatch) {
  Pair pair([](auto inner) { return hook_throttle(std::move(inner), 2); });
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(send(*pair.client, pair.near, "a", {}, true), SendResult::accepted);
    EXPECT_EQ(send(*pair.client, pair.near, "b", {}, true), SendResult::accepted);
    EXPECT_EQ(send(*pair.client, pair.near, "c"), SendResult::would_block);
    pair.client->step();
    EXPECT_EQ(pair.client->writable, round);
  }
  ASSERT_TRUE(run_until({pair.client.get(), pair.target.get()},
                        [&] { return pair.target->message_count == 6; }));
}

TEST(Hooks, DropsAfterSoManyMessagesAndTellsBothEnds) {
  auto log = std::make_shared<FaultLog>();
  FaultPlan plan;
  plan.drop_after_sent = 3;
  Pair pair([&](auto inner) { return hook_faults(std::move(inner), plan, log); });
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(send(*pair.client, pair.near, "x"), SendResult::accepted);  // the last seven are lost
  ASSERT_TRUE(run_until({pair.client.get(), pair.target.get()}, [&] {
    return !pair.client->closed.empty() && !pair.target->closed.empty();
  }));
  EXPECT_EQ(pair.client->reasons[0], CloseReason::reset);
  EXPECT_LE(pair.target->message_count, 3u);
  EXPECT_EQ(log->drops, 1u);
  EXPECT_EQ(send(*pair.client, pair.near, "x"), SendResult::closed);
  pair.join();
  log->enabled = false;
  pair.target->message_count = 0;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(send(*pair.client, pair.near, "x"), SendResult::accepted);
  ASSERT_TRUE(run_until({pair.client.get(), pair.target.get()},
                        [&] { return pair.target->message_count == 10; }));
}

TEST(Hooks, DropsAfterReceivedOnesAndFailsRma) {
  auto log = std::make_shared<FaultLog>();
  FaultPlan plan;
  plan.drop_after_received = 1;
  Pair pair([&](auto inner) { return hook_faults(std::move(inner), plan, log); });
  std::byte local[8]{}, remote[8]{};
  RemoteKey key;
  uint64_t registration = 0;
  ASSERT_TRUE(pair.target->fabric->register_memory(remote, 8, &key, &registration).ok());
  send(*pair.target, pair.far, "y");
  ASSERT_EQ(pair.client->fabric->put(pair.near, local, key, 0, 8, 5), SendResult::accepted);
  ASSERT_TRUE(run_until({pair.client.get()}, [&] { return !pair.client->closed.empty(); }));
  EXPECT_EQ(pair.client->message_count, 1u);
  EXPECT_EQ(pair.client->rma_done.size() + pair.client->rma_failed.size(), 1u);
}

TEST(Hooks, DelaysKeepOrder) {
  auto log = std::make_shared<FaultLog>();
  FaultPlan plan;
  plan.delay_per_million = 300'000;
  Pair pair([&](auto inner) { return hook_faults(std::move(inner), plan, log); });
  for (int i = 0; i < 100; ++i) send(*pair.target, pair.far, std::to_string(i));
  ASSERT_TRUE(run_until({pair.client.get(), pair.target.get()},
                        [&] { return pair.client->message_count == 100; }));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pair.client->messages[i].header, std::to_string(i));
  EXPECT_GT(log->delays, 10u);
}

}  // namespace
}  // namespace skerry::fabric::test
