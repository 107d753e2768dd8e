// One side of a conversation for tests: a fabric, a sink that records everything, and loops that
// wait for conditions instead of sleeping.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.hpp"

namespace skerry::fabric::test {

inline Bytes as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::vector<std::byte> pattern(uint64_t bytes, uint32_t seed) {
  std::vector<std::byte> out(bytes);
  uint32_t x = seed * 2654435761u + 1;
  for (std::byte& b : out) {
    x = x * 1664525u + 1013904223u;
    b = static_cast<std::byte>(x >> 24);
  }
  return out;
}

struct Message {
  EndpointId endpoint = no_endpoint;
  std::string header;
  std::vector<std::byte> payload;
};

class Side : public Sink {
 public:
  explicit Side(std::unique_ptr<Fabric> made) : fabric(std::move(made)) {}

  void on_connect_request(RequestId request, Bytes hello, std::string_view peer_name) override {
    ++upcalls;
    requests.push_back(request);
    hellos.push_back(text_of(hello));
    peer_names.emplace_back(peer_name);
    if (!accept_requests) return;
    EndpointId endpoint = no_endpoint;
    if (fabric->accept(request, as_bytes(reply), &endpoint).ok()) accepted.push_back(endpoint);
  }
  void on_connected(EndpointId endpoint, Bytes answer) override {
    ++upcalls;
    connected.push_back(endpoint);
    replies.push_back(text_of(answer));
  }
  void on_held(EndpointId endpoint) override {
    ++upcalls;
    held.push_back(endpoint);
  }
  Verdict on_message(EndpointId endpoint, Bytes header, Bytes payload) override {
    ++upcalls;
    EXPECT_LE(payload.size(), inline_payload_bytes);
    if (hook && !hook(endpoint, header, payload)) return Verdict::park;
    if (wants_park()) return Verdict::park;
    ++message_count;
    if (keep_messages)
      messages.push_back({endpoint, text_of(header), {payload.begin(), payload.end()}});
    return Verdict::taken;
  }
  std::byte* place_directly(EndpointId endpoint, Bytes, uint64_t payload_bytes) override {
    ++upcalls;
    ++directs_begun;
    if (refuse_direct) return nullptr;
    std::vector<std::byte>& place = placed_payloads[endpoint];
    place.assign(payload_bytes, std::byte{0});
    return place.data();
  }
  std::byte* place_inline(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override {
    return places_inline ? place_directly(endpoint, header, payload_bytes) : nullptr;
  }
  Verdict on_placed(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override {
    ++upcalls;
    EXPECT_EQ(payload_bytes, placed_payloads[endpoint].size());
    if (wants_park()) return Verdict::park;
    ++message_count;
    ++placed;
    messages.push_back({endpoint, text_of(header), std::move(placed_payloads[endpoint])});
    return Verdict::taken;
  }
  void on_writable(EndpointId) override {
    ++upcalls;
    ++writable;
  }
  void on_sent(EndpointId, uint64_t cookie) override {
    ++upcalls;
    sent.push_back(cookie);
  }
  void on_rma_done(EndpointId, uint64_t cookie, bool ok) override {
    ++upcalls;
    (ok ? rma_done : rma_failed).push_back(cookie);
  }
  void on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) override {
    ++upcalls;
    closed.push_back(endpoint);
    reasons.push_back(reason);
    details.emplace_back(detail);
  }
  void on_watched(int fd) override {
    ++upcalls;
    watched.push_back(fd);
    if (watched_hook) watched_hook(fd);
  }

  // Returns how many upcalls there were.
  int step(int64_t timeout_ns = 0, EndpointId only = no_endpoint) {
    const int before = upcalls;
    fabric->poll(timeout_ns, only);
    fabric->dispatch(*this);
    return upcalls - before;
  }

  bool wants_park() {
    const bool park = parks_left > 0 || (park_alternately && attempts++ % 2 == 0);
    if (parks_left > 0) --parks_left;
    parked += park;
    return park;
  }

  std::unique_ptr<Fabric> fabric;
  // What to do.
  bool accept_requests = true;
  std::string reply = "welcome";
  int parks_left = 0;             // so many deliveries are answered park
  bool park_alternately = false;  // every delivery is answered park the first time
  int attempts = 0;
  bool keep_messages = true;
  bool refuse_direct = false;
  bool places_inline = false;
  std::function<bool(EndpointId, Bytes, Bytes)> hook;  // false: park
  std::function<void(int)> watched_hook;
  // What happened.
  std::vector<RequestId> requests;
  std::vector<std::string> hellos, peer_names, replies, details;
  std::vector<EndpointId> accepted, connected, held, closed;
  std::vector<CloseReason> reasons;
  std::vector<Message> messages;
  std::vector<uint64_t> sent, rma_done, rma_failed;
  std::vector<int> watched;
  std::map<EndpointId, std::vector<std::byte>> placed_payloads;
  uint64_t message_count = 0;
  int upcalls = 0, directs_begun = 0, placed = 0, parked = 0, writable = 0;
};

// Lets all sides work until the condition holds. They sleep only when nothing was told for some
// rounds: what passes through a server tells it nothing. The deadline is a net for a broken fabric,
// not a timing assertion: of a step in which this process was stopped a second counts.
template <class Condition>
bool run_until(std::initializer_list<Side*> sides, Condition condition) {
  using Clock = std::chrono::steady_clock;
  const Clock::duration longest_step = std::chrono::seconds(1);
  Clock::duration left = std::chrono::seconds(60);
  Clock::time_point before = Clock::now();
  int quiet_rounds = 0;
  while (!condition()) {
    int upcalls = 0;
    for (Side* side : sides) upcalls += side->step(quiet_rounds > 20 ? 1'000'000 : 0);
    quiet_rounds = upcalls == 0 ? quiet_rounds + 1 : 0;
    const Clock::time_point now = Clock::now();
    left -= std::min(now - before, longest_step);
    before = now;
    if (left < Clock::duration::zero()) return false;
  }
  return true;
}

inline SendResult send(Side& side, EndpointId endpoint, std::string_view header, Bytes payload = {},
                       bool more = false, uint64_t cookie = 0) {
  return side.fabric->send(endpoint, as_bytes(header), payload, more, cookie);
}

inline SendResult fetch_and_add(Fabric& fabric, EndpointId endpoint, RemoteKey key, uint64_t offset,
                                uint64_t value, uint64_t* before, uint64_t cookie) {
  return fabric.start_atomic(
      endpoint, {AtomicCall::Kind::fetch_add, key, offset, value, 0, before, cookie});
}
inline SendResult compare_and_swap(Fabric& fabric, EndpointId endpoint, RemoteKey key,
                                   uint64_t offset, uint64_t expected, uint64_t value,
                                   uint64_t* before, uint64_t cookie) {
  return fabric.start_atomic(
      endpoint, {AtomicCall::Kind::compare_swap, key, offset, value, expected, before, cookie});
}

// A server and a client of most tests, and the ends of a connection between them.
struct TwoSides {
  template <class Condition>
  bool until(Condition condition) {
    return run_until({client.get(), target.get()}, condition);
  }
  template <class Condition>
  bool target_until(Condition condition) {
    return run_until({target.get()}, condition);
  }
  bool until_writable() {
    return until([&, before = client->writable] { return client->writable > before; });
  }
  // Connects and waits for both ends.
  void join(Side& origin, Side& server, EndpointId* origin_end, EndpointId* server_end) {
    const size_t accepted = server.accepted.size(), connected = origin.connected.size();
    ASSERT_TRUE(origin.fabric->connect(address, as_bytes("hello"), origin_end).ok());
    ASSERT_TRUE(run_until({&origin, &server}, [&] {
      return origin.connected.size() > connected && server.accepted.size() > accepted;
    }));
    *server_end = server.accepted.back();
  }
  void join() { join(*client, *target, &near, &far); }
  // The target's memory.
  void expose(void* base, uint64_t bytes) {
    ASSERT_TRUE(target->fabric->register_memory(base, bytes, &key, &registration).ok());
  }

  std::vector<std::byte> address;
  std::unique_ptr<Side> target, client;
  EndpointId near = no_endpoint, far = no_endpoint;
  RemoteKey key;
  uint64_t registration = 0;
};

// The kinds of fabric that the conformance tests run over.
struct Kind {
  std::string name;
  std::function<std::function<Status(const Options&, std::unique_ptr<Fabric>*)>()>
      network;  // a fresh network; call it to make fabrics of it
};
inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
std::vector<Kind> kinds();

class Conformance : public testing::TestWithParam<Kind>, protected TwoSides {
 protected:
  void SetUp() override { make_ = GetParam().network(); }
  // Of tests that are not about time limits: one that a busy machine stops for seconds loses
  // nothing. A connection that ran out of time there would be waited for in vain.
  static Options patient() {
    Options options;
    options.connect_timeout_ns = options.hello_deadline_ns = options.silence_timeout_ns =
        int64_t{300} * 1'000'000'000;
    return options;
  }
  std::unique_ptr<Side> side(Options options = patient()) {
    options.loopback_only = true;
    std::unique_ptr<Fabric> fabric;
    const Status status = make_(options, &fabric);
    EXPECT_TRUE(status.ok()) << status.message();
    return std::make_unique<Side>(std::move(fabric));
  }
  std::unique_ptr<Side> server(Options options = patient()) {
    auto made = side(options);
    const Status status = made->fabric->listen(&address);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_LE(address.size(), 256u);
    return made;
  }
  void begin(const Options& options = patient()) {
    target = server(options);
    client = side(options);
  }
  static Options with_atomics() {
    Options options;
    options.atomics = Options::Atomics::any;
    return options;
  }
  void begin_joined() {
    begin();
    join();
  }

  std::function<Status(const Options&, std::unique_ptr<Fabric>*)> make_;
};

}  // namespace skerry::fabric::test
