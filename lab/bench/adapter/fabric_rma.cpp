// An adapter's get, put, fetch-and-add and compare-and-swap of 8 B through Skerry's fabric, each
// waited for until the fabric tells that it is done. limit_rma does the same with bare libfabric.
//
//   fabric_rma [--fabric ofi:verbs]
//
// A child process is the target: it registers a word, accepts, and sleeps.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "../micro/common.hpp"
#include "fabric/rma_sink.hpp"

namespace {

using skerry::fabric::AtomicCall;
using skerry::fabric::EndpointId;
using skerry::fabric::Fabric;
using skerry::fabric::RemoteKey;
using skerry::fabric::RmaSink;
using skerry::fabric::SendResult;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "fabric_rma: %s\n", why.c_str());
  std::exit(2);
}

void check(const skerry::Status& status) {
  if (!status.ok()) stop(std::string(status.message()));
}

// What the target tells.
struct Told {
  RemoteKey key;
  uint64_t address_bytes;
  std::byte address[256];
};

class End {
 public:
  explicit End(const std::string& name) {
    skerry::fabric::Options options;
    options.atomics = skerry::fabric::Options::Atomics::any;
    check(skerry::fabric::make_fabric(name, options, &fabric_));
    const auto& can = fabric_->capabilities();
    if (!can.rma || !can.atomics) stop(name + " has no puts, or no atomics");
    sink_ = std::make_unique<RmaSink>(*fabric_);
  }

  // The target: tells, accepts, and sleeps until it is ended.
  void serve(int to) {
    std::vector<std::byte> address;
    check(fabric_->listen(&address));
    Told told{};
    uint64_t registration = 0;
    check(fabric_->register_memory(words_, sizeof words_, &told.key, &registration));
    told.address_bytes = address.size();
    if (address.size() > sizeof told.address) stop("a long address");
    std::memcpy(told.address, address.data(), address.size());
    if (write(to, &told, sizeof told) != sizeof told) stop("the pipe");
    while (!sink_->closed) sink_->step(-1);
  }

  void connect(const Told& told) {
    key_ = told.key;
    check(fabric_->connect({told.address, told.address_bytes}, {}, &endpoint_));
    until(sink_->connected, 1'000'000);
  }
  void get() { wait(fabric_->get(endpoint_, own(), key_, 0, 8, 1)); }
  void put() { wait(fabric_->put(endpoint_, own(), key_, 0, 8, 1)); }
  void fetch_add() { atomic(AtomicCall::Kind::fetch_add); }
  void compare_swap() { atomic(AtomicCall::Kind::compare_swap); }

 private:
  std::byte* own() { return reinterpret_cast<std::byte*>(words_ + 1); }
  void atomic(AtomicCall::Kind kind) {
    wait(fabric_->start_atomic(endpoint_, {kind, key_, 0, 1, 1, words_ + 2, 1}));
  }
  void wait(SendResult begun) {
    if (begun != SendResult::accepted) stop("it was not accepted");
    until(sink_->answered, 0);
    sink_->answered = false;
  }
  void until(const bool& condition, int64_t timeout_ns) {
    while (!condition && !sink_->closed) sink_->step(timeout_ns);
    if (!condition) stop("closed, or an operation failed");
  }

  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<RmaSink> sink_;
  EndpointId endpoint_ = skerry::fabric::no_endpoint;
  RemoteKey key_;
  alignas(64) uint64_t words_[64] = {};
};

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  const std::string name = arguments.text("--fabric", "ofi:verbs");
  int told_by[2];
  if (pipe(told_by) != 0) stop("pipe");
  const pid_t target = fork();
  if (target == 0) End(name).serve(told_by[1]);
  close(told_by[1]);
  Told told{};
  if (read(told_by[0], &told, sizeof told) != sizeof told) stop("the target ended");
  End end(name);
  end.connect(told);
  const auto time = [&](const char* row, void (End::*work)()) {
    bench::report(row, bench::median_of_singles_ns([&] { (end.*work)(); }, 500), "ns");
  };
  time("fabric_get_8", &End::get);
  time("fabric_put_8", &End::put);
  time("fabric_fetch_add", &End::fetch_add);
  time("fabric_compare_swap", &End::compare_swap);
  kill(target, SIGKILL);
  waitpid(target, nullptr, 0);
  return 0;
}
