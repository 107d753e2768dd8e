// One side's fabric over the simulated network.
#include <algorithm>
#include <cstring>

#include "core/pure/assert.hpp"
#include "sim/fabric/network.hpp"

namespace skerry::sim {

using fabric::Bytes;
using fabric::CloseReason;
using fabric::EndpointId;
using fabric::RequestId;
using fabric::SendResult;
using fabric::Sink;
using fabric::Verdict;
using net::Connection;
using net::End;
using net::Entry;
using net::Event;
using net::Reference;
using net::Rma;

namespace {

constexpr uint64_t early_bytes = 16 * 1024;  // that go behind a hello

struct Address {
  char word[8];
  uint64_t number;
};
constexpr char address_word[8] = {'s', 'k', 'e', 'r', 's', 'i', 'm', 'u'};

}  // namespace

SimulatedFabric::SimulatedFabric(std::shared_ptr<SimulatedNetwork> network,
                                 const fabric::Options& options)
    : network_(std::move(network)), scheduler_(Scheduler::current()), options_(options) {
  const NetworkOptions& can = network_->options();
  const bool ordered = can.rma && !can.rma_unordered;
  capabilities_.rma = can.rma;
  capabilities_.direct_placement = can.direct_placement;
  capabilities_.am_after_rma_ordered = ordered;
  capabilities_.close_fences_rma = can.rma && (ordered || can.close_fences_rma);
  capabilities_.early_messages = can.early_messages;
  capabilities_.max_payload_bytes = can.direct_placement
                                        ? can.max_payload_bytes
                                        : std::min<uint64_t>(can.max_payload_bytes,
                                                             fabric::inline_payload_bytes);
  capabilities_.rma_from_bytes = can.rma ? can.rma_from_bytes : 0;
  capabilities_.rma_of_adapter = can.rma && can.rma_unordered;
  number_ = network_->next_number_++;
  network_->fabrics_[number_] = this;
}

SimulatedFabric::~SimulatedFabric() {
  die();
  std::erase_if(network_->registrations_,
                [&](const auto& one) { return one.second.owner == this; });
  network_->fabrics_.erase(number_);
}

void SimulatedFabric::die() {
  while (!endpoints_.empty()) disconnect(endpoints_.begin()->first, CloseReason::by_peer);
  listening_ = false;
}

const Reference* SimulatedFabric::find(EndpointId endpoint) const {
  const auto found = endpoints_.find(endpoint);
  return found == endpoints_.end() ? nullptr : &found->second;
}

void SimulatedFabric::post(Event event) {
  inbox_.push_back(std::move(event));
  scheduler_.wake(this);
}

void SimulatedFabric::mark_ready(End& end) {
  if (end.ready || end.parked || end.inbound.empty() || end.state == End::State::asking) return;
  end.ready = true;
  ready_.push_back(end.id);
  scheduler_.wake(this);
}

void SimulatedFabric::release_held(const Reference& from) {
  End& ours = from.ours();
  for (Entry& entry : ours.held) network_->send(from, std::move(entry));
  ours.held.clear();
}

// Our end goes at once. What the system has taken of what we sent still arrives, as a rule.
void SimulatedFabric::disconnect(EndpointId endpoint, CloseReason reason) {
  const auto found = endpoints_.find(endpoint);
  if (found == endpoints_.end()) return;
  const Reference reference = found->second;
  endpoints_.erase(found);
  if (reference.side == 0) --opened_now_;
  End& ours = reference.ours();
  for (const auto& [number, cookie] : ours.rma) network_->rma_.erase(number);
  ours.rma.clear();
  ours.held.clear();
  const bool unread = !ours.inbound.empty();
  ours.inbound.clear();
  ours.fabric = nullptr;
  ours.state = End::State::closed;
  if (reference.connection->cut || reference.theirs().fabric == nullptr) return;
  // Unread bytes make the system's close a reset, which may overtake what is under way.
  if (unread && reason == CloseReason::by_peer && network_->random().below(2) == 0)
    reason = CloseReason::reset;
  size_t keep = 0;
  for (uint64_t bytes = 0; keep < ours.in_flight.size(); ++keep) {
    bytes += ours.in_flight[keep].cost();
    if (bytes > network_->options().kernel_bytes) break;
  }
  if (reason == CloseReason::reset && unread)
    keep = network_->random().below(static_cast<uint32_t>(keep + 1));
  network_->truncate(ours, keep);
  Entry end;
  end.kind = Entry::Kind::end;
  end.reason = reason;
  network_->send(reference, std::move(end));
}

// ---- connecting -------------------------------------------------------------------------------

Status SimulatedFabric::listen(std::vector<std::byte>* address) {
  listening_ = true;
  Address out;
  std::memcpy(out.word, address_word, sizeof out.word);
  out.number = number_;
  address->resize(sizeof out);
  std::memcpy(address->data(), &out, sizeof out);
  return {};
}

Status SimulatedFabric::connect(Bytes address, Bytes hello, EndpointId* endpoint) {
  Address to;
  if (address.size() != sizeof to || std::memcmp(address.data(), address_word, 8) != 0)
    return error(Code::invalid, "this is not an address of a simulated fabric");
  std::memcpy(&to, address.data(), sizeof to);
  if (hello.size() > fabric::max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ",
                 fabric::max_hello_bytes);
  if (const uint32_t often = network_->options().no_descriptor_per_1024;
      often != 0 && network_->random().below(1024) < often)
    return error(Code::network, "no descriptor is left");
  const auto connection = std::make_shared<Connection>();
  const EndpointId id = next_endpoint_++;
  const Reference reference{connection, 0};
  endpoints_[id] = reference;
  opened_peak_ = std::max(opened_peak_, ++opened_now_);
  End& ours = connection->ends[0];
  ours.fabric = this;
  ours.id = id;
  *endpoint = id;
  const NetworkOptions& options = network_->options();
  const auto found = network_->fabrics_.find(to.number);
  if (found == network_->fabrics_.end() || !found->second->listening_ ||
      endpoints_.size() > options.most_endpoints ||
      network_->random().below(1024) < options.refused_per_1024) {
    scheduler_.at(scheduler_.now_ns() + network_->latency_ns(), [this, connection] {
      if (connection->ends[0].fabric != nullptr)
        post({Event::Kind::closed, connection->ends[0].id, 0, false, CloseReason::unreachable, {}});
    });
    return {};
  }
  SimulatedFabric& target = *found->second;
  End& theirs = connection->ends[1];
  theirs.fabric = &target;
  theirs.id = target.next_endpoint_++;
  theirs.state = End::State::asking;
  target.endpoints_[theirs.id] = {connection, 1};
  network_->connections_.push_back(connection);
  network_->hellos_.push_back({to.number, {hello.begin(), hello.end()}});
  if (network_->hellos_.size() > 8) network_->hellos_.erase(network_->hellos_.begin());
  Entry first;
  first.kind = Entry::Kind::hello;
  first.header.assign(hello.begin(), hello.end());
  network_->send(reference, std::move(first));
  scheduler_.at(ours.last_arrival_ns + target.options_.hello_deadline_ns, [connection] {
    End& asking = connection->ends[1];
    if (asking.fabric == nullptr || asking.state != End::State::asking || asking.is_held) return;
    ++asking.fabric->traffic_.unauthenticated.silent;
    asking.fabric->disconnect(asking.id, CloseReason::refused);
  });
  scheduler_.at(scheduler_.now_ns() + options_.connect_timeout_ns, [connection] {
    const End& connecting = connection->ends[0];
    if (connecting.fabric != nullptr && connecting.state == End::State::connecting &&
        !connecting.is_held)
      connecting.fabric->post(
          {Event::Kind::closed, connecting.id, 0, false, CloseReason::timed_out, {}});
  });
  return {};
}

Status SimulatedFabric::accept(RequestId request, Bytes reply, EndpointId* endpoint) {
  SKERRY_ASSERT(reply.size() <= fabric::max_hello_bytes, "reply of accept");
  const Reference* const found = find(request);
  if (found == nullptr || found->ours().state != End::State::asking)
    return error(Code::peer_dead,
                 "the peer that asked to connect went away, or was answered too late");
  const Reference reference = *found;
  reference.ours().state = End::State::open;
  Entry entry;
  entry.kind = Entry::Kind::accepted;
  entry.header.assign(reply.begin(), reply.end());
  if (!reference.connection->cut) network_->send(reference, std::move(entry));
  mark_ready(reference.ours());
  *endpoint = request;
  return {};
}

void SimulatedFabric::reject(RequestId request, CloseReason why) {
  SKERRY_ASSERT(is_refusal(why), "a peer is rejected for a reason that refuses");
  const Reference* const reference = find(request);
  if (reference == nullptr || reference->ours().state != End::State::asking) return;
  ++traffic_.unauthenticated.rejected;
  disconnect(request, why);
}

void SimulatedFabric::hold(RequestId request) {
  const Reference* const found = find(request);
  if (found == nullptr || found->ours().state != End::State::asking) return;
  const Reference reference = *found;
  if (std::exchange(reference.ours().is_held, true) || reference.connection->cut) return;
  Entry entry;
  entry.kind = Entry::Kind::held;
  network_->send(reference, std::move(entry));
}

void SimulatedFabric::close(EndpointId endpoint) { disconnect(endpoint, CloseReason::by_peer); }

void SimulatedFabric::close_drained(EndpointId endpoint) {
  disconnect(endpoint,
             network_->random().below(2) == 0 ? CloseReason::by_peer : CloseReason::reset);
}

// ---- sending ----------------------------------------------------------------------------------

SendResult SimulatedFabric::send_entry(EndpointId endpoint, Entry entry, bool more) {
  const Reference* const found = find(endpoint);
  if (found == nullptr) return SendResult::closed;
  const Reference reference = *found;
  End& ours = reference.ours();
  const NetworkOptions& options = network_->options();
  uint64_t limit = options.kernel_bytes + options.queue_bytes;
  if (ours.state == End::State::asking || ours.state == End::State::closed || ours.end_seen)
    return SendResult::closed;
  if (ours.state == End::State::connecting)
    limit = options.early_messages ? std::min(limit, early_bytes) : 0;
  if (ours.outstanding_bytes >= limit) {
    release_held(reference);  // or there would never be room
    ours.wants_room = true;
    return SendResult::would_block;
  }
  traffic_.bytes_sent += entry.cost();
  if (ours.swallows) {  // lost; a payload that is referenced is not read any more
    return SendResult::accepted;
  }
  ours.outstanding_bytes += entry.cost();
  ours.held.push_back(std::move(entry));
  if (!more || network_->random().below(16) == 0) release_held(reference);
  return SendResult::accepted;
}

SendResult SimulatedFabric::send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                                 uint64_t cookie) {
  const Bytes parts[1] = {payload};
  SKERRY_ASSERT(!header.empty() && header.size() <= fabric::max_header_bytes,
                "a message header has 1..512 bytes");
  SKERRY_ASSERT(payload.size() <= capabilities_.max_payload_bytes,
                "longer payloads are for the caller to cut");
  Entry entry;
  entry.header.assign(header.begin(), header.end());
  entry.payload_bytes = payload.size();
  entry.cookie = cookie;
  if (payload.size() > fabric::inline_payload_bytes) entry.reference.assign(parts, parts + 1);
  else entry.payload.assign(payload.begin(), payload.end());
  return send_entry(endpoint, std::move(entry), more);
}

SendResult SimulatedFabric::send_gathered(EndpointId endpoint, Bytes header,
                                          std::span<const Bytes> parts, uint64_t cookie) {
  SKERRY_ASSERT(capabilities_.direct_placement, "gathers only what is placed directly");
  Entry entry;
  entry.header.assign(header.begin(), header.end());
  entry.payload_bytes = fabric::total_bytes(parts);
  entry.cookie = cookie;
  entry.reference.assign(parts.begin(), parts.end());
  SKERRY_ASSERT(entry.payload_bytes > fabric::inline_payload_bytes, "a gathered payload is long");
  return send_entry(endpoint, std::move(entry), false);
}

SendResult SimulatedFabric::flush(EndpointId endpoint) {
  const Reference* const reference = find(endpoint);
  if (reference == nullptr || reference->ours().end_seen) return SendResult::closed;
  const Reference ours = *reference;
  release_held(ours);
  return SendResult::accepted;
}

uint64_t SimulatedFabric::unsent_bytes(EndpointId endpoint) const {
  const Reference* const reference = find(endpoint);
  if (reference == nullptr || reference->ours().swallows) return 0;
  const End& ours = reference->ours();
  const uint64_t kernel_bytes = network_->options().kernel_bytes;
  uint64_t held = 0;
  for (const Entry& entry : ours.held) held += entry.cost();
  const uint64_t released = ours.outstanding_bytes - held;
  return held + (released > kernel_bytes ? released - kernel_bytes : 0);
}

void SimulatedFabric::unpark(EndpointId endpoint) {
  const Reference* const reference = find(endpoint);
  if (reference == nullptr) return;
  reference->ours().parked = false;
  mark_ready(reference->ours());
}

// ---- RMA --------------------------------------------------------------------------------------

Status SimulatedFabric::register_memory(void* base, uint64_t bytes, fabric::RemoteKey* key,
                                        uint64_t* registration) {
  if (!capabilities_.rma) return error(Code::unsupported, "this fabric was made without RMA");
  const uint64_t number = network_->next_number_++;
  network_->registrations_[number] = {static_cast<std::byte*>(base), bytes, this};
  *key = {number, 0};
  *registration = number;
  return {};
}

void SimulatedFabric::deregister_memory(uint64_t registration) {
  network_->registrations_.erase(registration);
}

SendResult SimulatedFabric::start_rma(EndpointId endpoint, const fabric::RmaCall& call) {
  SKERRY_ASSERT(capabilities_.rma, "put or get on a fabric without RMA");
  const Reference* const found = find(endpoint);
  if (found == nullptr || found->ours().end_seen) return SendResult::closed;
  const Reference reference = *found;
  End& ours = reference.ours();
  if (ours.state == End::State::connecting) {
    ours.wants_room = true;
    return SendResult::would_block;
  }
  Rma rma;
  rma.is_put = call.is_put;
  if (rma.is_put) rma.source = call.local;
  else rma.target = call.local;
  rma.key = call.key;
  rma.offset = call.offset;
  rma.bytes = call.bytes;
  const uint64_t number = network_->next_number_++;
  ours.rma.emplace(number, call.cookie);
  (rma.is_put ? traffic_.bytes_sent : traffic_.bytes_received) += rma.bytes;
  if (ours.swallows) return SendResult::accepted;
  if (network_->options().rma_unordered) {
    rma.from = reference;
    network_->rma_.emplace(number, rma);
    network_->start_rma(number);
    return SendResult::accepted;
  }
  release_held(reference);
  Entry entry;
  entry.kind = Entry::Kind::rma;
  entry.rma = number;
  if (rma.is_put) entry.payload.assign(rma.source, rma.source + rma.bytes);
  entry.ordered = std::make_shared<Rma>(rma);
  network_->send(reference, std::move(entry));
  return SendResult::accepted;
}

// ---- progress ---------------------------------------------------------------------------------

bool SimulatedFabric::has_work(EndpointId only) const {
  if (only == fabric::no_endpoint || !network_->options().only_is_only || find(only) == nullptr)
    return woken_ || !inbox_.empty() || !ready_.empty();
  return std::find(ready_.begin(), ready_.end(), only) != ready_.end() ||
         std::any_of(inbox_.begin(), inbox_.end(),
                     [&](const Event& event) { return event.endpoint == only; });
}

void SimulatedFabric::poll(int64_t timeout_ns, EndpointId only) {
  scheduler_.give_way();
  const int64_t until_ns = timeout_ns < 0 ? never_ns : scheduler_.now_ns() + timeout_ns;
  while (!has_work(only) && scheduler_.now_ns() < until_ns)
    (void)scheduler_.wait("the fabric", this, until_ns);
}

void SimulatedFabric::wake() {
  woken_ = true;
  scheduler_.wake(this);
  scheduler_.give_way();
}

void SimulatedFabric::dispatch(Sink& sink) {
  woken_ = false;
  std::deque<Event> inbox;
  std::deque<EndpointId> ready;
  inbox.swap(inbox_);
  ready.swap(ready_);
  for (const EndpointId id : ready)
    if (const Reference* const reference = find(id)) reference->ours().ready = false;
  if (ready.size() > 1)
    std::rotate(ready.begin(),
                ready.begin() + network_->random().below(static_cast<uint32_t>(ready.size())),
                ready.end());
  for (Event& event : inbox) deliver_event(event, sink);
  for (const EndpointId id : ready) deliver_inbound(id, sink);
}

void SimulatedFabric::deliver_event(Event& event, Sink& sink) {
  const Reference* const reference = find(event.endpoint);
  if (reference == nullptr) return;  // closed meanwhile
  End& ours = reference->ours();
  switch (event.kind) {
    case Event::Kind::request:
      return sink.on_connect_request(event.endpoint, event.hello, "simulated");
    case Event::Kind::writable: return sink.on_writable(event.endpoint);
    case Event::Kind::sent: return sink.on_sent(event.endpoint, event.number);
    case Event::Kind::rma_done: {
      const auto found = ours.rma.find(event.number);
      if (found == ours.rma.end()) return;
      const uint64_t cookie = found->second;
      ours.rma.erase(found);
      return sink.on_rma_done(event.endpoint, cookie, event.ok);
    }
    case Event::Kind::closed:
      if (ours.state != End::State::connecting) return;  // it was answered in the last moment
      return end(event.endpoint, event.reason, sink);
  }
}

void SimulatedFabric::end(EndpointId id, CloseReason reason, Sink& sink) {
  std::map<uint64_t, uint64_t> rma;
  rma.swap(find(id)->ours().rma);
  for (const auto& [number, cookie] : rma) network_->rma_.erase(number);
  disconnect(id, CloseReason::by_peer);
  for (const auto& [number, cookie] : rma) sink.on_rma_done(id, cookie, false);
  sink.on_closed(id, reason, to_string(reason));
}

// A long payload is placed in two steps as often as not; other things happen in between.
SimulatedFabric::Placing SimulatedFabric::place(EndpointId id, Entry& entry, Sink& sink) {
  if (!entry.all_placed) {
    if (entry.destination == nullptr) {
      entry.destination = sink.place_directly(id, entry.header, entry.payload_bytes);
      if (find(id) == nullptr) return Placing::gone;
      if (entry.destination == nullptr) {
        end(id, CloseReason::protocol_error, sink);
        return Placing::gone;
      }
      entry.placed_bytes = 0;
    }
    std::vector<std::byte> whole;
    const std::byte* from = entry.payload.data();
    if (!entry.reference.empty()) {
      for (const Bytes& part : entry.reference) whole.insert(whole.end(), part.begin(), part.end());
      from = whole.data();
    }
    const uint64_t left = entry.payload_bytes - entry.placed_bytes;
    const uint64_t now = entry.partial || (entry.placed_bytes == 0 && network_->random().below(2))
                             ? left / 2
                             : left;
    std::memcpy(entry.destination + entry.placed_bytes, from + entry.placed_bytes, now);
    entry.placed_bytes += now;
    if (entry.partial) return Placing::taken;  // the rest never comes; the end is next
    if (now < left) return Placing::goes_on;
    entry.all_placed = true;
  }
  const Verdict verdict = sink.on_placed(id, entry.header, entry.payload_bytes);
  if (find(id) == nullptr) return Placing::gone;
  return verdict == Verdict::park ? Placing::parked : Placing::taken;
}

void SimulatedFabric::deliver_inbound(EndpointId id, Sink& sink) {
  for (uint32_t turns = 1 + network_->random().below(32); turns > 0; --turns) {
    const Reference* const found = find(id);
    if (found == nullptr) return;
    const Reference reference = *found;
    End& ours = reference.ours();
    if (ours.parked || ours.inbound.empty()) return;
    Entry entry = std::move(ours.inbound.front());
    ours.inbound.pop_front();
    Placing result = Placing::taken;
    switch (entry.kind) {
      case Entry::Kind::hello: break;
      case Entry::Kind::held:
        ours.is_held = true;  // it takes as long as it takes
        sink.on_held(id);
        continue;
      case Entry::Kind::rma:
        network_->apply_ordered({reference.connection, 1 - reference.side}, entry);
        continue;
      case Entry::Kind::end: return end(id, entry.reason, sink);
      case Entry::Kind::accepted:
        ours.state = End::State::open;
        sink.on_connected(id, entry.header);
        if (find(id) != nullptr && std::exchange(ours.wants_room, false))
          post({Event::Kind::writable, id, 0, true, CloseReason::by_peer, {}});
        continue;
      case Entry::Kind::message:
        if (entry.payload_bytes > fabric::inline_payload_bytes) {
          result = place(id, entry, sink);
        } else {
          const Verdict verdict = sink.on_message(id, entry.header, entry.payload);
          result = find(id) == nullptr        ? Placing::gone
                   : verdict == Verdict::park ? Placing::parked
                                              : Placing::taken;
        }
    }
    if (result == Placing::gone) return;
    if (result != Placing::taken) {
      ours.inbound.push_front(std::move(entry));
      ours.parked = result == Placing::parked;
      mark_ready(ours);  // if the rest of it is still to be placed
      return;
    }
    taken(reference, entry);
  }
  if (const Reference* const reference = find(id)) mark_ready(reference->ours());
}

// `entry` was consumed: its sender has that much more room.
void SimulatedFabric::taken(const Reference& by, const Entry& entry) {
  traffic_.bytes_received += entry.cost();
  End& theirs = by.theirs();
  if (theirs.fabric == nullptr || entry.partial) return;
  const NetworkOptions& options = network_->options();
  const bool was_beyond = theirs.outstanding_bytes > options.kernel_bytes;
  theirs.outstanding_bytes -= std::min(theirs.outstanding_bytes, entry.cost());
  SimulatedFabric& sender = *theirs.fabric;
  if (entry.payload_bytes > fabric::inline_payload_bytes && !by.connection->cut)
    sender.post({Event::Kind::sent, theirs.id, entry.cookie, true, CloseReason::by_peer, {}});
  if (theirs.wants_room && theirs.state == End::State::open &&
      theirs.outstanding_bytes <= (options.kernel_bytes + options.queue_bytes) / 2) {
    theirs.wants_room = false;
    sender.post({Event::Kind::writable, theirs.id, 0, true, CloseReason::by_peer, {}});
  } else if (was_beyond) {
    sender.woken_ = true;
    scheduler_.wake(&sender);
  }
}

fabric::Fabric::Traffic SimulatedFabric::traffic() const {
  Traffic out = traffic_;
  out.endpoints_open = static_cast<uint64_t>(
      std::count_if(endpoints_.begin(), endpoints_.end(),
                    [](const auto& one) { return one.second.ours().state != End::State::asking; }));
  return out;
}

fabric::Fabric::Memory SimulatedFabric::memory() const {
  Memory out;
  for (const auto& [id, reference] : endpoints_)
    out.endpoint_bytes += sizeof(End) + reference.ours().outstanding_bytes;
  out.fixed_bytes = sizeof *this;
  return out;
}

}  // namespace skerry::sim
