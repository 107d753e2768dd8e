#include "fabric/ofi/ofi_fabric.hpp"

#include <algorithm>

#include "core/pure/assert.hpp"
#include "fabric/ofi/providers.hpp"

namespace skerry::fabric {

Status make_ofi_fabric(const Options& options, const std::string& provider,
                       std::unique_ptr<Fabric>* fabric) {
  const ofi::Library* library = nullptr;
  SKERRY_TRY(ofi::load(&library));
  Status last;
  const auto start = [&](const std::string& name, ofi::Kind kind) {
    auto made = std::make_unique<ofi::OfiFabric>(options, library);
    last = made->start(name, kind);
    if (last.ok()) *fabric = std::move(made);
    return last.ok();
  };
  if (provider.empty()) {
    for (const ofi::Choice& one : ofi::choices)
      if (start(one.provider, one.kind)) return {};
    return last;
  }
  const bool datagrams_only = provider.ends_with(ofi::datagram_suffix);
  const std::string name = provider.substr(
      0, provider.size() - (datagrams_only ? ofi::datagram_suffix.size() : 0));
  // Connections first: they tell of a peer's end.
  if (!datagrams_only && start(name, ofi::Kind::connected)) return {};
  if (start(name, ofi::Kind::datagram)) return {};
  const std::string lacking = ofi::lacks(*library, name);
  return lacking.empty() ? last
                         : error(Code::unsupported, "libfabric's provider ", name, " ", lacking,
                                 "; skerry info lists what is here. Set SKERRY_FABRIC=tcp to do "
                                 "without libfabric");
}

namespace ofi {
namespace {

// A sleep is never longer: a provider whose descriptor misses an event (there were such bugs) then
// costs a pause, not a hang.
constexpr int64_t longest_sleep_ns = 500'000'000;
constexpr int64_t impatient_sleep_ns = 2'000'000;
// Where nothing ends a sleep when something comes.
constexpr int64_t shortest_look_ns = 4'000;
// Who waits for a put or get by looking makes a system call once in so many times.
constexpr uint32_t looks_for_a_call = 16;
constexpr int64_t longest_spin_ns = 200'000;
constexpr int looks_a_turn = 4;  // at completions, before the core is given away

}  // namespace

OfiFabric::OfiFabric(const Options& options, const Library* library)
    : options_(options), domain_(library) {}

OfiFabric::~OfiFabric() {
  endpoints_.for_each([&](Endpoint& endpoint) {
    connector_->leave(endpoint);
    endpoints_.release(endpoint);
  });
  connector_->stop();
  domain_.receives.reset();  // nothing arrives in our buffers any more
}

Status OfiFabric::start(const std::string& provider, Kind kind) {
  SKERRY_TRY(open(provider, kind));
  if (!wants_atomics(options_, provider)) return {};
  if (!domain_.has_atomics()) {
    no_atomics_because_ = "it offers none";
    return {};
  }
  if (!capabilities_.rma) {
    no_atomics_because_ = "puts do not tell when they are done";
    return {};
  }
  const Trial& trial = tried(*domain_.library, provider, kind, options_);
  no_atomics_because_ = trial.wrong;
  capabilities_.atomics = trial.wrong.empty();
  capabilities_.atomic_swap = trial.wrong.empty() && trial.swaps;
  capabilities_.atomics_of_adapter = trial.wrong.empty() && trial.alone_ns > 0;
  capabilities_.atomic_ns = trial.alone_ns;
  domain_.operands_as_addresses = trial.operands_as_addresses;
  return {};
}

Status OfiFabric::start_for_trial(const std::string& provider, Kind kind,
                                  bool operands_as_addresses) {
  SKERRY_TRY(open(provider, kind));
  capabilities_.atomics = true;
  domain_.operands_as_addresses = operands_as_addresses;
  return {};
}

Status OfiFabric::open(const std::string& provider, Kind kind) {
  SKERRY_TRY(domain_.open(kind, provider, options_, waiter_));
  if (domain_.is_datagram()) connector_ = &datagrams_;
  const fi_info& info = *domain_.info;
  capabilities_.rma = domain_.puts_are_remote_done();
  // Datagrams: no order is asked, and a put may go in pieces.
  capabilities_.am_after_rma_ordered = !domain_.is_datagram() &&
                                       (info.tx_attr->msg_order & FI_ORDER_SAW) != 0 &&
                                       (info.rx_attr->msg_order & FI_ORDER_SAW) != 0;
  // The connection carries RMA and messages: closed is closed. Datagrams: see datagrams.hpp.
  capabilities_.close_fences_rma = true;
  capabilities_.connection_bytes = domain_.receives != nullptr ? ofi_connection_bytes
                                                               : ofi_own_buffers_connection_bytes;
  capabilities_.max_payload_bytes = domain_.payload_bytes();
  capabilities_.rma_from_bytes = domain_.payload_bytes() + 1;
  capabilities_.rma_of_adapter = capabilities_.rma && has_rma_of_adapter(provider);
  messages_.post_shared();
  return {};
}

// --- issue calls -------------------------------------------------------------------------------

uint64_t OfiFabric::unsent_bytes(EndpointId id) const {
  const Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr) return 0;
  // Close takes back nothing that a datagram endpoint has.
  const uint64_t in_flight = domain_.is_datagram() ? 0 : endpoint->in_flight_bytes;
  return in_flight + (endpoint->filling == nullptr ? 0 : endpoint->filling->bytes);
}

// --- progress ----------------------------------------------------------------------------------

// How long nothing is missed by not looking.
int64_t OfiFabric::next_sleep_ns() {
  const bool impatient = endpoints_.impatient.load(std::memory_order_relaxed);
  if (!domain_.is_datagram()) return impatient ? impatient_sleep_ns : longest_sleep_ns;
  if (!impatient && domain_.can_sleep) return longest_sleep_ns;
  look_ns_ = std::min(std::max(2 * look_ns_, shortest_look_ns), options_.longest_look_ns);
  return look_ns_;
}

// Before a sleep, where that costs system calls and a look does not. What an adapter has to do for
// something short takes less time than to fall asleep and wake up. True: a completion came.
bool OfiFabric::spin(int64_t timeout_ns) {
  if (timeout_ns == 0 || !domain_.events_cost_a_call || !endpoints_.any_short_rma()) return false;
  bool came = false;
  const auto is_over = [&] { return (came = endpoints_.poll_completions()) || waiter_.is_woken(); };
  (void)idle_core_spin_.spin<looks_a_turn>(
      is_over, timeout_ns < 0 ? longest_spin_ns : std::min(timeout_ns, longest_spin_ns));
  return came;
}

void OfiFabric::poll(int64_t timeout_ns, EndpointId) {
  if (waiter_.has_events() || endpoints_.any_polled()) return;
  if (waiter_.begin_poll()) timeout_ns = 0;
  if (spin(timeout_ns)) return waiter_.end_poll();
  if (timeout_ns == 0 && domain_.events_cost_a_call && ++polls_ % looks_for_a_call != 0)
    return waiter_.end_poll();
  if (timeout_ns != 0) {
    // Arms the queues' descriptors. "Again" means that there is something to read, perhaps without
    // the descriptor showing it.
    fid* queues[] = {&domain_.completions->fid,
                     domain_.events != nullptr ? &domain_.events->fid : nullptr};
    if (domain_.can_sleep &&
        fi_trywait(domain_.fabric.get(), queues, domain_.events != nullptr ? 2 : 1) != 0)
      timeout_ns = 0;
    const int64_t limit_ns = next_sleep_ns();
    if (timeout_ns < 0 || timeout_ns > limit_ns) timeout_ns = limit_ns;
  }
  waiter_.sleep(timeout_ns);
  waiter_.end_poll();
}

void OfiFabric::dispatch(Sink& sink) {
  waiter_.begin_dispatch();
  const std::span<const epoll_event> told = waiter_.take_events();
  for (const epoll_event& event : told) waiter_.handle(event.data.u64, sink);
  messages_.run_unparked(sink);
  messages_.post_shared();  // if there was no memory for all
  for (const EndpointId id : std::exchange(endpoints_.again, {}))
    if (Endpoint* const endpoint = endpoints_.find(id)) messages_.after_progress(*endpoint);
  constexpr bool all = false;  // a look costs a call of the library
  endpoints_.drain_completions(all);
  if (endpoints_.any_completions()) look_ns_ = 0;
  run_completions(sink);
  if (!told.empty() || !domain_.events_cost_a_call || connector_->is_impatient() ||
      ++dispatches_ % looks_for_a_call == 0)
    connector_->read_events(sink);
  if (!endpoints_.ending.empty()) run_endings(sink);
  if (connector_->has_deadlines()) connector_->run_deadlines(sink);
  for (const EndpointId id : std::exchange(endpoints_.writable, {})) {
    if (endpoints_.find(id) == nullptr) continue;
    sink.on_writable(id);
  }
  endpoints_.impatient.store(
      !endpoints_.again.empty() || connector_->is_impatient() || messages_.is_short_of_buffers(),
      std::memory_order_relaxed);
  waiter_.end_dispatch(messages_.any_unparked() || endpoints_.any_completions() ||
                       !endpoints_.writable.empty() || !endpoints_.ending.empty());
}

void OfiFabric::run_completions(Sink& sink) {
  Completion completion;
  while (endpoints_.next_completion(&completion)) {
    Operation* const operation = completion.operation;
    const EndpointId id = operation->endpoint;
    if (operation->kind == Operation::Kind::control) {
      datagrams_.sent(completion);
      continue;
    }
    if (id == no_endpoint) {
      receive_shared(completion, sink);
      continue;
    }
    Rma::note_complete(operation);
    Endpoint* const endpoint = endpoints_.find(id);
    if (endpoint == nullptr || !endpoint->operations.contains(operation)) {
      // Of a connected endpoint it cannot be: release reads them first. Of a datagram endpoint what
      // was under way completes after its connection was closed.
      if (domain_.is_datagram()) pool_.give_back(operation);
      continue;
    }
    run_completion(*endpoint, completion, sink);
    if (completion.error_number == 0) continue;
    if (Endpoint* const broken = endpoints_.find(id)) {
      // A connection that ends cancels what is posted; most providers tell the end itself as an
      // event, but not all of them always.
      const bool ended = completion.error_number == FI_ECANCELED ||
                         completion.error_number == FI_ENOTCONN ||
                         completion.error_number == FI_ESHUTDOWN;
      const CloseReason reason = broken->state == State::connecting ? CloseReason::refused
                                 : ended                            ? CloseReason::by_peer
                                                                    : CloseReason::reset;
      endpoints_.end_soon(*broken, reason, domain_.library->strerror(completion.error_number));
    }
  }
}

void OfiFabric::receive_shared(const Completion& completion, Sink& sink) {
  Operation* const parcel = messages_.take_shared(completion);
  if (parcel == nullptr) return;
  if (domain_.is_datagram() && head_of(*parcel).frames == control_frames)
    return datagrams_.take(parcel, sink);
  messages_.received_shared(parcel, sink);
}

void OfiFabric::run_completion(Endpoint& endpoint, const Completion& completion, Sink& sink) {
  const bool ok = completion.error_number == 0;
  switch (completion.operation->kind) {
    case Operation::Kind::send: return messages_.sent(endpoint, completion);
    case Operation::Kind::receive:  // not ok: cancelled with its connection
      if (ok) messages_.received(endpoint, completion, sink);
      return;
    case Operation::Kind::control: return;  // these are no endpoint's
    case Operation::Kind::rma: break;
  }
  const EndpointId id = endpoint.own_id();
  uint64_t cookie = 0;
  // If it failed the endpoint ends, and tells all that are outstanding.
  completion.operation->has_failed = !ok;
  if (!ok || !rma_.finish(endpoint, completion.operation, &cookie)) return;
  messages_.after_progress(endpoint);
  sink.on_rma_done(id, cookie, true);
}

// What arrived before the end is delivered before it.
void OfiFabric::run_endings(Sink& sink) {
  endpoints_.drain_completions();
  run_completions(sink);
  for (const EndpointId id : std::exchange(endpoints_.ending, {})) {
    Endpoint* const endpoint = endpoints_.find(id);
    if (endpoint == nullptr) continue;
    if (endpoint->parked) continue;  // deliver comes back to it after unpark
    std::vector<uint64_t> cookies;   // of RMA that is outstanding
    for (const Operation* operation : endpoint->operations)
      if (operation->kind == Operation::Kind::rma) cookies.push_back(operation->call.cookie);
    const CloseReason reason = endpoint->end_reason;
    const std::string detail = endpoint->end_detail;
    connector_->leave(*endpoint);
    endpoints_.release(*endpoint);
    for (const uint64_t cookie : cookies) sink.on_rma_done(id, cookie, false);
    sink.on_closed(id, reason, detail);
  }
}

void OfiFabric::close(EndpointId id) {
  Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr) return;
  connector_->leave(*endpoint);
  endpoints_.release(*endpoint);
}

// --- figures -----------------------------------------------------------------------------------

Fabric::Traffic OfiFabric::traffic() const {
  Traffic out = endpoints_.traffic;
  out.endpoints_open = endpoints_.open_to_caller();
  return out;
}

// A connection's own: its window of posted buffers above all. What libfabric keeps for it cannot be
// seen from here.
Fabric::Memory OfiFabric::memory() const {
  Memory out;
  endpoints_.add_memory(&out);
  out.endpoint_bytes += peers_.heap_bytes();
  out.fixed_bytes += sizeof *this + pool_.spare_bytes() + rma_.heap_bytes() + waiter_.heap_bytes() +
                     messages_.shared_posted() * (buffer_bytes + sizeof(Operation));
  return out;
}

}  // namespace ofi
}  // namespace skerry::fabric
