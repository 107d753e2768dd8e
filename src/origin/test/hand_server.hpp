// A data server played by hand: the test sees each message an engine sends, and answers when, in
// what order and as often as it likes. Over the loop fabric, so that what the engine does to its
// connections is real.
#pragma once

#include <gtest/gtest.h>
#include <sodium.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "connection/hello.hpp"
#include "fabric/test/forward.hpp"
#include "fabric/test/loop/loop.hpp"
#include "origin/engine/engine.hpp"

namespace skerry::origin::test {

class HandServer final : public fabric::Sink {
 public:
  struct Got {
    wire::Request request;
    std::vector<std::byte> payload;
    uint64_t number() const { return request.header.number; }
  };

  HandServer(std::unique_ptr<fabric::Fabric> made, NodeId node)
      : fabric_(std::move(made)),
        self_{static_cast<uint32_t>(node), 0, wire::version, connection::Role::server} {
    EXPECT_TRUE(fabric_->listen(&address).ok());
  }
  void step() {
    fabric_->poll(0, fabric::no_endpoint);
    fabric_->dispatch(*this);
  }

  // ---- what it says ----------------------------------------------------------------------------
  void acknowledge(uint64_t number) {
    answer(wire::AnswerKind::acknowledge, number, 0, 0, 0, 0, {});
  }
  void reply(const Got& to, uint64_t acknowledged, std::string_view data = {},
             uint64_t result = 0) {
    answer(wire::AnswerKind::reply, acknowledged, to.number(), to.request.header.reply_slot,
           to.request.header.reply_tag, result, data);
  }
  void reply_failed(const Got& to, uint64_t acknowledged, std::string_view why) {
    code_ = static_cast<int8_t>(Code::unsupported);
    reply(to, acknowledged, why);
    code_ = 0;
  }
  void refuse(uint64_t number, uint64_t acknowledged, std::string_view why) {
    code_ = static_cast<int8_t>(Code::range);
    answer(wire::AnswerKind::failure, acknowledged, number, 0, 0, 0, why);
    code_ = 0;
  }
  void say(wire::CloseKind kind, uint64_t last_number = 0, uint16_t asked_again = 0) {
    const wire::CloseHeader close{wire::version, static_cast<uint8_t>(kind), asked_again,
                                  incarnation, last_number};
    (void)fabric_->send(endpoint, std::as_bytes(std::span(&close, 1)), {}, false, 0);
  }
  fabric::RemoteKey register_memory(void* base, uint64_t bytes) {
    fabric::RemoteKey key;
    uint64_t registration = 0;  // ends with the fabric
    EXPECT_TRUE(fabric_->register_memory(base, bytes, &key, &registration).ok());
    return key;
  }
  void break_connection() { fabric_->close(std::exchange(endpoint, fabric::no_endpoint)); }

  // ---- what it hears ---------------------------------------------------------------------------
  void on_connect_request(fabric::RequestId request, fabric::Bytes bytes,
                          std::string_view) override {
    connection::Hello hello;
    ASSERT_TRUE(connection::check_hello({}, self_, bytes, &hello).ok());
    if (!accepts) {
      held_ = request;
      held_hello_ = hello;
      return;
    }
    accept(request, hello);
  }
  void accept_held() {
    accepts = true;
    accept(held_, held_hello_);
  }
  bool has_held() const { return held_ != 0; }
  fabric::Verdict on_message(fabric::EndpointId, fabric::Bytes header,
                             fabric::Bytes payload) override {
    if (wire::CloseKind kind; wire::peek(header, &kind)) {
      EXPECT_EQ(kind, wire::CloseKind::bye);
      wire::CloseHeader bye;
      EXPECT_TRUE(wire::decode(header, &bye).ok());
      byes.push_back(bye.last_number);
      return fabric::Verdict::taken;
    }
    Got one{{}, {payload.begin(), payload.end()}};
    EXPECT_TRUE(wire::decode(header, &one.request).ok());
    got.push_back(std::move(one));
    return fabric::Verdict::taken;
  }
  void on_connected(fabric::EndpointId, fabric::Bytes) override {}
  std::byte* place_directly(fabric::EndpointId, fabric::Bytes, uint64_t bytes) override {
    placed.resize(bytes);
    return placed.data();
  }
  fabric::Verdict on_placed(fabric::EndpointId e, fabric::Bytes header, uint64_t) override {
    return on_message(e, header, placed);
  }
  void on_writable(fabric::EndpointId) override {}
  void on_sent(fabric::EndpointId, uint64_t) override {}
  void on_rma_done(fabric::EndpointId, uint64_t, bool) override {}
  void on_closed(fabric::EndpointId closed, fabric::CloseReason, std::string_view) override {
    ++ends;
    if (closed == endpoint) endpoint = fabric::no_endpoint;
  }

  bool accepts = true;
  uint64_t applied = 0;  // what its next answer to a hello says
  uint32_t incarnation = 1;
  fabric::EndpointId endpoint = fabric::no_endpoint;
  int connections = 0, ends = 0;
  std::deque<Got> got;
  std::vector<uint64_t> byes;
  std::vector<std::byte> address, placed;

 private:
  void accept(fabric::RequestId request, const connection::Hello& hello) {
    const auto answer = connection::make_answer({}, self_, hello, applied);
    if (fabric_->accept(request, answer, &endpoint).ok()) ++connections;
  }
  void answer(wire::AnswerKind kind, uint64_t acknowledged, uint64_t number, uint32_t slot,
              uint32_t tag, uint64_t result, std::string_view data) {
    const wire::ReplyHeader header{wire::version, static_cast<uint8_t>(kind),
                                   code_,         0,
                                   incarnation,   acknowledged,
                                   number,        slot,
                                   tag,           result};
    EXPECT_EQ(fabric_->send(endpoint, std::as_bytes(std::span(&header, 1)),
                            std::as_bytes(std::span(data.data(), data.size())), false, 0),
              fabric::SendResult::accepted);
  }

  std::unique_ptr<fabric::Fabric> fabric_;
  connection::Peer self_;
  int8_t code_ = 0;
  fabric::RequestId held_ = 0;
  connection::Hello held_hello_{};
};

// Connecting fails at once so many times, as when a process has no descriptor left; and sending, as
// on a connection whose end is here already.
class Failing final : public fabric::Forward {
 public:
  Failing(std::unique_ptr<fabric::Fabric> inner, int connects)
      : Forward(std::move(inner)), connects_(connects) {}
  Status connect(fabric::Bytes address, fabric::Bytes hello,
                 fabric::EndpointId* endpoint) override {
    if (connects_ > 0) {
      --connects_;
      return error(Code::network, "no descriptor is left");
    }
    return inner_->connect(address, hello, endpoint);
  }
  fabric::SendResult send(fabric::EndpointId endpoint, fabric::Bytes header, fabric::Bytes payload,
                          bool more, uint64_t cookie) override {
    if (sends.load() == 0) return inner_->send(endpoint, header, payload, more, cookie);
    --sends;
    return fabric::SendResult::closed;
  }
  std::atomic<int> sends = 0;  // so many fail from now on

 private:
  int connects_;
};

// Rank 0 on node 0 with an engine; a hand server on nodes 1 and 2, ranks 1 and 2.
class EngineTest : public testing::Test {
 protected:
  static constexpr SegmentId segment{1, 1};

  void SetUp() override {
    ASSERT_GE(sodium_init(), 0);
    network_ = fabric::make_loop_network(capabilities_);
    for (NodeId node : {1, 2}) servers_.push_back(std::make_unique<HandServer>(fabric(), node));
    const NodeId nodes[] = {0, 1, 2};
    block_ = placement::build_node_map(nodes, {{}, {one().address}, {two().address}});
    ASSERT_TRUE(placement::NodeMap::view(block_, &map_).ok());
    memory::ControlSizes sizes;
    sizes.slots_per_member = 16;
    const memory::ControlLayout layout = memory::control_layout(sizes);
    page_ = static_cast<std::byte*>(std::aligned_alloc(memory::page_bytes, layout.total_bytes));
    std::memset(page_, 0, layout.total_bytes);
    control_ = memory::Control(page_, layout);
    control_.initialise();
  }
  void TearDown() override {
    engine_.reset();
    std::free(page_);
  }
  std::unique_ptr<fabric::Fabric> fabric() {
    fabric::Options options;
    options.loopback_only = true;
    std::unique_ptr<fabric::Fabric> made;
    EXPECT_TRUE((tcp_ ? fabric::make_tcp_fabric(options, &made)
                      : fabric::make_loop_fabric(network_, options, &made))
                    .ok());
    return made;
  }
  void start(uint32_t cap, int failing_connects = 0, int64_t reconnect_limit_ns = 60'000'000'000) {
    EngineConfig config;
    config.rank = 0;
    config.node = 0;
    config.map = &map_;
    config.control = control_;
    config.one_thread_at_a_time = one_thread_;
    config.helper = helper_;
    config.stream_gap_ns = stream_gap_ns_;
    config.reconnect_limit_ns = reconnect_limit_ns;
    auto failing = std::make_unique<Failing>(fabric(), failing_connects);
    failing_ = failing.get();
    engine_ = std::make_unique<Engine>(config, std::move(failing));
    ASSERT_TRUE(engine_->limit_connections(cap).ok());
  }
  HandServer& one() { return *servers_[0]; }
  HandServer& two() { return *servers_[1]; }
  static placement::ServerRef server(NodeId node) { return {node, 0}; }

  // Lets both ends work until it is so. The deadline is a net for a broken engine, no assertion.
  template <class Condition>
  bool until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      for (auto& server : servers_) server->step();
      if (watched_ != 0) {
        bool done = false;
        EXPECT_TRUE(engine_->test(&watched_, &done).ok());
      }
      std::this_thread::yield();
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }
  // An engine without a thread that waits moves by its helper; to be quicker, `until` looks at
  // this.
  void watch(Handle handle) { watched_ = handle; }

  Handle get(Rank rank, uint64_t* to) {
    Side from, here;
    from.bytes = here.bytes = 8;
    here.base = reinterpret_cast<std::byte*>(to);
    Handle handle = 0;
    const auto access = Access::get({rank, segment}, from, here, Mode::handle);
    EXPECT_TRUE(engine_->issue(access, &handle).ok());
    return handle;
  }
  void put(Rank rank, uint64_t value, Mode mode = Mode::blocking) {
    Side from, there;
    from.bytes = there.bytes = 8;
    from.base = reinterpret_cast<std::byte*>(&value);
    EXPECT_TRUE(engine_->issue(Access::put({rank, segment}, there, from, mode)).ok());
  }
  static std::string bytes(uint64_t value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

  std::shared_ptr<fabric::LoopNetwork> network_;
  std::vector<std::unique_ptr<HandServer>> servers_;
  std::vector<std::byte> block_;
  placement::NodeMap map_;
  std::byte* page_ = nullptr;
  memory::Control control_;
  std::unique_ptr<Engine> engine_;
  Failing* failing_ = nullptr;  // the engine's fabric
  Handle watched_ = 0;
  // To be set before SetUp; of the engine that is started.
  fabric::LoopCapabilities capabilities_{.rma = false};
  bool tcp_ = false;  // waits sleep on one socket alone, if one thread calls at a time
  bool one_thread_ = false;
  bool helper_ = true;  // it has the thread
  int64_t stream_gap_ns_ = 20'000;
};

}  // namespace skerry::origin::test
