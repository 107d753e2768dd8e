#include "origin/send/sender.hpp"

#include <algorithm>
#include <cstring>

#include "origin/engine/layers.hpp"

namespace skerry::origin {

wire::Request& Sender::begin(wire::Kind kind, const Target& target, Link& link) {
  context_.assert_held();
  wire::RequestHeader& h = request_.header;
  h = {};
  h.version = wire::version;
  h.kind = static_cast<uint8_t>(kind);
  h.origin_rank = static_cast<uint32_t>(context_.config.rank);
  h.incarnation = link.session.incarnation();
  h.target_rank = static_cast<uint32_t>(target.rank);
  h.results_received = results_received(link);
  h.acknowledged = link.session.applied();
  h.target_node = static_cast<uint32_t>(link.server.node);
  h.target_server = link.server.index;
  h.segment_owner = target.segment.owner;
  h.segment_generation = target.segment.generation;
  return request_;
}

// Results that the server need not keep any more. None from a request on whose answer is missing:
// after a break the server tells first what it refused, and only then answers earlier requests
// again.
uint64_t Sender::results_received(const Link& link) {
  const uint64_t received = link.session.results_received();
  return link.log && !link.log->empty() ? std::min(received, link.log->first_number() - 1)
                                        : received;
}

Status Sender::wait_sendable(Lock& lock, Link& link, uint64_t copied_bytes, Room room) {
  // A message may overtake a get of the fabric's own before it, and a put unless the fabric says
  // otherwise.
  const bool puts_first = context_.can().rma && !context_.can().am_after_rma_ordered;
  auto may_issue = [&] {
    return link.session.may_issue(copied_bytes) && link.rma.gets_outstanding == 0 &&
           (!puts_first || link.rma.outstanding == 0);
  };
  for (;;) {
    if (room == Room::or_queue && may_queue(link, copied_bytes)) {
      if (!link.has_batch()) return {};
      (void)layers_.batches.send(link);
      continue;
    }
    SKERRY_TRY(layers_.links.wait_open(lock, link));
    if (may_issue()) {
      if (!link.has_batch()) return {};
      (void)layers_.batches.send(link);  // what was issued before goes before
      continue;
    }
    SKERRY_TRY(
        layers_.progress.wait_until(lock, [&] { return may_issue() || !link.failure.ok(); }));
  }
}

// Room in the replay log for what has to be kept of it: the payload, if it is copied, and behind it
// the header.
std::byte* Sender::reserve(Link& link, const Message& message) {
  if (message.where == Payload::packed) return const_cast<std::byte*>(message.payload.data());
  const uint64_t copied = message.where == Payload::copied ? message.payload.size() : 0;
  return log_of(link).reserve(copied + wire::max_request_bytes);
}

bool Sender::send(Link& link, const Message& message, uint64_t* number) {
  context_.assert_held();
  request_.header.number = link.session.issued() + 1;
  const fabric::Bytes payload = message.payload;
  const bool is_referenced = message.where == Payload::referenced;
  std::byte* const room = reserve(link, message);
  std::byte* const header = room + (is_referenced ? 0 : payload.size());
  const uint32_t length = wire::encode(
      request_, std::span<std::byte, wire::max_request_bytes>(header, wire::max_request_bytes));
  const bool queued = queues_now(link);
  if (!queued)
    switch (context_.fabric->send(link.endpoint, fabric::Bytes(header, length), payload,
                                  message.more, request_.header.number)) {
      case fabric::SendResult::accepted: break;
      case fabric::SendResult::would_block:
      case fabric::SendResult::closed:  // on_closed follows
        link.room = Link::Room::full;
        return false;
    }
  *number = link.session.issue(message.credit_bytes);
  if (message.where == Payload::copied) {
    if (payload.size() == 8) [[likely]]
      std::memcpy(room, payload.data(), 8);
    else if (!payload.empty()) std::memcpy(room, payload.data(), payload.size());
  }
  link.log->commit(*number, payload.size(), length, message.awaits_reply,
                   is_referenced ? payload.data() : nullptr);
  ++context_.requests_sent;
  layers_.links.list(link);
  if (queued) {
    context_.backlog.add(link.backlog, is_referenced ? 0 : payload.size(), message.awaits_reply,
                         monotonic_ns());
    layers_.progress.watch_over();
  } else {
    session::Backlog::passed(link.backlog, *number);
    if (!message.awaits_reply) layers_.progress.watch_over();
    layers_.links.used(link);
    if (context_.can().rma)
      link.rma.note_message(static_cast<Rank>(request_.header.target_rank), *number);
    if (message.more) layers_.batches.cork(link);
  }
  SKERRY_INVARIANT(link.backlog.issued == link.session.issued() &&
                       link.log->last_number() == link.session.issued(),
                   "session, backlog and replay log know the same newest request");
  return true;
}

// ---- the queue --------------------------------------------------------------------------------

bool Sender::queues_now(const Link& link) const {
  return link.has_queued() || (layers_.links.queues() && !link.is_ready());
}

bool Sender::may_queue(const Link& link, uint64_t copied_bytes) const {
  return layers_.links.queues() && link.machine.state() != connection::State::open &&
         link.failure.ok() && link.session.may_issue(copied_bytes) &&
         context_.backlog.takes(copied_bytes);
}

void Sender::push(Link& link) {
  if (!link.has_queued() || link.claim.waits) return;
  if (context_.backlog.is_urgent(link.backlog) ||
      (link.machine.state() == connection::State::idle && layers_.links.has_room_for(link)))
    layers_.links.open(link);
}

void Sender::push_oldest() {
  if (context_.backlog.empty()) return;
  Link& oldest = layers_.links.at(context_.backlog.parts().front()->owner);
  if (layers_.links.has_room_for(oldest)) push(oldest);
}

void Sender::note_sent(Link& link, uint64_t number) {
  const bool awaits_reply = link.log->awaits_reply(number);
  if (context_.backlog.sent(link.backlog, number, awaits_reply)) layers_.links.used(link);
}

bool Sender::send_queued(Link& link) {
  context_.assert_held();
  while (link.has_queued()) {
    const session::ReplayLog::Request request = link.log->request(link.backlog.sent + 1);
    if (context_.fabric->send(link.endpoint, request.header, request.payload, true,
                              request.number) != fabric::SendResult::accepted)
      return false;
    note_sent(link, request.number);
  }
  return true;
}

Status Sender::wait_connected(Lock& lock, Link& link) {
  if (!link.has_queued() && link.machine.state() != connection::State::opening) [[likely]]
    return {};
  const int64_t begin_ns = monotonic_ns();
  layers_.links.open(link);
  const auto connected = [&] {
    return !link.failure.ok() ||
           (!link.has_queued() && link.machine.state() != connection::State::opening);
  };
  Status status = layers_.progress.wait_until(lock, connected, nullptr,
                                              {no_deadline, wait_slice_ns, link.server.node});
  context_.counters.setup_exposed_ns += static_cast<uint64_t>(monotonic_ns() - begin_ns);
  return status;
}

Status Sender::take_slot(Lock& lock, Slots::Wait wait, uint32_t* index, bool* taken) {
  *taken = layers_.slots.take(index, wait);
  if (*taken) return {};
  layers_.links.open_queued();  // their answers may be what has them all
  return layers_.progress.wait_until(lock, [&] { return layers_.slots.has(wait); });
}

}  // namespace skerry::origin
