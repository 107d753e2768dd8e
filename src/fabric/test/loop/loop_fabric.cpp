// Connections and messages of the loop fabric.
#include "fabric/test/loop/loop_fabric.hpp"

#include <algorithm>
#include <cstring>

#include "core/futex.hpp"
#include "core/pure/assert.hpp"
#include "core/pure/container_bytes.hpp"

namespace skerry::fabric {

using loop::End;
using loop::Entry;
using loop::Event;
using loop::Reference;

namespace {

constexpr uint64_t inbound_limit_bytes = 256 * 1024;  // from which on send answers would_block
constexpr uint64_t held_limit_bytes = 64 * 1024;
constexpr int entries_per_turn = 64;  // of one endpoint in one dispatch

// The address: eight letters and the fabric's number.
struct LoopAddress {
  char word[8];
  uint64_t number;
};
constexpr char address_word[8] = {'s', 'k', 'e', 'r', 'l', 'o', 'o', 'p'};

}  // namespace

std::shared_ptr<LoopNetwork> make_loop_network(const LoopCapabilities& capabilities) {
  return std::make_shared<LoopNetwork>(capabilities);
}

Status make_loop_fabric(const std::shared_ptr<LoopNetwork>& network, const Options& options,
                        std::unique_ptr<Fabric>* fabric) {
  auto made = std::make_unique<LoopFabric>(network, options);
  SKERRY_TRY(made->start());
  *fabric = std::move(made);
  return {};
}

LoopFabric::LoopFabric(std::shared_ptr<LoopNetwork> network, const Options& options)
    : network_(std::move(network)), options_(options) {
  const LoopCapabilities& can = network_->capabilities;
  capabilities_.rma = can.rma;
  capabilities_.atomics = capabilities_.atomic_swap = can.rma && can.atomics != Atomics::none;
  capabilities_.atomics_of_adapter = capabilities_.atomics;
  capabilities_.direct_placement = can.direct_placement;
  capabilities_.am_after_rma_ordered = can.rma && !can.rma_unordered;
  capabilities_.close_fences_rma = can.rma && (!can.rma_unordered || can.close_fences_rma);
  capabilities_.max_payload_bytes = can.direct_placement ? can.max_payload_bytes
                                                         : std::min<uint64_t>(can.max_payload_bytes,
                                                                              inline_payload_bytes);
  capabilities_.rma_from_bytes = can.rma ? can.rma_from_bytes : 0;
  capabilities_.rma_of_adapter = can.rma && can.rma_unordered;
}

Status LoopFabric::start() {
  SKERRY_TRY(waiter_.open(name()));
  std::lock_guard lock(network_->mutex);
  number_ = network_->next_number++;
  network_->fabrics[number_] = this;
  return {};
}

LoopFabric::~LoopFabric() {
  std::lock_guard lock(network_->mutex);
  std::vector<EndpointId> open;
  for (const auto& [id, reference] : endpoints_) open.push_back(id);
  for (EndpointId id : open) disconnect(id);
  for (const auto& [number, one] : network_->registrations)
    if (one.owner == this) network_->write_back(number);
  std::erase_if(network_->registrations, [&](const auto& one) { return one.second.owner == this; });
  network_->fabrics.erase(number_);
}

// --- with the mutex held -----------------------------------------------------------------------

const Reference* LoopFabric::find(EndpointId endpoint) const {
  const auto found = endpoints_.find(endpoint);
  return found == endpoints_.end() ? nullptr : &found->second;
}

void LoopFabric::post(Event event) {
  inbox_.push_back(std::move(event));
  waiter_.wake();
}

void LoopFabric::mark_ready(End& end) {
  if (end.ready || end.parked || end.fabric == nullptr || end.inbound.empty()) return;
  end.ready = true;
  end.fabric->ready_.push_back(end.id);
  end.fabric->waiter_.wake();
}

void LoopFabric::push(const Reference& from, Entry entry) {
  End& to = from.theirs();
  if (to.fabric == nullptr) return;  // closed: what was sent is lost, and we shall be told
  if (entry.kind == Entry::Kind::message)
    to.inbound_bytes += entry.header.size() + entry.payload.size();
  to.inbound.push_back(std::move(entry));
  mark_ready(to);
}

void LoopFabric::release_held(const Reference& from) {
  End& ours = from.ours();
  for (Entry& entry : ours.held) push(from, std::move(entry));
  ours.held.clear();
  ours.held_bytes = 0;
}

// Our end goes at once; the peer finds the end behind what was delivered to it. Unanswered RMA dies
// with us, or strays.
void LoopFabric::disconnect(EndpointId endpoint, CloseReason why) {
  const auto found = endpoints_.find(endpoint);
  if (found == endpoints_.end()) return;
  const Reference reference = found->second;
  endpoints_.erase(found);
  End& ours = reference.ours();
  const End::State state = ours.state;
  ours = End{};
  ours.state = End::State::closed;
  for (auto it = delayed_.begin(); it != delayed_.end();) {
    if (it->from.connection != reference.connection) {
      ++it;
      continue;
    }
    if (it->rma.call.is_put && !capabilities_.close_fences_rma)
      network_->strays.push_back(std::move(it->rma));
    it = delayed_.erase(it);
  }
  End& theirs = reference.theirs();
  if (theirs.fabric == nullptr) return;
  if (state == End::State::asking) {
    theirs.fabric->post({Event::Kind::closed, theirs.id, 0, false, why, {}});
    ++traffic_.unauthenticated.rejected;
    return;
  }
  Entry end;
  end.kind = Entry::Kind::end;
  push(reference, std::move(end));
}

int64_t LoopFabric::next_deadline_ns() const {
  return deadlines_.empty() ? INT64_MAX : deadlines_.front().first;
}

// --- issue calls -------------------------------------------------------------------------------

Status LoopFabric::listen(std::vector<std::byte>* address) {
  std::lock_guard lock(network_->mutex);
  listening_ = true;
  LoopAddress out;
  std::memcpy(out.word, address_word, sizeof out.word);
  out.number = number_;
  address->resize(sizeof out);
  std::memcpy(address->data(), &out, sizeof out);
  return {};
}

Status LoopFabric::connect(Bytes address, Bytes hello, EndpointId* endpoint) {
  LoopAddress to;
  if (address.size() != sizeof to)
    return error(Code::invalid, "loop address of ", address.size(), " bytes, expected ", sizeof to);
  std::memcpy(&to, address.data(), sizeof to);
  if (std::memcmp(to.word, address_word, sizeof address_word) != 0)
    return error(Code::invalid, "this is not an address of a loop fabric");
  if (hello.size() > max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ", max_hello_bytes);
  std::lock_guard lock(network_->mutex);
  const auto connection = std::make_shared<loop::Connection>();
  const EndpointId id = next_endpoint_++;
  endpoints_[id] = Reference{connection, 0};
  connection->ends[0].fabric = this;
  connection->ends[0].id = id;
  *endpoint = id;
  const auto found = network_->fabrics.find(to.number);
  if (found == network_->fabrics.end() || !found->second->listening_) {
    post({Event::Kind::closed, id, 0, false, CloseReason::unreachable, {}});
    return {};
  }
  LoopFabric& target = *found->second;
  const RequestId request = target.next_endpoint_++;
  target.endpoints_[request] = Reference{connection, 1};
  connection->ends[1].fabric = &target;
  connection->ends[1].id = request;
  connection->ends[1].state = End::State::asking;
  target.deadlines_.emplace_back(monotonic_ns() + target.options_.hello_deadline_ns, request);
  target.post(
      {Event::Kind::request, request, 0, true, CloseReason::by_peer, {hello.begin(), hello.end()}});
  return {};
}

Status LoopFabric::accept(RequestId request, Bytes reply, EndpointId* endpoint) {
  SKERRY_ASSERT(reply.size() <= max_hello_bytes, "reply of accept");
  std::lock_guard lock(network_->mutex);
  const Reference* reference = find(request);
  if (reference == nullptr || reference->ours().state != End::State::asking ||
      reference->theirs().fabric == nullptr) {
    disconnect(request);
    return error(Code::peer_dead,
                 "the peer that asked to connect went away, or was answered too late");
  }
  reference->ours().state = reference->theirs().state = End::State::open;
  reference->theirs().fabric->post({Event::Kind::connected,
                                    reference->theirs().id,
                                    0,
                                    true,
                                    CloseReason::by_peer,
                                    {reply.begin(), reply.end()}});
  *endpoint = request;
  return {};
}

void LoopFabric::reject(RequestId request, CloseReason why) {
  SKERRY_ASSERT(is_refusal(why), "a peer is rejected for a reason that refuses");
  std::lock_guard lock(network_->mutex);
  const Reference* reference = find(request);
  if (reference != nullptr && reference->ours().state == End::State::asking)
    disconnect(request, why);
}

void LoopFabric::hold(RequestId request) {
  std::lock_guard lock(network_->mutex);
  std::erase_if(deadlines_, [=](const auto& one) { return one.second == request; });
  const Reference* reference = find(request);
  if (reference != nullptr && reference->ours().state == End::State::asking &&
      reference->theirs().fabric != nullptr)
    reference->theirs().fabric->post({Event::Kind::held, reference->theirs().id});
}

SendResult LoopFabric::send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                            uint64_t cookie) {
  SKERRY_ASSERT(!header.empty() && header.size() <= max_header_bytes,
                "a message header has 1..512 bytes");
  SKERRY_ASSERT(payload.size() <= capabilities_.max_payload_bytes,
                "longer payloads are for the caller to cut");
  std::lock_guard lock(network_->mutex);
  const Reference* reference = find(endpoint);
  if (reference == nullptr) return SendResult::closed;
  End& ours = reference->ours();
  End& theirs = reference->theirs();
  switch (ours.state) {
    case End::State::open: break;
    case End::State::connecting: theirs.peer_wants_room = true; return SendResult::would_block;
    case End::State::asking:
    case End::State::closed: return SendResult::closed;
  }
  if (theirs.fabric == nullptr) return SendResult::closed;
  if (theirs.inbound_bytes >= inbound_limit_bytes) {
    theirs.peer_wants_room = true;
    return SendResult::would_block;
  }
  Entry entry;
  entry.header.assign(header.begin(), header.end());
  entry.payload.assign(payload.begin(), payload.end());
  entry.cookie = cookie;
  traffic_.bytes_sent += header.size() + payload.size();
  ours.held_bytes += header.size() + payload.size();
  ours.held.push_back(std::move(entry));
  if (!more || ours.held_bytes >= held_limit_bytes) release_held(*reference);
  return SendResult::accepted;
}

// Payloads are copied here anyway.
SendResult LoopFabric::send_gathered(EndpointId endpoint, Bytes header,
                                     std::span<const Bytes> parts, uint64_t cookie) {
  SKERRY_ASSERT(capabilities_.direct_placement, "gathers only what is placed directly");
  std::vector<std::byte> payload;
  payload.reserve(total_bytes(parts));
  for (const Bytes& part : parts) payload.insert(payload.end(), part.begin(), part.end());
  return send(endpoint, header, payload, false, cookie);
}

SendResult LoopFabric::flush(EndpointId endpoint) {
  std::lock_guard lock(network_->mutex);
  const Reference* reference = find(endpoint);
  if (reference == nullptr || reference->theirs().fabric == nullptr) return SendResult::closed;
  release_held(*reference);
  return SendResult::accepted;
}

uint64_t LoopFabric::unsent_bytes(EndpointId endpoint) const {
  std::lock_guard lock(network_->mutex);
  const Reference* reference = find(endpoint);
  return reference == nullptr ? 0 : reference->ours().held_bytes;
}

void LoopFabric::unpark(EndpointId endpoint) {
  std::lock_guard lock(network_->mutex);
  const Reference* reference = find(endpoint);
  if (reference == nullptr) return;
  reference->ours().parked = false;
  mark_ready(reference->ours());
}

void LoopFabric::close(EndpointId endpoint) {
  std::lock_guard lock(network_->mutex);
  disconnect(endpoint);
}

Fabric::Traffic LoopFabric::traffic() const {
  std::lock_guard lock(network_->mutex);
  Traffic out = traffic_;
  out.endpoints_open = static_cast<uint64_t>(
      std::count_if(endpoints_.begin(), endpoints_.end(),
                    [](const auto& one) { return one.second.ours().state != End::State::asking; }));
  return out;
}

// --- progress ----------------------------------------------------------------------------------

void LoopFabric::poll(int64_t timeout_ns, EndpointId) {
  if (waiter_.has_events()) return;
  {
    std::lock_guard lock(network_->mutex);
    run_delayed(timeout_ns != 0 && inbox_.empty() && ready_.empty());
    if (!inbox_.empty() || !ready_.empty()) timeout_ns = 0;
    const int64_t deadline = next_deadline_ns();
    if (deadline != INT64_MAX && timeout_ns != 0) {
      const int64_t left = std::max<int64_t>(deadline - monotonic_ns(), 0);
      timeout_ns = timeout_ns < 0 ? left : std::min(timeout_ns, left);
    }
  }
  waiter_.sleep(timeout_ns);
}

void LoopFabric::dispatch(Sink& sink) {
  // A wake is used up before we look at what it was for.
  for (const epoll_event& event : waiter_.take_events()) waiter_.handle(event.data.u64, sink);
  std::deque<Event> inbox;
  std::deque<EndpointId> ready;
  {
    std::lock_guard lock(network_->mutex);
    inbox.swap(inbox_);
    ready.swap(ready_);
    for (EndpointId id : ready) {
      if (const Reference* reference = find(id)) reference->ours().ready = false;
    }
  }
  for (Event& event : inbox) deliver_event(event, sink);
  for (EndpointId id : ready) deliver_inbound(id, sink);
  expire_requests();
}

void LoopFabric::deliver_event(Event& event, Sink& sink) {
  bool writable = false;
  uint64_t cookie = event.number;
  {
    std::lock_guard lock(network_->mutex);
    const Reference* reference = find(event.endpoint);
    if (reference == nullptr) return;  // closed meanwhile
    if (event.kind == Event::Kind::closed) disconnect(event.endpoint);
    if (event.kind == Event::Kind::connected)
      writable = std::exchange(reference->theirs().peer_wants_room, false);
    if (event.kind == Event::Kind::rma_done) {
      const auto found = reference->ours().outstanding.find(event.number);
      if (found == reference->ours().outstanding.end()) return;
      cookie = found->second;
      reference->ours().outstanding.erase(found);
    }
  }
  switch (event.kind) {
    case Event::Kind::request: sink.on_connect_request(event.endpoint, event.data, "loop"); break;
    case Event::Kind::held: sink.on_held(event.endpoint); break;
    case Event::Kind::connected:
      sink.on_connected(event.endpoint, event.data);
      if (writable) {  // a send came too early
        std::lock_guard lock(network_->mutex);
        post({Event::Kind::writable, event.endpoint});
      }
      break;
    case Event::Kind::writable: sink.on_writable(event.endpoint); break;
    case Event::Kind::sent: sink.on_sent(event.endpoint, cookie); break;
    case Event::Kind::rma_done: sink.on_rma_done(event.endpoint, cookie, event.ok); break;
    case Event::Kind::closed:
      sink.on_closed(event.endpoint, event.reason, to_string(event.reason));
      break;
  }
}

// The peer has closed the connection.
void LoopFabric::deliver_end(EndpointId id, Sink& sink) {
  std::map<uint64_t, uint64_t> outstanding;
  {
    std::lock_guard lock(network_->mutex);
    outstanding.swap(find(id)->ours().outstanding);
    disconnect(id);
  }
  for (const auto& [number, cookie] : outstanding) sink.on_rma_done(id, cookie, false);
  sink.on_closed(id, CloseReason::by_peer, "the peer closed the connection");
}

void LoopFabric::deliver_inbound(EndpointId id, Sink& sink) {
  for (int turn = 0; turn < entries_per_turn; ++turn) {
    Entry entry;
    {
      std::lock_guard lock(network_->mutex);
      const Reference* reference = find(id);
      if (reference == nullptr) return;
      End& ours = reference->ours();
      if (ours.parked || ours.inbound.empty()) return;
      entry = std::move(ours.inbound.front());
      ours.inbound.pop_front();
      if (entry.kind == Entry::Kind::rma) {
        perform(Reference{reference->connection, 1 - reference->side}, std::move(entry.rma));
        continue;
      }
    }
    if (entry.kind == Entry::Kind::end) return deliver_end(id, sink);
    if (!entry.placed && !place(id, &entry, sink)) return;
    const Verdict verdict = entry.placed
                                ? sink.on_placed(id, entry.header, entry.payload.size())
                                : sink.on_message(id, entry.header, entry.payload);
    if (!settle(id, std::move(entry), verdict)) return;
  }
  std::lock_guard lock(network_->mutex);
  if (const Reference* reference = find(id)) mark_ready(reference->ours());
}

// A long payload, or one that the sink may want elsewhere. False: the endpoint is gone.
bool LoopFabric::place(EndpointId id, Entry* entry, Sink& sink) {
  constexpr uint64_t place_inline_from_bytes = 1024;  // few, so that small tests see it
  const uint64_t bytes = entry->payload.size();
  const bool is_long = bytes > inline_payload_bytes;
  if (bytes < place_inline_from_bytes) return true;
  std::byte* const destination = is_long ? sink.place_directly(id, entry->header, bytes)
                                         : sink.place_inline(id, entry->header, bytes);
  std::unique_lock lock(network_->mutex);
  if (find(id) == nullptr) return false;
  if (destination != nullptr) {
    std::memcpy(destination, entry->payload.data(), bytes);
    entry->placed = true;
    return true;
  }
  if (!is_long) return true;
  disconnect(id);
  lock.unlock();
  sink.on_closed(id, CloseReason::protocol_error, "a long message had no destination");
  return false;
}

// What follows from the sink's answer. False: nothing more is delivered now.
bool LoopFabric::settle(EndpointId id, Entry entry, Verdict verdict) {
  std::lock_guard lock(network_->mutex);
  const Reference* reference = find(id);
  if (reference == nullptr) return false;
  End& ours = reference->ours();
  End& theirs = reference->theirs();
  const bool is_long = entry.payload.size() > inline_payload_bytes;
  if (verdict == Verdict::park) {
    ours.inbound.push_front(std::move(entry));
    ours.parked = true;
    return false;
  }
  const uint64_t bytes = entry.header.size() + entry.payload.size();
  traffic_.bytes_received += bytes;
  ours.inbound_bytes -= bytes;
  if (theirs.fabric == nullptr) return true;
  if (is_long) theirs.fabric->post({Event::Kind::sent, theirs.id, entry.cookie});
  if (ours.peer_wants_room && ours.inbound_bytes <= inbound_limit_bytes / 2) {
    ours.peer_wants_room = false;
    theirs.fabric->post({Event::Kind::writable, theirs.id});
  }
  return true;
}

void LoopFabric::expire_requests() {
  std::lock_guard lock(network_->mutex);
  while (!deadlines_.empty()) {
    const Reference* reference = find(deadlines_.front().second);
    if (reference != nullptr && reference->ours().state == End::State::asking) {
      if (deadlines_.front().first > monotonic_ns()) break;
      disconnect(deadlines_.front().second);
    }
    deadlines_.pop_front();
  }
}

Fabric::Memory LoopFabric::memory() const {
  const std::lock_guard lock(network_->mutex);
  Memory out;
  out.endpoint_bytes = table_bytes(endpoints_);
  for (const auto& [id, reference] : endpoints_) {
    const End& end = reference.ours();
    out.endpoint_bytes += sizeof end + deque_bytes(end.inbound) + vector_bytes(end.held) +
                          end.inbound_bytes + end.held_bytes +
                          end.outstanding.size() *
                              (sizeof(std::pair<const uint64_t, uint64_t>) + 4 * sizeof(void*));
  }
  out.fixed_bytes = sizeof *this + deque_bytes(inbox_) + deque_bytes(ready_) +
                    deque_bytes(deadlines_) + delayed_.size() * sizeof(loop::Delayed) +
                    waiter_.heap_bytes();
  return out;
}

}  // namespace skerry::fabric
