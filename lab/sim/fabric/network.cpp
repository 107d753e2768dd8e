// What lies between two fabrics: delays, order, breaks, and RMA.
#include "sim/fabric/network.hpp"

#include <cstring>

#include "wire/message.hpp"

namespace skerry::sim {

using fabric::CloseReason;
using net::Connection;
using net::ConnectionPtr;
using net::End;
using net::Entry;
using net::Event;
using net::Reference;
using net::Rma;

SimulatedNetwork::SimulatedNetwork(const NetworkOptions& options)
    : scheduler_(Scheduler::current()), options_(options) {}

int64_t SimulatedNetwork::latency_ns() {
  return options_.latency_ns + random().between(0, options_.jitter_ns);
}

// ---- under way --------------------------------------------------------------------------------

void SimulatedNetwork::send(const Reference& from, Entry entry) {
  End& ours = from.ours();
  entry.at_ns = std::max(ours.last_arrival_ns + 1, scheduler_.now_ns() + latency_ns());
  ours.last_arrival_ns = entry.at_ns;
  schedule_arrival(from.connection, from.side, entry.at_ns);
  ours.in_flight.push_back(std::move(entry));
}

void SimulatedNetwork::schedule_arrival(const ConnectionPtr& connection, int side, int64_t at_ns) {
  scheduler_.at(at_ns, [self = weak_from_this(), connection, side] {
    if (const auto network = self.lock()) network->arrive(connection, side);
  });
}

void SimulatedNetwork::arrive(const ConnectionPtr& connection, int side) {
  End& from = connection->ends[side];
  while (!from.in_flight.empty() && from.in_flight.front().at_ns <= scheduler_.now_ns()) {
    Entry entry = std::move(from.in_flight.front());
    from.in_flight.pop_front();
    deliver({connection, 1 - side}, std::move(entry));
  }
}

void SimulatedNetwork::deliver(const Reference& to, Entry entry) {
  End& ours = to.ours();
  if (ours.fabric == nullptr) return;
  if (entry.kind == Entry::Kind::end) {
    ours.end_seen = true;
    // A connect that fails, and a request whose peer leaves, end at once. Otherwise the end is
    // delivered after all that came before it.
    if (ours.state == End::State::asking) {
      ++ours.fabric->traffic_.unauthenticated.left;
      ours.fabric->disconnect(ours.id, CloseReason::by_peer);
      return;
    }
  }
  if (entry.kind == Entry::Kind::hello) {
    Event event{Event::Kind::request, ours.id, 0, true, CloseReason::by_peer, {}};
    event.hello = std::move(entry.header);
    ours.fabric->post(std::move(event));
    return;
  }
  ours.inbound.push_back(std::move(entry));
  ours.fabric->mark_ready(ours);
}

// ---- breaks -----------------------------------------------------------------------------------

// What arrives of what this end sent: the first `keep` entries, and perhaps half of the next.
void SimulatedNetwork::truncate(End& from, size_t keep) {
  bool partial = false;
  if (keep < from.in_flight.size()) {
    Entry& next = from.in_flight[keep];
    partial = next.kind == Entry::Kind::message &&
              next.payload_bytes > fabric::inline_payload_bytes && random().below(2) == 0;
    if (partial) {
      next.partial = true;
      ++keep;
    }
  }
  from.in_flight.resize(keep);
  // Its sender hears of the end soon and takes its buffers back: what still arrives is copied now.
  for (Entry& entry : from.in_flight) {
    for (const fabric::Bytes& part : entry.reference)
      entry.payload.insert(entry.payload.end(), part.begin(), part.end());
    entry.reference.clear();
  }
}

void SimulatedNetwork::cut(Connection& connection) {
  if (connection.cut) return;
  connection.cut = true;
  ++cuts_;
  for (int side = 0; side < 2; ++side) {
    End& from = connection.ends[side];
    const auto under_way = static_cast<uint32_t>(from.in_flight.size());
    truncate(from, random().below(under_way + 1));
    from.held.clear();
    from.swallows = true;
  }
}

bool SimulatedNetwork::cut_any() {
  std::erase_if(connections_, [](const auto& one) {
    const ConnectionPtr connection = one.lock();
    return !connection || connection->cut ||
           (connection->ends[0].fabric == nullptr && connection->ends[1].fabric == nullptr);
  });
  if (connections_.empty()) return false;
  const ConnectionPtr
      chosen = connections_[random().below(static_cast<uint32_t>(connections_.size()))].lock();
  cut(*chosen);
  for (int side = 0; side < 2; ++side) {
    Entry end;
    end.kind = Entry::Kind::end;
    end.reason = CloseReason::reset;
    End& from = chosen->ends[side];
    // Some hear of it at once, some after many round trips.
    from.last_arrival_ns += random().between(
        0, random().below(4) == 0 ? 40 * latency_ns() : latency_ns());
    send({chosen, side}, std::move(end));
  }
  return true;
}

void SimulatedNetwork::replay_hello() {
  if (hellos_.empty()) return;
  Hello hello = hellos_[random().below(static_cast<uint32_t>(hellos_.size()))];
  if (random().below(4) == 0)
    hello.bytes[random().below(static_cast<uint32_t>(hello.bytes.size()))] ^= std::byte{1};
  const auto found = fabrics_.find(hello.to);
  if (found == fabrics_.end() || !found->second->listening_) return;
  SimulatedFabric& target = *found->second;
  const auto connection = std::make_shared<Connection>();
  End& asking = connection->ends[1];
  asking.fabric = &target;
  asking.id = target.next_endpoint_++;
  asking.state = End::State::asking;
  target.endpoints_[asking.id] = {connection, 1};
  target.post(
      {Event::Kind::request, asking.id, 0, true, CloseReason::by_peer, std::move(hello.bytes)});
  Entry end;
  end.kind = Entry::Kind::end;
  connection->ends[0].last_arrival_ns = scheduler_.now_ns() + 100 * latency_ns();
  send({connection, 0}, std::move(end));
}

uint64_t SimulatedNetwork::open_ends() const {
  uint64_t ends = 0;
  for (const auto& [number, fabric] : fabrics_) ends += fabric->endpoints_.size();
  return ends;
}

namespace {

// The message that is next to be taken, or else to arrive; empty: none, or none of src/wire.
std::string next_message(const End& at, const End& from) {
  const Entry* const next = !at.inbound.empty()       ? &at.inbound.front()
                            : !from.in_flight.empty() ? &from.in_flight.front()
                                                      : nullptr;
  if (next == nullptr || next->kind != Entry::Kind::message) return {};
  wire::AnswerKind kind;
  wire::ReplyHeader reply;
  if (wire::peek(next->header, &kind) && wire::decode(next->header, &reply).ok())
    return to_string(reply);
  wire::Request request;
  return wire::decode(next->header, &request).ok() ? to_string(request.header) : std::string();
}

}  // namespace

std::string SimulatedNetwork::describe() const {
  constexpr std::string_view states[] = {"connecting", "asking", "open", "closed"};
  std::string text;
  for (const auto& [number, fabric] : fabrics_)
    for (const auto& [id, reference] : fabric->endpoints_) {
      const End& e = reference.ours();
      text += concat("  fabric ", number, ", endpoint ", id,
                     reference.side == 0 ? " to " : " from ");
      const SimulatedFabric* const other = reference.theirs().fabric;
      text += other == nullptr ? "nobody" : concat("fabric ", other->number_);
      text += concat(": ", states[static_cast<size_t>(e.state)], ", ", e.inbound.size(),
                     " to take, ", e.in_flight.size(), " under way, ", e.held.size(), " held, ",
                     e.outstanding_bytes, " B outstanding, ", e.rma.size(), " rma");
      if (e.parked) text += ", parked";
      if (e.ready) text += ", ready";
      if (e.wants_room) text += ", wants room";
      if (e.swallows) text += ", cut";
      if (e.end_seen) text += ", end seen";
      if (const std::string next = next_message(e, reference.theirs()); !next.empty())
        text += ", next " + next;
      text += '\n';
    }
  return text;
}

// ---- RMA --------------------------------------------------------------------------------------

void SimulatedNetwork::start_rma(uint64_t number) {
  const int64_t longest_ns = 4 * latency_ns();
  scheduler_.at(scheduler_.now_ns() + random().between(0, longest_ns),
                [self = weak_from_this(), number] {
                  if (const auto network = self.lock()) network->apply_rma(number);
                });
}

// Takes effect now, if its connection is there to carry it, and tells its origin later.
void SimulatedNetwork::apply_rma(uint64_t number) {
  const auto found = rma_.find(number);
  if (found == rma_.end()) return;  // its origin closed the connection
  const Rma rma = found->second;
  rma_.erase(found);
  const End& target = rma.from.theirs();
  const bool carried = target.fabric != nullptr && target.state == End::State::open &&
                       !rma.from.connection->cut;
  if (carried && touch(rma, rma.source, rma.target)) tell_done(rma.from, number);
}

// In its turn among the messages of its connection: what arrives behind it must find it done, so
// nothing but its arrival counts.
void SimulatedNetwork::apply_ordered(const Reference& from, const Entry& entry) {
  const End& origin = from.ours();
  const bool waits = origin.fabric != nullptr && origin.rma.contains(entry.rma);
  if (!entry.ordered->is_put && !waits) return;  // its buffer is the caller's again
  if (touch(*entry.ordered, entry.payload.data(), entry.ordered->target))
    tell_done(from, entry.rma);
}

bool SimulatedNetwork::touch(const Rma& rma, const std::byte* source, std::byte* target) {
  const auto memory = registrations_.find(rma.key.key);
  if (memory == registrations_.end() || rma.offset > memory->second.bytes ||
      rma.bytes > memory->second.bytes - rma.offset)
    return false;  // the end of the connection tells the origin
  std::byte* const remote = memory->second.base + rma.offset;
  if (rma.is_put) std::memcpy(remote, source, rma.bytes);
  else std::memcpy(target, remote, rma.bytes);
  return true;
}

void SimulatedNetwork::tell_done(const Reference& from, uint64_t number) {
  scheduler_.at(scheduler_.now_ns() + latency_ns(), [from, number] {
    const End& origin = from.ours();
    if (origin.fabric != nullptr && !from.connection->cut)
      origin.fabric->post(
          {Event::Kind::rma_done, origin.id, number, true, CloseReason::by_peer, {}});
  });
}

}  // namespace skerry::sim
