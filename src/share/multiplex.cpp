// What the caller sees: endpoints that are channels.
#include "share/multiplex.hpp"

#include <algorithm>

#include "core/futex.hpp"
#include "core/pure/assert.hpp"
#include "core/pure/container_bytes.hpp"
#include "wire/message.hpp"

namespace skerry::share {

using fabric::Bytes;
using fabric::CloseReason;
using fabric::EndpointId;
using fabric::SendResult;
using fabric::Verdict;

Multiplex::Multiplex(std::unique_ptr<fabric::Fabric> inner, Options options)
    : Forward(std::move(inner)),
      options_(std::move(options)),
      capabilities_(inner_->capabilities()) {
  static_assert(wire::max_request_bytes + sizeof(Prefix) <= fabric::max_header_bytes);
  // Messages alone go through hubs, each small enough to be passed on as it came.
  capabilities_.rma = capabilities_.landing = capabilities_.gather = capabilities_.mr_local =
      capabilities_.early_messages = false;
  capabilities_.rma_from_bytes = 0;
  capabilities_.key_kind = fabric::KeyKind::none;
  capabilities_.header_bytes = fabric::max_header_bytes - sizeof(Prefix);
  capabilities_.max_payload_bytes = std::min<uint64_t>(capabilities_.max_payload_bytes,
                                                       fabric::inline_payload_bytes);
}

Status Multiplex::listen(std::vector<std::byte>* address) {
  SKERRY_TRY(inner_->listen(address));
  own_address_ = text_of(*address);
  return {};
}

Multiplex::End* Multiplex::end_of(EndpointId id) const {
  const auto found = ends_.find(id);
  return found == ends_.end() ? nullptr : found->second.get();
}

Multiplex::End& Multiplex::new_end(Carrier& carrier, uint32_t channel, State state) {
  ++last_end_;
  const EndpointId id = last_end_ >> 31 << 32 | channel_bit | (last_end_ & (channel_bit - 1));
  End& end = *(ends_[id] = std::make_unique<End>());
  end.id = id;
  end.carrier = &carrier;
  end.channel = channel;
  end.state = state;
  carrier.channels[channel].end = &end;
  return end;
}

void Multiplex::release(End& end) { ends_.erase(end.id); }

Status Multiplex::connect(Bytes address, Bytes hello, EndpointId* endpoint) {
  if (hello.size() > fabric::max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ",
                 fabric::max_hello_bytes);
  Carrier* carrier = nullptr;
  SKERRY_TRY(carrier_to(text_of(is_hub() ? address : Bytes(options_.through)), &carrier));
  End& end = new_end(*carrier, ++carrier->next_channel, State::opening);
  end.deadline_ns = monotonic_ns() + options_.connect_timeout_ns;
  note_deadline(end.deadline_ns);
  *endpoint = end.id;
  control(*carrier, Kind::open, end.channel, hello, address);
  return {};
}

Status Multiplex::accept(fabric::RequestId request, Bytes reply, EndpointId* endpoint) {
  if (!is_channel(request)) return inner_->accept(request, reply, endpoint);
  End* const end = end_of(request);
  if (end == nullptr || end->carrier == nullptr || end->state != State::asking)
    return error(Code::peer_dead, "the peer that asked to connect went away");
  end->state = State::open;
  *endpoint = request;
  control(*end->carrier, Kind::accepted, end->channel, reply, {});
  return {};
}

void Multiplex::reject(fabric::RequestId request) {
  if (!is_channel(request)) return inner_->reject(request);
  End* const end = end_of(request);
  if (end == nullptr || end->carrier == nullptr || end->state != State::asking) return;
  control(*end->carrier, Kind::closed, end->channel,
          bytes_of(closed_text(CloseReason::refused, "the data server refused the connection")),
          {});
  end->carrier->channels.erase(end->channel);
  release(*end);
}

SendResult Multiplex::send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                           uint64_t cookie) {
  if (!is_channel(endpoint)) return inner_->send(endpoint, header, payload, more, cookie);
  End* const end = end_of(endpoint);
  if (end == nullptr || end->carrier == nullptr || end->state == State::asking)
    return SendResult::closed;  // without a carrier: on_closed follows
  SKERRY_ASSERT(!header.empty() && header.size() <= capabilities_.header_bytes,
                "header of a message in a channel");
  SKERRY_ASSERT(payload.size() <= capabilities_.max_payload_bytes,
                "longer payloads are for the caller to cut");
  const uint64_t cost = cost_of(header.size(), payload.size());
  if (end->state == State::opening || end->sent - end->confirmed + cost > window_bytes) {
    end->writable_wanted = true;
    return SendResult::would_block;
  }
  Carrier& carrier = *end->carrier;
  const Prefix prefix{version, static_cast<uint8_t>(Kind::data), 0, end->channel, end->taken};
  if (end->in_line || !try_send(carrier, Header(prefix, header).get(), payload, more)) {
    if (!end->in_line) carrier.line.push_back({endpoint, nullptr, 0});
    end->in_line = true;
    return SendResult::would_block;
  }
  end->sent += cost;
  end->told = end->taken;
  return SendResult::accepted;
}

SendResult Multiplex::flush(EndpointId endpoint) {
  if (!is_channel(endpoint)) return inner_->flush(endpoint);
  const End* const end = end_of(endpoint);
  if (end == nullptr || end->carrier == nullptr) return SendResult::closed;
  if (end->carrier->connected)
    (void)inner_->flush(end->carrier->id);  // should it be broken, on_closed follows
  return SendResult::accepted;
}

uint64_t Multiplex::unsent_bytes(EndpointId endpoint) const {
  if (!is_channel(endpoint)) return inner_->unsent_bytes(endpoint);
  const End* const end = end_of(endpoint);
  return end == nullptr || end->carrier == nullptr ? 0 : inner_->unsent_bytes(end->carrier->id);
}

void Multiplex::unpark(EndpointId endpoint) {
  if (!is_channel(endpoint)) return inner_->unpark(endpoint);
  defer({Deferred::What::resume, endpoint, CloseReason::by_us, {}});
}

Status Multiplex::register_memory(void*, uint64_t, fabric::RemoteKey*, uint64_t*) {
  return error(Code::unsupported, "a shared connection carries no RMA");
}

void Multiplex::close(EndpointId endpoint) {
  if (!is_channel(endpoint)) return inner_->close(endpoint);
  End* const end = end_of(endpoint);
  if (end == nullptr) return;
  Carrier* const carrier = end->carrier;
  if (carrier == nullptr) return release(*end);
  if (end->in_line) leave_line(*carrier, {endpoint, nullptr, 0});
  carrier->channels.erase(end->channel);
  const bool last = carrier->use == Use::outgoing &&
                    carrier->channels.empty();  // its end says it all
  if (!last)
    control(*carrier, Kind::closed, end->channel, bytes_of(closed_text(CloseReason::by_peer, {})),
            {});
  release(*end);
  remove_if_unused(*carrier);
}

// Channels and carriers, on top of what the fabric beneath takes for the connections that they are
// made of.
fabric::Fabric::Memory Multiplex::memory() const {
  const auto of_messages = [](const std::deque<Message>& messages) {
    uint64_t bytes = deque_bytes(messages);
    for (const Message& message : messages)
      bytes += vector_bytes(message.header) + vector_bytes(message.payload);
    return bytes;
  };
  Memory memory = inner_->memory();
  memory.endpoint_bytes += table_bytes(ends_) + table_bytes(by_id_) + table_bytes(by_address_);
  for (const auto& [id, end] : ends_)
    memory.endpoint_bytes += sizeof(End) + of_messages(end->undelivered) +
                             vector_bytes(end->detail);
  for (const Transit& transit : transits_)
    memory.endpoint_bytes += sizeof(Transit) + of_messages(transit.half[0].waiting) +
                             of_messages(transit.half[1].waiting);
  for (const Carrier& carrier : carriers_)
    memory.endpoint_bytes += sizeof(Carrier) + vector_bytes(carrier.address) +
                             table_bytes(carrier.channels) + deque_bytes(carrier.line) +
                             of_messages(carrier.control);
  memory.fixed_bytes += sizeof *this + table_bytes(generations_) + table_bytes(partners_) +
                        vector_bytes(partner_carrier_);
  return memory;
}

fabric::Fabric::Traffic Multiplex::traffic() const {
  Traffic traffic = inner_->traffic();
  const auto asking = std::count_if(ends_.begin(), ends_.end(), [](const auto& one) {
    return one.second->state == State::asking;
  });
  traffic.endpoints_open = traffic.endpoints_open - by_id_.size() + ends_.size() -
                           static_cast<uint64_t>(asking);
  return traffic;
}

// ---- progress ---------------------------------------------------------------------------------

void Multiplex::poll(int64_t timeout_ns, EndpointId only) {
  // Dekker with want_dispatch: we say that we are about to sleep, then look; it adds work, then
  // looks whether someone sleeps.
  polling_.store(true, std::memory_order_seq_cst);
  if (work_pending_.load(std::memory_order_seq_cst)) timeout_ns = 0;
  if (const int64_t deadline_ns = deadline_ns_.load(std::memory_order_relaxed);
      deadline_ns != INT64_MAX && timeout_ns != 0) {
    const int64_t left_ns = std::max<int64_t>(deadline_ns - monotonic_ns(), 0);
    timeout_ns = timeout_ns < 0 ? left_ns : std::min(timeout_ns, left_ns);
  }
  inner_->poll(timeout_ns, is_channel(only) ? link_id_.load(std::memory_order_relaxed) : only);
  polling_.store(false, std::memory_order_relaxed);
}

void Multiplex::defer(Deferred upcall) {
  deferred_.push_back(std::move(upcall));
  want_dispatch();
}

void Multiplex::want_dispatch() {
  if (dispatching_) return;  // the end of it looks
  work_pending_.store(true, std::memory_order_seq_cst);
  if (polling_.load(std::memory_order_seq_cst)) inner_->wake();
}

int Multiplex::dispatch(fabric::Sink& sink) {
  dispatching_ = true;
  upcalls_ = 0;
  outer_ = &sink;
  run_deferred();
  upcalls_ += inner_->dispatch(*this);
  run_deferred();
  if (deadline_ns_.load(std::memory_order_relaxed) != INT64_MAX) run_deadlines();
  if (!wanted_.empty())
    advance_wanted();  // a carrier that connected, had its answers or lost a channel may be a
                       // victim now
  for (const EndpointId id : dirty_)
    if (Carrier* carrier = carrier_of(id)) {
      carrier->dirty = false;
      (void)inner_->flush(id);
    }
  dirty_.clear();
  work_pending_.store(!deferred_.empty(), std::memory_order_seq_cst);
  dispatching_ = false;
  return upcalls_;
}

void Multiplex::run_deferred() {
  std::vector<Deferred> now;
  now.swap(deferred_);
  for (const Deferred& upcall : now) {
    ++upcalls_;
    switch (upcall.what) {
      case Deferred::What::resume: resume(upcall.end); break;
      case Deferred::What::fail: fail(upcall.end, upcall.reason, upcall.detail); break;
    }
  }
}

void Multiplex::note_deadline(int64_t deadline_ns) {
  if (deadline_ns < deadline_ns_.load(std::memory_order_relaxed))
    deadline_ns_.store(deadline_ns, std::memory_order_relaxed);
}

// ---- what arrives in a channel that ends here -------------------------------------------------

void Multiplex::take(EndpointId id, const Prefix& prefix, Bytes rest, Bytes payload) {
  End* end = end_of(id);
  switch (static_cast<Kind>(prefix.kind)) {
    case Kind::open: return;  // take_open
    case Kind::accepted:
      if (end->state != State::opening) return;
      end->state = State::open;
      outer_->on_connected(id, rest);
      end = end_of(id);
      if (end == nullptr || !end->writable_wanted) return;
      end->writable_wanted = false;
      outer_->on_writable(id);
      return;
    case Kind::closed: {
      end->carrier->channels.erase(end->channel);
      if (end->in_line) leave_line(*end->carrier, {id, nullptr, 0});
      Carrier* const carrier = std::exchange(end->carrier, nullptr);
      const CloseReason reason = rest.empty() || rest[0] > static_cast<std::byte>(
                                                               CloseReason::protocol_error)
                                     ? CloseReason::by_peer
                                     : static_cast<CloseReason>(rest[0]);
      const std::string detail = rest.empty() ? std::string() : text_of(rest.subspan(1));
      remove_if_unused(*carrier);
      fail(id, reason, detail);
      return;
    }
    case Kind::data:
      if (end->state != State::open) return;
      deliver(*end, rest, payload);
      end = end_of(id);
      if (end == nullptr) return;
      [[fallthrough]];
    case Kind::taken:
      end->confirmed = std::max(end->confirmed, std::min(prefix.taken, end->sent));
      if (!end->writable_wanted || end->state != State::open ||
          end->sent - end->confirmed > window_bytes / 2)
        return;
      end->writable_wanted = false;
      outer_->on_writable(id);
      return;
    case Kind::leave: {
      // As if the data server had asked for it.
      const wire::CloseHeader close{wire::version, static_cast<uint8_t>(wire::Kind::please_close),
                                    0, 0, 0};
      if (end->state == State::open)
        (void)outer_->on_message(id, std::as_bytes(std::span(&close, 1)), {});
      return;
    }
  }
}

void Multiplex::deliver(End& end, Bytes header, Bytes payload) {
  if (end.parked || !end.undelivered.empty()) {
    end.undelivered.emplace_back(header, payload);
    return;
  }
  const EndpointId id = end.id;
  const Verdict verdict = outer_->on_message(id, header, payload);
  End* const still = end_of(id);
  if (still == nullptr) return;
  if (verdict == Verdict::taken) return took(*still, cost_of(header.size(), payload.size()));
  still->undelivered.emplace_back(header, payload);
  still->parked = true;
}

void Multiplex::took(End& end, uint64_t cost) {
  end.taken += cost;
  if (end.carrier == nullptr || end.taken - end.told < window_bytes / 4) return;
  end.told = end.taken;
  control(*end.carrier, Kind::taken, end.channel, {}, {}, end.taken);
}

void Multiplex::resume(EndpointId id) {
  End* end = end_of(id);
  if (end == nullptr || !end->parked) return;
  end->parked = false;
  while (!end->undelivered.empty()) {
    Message message = std::move(end->undelivered.front());
    const Verdict verdict = outer_->on_message(id, message.header, message.payload);
    ++upcalls_;
    end = end_of(id);
    if (end == nullptr) return;
    if (verdict == Verdict::park) {
      end->undelivered.front() = std::move(message);
      end->parked = true;
      return;
    }
    end->undelivered.pop_front();
    took(*end, cost_of(message.header.size(), message.payload.size()));
  }
  if (end->state == State::lost) fail(id, end->reason, std::string(end->detail));
}

// The channel has no carrier any more. The caller is told when it has taken what came before.
void Multiplex::fail(EndpointId id, CloseReason reason, std::string_view detail) {
  End* const end = end_of(id);
  if (end == nullptr) return;
  if (end->state == State::asking) return release(*end);  // its accept will find nobody
  if (!end->undelivered.empty()) {
    end->state = State::lost;
    end->reason = reason;
    end->detail = detail;
    return;
  }
  release(*end);
  ++upcalls_;
  outer_->on_closed(id, reason, detail);
}

// ---- making -----------------------------------------------------------------------------------

Status make_hub(std::unique_ptr<fabric::Fabric> inner, HubOptions options,
                std::unique_ptr<fabric::Fabric>* hub) {
  Multiplex::Options made;
  made.key = options.key;
  made.name = options.node;
  made.max_carriers = options.max_carriers;
  made.connect_timeout_ns = options.connect_timeout_ns;
  made.counters = options.counters ? std::move(options.counters) : std::make_shared<Counters>();
  if (options.max_carriers != 0) {
    made.policy = connection::VictimPolicy::make(options.victim, options.max_carriers);
    if (!made.policy) return connection::VictimPolicy::check_name(options.victim);
  }
  *hub = std::make_unique<Multiplex>(std::move(inner), std::move(made));
  return {};
}

std::unique_ptr<fabric::Fabric> make_member(std::unique_ptr<fabric::Fabric> inner,
                                            MemberOptions options) {
  Multiplex::Options made;
  made.key = options.key;
  made.name = options.rank;
  made.through = std::move(options.hub);
  made.connect_timeout_ns = options.connect_timeout_ns;
  made.counters = std::make_shared<Counters>();
  return std::make_unique<Multiplex>(std::move(inner), std::move(made));
}

}  // namespace skerry::share
