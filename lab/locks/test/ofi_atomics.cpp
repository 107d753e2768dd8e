#include "ofi_atomics.hpp"

#include <rdma/fi_atomic.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "core/futex.hpp"

namespace skerry::fabric::test {

namespace {

constexpr int64_t trial_deadline_ns = 10'000'000'000;

// What lies in an atomic's buffer.
struct Words {
  uint64_t before;
  uint64_t value;
  uint64_t expected;
};

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
  void on_rma_done(EndpointId, uint64_t, bool ok) override {
    answered = ok;
    closed = closed || !ok;
  }
  void on_closed(EndpointId, CloseReason, std::string_view) override { closed = true; }

  bool connected = false, answered = false, closed = false;

 private:
  Fabric& fabric_;
};

const ofi::Library* library() {
  const ofi::Library* loaded = nullptr;
  return ofi::load(&loaded).ok() ? loaded : nullptr;
}

}  // namespace

// To the rest of the fabric it is a get, through a buffer that begins with what was there before.
SendResult OfiAtomics::start_atomic(EndpointId id, const AtomicCall& call) {
  ofi::Endpoint* const endpoint = endpoints_.find_usable(id);
  if (endpoint == nullptr) return SendResult::closed;
  const bool room = endpoint->state == ofi::State::open &&
                    endpoint->rma_outstanding < ofi::max_rma_outstanding;
  ofi::Operation* const operation = room ? pool_.take(ofi::Operation::Kind::rma, id, true)
                                         : nullptr;
  if (operation == nullptr) {
    endpoint->writable_wanted = true;
    return SendResult::would_block;
  }
  auto& words = *reinterpret_cast<Words*>(operation->buffer.data);
  words = {0, call.value, call.expected};
  last_operand_ = &words.value;
  const void *value = &words.value, *expected = &words.expected;
  if (operands_as_addresses_) {
    value = reinterpret_cast<const void*>(words.value);
    expected = reinterpret_cast<const void*>(words.expected);
  }
  void* const descriptor = operation->buffer.descriptor;
  const uint64_t at = call.key.base + call.offset;
  const ssize_t result = call.compares
                             ? fi_compare_atomic(endpoint->ep, value, 1, descriptor, expected,
                                                 descriptor, &words.before, descriptor,
                                                 FI_ADDR_UNSPEC, at, call.key.key, FI_UINT64,
                                                 FI_CSWAP, &operation->context)
                             : fi_fetch_atomic(endpoint->ep, value, 1, descriptor, &words.before,
                                               descriptor, FI_ADDR_UNSPEC, at, call.key.key,
                                               FI_UINT64, FI_SUM, &operation->context);
  if (result == -FI_EAGAIN) {
    pool_.give_back(operation);
    endpoint->writable_wanted = true;
    endpoints_.try_again(id, true);
    return SendResult::would_block;
  }
  operation->call = {false,       call.key,
                     call.offset, sizeof(uint64_t),
                     call.cookie, reinterpret_cast<std::byte*>(call.before)};
  operation->bytes = operation->piece = sizeof(uint64_t);
  endpoint->operations.insert(operation);
  ++endpoint->rma_outstanding;
  // Told like any other failure.
  if (result != 0) endpoints_.add_completion({operation, 0, static_cast<int>(-result)});
  return SendResult::accepted;
}

// Values, byte order, and that failing and succeeding comparisons differ. Returns what is wrong.
std::string OfiAtomics::run_trial(OfiAtomics& origin, OfiAtomics& target, bool* takes_addresses) {
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
  if (!status.ok()) return status.message();
  if (!until(near.connected)) return "no connection to itself";
  constexpr uint64_t first = 0x0102030405060708, operand = 0x1000000000000001;
  alignas(8) uint64_t memory = first;
  const std::atomic_ref<uint64_t> word(memory);
  RemoteKey key;
  uint64_t registration = 0, found = 0;
  status = target.register_memory(&memory, sizeof memory, &key, &registration);
  if (!status.ok()) return status.message();
  const auto is = [&](SendResult issued, uint64_t before, uint64_t after) {
    const bool done = issued == SendResult::accepted && until(near.answered);
    near.answered = false;
    return done && found == before && word.load() == after;
  };
  const auto compare = [&](uint64_t expected) {
    return compare_and_swap(origin, endpoint, key, 0, expected, 7, &found, 1);
  };
  std::string wrong;
  if (!is(fetch_and_add(origin, endpoint, key, 0, operand, &found, 1), first, first + operand)) {
    *takes_addresses = found == first &&
                       word.load() - first == reinterpret_cast<uint64_t>(origin.last_operand_);
    wrong = concat("fetch-and-add of ", operand, " to ", first, " answered ", found, " and left ",
                   word.load());
  } else if (!is(compare(first), first + operand, first + operand)) {
    wrong = concat("a comparison that fails answered ", found, " and left ", word.load());
  } else if (!is(compare(first + operand), first + operand, 7)) {
    wrong = concat("a comparison that succeeds answered ", found, " and left ", word.load());
  }
  origin.close(endpoint);
  target.deregister_memory(registration);
  return wrong;
}

// First with operands as they should be; where exactly the known defect shows, once more.
void OfiAtomics::make_trial(const Options& options, const std::string& provider, std::string* wrong,
                            bool* as_addresses) {
  for (*as_addresses = false;; *as_addresses = true) {
    OfiAtomics origin(options, library()), target(options, library());
    Status status = origin.open(provider);
    if (status.ok()) status = target.open(provider);
    origin.operands_as_addresses_ = *as_addresses;
    bool takes_addresses = false;
    *wrong = status.ok() ? run_trial(origin, target, &takes_addresses) : status.message();
    if (wrong->empty() || *as_addresses || !takes_addresses) return;
  }
}

Status OfiAtomics::open(const std::string& provider) {
  domain_.capabilities |= FI_ATOMIC;
  return start(provider);
}

Status OfiAtomics::make(const Options& options, const std::string& provider,
                        std::unique_ptr<Fabric>* made) {
  // Once in a process and provider: adapters of one provider that differ in this are not known.
  struct Trial {
    std::string wrong;
    bool as_addresses = false;
  };
  static std::mutex mutex;
  static std::map<std::string, Trial> trials;
  if (library() == nullptr) return error(Code::unsupported, "there is no libfabric");
  const std::lock_guard guard(mutex);
  auto one = std::make_unique<OfiAtomics>(options, library());
  if (one->open(provider).ok()) {
    const auto [trial, is_new] = trials.try_emplace(provider);
    if (is_new) make_trial(options, provider, &trial->second.wrong, &trial->second.as_addresses);
    if (!trial->second.wrong.empty())
      one->none_because_ = "its atomics failed the trial: " + trial->second.wrong;
    one->operands_as_addresses_ = trial->second.as_addresses;
  } else {
    one = std::make_unique<OfiAtomics>(options, library());
    one->none_because_ = "libfabric's provider " + provider + " has no atomics";
    SKERRY_TRY(one->start(provider));
  }
  *made = std::move(one);
  return {};
}

}  // namespace skerry::fabric::test
