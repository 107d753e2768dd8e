#include "fabric/ofi/trial.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "core/futex.hpp"
#include "fabric/ofi/ofi_fabric.hpp"

namespace skerry::fabric::ofi {

namespace {

constexpr int64_t trial_deadline_ns = 10'000'000'000;
constexpr const char* failed_trial = "its atomics failed the trial: ";

// The two ends of the trial's connection.
class TrialSink final : public Sink {
 public:
  explicit TrialSink(Fabric& fabric) : fabric_(fabric) {}
  void on_connect_request(RequestId request, Bytes, std::string_view) override {
    EndpointId accepted = no_endpoint;
    if (!fabric_.accept(request, {}, &accepted).ok()) closed = true;
  }
  void on_connected(EndpointId, Bytes) override { connected = true; }
  Verdict on_message(EndpointId, Bytes, Bytes) override { return Verdict::taken; }
  std::byte* place_directly(EndpointId, Bytes, uint64_t) override { return nullptr; }
  Verdict on_placed(EndpointId, Bytes, uint64_t) override { return Verdict::taken; }
  void on_writable(EndpointId) override {}
  void on_sent(EndpointId, uint64_t) override {}
  void on_rma_done(EndpointId, uint64_t, bool) override {}
  void on_atomic_done(EndpointId, uint64_t, bool ok, uint64_t what) override {
    answered = ok;
    closed = closed || !ok;
    before = what;
  }
  void on_closed(EndpointId, CloseReason, std::string_view) override { closed = true; }
  void on_watched(int, uint64_t) override {}

  bool connected = false, answered = false, closed = false;
  uint64_t before = 0;

 private:
  Fabric& fabric_;
};

// Values, byte order, and that failing and succeeding comparisons differ. Returns what is wrong.
std::string run_trial(OfiFabric& origin, OfiFabric& target, bool* takes_addresses) {
  TrialSink near(origin), far(target);
  const int64_t deadline_ns = monotonic_ns() + trial_deadline_ns;
  const auto until = [&](const bool& condition) {
    while (!condition && !near.closed && !far.closed && monotonic_ns() < deadline_ns) {
      origin.poll(1'000'000, no_endpoint);
      origin.dispatch(near);
      target.poll(0, no_endpoint);
      target.dispatch(far);
    }
    return condition;
  };
  std::vector<std::byte> address;
  EndpointId endpoint = no_endpoint;
  Status status = target.listen(&address);
  if (status.ok()) status = origin.connect(address, {}, &endpoint);
  if (!status.ok()) return failed_trial + status.message();
  if (!until(near.connected)) return concat(failed_trial, "no connection to itself");
  constexpr uint64_t first = 0x0102030405060708, operand = 0x1000000000000001;
  alignas(8) uint64_t memory = first;
  const std::atomic_ref<uint64_t> word(memory);
  RemoteKey key;
  uint64_t registration = 0;
  status = target.register_memory(&memory, sizeof memory, &key, &registration);
  if (!status.ok()) return failed_trial + status.message();
  const auto is = [&](SendResult issued, uint64_t before, uint64_t after) {
    const bool done = issued == SendResult::accepted && until(near.answered);
    near.answered = false;
    return done && near.before == before && word.load() == after;
  };
  std::string wrong;
  if (!is(origin.fetch_and_add(endpoint, key, 0, operand, 1), first, first + operand)) {
    // The address that it added is one of the origin's own buffers.
    *takes_addresses = near.before == first && origin.is_in_buffers(word.load() - first);
    wrong = concat("fetch-and-add of ", operand, " to ", first, " answered ", near.before,
                   " and left ", word.load());
  } else if (!is(origin.compare_and_swap(endpoint, key, 0, first, 7, 2), first + operand,
                 first + operand)) {
    wrong = concat("a comparison that fails answered ", near.before, " and left ", word.load());
  } else if (!is(origin.compare_and_swap(endpoint, key, 0, first + operand, 7, 3), first + operand,
                 7)) {
    wrong = concat("a comparison that succeeds answered ", near.before, " and left ", word.load());
  }
  origin.close(endpoint);
  target.deregister_memory(registration);
  return wrong.empty() ? wrong : failed_trial + wrong;
}

// First with operands as they should be; where exactly the known defect shows, once more.
AtomicsTrial make_trial(const Options& options, const Library* library,
                        const std::string& provider) {
  AtomicsTrial trial;
  const auto side = [&] {
    auto made = std::make_unique<OfiFabric>(options, library);
    const Status status = made->open(provider);
    if (!status.ok()) trial.reason = failed_trial + status.message();
    return made;
  };
  for (const bool as_addresses : {false, true}) {
    const std::unique_ptr<OfiFabric> origin = side(), target = side();
    if (!trial.reason.empty()) return trial;
    AtomicsTrial assumed;
    assumed.works = true;
    assumed.operands_as_addresses = as_addresses;
    origin->trust_atomics(assumed);
    bool takes_addresses = false;
    trial.reason = run_trial(*origin, *target, &takes_addresses);
    trial.works = trial.reason.empty();
    trial.operands_as_addresses = trial.works && as_addresses;
    if (trial.works || !takes_addresses) return trial;
    trial.reason.clear();
  }
  return trial;
}

}  // namespace

AtomicsTrial trial_of_atomics(const Options& options, const Library* library,
                              const std::string& provider) {
  static std::mutex mutex;
  static std::map<std::string, AtomicsTrial> trials;
  const std::lock_guard guard(mutex);
  const auto [found, is_new] = trials.try_emplace(provider);
  if (is_new) found->second = make_trial(options, library, provider);
  return found->second;
}

}  // namespace skerry::fabric::ofi
