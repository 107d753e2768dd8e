#include "share/trunks.hpp"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "core/pure/container_bytes.hpp"
#include "core/thread.hpp"

namespace skerry::share {

using connection::Cap;

namespace {

// A trunk is no victim for this long while a channel on it has no answer: docs/design/0031.
constexpr Cap::Patience patience{4'000'000, 100'000'000};

}  // namespace

Trunks::Trunks(MultiplexContext& context, User& user)
    : context_(context), user_(user), cap_(patience), openings_(context.options.openings_before) {
  const Status limited = cap_.set_limit(context.options.max_trunks, context.options.victim);
  SKERRY_ASSERT(limited.ok(), "the maker has checked the policy's name");
}

// Servers are known here by their addresses alone.
connection::Peer Trunks::peer_of(std::string_view address) {
  unsigned char hash[crypto_generichash_BYTES_MIN];
  crypto_generichash(hash, sizeof hash, reinterpret_cast<const unsigned char*>(address.data()),
                     address.size(), nullptr, 0);
  connection::Peer peer{0, 0, version, connection::Role::server};
  std::memcpy(&peer.server_node, hash, sizeof peer.server_node);
  std::memcpy(&peer.server_index, hash + sizeof peer.server_node, sizeof peer.server_index);
  return peer;
}

// ---- opening ----------------------------------------------------------------------------------

Status Trunks::to(std::string address, Trunk** out) {
  const auto [named, is_new] = partners_.try_emplace(
      std::move(address), static_cast<connection::Partner>(partner_trunk_.size()));
  if (is_new) partner_trunk_.push_back(nullptr);
  const connection::Partner partner = named->second;
  if (partner_trunk_[partner] == nullptr) {
    Trunk& trunk = add();
    trunk.address = named->first;
    trunk.claim.partner = partner;
    partner_trunk_[partner] = &trunk;
    cap_.open(trunk.claim);
    give_slots();
    if (partner_trunk_[partner] == nullptr) {
      if (is_new) {  // an address that leads nowhere leaves no record behind
        partners_.erase(named);
        partner_trunk_.pop_back();
      }
      return begin_failure_;
    }
  }
  *out = partner_trunk_[partner];
  return {};
}

bool Trunks::has_room_for(const std::string& address) const {
  if (!cap_.at_limit()) return true;
  const auto named = partners_.find(address);
  return named != partners_.end() && partner_trunk_[named->second] != nullptr;
}

connection::Caller Trunks::caller() const {
  return {context_.options.key, context_.name(),
          context_.is_proxy ? connection::Role::trunk : connection::Role::proxy_client};
}

Status Trunks::begin(Trunk& trunk) {
  SKERRY_INVARIANT(trunk.state == State::waiting && trunk.id == no_endpoint, "it begins once");
  trunk.dialer = connection::Dialer(openings_++);
  const auto hello = trunk.dialer.dial(caller(), peer_of(trunk.address));
  SKERRY_TRY(context_.inner.connect(bytes_of(without_node(trunk.address)), hello, &trunk.id));
  by_id_.insert(&trunk);
  trunk.state = State::opening;
  if (context_.capabilities.early_messages && !(trunk.control.empty() && trunk.line.empty()))
    context_.defer([this, id = trunk.id] { serve(id); });
  cap_.hold(trunk.claim, Cap::Hold::occupied, monotonic_ns());
  context_.counters().trunks_opened.fetch_add(1, std::memory_order_relaxed);
  count_trunks();
  return {};
}

void Trunks::on_connected(Trunk& trunk, Bytes reply) {
  uint64_t applied = 0;
  if (Status status = trunk.dialer.check(caller(), peer_of(trunk.address), reply, &applied);
      !status.ok())
    return end(trunk, CloseReason::protocol_error, status.message());
  SKERRY_INVARIANT(trunk.state == State::opening, "it connects once");
  trunk.state = State::open;
  cap_.connected(trunk.claim, monotonic_ns());
  serve(trunk.id);
}

bool Trunks::admit(RequestId request, Bytes bytes) {
  using connection::Doorkeeper;
  using connection::Role;
  if (!context_.is_proxy) return false;
  const Doorkeeper door(context_.options.key, peer_of(context_.own_address));
  connection::Hello hello;
  Role role{};
  connection::Visitor* opener = nullptr;
  switch (door.knock(
      bytes, {Role::trunk, Role::proxy_client}, &hello, &role,
      [&](Role one, uint32_t name) {
        return opener = &openers_[static_cast<uint64_t>(one) << 32 | name];
      },
      [this](EndpointId old) {
        end(*of(old), CloseReason::reset, "its peer opened another one");
      })) {
    case Doorkeeper::Verdict::stranger: return false;
    case Doorkeeper::Verdict::replayed:
      warn(refusals_.line(door, bytes, Doorkeeper::Verdict::replayed, monotonic_ns()));
      context_.inner.reject(request, CloseReason::replayed);
      return true;
    case Doorkeeper::Verdict::welcome: break;
  }
  if (!context_.inner.accept(request, door.answer(hello), &opener->endpoint).ok()) return true;
  Trunk& trunk = add();
  trunk.id = opener->endpoint;
  trunk.state = State::open;
  trunk.of_rank = role == Role::proxy_client;
  trunk.name = hello.rank;
  trunk.opener = opener;
  by_id_.insert(&trunk);
  return true;
}

// ---- channels on a trunk ----------------------------------------------------------------------

void Trunks::join(Trunk& trunk, Place& place, uint32_t channel) {
  SKERRY_INVARIANT(place.trunk == nullptr && !trunk.channels.contains(channel),
                   "a place is on one trunk, and alone under its number");
  place.trunk = &trunk;
  place.channel = channel;
  trunk.channels.insert(&place);
  if (trunk.is_ours()) ++trunk.unanswered;
}

void Trunks::leave(Place& place, bool answered) {
  Trunk& trunk = *std::exchange(place.trunk, nullptr);
  trunk.channels.erase(place.channel);
  if (std::exchange(place.in_line, false)) trunk.line.remove(&place);
  SKERRY_INVARIANT(!trunk.is_ours() || answered || trunk.unanswered > 0,
                   "a channel without an answer was counted");
  if (trunk.is_ours() && !answered) --trunk.unanswered;
}

void Trunks::rest(Trunk& trunk) {
  if (!trunk.is_ours() || !trunk.channels.empty()) return;
  if (trunk.state != State::open) {
    end(trunk, CloseReason::by_us, {});
  } else {
    if (!context_.is_proxy) return;
    trunk.quiet_since_ns = monotonic_ns();
    context_.note_deadline(trunk.quiet_since_ns + context_.options.unused_trunk_ns);
  }
  if (cap_.anyone_waits()) context_.want_dispatch();
}

// ---- sending ----------------------------------------------------------------------------------

bool Trunks::try_send(Trunk& trunk, Bytes header, Bytes payload, bool more) {
  return may_send(trunk) && put(trunk, header, payload, more);
}

bool Trunks::put(Trunk& trunk, Bytes header, Bytes payload, bool more) {
  switch (context_.inner.send(trunk.id, header, payload, more, 0)) {
    case SendResult::accepted:
    case SendResult::closed: break;  // on_closed follows, and tells its channels
    case SendResult::would_block: trunk.blocked = true; return false;
  }
  return true;
}

void Trunks::flush_held() {
  for (const EndpointId id : dirty_)
    if (Trunk* trunk = of(id)) {
      trunk->dirty = false;
      (void)context_.inner.flush(id);
    }
  dirty_.clear();
}

void Trunks::control(Trunk& trunk, Kind kind, uint32_t channel, Bytes rest, Bytes payload,
                     uint64_t taken) {
  const Header header(prefix_of(kind, channel, taken), rest);
  if (!try_send(trunk, header.get(), payload, false)) trunk.control.push(header.get(), payload);
}

void Trunks::serve(EndpointId id) {
  Trunk* trunk = of(id);
  if (trunk == nullptr || !takes_messages(*trunk) || trunk->blocked) return;
  while (!trunk->control.empty()) {
    const Message& message = trunk->control.front();
    if (!put(*trunk, message.header, message.payload, true)) return;
    trunk->control.pop();
  }
  while (trunk != nullptr && may_send(*trunk) && !trunk->line.empty()) {
    Place& place = *trunk->line.front();
    SKERRY_INVARIANT(place.in_line && place.trunk == trunk, "who stands in line is on the trunk");
    trunk->line.pop_front();
    place.in_line = false;
    if (!user_.on_turn(place)) {
      place.in_line = true;
      trunk->line.push_front(&place);
      return;
    }
    trunk = of(id);
  }
  if (trunk != nullptr) flush(*trunk);
}

// ---- slots ------------------------------------------------------------------------------------

// Of a rank whose routes begin at several servers.
Status Trunks::limit(uint32_t connections) {
  SKERRY_TRY(cap_.set_limit(connections, context_.options.victim));
  give_slots();
  return {};
}

void Trunks::give_slots() {
  cap_.serve_queue([&](Cap::Claim& claim) {
    if (!take_slot()) return;
    cap_.withdraw(claim);
    Trunk& trunk = *partner_trunk_[claim.partner];
    // For example no descriptor is free. Its channels close, and their ranks try again.
    if (Status status = begin(trunk); !status.ok()) {
      begin_failure_ = std::move(status);
      end(trunk, CloseReason::unreachable, begin_failure_.message(), true);
    }
  });
}

// Returns false if no trunk could make way yet.
bool Trunks::take_slot() {
  const int64_t now_ns = monotonic_ns();
  Cap::Claim* victim = nullptr;
  const auto standing = [&](const Cap::Claim& claim) {
    const Trunk* const trunk = partner_trunk_[claim.partner];
    if (trunk == nullptr || trunk->state != State::open) return Cap::Standing::busy;
    if (is_unused(*trunk)) return Cap::Standing::unused;
    return trunk->unanswered > 0 ? Cap::Standing::unproven : Cap::Standing::settled;
  };
  switch (cap_.ask(now_ns, standing, &victim, context_.is_proxy)) {
    case Cap::Answer::granted: return true;
    case Cap::Answer::hasten: cap_.denied(now_ns); return false;  // its deadline ends it
    case Cap::Answer::wait: context_.note_deadline(cap_.look_again_ns()); return false;
    case Cap::Answer::evict: evict(*partner_trunk_[victim->partner]); return take_slot();
  }
  return false;
}

void Trunks::evict(Trunk& trunk) {
  SKERRY_INVARIANT(trunk.state == State::open, "only what is open makes way");
  const int64_t now_ns = monotonic_ns();
  context_.counters().trunks_evicted.fetch_add(1, std::memory_order_relaxed);
  if (is_unused(trunk)) return end(trunk, CloseReason::by_us, {});
  cap_.hold(trunk.claim, Cap::Hold::leaving, now_ns, true);
  partner_trunk_[trunk.claim.partner] = nullptr;
  trunk.state = State::leaving;
  trunk.quiet_since_ns = trunk.channels.empty() ? now_ns - context_.options.quiet_ns : now_ns;
  context_.note_deadline(trunk.quiet_since_ns + context_.options.quiet_ns);
  context_.want_dispatch();
  for (Place* const place : trunk.channels) user_.on_trunk_leaves(*place);
}

// ---- ending -----------------------------------------------------------------------------------

void Trunks::on_closed(Trunk& trunk, CloseReason reason, std::string_view detail) {
  // The end that opened a trunk ends it. A trunk that ends otherwise is lost, and that is no answer
  // to a bye of its channels.
  forget_endpoint(trunk);
  end(trunk, trunk.is_ours() && reason == CloseReason::by_peer ? CloseReason::reset : reason,
      detail);
}

void Trunks::forget_endpoint(Trunk& trunk) {
  by_id_.erase(trunk.id);
  if (!trunk.is_ours()) trunk.opener->endpoint = no_endpoint;
  if (context_.last_link.load(std::memory_order_relaxed) == trunk.id)
    context_.note_link(no_endpoint, no_endpoint);
  trunk.id = no_endpoint;
}

void Trunks::end(Trunk& trunk, CloseReason reason, std::string_view what, bool later) {
  const Places channels = std::exchange(trunk.channels, {});
  const std::string detail = channels.empty() ? std::string() : with_way(trunk, what);
  if (trunk.id != no_endpoint) {
    // Without channels it ends in order: what was said on it last goes out.
    if (channels.empty() && trunk.is_connected()) (void)context_.inner.flush(trunk.id);
    context_.inner.close(trunk.id);
    forget_endpoint(trunk);
  }
  if (trunk.is_ours()) {
    cap_.withdraw(trunk.claim);
    cap_.hold(trunk.claim, Cap::Hold::none, monotonic_ns());
    Trunk*& current = partner_trunk_[trunk.claim.partner];
    if (current == &trunk) current = nullptr;
    count_trunks();
  }
  all_.erase(trunk.self);
  for (Place* const place : channels) {
    SKERRY_INVARIANT(place->trunk == &trunk, "a trunk's channels are on it");
    place->trunk = nullptr;
    place->in_line = false;
  }
  if (!channels.empty()) user_.on_trunk_end(channels, reason, detail, later);
}

// A channel's target is not to blame for the servers on its way: the text says which one it was.
std::string Trunks::with_way(const Trunk& trunk, std::string_view what) const {
  NodeId node = no_node;
  if (!trunk.is_ours() || !read_node(trunk.address, &node)) return std::string(what);
  return concat(
      "the connection from ",
      context_.is_proxy ? concat("node ", context_.node()) : concat("rank ", context_.name()),
      " to the data server of node ", node, what.empty() ? "" : ": ", what);
}

void Trunks::end_overdue(int64_t now_ns) {
  std::vector<EndpointId> overdue;
  for (const Trunk& trunk : all_) {
    int64_t until_ns = INT64_MAX;
    if (trunk.state == State::leaving)
      until_ns = std::min(trunk.claim.since_ns + context_.options.leave_ns,
                          trunk.quiet_since_ns + context_.options.quiet_ns);
    else if (is_unused(trunk)) until_ns = trunk.quiet_since_ns + context_.options.unused_trunk_ns;
    if (until_ns <= now_ns) overdue.push_back(trunk.id);
    else if (until_ns != INT64_MAX) context_.note_deadline(until_ns);
  }
  for (const EndpointId id : overdue)
    if (Trunk* const trunk = of(id)) end(*trunk, CloseReason::reset, "its slot was needed");
}

// ---- what they take ---------------------------------------------------------------------------

void Trunks::count_trunks() {
  Counters& counters = context_.counters();
  counters.trunks.store(cap_.occupied() + cap_.leaving(), std::memory_order_relaxed);
  counters.trunks_peak.store(cap_.counters().peak, std::memory_order_relaxed);
}

uint64_t Trunks::memory_bytes() const {
  uint64_t bytes = by_id_.memory_bytes();
  for (const Trunk& trunk : all_)
    bytes += list_node_bytes<Trunk>() + trunk.channels.memory_bytes() +
             trunk.line.size() * list_node_bytes<Place*>() + trunk.control.bytes();
  return bytes;
}

uint64_t Trunks::fixed_bytes() const {
  return table_bytes(openers_) + table_bytes(partners_) + vector_bytes(partner_trunk_) +
         cap_.memory_bytes();
}

}  // namespace skerry::share
