// Channels that begin or end here: their endpoints, what arrives in them, and how they end.
#include "share/channels.hpp"

#include <algorithm>
#include <cstring>

#include "core/pure/assert.hpp"
#include "core/pure/container_bytes.hpp"
#include "wire/message.hpp"

namespace skerry::share {

Channels::~Channels() {
  for (End* const end : ends_) delete end;
}

End& Channels::add(Trunk& trunk, uint32_t channel, State state) {
  ++last_end_;
  End& end = *new End;
  end.id = last_end_ >> 31 << 32 | channel_bit | (last_end_ & (channel_bit - 1));
  end.state = state;
  if (context_.is_proxy) end.charge(&trunks_.pool_of(trunk));
  if (state == State::asking) ++asking_;
  ends_.insert(&end);
  trunks_.join(trunk, end, channel);
  return end;
}

void Channels::release(End& end) {
  SKERRY_INVARIANT(end.trunk == nullptr && !end.in_line, "it has left its trunk");
  if (end.state == State::asking) --asking_;
  ends_.erase(end.id);
  delete &end;
}

// ---- the caller's -----------------------------------------------------------------------------

EndpointId Channels::connect(Trunk& trunk, Bytes address, Bytes hello) {
  End& end = add(trunk, trunks_.next_number(trunk), State::opening);
  end.rare = std::make_unique<End::Rare>();
  end.rare->deadline_ns = monotonic_ns() + context_.options.connect_timeout_ns;
  context_.note_deadline(end.rare->deadline_ns);
  trunks_.control(trunk, Kind::open, end.channel, hello, address,
                  end.window);  // no server passed yet
  return end.id;
}

RequestId Channels::ask(Trunk& trunk, uint32_t channel, uint64_t window) {
  End& end = add(trunk, channel, State::asking);
  end.window = static_cast<uint32_t>(window);
  return end.id;
}

End* Channels::asking_end(RequestId request) const {
  End* const end = find(request);
  return end == nullptr || end->trunk == nullptr || end->state != State::asking ? nullptr : end;
}

Status Channels::accept(RequestId request, Bytes reply) {
  End* const end = asking_end(request);
  if (end == nullptr) return error(Code::peer_dead, "the peer that asked to connect went away");
  SKERRY_INVARIANT(asking_ > 0, "who asks was counted");
  end->state = State::open;
  --asking_;
  trunks_.control(*end->trunk, Kind::accepted, end->channel, reply, {}, end->window);
  if (end->empty()) return {};
  end->parked = true;  // what came right behind its hello is delivered now
  unpark(request);
  return {};
}

void Channels::reject(RequestId request, CloseReason why) {
  End* const end = asking_end(request);
  if (end == nullptr) return;
  SKERRY_ASSERT(fabric::is_refusal(why), "a peer is rejected for a reason that refuses");
  hang_up(*end, why);
  release(*end);
}

// A channel's request waits for its answer as long as its rank does.
void Channels::hold(RequestId request) {
  if (const End* const end = asking_end(request))
    trunks_.control(*end->trunk, Kind::held, end->channel);
}

// Null: closed. Without a trunk: the caller will be told.
End* Channels::open_end(EndpointId id) const {
  End* const end = find(id);
  return end == nullptr || end->trunk == nullptr || end->state == State::asking ? nullptr : end;
}

bool Channels::fits(const End& end, uint64_t cost) const {
  const bool may_go = end.state == State::open ||
                      (end.state == State::opening && context_.capabilities.early_messages);
  const uint64_t window = end.state == State::open ? end.window : early_window_bytes;
  return may_go && end.sent - end.confirmed + cost <= window;
}

SendResult Channels::send(EndpointId id, Bytes header, Bytes payload, bool more, uint64_t cookie) {
  End* const end = open_end(id);
  if (end == nullptr) return SendResult::closed;
  SKERRY_ASSERT(!header.empty() && header.size() <= context_.capabilities.header_bytes,
                "header of a message in a channel");
  SKERRY_ASSERT(payload.size() <= context_.capabilities.max_payload_bytes,
                "longer payloads are for the caller to cut");
  if (payload.size() > part_bytes) return send_long(*end, header, {&payload, 1}, cookie);
  const uint64_t cost = cost_of(header.size(), payload.size());
  if (end->outgoing || !fits(*end, cost)) {
    end->writable_wanted = true;
    // What was held back to go along with more goes now: the other end must take it before there is
    // room again.
    trunks_.flush(*end->trunk);
    return SendResult::would_block;
  }
  Trunk& trunk = *end->trunk;
  const Prefix prefix = prefix_of(Kind::data, end->channel, end->taken);
  if (end->in_line || !trunks_.try_send(trunk, Header(prefix, header).get(), payload, more)) {
    trunks_.wait(*end);
    return SendResult::would_block;
  }
  end->sent += cost;
  end->told = end->taken;
  context_.note_link(id, trunk.id);
  trunks_.used(trunk);
  return SendResult::accepted;
}

SendResult Channels::send_gathered(EndpointId id, Bytes header, std::span<const Bytes> parts,
                                   uint64_t cookie) {
  End* const end = open_end(id);
  return end == nullptr ? SendResult::closed : send_long(*end, header, parts, cookie);
}

SendResult Channels::flush(EndpointId id) {
  const End* const end = find(id);
  if (end == nullptr || end->trunk == nullptr) return SendResult::closed;
  trunks_.flush(*end->trunk);
  return SendResult::accepted;
}

uint64_t Channels::unsent_bytes(EndpointId id) const {
  const End* const end = find(id);
  if (end == nullptr || end->trunk == nullptr) return 0;
  return context_.inner.unsent_bytes(end->trunk->id) + (end->outgoing ? end->outgoing->left : 0);
}

void Channels::close(EndpointId id) {
  End* const end = find(id);
  if (end == nullptr) return;
  if (end->trunk != nullptr) hang_up(*end, CloseReason::by_peer);
  release(*end);
}

// ---- what arrives -----------------------------------------------------------------------------

void Channels::take(End& end, const Prefix& prefix, Bytes rest, Bytes payload) {
  const EndpointId id = end.id;
  switch (static_cast<Kind>(prefix.kind)) {
    case Kind::open: return;  // Multiplex::take_open
    case Kind::accepted: {
      if (end.state != State::opening) return;
      end.state = State::open;
      end.rare.reset();
      end.window = static_cast<uint32_t>(
          std::clamp(prefix.taken, least_window_bytes, most_window_bytes));
      context_.outer->on_connected(id, rest);
      End* const still = find(id);
      if (still == nullptr || !still->writable_wanted) return;
      still->writable_wanted = false;
      context_.outer->on_writable(id);
      return;
    }
    case Kind::closed: {
      Trunk& trunk = *end.trunk;
      leave_trunk(end);
      constexpr std::byte last{static_cast<uint8_t>(fabric::last_close_reason)};
      const CloseReason reason = rest.empty() || rest[0] > last ? CloseReason::by_peer
                                                                : static_cast<CloseReason>(rest[0]);
      const std::string detail = rest.empty() ? std::string() : text_of(rest.subspan(1));
      trunks_.rest(trunk);
      return this->end(id, reason, detail);
    }
    case Kind::data:
    case Kind::begin:
    case Kind::part:
      if (end.state == State::asking) return keep(end, prefix, rest, payload);
      if (end.state != State::open) return;
      note_answer(end);
      deliver(end, prefix, rest, payload);
      return take_confirmed(id, prefix.taken);
    case Kind::taken: return take_confirmed(id, prefix.taken);
    case Kind::held:
      if (end.state != State::opening) return;
      end.rare->deadline_ns = INT64_MAX;
      context_.outer->on_held(id);
      return;
    case Kind::leave: return ask_to_leave(id);
  }
}

void Channels::note_answer(End& end) {
  if (!std::exchange(end.answered, true)) trunks_.answered(*end.trunk);
}

// The other end has taken so much in all.
void Channels::take_confirmed(EndpointId id, uint64_t taken) {
  End* const end = find(id);
  if (end == nullptr || end->trunk == nullptr) return;
  end->confirmed = std::max(end->confirmed, std::min(taken, end->sent));
  SKERRY_INVARIANT(end->confirmed <= end->sent, "no more is taken than was sent");
  now_writable(*end);
}

void Channels::ask_to_leave(EndpointId id) {
  const End* const end = find(id);
  if (end == nullptr || end->trunk == nullptr || end->state != State::open) return;
  const wire::CloseHeader close{wire::version, static_cast<uint8_t>(wire::CloseKind::please_close),
                                0, 0, 0};
  (void)context_.outer->on_message(id, std::as_bytes(std::span(&close, 1)), {});
}

void Channels::keep(End& end, const Prefix& prefix, Bytes header, Bytes payload) {
  end.push(Header(prefix, header).get(), payload);
  const uint64_t window = end.state == State::asking ? early_window_bytes : most_window_bytes;
  if (end.bytes() > 2 * window) drop(end, CloseReason::protocol_error, beyond_window);
}

void Channels::deliver(End& end, const Prefix& prefix, Bytes header, Bytes payload) {
  if (end.parked || !end.empty()) return keep(end, prefix, header, payload);
  End* const still = offer(end, prefix, header, &payload);
  if (still != nullptr && still->parked) still->push(Header(prefix, header).get(), payload);
}

// To the caller, who may park it, or close the end: then null. *payload: what it has not got.
End* Channels::offer(End& end, const Prefix& prefix, Bytes header, Bytes* payload) {
  const EndpointId id = end.id;
  const Verdict verdict = hand_over(end, static_cast<Kind>(prefix.kind), header, *payload);
  End* const still = find(id);
  if (still == nullptr) return nullptr;
  still->parked = verdict == Verdict::park;
  if (!still->parked) {
    took(*still, cost_of(header.size(), payload->size()));
  } else if (still->incoming) {  // the bytes of its last part are placed by now, and come no more
    took(*still, payload->size());
    *payload = {};
  }
  return still;
}

Verdict Channels::hand_over(End& end, Kind kind, Bytes header, Bytes payload) {
  SKERRY_ASSERT(carries_data(kind), "what the caller gets");
  if ((end.incoming != nullptr) != (kind == Kind::part)) {
    drop(end, CloseReason::protocol_error, "a long payload came that is not whole");
    return Verdict::taken;
  }
  if (kind == Kind::data) return context_.outer->on_message(end.id, header, payload);
  if (kind == Kind::begin && !begin_incoming(end, header, payload.size())) return Verdict::taken;
  return copy_part(end, payload);
}

void Channels::took(End& end, uint64_t cost) {
  end.taken += cost;
  SKERRY_INVARIANT(end.told <= end.taken, "the other end knows of no more than was taken");
  if (end.trunk == nullptr || end.taken - end.told < end.window * 3 / 8) return;
  end.told = end.taken;
  trunks_.control(*end.trunk, Kind::taken, end.channel, {}, {}, end.taken);
}

void Channels::resume(EndpointId id) {
  End* end = find(id);
  if (end == nullptr || !end->parked) return;
  end->parked = false;
  while (!end->empty()) {
    Message message = end->take();
    Prefix prefix;
    std::memcpy(&prefix, message.header.data(), sizeof prefix);
    Bytes payload = message.payload;
    end = offer(*end, prefix, Bytes(message.header).subspan(sizeof prefix), &payload);
    if (end == nullptr) return;
    if (!end->parked) continue;
    if (payload.empty()) message.payload.clear();
    return end->put_back(std::move(message));
  }
  if (end->state == State::lost) this->end(id, end->rare->reason, std::string(end->rare->detail));
}

// ---- ending -----------------------------------------------------------------------------------

void Channels::leave_trunk(End& end) {
  Trunk& trunk = *end.trunk;
  trunks_.leave(end, end.answered);
  if (trunk.placing == end.id) {
    trunk.placing = no_endpoint;
    context_.inner.divert(trunk.id);
  }
  end.outgoing.reset();
}

void Channels::hang_up(End& end, CloseReason reason, std::string_view why) {
  Trunk& trunk = *end.trunk;
  leave_trunk(end);
  // A close in order needs no word if the trunk's end says it all.
  if (reason != CloseReason::by_peer || !trunks_.ends_now(trunk))
    trunks_.say_closed(trunk, end.channel, reason, why);
  trunks_.rest(trunk);
}

void Channels::drop(End& end, CloseReason reason, std::string_view why) {
  end.clear();
  end.outgoing.reset();
  end.parked = false;
  if (end.trunk != nullptr) hang_up(end, CloseReason::reset, why);
  this->end(end.id, reason, why);
}

void Channels::end(EndpointId id, CloseReason reason, std::string_view detail) {
  End* const end = find(id);
  if (end == nullptr) return;
  if (end->state == State::asking) return release(*end);  // its accept will find nobody
  if (!end->empty()) {
    end->state = State::lost;
    end->outgoing.reset();
    if (!end->rare) end->rare = std::make_unique<End::Rare>();
    end->rare->reason = reason;
    end->rare->detail = detail;
    return;
  }
  release(*end);
  context_.outer->on_closed(id, reason, detail);
}

void Channels::end_late(int64_t now_ns) {
  std::vector<EndpointId> late;
  for (const End* const end : ends_) {
    if (end->state != State::opening) continue;
    // Its trunk has not begun to connect: nobody could have answered.
    if (end->trunk != nullptr && end->trunk->state == Trunk::State::waiting)
      end->rare->deadline_ns = now_ns + context_.options.connect_timeout_ns;
    if (end->rare->deadline_ns <= now_ns) late.push_back(end->id);
    else context_.note_deadline(end->rare->deadline_ns);
  }
  for (const EndpointId id : late) {
    End* const end = find(id);
    if (end == nullptr) continue;
    if (end->trunk != nullptr) hang_up(*end, CloseReason::timed_out);
    this->end(id, CloseReason::timed_out, "the data server did not answer in time");
  }
}

// ---- what they take ---------------------------------------------------------------------------

uint64_t Channels::memory_bytes() const {
  uint64_t bytes = ends_.memory_bytes();
  for (const End* const end : ends_)
    bytes += sizeof(End) + end->bytes() +
             (end->rare ? sizeof(End::Rare) + vector_bytes(end->rare->detail) : 0) +
             (end->outgoing ? sizeof(Outgoing) + vector_bytes(end->outgoing->copy) : 0) +
             (end->incoming ? sizeof(Incoming) + vector_bytes(end->incoming->whole) : 0);
  return bytes;
}

}  // namespace skerry::share
