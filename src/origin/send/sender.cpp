#include "origin/send/sender.hpp"

#include <cstring>

#include "origin/link/rma_log.hpp"

namespace skerry::origin {

wire::Request& Sender::begin(wire::Kind kind, const Target& target, const Link& link) {
  context_.assert_held();
  wire::RequestHeader& h = request_.header;
  h = {};
  h.version = wire::version;
  h.kind = static_cast<uint8_t>(kind);
  h.origin_rank = static_cast<uint32_t>(context_.config.rank);
  h.incarnation = link.requests.session().incarnation();
  h.target_rank = static_cast<uint32_t>(target.rank);
  h.results_received = link.requests.results_received();
  h.acknowledged = link.requests.applied();
  h.target_node = static_cast<uint32_t>(link.server.node);
  h.target_server = link.server.index;
  h.segment_owner = target.segment.owner;
  h.segment_generation = target.segment.generation;
  return request_;
}

Status Sender::wait_sendable(Lock& lock, Link& link, uint64_t copied_bytes, Room room) {
  // A message may overtake a get of the fabric's own before it, and a put unless the fabric says
  // otherwise.
  const bool puts_first = context_.can().rma && !context_.can().am_after_rma_ordered;
  auto may_issue = [&] {
    return link.requests.session().may_issue(copied_bytes) && link.direct.gets() == 0 &&
           (!puts_first || link.direct.outstanding() == 0);
  };
  for (;;) {
    if (room == Room::or_queue && may_queue(link, copied_bytes)) {
      if (!link.held.any()) return {};
      (void)send_batch(link);
      continue;
    }
    SKERRY_TRY(links_.wait_open(lock, link));
    if (may_issue()) {
      if (!link.held.any()) return {};
      (void)send_batch(link);  // what was issued before goes before
      continue;
    }
    SKERRY_TRY(progress_.wait_until(
        lock, [&] { return may_issue() || link.connection.has_failed(); }));
  }
}

bool Sender::send(Link& link, const Message& message, uint64_t* number) {
  context_.assert_held();
  const uint64_t next = request_.header.number = link.requests.issued() + 1;
  const fabric::Bytes payload = message.payload;
  const bool is_copied = message.where == Payload::copied;
  const bool is_referenced = message.where == Payload::referenced;
  // Room in the replay log for what has to be kept of it: the payload, if it is copied, and behind
  // it the header.
  std::byte* const room =
      message.where == Payload::packed
          ? const_cast<std::byte*>(payload.data())
          : link.requests.reserve((is_copied ? payload.size() : 0) + wire::max_request_bytes);
  std::byte* const header = room + (is_referenced ? 0 : payload.size());
  const uint32_t length = wire::encode(
      request_, std::span<std::byte, wire::max_request_bytes>(header, wire::max_request_bytes));
  const bool queued = queues_now(link);
  if (!queued)
    switch (context_.fabric->send(link.connection.endpoint(), fabric::Bytes(header, length),
                                  payload, message.more, next)) {
      case fabric::SendResult::accepted: break;
      case fabric::SendResult::would_block:
      case fabric::SendResult::closed:  // on_closed follows
        link.connection.note_full();
        return false;
    }
  if (is_copied) {
    if (payload.size() == 8) [[likely]]
      std::memcpy(room, payload.data(), 8);
    else if (!payload.empty()) std::memcpy(room, payload.data(), payload.size());
  }
  *number = link.requests.commit(message.credit_bytes, payload.size(), length,
                                 message.awaits_reply, is_referenced ? payload.data() : nullptr);
  if (message.is_fenced) link.requests.note_fenced(*number);
  ++issued_;
  links_.list(link);
  if (queued) {
    links_.queue(link, is_referenced ? 0 : payload.size(), message.awaits_reply);
    progress_.watch_over();
  } else {
    links_.sent(link, next);
    if (!message.awaits_reply) progress_.watch_over();
    if (context_.can().rma)
      RmaLog::note_message(link, static_cast<Rank>(request_.header.target_rank), next);
    if (message.more) cork(link);
  }
  link.requests.check();
  return true;
}

void Sender::push(Link& link) {
  if (!link.has_queued() || link.connection.waits()) return;
  if (links_.backlog().is_urgent(link.requests.backlog) ||
      (link.connection.state() == connection::State::idle && links_.has_room_for(link)))
    links_.open(link);
}

void Sender::push_oldest() {
  if (links_.backlog().empty()) return;
  Link& oldest = links_.at(links_.backlog().parts().front()->owner);
  if (links_.has_room_for(oldest)) push(oldest);
}

// ---- held back --------------------------------------------------------------------------------

Status Sender::hold(Lock& lock, Link& link, const Access& access) {
  // A wait gives up the mutex: the batch may be sent and put away meanwhile.
  while (!batches_.add(link, access))
    SKERRY_TRY(wait_sendable(lock, link, batches_.bytes_of(link), Room::or_queue));
  links_.list(link);
  cork(link);
  return {};
}

bool Sender::send_batch(Link& link) {
  context_.assert_held();
  Batch& batch = batches_.of(link);
  wire::Request& r = begin(batch.access.kind, batch.access.target, link);
  describe(r, batch.access, 0, batch.pieces);
  uint64_t number = 0;
  if (!send(link, {batch.close(), Payload::copied, batch.bytes}, &number)) {
    batch.reopen();
    return false;
  }
  batches_.clear(link);
  return true;
}

void Sender::flush_corked() {
  if (context_.is_ending()) return;
  std::vector<Link*> lost;  // closed with a batch that nobody has sent: opened for it
  batches_.uncork([&](Link* link) {
    if (link->held.any() && !link->connection.has_failed()) {
      const bool sendable = may_queue(*link, batches_.bytes_of(*link)) || may_send_batch(*link);
      if (!sendable || !send_batch(*link)) {
        if (link->connection.state() == connection::State::idle && !link->connection.waits())
          lost.push_back(link);
        return true;
      }
    }
    if (link->connection.endpoint() != fabric::no_endpoint)
      (void)context_.fabric->flush(link->connection.endpoint());
    return false;
  });
  for (Link* link : lost) links_.open(*link);
  push_oldest();
}

void Sender::drain(Link& link) {
  if (link.held.any() && link.connection.endpoint() != fabric::no_endpoint && may_send_batch(link))
    (void)send_batch(link);
  batches_.release(link);
}

// ---- waiting ----------------------------------------------------------------------------------

bool Sender::may_queue(const Link& link, uint64_t copied_bytes) const {
  return links_.queues() && link.connection.state() != connection::State::open &&
         !link.connection.has_failed() && link.requests.session().may_issue(copied_bytes) &&
         links_.backlog().takes(copied_bytes);
}

Status Sender::wait_connected(Lock& lock, Link& link) {
  const auto is_opening = [&] { return link.connection.state() == connection::State::opening; };
  if (!link.has_queued() && !is_opening()) [[likely]]
    return {};
  const int64_t begin_ns = monotonic_ns();
  links_.open(link);
  const auto connected = [&] {
    return link.connection.has_failed() || (!link.has_queued() && !is_opening());
  };
  Status status = progress_.wait_until(lock, connected, {.node = link.server.node});
  context_.counters.setup_exposed_ns += static_cast<uint64_t>(monotonic_ns() - begin_ns);
  return status;
}

Status Sender::take_slot(Lock& lock, Slots::Wait wait, uint32_t* index, bool* taken) {
  *taken = slots_.take(index, wait);
  if (*taken) return {};
  links_.open_queued();  // their answers may be what has them all
  return progress_.wait_until(lock, [&] { return slots_.has(wait); });
}

}  // namespace skerry::origin
