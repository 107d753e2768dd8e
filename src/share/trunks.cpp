// Trunks: connections of the fabric beneath, their admission, and their slots when there is a
// limit.

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "core/futex.hpp"
#include "core/thread.hpp"
#include "share/multiplex.hpp"

namespace skerry::share {

using fabric::Bytes;
using fabric::CloseReason;
using fabric::EndpointId;
using fabric::SendResult;
using fabric::Verdict;

namespace {

// The ranks have this long to close their channels on a trunk that makes way. Then the proxy closes
// it, and what was outstanding is resumed on the next one. The proxy closes sooner if nothing came
// back for a while, because then the ranks are computing.
constexpr int64_t leave_ns = 100'000'000;
constexpr int64_t quiet_ns = 5'000'000;

}  // namespace

// Servers are known here by their addresses alone: these say which host and port.
connection::Peer Multiplex::peer_of(std::string_view address) const {
  unsigned char hash[crypto_generichash_BYTES_MIN];
  crypto_generichash(hash, sizeof hash, reinterpret_cast<const unsigned char*>(address.data()),
                     address.size(), nullptr, 0);
  connection::Peer peer{0, 0, version, connection::Role::server};
  std::memcpy(&peer.server_node, hash, sizeof peer.server_node);
  std::memcpy(&peer.server_index, hash + sizeof peer.server_node, sizeof peer.server_index);
  return peer;
}

Multiplex::Trunk* Multiplex::trunk_of(EndpointId id) { return by_id_.find(id); }

// ---- opening ----------------------------------------------------------------------------------

Status Multiplex::trunk_to(std::string address, Trunk** out) {
  if (const auto found = by_address_.find(address); found != by_address_.end()) {
    *out = found->second;
    return {};
  }
  Trunk& trunk = trunks_.emplace_back();
  trunk.self = std::prev(trunks_.end());
  trunk.use = is_proxy() ? Use::outgoing : Use::link;
  trunk.address = std::move(address);
  by_address_[trunk.address] = &trunk;
  *out = &trunk;
  if (cap_.limit() != 0 || limits_connections()) name_partner(trunk);
  if (cap_.limit() != 0) {
    const std::string wanted = trunk.address;
    cap_.open(trunk.claim);
    give_slots();
    const auto still = by_address_.find(wanted);
    if (still == by_address_.end() || still->second != &trunk) return begin_failure_;
    return {};
  }
  if (Status status = begin(trunk); !status.ok()) {
    remove(trunk);
    return status;
  }
  return {};
}

// What the victim policy calls it: the same name whenever a trunk leads to this address.
void Multiplex::name_partner(Trunk& trunk) {
  const auto [partner, is_new] = partners_.try_emplace(
      trunk.address, static_cast<connection::Partner>(partner_trunk_.size()));
  if (is_new) partner_trunk_.push_back(nullptr);
  trunk.claim.partner = partner->second;
  partner_trunk_[trunk.claim.partner] = &trunk;
}

Status Multiplex::begin(Trunk& trunk) {
  trunk.generation = ++openings_;
  const auto role = trunk.use == Use::outgoing ? connection::Role::trunk
                                               : connection::Role::proxy_client;
  const auto hello = connection::make_hello(options_.key, peer_of(trunk.address), options_.name,
                                            trunk.generation, role);
  SKERRY_TRY(inner_->connect(bytes_of(without_node(trunk.address)), hello, &trunk.id));
  by_id_.insert(&trunk);
  trunk.phase = Phase::opening;
  if (capabilities_.early_messages && !(trunk.control.empty() && trunk.line.empty()))
    defer({Deferred::What::serve, trunk.id, CloseReason::by_us, {}});
  cap_.hold(trunk.claim, connection::Cap::Hold::occupied, monotonic_ns());
  options_.counters->trunks_opened.fetch_add(1, std::memory_order_relaxed);
  count_trunks();
  return {};
}

void Multiplex::on_connected(EndpointId endpoint, Bytes reply) {
  Trunk* const trunk = trunk_of(endpoint);
  if (trunk == nullptr) return Forward::on_connected(endpoint, reply);
  uint64_t applied = 0;
  const connection::Hello hello{options_.name, trunk->generation, {}};
  if (Status status = connection::check_answer(options_.key, peer_of(trunk->address), hello, reply,
                                               &applied);
      !status.ok()) {
    inner_->close(endpoint);
    lose(*trunk, CloseReason::protocol_error, status.message());
    return;
  }
  SKERRY_INVARIANT(trunk->phase == Phase::opening, "it connects once");
  trunk->phase = Phase::open;
  cap_.connected(trunk->claim, monotonic_ns());
  serve(endpoint);
}

void Multiplex::on_connect_request(fabric::RequestId request, Bytes bytes,
                                   std::string_view peer_name) {
  const connection::Peer self = peer_of(own_address_);
  connection::Hello hello;
  if (is_proxy() &&
      connection::check_hello(options_.key, self, bytes, &hello, connection::Role::trunk).ok())
    return admit(request, Use::incoming, hello);
  if (is_proxy() &&
      connection::check_hello(options_.key, self, bytes, &hello, connection::Role::proxy_client)
          .ok())
    return admit(request, Use::client, hello);
  Forward::on_connect_request(request, bytes, peer_name);
}

void Multiplex::admit(fabric::RequestId request, Use use, const connection::Hello& hello) {
  const uint64_t key = opener_key(use, hello.rank);
  Opener& opener = openers_[key];
  if (hello.generation <= opener.newest)
    return inner_->reject(request);  // recorded, or overtaken by its successor
  opener.newest = hello.generation;
  // Its earlier one broke without our noticing, or is just closing.
  if (Trunk* const old = opener.trunk) {
    inner_->close(old->id);
    lose(*old, CloseReason::reset, "its peer opened another one");
  }
  EndpointId id = fabric::no_endpoint;
  if (!inner_
           ->accept(request, connection::make_answer(options_.key, peer_of(own_address_), hello, 0),
                    &id)
           .ok())
    return;  // gone meanwhile
  Trunk& trunk = trunks_.emplace_back();
  trunk.self = std::prev(trunks_.end());
  trunk.id = id;
  trunk.use = use;
  trunk.phase = Phase::open;
  trunk.name = hello.rank;
  by_id_.insert(&trunk);
  openers_[key].trunk = &trunk;
}

// ---- closing ----------------------------------------------------------------------------------

void Multiplex::on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) {
  Trunk* const trunk = trunk_of(endpoint);
  if (trunk == nullptr) return Forward::on_closed(endpoint, reason, detail);
  // The end that opened a trunk ends it. A trunk that ends otherwise is lost, and that is no answer
  // to a bye of its channels.
  lose(*trunk, trunk->is_ours() && reason == CloseReason::by_peer ? CloseReason::reset : reason,
       detail);
}

// A channel's target is not to blame for the servers on its way: the text says which one it was.
std::string Multiplex::with_way(const Trunk& trunk, std::string_view what) const {
  NodeId node = no_node;
  if (!trunk.is_ours() || !read_node(trunk.address, &node)) return std::string(what);
  return concat("the connection from ",
                is_proxy() ? concat("node ", options_.node) : concat("rank ", options_.name),
                " to the data server of node ", node, what.empty() ? "" : ": ", what);
}

// Closes the channels on a trunk whose endpoint is closed.
void Multiplex::lose(Trunk& trunk, CloseReason reason, std::string_view what) {
  const std::string detail = with_way(trunk, what);
  const auto channels = std::exchange(trunk.channels, {});
  std::vector<EndpointId> ends;
  std::vector<std::pair<Transit*, int>> transits;
  for (const Route route : channels) {
    if (End* const end = route.end()) {
      end->trunk = nullptr;
      end->in_line = false;
      end->outgoing.reset();
      ends.push_back(end->id);
    } else {
      Half& half = route.transit()->half[route.side()];  // its line goes with the trunk
      half.trunk = nullptr;
      half.in_line = false;
      half.waiting.clear();
      transits.emplace_back(route.transit(), route.side());
    }
  }
  remove(trunk);
  for (const auto& [transit, side] : transits) leave_transit(*transit, side, reason, detail);
  for (const EndpointId id : ends) fail(id, reason, detail);
}

// Forgets a trunk whose channels have gone.
void Multiplex::remove(Trunk& trunk) {
  if (const auto found = by_address_.find(trunk.address);
      found != by_address_.end() && found->second == &trunk)
    by_address_.erase(found);
  if (trunk.id != fabric::no_endpoint) {
    by_id_.erase(trunk.id);
    if (last_link_.load(std::memory_order_relaxed) == trunk.id)
      note_link(fabric::no_endpoint, fabric::no_endpoint);
  }
  if (trunk.is_ours()) {
    cap_.withdraw(trunk.claim);
    cap_.hold(trunk.claim, connection::Cap::Hold::none, monotonic_ns());
    if (trunk.claim.partner < partner_trunk_.size() &&
        partner_trunk_[trunk.claim.partner] == &trunk)
      partner_trunk_[trunk.claim.partner] = nullptr;
    count_trunks();
  } else if (const auto opener = openers_.find(opener_key(trunk.use, trunk.name));
             opener != openers_.end() && opener->second.trunk == &trunk) {
    opener->second.trunk = nullptr;
  }
  trunks_.erase(trunk.self);
}

void Multiplex::remove_if_unused(Trunk& trunk) {
  if (!trunk.is_ours() || !trunk.channels.empty()) return;
  if (trunk.is_kept()) {
    if (trunk.use == Use::link) return;
    trunk.quiet_since_ns = monotonic_ns();
    note_deadline(trunk.quiet_since_ns + options_.unused_trunk_ns);
    if (cap_.anyone_waits()) want_dispatch();
    return;
  }
  if (trunk.id != fabric::no_endpoint) {
    if (trunk.is_connected()) (void)inner_->flush(trunk.id);
    inner_->close(trunk.id);
  }
  remove(trunk);
  if (cap_.anyone_waits()) want_dispatch();
}

void Multiplex::count_trunks() {
  Counters& counters = *options_.counters;
  const uint64_t now = cap_.occupied() + cap_.leaving();
  counters.trunks.store(now, std::memory_order_relaxed);
  if (now > counters.trunks_peak.load(std::memory_order_relaxed))
    counters.trunks_peak.store(now, std::memory_order_relaxed);
}

// ---- sending ----------------------------------------------------------------------------------

// False: nothing was taken; on_writable or on_connected follows.
bool Multiplex::try_send(Trunk& trunk, Bytes header, Bytes payload, bool more) {
  if (!may_send(trunk)) return false;
  switch (inner_->send(trunk.id, header, payload, more, 0)) {
    case SendResult::accepted:
    case SendResult::closed: break;  // on_closed follows, and tells its channels
    case SendResult::would_block: trunk.blocked = true; return false;
  }
  return true;
}

void Multiplex::control(Trunk& trunk, Kind kind, uint32_t channel, Bytes rest, Bytes payload,
                        uint64_t taken) {
  const Header header(Prefix{version, static_cast<uint8_t>(kind), 0, channel, taken}, rest);
  if (!try_send(trunk, header.get(), payload, false)) trunk.control.push(header.get(), payload);
}

void Multiplex::on_writable(EndpointId endpoint) {
  Trunk* const trunk = trunk_of(endpoint);
  if (trunk == nullptr) return Forward::on_writable(endpoint);
  trunk->blocked = false;
  serve(endpoint);
}

// Sends what waits for room, a message of each channel in turn.
void Multiplex::serve(EndpointId id) {
  Trunk* trunk = trunk_of(id);
  while (trunk != nullptr && takes_messages(*trunk) && !trunk->control.empty()) {
    Message message = trunk->control.take();
    Kept rest;
    rest.swap(trunk->control);  // they do not stand in its way
    const bool sent = try_send(*trunk, message.header, message.payload, true);
    rest.swap(trunk->control);
    if (!sent) {
      trunk->control.put_back(std::move(message));
      return;
    }
  }
  while (trunk != nullptr && may_send(*trunk) && !trunk->line.empty()) {
    const Waiter waiter = trunk->line.front();
    trunk->line.pop_front();
    if (waiter.transit == nullptr) {
      if (End* end = end_of(waiter.end)) {
        end->in_line = false;
        ++upcalls_;
        if (end->outgoing) now_writable(*end);
        else outer_->on_writable(waiter.end);
      }
    } else {
      Half& half = waiter.transit->half[waiter.side];
      const Message& message = half.waiting.front();
      if (!try_send(*trunk, message.header, message.payload, true)) {
        trunk->line.push_front(waiter);
        return;
      }
      half.waiting.pop();
      half.in_line = !half.waiting.empty();
      if (half.in_line) trunk->line.push_back(waiter);
      else if (waiter.transit->half[1 - waiter.side].trunk == nullptr) finish(*waiter.transit);
    }
    trunk = trunk_of(id);
  }
  if (trunk != nullptr && takes_messages(*trunk)) (void)inner_->flush(id);
}

void Multiplex::leave_line(Trunk& trunk, const Waiter& waiter) {
  std::erase_if(trunk.line, [&](const Waiter& w) {
    return w.end == waiter.end && w.transit == waiter.transit && w.side == waiter.side;
  });
}

// ---- slots ------------------------------------------------------------------------------------

// Gives slots in the order of asking: at once when one is asked for, and to waiters at the end of
// each dispatch.
// Not from within what happened there: a newcomer that fails at once takes its channels with it,
// which may be just those that lose or on_message is about to tell.
void Multiplex::give_slots() {
  cap_.serve_queue([&](connection::Cap::Claim& claim) {
    if (!take_slot()) return;
    cap_.withdraw(claim);
    Trunk& trunk = *partner_trunk_[claim.partner];
    if (Status status = begin(trunk); !status.ok()) begin_failed(trunk, std::move(status));
  });
}

// A trunk could not begin to connect, for example because no descriptor is free. Its channels
// close, and their ranks try again.
void Multiplex::begin_failed(Trunk& trunk, Status status) {
  // Channels that end here are told in dispatch: we may be inside connect.
  std::vector<End*> ends;
  for (const Route route : trunk.channels)
    if (route.end() != nullptr) ends.push_back(route.end());
  for (End* const end : ends) {
    defer({Deferred::What::fail, end->id, CloseReason::unreachable, status.message()});
    trunk.channels.erase(end->channel);
    end->trunk = nullptr;
  }
  begin_failure_ = std::move(status);
  lose(trunk, CloseReason::unreachable, begin_failure_.message());
}

// Ends a trunk without channels, if there is one. It goes before any victim of the policy.
void Multiplex::end_unused_trunk() {
  const auto unused = std::find_if(trunks_.begin(), trunks_.end(), [](const Trunk& trunk) {
    return trunk.use == Use::outgoing && trunk.phase == Phase::open && trunk.channels.empty();
  });
  if (unused == trunks_.end()) return;
  options_.counters->trunks_evicted.fetch_add(1, std::memory_order_relaxed);
  (void)inner_->flush(unused->id);
  inner_->close(unused->id);
  remove(*unused);
}

// Returns false if no trunk could make way yet.
bool Multiplex::take_slot() {
  using connection::Cap;
  if (cap_.at_limit()) end_unused_trunk();
  const int64_t now_ns = monotonic_ns();
  connection::Partner victim = 0;
  const auto standing = [&](connection::Partner partner, int64_t* since_ns) {
    const Trunk* const trunk = partner_trunk_[partner];
    if (trunk == nullptr || trunk->phase != Phase::open) return Cap::Standing::busy;
    *since_ns = trunk->claim.since_ns;
    return trunk->unanswered > 0 ? Cap::Standing::unproven : Cap::Standing::settled;
  };
  switch (cap_.ask(now_ns, standing, &victim)) {
    case Cap::Answer::granted: return true;
    case Cap::Answer::hasten: cap_.denied(now_ns); return false;  // its deadline ends it
    case Cap::Answer::wait: note_deadline(cap_.look_again_ns()); return false;
    case Cap::Answer::evict: evict(*partner_trunk_[victim]); return !cap_.at_limit();
  }
  return false;
}

void Multiplex::evict(Trunk& trunk) {
  SKERRY_INVARIANT(trunk.phase == Phase::open, "only what is open makes way");
  const int64_t now_ns = monotonic_ns();
  options_.counters->trunks_evicted.fetch_add(1, std::memory_order_relaxed);
  cap_.hold(trunk.claim, connection::Cap::Hold::leaving, now_ns, true);
  partner_trunk_[trunk.claim.partner] = nullptr;
  by_address_.erase(trunk.address);
  trunk.phase = Phase::leaving;
  trunk.quiet_since_ns = trunk.channels.empty() ? now_ns - quiet_ns : now_ns;
  note_deadline(trunk.quiet_since_ns + quiet_ns);
  want_dispatch();
  for (const Route route : trunk.channels)
    if (route.end() != nullptr && trunk.use == Use::link)
      defer({Deferred::What::leave, route.end()->id, CloseReason::by_us, {}});
    else if (route.transit() != nullptr && route.transit()->half[0].trunk != nullptr)
      (void)pass(*route.transit(), 0, Prefix{version, static_cast<uint8_t>(Kind::leave), 0, 0, 0},
                 {}, {});
}

void Multiplex::run_deadlines() {
  const int64_t now_ns = monotonic_ns();
  if (now_ns < deadline_ns_.load(std::memory_order_relaxed)) return;
  deadline_ns_.store(INT64_MAX, std::memory_order_relaxed);
  std::vector<EndpointId> late;
  for (const End* const end : ends_) {
    if (end->state != State::opening) continue;
    // Its trunk has not begun to connect: nobody could have answered.
    if (end->trunk != nullptr && end->trunk->phase == Phase::waiting)
      end->rare->deadline_ns = now_ns + options_.connect_timeout_ns;
    if (end->rare->deadline_ns <= now_ns) late.push_back(end->id);
    else note_deadline(end->rare->deadline_ns);
  }
  for (const EndpointId id : late) {
    End* const end = end_of(id);
    if (end == nullptr) continue;
    if (Trunk* const trunk = end->trunk) {
      detach(*end);
      control(*trunk, Kind::closed, end->channel, bytes_of(closed_text(CloseReason::timed_out, {})),
              {});
      remove_if_unused(*trunk);
    }
    fail(id, CloseReason::timed_out, "the data server did not answer in time");
  }
  end_trunks(now_ns);
}

// Those that make way and have no time left, and those that nobody has used for a while.
void Multiplex::end_trunks(int64_t now_ns) {
  std::vector<EndpointId> overdue;
  for (const Trunk& trunk : trunks_) {
    int64_t until_ns = INT64_MAX;
    if (trunk.phase == Phase::leaving)
      until_ns = std::min(trunk.claim.since_ns + leave_ns, trunk.quiet_since_ns + quiet_ns);
    else if (trunk.use == Use::outgoing && trunk.phase == Phase::open && trunk.channels.empty())
      until_ns = trunk.quiet_since_ns + options_.unused_trunk_ns;
    if (until_ns <= now_ns) overdue.push_back(trunk.id);
    else if (until_ns != INT64_MAX) note_deadline(until_ns);
  }
  for (const EndpointId id : overdue)
    if (Trunk* const trunk = trunk_of(id)) {
      inner_->close(id);
      lose(*trunk, CloseReason::reset, "its slot was needed");
    }
}

}  // namespace skerry::share
