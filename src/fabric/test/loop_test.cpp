// The loop fabric as the worst case: what the core must survive really happens there, and a seed
// repeats it.
#include "fabric/test/loop/loop.hpp"

#include "fabric/test/side.hpp"

namespace skerry::fabric::test {
namespace {

struct Pair : TwoSides {
  explicit Pair(const LoopCapabilities& capabilities) {
    const auto network = make_loop_network(capabilities);
    for (std::unique_ptr<Side>* side : {&client, &target}) {
      std::unique_ptr<Fabric> fabric;
      EXPECT_TRUE(make_loop_fabric(network, {}, &fabric).ok());
      *side = std::make_unique<Side>(std::move(fabric));
    }
    EXPECT_TRUE(target->fabric->listen(&address).ok());
    join();
    expose(remote.data(), remote.size());
  }
  std::vector<std::byte> remote = std::vector<std::byte>(4096);
};

// How often a get saw memory before an earlier message was applied, and a put was not there when a
// later message was.
std::pair<int, int> surprises(const LoopCapabilities& capabilities) {
  Pair pair(capabilities);
  int overtook = 0, late = 0;
  for (int i = 1; i <= 200; ++i) {
    const std::byte value{static_cast<unsigned char>(i % 251)};
    std::byte seen{}, put{value};
    pair.target->hook = [&](EndpointId, Bytes header, Bytes) {
      if (text_of(header) == "set") pair.remote[0] = value;
      if (text_of(header) == "look") late += pair.remote[100] != value;
      return true;
    };
    send(*pair.client, pair.near, "set");
    EXPECT_EQ(pair.client->fabric->get(pair.near, &seen, pair.key, 0, 1, 1), SendResult::accepted);
    EXPECT_EQ(pair.client->fabric->put(pair.near, &put, pair.key, 100, 1, 2), SendResult::accepted);
    send(*pair.client, pair.near, "look");
    const size_t done = pair.client->rma_done.size();
    EXPECT_TRUE(pair.until([&] {
      return pair.client->rma_done.size() == done + 2 &&
             pair.target->message_count == static_cast<uint64_t>(2 * i);
    }));
    overtook += seen != value;
    EXPECT_EQ(pair.remote[100], value);
  }
  return {overtook, late};
}

TEST(Loop, InOrderThereAreNoSurprises) { EXPECT_EQ(surprises({}), std::make_pair(0, 0)); }

TEST(Loop, UnorderedRmaOvertakesAndComesLate) {
  const auto [overtook, late] = surprises(LoopCapabilities::worst(5));
  EXPECT_GT(overtook, 20);
  EXPECT_GT(late, 20);
}

TEST(Loop, ASeedRepeatsARun) {
  EXPECT_EQ(surprises(LoopCapabilities::worst(7)), surprises(LoopCapabilities::worst(7)));
}

TEST(Loop, PutsTakeEffectAfterACloseThatDoesNotFence) {
  int placed_late = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Pair pair(LoopCapabilities::worst(seed));
    const std::byte one{1};
    ASSERT_EQ(pair.client->fabric->put(pair.near, &one, pair.key, 0, 1, 1), SendResult::accepted);
    const bool at_once = pair.remote[0] == one;
    pair.target->fabric->close(pair.far);
    ASSERT_TRUE(run_until({pair.client.get()}, [&] { return !pair.client->closed.empty(); }));
    for (int i = 0; i < 20; ++i) pair.target->step();
    placed_late += !at_once && pair.remote[0] == one;
  }
  EXPECT_GT(placed_late, 5);
}

TEST(Loop, DeregisteredMemoryIsSafeFromLatePuts) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Pair pair(LoopCapabilities::worst(seed));
    const std::byte one{1};
    ASSERT_EQ(pair.client->fabric->put(pair.near, &one, pair.key, 0, 1, 1), SendResult::accepted);
    pair.client->fabric->close(pair.near);
    pair.target->fabric->deregister_memory(pair.registration);
    pair.remote.clear();
    pair.remote.shrink_to_fit();  // the address sanitizer watches
    for (int i = 0; i < 20; ++i) pair.target->step();
  }
}

TEST(Loop, OutOfRangeRmaFails) {
  Pair pair{LoopCapabilities{}};
  std::byte local[8]{};
  ASSERT_EQ(pair.client->fabric->put(pair.near, local, pair.key, 4092, 8, 1), SendResult::accepted);
  ASSERT_EQ(pair.client->fabric->get(pair.near, local, pair.key, ~uint64_t{0}, 8, 2),
            SendResult::accepted);
  ASSERT_TRUE(pair.until([&] { return pair.client->rma_failed.size() == 2; }));
}

TEST(Loop, UnansweredRequestsExpire) {
  Options options;
  options.hello_deadline_ns = 5'000'000;
  const auto network = make_loop_network({});
  std::unique_ptr<Fabric> a, b;
  ASSERT_TRUE(make_loop_fabric(network, options, &a).ok() &&
              make_loop_fabric(network, options, &b).ok());
  Side target(std::move(a)), client(std::move(b));
  target.accept_requests = false;
  std::vector<std::byte> address;
  EndpointId near;
  ASSERT_TRUE(target.fabric->listen(&address).ok() &&
              client.fabric->connect(address, {}, &near).ok());
  ASSERT_TRUE(run_until({&client, &target}, [&] { return !client.closed.empty(); }));
  EXPECT_EQ(client.reasons[0], CloseReason::refused);
}

}  // namespace
}  // namespace skerry::fabric::test
