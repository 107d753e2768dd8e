#include <cctype>
#include <cstdlib>
#include <sstream>

#include "fabric/test/faults.hpp"
#include "fabric/test/loop/loop.hpp"
#include "fabric/test/delaying.hpp"
#include "fabric/test/side.hpp"
#ifdef SKERRY_HAS_OFI
#include "fabric/test/unordered.hpp"
#endif

namespace skerry::fabric::test {

namespace {

std::string word_of(std::string_view text) {
  std::string word;
  for (const char c : text) word += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return word;
}

// Datagrams of libfabric's rxm, and of what SKERRY_TEST_PROVIDERS names, with blanks between. Not
// shm, which crashes when something is sent to a closed endpoint of the same process.
//
// Each provider with connections that has something here: tcp wherever the library is, verbs where
// there is an adapter. Not under the thread sanitizer: it sees our half of what libfabric's own
// threads and locks order, and reports what is none.
void add_ofi(std::vector<Kind>* all) {
#ifdef __SANITIZE_THREAD__
  const std::vector<std::string> providers, datagrams;
#else
  const std::vector<std::string> providers = {"tcp", "verbs"};
  std::vector<std::string> datagrams = {"tcp;ofi_rxm"};
  if (const char* more = std::getenv("SKERRY_TEST_PROVIDERS"))
    for (std::istringstream words(more); words.good();) words >> datagrams.emplace_back();
#endif
  Options on_loopback;
  on_loopback.loopback_only = true;
  for (const std::string& provider : datagrams) {
    std::unique_ptr<Fabric> probe;
    if (make_ofi_fabric(on_loopback, provider, &probe).ok())
      all->push_back({concat("ofi_", word_of(provider)), [provider] {
                        return [provider](const Options& given, std::unique_ptr<Fabric>* fabric) {
                          return make_ofi_fabric(given, provider, fabric);
                        };
                      }});
#ifdef SKERRY_HAS_OFI
    if (probe == nullptr || provider != datagrams.front()) continue;
    for (const uint64_t seed : {1, 2})
      all->push_back({concat("ofi_unordered_", seed), [provider, seed] {
                        return [provider, seed](const Options& given,
                                                std::unique_ptr<Fabric>* fabric) {
                          return make_unordered_fabric(given, provider, seed, fabric);
                        };
                      }});
#endif
  }
  for (const std::string& provider : providers) {
    std::unique_ptr<Fabric> probe;
    if (!make_ofi_fabric(on_loopback, provider, &probe).ok()) continue;
    for (const bool shared : {true, false})
      all->push_back({concat("ofi_", provider, shared ? "" : "_own_buffers"), [provider, shared] {
                        return [provider, shared](const Options& given,
                                                  std::unique_ptr<Fabric>* fabric) {
                          Options asked = given;
                          asked.shared_receives = shared;
                          return make_ofi_fabric(asked, provider, fabric);
                        };
                      }});
  }
}

}  // namespace

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  all.push_back({"tcp", [] {
                   return [](const Options& options, std::unique_ptr<Fabric>* fabric) {
                     return make_tcp_fabric(options, fabric);
                   };
                 }});
  auto loop = [&](std::string name, LoopCapabilities capabilities) {
    all.push_back({std::move(name), [capabilities] {
                     return [network = make_loop_network(capabilities)](
                                const Options& options, std::unique_ptr<Fabric>* fabric) {
                       return make_loop_fabric(network, options, fabric);
                     };
                   }});
  };
  LoopCapabilities without_rma;
  without_rma.rma = false;
  loop("loop", {});
  loop("loop_without_rma", without_rma);
  for (uint64_t seed : {1, 2, 3}) loop(concat("loop_worst_", seed), LoopCapabilities::worst(seed));
  add_ofi(&all);
  // The hooks, as far as they keep the contract.
  all.push_back({"hooked_tcp", [] {
                   return [](const Options& options, std::unique_ptr<Fabric>* fabric) {
                     SKERRY_TRY(make_tcp_fabric(options, fabric));
                     *fabric = std::make_unique<Delaying>(std::move(*fabric), 50'000, nullptr);
                     *fabric = hook_faults(std::move(*fabric), {}, std::make_shared<FaultLog>());
                     return Status();
                   };
                 }});
  // The same over a fabric that has RMA.
  all.push_back({"hooked_loop", [] {
                   return [network = make_loop_network({})](const Options& options,
                                                            std::unique_ptr<Fabric>* fabric) {
                     SKERRY_TRY(make_loop_fabric(network, options, fabric));
                     *fabric = hook_faults(std::move(*fabric), {}, std::make_shared<FaultLog>());
                     return Status();
                   };
                 }});
  return all;
}

}  // namespace skerry::fabric::test
