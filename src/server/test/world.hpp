// A data server over the loop fabric, driven by the test's own thread, and origins that say what
// the test tells them to. Past, duplicate, future and crossing messages reach the server's handlers
// as they would from a peer that broke, lagged or lies.
#pragma once

#include <gtest/gtest.h>
#include <sodium.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "connection/hello.hpp"
#include "fabric/test/loop/loop.hpp"
#include "lock/home.hpp"
#include "placement/node_map.hpp"
#include "server/server.hpp"
#include "server/test/turns.hpp"
#include "wire/message.hpp"

namespace skerry::server::test {

constexpr SegmentId segment{0, 1};
constexpr SegmentId mutexes{0, 2};
constexpr SegmentId homes{0, 3};  // of one lock with a manager (two-sided), for all ranks
constexpr uint64_t slice_bytes = 1 << 20;

// Rank 0 hosts the server on node 0; ranks 1, 2, 3 are each on a node of their own.
constexpr int32_t ranks = 4;

class World {
 public:
  explicit World(uint32_t max_connections = 0, uint32_t waiters = 0, int32_t size = ranks,
                 uint64_t max_payload_bytes = fabric::LoopCapabilities().max_payload_bytes,
                 uint16_t servers = 1)
      : network_(make_network(max_payload_bytes)), elsewhere_(make_fabric()) {
    EXPECT_GE(sodium_init(), 0);
    std::vector<NodeId> nodes(static_cast<size_t>(size));
    std::iota(nodes.begin(), nodes.end(), 0);
    std::vector<std::byte> listening;
    EXPECT_TRUE(elsewhere_->listen(&listening).ok());
    const std::vector<std::vector<std::vector<std::byte>>> addresses = {
        std::vector(servers, bytes("a")), {bytes("b")}, {bytes("c")}, {listening}};
    map_bytes_ = placement::build_node_map(nodes, addresses);
    EXPECT_TRUE(placement::NodeMap::view(map_bytes_, &map_).ok());
    memory::ControlSizes sizes;
    sizes.waiters = waiters;
    const memory::ControlLayout layout = memory::control_layout(sizes);
    control_bytes_.reset(
        static_cast<std::byte*>(std::aligned_alloc(memory::page_bytes, layout.total_bytes)));
    std::memset(control_bytes_.get(), 0, layout.total_bytes);
    control_ = memory::Control(control_bytes_.get(), layout);
    control_.initialise();
    directory_.slice.reset(static_cast<std::byte*>(std::aligned_alloc(64, slice_bytes)));
    std::memset(directory_.slice.get(), 0, slice_bytes);
    directory_.home.assign(lock::machine::Home::bytes(turns(), ranks) / 8, 0);
    lock::machine::Config config;
    config.requesters = ranks;
    home().make(turns(), config);
    std::vector<Server*> all;
    for (uint16_t index = 0; index < servers; ++index) {
      servers_.push_back(std::make_unique<Server>(
          ServerConfig{{0, index}, key_, size, max_connections}, make_fabric(), directory_));
      EXPECT_TRUE(servers_.back()->listen(&addresses_.emplace_back()).ok());
      all.push_back(servers_.back().get());
    }
    for (Server* const server : all)
      server->open(
          {control_, 0, [this](Rank r) { return map_.node_of(r) == 0 ? 0 : -1; }, &map_, all,
           &landings});
  }

  std::unique_ptr<fabric::Fabric> make_fabric() {
    fabric::Options options;
    options.loopback_only = true;
    std::unique_ptr<fabric::Fabric> made;
    EXPECT_TRUE(fabric::make_loop_fabric(network_, options, &made).ok());
    return made;
  }
  Server& server() { return *servers_.front(); }
  void turn() {
    for (const auto& server : servers_) server->turn(0);
  }
  void turn_of(uint16_t server) { servers_[server]->turn(0); }
  uint16_t server_index_of(Rank origin) const {
    return placement::server_on(map_, 0, origin).index;
  }
  const placement::NodeMap& map() const { return map_; }
  fabric::Fabric& elsewhere() { return *elsewhere_; }  // listens as the server of node 3
  const connection::JobKey& key() const { return key_; }
  const std::vector<std::byte>& address(uint16_t server) const { return addresses_[server]; }
  int64_t word(uint64_t at) const {
    int64_t out;
    std::memcpy(&out, directory_.slice.get() + at, sizeof out);
    return out;
  }
  memory::Control& control() { return control_; }
  lock::Mutex& mutex(uint64_t index) { return directory_.mutexes[index]; }
  lock::machine::Home home() {
    return lock::machine::Home(reinterpret_cast<std::byte*>(directory_.home.data()));
  }
  std::string text(uint64_t at, uint64_t bytes) const {
    return {reinterpret_cast<const char*>(directory_.slice.get()) + at, bytes};
  }
  Landings landings;  // as rank 0 announces them
  void lose_mutexes() { directory_.lost = true; }
  void free_segment() {
    for (const auto& server : servers_) server->forget(segment);
    directory_.slice.reset();
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  struct Memory final : Directory {
    Status find(SegmentId id, Rank rank, memory::Region* region) override {
      if (id == homes && rank == 0) {
        *region = {reinterpret_cast<std::byte*>(home.data()), home.size() * 8, 7,
                   memory::Kind::lock_words};
        return {};
      }
      if (id != segment || rank != 0 || !slice) return error(Code::freed, "no such segment");
      *region = {slice.get(), slice_bytes, 7, memory::Kind::node_shared};
      return {};
    }
    Status find_lock(SegmentId id, Rank rank, uint64_t index, lock::Mutex** mutex) override {
      if (id != server::test::mutexes || rank != 0 || lost)
        return error(Code::freed, "no such mutexes");
      if (index >= std::size(mutexes)) return error(Code::range, "no such mutex");
      *mutex = &mutexes[index];
      return {};
    }
    std::unique_ptr<std::byte, Free> slice;
    lock::Mutex mutexes[4]{};
    std::vector<uint64_t> home;
    bool lost = false;
  };
  static std::vector<std::byte> bytes(std::string_view text) {
    const auto all = std::as_bytes(std::span(text));
    return {all.begin(), all.end()};
  }

  static std::shared_ptr<fabric::LoopNetwork> make_network(uint64_t max_payload_bytes) {
    fabric::LoopCapabilities can;
    can.max_payload_bytes = max_payload_bytes;
    return fabric::make_loop_network(can);
  }

  std::shared_ptr<fabric::LoopNetwork> network_;
  connection::JobKey key_{};
  std::vector<std::byte> map_bytes_;
  placement::NodeMap map_;
  std::unique_ptr<std::byte, Free> control_bytes_;
  memory::Control control_;
  Memory directory_;
  std::unique_ptr<fabric::Fabric> elsewhere_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::vector<std::byte>> addresses_;  // of the servers
};

struct Heard {
  template <class Family>
  bool is(Family which) const {
    return kind == static_cast<uint8_t>(which);
  }
  uint8_t kind = 0;
  wire::ReplyHeader reply{};  // acknowledge, reply, failure
  std::string text;           // payload
};

// One origin process. It numbers nothing by itself: every test says what it sends.
class Origin final : public fabric::Sink {
 public:
  Origin(World& world, Rank rank) : world_(world), rank_(rank), fabric_(world.make_fabric()) {}

  // Opens a connection with the next generation; the earlier one, if any, is left as it is: broken
  // without the server's noticing.
  void connect() {
    hello_ = {static_cast<uint32_t>(rank_), ++generation, {}};
    is_open = is_closed = was_held = false;
    const auto hello = connection::make_hello(world_.key(), peer(), hello_.rank, hello_.generation);
    ASSERT_TRUE(
        fabric_->connect(world_.address(world_.server_index_of(rank_)), hello, &endpoint_).ok());
  }
  void open() {
    connect();
    run([&] { return is_open; });
  }
  void break_off() {
    fabric_->close(endpoint_);
    is_open = false;
  }

  wire::Request request(wire::Kind kind, uint64_t number) {
    wire::Request r;
    r.header.version = wire::version;
    r.header.kind = static_cast<uint8_t>(kind);
    r.header.origin_rank = static_cast<uint32_t>(rank_);
    r.header.incarnation = 1;
    r.header.target_rank = 0;
    r.header.target_server = world_.server_index_of(rank_);
    r.header.number = number;
    r.header.results_received = results_received;
    r.header.segment_owner = segment.owner;
    r.header.segment_generation = segment.generation;
    return r;
  }
  void send(const wire::Request& request, std::string_view payload = {}) {
    std::byte header[wire::max_request_bytes];
    const uint32_t bytes = wire::encode(request, header);
    ASSERT_EQ(
        fabric_->send(endpoint_, {header, bytes}, std::as_bytes(std::span(payload)), false, 0),
        fabric::SendResult::accepted);
  }
  void put(uint64_t number, uint64_t offset, int64_t value) {
    wire::Request r = request(wire::Kind::put, number);
    r.header.offset = offset;
    send(r, {reinterpret_cast<const char*>(&value), sizeof value});
  }
  void get(uint64_t number, uint64_t bytes) {
    wire::Request r = request(wire::Kind::get, number);
    r.header.reply_slot = 1;
    r.header.reply_tag = static_cast<uint32_t>(number);
    r.extent_bytes = bytes;
    send(r);
  }
  void ask_key(uint64_t number, uint64_t most_bytes) {
    wire::Request r = request(wire::Kind::key, number);
    r.header.offset = most_bytes;
    r.header.reply_slot = 1;
    r.header.reply_tag = static_cast<uint32_t>(number);
    send(r);
  }
  // The same in blocks of 4 KiB, every second one.
  void get_strided(uint64_t number, uint64_t bytes) {
    wire::Request r = request(wire::Kind::get, number);
    r.header.reply_slot = 1;
    r.header.reply_tag = static_cast<uint32_t>(number);
    r.header.flags = wire::flag_strided;
    r.shape = {4096, 0, 1, 0};
    r.level[0] = {bytes / 4096, 8192};
    r.extent_bytes = bytes;
    send(r);
  }
  void fetch_add(uint64_t number, uint64_t offset, uint64_t value, uint32_t slot = 1) {
    wire::Request r = request(wire::Kind::read_modify_write, number);
    r.header.offset = offset;
    r.header.reply_slot = slot;
    r.header.reply_tag = static_cast<uint32_t>(number);
    r.operands = {value, 0};
    send(r);
  }
  // `mode`: lock::shared_bit to share it.
  void lock(uint64_t number, uint64_t index, uint32_t thread = 1, lock::Holder mode = 0) {
    wire::Request r = request(wire::Kind::lock, number);
    to_mutex(r, index, thread);
    r.operands.first |= mode;
    r.header.reply_slot = thread;
    r.header.reply_tag = 100 + thread;
    send(r);
  }
  void unlock(uint64_t number, uint64_t index, uint32_t thread = 1) {
    wire::Request r = request(wire::Kind::unlock, number);
    to_mutex(r, index, thread);
    send(r);
  }
  // A get of 8 bytes, or an accumulate of one int64, that takes a lock along.
  void locked(wire::Kind kind, uint64_t number, uint64_t index, lock::Holder holder,
              uint64_t offset) {
    wire::Request r = request(kind, number);
    r.header.offset = offset;
    r.header.flags = wire::flag_locked;
    r.header.reply_slot = lock::thread_of(holder);
    r.header.reply_tag = static_cast<uint32_t>(number);
    r.guard = {mutexes.owner, mutexes.generation, index, holder};
    if (kind == wire::Kind::get) {
      r.extent_bytes = 8;
      return send(r);
    }
    r.header.type = static_cast<uint8_t>(ElementType::int64);
    r.header.operation = static_cast<uint8_t>(Operation::sum);
    const int64_t one = 1;
    send(r, {reinterpret_cast<const char*>(&one), sizeof one});
  }
  void bye(uint64_t last_number) {
    const wire::CloseHeader close{wire::version, static_cast<uint8_t>(wire::CloseKind::bye), 0, 1,
                                  last_number};
    ASSERT_EQ(fabric_->send(endpoint_, std::as_bytes(std::span(&close, 1)), {}, false, 0),
              fabric::SendResult::accepted);
  }

  // Lets the server and this origin work until the condition holds.
  template <class Condition>
  void run(Condition condition) {
    const int64_t end_ns = deadline_after(20'000'000'000);  // a net: the server itself goes by time
    while (!condition() && monotonic_ns() < end_ns) {
      world_.turn();
      if (reads) step();
    }
    EXPECT_TRUE(condition());
  }
  // So that everything sent so far is dealt with, whatever comes of it.
  void settle() {
    for (int i = 0; i < 20; ++i) {
      world_.turn();
      if (reads) step();
    }
  }
  void step() {
    fabric_->poll(0, fabric::no_endpoint);
    fabric_->dispatch(*this);
  }
  template <class Family>
  size_t count(Family kind) const {
    return static_cast<size_t>(
        std::count_if(heard.begin(), heard.end(), [=](const Heard& h) { return h.is(kind); }));
  }
  const Heard* answer_to(uint64_t number) const {
    for (const Heard& h : heard)
      if (h.is(wire::AnswerKind::reply) && h.reply.number == number) return &h;
    return nullptr;
  }
  bool granted(uint32_t thread) const {
    return std::any_of(heard.begin(), heard.end(), [=](const Heard& h) {
      return h.is(wire::AnswerKind::reply) && h.reply.slot == thread && h.reply.code == 0;
    });
  }

  uint64_t generation = 0;
  uint64_t results_received = 0;
  bool reads = true;  // false: a stopped process
  bool is_open = false, is_closed = false, was_held = false;
  uint64_t applied = 0;  // as the answer to the newest hello said
  bool refusals_follow = false;
  std::vector<Heard> heard;

 private:
  connection::Peer peer() const {
    return {0, world_.server_index_of(rank_), wire::version, connection::Role::server};
  }
  void to_mutex(wire::Request& r, uint64_t index, uint32_t thread) {
    r.header.segment_owner = mutexes.owner;
    r.header.segment_generation = mutexes.generation;
    r.header.offset = index;
    r.operands = {lock::make_holder(rank_, thread), 0};
  }
  void on_connect_request(fabric::RequestId, fabric::Bytes, std::string_view) override {}
  void on_held(fabric::EndpointId id) override { was_held |= id == endpoint_; }
  void on_connected(fabric::EndpointId id, fabric::Bytes answer) override {
    if (id != endpoint_) return;
    is_open = connection::check_answer(world_.key(), peer(), hello_, answer, &applied,
                                       &refusals_follow)
                  .ok();
  }
  fabric::Verdict on_message(fabric::EndpointId id, fabric::Bytes header,
                             fabric::Bytes payload) override {
    if (id != endpoint_) return fabric::Verdict::taken;
    Heard one;
    one.kind = std::to_integer<uint8_t>(header[1]);
    (void)wire::decode(header, &one.reply);
    one.text.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    heard.push_back(std::move(one));
    return fabric::Verdict::taken;
  }
  std::byte* place_directly(fabric::EndpointId, fabric::Bytes, uint64_t payload_bytes) override {
    payload_.resize(payload_bytes);
    return payload_.data();
  }
  fabric::Verdict on_placed(fabric::EndpointId id, fabric::Bytes header, uint64_t) override {
    return on_message(id, header, {});
  }
  void on_writable(fabric::EndpointId) override {}
  void on_sent(fabric::EndpointId, uint64_t) override {}
  void on_rma_done(fabric::EndpointId, uint64_t, bool) override {}
  void on_closed(fabric::EndpointId id, fabric::CloseReason, std::string_view) override {
    if (id != endpoint_) return;
    is_open = false;
    is_closed = true;
  }

  World& world_;
  const Rank rank_;
  std::unique_ptr<fabric::Fabric> fabric_;
  fabric::EndpointId endpoint_ = fabric::no_endpoint;
  connection::Hello hello_{};
  std::vector<std::byte> payload_;
};

// A server, and one connected origin of another node.
class WithOrigin : public ::testing::Test {
 protected:
  WithOrigin() { a.open(); }
  World world;
  Origin a{world, 1};
};

}  // namespace skerry::server::test
