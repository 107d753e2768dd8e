#include "fabric/ofi/ofi_fabric.hpp"

#include "core/pure/assert.hpp"

namespace skerry::fabric {

Status make_ofi_fabric(const Options& options, const std::string& provider,
                       std::unique_ptr<Fabric>* fabric) {
  const ofi::Library* library = nullptr;
  SKERRY_TRY(ofi::load(&library));
  Status last;
  for (const std::string& name : provider.empty() ? std::vector<std::string>{"verbs", "tcp"}
                                                  : std::vector<std::string>{provider}) {
    auto made = std::make_unique<ofi::OfiFabric>(options, library);
    last = made->start(name);
    if (!last.ok()) continue;
    *fabric = std::move(made);
    return {};
  }
  return last;
}

namespace ofi {
namespace {

// A sleep is never longer: a provider whose descriptor misses an event (there were such bugs) then
// costs a pause, not a hang.
constexpr int64_t longest_sleep_ns = 500'000'000;
constexpr int64_t impatient_sleep_ns = 2'000'000;

}  // namespace

OfiFabric::OfiFabric(const Options& options, const Library* library)
    : options_(options), domain_(library) {}

OfiFabric::~OfiFabric() {
  connector_.stop_listening();
  endpoints_.release_all();
  domain_.receives.reset();  // nothing arrives in our buffers any more
}

Status OfiFabric::start(const std::string& provider) {
  SKERRY_TRY(domain_.open(provider, options_, waiter_));
  const fi_info& info = *domain_.info;
  capabilities_.rma = true;
  capabilities_.am_after_rma_ordered = (info.tx_attr->msg_order & FI_ORDER_SAW) != 0 &&
                                       (info.rx_attr->msg_order & FI_ORDER_SAW) != 0;
  // The connection carries RMA and messages: closed is closed.
  capabilities_.close_fences_rma = true;
  capabilities_.connection_bytes = domain_.receives != nullptr ? ofi_connection_bytes
                                                               : ofi_own_buffers_connection_bytes;
  capabilities_.max_payload_bytes = parcel_payload_bytes;
  capabilities_.rma_from_bytes = parcel_payload_bytes + 1;
  return {};
}

// --- issue calls -------------------------------------------------------------------------------

uint64_t OfiFabric::unsent_bytes(EndpointId id) const {
  const Endpoint* const endpoint = endpoints_.find(id);
  if (endpoint == nullptr) return 0;
  return endpoint->in_flight_bytes + (endpoint->filling == nullptr ? 0 : endpoint->filling->bytes);
}

// --- progress ----------------------------------------------------------------------------------

void OfiFabric::poll(int64_t timeout_ns, EndpointId) {
  if (waiter_.has_events()) return;
  if (waiter_.begin_poll()) timeout_ns = 0;
  if (timeout_ns != 0) {
    // Arms the queues' descriptors. "Again" means that there is something to read, perhaps without
    // the descriptor showing it.
    fid* queues[] = {&domain_.completions->fid, &domain_.events->fid};
    if (fi_trywait(domain_.fabric.get(), queues, 2) != 0) timeout_ns = 0;
    const int64_t limit_ns = endpoints_.impatient.load(std::memory_order_relaxed)
                                 ? impatient_sleep_ns
                                 : longest_sleep_ns;
    if (timeout_ns < 0 || timeout_ns > limit_ns) timeout_ns = limit_ns;
  }
  waiter_.sleep(timeout_ns);
  waiter_.end_poll();
}

void OfiFabric::dispatch(Sink& sink) {
  waiter_.begin_dispatch();
  for (const epoll_event& event : waiter_.take_events()) waiter_.handle(event.data.u64, sink);
  messages_.run_unparked(sink);
  messages_.post_shared();  // if there was no memory for all
  for (const EndpointId id : std::exchange(endpoints_.again, {}))
    if (Endpoint* const endpoint = endpoints_.find(id)) messages_.after_progress(*endpoint);
  endpoints_.drain_completions();
  run_completions(sink);
  connector_.read_events(sink);
  if (!endpoints_.ending.empty()) run_endings(sink);
  if (connector_.any_opening()) connector_.run_deadlines(sink);
  for (const EndpointId id : std::exchange(endpoints_.writable, {})) {
    if (endpoints_.find(id) == nullptr) continue;
    sink.on_writable(id);
  }
  endpoints_.impatient.store(
      !endpoints_.again.empty() || connector_.any_opening() || messages_.is_short_of_buffers(),
      std::memory_order_relaxed);
  waiter_.end_dispatch(messages_.any_unparked() || endpoints_.any_completions() ||
                       !endpoints_.writable.empty());
}

void OfiFabric::run_completions(Sink& sink) {
  Completion completion;
  while (endpoints_.next_completion(&completion)) {
    const EndpointId id = completion.operation->endpoint;
    if (id == no_endpoint) {
      messages_.received_shared(completion, sink);
      continue;
    }
    Endpoint* const endpoint = endpoints_.find(id);
    if (endpoint == nullptr || endpoint->operations.count(completion.operation) == 0)
      continue;  // cannot be: release reads them first
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

void OfiFabric::run_completion(Endpoint& endpoint, const Completion& completion, Sink& sink) {
  const bool ok = completion.error_number == 0;
  switch (completion.operation->kind) {
    case Operation::Kind::send: return messages_.sent(endpoint, completion);
    case Operation::Kind::receive:  // not ok: cancelled with its connection
      if (ok) messages_.received(endpoint, completion, sink);
      return;
    case Operation::Kind::rma: break;
  }
  const EndpointId id = endpoint.own_id();
  uint64_t cookie = 0;
  // If it failed the endpoint ends, and tells all that are outstanding.
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
    endpoints_.release(*endpoint);
    for (const uint64_t cookie : cookies) sink.on_rma_done(id, cookie, false);
    sink.on_closed(id, reason, detail);
  }
}

void OfiFabric::close(EndpointId id) {
  if (Endpoint* const endpoint = endpoints_.find(id)) endpoints_.release(*endpoint);
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
  out.fixed_bytes += sizeof *this + pool_.spare_bytes() + rma_.heap_bytes() + waiter_.heap_bytes() +
                     messages_.shared_posted() * (buffer_bytes + sizeof(Operation));
  return out;
}

}  // namespace ofi
}  // namespace skerry::fabric
