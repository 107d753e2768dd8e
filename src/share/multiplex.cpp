// What the caller sees: endpoints that are channels.
#include "share/multiplex.hpp"

#include <algorithm>
#include <cstring>

#include "core/futex.hpp"
#include "core/pure/assert.hpp"
#include "core/pure/container_bytes.hpp"
#include "wire/message.hpp"

namespace skerry::share {

using fabric::Bytes;
using fabric::CloseReason;
using fabric::EndpointId;
using fabric::no_endpoint;
using fabric::SendResult;
using fabric::Verdict;

namespace {

// Before a message's own header, at most: the prefix and, in `begin`, the payload's length.
constexpr uint64_t head_bytes = sizeof(Prefix) + sizeof(uint64_t);

}  // namespace

Multiplex::Multiplex(std::unique_ptr<fabric::Fabric> inner, Options options)
    : Forward(std::move(inner)),
      options_(std::move(options)),
      capabilities_(inner_->capabilities()),
      has_several_links_(!options_.is_proxy && options_.guide.routes.most_links() > 1),
      cap_(patience),
      openings_(options_.openings_before) {
  from_ranks_.limit = from_servers_.limit = options_.pool_bytes;
  const Status limited = cap_.set_limit(options_.max_trunks, options_.victim, most_partners);
  SKERRY_ASSERT(limited.ok(), "the maker has checked the policy's name");
  static_assert(wire::max_request_bytes + head_bytes <= fabric::max_header_bytes);
  // Messages alone go through proxies, each small enough to be passed on as it came. Long payloads
  // are cut here.
  capabilities_.rma = false;
  capabilities_.close_delivers = true;
  const bool cuts = capabilities_.max_payload_bytes >= fabric::inline_payload_bytes;
  capabilities_.direct_placement = capabilities_.gather = cuts;
  capabilities_.rma_from_bytes = 0;
  capabilities_.atomics = fabric::Atomics::none;
  capabilities_.no_atomics_reason = "shared connections carry messages alone";
  capabilities_.header_bytes = fabric::max_header_bytes - head_bytes;
  if (cuts) capabilities_.max_payload_bytes = most_payload_bytes;
}

Multiplex::~Multiplex() {
  for (End* const end : ends_) delete end;
}

Status Multiplex::listen(std::vector<std::byte>* address) {
  SKERRY_TRY(inner_->listen(address));
  own_address_ = address_with_node(options_.node, *address);
  const Bytes own = bytes_of(own_address_);
  address->assign(own.begin(), own.end());
  return {};
}

// The address of the first server on the way to `target`, which is an address, too.
Status Multiplex::next_hop(std::string_view target, std::string* address) const {
  NodeId node = no_node;
  if (!read_node(target, &node))
    return error(Code::invalid, "an address of ", target.size(),
                 " bytes names no data server: it begins with its node, in 4 bytes");
  const placement::Routes& routes = options_.guide.routes;
  const NodeId next = is_proxy() ? routes.from_server(options_.node, node)
                                 : routes.from_rank(options_.node, node);
  if (next == node) {
    *address = target;
    return {};
  }
  if (options_.guide.address_of) *address = text_of(options_.guide.address_of(next));
  if (address->empty())
    return error(Code::invalid, "the way to the data server of node ", node,
                 " leads through that of node ", next, ", whose address is not known here");
  return {};
}

Multiplex::End* Multiplex::end_of(EndpointId id) const { return ends_.find(id); }

Multiplex::End& Multiplex::new_end(Trunk& trunk, uint32_t channel, State state) {
  ++last_end_;
  const EndpointId id = last_end_ >> 31 << 32 | channel_bit | (last_end_ & (channel_bit - 1));
  End& end = *new End;
  end.id = id;
  end.trunk = &trunk;
  end.channel = channel;
  end.state = state;
  if (is_proxy()) end.undelivered.charge(&pool_of(trunk.use));
  if (state == State::asking) ++asking_;
  if (trunk.is_ours()) ++trunk.unanswered;
  ends_.insert(&end);
  trunk.channels.insert(Route(&end));
  return end;
}

uint32_t Multiplex::begin_channel(Trunk& trunk) {
  return trunk.newest_channel = next_channel(
             trunk.newest_channel, [&](uint32_t taken) { return trunk.channels.contains(taken); });
}

void Multiplex::release(End& end) {
  if (end.state == State::asking) --asking_;
  ends_.erase(end.id);
  delete &end;
}

Status Multiplex::connect(Bytes address, Bytes hello, EndpointId* endpoint) {
  if (hello.size() > fabric::max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ",
                 fabric::max_hello_bytes);
  std::string next;
  SKERRY_TRY(next_hop(text_of(address), &next));
  Trunk* trunk = nullptr;
  SKERRY_TRY(trunk_to(std::move(next), &trunk));
  End& end = new_end(*trunk, begin_channel(*trunk), State::opening);
  end.rare = std::make_unique<End::Rare>();
  end.rare->deadline_ns = monotonic_ns() + options_.connect_timeout_ns;
  note_deadline(end.rare->deadline_ns);
  *endpoint = end.id;
  control(*trunk, Kind::open, end.channel, hello, address, end.window);  // no server passed yet
  return {};
}

Status Multiplex::accept(fabric::RequestId request, Bytes reply, EndpointId* endpoint) {
  if (!is_channel(request)) return inner_->accept(request, reply, endpoint);
  End* const end = end_of(request);
  if (end == nullptr || end->trunk == nullptr || end->state != State::asking)
    return error(Code::peer_dead, "the peer that asked to connect went away");
  end->state = State::open;
  --asking_;
  *endpoint = request;
  control(*end->trunk, Kind::accepted, end->channel, reply, {}, end->window);
  if (end->undelivered.empty()) return {};
  end->parked = true;  // what came right behind its hello is delivered now
  unpark(request);
  return {};
}

void Multiplex::reject(fabric::RequestId request) {
  if (!is_channel(request)) return inner_->reject(request);
  End* const end = end_of(request);
  if (end == nullptr || end->trunk == nullptr || end->state != State::asking) return;
  control(*end->trunk, Kind::closed, end->channel,
          bytes_of(closed_text(CloseReason::refused, "the data server refused the connection")),
          {});
  end->trunk->channels.erase(end->channel);
  release(*end);
}

SendResult Multiplex::send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                           uint64_t cookie) {
  if (!is_channel(endpoint)) return inner_->send(endpoint, header, payload, more, cookie);
  End* const end = end_of(endpoint);
  if (end == nullptr || end->trunk == nullptr || end->state == State::asking)
    return SendResult::closed;  // without a trunk: on_closed follows
  SKERRY_ASSERT(!header.empty() && header.size() <= capabilities_.header_bytes,
                "header of a message in a channel");
  SKERRY_ASSERT(payload.size() <= capabilities_.max_payload_bytes,
                "longer payloads are for the caller to cut");
  if (payload.size() > part_bytes) return send_long(*end, header, {&payload, 1}, cookie);
  const uint64_t cost = cost_of(header.size(), payload.size());
  if (end->outgoing || !fits(*end, cost)) {
    end->writable_wanted = true;
    // What was held back to go along with more goes now: the other end must take it before there is
    // room again.
    (void)flush(endpoint);
    return SendResult::would_block;
  }
  Trunk& trunk = *end->trunk;
  const Prefix prefix{version, static_cast<uint8_t>(Kind::data), 0, end->channel, end->taken};
  if (end->in_line || !try_send(trunk, Header(prefix, header).get(), payload, more)) {
    if (!end->in_line) trunk.line.push_back({endpoint, nullptr, 0});
    end->in_line = true;
    return SendResult::would_block;
  }
  end->sent += cost;
  end->told = end->taken;
  if (trunk.use == Use::link) note_link(endpoint, trunk.id);
  if (trunk.is_ours() && trunk.phase != Phase::leaving) cap_.used(trunk.claim);
  return SendResult::accepted;
}

SendResult Multiplex::send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                                    uint64_t cookie) {
  if (!is_channel(endpoint)) return inner_->send_gathered(endpoint, header, parts, cookie);
  End* const end = end_of(endpoint);
  if (end == nullptr || end->trunk == nullptr || end->state == State::asking)
    return SendResult::closed;
  return send_long(*end, header, parts, cookie);
}

// There may be room again, on the trunk or at the other end.
void Multiplex::now_writable(End& end) {
  if (end.outgoing) send_parts(end);
  if (!end.writable_wanted || !takes_long(end) || end.in_line ||
      end.sent - end.confirmed > end.window / 2)
    return;
  end.writable_wanted = false;
  outer_->on_writable(end.id);
}

SendResult Multiplex::flush(EndpointId endpoint) {
  if (!is_channel(endpoint)) return inner_->flush(endpoint);
  const End* const end = end_of(endpoint);
  if (end == nullptr || end->trunk == nullptr) return SendResult::closed;
  if (takes_messages(*end->trunk))
    (void)inner_->flush(end->trunk->id);  // should it be broken, on_closed follows
  return SendResult::accepted;
}

uint64_t Multiplex::unsent_bytes(EndpointId endpoint) const {
  if (!is_channel(endpoint)) return inner_->unsent_bytes(endpoint);
  const End* const end = end_of(endpoint);
  if (end == nullptr || end->trunk == nullptr) return 0;
  uint64_t unsent = inner_->unsent_bytes(end->trunk->id);
  for (const Outgoing* o = end->outgoing.get(); o != nullptr; o = o->next.get()) unsent += o->left;
  return unsent;
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
  Trunk* const trunk = end->trunk;
  if (trunk == nullptr) return release(*end);
  detach(*end);
  const bool last = trunk->is_ours() && trunk->channels.empty() && !trunk->is_kept();
  if (!last)  // otherwise the trunk's end says it all
    control(*trunk, Kind::closed, end->channel, bytes_of(closed_text(CloseReason::by_peer, {})),
            {});
  release(*end);
  remove_if_unused(*trunk);
}

// Channels and trunks, on top of what the fabric beneath takes for the connections that they are
// made of.
fabric::Fabric::Memory Multiplex::memory() const {
  Memory memory = inner_->memory();
  memory.endpoint_bytes += ends_.memory_bytes() + by_id_.memory_bytes() + table_bytes(by_address_) +
                           vector_bytes(transits_);
  for (const End* const end : ends_)
    memory.endpoint_bytes += sizeof(End) + end->undelivered.bytes() +
                             (end->rare ? sizeof(End::Rare) + vector_bytes(end->rare->detail) : 0) +
                             (end->outgoing ? held_bytes(*end->outgoing) : 0) +
                             (end->incoming ? held_bytes(*end->incoming) : 0);
  for (const auto& transit : transits_)
    memory.endpoint_bytes += sizeof(Transit) + transit->half[0].waiting.bytes() +
                             transit->half[1].waiting.bytes();
  for (const Trunk& trunk : trunks_)
    memory.endpoint_bytes += list_node_bytes<Trunk>() + vector_bytes(trunk.address) +
                             trunk.channels.memory_bytes() +
                             trunk.line.size() * list_node_bytes<Waiter>() + trunk.control.bytes();
  memory.fixed_bytes += sizeof *this + table_bytes(openers_) + table_bytes(partners_) +
                        vector_bytes(partner_trunk_) + vector_bytes(part_);
  return memory;
}

// Of a rank whose routes begin at several servers.
Status Multiplex::limit_connections(uint32_t limit) {
  SKERRY_TRY(cap_.set_limit(limit, options_.victim, most_partners));
  for (const Trunk& trunk : trunks_)
    if (trunk.is_ours()) cap_.readmit(trunk.claim);
  give_slots();
  return {};
}

bool Multiplex::has_room_for(Bytes address) const {
  if (!cap_.at_limit()) return true;
  std::string next;
  return !next_hop(text_of(address), &next).ok() || by_address_.contains(next);
}

fabric::Fabric::Connections Multiplex::connections() const {
  return {cap_.occupied() + cap_.leaving(), cap_.counters().peak, cap_.counters().evicted};
}

fabric::Fabric::Traffic Multiplex::traffic() const {
  Traffic traffic = inner_->traffic();
  SKERRY_INVARIANT(asking_ <= ends_.size(), "who asks has an end");
  traffic.endpoints_open = traffic.endpoints_open - by_id_.size() + ends_.size() - asking_;
  return traffic;
}

// ---- progress ---------------------------------------------------------------------------------

void Multiplex::note_link(EndpointId channel, EndpointId link) {
  if (last_channel_.load(std::memory_order_relaxed) == channel &&
      last_link_.load(std::memory_order_relaxed) == link)
    return;
  last_channel_.store(no_endpoint, std::memory_order_release);
  last_link_.store(link, std::memory_order_release);
  last_channel_.store(channel, std::memory_order_release);
}

// Any thread. None if the channel is not the one that sent last: poll then looks at all.
EndpointId Multiplex::link_of(EndpointId channel) const {
  if (last_channel_.load(std::memory_order_acquire) != channel) return no_endpoint;
  const EndpointId link = last_link_.load(std::memory_order_acquire);
  return last_channel_.load(std::memory_order_acquire) == channel ? link : no_endpoint;
}

void Multiplex::poll(int64_t timeout_ns, EndpointId only) {
  // As in Dekker's algorithm with want_dispatch: we say that we are about to sleep, then look for
  // work; want_dispatch adds work, then looks whether a thread sleeps.
  polling_.store(true, std::memory_order_seq_cst);
  if (work_pending_.load(std::memory_order_seq_cst)) timeout_ns = 0;
  if (const int64_t deadline_ns = deadline_ns_.load(std::memory_order_relaxed);
      deadline_ns != INT64_MAX && timeout_ns != 0) {
    const int64_t left_ns = std::max<int64_t>(deadline_ns - monotonic_ns(), 0);
    timeout_ns = timeout_ns < 0 ? left_ns : std::min(timeout_ns, left_ns);
  }
  inner_->poll(timeout_ns, is_channel(only) ? link_of(only) : only);
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
  if (is_proxy()) {
    while (from_ranks_.is_over() && relieve(from_ranks_)) {
    }
    while (from_servers_.is_over() && relieve(from_servers_)) {
    }
    count_kept();
  }
  // A trunk that connected, had its answers or lost a channel may be a victim now.
  if (cap_.anyone_waits()) {
    give_slots();
    run_deferred();  // what waited for those slots goes right behind the hellos
  }
  for (const EndpointId id : dirty_)
    if (Trunk* trunk = trunk_of(id)) {
      trunk->dirty = false;
      (void)inner_->flush(id);
    }
  dirty_.clear();
  work_pending_.store(!deferred_.empty(), std::memory_order_seq_cst);
  dispatching_ = false;
  return upcalls_;
}

// At a pool's limit the channel that keeps most in it ends here: its session resumes, and sends
// again what was kept. False: at most one channel keeps anything, and that one stays, so that
// somebody gets on whatever the limit is. Its window bounds it.
bool Multiplex::relieve(const Pool& pool) {
  uint64_t most = 0;
  uint32_t keepers = 0;
  End* end = nullptr;
  for (End* const one : ends_) {
    if (one->undelivered.pool() != &pool || one->undelivered.empty()) continue;
    ++keepers;
    // One that nobody has accepted yet goes before all others: it may wait for its slot for long.
    const uint64_t weight = one->undelivered.bytes() +
                            (one->state == State::asking ? 2 * most_waiting_bytes : 0);
    if (weight <= most) continue;
    most = weight;
    end = one;
  }
  Transit* transit = nullptr;
  for (const auto& one : transits_)
    for (const Half& half : one->half) {
      if (half.waiting.pool() != &pool || half.waiting.empty()) continue;
      ++keepers;
      if (half.waiting.bytes() <= most) continue;
      most = half.waiting.bytes();
      transit = one.get();
    }
  if (keepers < 2) return false;
  options_.counters->channels_dropped.fetch_add(1, std::memory_order_relaxed);
  constexpr std::string_view why = "a data server had no room for what waits in this channel";
  if (transit != nullptr) drop(*transit, why);
  else drop(*end, CloseReason::reset, why);
  return true;
}

// The channel ends here and now, with what waits in it.
void Multiplex::drop(End& end, CloseReason reason, std::string_view why) {
  const EndpointId id = end.id;
  end.undelivered.clear();
  end.outgoing.reset();
  end.parked = false;
  if (Trunk* const trunk = end.trunk) {
    const uint32_t channel = end.channel;
    detach(end);
    control(*trunk, Kind::closed, channel, bytes_of(closed_text(CloseReason::reset, why)), {});
    remove_if_unused(*trunk);
  }
  fail(id, reason, why);
}

void Multiplex::count_kept() {
  Counters& counters = *options_.counters;
  counters.kept_bytes.store(from_ranks_.held + from_servers_.held, std::memory_order_relaxed);
  counters.kept_peak_bytes.store(from_ranks_.peak + from_servers_.peak, std::memory_order_relaxed);
}

void Multiplex::run_deferred() {
  std::vector<Deferred> now;
  now.swap(deferred_);
  for (const Deferred& upcall : now) {
    ++upcalls_;
    switch (upcall.what) {
      case Deferred::What::resume: resume(upcall.end); break;
      case Deferred::What::fail: fail(upcall.end, upcall.reason, upcall.detail); break;
      case Deferred::What::leave: ask_to_leave(upcall.end); break;
      case Deferred::What::serve: serve(upcall.end); break;
      case Deferred::What::sent:
        if (end_of(upcall.end) != nullptr) outer_->on_sent(upcall.end, upcall.cookie);
        break;
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
      end->rare.reset();
      end->window = static_cast<uint32_t>(
          std::clamp(prefix.taken, least_window_bytes, most_window_bytes));
      outer_->on_connected(id, rest);
      end = end_of(id);
      if (end == nullptr || !end->writable_wanted) return;
      end->writable_wanted = false;
      outer_->on_writable(id);
      return;
    case Kind::closed: {
      Trunk* const trunk = end->trunk;
      detach(*end);
      const CloseReason reason = rest.empty() || rest[0] > static_cast<std::byte>(
                                                               CloseReason::protocol_error)
                                     ? CloseReason::by_peer
                                     : static_cast<CloseReason>(rest[0]);
      const std::string detail = rest.empty() ? std::string() : text_of(rest.subspan(1));
      remove_if_unused(*trunk);
      fail(id, reason, detail);
      return;
    }
    case Kind::data:
    case Kind::begin:
    case Kind::part:
      if (end->state == State::asking) return keep(*end, prefix, rest, payload);
      if (end->state != State::open) return;
      if (!std::exchange(end->answered, true) && end->trunk->is_ours()) note_answer(*end->trunk);
      deliver(*end, prefix, rest, payload);
      end = end_of(id);
      if (end == nullptr || end->trunk == nullptr) return;
      [[fallthrough]];
    case Kind::taken:
      end->confirmed = std::max(end->confirmed, std::min(prefix.taken, end->sent));
      return now_writable(*end);
    case Kind::held:
      if (end->state != State::opening) return;
      end->rare->deadline_ns = INT64_MAX;
      outer_->on_held(id);
      return;
    case Kind::leave: return ask_to_leave(id);
  }
}

// The channel's connection is needed for another: as if the data server had asked for it.
void Multiplex::ask_to_leave(EndpointId id) {
  const End* const end = end_of(id);
  if (end == nullptr || end->trunk == nullptr || end->state != State::open) return;
  const wire::CloseHeader close{wire::version, static_cast<uint8_t>(wire::CloseKind::please_close),
                                0, 0, 0};
  ++upcalls_;
  (void)outer_->on_message(id, std::as_bytes(std::span(&close, 1)), {});
}

// The channel has no trunk any more, which its trunk knows from now on.
void Multiplex::detach(End& end) {
  Trunk& trunk = *end.trunk;
  if (end.in_line) leave_line(trunk, {end.id, nullptr, 0});
  end.in_line = false;
  trunk.channels.erase(end.channel);
  if (trunk.is_ours() && !end.answered) --trunk.unanswered;
  if (trunk.placing == end.id) {
    trunk.placing = no_endpoint;
    inner_->divert(trunk.id);
  }
  end.trunk = nullptr;
  end.outgoing.reset();
}

void Multiplex::keep(End& end, const Prefix& prefix, Bytes header, Bytes payload) {
  end.undelivered.push(Header(prefix, header).get(), payload);
  const uint64_t window = end.state == State::asking ? early_window_bytes : most_window_bytes;
  if (end.undelivered.bytes() > 2 * window) drop(end, CloseReason::protocol_error, beyond_window);
}

void Multiplex::deliver(End& end, const Prefix& prefix, Bytes header, Bytes payload) {
  if (end.parked || !end.undelivered.empty()) return keep(end, prefix, header, payload);
  const EndpointId id = end.id;
  const Verdict verdict = hand_over(end, static_cast<Kind>(prefix.kind), header, payload);
  End* const still = end_of(id);
  if (still == nullptr) return;
  if (verdict == Verdict::taken) {
    if (!still->gathers()) took(*still, cost_of(header.size(), payload.size()));
    return;
  }
  // The bytes of a part are placed by now, and come no more.
  if (still->incoming) {
    if (!still->gathers()) took(*still, payload.size());
    payload = {};
  }
  still->undelivered.push(Header(prefix, header).get(), payload);
  still->parked = true;
}

// To the caller, who may close the end.
Verdict Multiplex::hand_over(End& end, Kind kind, Bytes header, Bytes payload) {
  if ((end.incoming != nullptr) != (kind == Kind::part)) {
    drop(end, CloseReason::protocol_error, "a long payload came that is not whole");
    return Verdict::taken;
  }
  switch (kind) {
    case Kind::begin:
      return begin_incoming(end, header, payload.size()) ? copy_part(end, payload) : Verdict::taken;
    case Kind::part: return copy_part(end, payload);
    case Kind::data: return outer_->on_message(end.id, header, payload);
    case Kind::open:
    case Kind::accepted:
    case Kind::closed:
    case Kind::taken:
    case Kind::leave:
    case Kind::held: break;
  }
  return Verdict::taken;
}

void Multiplex::took(End& end, uint64_t cost) {
  end.taken += cost;
  if (end.trunk == nullptr || end.taken - end.told < end.window * 3 / 8) return;
  end.told = end.taken;
  control(*end.trunk, Kind::taken, end.channel, {}, {}, end.taken);
}

void Multiplex::resume(EndpointId id) {
  End* end = end_of(id);
  if (end == nullptr || !end->parked) return;
  end->parked = false;
  while (!end->undelivered.empty()) {
    Message message = end->undelivered.take();
    Prefix prefix;
    std::memcpy(&prefix, message.header.data(), sizeof prefix);
    const Bytes header = Bytes(message.header).subspan(sizeof prefix);
    const Verdict verdict = hand_over(*end, static_cast<Kind>(prefix.kind), header,
                                      message.payload);
    ++upcalls_;
    end = end_of(id);
    if (end == nullptr) return;
    if (verdict == Verdict::park) {
      if (end->incoming) {  // as in deliver
        if (!end->gathers()) took(*end, message.payload.size());
        message.payload.clear();
      }
      end->undelivered.put_back(std::move(message));
      end->parked = true;
      return;
    }
    if (!end->gathers()) took(*end, cost_of(header.size(), message.payload.size()));
  }
  if (end->state == State::lost) fail(id, end->rare->reason, std::string(end->rare->detail));
}

// The channel has no trunk any more. The caller is told when it has taken what came before.
void Multiplex::fail(EndpointId id, CloseReason reason, std::string_view detail) {
  End* const end = end_of(id);
  if (end == nullptr) return;
  if (end->state == State::asking) return release(*end);  // its accept will find nobody
  if (!end->undelivered.empty()) {
    end->state = State::lost;
    if (!end->rare) end->rare = std::make_unique<End::Rare>();
    end->rare->reason = reason;
    end->rare->detail = detail;
    return;
  }
  release(*end);
  ++upcalls_;
  outer_->on_closed(id, reason, detail);
}

// ---- making -----------------------------------------------------------------------------------

Status make_proxy(std::unique_ptr<fabric::Fabric> inner, ProxyOptions options,
                  std::unique_ptr<fabric::Fabric>* proxy) {
  Multiplex::Options made;
  made.key = options.key;
  made.is_proxy = true;
  made.name = Multiplex::name_of(options.node, options.index);
  made.node = static_cast<NodeId>(options.node);
  made.guide = std::move(options.guide);
  made.pool_bytes = options.pool_bytes;
  made.max_trunks = options.max_trunks;
  made.max_passing = options.max_passing;
  made.connect_timeout_ns = options.connect_timeout_ns;
  made.counters = options.counters ? std::move(options.counters) : std::make_shared<Counters>();
  made.unused_trunk_ns = options.unused_trunk_ns;
  made.openings_before = options.openings_before;
  SKERRY_TRY(connection::VictimPolicy::check_name(options.victim));
  made.victim = std::move(options.victim);
  *proxy = std::make_unique<Multiplex>(std::move(inner), std::move(made));
  return {};
}

Status make_proxy_client(std::unique_ptr<fabric::Fabric> inner, ProxyClientOptions options,
                         std::unique_ptr<fabric::Fabric>* client) {
  Multiplex::Options made;
  made.key = options.key;
  made.name = options.rank;
  made.node = static_cast<NodeId>(options.node);
  made.guide = std::move(options.guide);
  made.max_trunks = options.max_links;
  made.connect_timeout_ns = options.connect_timeout_ns;
  made.counters = options.counters ? std::move(options.counters) : std::make_shared<Counters>();
  SKERRY_TRY(connection::VictimPolicy::check_name(options.victim));
  made.victim = std::move(options.victim);
  *client = std::make_unique<Multiplex>(std::move(inner), std::move(made));
  return {};
}

}  // namespace skerry::share
