// Trunks under a limit: every channel that waits for a slot gets it, whatever the channels in its
// way do or leave undone.
#include <sodium.h>

#include <algorithm>

#include "fabric/test/loop/loop.hpp"
#include "fabric/test/side.hpp"
#include "share/message.hpp"
#include "share/share.hpp"

namespace skerry::fabric::test {
namespace {

// Two far nodes and a rank whose own node has a slot for one trunk.
class Slots : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(sodium_init(), 0);
    for (uint32_t node = 0; node < 3; ++node) {
      share::Options options;
      options.node = node;
      options.guide.routes = placement::Routes(3, 1, true);
      options.max_trunks = node == 0 ? 1 : 0;
      options.counters = node == 0 ? counters_ : nullptr;
      std::unique_ptr<Fabric> proxy;
      ASSERT_TRUE(share::make_proxy(inner(), options, &proxy).ok());
      proxies_[node] = std::make_unique<Side>(std::move(proxy));
      ASSERT_TRUE(proxies_[node]->fabric->listen(&addresses_[node]).ok());
    }
    rank_ = std::make_unique<Side>(member(5));
  }
  std::unique_ptr<Fabric> member(uint32_t rank) {
    share::Options options;
    options.rank = rank;
    options.guide.routes = placement::Routes(3, 1, true);
    options.guide.address_of = [this](NodeId) { return Bytes(addresses_[0]); };
    std::unique_ptr<Fabric> made;
    EXPECT_TRUE(share::make_proxy_client(inner(), options, &made).ok());
    return made;
  }
  std::unique_ptr<Fabric> inner() {
    Options options;
    options.loopback_only = true;
    std::unique_ptr<Fabric> made;
    EXPECT_TRUE(make_loop_fabric(network_, options, &made).ok());
    return made;
  }
  EndpointId connect(uint32_t node) {
    EndpointId endpoint = no_endpoint;
    EXPECT_TRUE(rank_->fabric->connect(addresses_[node], as_bytes("hello"), &endpoint).ok());
    return endpoint;
  }
  template <class Condition>
  bool run(Condition condition) {
    return run_until({rank_.get(), proxies_[0].get(), proxies_[1].get(), proxies_[2].get()},
                     condition);
  }

  std::shared_ptr<LoopNetwork> network_ = make_loop_network({});
  std::shared_ptr<share::Counters> counters_ = std::make_shared<share::Counters>();
  std::vector<std::byte> addresses_[3];
  std::unique_ptr<Side> proxies_[3], rank_;
};

// The trunk in the way is still connecting when the newcomer asks, and no message ever comes back
// on its channel.
TEST_F(Slots, ANewcomerNeedsNoTrafficOfOthers) {
  connect(1);
  const EndpointId second = connect(2);
  ASSERT_TRUE(run(
      [&] { return std::count(rank_->connected.begin(), rank_->connected.end(), second) == 1; }));
  EXPECT_EQ(counters_->trunks_evicted.load(), 1u);
  EXPECT_LE(counters_->trunks_peak.load(), 2u);
}

// A data server without a free slot holds the request. The rank hears of it through both proxies,
// and waits as long as it takes: nothing is wrong with that server.
TEST_F(Slots, ARankIsToldThatItsRequestIsHeld) {
  proxies_[1]->accept_requests = false;
  const EndpointId channel = connect(1);
  ASSERT_TRUE(run([&] { return proxies_[1]->requests.size() == 1; }));
  proxies_[1]->fabric->hold(proxies_[1]->requests[0]);
  ASSERT_TRUE(
      run([&] { return std::count(rank_->held.begin(), rank_->held.end(), channel) == 1; }));
  EXPECT_TRUE(rank_->connected.empty());
  EXPECT_TRUE(rank_->closed.empty());
}

// A channel ends without ever having had an answer, another stays: the trunk may go now.
TEST_F(Slots, AChannelThatEndsUnansweredHoldsNobodyUp) {
  const EndpointId stays = connect(1);
  const EndpointId ends = connect(1);
  ASSERT_TRUE(run([&] { return rank_->connected.size() == 2; }));
  ASSERT_EQ(send(*proxies_[1], proxies_[1]->accepted[0], "answer"), SendResult::accepted);
  ASSERT_TRUE(run([&] { return rank_->message_count == 1; }));
  EXPECT_EQ(rank_->messages[0].endpoint, stays);
  const EndpointId newcomer = connect(2);
  rank_->fabric->close(ends);
  ASSERT_TRUE(run(
      [&] { return std::count(rank_->connected.begin(), rank_->connected.end(), newcomer) == 1; }));
}

// What tells a trunk's opening from a recorded one was 32 bits once, used up in 5 days of 10,000
// openings a second: from then on no trunk was accepted any more.
TEST_F(Slots, TrunksAreAcceptedBeyondTheirFourBillionthOpening) {
  share::Options options;
  options.guide.routes = placement::Routes(3, 1, true);
  options.max_trunks = 1;
  options.openings_before = (uint64_t{1} << 32) - 2;
  std::unique_ptr<Fabric> proxy;
  ASSERT_TRUE(share::make_proxy(inner(), options, &proxy).ok());
  proxies_[0] = std::make_unique<Side>(std::move(proxy));
  ASSERT_TRUE(proxies_[0]->fabric->listen(&addresses_[0]).ok());
  rank_ = std::make_unique<Side>(member(5));
  for (uint32_t opening = 0; opening < 6; ++opening) {
    const EndpointId channel = connect(1 + opening % 2);
    ASSERT_TRUE(run([&] {
      return std::count(rank_->connected.begin(), rank_->connected.end(), channel) == 1;
    })) << "opening "
        << opening;
  }
}

// Sends on one endpoint when it hears that another one is closed.
class Hasty final : public Side {
 public:
  using Side::Side;
  void on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) override {
    Side::on_closed(endpoint, reason, detail);
    for (const EndpointId other : connected)
      if (std::count(closed.begin(), closed.end(), other) == 0)
        results.push_back(send(*this, other, "hasty"));
  }
  std::vector<SendResult> results;
};

// All channels close with their link, one after the other. A sink that is told of the first may
// use the second.
TEST_F(Slots, AChannelWhoseEndIsNotToldYetTakesNothing) {
  auto hasty = std::make_unique<Hasty>(member(6));
  Hasty& rank = *hasty;
  rank_ = std::move(hasty);
  connect(1);
  connect(1);
  ASSERT_TRUE(run([&] { return rank.connected.size() == 2; }));
  proxies_[0].reset();
  ASSERT_TRUE(run_until({rank_.get()}, [&] { return rank.closed.size() == 2; }));
  EXPECT_EQ(rank.results, std::vector<SendResult>{SendResult::closed});
}

// Numbers of channels come again after 2^32 of them.
TEST(Channels, NumbersThatAreInUseAreSkipped) {
  const auto taken = [](uint32_t number) { return number == UINT32_MAX || number <= 2; };
  EXPECT_EQ(share::next_channel(7, taken), 8u);
  EXPECT_EQ(share::next_channel(UINT32_MAX - 2, taken), UINT32_MAX - 1);
  EXPECT_EQ(share::next_channel(UINT32_MAX - 1, taken), 3u) << "0 is none";
}

}  // namespace
}  // namespace skerry::fabric::test
