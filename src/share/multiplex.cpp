// Multiplex: the fabric on both sides of routes through servers. It says which of three each call,
// and each message, is for: Trunks (the connections beneath), Channels (what begins or ends here)
// and Transits (what passes through a proxy).
#include <algorithm>

#include "share/channels.hpp"
#include "share/transits.hpp"
#include "wire/message.hpp"

namespace skerry::share {
namespace {

class Multiplex final : public fabric::Fabric, private fabric::Sink, private Trunks::User {
 public:
  Multiplex(std::unique_ptr<fabric::Fabric> inner, Options options, bool is_proxy);

  std::string_view name() const override { return inner_->name(); }
  const fabric::Capabilities& capabilities() const override { return context_.capabilities; }
  Status listen(std::vector<std::byte>* address) override;
  Status connect(Bytes address, Bytes hello, EndpointId* endpoint) override;
  Status accept(RequestId request, Bytes reply, EndpointId* endpoint) override;
  void reject(RequestId request, CloseReason why) override {
    is_channel(request) ? channels_.reject(request, why) : inner_->reject(request, why);
  }
  void hold(RequestId request) override {
    is_channel(request) ? channels_.hold(request) : inner_->hold(request);
  }
  SendResult send(EndpointId endpoint, Bytes header, Bytes payload, bool more,
                  uint64_t cookie) override {
    return is_channel(endpoint) ? channels_.send(endpoint, header, payload, more, cookie)
                                : inner_->send(endpoint, header, payload, more, cookie);
  }
  SendResult send_gathered(EndpointId endpoint, Bytes header, std::span<const Bytes> parts,
                           uint64_t cookie) override {
    return is_channel(endpoint) ? channels_.send_gathered(endpoint, header, parts, cookie)
                                : inner_->send_gathered(endpoint, header, parts, cookie);
  }
  SendResult flush(EndpointId endpoint) override {
    return is_channel(endpoint) ? channels_.flush(endpoint) : inner_->flush(endpoint);
  }
  uint64_t unsent_bytes(EndpointId endpoint) const override {
    return is_channel(endpoint) ? channels_.unsent_bytes(endpoint) : inner_->unsent_bytes(endpoint);
  }
  void unpark(EndpointId endpoint) override {
    is_channel(endpoint) ? channels_.unpark(endpoint) : inner_->unpark(endpoint);
  }
  void close(EndpointId endpoint) override {
    is_channel(endpoint) ? channels_.close(endpoint) : inner_->close(endpoint);
  }
  Status register_memory(void* base, uint64_t bytes, fabric::RemoteKey* key,
                         uint64_t* registration) override;
  void poll(int64_t timeout_ns, EndpointId only) override {
    context_.poll(timeout_ns, is_channel(only) ? context_.link_of(only) : only);
  }
  void dispatch(fabric::Sink& sink) override;
  Status watch(int fd) override { return inner_->watch(fd); }
  void unwatch(int fd) override { inner_->unwatch(fd); }
  void wake() override { inner_->wake(); }
  Traffic traffic() const override;
  Memory memory() const override;
  bool limits_connections() const override {
    return !context_.is_proxy && context_.options.guide.routes.most_links() > 1;
  }
  Status limit_connections(uint32_t limit) override { return trunks_.limit(limit); }
  bool has_room_for(Bytes address) const override;
  Connections connections() const override { return trunks_.connections(); }

 private:
  static bool is_channel(EndpointId id) { return Channels::is_channel(id); }
  Status next_hop(std::string_view target, std::string* address) const;
  Status onward(std::string_view target, uint32_t servers, std::string* address) const;
  void take_open(Trunk& trunk, const Prefix& prefix, Bytes hello, Bytes address);
  bool relieve(Pool& pool);

  // Trunks::User
  void on_trunk_end(const Places& channels, CloseReason reason, std::string_view detail,
                    bool later) override;
  void on_trunk_leaves(Place& place) override;
  bool on_turn(Place& place) override;

  // fabric::Sink
  void on_connect_request(RequestId request, Bytes hello, std::string_view peer_name) override;
  void on_connected(EndpointId endpoint, Bytes reply) override;
  Verdict on_message(EndpointId endpoint, Bytes header, Bytes payload) override;
  std::byte* place_directly(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override;
  std::byte* place_inline(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override;
  Verdict on_placed(EndpointId endpoint, Bytes header, uint64_t payload_bytes) override;
  void on_writable(EndpointId endpoint) override;
  void on_sent(EndpointId endpoint, uint64_t cookie) override {
    context_.outer->on_sent(endpoint, cookie);
  }
  void on_rma_done(EndpointId, uint64_t, bool) override {}  // none is begun
  void on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) override;
  void on_watched(int fd) override { context_.outer->on_watched(fd); }

  const std::unique_ptr<fabric::Fabric> inner_;
  MultiplexContext context_;
  Trunks trunks_;
  Channels channels_;
  Transits transits_;
};

}  // namespace

Multiplex::Multiplex(std::unique_ptr<fabric::Fabric> inner, Options options, bool is_proxy)
    : inner_(std::move(inner)),
      context_(*inner_, std::move(options), is_proxy),
      trunks_(context_, *this),
      channels_(context_, trunks_),
      transits_(context_, trunks_) {
  // Before a message's own header, at most: the prefix and, in `begin`, the payload's length.
  constexpr uint64_t head_bytes = sizeof(Prefix) + sizeof(uint64_t);
  static_assert(wire::max_request_bytes + head_bytes <= fabric::max_header_bytes);
  // Messages alone go through proxies, each small enough to be passed on as it came. Long payloads
  // are cut here.
  fabric::Capabilities& can = context_.capabilities = inner_->capabilities();
  can.rma = can.rma_of_adapter = can.atomics = can.atomic_swap = false;
  can.close_delivers = true;
  const bool cuts = can.max_payload_bytes >= fabric::inline_payload_bytes;
  can.direct_placement = cuts;
  can.rma_from_bytes = 0;
  can.header_bytes = fabric::max_header_bytes - head_bytes;
  if (cuts) can.max_payload_bytes = most_payload_bytes;
}

Status Multiplex::listen(std::vector<std::byte>* address) {
  SKERRY_TRY(inner_->listen(address));
  context_.own_address = address_with_node(context_.node(), *address);
  const Bytes own = bytes_of(context_.own_address);
  address->assign(own.begin(), own.end());
  return {};
}

Status Multiplex::connect(Bytes address, Bytes hello, EndpointId* endpoint) {
  if (hello.size() > fabric::max_hello_bytes)
    return error(Code::invalid, "hello of ", hello.size(), " bytes; at most ",
                 fabric::max_hello_bytes);
  std::string next;
  SKERRY_TRY(next_hop(text_of(address), &next));
  Trunk* trunk = nullptr;
  SKERRY_TRY(trunks_.to(std::move(next), &trunk));
  *endpoint = channels_.connect(*trunk, address, hello);
  return {};
}

Status Multiplex::accept(RequestId request, Bytes reply, EndpointId* endpoint) {
  if (!is_channel(request)) return inner_->accept(request, reply, endpoint);
  SKERRY_TRY(channels_.accept(request, reply));
  *endpoint = request;
  return {};
}

Status Multiplex::register_memory(void*, uint64_t, fabric::RemoteKey*, uint64_t*) {
  return error(Code::unsupported, "a shared connection carries no RMA");
}

bool Multiplex::has_room_for(Bytes address) const {
  std::string next;
  return !next_hop(text_of(address), &next).ok() || trunks_.has_room_for(next);
}

// ---- the way ----------------------------------------------------------------------------------

// The address of the first server on the way to `target`, which is an address, too.
Status Multiplex::next_hop(std::string_view target, std::string* address) const {
  NodeId node = no_node;
  if (!read_node(target, &node))
    return error(Code::invalid, "an address of ", target.size(),
                 " bytes names no data server: it begins with its node, in 4 bytes");
  const Guide& guide = context_.options.guide;
  const NodeId next = context_.is_proxy ? guide.routes.from_server(context_.node(), node)
                                        : guide.routes.from_rank(context_.node(), node);
  if (next == node) {
    *address = target;
    return {};
  }
  if (guide.address_of) *address = text_of(guide.address_of(next));
  if (address->empty())
    return error(Code::invalid, "the way to the data server of node ", node,
                 " leads through that of node ", next, ", whose address is not known here");
  return {};
}

// Where a channel goes from here. It has passed `servers`, this one included: a mistake in the
// routes, or a forged message, must not send it round in circles.
Status Multiplex::onward(std::string_view target, uint32_t servers, std::string* address) const {
  NodeId node = no_node;
  if (read_node(target, &node) && node == context_.node())
    return error(Code::invalid, "that was the address of another data server of node ", node);
  if (servers >= context_.options.guide.routes.most_servers())
    return error(Code::invalid, "a channel to node ", node, " has passed ", servers,
                 " data servers without getting there: do all ranks have the same SKERRY_SHARE and "
                 "SKERRY_CLUSTER_SIZE?");
  return next_hop(target, address);
}

// A channel that ends here, or passes through.
void Multiplex::take_open(Trunk& trunk, const Prefix& prefix, Bytes hello, Bytes address_bytes) {
  if (trunk.channels.contains(prefix.channel)) return;
  const std::string address = text_of(address_bytes);
  // What waits of it here is charged to that pool.
  const uint64_t window = window_within(trunks_.pool_of(trunk),
                                        channels_.size() + transits_.size() + 1, prefix.taken);
  if (address == context_.own_address) {
    const RequestId request = channels_.ask(trunk, prefix.channel, window);
    const std::string name = trunk.of_rank ? concat("rank ", trunk.name)
                                           : concat("through a data server of node ",
                                                    MultiplexContext::node_named(trunk.name));
    context_.outer->on_connect_request(request, hello, name);
    return;
  }
  Trunk* out = nullptr;
  std::string next;
  Status status = onward(address, prefix.servers + 1u, &next);
  if (status.ok()) status = trunks_.to(std::move(next), &out);
  if (status.ok()) transits_.open(trunk, *out, prefix, window, hello, address_bytes);
  else trunks_.say_closed(trunk, prefix.channel, CloseReason::unreachable, status.message());
}

// ---- a turn -----------------------------------------------------------------------------------

void Multiplex::dispatch(fabric::Sink& sink) {
  context_.dispatching = true;
  context_.outer = &sink;
  context_.run_deferred();
  inner_->dispatch(*this);
  context_.run_deferred();
  if (int64_t now_ns = 0; context_.deadline_passed(&now_ns)) {
    channels_.end_late(now_ns);
    trunks_.end_overdue(now_ns);
  }
  if (context_.is_proxy) {
    for (Pool* const pool : {&context_.from_ranks, &context_.from_servers})
      while (pool->is_over() && relieve(*pool)) {
      }
    context_.count_kept();
  }
  // A trunk that connected, had its answers or lost a channel may be a victim now.
  if (trunks_.anyone_waits()) {
    trunks_.give_slots();
    context_.run_deferred();  // what waited for those slots goes right behind the hellos
  }
  trunks_.flush_held();
  context_.work_pending.store(!context_.deferred.empty(), std::memory_order_seq_cst);
  context_.dispatching = false;
}

// At a pool's limit the channel that keeps most in it ends here: its session resumes, and sends
// again what was kept. False: at most one channel keeps anything. That one stays, so that somebody
// gets on whatever the limit is; its window bounds it.
bool Multiplex::relieve(Pool& pool) {
  if (pool.keepers.size() < 2) return false;
  // One that nobody has accepted yet goes before all others: it may wait for its slot for long.
  const auto weight = [](const Kept* kept) {
    const auto* const place = static_cast<const Place*>(kept);
    const bool asks = place->of == Place::Of::end &&
                      static_cast<const End*>(place)->state == End::State::asking;
    return kept->bytes() + (asks ? 2 * most_waiting_bytes : 0);
  };
  Place& place = static_cast<Place&>(**std::ranges::max_element(pool.keepers, {}, weight));
  context_.counters().channels_dropped.fetch_add(1, std::memory_order_relaxed);
  constexpr std::string_view why = "a data server had no room for what waits in this channel";
  if (place.of == Place::Of::end) channels_.drop(static_cast<End&>(place), CloseReason::reset, why);
  else transits_.end(Transit::of(place), why);
  return true;
}

// ---- what trunks say --------------------------------------------------------------------------

void Multiplex::on_trunk_end(const Places& channels, CloseReason reason, std::string_view detail,
                             bool later) {
  std::vector<EndpointId> ends;
  for (Place* const place : channels)
    if (place->of == Place::Of::end) ends.push_back(static_cast<End*>(place)->id);
    else transits_.pass_end(*place, reason, detail);
  for (const EndpointId id : ends)
    if (!later) channels_.end(id, reason, detail);
    else context_.defer([=, this, text = std::string(detail)] { channels_.end(id, reason, text); });
}

void Multiplex::on_trunk_leaves(Place& place) {
  if (place.of != Place::Of::end) transits_.ask_to_leave(Transit::of(place));
  else if (!context_.is_proxy) channels_.leave_later(static_cast<End&>(place));
}

bool Multiplex::on_turn(Place& place) {
  if (place.of != Place::Of::end) return transits_.on_turn(place);
  channels_.on_turn(static_cast<End&>(place));
  return true;
}

// ---- what arrives -----------------------------------------------------------------------------

void Multiplex::on_connect_request(RequestId request, Bytes hello, std::string_view peer_name) {
  if (!trunks_.admit(request, hello)) context_.outer->on_connect_request(request, hello, peer_name);
}

void Multiplex::on_connected(EndpointId endpoint, Bytes reply) {
  if (Trunk* const trunk = trunks_.of(endpoint)) trunks_.on_connected(*trunk, reply);
  else context_.outer->on_connected(endpoint, reply);
}

Verdict Multiplex::on_message(EndpointId endpoint, Bytes header, Bytes payload) {
  Trunk* const trunk = trunks_.of(endpoint);
  if (trunk == nullptr) return context_.outer->on_message(endpoint, header, payload);
  Prefix prefix;
  if (!decode(header, &prefix)) {
    trunks_.end(*trunk, CloseReason::protocol_error,
                "what came through it is no message of a channel");
    return Verdict::taken;
  }
  const Bytes rest = header.subspan(sizeof prefix);
  const auto kind = static_cast<Kind>(prefix.kind);
  if (kind == Kind::open) {
    if (!trunk->is_ours()) take_open(*trunk, prefix, rest, payload);
    return Verdict::taken;
  }
  Place* const place = trunk->channels.find(prefix.channel);
  if (place == nullptr) return Verdict::taken;  // it crossed our close
  if (carries_data(kind) || kind == Kind::taken) trunk->note_moved();
  if (place->of == Place::Of::end) channels_.take(static_cast<End&>(*place), prefix, rest, payload);
  else transits_.take(*place, prefix, rest, payload);
  return Verdict::taken;
}

std::byte* Multiplex::place_directly(EndpointId endpoint, Bytes header, uint64_t payload_bytes) {
  return trunks_.of(endpoint) != nullptr
             ? nullptr
             : context_.outer->place_directly(endpoint, header, payload_bytes);
}

std::byte* Multiplex::place_inline(EndpointId endpoint, Bytes header, uint64_t payload_bytes) {
  Trunk* const trunk = trunks_.of(endpoint);
  if (trunk == nullptr) return context_.outer->place_inline(endpoint, header, payload_bytes);
  Prefix prefix;
  if (!decode(header, &prefix)) return nullptr;
  return channels_.place_inline(*trunk, prefix, header.subspan(sizeof prefix), payload_bytes);
}

Verdict Multiplex::on_placed(EndpointId endpoint, Bytes header, uint64_t payload_bytes) {
  Trunk* const trunk = trunks_.of(endpoint);
  if (trunk == nullptr) return context_.outer->on_placed(endpoint, header, payload_bytes);
  const bool diverted = std::exchange(trunk->placing, no_endpoint) == no_endpoint;
  Prefix prefix;
  if (!diverted && decode(header, &prefix))
    channels_.on_placed(*trunk, prefix, header.size() - sizeof prefix, payload_bytes);
  return Verdict::taken;
}

void Multiplex::on_writable(EndpointId endpoint) {
  Trunk* const trunk = trunks_.of(endpoint);
  if (trunk == nullptr) return context_.outer->on_writable(endpoint);
  trunk->blocked = false;
  trunks_.serve(endpoint);
}

void Multiplex::on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) {
  if (Trunk* const trunk = trunks_.of(endpoint)) trunks_.on_closed(*trunk, reason, detail);
  else context_.outer->on_closed(endpoint, reason, detail);
}

// ---- what it takes ----------------------------------------------------------------------------

// Channels and trunks, on top of what the fabric beneath takes for the connections that they are
// made of.
fabric::Fabric::Memory Multiplex::memory() const {
  Memory memory = inner_->memory();
  memory.endpoint_bytes += channels_.memory_bytes() + trunks_.memory_bytes() +
                           transits_.memory_bytes();
  memory.fixed_bytes += sizeof *this + trunks_.fixed_bytes() + channels_.fixed_bytes();
  return memory;
}

fabric::Fabric::Traffic Multiplex::traffic() const {
  Traffic traffic = inner_->traffic();
  SKERRY_INVARIANT(channels_.asking() <= channels_.size(), "who asks has an end");
  traffic.endpoints_open += channels_.size() - channels_.asking() - trunks_.size();
  return traffic;
}

// ---- making -----------------------------------------------------------------------------------

Status make_proxy(std::unique_ptr<fabric::Fabric> inner, Options options,
                  std::unique_ptr<fabric::Fabric>* proxy) {
  SKERRY_TRY(connection::find_policy(options.victim));
  *proxy = std::make_unique<Multiplex>(std::move(inner), std::move(options), true);
  return {};
}

Status make_proxy_client(std::unique_ptr<fabric::Fabric> inner, Options options,
                         std::unique_ptr<fabric::Fabric>* client) {
  SKERRY_TRY(connection::find_policy(options.victim));
  *client = std::make_unique<Multiplex>(std::move(inner), std::move(options), false);
  return {};
}

}  // namespace skerry::share
