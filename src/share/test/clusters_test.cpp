// Clusters: ranks reach a cluster through one server of it, their gate, which passes their channels
// on.
#include <sodium.h>

#include <algorithm>
#include <array>

#include "connection/hello.hpp"
#include "fabric/test/forward.hpp"
#include "fabric/test/loop/loop.hpp"
#include "fabric/test/side.hpp"
#include "share/message.hpp"
#include "share/share.hpp"

namespace skerry::fabric::test {
namespace {

constexpr NodeId nodes = 6;

// Six nodes in clusters of three: 0 1 2 | 3 4 5, and a rank of node 0, whose gates are the servers
// of nodes 0 and 3.
class Clusters : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(sodium_init(), 0);
    for (NodeId node = 0; node < nodes; ++node) {
      share::Options options;
      options.node = static_cast<uint32_t>(node);
      options.guide = guide();
      options.counters = counters_[node] = std::make_shared<share::Counters>();
      options.pool_bytes = pool_bytes;
      options.max_passing = max_passing;
      options.max_trunks = max_trunks;
      options.unused_trunk_ns = unused_trunk_ns;
      std::unique_ptr<Fabric> proxy;
      ASSERT_TRUE(share::make_proxy(inner(), options, &proxy).ok());
      servers_[node] = std::make_unique<Side>(std::move(proxy));
      ASSERT_TRUE(servers_[node]->fabric->listen(&addresses_[node]).ok());
    }
    rank_ = std::make_unique<Side>(rank_of(0));
  }
  share::Guide guide(NodeId cluster_size = 3) {
    return {placement::Routes(nodes, cluster_size, false),
            [this](NodeId node) { return Bytes(addresses_[static_cast<size_t>(node)]); }};
  }
  // `patient`: a link that makes way waits for its channels, however slow this machine is.
  std::unique_ptr<Fabric> rank_of(uint32_t node, uint32_t max_links = 0, NodeId cluster_size = 3,
                                  bool patient = false) {
    share::Options options;
    if (patient) options.leave_ns = options.quiet_ns = 60'000'000'000;
    options.rank = 10 + node;
    options.node = node;
    options.guide = guide(cluster_size);
    options.max_trunks = max_links;
    options.counters = links_ = std::make_shared<share::Counters>();
    std::unique_ptr<Fabric> made;
    EXPECT_TRUE(share::make_proxy_client(inner(), options, &made).ok());
    return made;
  }
  virtual std::unique_ptr<Fabric> inner() {
    Options options;
    options.loopback_only = true;
    std::unique_ptr<Fabric> made;
    EXPECT_TRUE(make_loop_fabric(network_, options, &made).ok());
    return made;
  }
  EndpointId connect(NodeId node) {
    EndpointId endpoint = no_endpoint;
    EXPECT_TRUE(
        rank_->fabric->connect(addresses_[static_cast<size_t>(node)], as_bytes("hello"), &endpoint)
            .ok());
    return endpoint;
  }
  template <class Condition>
  bool run(Condition condition) {
    return run_until({rank_.get(), servers_[0].get(), servers_[1].get(), servers_[2].get(),
                      servers_[3].get(), servers_[4].get(), servers_[5].get()},
                     condition);
  }
  bool is_connected(EndpointId endpoint) const {
    return std::count(rank_->connected.begin(), rank_->connected.end(), endpoint) == 1;
  }
  bool join(NodeId node, EndpointId* endpoint) {
    *endpoint = connect(node);
    return run([&] { return is_connected(*endpoint); });
  }
  // Sends on a new channel to a server that takes nothing, until no more goes. Returns how many
  // bytes went.
  uint64_t fill(NodeId target) {
    servers_[target]->hook = [](EndpointId, Bytes, Bytes) { return false; };
    EndpointId channel = no_endpoint;
    EXPECT_TRUE(join(target, &channel));
    const std::vector<std::byte> payload = pattern(30'000, 1);
    uint64_t bytes = 0;
    int idle_rounds = 0;
    EXPECT_TRUE(run([&] {
      ++idle_rounds;
      for (; send(*rank_, channel, "fill", payload) == SendResult::accepted; idle_rounds = 0)
        bytes += payload.size();
      return idle_rounds == 3;
    }));
    return bytes;
  }

  uint64_t pool_bytes = 1024 * 1024;
  uint32_t max_passing = 100;
  uint32_t max_trunks = 0;
  int64_t unused_trunk_ns = 1'000'000'000;
  std::shared_ptr<LoopNetwork> network_ = make_loop_network({});
  std::array<std::shared_ptr<share::Counters>, nodes> counters_;
  std::shared_ptr<share::Counters> links_;
  std::array<std::vector<std::byte>, nodes> addresses_;
  std::array<std::unique_ptr<Side>, nodes> servers_;
  std::unique_ptr<Side> rank_;
};

TEST_F(Clusters, OneConnectionServesAWholeCluster) {
  EndpointId to[nodes] = {};
  for (NodeId node = 3; node < nodes; ++node) ASSERT_TRUE(join(node, &to[node]));
  EXPECT_EQ(links_->trunks.load(), 1u);
  for (NodeId node = 3; node < nodes; ++node) {
    ASSERT_EQ(send(*rank_, to[node], concat("to ", node)), SendResult::accepted);
    ASSERT_TRUE(run([&] { return servers_[node]->message_count == 1; }));
    EXPECT_EQ(servers_[node]->messages[0].header, concat("to ", node));
    ASSERT_EQ(send(*servers_[node], servers_[node]->accepted[0], "back"), SendResult::accepted);
  }
  ASSERT_TRUE(run([&] { return rank_->message_count == 3; }));
  EXPECT_EQ(counters_[3]->trunks.load(), 2u);  // to 4 and 5
  EXPECT_EQ(counters_[3]->channels.load(), 2u);
  EXPECT_EQ(counters_[4]->trunks.load(), 0u);
  // The own cluster: through the own node's server.
  EndpointId near = no_endpoint;
  ASSERT_TRUE(join(2, &near));
  EXPECT_EQ(counters_[0]->trunks.load(), 1u);
  EXPECT_EQ(links_->trunks.load(), 2u);
}

// A cap of one connection reaches three servers without a change of partner.
TEST_F(Clusters, AtTheLimitALinkMakesWayWithAllItsChannels) {
  constexpr bool patient = true;
  rank_ = std::make_unique<Side>(rank_of(0, 1, 3, patient));
  EndpointId first = no_endpoint, second = no_endpoint;
  ASSERT_TRUE(join(3, &first));
  ASSERT_TRUE(join(5, &second));
  EXPECT_EQ(rank_->fabric->connections().evicted, 0u);
  for (const EndpointId each : {first, second})
    ASSERT_EQ(send(*rank_, each, "hello"), SendResult::accepted);
  ASSERT_TRUE(run([&] { return servers_[3]->message_count + servers_[5]->message_count == 2; }));
  for (const NodeId node : {3, 5})
    ASSERT_EQ(send(*servers_[node], servers_[node]->accepted[0], "answer"), SendResult::accepted);
  ASSERT_TRUE(run([&] { return rank_->message_count == 2; }));
  // Another cluster: both are asked to close, and the link goes with the last of them.
  EndpointId newcomer = no_endpoint;
  ASSERT_TRUE(join(1, &newcomer));
  ASSERT_TRUE(run([&] { return rank_->message_count == 4; }));
  EXPECT_EQ(rank_->fabric->connections().evicted, 1u);
  rank_->fabric->close(first);
  rank_->fabric->close(second);
  ASSERT_TRUE(run([&] { return rank_->fabric->connections().now == 1; }));
  EXPECT_LE(rank_->fabric->connections().peak, 2u);
  EXPECT_TRUE(rank_->closed.empty());
}

// Channels that do not close in time are closed, so that the newcomer need not wait for ever.
TEST_F(Clusters, AtTheLimitALinkGoesThoughItsChannelsStay) {
  rank_ = std::make_unique<Side>(rank_of(0, 1));
  EndpointId stays = no_endpoint, newcomer = no_endpoint;
  ASSERT_TRUE(join(4, &stays));
  ASSERT_TRUE(join(1, &newcomer));
  ASSERT_TRUE(run([&] { return !rank_->closed.empty(); }));
  EXPECT_EQ(rank_->closed[0], stays);
  EXPECT_EQ(rank_->reasons[0], CloseReason::reset);
}

// Of two links the one that is used less has no answer yet: the other makes way.
TEST_F(Clusters, ALinkWithoutAnAnswerIsNotTheFirstToGo) {
  rank_ = std::make_unique<Side>(rank_of(0, 2, 1));
  EndpointId unanswered = no_endpoint, answered = no_endpoint, newcomer = no_endpoint;
  ASSERT_TRUE(join(3, &unanswered));
  ASSERT_TRUE(join(4, &answered));
  ASSERT_EQ(send(*servers_[4], servers_[4]->accepted[0], "answer"), SendResult::accepted);
  ASSERT_TRUE(run([&] { return rank_->message_count == 1; }));
  ASSERT_TRUE(join(5, &newcomer));
  ASSERT_TRUE(run([&] { return !rank_->closed.empty(); }));
  EXPECT_EQ(rank_->closed[0], answered);
}

// The next channel finds it.
TEST_F(Clusters, ALinkStaysWithoutChannels) {
  for (const NodeId node : {3, 5, 3}) {
    EndpointId channel = no_endpoint;
    ASSERT_TRUE(join(node, &channel));
    rank_->fabric->close(channel);
    ASSERT_TRUE(
        run([&] { return servers_[node]->closed.size() == servers_[node]->accepted.size(); }));
    EXPECT_EQ(links_->trunks.load(), 1u);
  }
  EXPECT_EQ(links_->trunks_opened.load(), 1u);
}

TEST_F(Clusters, ALimitMayChange) {
  EndpointId to[nodes] = {};
  ASSERT_TRUE(rank_->fabric->limits_connections());
  ASSERT_TRUE(join(3, &to[3]));
  ASSERT_TRUE(join(1, &to[1]));
  EXPECT_EQ(rank_->fabric->connections().now, 2u);
  ASSERT_TRUE(rank_->fabric->limit_connections(1).ok());
  rank_->fabric->close(to[3]);  // its link stays, unused
  ASSERT_TRUE(join(4, &to[4]));
  EXPECT_LE(rank_->fabric->connections().peak, 2u);
  ASSERT_TRUE(rank_->fabric->limit_connections(0).ok());
  ASSERT_TRUE(join(2, &to[2]));
}

// What was under way is lost with the gate, and the sessions at both ends go on over a new channel.
TEST_F(Clusters, ABrokenGateClosesItsChannelsAtBothEnds) {
  EndpointId far = no_endpoint, direct = no_endpoint;
  ASSERT_TRUE(join(5, &far));
  ASSERT_TRUE(join(0, &direct));
  servers_[3]->fabric.reset();
  servers_[3] = nullptr;
  ASSERT_TRUE(run_until({rank_.get(), servers_[0].get(), servers_[5].get()}, [&] {
    return rank_->closed.size() == 1 && servers_[5]->closed.size() == 1;
  }));
  EXPECT_EQ(rank_->closed[0], far);
  EXPECT_EQ(rank_->reasons[0], CloseReason::reset);  // the far end did not close it
  EXPECT_NE(rank_->details[0].find("node 3"), std::string::npos) << rank_->details[0];
}

// An own node's server passes it on to a gate, and that to the target: two servers forward.
TEST_F(Clusters, ARankThatSharesGoesThroughTwoServers) {
  for (NodeId node = 0; node < nodes; ++node) {
    share::Options options;
    options.node = static_cast<uint32_t>(node);
    options.guide = {placement::Routes(nodes, 3, true), guide().address_of};
    options.counters = counters_[node];
    std::unique_ptr<Fabric> proxy;
    ASSERT_TRUE(share::make_proxy(inner(), options, &proxy).ok());
    servers_[node] = std::make_unique<Side>(std::move(proxy));
    ASSERT_TRUE(servers_[node]->fabric->listen(&addresses_[node]).ok());
  }
  share::Options options;
  options.rank = 7;
  options.guide = {placement::Routes(nodes, 3, true), guide().address_of};
  std::unique_ptr<Fabric> made;
  ASSERT_TRUE(share::make_proxy_client(inner(), options, &made).ok());
  rank_ = std::make_unique<Side>(std::move(made));
  EndpointId far = no_endpoint;
  ASSERT_TRUE(join(5, &far));
  ASSERT_EQ(send(*rank_, far, "far"), SendResult::accepted);
  ASSERT_TRUE(run([&] { return servers_[5]->message_count == 1; }));
  EXPECT_EQ(counters_[0]->channels.load(), 1u);
  EXPECT_EQ(counters_[3]->channels.load(), 1u);
  EXPECT_EQ(counters_[5]->channels.load(), 0u);
}

// Two data servers of node 3 pass channels on to the one of node 4. Guards against: both trunks
// said that they come from node 3, and each was taken for the other's successor, which ended it.
TEST_F(Clusters, TwoServersOfANodeHaveTrunksToTheSameServer) {
  share::Options options;
  options.node = 3;
  options.index = 1;
  options.guide = guide();
  std::unique_ptr<Fabric> made;
  ASSERT_TRUE(share::make_proxy(inner(), options, &made).ok());
  Side second(std::move(made));
  std::vector<std::byte> address;
  ASSERT_TRUE(second.fabric->listen(&address).ok());
  share::Options client;
  client.rank = 20;
  client.guide = {placement::Routes(nodes, 3, false), [&](NodeId) { return Bytes(address); }};
  ASSERT_TRUE(share::make_proxy_client(inner(), client, &made).ok());
  Side other(std::move(made));
  const auto run_all = [&](auto condition) {
    return run_until({rank_.get(), servers_[3].get(), servers_[4].get(), &second, &other},
                     condition);
  };
  EndpointId one = no_endpoint, two = no_endpoint;
  ASSERT_TRUE(join(4, &one));
  ASSERT_TRUE(other.fabric->connect(addresses_[4], as_bytes("hello"), &two).ok());
  ASSERT_TRUE(run_all([&] { return other.connected.size() == 1; }));
  ASSERT_EQ(send(*rank_, one, "one"), SendResult::accepted);
  ASSERT_EQ(send(other, two, "two"), SendResult::accepted);
  ASSERT_TRUE(run_all([&] { return servers_[4]->message_count == 2; }));
  EXPECT_TRUE(rank_->closed.empty());
  EXPECT_TRUE(other.closed.empty());
  EXPECT_EQ(counters_[3]->trunks_opened.load(), 1u);
}

// Targets take nothing. What waits for them is kept within the pool: the channel that keeps most is
// closed, and one that is served goes on.
TEST_F(Clusters, WhatWaitsIsKeptWithinThePool) {
  servers_[4]->parks_left = 1;
  std::vector<EndpointId> stuck(16);
  for (EndpointId& each : stuck) ASSERT_TRUE(join(4, &each));
  servers_[4]->hook = [](EndpointId, Bytes, Bytes) { return false; };
  const std::vector<std::byte> payload = pattern(48 * 1024, 1);
  EndpointId served = no_endpoint;
  ASSERT_TRUE(join(5, &served));
  const auto flood = [&] {
    for (const EndpointId each : stuck)
      while (send(*rank_, each, "flood", payload) == SendResult::accepted) {
      }
    return counters_[4]->channels_dropped.load() + counters_[3]->channels_dropped.load() > 3;
  };
  ASSERT_TRUE(run(flood));
  uint64_t sent = 0;
  ASSERT_TRUE(run([&] {
    sent += send(*rank_, served, "served", payload) == SendResult::accepted;
    return servers_[5]->message_count >= 100;
  }));
  for (const NodeId node : {3, 4}) {
    EXPECT_LE(counters_[node]->kept_bytes.load(), 2 * pool_bytes) << node;
    // and what one round brings beyond
    EXPECT_LE(counters_[node]->kept_peak_bytes.load(), 2 * pool_bytes + 16 * 600 * 1024) << node;
  }
  EXPECT_EQ(std::count(rank_->closed.begin(), rank_->closed.end(), served), 0);
  ASSERT_TRUE(run([&] { return !rank_->closed.empty(); }));
  EXPECT_EQ(rank_->reasons[0], CloseReason::reset);
  EXPECT_NE(rank_->details[0].find("no room"), std::string::npos) << rank_->details[0];
}

// A pool may be smaller than a window: the only channel in it gets on all the same.
TEST_F(Clusters, TheOnlyChannelInAPoolStays) {
  pool_bytes = 100'000;
  SetUp();
  EXPECT_GT(fill(3), pool_bytes);
  EXPECT_GT(counters_[3]->kept_bytes.load(), pool_bytes);
  EXPECT_EQ(counters_[3]->channels_dropped.load(), 0u);
  EXPECT_TRUE(rank_->closed.empty());
}

// What came from ranks leaves room for what other servers pass on: each has its own pool.
TEST_F(Clusters, RanksAndServersHaveAPoolEach) {
  pool_bytes = 600'000;
  SetUp();
  EXPECT_LT(fill(3), pool_bytes);
  const std::unique_ptr<Side> first = std::exchange(rank_, std::make_unique<Side>(rank_of(1)));
  EXPECT_LT(fill(3), pool_bytes);  // this rank's gate is node 4
  EXPECT_EQ(counters_[4]->channels.load(), 1u);
  EXPECT_GT(counters_[3]->kept_bytes.load(), pool_bytes);
  EXPECT_EQ(counters_[3]->channels_dropped.load(), 0u);
}

// The gate has many channels, and the target has two.
TEST_F(Clusters, AGateLowersTheWindow) {
  EXPECT_GT(fill(5), 2 * share::least_window_bytes);
  for (int i = 0; i < 8; ++i) {
    EndpointId other = no_endpoint;
    ASSERT_TRUE(join(4, &other));
  }
  EXPECT_LE(fill(5), share::least_window_bytes);
}

TEST_F(Clusters, ATargetLowersTheWindow) {
  EXPECT_GT(fill(3), 2 * share::least_window_bytes);
  for (int i = 0; i < 8; ++i) {
    EndpointId other = no_endpoint;
    ASSERT_TRUE(join(3, &other));
  }
  EXPECT_LE(fill(3), share::least_window_bytes);  // no server is on the way
}

// A gate passes so many channels. Idle ones are asked to close, and closed if they do not; one that
// is used stays.
TEST_F(Clusters, IdleChannelsThatPassMakeWay) {
  EndpointId used = no_endpoint, newest = no_endpoint;
  const auto speak = [&](EndpointId channel) {
    const uint64_t before = rank_->message_count;
    EXPECT_EQ(send(*rank_, channel, "hello"), SendResult::accepted);
    const uint64_t arrived = servers_[4]->message_count + 1;
    EXPECT_TRUE(run([&] { return servers_[4]->message_count == arrived; }));
    EXPECT_EQ(send(*servers_[4], servers_[4]->messages.back().endpoint, "answer"),
              SendResult::accepted);
    EXPECT_TRUE(run([&] { return rank_->message_count > before; }));
  };
  ASSERT_TRUE(join(4, &used));
  speak(used);
  for (uint32_t i = 1; i < max_passing; ++i) {
    ASSERT_TRUE(join(4, &newest));
    speak(newest);
  }
  EXPECT_EQ(counters_[3]->channels_asked.load(), 0u);
  EXPECT_EQ(counters_[3]->channels.load(), max_passing);
  for (uint32_t i = 0; i < 3 * max_passing; ++i) {
    ASSERT_TRUE(join(4, &newest)) << i;
    speak(newest);
    speak(used);
    EXPECT_LE(counters_[3]->channels.load(), max_passing + max_passing / 2) << i;
  }
  EXPECT_GT(counters_[3]->channels_asked.load(), 0u);
  // This rank heard that it was asked, and did nothing.
  EXPECT_GT(counters_[3]->channels_closed.load(), 0u);
  ASSERT_TRUE(run([&] { return rank_->closed.size() == counters_[3]->channels_closed.load(); }));
  EXPECT_EQ(std::count(rank_->closed.begin(), rank_->closed.end(), used), 0);
  EXPECT_EQ(std::count(rank_->closed.begin(), rank_->closed.end(), newest), 0);
  EXPECT_EQ(rank_->reasons[0], CloseReason::reset);
}

// Somebody waits for the answer.
TEST_F(Clusters, AChannelWithoutAnAnswerIsNotIdle) {
  max_passing = 4;
  SetUp();
  for (uint32_t i = 0; i < 3 * max_passing; ++i) {
    EndpointId channel = no_endpoint;
    ASSERT_TRUE(join(4, &channel));
  }
  EXPECT_EQ(counters_[3]->channels_asked.load(), 0u);
  EXPECT_TRUE(rank_->closed.empty());
}

// Idle channels are asked from the limit on, and closed from a quarter more on if they were asked.
TEST_F(Clusters, NoChannelIsClosedBeforeItWasAsked) {
  max_passing = 16;
  SetUp();
  EndpointId channel = no_endpoint;
  for (uint32_t i = 0; i <= max_passing; ++i) ASSERT_TRUE(join(4, &channel));
  for (const EndpointId each : servers_[4]->accepted)
    ASSERT_EQ(send(*servers_[4], each, "answer"), SendResult::accepted);
  ASSERT_TRUE(run([&] { return rank_->message_count > max_passing; }));
  while (counters_[3]->channels.load() < max_passing + max_passing / 4)
    ASSERT_TRUE(join(4, &channel));
  EXPECT_GE(counters_[3]->channels_asked.load(), 4u);
  EXPECT_EQ(counters_[3]->channels_closed.load(), 0u);
  ASSERT_TRUE(join(4, &channel));
  ASSERT_TRUE(run([&] { return rank_->closed.size() == 2; }));
  for (const EndpointId each : rank_->closed)
    EXPECT_TRUE(std::ranges::any_of(rank_->messages, [&](const Message& message) {
      return message.endpoint == each && message.header != "answer";
    }));
}

// A message longer than what may be under way: it passes the gate in parts and is one at its end.
TEST_F(Clusters, ALongPayloadIsPlacedAtItsEnd) {
  const std::vector<std::byte> payload = pattern(rank_->fabric->capabilities().max_payload_bytes,
                                                 7);
  ASSERT_GE(payload.size(), share::most_window_bytes);
  EndpointId far = no_endpoint, other = no_endpoint;
  ASSERT_TRUE(join(5, &far));
  ASSERT_TRUE(join(4, &other));
  ASSERT_EQ(send(*rank_, far, "long", payload, false, 9), SendResult::accepted);
  EXPECT_GT(rank_->fabric->unsent_bytes(far), 0u);
  EXPECT_EQ(send(*rank_, far, "behind"), SendResult::would_block);
  // The link is full: it is the other channel's turn after one part.
  while (send(*rank_, other, "meanwhile") != SendResult::accepted) {
    const int writable = rank_->writable;
    ASSERT_TRUE(run([&] { return rank_->writable > writable; }));
  }
  EXPECT_EQ(servers_[5]->placed, 0);
  ASSERT_TRUE(run([&] { return servers_[5]->placed == 1 && servers_[4]->message_count == 1; }));
  EXPECT_TRUE(servers_[5]->messages[0].payload == payload);
  EXPECT_EQ(rank_->sent, std::vector<uint64_t>{9});
  EXPECT_LE(counters_[3]->kept_peak_bytes.load(), share::most_window_bytes + 64 * 1024);
  ASSERT_TRUE(run([&] { return rank_->writable > 0; }));
  ASSERT_EQ(send(*rank_, far, "behind"), SendResult::accepted);
  ASSERT_TRUE(run([&] { return servers_[5]->message_count == 2; }));
  ASSERT_EQ(send(*servers_[5], servers_[5]->accepted[0], "back", payload, false, 11),
            SendResult::accepted);
  ASSERT_TRUE(run([&] { return rank_->placed == 1; }));
  EXPECT_TRUE(rank_->messages[0].payload == payload);
  EXPECT_EQ(servers_[5]->sent, std::vector<uint64_t>{11});
}

// In more than one part, but short enough to be delivered with its header. Its sender uses the
// memory for something else at once, as with any fabric.
TEST_F(Clusters, APayloadOfTwoPartsIsOneMessage) {
  EndpointId far = no_endpoint;
  ASSERT_TRUE(join(5, &far));
  constexpr uint32_t messages = 40;
  for (uint32_t i = 0; i < messages; ++i) {
    std::vector<std::byte> payload = pattern(inline_payload_bytes - i, i);
    ASSERT_TRUE(run([&] {
      return send(*rank_, far, "medium", payload, i % 2 == 0, i) == SendResult::accepted;
    }));
    std::fill(payload.begin(), payload.end(), std::byte{0xff});
    if (i == messages / 2) servers_[5]->parks_left = 2;
    while (servers_[5]->parks_left > 0) {
      const int parked = servers_[5]->parked;
      ASSERT_TRUE(run([&] { return servers_[5]->parked > parked; }));
      servers_[5]->fabric->unpark(servers_[5]->accepted[0]);
    }
  }
  ASSERT_TRUE(run([&] { return servers_[5]->message_count == messages; }));
  for (uint32_t i = 0; i < messages; ++i)
    EXPECT_TRUE(servers_[5]->messages[i].payload == pattern(inline_payload_bytes - i, i)) << i;
  EXPECT_EQ(servers_[5]->placed, 0);
  EXPECT_TRUE(rank_->sent.empty());
}

TEST_F(Clusters, ALongPayloadMayBeParkedWhenItIsPlaced) {
  EndpointId far = no_endpoint;
  ASSERT_TRUE(join(5, &far));
  const EndpointId end = servers_[5]->accepted[0];
  const std::vector<std::byte> payload = pattern(500'000, 8);
  servers_[5]->parks_left = 2;
  for (uint64_t i = 0; i < 3; ++i) {  // the window is exact whatever was parked
    ASSERT_TRUE(
        run([&] { return send(*rank_, far, "long", payload, false, i) == SendResult::accepted; }));
    while (i == 0 && servers_[5]->parks_left > 0) {
      const int parked = servers_[5]->parked;
      ASSERT_TRUE(run([&] { return servers_[5]->parked > parked; }));
      servers_[5]->fabric->unpark(end);
    }
  }
  ASSERT_TRUE(run([&] { return servers_[5]->placed == 3; }));
  for (const Message& message : servers_[5]->messages) EXPECT_TRUE(message.payload == payload);
}

class ClustersOverTcp : public Clusters {
 protected:
  std::unique_ptr<Fabric> inner() override {
    Options options;
    options.loopback_only = true;
    std::unique_ptr<Fabric> made;
    EXPECT_TRUE(make_tcp_fabric(options, &made).ok());
    return made;
  }
};

// Messages go right behind a channel's hello, over a link and a trunk that are being opened, too.
// They are kept at the end until it is accepted.
TEST_F(ClustersOverTcp, MessagesGoBehindTheHello) {
  servers_[5]->accept_requests = false;
  const EndpointId far = connect(5);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(send(*rank_, far, concat("early ", i), pattern(1000, 1)), SendResult::accepted);
  (void)rank_->fabric->flush(far);
  ASSERT_TRUE(run([&] { return servers_[5]->requests.size() == 1; }));
  servers_[3]->keep_messages = false;
  EXPECT_FALSE(is_connected(far));
  EXPECT_EQ(servers_[5]->message_count, 0u);
  EndpointId near = no_endpoint;
  ASSERT_TRUE(servers_[5]->fabric->accept(servers_[5]->requests[0], as_bytes("come"), &near).ok());
  ASSERT_TRUE(run([&] { return servers_[5]->message_count == 3 && is_connected(far); }));
  ASSERT_EQ(send(*rank_, far, "early 3", pattern(1000, 1)), SendResult::accepted);
  ASSERT_TRUE(run([&] { return servers_[5]->message_count == 4; }));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(servers_[5]->messages[i].header, concat("early ", i));
    EXPECT_EQ(servers_[5]->messages[i].payload, pattern(1000, 1));
  }
}

// What is refused goes when the channel is accepted.
TEST_F(ClustersOverTcp, EarlyMessagesStayWithinTheirWindow) {
  servers_[4]->accept_requests = false;
  const EndpointId far = connect(4);
  const std::vector<std::byte> payload = pattern(9'000, 2);
  int sent = 0;
  while (sent < 100 && send(*rank_, far, "early", payload) == SendResult::accepted) ++sent;
  EXPECT_LE(static_cast<uint64_t>(sent) * payload.size(), share::early_window_bytes);
  EXPECT_GE(sent, 4);
  ASSERT_TRUE(run([&] { return servers_[4]->requests.size() == 1; }));
  EndpointId near = no_endpoint;
  ASSERT_TRUE(servers_[4]->fabric->accept(servers_[4]->requests[0], as_bytes("come"), &near).ok());
  ASSERT_TRUE(run([&] { return rank_->writable == 1; }));
  EXPECT_EQ(send(*rank_, far, "early", payload), SendResult::accepted);
  ASSERT_TRUE(run([&] { return servers_[4]->message_count == static_cast<uint64_t>(sent) + 1; }));
}

TEST_F(ClustersOverTcp, EarlyMessagesOfARefusedChannelGoNowhere) {
  servers_[4]->accept_requests = false;
  const EndpointId far = connect(4);
  ASSERT_EQ(send(*rank_, far, "early"), SendResult::accepted);
  ASSERT_TRUE(run([&] { return servers_[4]->requests.size() == 1; }));
  servers_[4]->fabric->reject(servers_[4]->requests[0], CloseReason::replayed);
  ASSERT_TRUE(run([&] { return rank_->closed.size() == 1; }));
  EXPECT_EQ(rank_->reasons[0], CloseReason::replayed);
  EXPECT_EQ(servers_[4]->message_count, 0u);
  servers_[4]->accept_requests = true;
  EndpointId again = no_endpoint;
  ASSERT_TRUE(join(4, &again));
}

// What was sent before close arrives, although the channel has ended when it does.
TEST_F(ClustersOverTcp, ACloseDeliversWhatWasSentBefore) {
  EndpointId far = no_endpoint;
  ASSERT_TRUE(rank_->fabric->capabilities().close_delivers);
  for (uint64_t round = 1; round <= 5; ++round) {
    ASSERT_TRUE(join(4, &far));
    ASSERT_EQ(send(*rank_, far, "bye"), SendResult::accepted);
    rank_->fabric->close(far);
    ASSERT_TRUE(run([&] { return servers_[4]->closed.size() == round; }));
    EXPECT_EQ(servers_[4]->message_count, round);
    EXPECT_EQ(servers_[4]->reasons.back(), CloseReason::by_peer);
  }
}

// A trunk without channels stays for a while, so that the next channel finds it.
TEST_F(ClustersOverTcp, AnUnusedTrunkStaysForAWhile) {
  unused_trunk_ns = 3'600'000'000'000;
  SetUp();
  for (int round = 0; round < 5; ++round) {
    EndpointId far = no_endpoint;
    ASSERT_TRUE(join(5, &far));
    rank_->fabric->close(far);
    ASSERT_TRUE(run([&] { return counters_[3]->channels.load() == 0; }));
    EXPECT_EQ(counters_[3]->trunks.load(), 1u);
  }
  EXPECT_EQ(counters_[3]->trunks_opened.load(), 1u);
}

TEST_F(ClustersOverTcp, AnUnusedTrunkEndsAfterAWhile) {
  unused_trunk_ns = 1'000'000;
  SetUp();
  EndpointId far = no_endpoint;
  ASSERT_TRUE(join(5, &far));
  EXPECT_EQ(counters_[3]->trunks.load(), 1u);
  rank_->fabric->close(far);
  ASSERT_TRUE(run([&] { return counters_[3]->trunks.load() == 0; }));
}

// At a limit it makes way at once.
TEST_F(ClustersOverTcp, AnUnusedTrunkMakesWayAtOnce) {
  max_trunks = 1;
  SetUp();
  for (const NodeId node : {4, 5, 4}) {
    EndpointId far = no_endpoint;
    ASSERT_TRUE(join(node, &far));
    rank_->fabric->close(far);
    ASSERT_TRUE(run([&] { return counters_[3]->channels.load() == 0; }));
  }
  EXPECT_EQ(counters_[3]->trunks_opened.load(), 3u);
  EXPECT_EQ(counters_[3]->trunks_peak.load(), 1u);
}

// At a limit: who asks whether there is room is told of links that are there and of free slots.
TEST_F(ClustersOverTcp, RoomIsWhereNobodyMakesWay) {
  rank_ = std::make_unique<Side>(rank_of(0, 1));
  const auto has_room_for = [&](NodeId node) {
    return rank_->fabric->has_room_for(addresses_[static_cast<size_t>(node)]);
  };
  for (NodeId node = 0; node < nodes; ++node) EXPECT_TRUE(has_room_for(node));
  EndpointId far = no_endpoint;
  ASSERT_TRUE(join(4, &far));
  for (NodeId node = 0; node < nodes; ++node) EXPECT_EQ(has_room_for(node), node >= 3) << node;
}

// The end closes while the fabric beneath receives into its memory, which may be used for something
// else from then on. The trunk stays, for other channels.
TEST_F(ClustersOverTcp, NothingIsPlacedForAChannelThatHasEnded) {
  const std::vector<std::byte> payload = pattern(500'000, 9), other = pattern(500'000, 10);
  EndpointId stays = no_endpoint;
  ASSERT_TRUE(join(5, &stays));
  for (size_t i = 1; i <= 12; ++i) {
    EndpointId ends = no_endpoint;
    ASSERT_TRUE(join(5, &ends));
    const EndpointId end = servers_[5]->accepted[i];
    ASSERT_EQ(send(*rank_, ends, "long", payload), SendResult::accepted);
    ASSERT_TRUE(run([&] { return servers_[5]->directs_begun == static_cast<int>(i); }));
    for (size_t steps = 0; steps < i / 2; ++steps) servers_[5]->step();
    if (servers_[5]->placed > 0) break;  // it was faster
    servers_[5]->fabric->close(end);
    servers_[5]->placed_payloads[end] = other;
    ASSERT_EQ(send(*rank_, stays, "goes on"), SendResult::accepted);
    ASSERT_TRUE(run([&] { return servers_[5]->message_count == i && rank_->closed.size() == i; }));
    EXPECT_TRUE(servers_[5]->placed_payloads[end] == other);
    EXPECT_EQ(rank_->closed.back(), ends);
  }
  EXPECT_EQ(std::count(rank_->closed.begin(), rank_->closed.end(), stays), 0);
}

// Changes the messages that a rank sends on its link.
class Forger final : public Forward {
 public:
  using Forge = std::function<void(share::Prefix*, std::vector<std::byte>* rest)>;
  Forger(std::unique_ptr<Fabric> inner, Forge forge)
      : Forward(std::move(inner)), forge_(std::move(forge)) {}
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    share::Prefix prefix;
    std::memcpy(&prefix, header.data(), sizeof prefix);
    std::vector<std::byte> rest(header.begin() + sizeof prefix, header.end());
    forge_(&prefix, &rest);
    return Forward::send(endpoint, share::Header(prefix, rest).get(), payload, more, cookie);
  }

 private:
  const Forge forge_;
};

TEST_F(Clusters, ForgedPartsEndTheirChannelAlone) {
  const auto is = [](const share::Prefix& p, share::Kind kind) {
    return static_cast<share::Kind>(p.kind) == kind;
  };
  const auto of_length = [&](uint64_t bytes) {
    return [=](share::Prefix* p, std::vector<std::byte>* rest) {
      if (is(*p, share::Kind::begin)) std::memcpy(rest->data(), &bytes, sizeof bytes);
    };
  };
  const auto of_kind = [&](share::Kind from, share::Kind to) {
    return [=](share::Prefix* p, std::vector<std::byte>*) {
      if (is(*p, from)) p->kind = static_cast<uint8_t>(to);
    };
  };
  const Forger::Forge forgeries[] = {
      of_length(0),
      of_length(inline_payload_bytes),
      of_length(inline_payload_bytes + 1),
      of_length(~uint64_t{0}),
      of_kind(share::Kind::begin, share::Kind::part),
      of_kind(share::Kind::part, share::Kind::begin),
      of_kind(share::Kind::part, share::Kind::data),
      [&](share::Prefix* p, std::vector<std::byte>* rest) {
        if (is(*p, share::Kind::begin)) rest->resize(sizeof(uint64_t));
      },
  };
  const std::vector<std::byte> payload = pattern(200'000, 11);
  EndpointId honest = no_endpoint;
  ASSERT_TRUE(join(5, &honest));
  std::unique_ptr<Side> honest_rank = std::move(rank_);
  for (const Forger::Forge& forge : forgeries) {
    share::Options options;
    options.rank = 100 + static_cast<uint32_t>(servers_[5]->closed.size());
    options.guide = guide();
    std::unique_ptr<Fabric> made;
    ASSERT_TRUE(
        share::make_proxy_client(std::make_unique<Forger>(inner(), forge), options, &made).ok());
    rank_ = std::make_unique<Side>(std::move(made));
    EndpointId forged = no_endpoint;
    ASSERT_TRUE(join(5, &forged));
    const size_t closed = servers_[5]->closed.size();
    (void)send(*rank_, forged, "long", payload);
    ASSERT_TRUE(run([&] { return servers_[5]->closed.size() > closed && !rank_->closed.empty(); }));
    EXPECT_EQ(servers_[5]->reasons.back(), CloseReason::protocol_error);
  }
  EXPECT_EQ(servers_[5]->placed, 0);
  rank_ = std::move(honest_rank);
  ASSERT_EQ(send(*rank_, honest, "goes on"), SendResult::accepted);
  ASSERT_TRUE(run([&] { return servers_[5]->message_count == 1; }));
}

// Sends what a rank sends on its link several times.
class Repeater final : public Forward {
 public:
  using Forward::Forward;
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    share::Prefix prefix;
    std::memcpy(&prefix, header.data(), sizeof prefix);
    const bool is_data = static_cast<share::Kind>(prefix.kind) == share::Kind::data;
    for (int i = 0; i < 7 && is_data; ++i)
      (void)Forward::send(endpoint, header, payload, more, cookie);
    return Forward::send(endpoint, header, payload, more, cookie);
  }
};

class ClustersAndARepeater : public Clusters {
 protected:
  void join_with_repeater(NodeId node, EndpointId* endpoint) {
    share::Options options;
    options.rank = 100;
    options.guide = guide();
    std::unique_ptr<Fabric> made;
    ASSERT_TRUE(share::make_proxy_client(std::make_unique<Repeater>(inner()), options, &made).ok());
    rank_ = std::make_unique<Side>(std::move(made));
    ASSERT_TRUE(join(node, endpoint));
  }
};

// Its target takes nothing, so that only the window holds it back.
TEST_F(ClustersAndARepeater, AnEndThatIgnoresTheWindowLosesItsChannel) {
  EndpointId endless = no_endpoint;
  ASSERT_NO_FATAL_FAILURE(join_with_repeater(5, &endless));
  servers_[5]->hook = [](EndpointId, Bytes, Bytes) { return false; };
  const std::vector<std::byte> payload = pattern(16 * 1024, 11);
  ASSERT_TRUE(run([&] {
    (void)send(*rank_, endless, "again", payload);
    return !rank_->closed.empty();
  }));
  EXPECT_NE(rank_->details[0].find("window"), std::string::npos) << rank_->details[0];
}

// The trunk to its target is full, because that one has stopped.
TEST_F(ClustersAndARepeater, AnEndThatIgnoresTheWindowLosesItsChannelAtItsGate) {
  EndpointId endless = no_endpoint;
  ASSERT_NO_FATAL_FAILURE(join_with_repeater(5, &endless));
  const std::vector<std::byte> payload = pattern(16 * 1024, 11);
  ASSERT_TRUE(run_until({rank_.get(), servers_[3].get()}, [&] {
    (void)send(*rank_, endless, "again", payload);
    return !rank_->closed.empty() ||
           counters_[3]->kept_bytes.load() > 2 * share::most_waiting_bytes;
  }));
  ASSERT_EQ(rank_->closed.size(), 1u);
  EXPECT_NE(rank_->details[0].find("window"), std::string::npos) << rank_->details[0];
}

// Remembers what its owner connects with.
class Recorder final : public Forward {
 public:
  struct Record {
    std::vector<std::byte> address, hello;
  };
  Recorder(std::unique_ptr<Fabric> inner, std::vector<Record>* records)
      : Forward(std::move(inner)), records_(records) {}
  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override {
    records_->push_back({{address.begin(), address.end()}, {hello.begin(), hello.end()}});
    return Forward::connect(address, hello, endpoint);
  }

 private:
  std::vector<Record>* const records_;
};
class ClustersThatAreOverheard : public Clusters {
 protected:
  std::unique_ptr<Fabric> inner() override {
    return std::make_unique<Recorder>(Clusters::inner(), &records_);
  }
  std::vector<Recorder::Record> records_;
};

// Somebody without the job's key repeats the hellos of a link and of a trunk. Expect: no answer,
// and what the hellos opened stays.
TEST_F(ClustersThatAreOverheard, ARecordedHelloOpensNothing) {
  EndpointId far = no_endpoint;
  ASSERT_TRUE(join(5, &far));
  ASSERT_EQ(records_.size(), 2u);
  Side stranger(Clusters::inner());
  for (const Recorder::Record& record : records_) {
    EndpointId endpoint = no_endpoint;
    ASSERT_TRUE(stranger.fabric->connect(record.address, record.hello, &endpoint).ok());
    const size_t refused = stranger.closed.size();
    ASSERT_TRUE(run_until({&stranger, servers_[3].get(), servers_[5].get()}, [&] {
      return stranger.closed.size() > refused || !stranger.connected.empty();
    }));
  }
  EXPECT_TRUE(stranger.connected.empty());
  ASSERT_EQ(send(*rank_, far, "goes on"), SendResult::accepted);
  ASSERT_TRUE(run([&] { return servers_[5]->message_count == 1 || !rank_->closed.empty(); }));
  EXPECT_TRUE(rank_->closed.empty());
}

// The more channels there are, the less each may have under way.
TEST(Pools, AWindowIsTheShareOfAPool) {
  share::Pool pool;
  EXPECT_EQ(share::window_within(pool, 1000, share::most_window_bytes), share::most_window_bytes);
  EXPECT_EQ(share::window_within(pool, 1, ~uint64_t{0}), share::most_window_bytes);  // forged
  pool.limit = 1 << 20;
  EXPECT_EQ(share::window_within(pool, 1, share::most_window_bytes), share::most_window_bytes);
  EXPECT_EQ(share::window_within(pool, 4, share::most_window_bytes), (1u << 20) / 4);
  EXPECT_EQ(share::window_within(pool, 4, 200'000), 200'000u);
  EXPECT_EQ(share::window_within(pool, 10'000, share::most_window_bytes),
            share::least_window_bytes);
}

TEST(Pools, AreChargedWithWhatWaits) {
  share::Pool pool;
  {
    share::Kept kept;
    kept.charge(&pool);
    kept.push(as_bytes("header"), as_bytes("payload"));
    kept.push(as_bytes("header"), {});
    EXPECT_EQ(pool.held, kept.bytes());
    const uint64_t both = pool.held;
    share::Message first = kept.take();
    EXPECT_LT(pool.held, both);
    kept.put_back(std::move(first));
    EXPECT_EQ(pool.held, both);
    kept.pop();
    EXPECT_EQ(kept.front().payload.size(), 0u);
    EXPECT_GT(pool.held, 0u);
    EXPECT_GE(pool.peak, both);
  }
  EXPECT_EQ(pool.held, 0u);
}

// A channel that has passed as many servers as a route may have, and is not there: a rank with
// other settings, or a forged message. It is refused and not sent on.
TEST_F(Clusters, NothingGoesRoundInCircles) {
  share::Options options;
  options.rank = 9;
  options.node = 0;
  // This rank takes all six nodes for one cluster, and node 1's server for its own.
  options.guide = {placement::Routes(nodes, 6, true),
                   [this](NodeId) { return Bytes(addresses_[1]); }};
  std::unique_ptr<Fabric> made;
  ASSERT_TRUE(share::make_proxy_client(inner(), options, &made).ok());
  rank_ = std::make_unique<Side>(std::move(made));
  // Node 1's server may forward once: its gate for the far cluster is node 4's, which is the last.
  const EndpointId wrong = connect(5);
  ASSERT_TRUE(run([&] { return !rank_->closed.empty(); }));
  EXPECT_EQ(rank_->closed[0], wrong);
  EXPECT_EQ(rank_->reasons[0], CloseReason::unreachable);
  EXPECT_NE(rank_->details[0].find("SKERRY_CLUSTER_SIZE"), std::string::npos) << rank_->details[0];
  EXPECT_TRUE(servers_[5]->requests.empty());
}

// Guards against: a rank of another job learned only that it was refused.
TEST_F(Clusters, ARankWithAnotherKeyIsToldSo) {
  share::Options options;
  options.rank = 9;
  options.node = 0;
  options.key = {std::byte{1}};
  options.guide = {placement::Routes(nodes, 6, true),
                   [this](NodeId) { return Bytes(addresses_[1]); }};
  std::unique_ptr<Fabric> made;
  ASSERT_TRUE(share::make_proxy_client(inner(), options, &made).ok());
  rank_ = std::make_unique<Side>(std::move(made));
  servers_[1]->accept_requests = false;
  (void)connect(1);
  // The proxy does not know it as one of its own, so its data server is asked.
  ASSERT_TRUE(run([&] { return !servers_[1]->requests.empty(); }));
  servers_[1]->fabric->reject(servers_[1]->requests[0], CloseReason::unproven);
  ASSERT_TRUE(run([&] { return !rank_->closed.empty(); }));
  EXPECT_EQ(rank_->reasons[0], CloseReason::unproven);
  EXPECT_NE(rank_->details[0].find("to the data server of node 1"), std::string::npos)
      << rank_->details[0];
}

}  // namespace
}  // namespace skerry::fabric::test
