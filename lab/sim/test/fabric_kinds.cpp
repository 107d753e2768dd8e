// What fabric.hpp promises, for the simulated fabric: the conformance suite on a fiber. Left out
// are its tests with threads of their own, and descriptors, which simulated processes do not have.
#include <gtest/gtest.h>

#include "fabric/test/side.hpp"
#include "sim/fabric/network.hpp"

namespace skerry::fabric::test {

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  const auto add = [&](std::string name, const sim::NetworkOptions& options) {
    all.push_back({std::move(name), [options] {
                     return [network = std::make_shared<sim::SimulatedNetwork>(options)](
                                const Options& given, std::unique_ptr<Fabric>* fabric) {
                       *fabric = std::make_unique<sim::SimulatedFabric>(network, given);
                       return Status();
                     };
                   }});
  };
  sim::NetworkOptions options;
  add("simulated", options);
  options.early_messages = false;
  options.rma = true;
  options.kernel_bytes = 512;
  options.queue_bytes = 4096;
  add("simulated_rma", options);
  options.rma_unordered = true;
  add("simulated_rma_unordered", options);
  options.close_fences_rma = options.direct_placement = false;
  options.max_payload_bytes = 8 * 1024;
  add("simulated_worst", options);
  return all;
}

}  // namespace skerry::fabric::test

int main(int count, char** arguments) {
  using namespace skerry::sim;
  testing::GTEST_FLAG(filter) =
      "-*WakeEndsAPollFromAnotherThread/*:*WatchedDescriptors/*:*SleepingServerAnswersPollOnly/*:"
      "*PollOnlySeesTheEnd/*:*IssueBesidePoll/*";
  testing::InitGoogleTest(&count, arguments);
  Scheduler scheduler({1, 0, 300});
  int result = 1;
  scheduler.spawn(Process{0}, "tests", [&] { result = RUN_ALL_TESTS(); });
  scheduler.run(never_ns, ~uint64_t{0} / 2);
  return result;
}
