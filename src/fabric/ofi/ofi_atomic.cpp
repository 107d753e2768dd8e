// Atomics of the ofi fabric, and the trial that decides whether they are trusted.
//
// libfabric's verbs provider before 2.2.0 takes the address of an operand for its value. A trial
// sees that exactly, and then the fabric hands over values as addresses. Anything else that is not
// right turns atomics off.
#include <rdma/fi_atomic.h>

#include <map>
#include <mutex>

#include "core/pure/assert.hpp"
#include "fabric/ofi/ofi_fabric.hpp"

namespace skerry::fabric::ofi {
namespace {

constexpr int64_t trial_deadline_ns = 10'000'000'000;
constexpr const char* failed_trial = "its atomics failed the trial: ";

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

}  // namespace

// --- the fabric's calls ------------------------------------------------------------------------

SendResult OfiFabric::fetch_and_add(EndpointId endpoint, RemoteKey key, uint64_t offset,
                                    uint64_t operand, uint64_t cookie) {
  return start_atomic(endpoint, Operation::Kind::fetch_and_add, key, offset, 0, operand, cookie);
}

SendResult OfiFabric::compare_and_swap(EndpointId endpoint, RemoteKey key, uint64_t offset,
                                       uint64_t expected, uint64_t value, uint64_t cookie) {
  return start_atomic(endpoint, Operation::Kind::compare_and_swap, key, offset, expected, value,
                      cookie);
}

SendResult OfiFabric::start_atomic(EndpointId id, Operation::Kind kind, RemoteKey key,
                                   uint64_t offset, uint64_t expected, uint64_t value,
                                   uint64_t cookie) {
  SKERRY_ASSERT(capabilities_.atomics != Atomics::none, "an atomic on a fabric without");
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr || endpoint->ending || endpoint->state == State::asking)
    return SendResult::closed;
  Operation* operation = nullptr;
  if (endpoint->state == State::open && endpoint->rma_outstanding < max_rma_outstanding)
    operation = take_operation(kind, id, true);
  if (operation == nullptr) {
    endpoint->writable_wanted = true;
    if (endpoint->state == State::open) {  // perhaps no memory: completions give some back
      again_.push_back(id);
      want_dispatch();
    }
    return SendResult::would_block;
  }
  *reinterpret_cast<Words*>(operation->buffer.data) = {0, value, expected};
  operation->key = key;
  operation->offset = offset;
  operation->bytes = operation->piece = sizeof(uint64_t);
  operation->cookie = cookie;
  endpoint->operations.insert(operation);
  ++endpoint->rma_outstanding;
  if (!endpoint->rma_waiting.empty() || !post_rma(*endpoint, operation)) {
    endpoint->rma_waiting.push_back(operation);
    again_.push_back(id);
    impatient_.store(true, std::memory_order_relaxed);
    want_dispatch();
  }
  return SendResult::accepted;
}

int64_t OfiFabric::post_atomic(Endpoint& endpoint, Operation* operation) {
  Words& words = *reinterpret_cast<Words*>(operation->buffer.data);
  void* const descriptor = operation->buffer.descriptor;
  const void* value = &words.value;
  const void* expected = &words.expected;
  if (operands_as_addresses_) {
    value = reinterpret_cast<const void*>(words.value);
    expected = reinterpret_cast<const void*>(words.expected);
  }
  const uint64_t at = operation->key.base + operation->offset;
  if (operation->kind == Operation::Kind::fetch_and_add)
    return fi_fetch_atomic(endpoint.ep, value, 1, descriptor, &words.before, descriptor,
                           FI_ADDR_UNSPEC, at, operation->key.key, FI_UINT64, FI_SUM,
                           &operation->context);
  return fi_compare_atomic(endpoint.ep, value, 1, descriptor, expected, descriptor, &words.before,
                           descriptor, FI_ADDR_UNSPEC, at, operation->key.key, FI_UINT64, FI_CSWAP,
                           &operation->context);
}

uint64_t OfiFabric::result_of_atomic(const Operation& operation) {
  return reinterpret_cast<const Words*>(operation.buffer.data)->before;
}

// --- the trial ---------------------------------------------------------------------------------

// An adapter that says so is atomic towards processors, too. None that we know of does.
void OfiFabric::trust_atomics(const AtomicsTrial& trial) {
  capabilities_.atomics = trial.works ? Atomics::incoherent : Atomics::none;
  capabilities_.no_atomics_reason = trial.reason;
  operands_as_addresses_ = trial.operands_as_addresses;
}

// Once in a process and provider: adapters of one provider that differ in this are not known.
void OfiFabric::try_atomics(const std::string& provider) {
  if (!options_.atomics || (info_->caps & FI_ATOMIC) == 0) {
    capabilities_.no_atomics_reason = options_.atomics
                                          ? "libfabric's provider " + provider + " has none"
                                          : "they were not asked for";
    return;
  }
  static std::mutex mutex;
  static std::map<std::string, AtomicsTrial> trials;
  const std::lock_guard guard(mutex);
  const auto [found, is_new] = trials.try_emplace(provider);
  if (is_new) found->second = trial_of_atomics(provider);
  trust_atomics(found->second);
}

// First with operands as they should be; where exactly the known defect shows, once more.
AtomicsTrial OfiFabric::trial_of_atomics(const std::string& provider) const {
  AtomicsTrial trial;
  const auto side = [&] {
    auto made = std::make_unique<OfiFabric>(options_, library_);
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

// Values, byte order, and that failing and succeeding comparisons differ. Returns what is wrong.
std::string OfiFabric::run_trial(OfiFabric& origin, OfiFabric& target, bool* takes_addresses) {
  TrialSink near(origin), far(target);
  const int64_t deadline_ns = now_ns() + trial_deadline_ns;
  const auto until = [&](const bool& condition) {
    while (!condition && !near.closed && !far.closed && now_ns() < deadline_ns) {
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

bool OfiFabric::is_in_buffers(uint64_t address) const {
  for (const Slab& slab : slabs_) {
    const uint64_t begin = reinterpret_cast<uint64_t>(slab.bytes.get());
    if (address >= begin && address < begin + slab_bytes) return true;
  }
  return false;
}

}  // namespace skerry::fabric::ofi
