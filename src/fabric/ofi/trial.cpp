#include "fabric/ofi/trial.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/futex.hpp"
#include "fabric/ofi/ofi_fabric.hpp"
#include "fabric/rma_sink.hpp"

namespace skerry::fabric::ofi {

namespace {

constexpr int64_t deadline_of_trial_ns = 10'000'000'000;
// What the adapter does it has done by then, also while others use the processor.
constexpr int64_t longest_alone_ns = 500'000'000;

// One run. `memory` and `found` outlive the fabrics: a late atomic may still write there.
class Run {
 public:
  Run(OfiFabric& origin, OfiFabric& target, uint64_t* memory, uint64_t* found)
      : origin_(origin), target_(target), memory_(*memory), found_(*found) {}

  // Values, byte order, and that failing and succeeding comparisons differ.
  Trial go(bool may_be_of_adapter) {
    Trial trial;
    trial.wrong = connect();
    if (!trial.wrong.empty()) return trial;
    constexpr uint64_t first = 0x0102030405060708, operand = 0x1000000000000001;
    word_.store(first);
    AtomicCall add{.value = operand};
    AtomicCall compare{.kind = AtomicCall::Kind::compare_swap, .value = 7, .expected = first};
    if (!answers(add, first, first + operand)) {
      trial.operands_as_addresses =
          found_ == first &&
          word_.load() - first == reinterpret_cast<uint64_t>(origin_.last_operand());
      trial.wrong = concat("fetch-and-add of ", operand, " to ", first, told());
    } else if (!answers(compare, first + operand, first + operand)) {
      trial.wrong = concat("a comparison that fails", told());
    } else if (compare.expected = first + operand; !answers(compare, first + operand, 7)) {
      trial.wrong = concat("a comparison that succeeds", told());
    } else {
      if (may_be_of_adapter) trial.alone_ns = time_alone_ns(7);
      const uint64_t now = word_.load();
      // Last: a provider without swaps ends the connection.
      trial.swaps = answers({.kind = AtomicCall::Kind::swap, .value = operand}, now, operand);
    }
    return trial;
  }

 private:
  std::string connect() {
    std::vector<std::byte> address;
    Status status = target_.listen(&address);
    if (status.ok()) status = origin_.connect(address, {}, &endpoint_);
    if (!status.ok()) return status.message();
    if (!until(near_.connected)) return "no connection to itself";
    uint64_t registration = 0;  // ends with the fabric
    status = target_.register_memory(&memory_, sizeof memory_, &key_, &registration);
    return status.ok() ? "" : status.message();
  }
  bool until(const bool& condition) {
    while (!condition && !near_.closed && !far_.closed && monotonic_ns() < deadline_ns_) {
      near_.step(1'000'000);
      far_.step(0);
    }
    return condition;
  }
  bool answers(AtomicCall call, uint64_t before, uint64_t after) {
    call.key = key_;
    call.before = &found_;
    near_.answered = false;
    return origin_.start_atomic(endpoint_, call) == SendResult::accepted &&
           until(near_.answered) && found_ == before && word_.load() == after;
  }
  int64_t time_alone_ns(uint64_t before) {
    std::array<int64_t, 15> times_ns;
    const AtomicCall call{.key = key_, .value = 1, .before = &found_};
    for (int64_t& one : times_ns) {
      near_.answered = false;
      const int64_t start_ns = monotonic_ns(), end_ns = start_ns + longest_alone_ns;
      if (origin_.start_atomic(endpoint_, call) != SendResult::accepted) return 0;
      while (!near_.answered && !near_.closed && monotonic_ns() < end_ns) near_.step(0);
      if (!near_.answered || found_ != before++) return 0;
      one = monotonic_ns() - start_ns;
    }
    std::ranges::sort(times_ns);
    return times_ns[times_ns.size() / 2];
  }
  std::string told() { return concat(" answered ", found_, " and left ", word_.load()); }

  OfiFabric& origin_;
  OfiFabric& target_;
  RmaSink near_{origin_}, far_{target_};
  const int64_t deadline_ns_ = monotonic_ns() + deadline_of_trial_ns;
  EndpointId endpoint_ = no_endpoint;
  RemoteKey key_;
  uint64_t& memory_;
  uint64_t& found_;
  const std::atomic_ref<uint64_t> word_{memory_};
};

// Of libfabric 1.17's: what would end the process, and no trial could tell. Empty: nothing known.
std::string known_crash(std::string_view provider) {
  if (provider == "shm") return "a process that holds both ends of a connection crashes";
  if (provider.ends_with("ofi_rxd")) return "it crashes when several are under way";
  return "";
}

// First with operands as they should be; where exactly the known defect shows, once more.
Trial try_atomics(const Library& library, const std::string& provider, Kind kind,
                  const Options& options) {
  Trial trial;
  trial.wrong = known_crash(provider);
  if (!trial.wrong.empty()) return trial;
  for (bool as_addresses = false;; as_addresses = true) {
    alignas(8) uint64_t memory = 0;
    uint64_t found = 0;
    OfiFabric origin(options, &library), target(options, &library);
    Status status = origin.start_for_trial(provider, kind, as_addresses);
    if (status.ok()) status = target.start_for_trial(provider, kind, as_addresses);
    if (!status.ok()) return {.wrong = status.message()};
    trial = Run(origin, target, &memory, &found).go(has_adapter(provider));
    const bool again = std::exchange(trial.operands_as_addresses, as_addresses);
    if (trial.wrong.empty() || as_addresses || !again) return trial;
  }
}

}  // namespace

const Trial& tried(const Library& library, const std::string& provider, Kind kind,
                   const Options& options) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, Kind>, Trial> trials;
  const std::lock_guard guard(mutex);
  const auto [found, is_new] = trials.try_emplace({provider, kind});
  if (is_new) found->second = try_atomics(library, provider, kind, options);
  return found->second;
}

}  // namespace skerry::fabric::ofi
