// What a peer may send over libfabric and what closes it, with a pool of buffers for all endpoints
// and without. The peers are a raw one that speaks libfabric itself, and many honest ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "fabric/ofi/messages.hpp"
#include "fabric/ofi/ofi_fabric.hpp"
#include "fabric/tcp/address.hpp"
#include "fabric/tcp/frame.hpp"
#include "fabric/test/side.hpp"

namespace skerry::fabric::test {
namespace {

using ofi::Handle;
using ofi::Library;
using ofi::ParcelHead;

// Connects by itself, and sends any bytes.
class RawPeer {
 public:
  RawPeer(Side& target, Bytes address) {
    open(address);
    // Length of the hello, the number for parcels to us, the hello.
    std::byte data[] = {std::byte{1}, {}, {}, {}, {}, {}, {}, {}, {}, std::byte{'h'}};
    EXPECT_EQ(fi_connect(endpoint_.get(), domain_.info->dest_addr, data, sizeof data), 0);
    EXPECT_TRUE(run_until({&target}, [&] { return is_connected(); }));
    far = target.accepted.back();
  }

  uint64_t number = 0;  // that parcels from here must carry
  EndpointId far = no_endpoint;

  void send(Bytes parcel) {
    kept_.emplace_back(parcel.begin(), parcel.end());
    EXPECT_EQ(fi_send(endpoint_.get(), kept_.back().data(), parcel.size(), nullptr, 0, nullptr), 0);
    fi_cq_msg_entry entry;
    fi_cq_read(domain_.completions.get(), &entry, 1);
  }
  void send(ParcelHead head, std::string_view message) {
    std::vector<std::byte> parcel(sizeof head);
    std::memcpy(parcel.data(), &head, sizeof head);
    if (!message.empty()) {
      const uint64_t prefix = tcp::encode_prefix(message.size(), 0);
      const Bytes first = std::as_bytes(std::span(&prefix, 1)), rest = as_bytes(message);
      parcel.insert(parcel.end(), first.begin(), first.end());
      parcel.insert(parcel.end(), rest.begin(), rest.end());
    }
    send(parcel);
  }

 private:
  static const Library* library() {
    const Library* loaded = nullptr;
    EXPECT_TRUE(ofi::load(&loaded).ok());
    return loaded;
  }

  void open(Bytes address) {
    std::vector<tcp::SocketAddress> candidates;
    ASSERT_TRUE(tcp::decode_address(address, &candidates).ok());
    Options options;
    options.loopback_only = true;
    options.shared_receives = false;
    ASSERT_TRUE(domain_.open(ofi::Kind::connected, "tcp", options, waiter_).ok());
    fi_info* const info = domain_.info.get();
    std::free(info->dest_addr);
    info->dest_addrlen = candidates[0].bytes;
    info->dest_addr = std::malloc(info->dest_addrlen);
    std::memcpy(info->dest_addr, &candidates[0].storage, info->dest_addrlen);
    fid_ep* endpoint = nullptr;
    ASSERT_EQ(fi_endpoint(domain_.domain.get(), info, &endpoint, nullptr), 0);
    endpoint_.reset(endpoint);
    ASSERT_EQ(fi_ep_bind(endpoint, &domain_.events->fid, 0), 0);
    ASSERT_EQ(fi_ep_bind(endpoint, &domain_.completions->fid, FI_TRANSMIT | FI_RECV), 0);
    ASSERT_EQ(fi_enable(endpoint), 0);
  }

  bool is_connected() {
    alignas(fi_eq_cm_entry) std::byte bytes[sizeof(fi_eq_cm_entry) + 256];
    uint32_t event = 0;
    const ssize_t n = fi_eq_read(domain_.events.get(), &event, bytes, sizeof bytes, 0);
    if (n < static_cast<ssize_t>(sizeof(fi_eq_cm_entry) + 9) || event != FI_CONNECTED) return false;
    std::memcpy(&number, bytes + sizeof(fi_eq_cm_entry) + 1, sizeof number);
    return true;
  }

  Waiter waiter_;
  ofi::Domain domain_{library()};
  Handle<fid_ep> endpoint_;
  std::deque<std::vector<std::byte>> kept_;
};

class Ofi : public testing::TestWithParam<bool>, protected TwoSides {
 protected:
  static std::unique_ptr<Side> side() {
    Options options;
    options.loopback_only = true;
    options.shared_receives = GetParam();
    std::unique_ptr<Fabric> fabric;
    const Status status = make_ofi_fabric(options, "tcp", &fabric);
    return status.ok() ? std::make_unique<Side>(std::move(fabric)) : nullptr;
  }
  void SetUp() override {
    target = side();
    if (target == nullptr) GTEST_SKIP() << "libfabric's provider tcp has nothing here";
    ASSERT_TRUE(target->fabric->listen(&address).ok());
  }
  // A parcel of another peer arrives: those before it were looked at.
  void hear_from(RawPeer& peer, uint32_t sequence) {
    const uint64_t before = target->message_count;
    peer.send({0, 1, sequence, peer.number}, "after");
    ASSERT_TRUE(target_until([&] { return target->message_count > before; }));
  }
  bool is_closed(const RawPeer& peer) const {
    return std::ranges::count(target->closed, peer.far) != 0;
  }
  bool wait_closed(const RawPeer& peer) {
    return target_until([&] { return is_closed(peer); });
  }
};

TEST_P(Ofi, ParcelsInSequenceAreDelivered) {
  RawPeer peer(*target, address);
  for (uint32_t i = 0; i < 3; ++i) hear_from(peer, i);
  EXPECT_TRUE(target->closed.empty());
  EXPECT_EQ(target->messages.back().endpoint, peer.far);
}

TEST_P(Ofi, AForgedNumberReachesNobodyAndClosesItsSender) {
  RawPeer victim(*target, address), forger(*target, address);
  EXPECT_NE(victim.number, forger.number);
  // The victim's place with a guess of the rest.
  forger.send({0, 1, 0, victim.number ^ uint64_t{2} << 40}, "forged");
  hear_from(victim, 0);
  forger.send({0, 1, 1, forger.number}, "next");
  ASSERT_TRUE(wait_closed(forger));
  EXPECT_EQ(target->reasons.at(0), CloseReason::protocol_error);
  EXPECT_FALSE(is_closed(victim));
  hear_from(victim, 1);
  for (const Message& one : target->messages) EXPECT_EQ(one.header, "after");
}

TEST_P(Ofi, ALateParcelOfAClosedEndpointIsNotMisdirected) {
  uint64_t number = 0;
  {
    RawPeer left(*target, address);
    number = left.number;
    far = left.far;
  }
  ASSERT_TRUE(target_until([&] { return !target->closed.empty(); }));
  RawPeer next(*target, address), other(*target, address);
  EXPECT_EQ(static_cast<uint32_t>(next.far), static_cast<uint32_t>(far))
      << "the place is used again";
  other.send({0, 1, 0, number}, "late");
  hear_from(next, 0);
  other.send({0, 1, 1, other.number}, "next");
  ASSERT_TRUE(wait_closed(other));
  EXPECT_FALSE(is_closed(next));
  for (const Message& one : target->messages) EXPECT_EQ(one.header, "after");
}

TEST_P(Ofi, AMissingParcelClosesTheConnection) {
  RawPeer peer(*target, address), other(*target, address);
  hear_from(peer, 0);
  peer.send({0, 1, 2, peer.number}, "too far");
  ASSERT_TRUE(wait_closed(peer));
  EXPECT_EQ(target->reasons.at(0), CloseReason::protocol_error);
  hear_from(other, 0);
}

TEST_P(Ofi, CreditsThatNobodySpentCloseTheConnection) {
  RawPeer peer(*target, address), other(*target, address);
  peer.send({1, 1, 0, peer.number}, "forged credit");
  ASSERT_TRUE(wait_closed(peer));
  hear_from(other, 0);
  EXPECT_EQ(target->message_count, 1u);
}

TEST_P(Ofi, APeerThatSendsMoreThanItMayIsClosed) {
  RawPeer peer(*target, address), other(*target, address);
  target->hook = [&](EndpointId endpoint, Bytes, Bytes) { return endpoint != peer.far; };
  for (uint32_t i = 0; i <= ofi::window; ++i) peer.send({0, 1, i, peer.number}, "flood");
  hear_from(other, 0);
  target->hook = nullptr;
  target->fabric->unpark(peer.far);
  ASSERT_TRUE(wait_closed(peer));
  EXPECT_EQ(target->reasons.at(0), CloseReason::protocol_error);
}

TEST_P(Ofi, AParcelWithoutAHeadIsNoMessage) {
  RawPeer peer(*target, address), other(*target, address);
  peer.send(as_bytes("short"));
  hear_from(other, 0);
  peer.send({0, 1, 1, peer.number}, "next");
  ASSERT_TRUE(wait_closed(peer));
  EXPECT_FALSE(is_closed(other));
}

// More parcels than the pool has buffers: those of parked endpoints are replaced, the rest waits in
// the network, and each endpoint has its own in order.
TEST_P(Ofi, ManySendersFillThePool) {
  constexpr uint32_t senders = ofi::max_shared_buffers / ofi::window + 8;
  auto origin = side();
  std::map<EndpointId, uint32_t> next;
  bool parks = true;
  EndpointId free_one = no_endpoint;
  std::vector<EndpointId> nears(senders);
  for (EndpointId& one : nears)
    ASSERT_TRUE(origin->fabric->connect(address, as_bytes("h"), &one).ok());
  ASSERT_TRUE(run_until({origin.get(), target.get()}, [&] {
    return origin->connected.size() == senders && target->accepted.size() == senders;
  }));
  free_one = target->accepted.back();
  uint64_t taken_of_free = 0;
  target->hook = [&](EndpointId endpoint, Bytes header, Bytes) {
    if (parks && endpoint != free_one) return false;
    taken_of_free += endpoint == free_one;
    EXPECT_EQ(text_of(header), std::to_string(next[endpoint])) << endpoint;
    ++next[endpoint];
    return true;
  };
  const std::vector<std::byte> payload = pattern(9000, 1);
  for (uint32_t i = 0; i < ofi::window; ++i)
    for (const EndpointId one : nears)
      ASSERT_EQ(send(*origin, one, std::to_string(i), payload), SendResult::accepted);
  ASSERT_TRUE(
      run_until({origin.get(), target.get()}, [&] { return taken_of_free == ofi::window; }));
  parks = false;
  for (const EndpointId one : target->accepted) target->fabric->unpark(one);
  ASSERT_TRUE(run_until({origin.get(), target.get()},
                        [&] { return target->message_count == uint64_t{senders} * ofi::window; }));
  EXPECT_TRUE(target->closed.empty());
}

TEST_P(Ofi, MemoryOfEndpointsThatShareTheirBuffers) {
  constexpr uint32_t clients = 60;
  auto origin = side();
  for (uint32_t i = 0; i < clients; ++i) {
    EndpointId one;
    ASSERT_TRUE(origin->fabric->connect(address, as_bytes("h"), &one).ok());
  }
  ASSERT_TRUE(run_until({origin.get(), target.get()}, [&] {
    return origin->connected.size() == clients && target->accepted.size() == clients;
  }));
  for (const Side* one : {origin.get(), target.get()}) {
    const Fabric::Memory memory = one->fabric->memory();
    const uint64_t own = uint64_t{clients} * (ofi::window + 2) * ofi::buffer_bytes;
    if (!GetParam()) {
      EXPECT_GE(memory.endpoint_bytes, own);
      continue;
    }
    EXPECT_LE(memory.endpoint_bytes, clients * 2048u);
    EXPECT_LE(memory.fixed_bytes, (ofi::max_shared_buffers + 64) * (ofi::buffer_bytes + 512));
  }
}

// As a provider whose puts complete earlier than its own.
class EarlyPuts final : public ofi::OfiFabric {
 public:
  using OfiFabric::OfiFabric;
  Status open(uint64_t write_flags) {
    domain_.imitated.write_flags = write_flags;
    return start("tcp", ofi::Kind::connected);
  }
};

// Guards against: a put was taken for remote done when its buffer alone was free again.
TEST(OfiPuts, ThatCompleteBeforeTheyAreRemoteDoneAreNotUsed) {
  const Library* library = nullptr;
  ASSERT_TRUE(ofi::load(&library).ok());
  Options options;
  options.loopback_only = true;
  options.atomics = Options::Atomics::any;
  for (const uint64_t flags : {uint64_t{FI_DELIVERY_COMPLETE}, uint64_t{FI_TRANSMIT_COMPLETE},
                               uint64_t{0}}) {
    EarlyPuts fabric(options, library);
    ASSERT_TRUE(fabric.open(flags).ok());
    EXPECT_EQ(fabric.capabilities().rma, flags == FI_DELIVERY_COMPLETE) << flags;
    EXPECT_FALSE(fabric.capabilities().atomics);
    EXPECT_EQ(fabric.in_words().find("no use") == std::string::npos, flags == FI_DELIVERY_COMPLETE);
  }
}

// As a provider that is full when puts come.
class FullForPuts final : public ofi::OfiFabric {
 public:
  using OfiFabric::OfiFabric;
  Status open() { return start("tcp", ofi::Kind::connected); }
  void refuse(EndpointId id, int puts) {
    fid_ep* const endpoint = endpoints_.find(id)->ep;
    real() = endpoint->rma;
    own_ = *endpoint->rma;
    own_.writemsg = [](fid_ep* to, const fi_msg_rma* message, uint64_t flags) -> ssize_t {
      return refusals()-- > 0 ? -FI_EAGAIN : real()->writemsg(to, message, flags);
    };
    endpoint->rma = &own_;
    refusals() = puts;
  }
  static int& refusals() {
    static int left = 0;
    return left;
  }

 private:
  static const fi_ops_rma*& real() {
    static const fi_ops_rma* known = nullptr;
    return known;
  }
  fi_ops_rma own_;
};

// What SKERRY_LOCK=auto goes by: with an adapter's own atomics alone.
TEST(OfiAtomics, SoftwaresAreNotTriedWhereTheAdaptersAreAsked) {
  Options options;
  options.loopback_only = true;
  for (const Options::Atomics asked : {Options::Atomics::of_adapter, Options::Atomics::any}) {
    options.atomics = asked;
    for (const char* provider : {"tcp;ofi_rxm", "verbs"}) {
      std::unique_ptr<Fabric> fabric;
      if (!make_ofi_fabric(options, provider, &fabric).ok()) continue;
      const bool is_adapter = std::string_view(provider) == "verbs";
      const Capabilities& can = fabric->capabilities();
      EXPECT_EQ(can.atomics, is_adapter || asked == Options::Atomics::any) << provider;
      EXPECT_EQ(can.atomics_of_adapter, is_adapter) << provider;
    }
  }
}

class OfiOrder : public testing::Test, protected TwoSides {};

// Guards against: the message was sent while the put before it waited for room.
TEST_F(OfiOrder, AMessageStandsBehindAPutThatWaits) {
  const Library* library = nullptr;
  ASSERT_TRUE(ofi::load(&library).ok());
  Options options;
  options.loopback_only = true;
  auto made = std::make_unique<FullForPuts>(options, library);
  FullForPuts& full = *made;
  if (!full.open().ok()) GTEST_SKIP() << "libfabric's provider tcp has nothing here";
  ASSERT_TRUE(full.capabilities().rma && full.capabilities().am_after_rma_ordered);
  client = std::make_unique<Side>(std::move(made));
  std::unique_ptr<Fabric> fabric;
  ASSERT_TRUE(make_ofi_fabric(options, "tcp", &fabric).ok());
  target = std::make_unique<Side>(std::move(fabric));
  ASSERT_TRUE(target->fabric->listen(&address).ok());
  std::vector<std::byte> remote(5000);
  expose(remote.data(), remote.size());
  join();
  const std::vector<std::byte> local = pattern(remote.size(), 1);
  bool arrived_before = false;
  target->hook = [&](EndpointId, Bytes, Bytes) {
    arrived_before = remote == local;
    return true;
  };
  full.refuse(near, 100);
  ASSERT_EQ(client->fabric->put(near, local.data(), key, 0, local.size(), 1), SendResult::accepted);
  ASSERT_EQ(send(*client, near, "behind"), SendResult::accepted);
  ASSERT_TRUE(until([&] { return target->message_count == 1; }));
  EXPECT_LE(FullForPuts::refusals(), 0);
  EXPECT_TRUE(arrived_before);
  ASSERT_TRUE(until([&] { return client->rma_done.size() == 1; }));
  target->fabric->deregister_memory(registration);
}

INSTANTIATE_TEST_SUITE_P(Receives, Ofi, testing::Bool(),
                         [](const auto& name) { return name.param ? "shared" : "own"; });

}  // namespace
}  // namespace skerry::fabric::test
