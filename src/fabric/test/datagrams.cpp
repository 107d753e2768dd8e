// What a peer may send over datagrams, in which order it may arrive, and what becomes of it: a raw
// peer that speaks libfabric itself.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "core/futex.hpp"
#include "fabric/ofi/datagrams.hpp"
#include "fabric/ofi/ofi_fabric.hpp"
#include "fabric/tcp/frame.hpp"
#include "fabric/test/side.hpp"

namespace skerry::fabric::test {
namespace {

using ofi::Control;
using ofi::ControlKind;
using ofi::Library;
using ofi::ParcelHead;

constexpr const char* provider = "tcp;ofi_rxm";

Options loopback() {
  Options options;
  options.loopback_only = true;
  return options;
}

// Sends any bytes, and shows what comes.
class RawPeer {
 public:
  RawPeer(Side& side, Bytes target_address) : side_(side) {
    EXPECT_TRUE(domain_.open(ofi::Kind::datagram, provider, loopback(), waiter_).ok());
    EXPECT_TRUE(peers_.own_address(&own_).ok());
    // Three letters and the format come first.
    const std::string target(reinterpret_cast<const char*>(target_address.data()) + 4,
                             target_address.size() - 4);
    EXPECT_TRUE(peers_.get(target, &target_).ok());
    for (std::vector<std::byte>& room : rooms_) {
      room.resize(ofi::buffer_bytes);
      EXPECT_EQ(fi_recv(domain_.receives.get(), room.data(), room.size(), nullptr, FI_ADDR_UNSPEC,
                        room.data()),
                0);
    }
  }
  ~RawPeer() { domain_.receives.reset(); }

  const std::string& own() const { return own_; }

  void send(Bytes parcel) {
    sent_.emplace_back(parcel.begin(), parcel.end());
    while (fi_send(domain_.receives.get(), sent_.back().data(), parcel.size(), nullptr, target_->at,
                   nullptr) == -FI_EAGAIN) {
      look();
      side_.step();  // the provider may have to connect
    }
  }
  void send(ParcelHead head, std::string_view message) {
    std::vector<std::byte> parcel(sizeof head);
    std::memcpy(parcel.data(), &head, sizeof head);
    const uint64_t prefix = tcp::encode_prefix(message.size(), 0);
    const Bytes first = std::as_bytes(std::span(&prefix, 1)), rest = as_bytes(message);
    parcel.insert(parcel.end(), first.begin(), first.end());
    parcel.insert(parcel.end(), rest.begin(), rest.end());
    send(parcel);
  }
  void say(ControlKind kind, uint64_t number, uint64_t from, uint32_t parcels = 0,
           std::string_view text = {}, std::string_view address = {}) {
    const Control control{{0, ofi::control_frames, ofi::control_magic, number},
                          from,
                          parcels,
                          static_cast<uint8_t>(kind),
                          ofi::control_version,
                          static_cast<uint8_t>(text.size()),
                          static_cast<uint8_t>(address.size())};
    std::vector<std::byte> parcel(sizeof control);
    std::memcpy(parcel.data(), &control, sizeof control);
    for (const std::string_view part : {text, address}) {
      const Bytes bytes = as_bytes(part);
      parcel.insert(parcel.end(), bytes.begin(), bytes.end());
    }
    send(parcel);
  }
  // What came, but for messages.
  std::vector<Control> heard;
  void look() {
    fi_cq_msg_entry entries[8];
    const ssize_t n = fi_cq_read(domain_.completions.get(), entries, 8);
    for (ssize_t i = 0; i < n; ++i) {
      if (entries[i].op_context == nullptr || entries[i].len < sizeof(Control)) continue;
      Control control;
      std::memcpy(&control, entries[i].op_context, sizeof control);
      if (control.head.frames == ofi::control_frames) heard.push_back(control);
    }
  }
  bool wait_heard(Side& side, ControlKind kind) {
    return run_until({&side}, [&] {
      look();
      return std::ranges::any_of(
          heard, [&](const Control& one) { return one.kind == static_cast<uint8_t>(kind); });
    });
  }

 private:
  static const Library* library() {
    const Library* loaded = nullptr;
    EXPECT_TRUE(ofi::load(&loaded).ok());
    return loaded;
  }

  Side& side_;
  Waiter waiter_;
  ofi::Domain domain_{library()};
  ofi::Peers peers_{domain_};
  std::shared_ptr<ofi::Peer> target_;
  std::string own_;
  std::array<std::vector<std::byte>, 16> rooms_;
  std::deque<std::vector<std::byte>> sent_;
};

class Datagrams : public testing::Test, protected TwoSides {
 protected:
  static constexpr uint64_t own_number = 77;  // of the raw peer's end

  static std::unique_ptr<Side> side() {
    std::unique_ptr<Fabric> fabric;
    Options options = loopback();
    options.silence_timeout_ns = 1'200'000'000;
    const Status status = make_ofi_fabric(options, provider, &fabric);
    return status.ok() ? std::make_unique<Side>(std::move(fabric)) : nullptr;
  }
  void SetUp() override {
    target = side();
    if (target == nullptr) GTEST_SKIP() << "libfabric has no " << provider;
    ASSERT_TRUE(target->fabric->listen(&address).ok());
    peer_ = std::make_unique<RawPeer>(*target, address);
  }
  // Says hello as another one may, and returns the number that parcels must carry.
  uint64_t join(uint64_t from = own_number) {
    const size_t before = peer_->heard.size();
    peer_->say(ControlKind::hello, 0, from, 0, "h", peer_->own());
    EXPECT_TRUE(run_until({target.get()}, [&] {
      peer_->look();
      return peer_->heard.size() > before;
    }));
    EXPECT_EQ(peer_->heard.back().head.number, from);
    return peer_->heard.back().from;
  }
  // Another connection of the peer is heard: what it sent before was looked at.
  void hear_from_another() {
    const uint64_t before = target->message_count;
    peer_->send({0, 1, 0, join(own_number + ++others_)}, "another");
    ASSERT_TRUE(target_until([&] { return target->message_count > before; }));
    target->messages.pop_back();
    --target->message_count;
  }
  std::vector<std::string> headers() const {
    std::vector<std::string> out;
    for (const Message& one : target->messages) out.push_back(one.header);
    return out;
  }

  std::unique_ptr<RawPeer> peer_;
  uint64_t others_ = 0;
};

TEST_F(Datagrams, ParcelsThatOvertookOthersWaitForThem) {
  const uint64_t number = join();
  for (const uint32_t sequence : {2u, 1u, 3u})
    peer_->send({0, 1, sequence, number}, std::to_string(sequence));
  hear_from_another();
  EXPECT_TRUE(target->messages.empty());
  peer_->send({0, 1, 0, number}, "0");
  ASSERT_TRUE(target_until([&] { return target->message_count == 4; }));
  EXPECT_EQ(headers(), (std::vector<std::string>{"0", "1", "2", "3"}));
}

TEST_F(Datagrams, AParcelTooFarAheadClosesTheConnection) {
  const uint64_t number = join();
  peer_->send({0, 1, 2 * ofi::window + 1, number}, "far");
  ASSERT_TRUE(target_until([&] { return !target->closed.empty(); }));
  EXPECT_EQ(target->reasons[0], CloseReason::protocol_error);
}

TEST_F(Datagrams, AParcelThatCameBeforeClosesTheConnection) {
  const uint64_t number = join();
  peer_->send({0, 1, 0, number}, "once");
  peer_->send({0, 1, 0, number}, "twice");
  ASSERT_TRUE(target_until([&] { return !target->closed.empty(); }));
  EXPECT_EQ(target->reasons[0], CloseReason::protocol_error);
  EXPECT_EQ(headers(), std::vector<std::string>{"once"});
}

TEST_F(Datagrams, AFarewellThatOvertookParcelsWaitsForThem) {
  const uint64_t number = join();
  peer_->say(ControlKind::farewell, number, own_number, 2);
  hear_from_another();
  EXPECT_TRUE(target->closed.empty());
  peer_->send({0, 1, 1, number}, "1");
  peer_->send({0, 1, 0, number}, "0");
  ASSERT_TRUE(target_until([&] { return !target->closed.empty(); }));
  EXPECT_EQ(headers(), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(target->reasons[0], CloseReason::by_peer);
}

// Its slot serves another connection by then.
TEST_F(Datagrams, ALateParcelOfAClosedConnectionFindsNothing) {
  const uint64_t number = join();
  const EndpointId closed = target->accepted.back();
  target->fabric->close(closed);
  ASSERT_TRUE(peer_->wait_heard(*target, ControlKind::farewell));
  const uint64_t next = join(own_number + 100);
  EXPECT_EQ(static_cast<uint32_t>(target->accepted.back()), static_cast<uint32_t>(closed));
  peer_->send({0, 1, 0, number}, "late");
  peer_->say(ControlKind::farewell, number, own_number, 1);
  peer_->send({0, 1, 0, next}, "next");
  ASSERT_TRUE(target_until([&] { return target->message_count == 1; }));
  EXPECT_EQ(headers(), std::vector<std::string>{"next"});
  EXPECT_TRUE(target->closed.empty());
}

TEST_F(Datagrams, AWithdrawalTakesBackARequest) {
  target->accept_requests = false;
  peer_->say(ControlKind::hello, 0, own_number, 0, "h", peer_->own());
  ASSERT_TRUE(target_until([&] { return target->requests.size() == 1; }));
  peer_->say(ControlKind::farewell, 0, own_number, 0, {}, peer_->own());
  ASSERT_TRUE(target_until([&] { return target->fabric->traffic().unauthenticated.left == 1; }));
  EXPECT_EQ(target->fabric->accept(target->requests[0], {}, &far).code(), Code::peer_dead);
}

// Guards against: an accepted connection that nobody is at the other end of stayed open for ever.
TEST_F(Datagrams, AnAcceptThatCrossesAWithdrawalIsAnsweredByAFarewell) {
  client = side();
  target->accept_requests = false;
  ASSERT_TRUE(client->fabric->connect(address, as_bytes("hello"), &near).ok());
  ASSERT_TRUE(until([&] { return target->requests.size() == 1; }));
  client->fabric->close(near);  // and the target accepts before it looks
  ASSERT_TRUE(target->fabric->accept(target->requests[0], {}, &far).ok());
  ASSERT_TRUE(until([&] { return !target->closed.empty(); }));
  EXPECT_EQ(target->closed[0], far);
  EXPECT_TRUE(client->connected.empty());
  EXPECT_TRUE(client->closed.empty());
}

TEST_F(Datagrams, WhoAsksHearsHowManyParcelsWereSent) {
  const uint64_t number = join();
  const EndpointId there = target->accepted.back();
  ASSERT_EQ(send(*target, there, "one"), SendResult::accepted);
  hear_from_another();
  peer_->say(ControlKind::ask, number, own_number, 0, {}, peer_->own());
  ASSERT_TRUE(peer_->wait_heard(*target, ControlKind::tell));
  EXPECT_EQ(peer_->heard.back().head.number, own_number);
  EXPECT_EQ(peer_->heard.back().parcels, 1u);
  EXPECT_TRUE(target->closed.empty());
}

// Guards against: rxm lost a parcel when its connection beneath was reset, and nobody ever knew.
TEST_F(Datagrams, AConnectionEndsWhoseParcelsAreLost) {
  const uint64_t number = join();
  for (const uint32_t sequence : {0u, 2u})
    peer_->send({0, 1, sequence, number}, std::to_string(sequence));
  const auto ask = [&] {
    peer_->say(ControlKind::ask, number, own_number, 3, {}, peer_->own());
    hear_from_another();
  };
  ask();
  peer_->send({0, 1, 1, number}, "late, and not lost");
  ask();
  ask();
  EXPECT_TRUE(target->closed.empty());
  peer_->send({0, 1, 4, number}, "4");
  int64_t asked_ns = 0;
  ASSERT_TRUE(target_until([&] {
    if (monotonic_ns() - asked_ns > 100'000'000) {
      asked_ns = monotonic_ns();
      peer_->say(ControlKind::ask, number, own_number, 5, {}, peer_->own());
    }
    return !target->closed.empty();
  }));
  EXPECT_EQ(target->reasons[0], CloseReason::reset);
  ASSERT_TRUE(peer_->wait_heard(*target, ControlKind::farewell));
}

// Guards against: rxm lost the answer to a hello, and its sender waited until it gave up.
TEST_F(Datagrams, AHelloSaidAgainIsAnsweredAgain) {
  const uint64_t number = join();
  peer_->heard.clear();
  peer_->say(ControlKind::hello, 0, own_number, 1, "h", peer_->own());
  ASSERT_TRUE(peer_->wait_heard(*target, ControlKind::accept));
  EXPECT_EQ(peer_->heard.back().from, number);
  EXPECT_EQ(target->requests.size(), 1u);
  target->accept_requests = false;
  peer_->say(ControlKind::hello, 0, own_number + 1, 1, "h", peer_->own());  // the first was lost
  ASSERT_TRUE(target_until([&] { return target->requests.size() == 2; }));
}

TEST_F(Datagrams, AnOriginSaysItsHelloAgainAndTakesOneAnswer) {
  client = side();
  std::vector<std::byte> own;
  ASSERT_TRUE(client->fabric->listen(&own).ok());
  RawPeer there(*client, own);
  std::vector<std::byte> to(address.begin(), address.begin() + 4);
  const Bytes rest = as_bytes(there.own());
  to.insert(to.end(), rest.begin(), rest.end());
  ASSERT_TRUE(client->fabric->connect(to, as_bytes("h"), &near).ok());
  ASSERT_TRUE(run_until({client.get()}, [&] {
    there.look();
    return there.heard.size() == 2;
  }));
  EXPECT_EQ(there.heard[0].parcels, 0u);
  EXPECT_EQ(there.heard[1].parcels, 1u);
  EXPECT_EQ(there.heard[1].from, there.heard[0].from);
  for (const uint64_t from : {5u, 6u})
    there.say(ControlKind::accept, there.heard[0].from, from, 0, "yes", there.own());
  ASSERT_TRUE(there.wait_heard(*client, ControlKind::farewell));
  EXPECT_EQ(there.heard.back().head.number, 6u);
  EXPECT_EQ(client->connected.size(), 1u);
  EXPECT_TRUE(client->closed.empty());
}

TEST_F(Datagrams, WhoAsksForAnUnknownConnectionHearsThatItEnded) {
  peer_->say(ControlKind::ask, 4711, own_number, 0, {}, peer_->own());
  ASSERT_TRUE(peer_->wait_heard(*target, ControlKind::farewell));
  EXPECT_EQ(peer_->heard.back().head.number, own_number);
}

TEST_F(Datagrams, GarbageIsCountedAndChangesNothing) {
  const uint64_t number = join();
  std::string huge(300, 'x');
  peer_->say(ControlKind::hello, 0, own_number, 0, "h", "no address");
  peer_->say(ControlKind::hello, 0, 0, 0, "h", peer_->own());
  peer_->say(static_cast<ControlKind>(99), number, own_number);
  peer_->say(ControlKind::accept, number, own_number);  // nobody connects there
  Control wrong{{0, ofi::control_frames, ofi::control_magic, number}, 1, 0, 1, 99, 0, 0};
  peer_->send(std::as_bytes(std::span(&wrong, 1)));
  wrong.version = ofi::control_version;
  wrong.text_bytes = 200;
  peer_->send(std::as_bytes(std::span(&wrong, 1)));
  peer_->send(as_bytes("short"));
  peer_->send({0, 1, 0, number}, "good");
  ASSERT_TRUE(target_until([&] { return target->message_count == 1; }));
  EXPECT_EQ(target->fabric->traffic().unauthenticated.garbage, 5u);
  EXPECT_TRUE(target->closed.empty());
  EXPECT_EQ(target->requests.size(), 1u);
}

TEST_F(Datagrams, RequestsBeyondTheLimitAreRefused) {
  Options options = loopback();
  options.max_unauthenticated = 2;
  std::unique_ptr<Fabric> fabric;
  ASSERT_TRUE(make_ofi_fabric(options, provider, &fabric).ok());
  Side small(std::move(fabric));
  small.accept_requests = false;
  ASSERT_TRUE(small.fabric->listen(&address).ok());
  client = side();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(client->fabric->connect(address, as_bytes("h"), &near).ok());
  ASSERT_TRUE(run_until({client.get(), &small}, [&] { return client->closed.size() == 1; }));
  EXPECT_EQ(client->reasons[0], CloseReason::crowded_out);
  EXPECT_EQ(small.requests.size(), 2u);
  EXPECT_EQ(small.fabric->traffic().unauthenticated.crowded_out, 1u);
}

// Guards against: a peer that was stopped for 21 s, and its socket full, cost a connection.
TEST_F(Datagrams, APeerThatTakesNothingForLongIsWaitedFor) {
  client = side();
  std::vector<std::byte> remote(16'000);
  expose(remote.data(), remote.size());
  const std::vector<std::byte> local = pattern(remote.size(), 1);
  std::vector<EndpointId> nears(32);
  for (EndpointId& one : nears) {
    TwoSides::join();
    one = near;
  }
  uint64_t begun = 0;  // 16 MB in all: more than two sockets hold
  for (const EndpointId one : nears)
    while (client->fabric->put(one, local.data(), key, 0, local.size(), begun) ==
           SendResult::accepted)
      ++begun;
  // The silence timeout of this side is 1.2 s.
  const int64_t end_ns = monotonic_ns() + 4'000'000'000;
  while (monotonic_ns() < end_ns) client->step(10'000'000);
  EXPECT_LT(client->rma_done.size(), begun) << "nothing waited";
  EXPECT_TRUE(client->closed.empty());
  ASSERT_TRUE(until([&] { return client->rma_done.size() == begun; }));
  EXPECT_TRUE(client->rma_failed.empty());
  target->fabric->deregister_memory(registration);
}

// --- peers that are killed ---------------------------------------------------------------------

constexpr const char* address_variable = "SKERRY_TEST_ADDRESS";

std::string provider_of_peers() {
  const char* const asked = std::getenv("SKERRY_TEST_PROVIDER");
  return asked == nullptr ? provider : asked;
}

std::string to_hex(Bytes bytes) {
  std::string text;
  for (const std::byte one : bytes)
    for (const unsigned shift : {4u, 0u})
      text += "0123456789abcdef"[std::to_integer<unsigned>(one >> shift) % 16];
  return text;
}

// Another process: this program, which connects, and sends and puts for ever.
pid_t start_client(const std::string& hex) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setenv(address_variable, hex.c_str(), 1);
  execl("/proc/self/exe", "client", "--gtest_filter=DatagramClient.*",
        "--gtest_also_run_disabled_tests", nullptr);
  _exit(1);
}

TEST(DatagramClient, DISABLED_SendsForEver) {
  const char* const hex = std::getenv(address_variable);
  if (hex == nullptr) GTEST_SKIP() << "it is started by another test";
  std::vector<std::byte> address;
  for (const char* at = hex; at[0] != 0 && at[1] != 0; at += 2)
    address.push_back(static_cast<std::byte>(std::stoul(std::string(at, 2), nullptr, 16)));
  std::unique_ptr<Fabric> fabric;
  ASSERT_TRUE(make_ofi_fabric(loopback(), provider_of_peers(), &fabric).ok());
  Side client(std::move(fabric));
  client.keep_messages = false;
  EndpointId near = no_endpoint;
  ASSERT_TRUE(client.fabric->connect(address, as_bytes("h"), &near).ok());
  while (client.closed.empty() && getppid() != 1) {
    if (!client.connected.empty())
      while (send(client, near, "m", pattern(3000, 1)) == SendResult::accepted) {
      }
    client.step(1'000'000);
  }
}

// All are answered. In each round one is killed while all send; it is noticed, its address is
// removed, and the others go on.
// In turns, while the farewell of the last turn is under way.
TEST_F(Datagrams, APeerThatIsLeftConnectsAtOnce) {
  Options options = loopback();
  options.connect_timeout_ns = 2'000'000'000;
  std::unique_ptr<Side> sides[2];
  std::vector<std::byte> addresses[2];
  for (int i = 0; i < 2; ++i) {
    std::unique_ptr<Fabric> fabric;
    ASSERT_TRUE(make_ofi_fabric(options, provider_of_peers(), &fabric).ok());
    sides[i] = std::make_unique<Side>(std::move(fabric));
    ASSERT_TRUE(sides[i]->fabric->listen(&addresses[i]).ok());
  }
  for (size_t turn = 0; turn < 60; ++turn) {
    Side &from = *sides[turn % 2], &to = *sides[1 - turn % 2];
    const size_t before = from.connected.size();
    EndpointId opened = no_endpoint;
    ASSERT_TRUE(from.fabric->connect(addresses[1 - turn % 2], as_bytes("h"), &opened).ok());
    ASSERT_TRUE(run_until({&from, &to}, [&] {
      return from.connected.size() > before ||
             std::ranges::count(from.closed, opened) > 0;
    })) << turn;
    ASSERT_GT(from.connected.size(), before) << "turn " << turn << " found nobody";
    from.fabric->close(opened);
  }
}

TEST_F(Datagrams, KilledPeersAreNoticedWhileOthersGoOn) {
  Options options = loopback();
  options.silence_timeout_ns = 1'500'000'000;
  options.connect_timeout_ns = 500'000'000;
  std::unique_ptr<Fabric> fabric;
  ASSERT_TRUE(make_ofi_fabric(options, provider_of_peers(), &fabric).ok());
  Side server(std::move(fabric));
  server.keep_messages = false;
  std::map<EndpointId, uint64_t> heard;
  server.hook = [&](EndpointId endpoint, Bytes header, Bytes payload) {
    ++heard[endpoint];
    return server.fabric->send(endpoint, header, payload, false, 0) != SendResult::would_block;
  };
  ASSERT_TRUE(server.fabric->listen(&address).ok());
  const std::string hex = to_hex(address);
  const auto run = [&](auto condition) {
    return run_until({&server}, [&] {
      for (const EndpointId one : server.accepted) server.fabric->unpark(one);
      return condition();
    });
  };
  std::deque<std::pair<pid_t, EndpointId>> clients;
  const auto add = [&] {
    const size_t before = server.accepted.size();
    const pid_t pid = start_client(hex);
    ASSERT_TRUE(run([&] { return server.accepted.size() > before; }));
    clients.push_back({pid, server.accepted.back()});
  };
  add();
  add();
  const char* const rounds_text = std::getenv("SKERRY_TEST_ROUNDS");
  const int rounds = rounds_text == nullptr ? 2 : std::atoi(rounds_text);
  for (int round = 0; round < rounds; ++round) {
    add();
    const auto [victim, its_end] = clients.front();
    clients.pop_front();
    ASSERT_TRUE(run([&] { return heard[its_end] > 100; }));
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
    // Its end shows when something is sent to it.
    ASSERT_TRUE(run([&] {
      (void)send(server, its_end, "are you there");
      return std::ranges::count(server.closed, its_end) == 1;
    })) << round;
    std::map<EndpointId, uint64_t> before = heard;
    ASSERT_TRUE(run([&] {
      return std::ranges::all_of(
          clients, [&](const auto& one) { return heard[one.second] > before[one.second] + 100; });
    })) << round;
  }
  EXPECT_EQ(server.closed.size(), static_cast<size_t>(rounds));
  for (const auto& [pid, end] : clients) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

}  // namespace
}  // namespace skerry::fabric::test
