// Atomicity domains: what an incoherent adapter does to a word that processors change as well, and
// that the lock machines of the domain `nic` do without such words.
#include <algorithm>

#include "fabric/test/loop/loop.hpp"
#include "lock_parties.hpp"

namespace skerry::fabric::test {
namespace {

using machine::Domain;

LoopCapabilities with(Atomics atomics, uint64_t seed = 1) {
  LoopCapabilities capabilities;
  capabilities.atomics = atomics;
  capabilities.seed = seed;
  return capabilities;
}

struct World {
  explicit World(const LoopCapabilities& capabilities) : network(make_loop_network(capabilities)) {
    home = side();
    EXPECT_TRUE(home->fabric->listen(&address).ok());
  }
  std::unique_ptr<Side> side() const {
    std::unique_ptr<Fabric> fabric;
    EXPECT_TRUE(make_loop_fabric(network, {}, &fabric).ok());
    return std::make_unique<Side>(std::move(fabric));
  }
  std::shared_ptr<LoopNetwork> network;
  std::unique_ptr<Side> home;
  std::vector<std::byte> address;
};

// One word at home, a connection to it, and the adapter's copy of it held on request.
struct OneWord : World {
  explicit OneWord(Atomics atomics) : World(with(atomics)), client(side()) {
    EXPECT_TRUE(client->fabric->connect(address, {}, &near).ok());
    EXPECT_TRUE(run_until({client.get(), home.get()}, [&] { return !client->connected.empty(); }));
    EXPECT_TRUE(home->fabric->register_memory(&word, sizeof word, &key, &registration).ok());
  }
  ~OneWord() { home->fabric->deregister_memory(registration); }
  std::atomic_ref<uint64_t> by_processor() { return std::atomic_ref<uint64_t>(word); }
  // The fabric has read the word, and wrote it if it is coherent.
  void begin() {
    hold_adapters(*network, true);
    ASSERT_EQ(compare_and_swap(*client->fabric, near, key, 0, 0, 7, &found, 1),
              SendResult::accepted);
    ASSERT_TRUE(run_until({client.get(), home.get()}, [&] {
      return words_in_adapters(*network) == 1 || !client->rma_done.empty();
    }));
  }
  uint64_t end() {
    hold_adapters(*network, false);
    EXPECT_TRUE(run_until({client.get(), home.get()}, [&] { return !client->rma_done.empty(); }));
    return found;
  }
  std::unique_ptr<Side> client;
  EndpointId near = no_endpoint;
  alignas(8) uint64_t word = 0;
  RemoteKey key;
  uint64_t registration = 0;
  uint64_t found = 0;  // what was there before
};

TEST(IncoherentAdapter, LosesAnAddOfTheProcessor) {
  for (const Atomics atomics : {Atomics::incoherent, Atomics::coherent}) {
    OneWord w(atomics);
    hold_adapters(*w.network, true);
    ASSERT_EQ(fetch_and_add(*w.client->fabric, w.near, w.key, 0, 1, &w.found, 1),
              SendResult::accepted);
    ASSERT_TRUE(run_until({w.client.get(), w.home.get()}, [&] {
      return words_in_adapters(*w.network) == 1 || !w.client->rma_done.empty();
    }));
    w.by_processor().fetch_add(1);
    w.end();
    // Expect: two adds, and one of them lost where the adapter keeps a copy.
    EXPECT_EQ(w.by_processor().load(), atomics == Atomics::incoherent ? 1u : 2u);
  }
}

TEST(IncoherentAdapter, GrantsALockThatTheProcessorTookToo) {
  for (const Atomics atomics : {Atomics::incoherent, Atomics::coherent}) {
    OneWord w(atomics);
    w.begin();  // 0 is free, 7 the requester by the network
    uint64_t seen = 0;
    const bool by_processor = w.by_processor().compare_exchange_strong(seen, 9);
    const bool by_network = w.end() == 0;
    EXPECT_TRUE(by_network);
    EXPECT_EQ(by_processor, atomics == Atomics::incoherent);  // both have it: broken
  }
}

TEST(IncoherentAdapter, WritesBackWhatItDidNotChange) {
  OneWord w(Atomics::incoherent);
  w.word = 5;
  w.begin();  // expects 0: fails
  w.by_processor().store(0);
  EXPECT_EQ(w.end(), 5u);
  EXPECT_EQ(w.by_processor().load(), 5u);  // the store is lost
}

TEST(IncoherentAdapter, IsAtomicTowardsItself) {
  OneWord w(Atomics::incoherent);
  hold_adapters(*w.network, true);
  uint64_t found[10];
  for (uint64_t i = 0; i < 10; ++i)
    ASSERT_EQ(fetch_and_add(*w.client->fabric, w.near, w.key, 0, 3, &found[i], i),
              SendResult::accepted);
  for (int i = 0; i < 100; ++i) w.home->step();
  EXPECT_EQ(w.by_processor().load(), 0u);
  EXPECT_TRUE(w.client->rma_done.empty());  // told when it is visible
  hold_adapters(*w.network, false);
  ASSERT_TRUE(
      run_until({w.client.get(), w.home.get()}, [&] { return w.client->rma_done.size() == 10; }));
  EXPECT_EQ(w.by_processor().load(), 30u);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(found[i], 3 * i);
}

TEST(IncoherentAdapter, LeavesDeregisteredMemoryAlone) {
  World w(with(Atomics::incoherent));
  const std::unique_ptr<Side> client = w.side();
  EndpointId near = no_endpoint;
  ASSERT_TRUE(client->fabric->connect(w.address, {}, &near).ok());
  ASSERT_TRUE(run_until({client.get(), w.home.get()}, [&] { return !client->connected.empty(); }));
  auto word = std::make_unique<uint64_t>(0);
  RemoteKey key;
  uint64_t registration = 0, found = 0;
  ASSERT_TRUE(w.home->fabric->register_memory(word.get(), 8, &key, &registration).ok());
  hold_adapters(*w.network, true);
  ASSERT_EQ(fetch_and_add(*client->fabric, near, key, 0, 1, &found, 1), SendResult::accepted);
  ASSERT_TRUE(
      run_until({client.get(), w.home.get()}, [&] { return words_in_adapters(*w.network) == 1; }));
  w.home->fabric->deregister_memory(registration);
  EXPECT_EQ(*word, 1u);
  word.reset();  // the address sanitizer watches
  hold_adapters(*w.network, false);
  EXPECT_TRUE(run_until({client.get(), w.home.get()}, [&] { return !client->rma_done.empty(); }));
}

// ---- the lock machines ----

constexpr ProtocolKind protocols[] = {ProtocolKind::two_sided,    ProtocolKind::one_sided,
                                      ProtocolKind::migrating,    ProtocolKind::queue,
                                      ProtocolKind::cohort,       ProtocolKind::asymmetric,
                                      ProtocolKind::reader_writer};

// Requesters of the lock's node and of others.
const std::vector<uint8_t> mixed = {0, 0, 1, 1, 2};

std::string wander(ProtocolKind kind, Domain domain, const LoopCapabilities& capabilities,
                   uint32_t acquisitions, uint64_t steps) {
  World w(capabilities);
  LockRun run(kind, domain, mixed, acquisitions, *w.home, w.address, [&] { return w.side(); });
  run.wander(capabilities.seed, steps);
  if (run.lock.problem.empty()) {
    EXPECT_EQ(run.lock.grants.load(), mixed.size() * acquisitions);
  }
  return run.lock.problem;
}

TEST(NicDomain, MachinesHoldOnAnIncoherentAdapter) {
  for (const ProtocolKind kind : protocols)
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const LoopCapabilities capabilities = seed % 2 == 0 ? LoopCapabilities::worst(seed)
                                                          : with(Atomics::incoherent, seed);
      EXPECT_EQ(wander(kind, Domain::nic, capabilities, 10, 300'000), "")
          << to_string(kind) << ", seed " << seed;
    }
}

// The others exchange values in this domain, which no fabric here does.
TEST(NicDomain, MachinesOfTheServersDomainHoldOnACoherentAdapter) {
  for (const ProtocolKind kind : {ProtocolKind::two_sided, ProtocolKind::one_sided,
                                  ProtocolKind::migrating, ProtocolKind::reader_writer})
    for (uint64_t seed = 1; seed <= 4; ++seed)
      EXPECT_EQ(wander(kind, Domain::server, with(Atomics::coherent, seed), 10, 300'000), "")
          << to_string(kind) << ", seed " << seed;
}

// Expect: in the domain `server` requesters of the lock's node use the processor on words that the
// adapter owns here. What goes wrong is found, and a seed repeats it.
TEST(NicDomain, AMachineOfTheWrongDomainFailsOnAnIncoherentAdapter) {
  int granted_twice = 0, failed = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const LoopCapabilities capabilities = with(Atomics::incoherent, seed);
    const std::string problem = wander(ProtocolKind::one_sided, Domain::server, capabilities, 100,
                                       100'000);
    EXPECT_EQ(problem, wander(ProtocolKind::one_sided, Domain::server, capabilities, 100, 100'000));
    failed += !problem.empty();
    granted_twice += problem.find("another requester holds") != std::string::npos;
  }
  std::printf("    of 10 runs %d failed, %d by granting twice\n", failed, granted_twice);
  EXPECT_EQ(failed, 10);
  EXPECT_GT(granted_twice, 0);
}

// ---- on every adapter ----

class EveryAdapter : public Conformance {};

TEST_P(EveryAdapter, MachinesOfTheNicDomainHoldInThreads) {
  auto home = server(with_atomics());
  if (!home->fabric->capabilities().atomics) GTEST_SKIP() << "its atomics are none, or wrong";
  for (const ProtocolKind kind : protocols) {
    LockRun run(kind, Domain::nic, {0, 0, 1, 2}, 20, *home, address,
                [&] { return side(with_atomics()); });
    run.race();
    EXPECT_EQ(run.lock.problem, "") << to_string(kind);
    EXPECT_EQ(run.lock.grants.load(), 80u) << to_string(kind);
    std::printf("    %s: %u grants\n", std::string(to_string(kind)).c_str(),
                run.lock.grants.load());
  }
}

// The loop fabric's, and those of libfabric's providers that have something here. Not these under
// the thread sanitizer: it sees our half of what libfabric's own threads and locks order.
std::vector<Kind> adapters() {
  std::vector<Kind> all;
  const auto loop = [&](std::string name, LoopCapabilities capabilities) {
    all.push_back({std::move(name), [capabilities] {
                     return [network = make_loop_network(capabilities)](
                                const Options& options, std::unique_ptr<Fabric>* fabric) {
                       return make_loop_fabric(network, options, fabric);
                     };
                   }});
  };
  loop("loop", with(Atomics::coherent));
  loop("loop_incoherent", with(Atomics::incoherent));
  for (uint64_t seed : {1, 2, 3}) loop(concat("loop_worst_", seed), LoopCapabilities::worst(seed));
#if defined(SKERRY_HAS_OFI) && !defined(__SANITIZE_THREAD__)
  for (const std::string provider : {"verbs"}) {
    std::unique_ptr<Fabric> probe;
    Options options;
    options.loopback_only = true;
    if (!make_ofi_fabric(options, provider, &probe).ok()) continue;
    all.push_back({"ofi_" + provider, [provider] {
                     return [provider](const Options& given, std::unique_ptr<Fabric>* fabric) {
                       return make_ofi_fabric(given, provider, fabric);
                     };
                   }});
  }
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(Adapters, EveryAdapter, testing::ValuesIn(adapters()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace skerry::fabric::test
