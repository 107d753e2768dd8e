// Carriers: connections of the fabric beneath, their admission, and their places when there is a
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

// A carrier that makes place has so long to be left in order; then it is closed, and what was under
// way is resumed on the next one. Sooner if nothing came back for a while: its ranks are deep in
// computation.
constexpr int64_t leave_ns = 100'000'000;
constexpr int64_t quiet_ns = 5'000'000;
// So long a carrier is nobody's victim while a channel on it has no answer yet: else, on a slow
// machine, nobody might ever get one.
constexpr int64_t fresh_ns = 100'000'000;

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

Multiplex::Carrier* Multiplex::carrier_of(EndpointId id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

// ---- opening ----------------------------------------------------------------------------------

Status Multiplex::carrier_to(std::string address, Carrier** out) {
  if (const auto found = by_address_.find(address); found != by_address_.end()) {
    *out = found->second;
    return {};
  }
  Carrier& carrier = carriers_.emplace_back();
  carrier.place = std::prev(carriers_.end());
  carrier.use = is_hub() ? Use::outgoing : Use::link;
  carrier.address = std::move(address);
  by_address_[carrier.address] = &carrier;
  *out = &carrier;
  if (options_.policy) {
    const auto [partner, is_new] = partners_.try_emplace(
        carrier.address, static_cast<connection::Partner>(partner_carrier_.size()));
    if (is_new) partner_carrier_.push_back(nullptr);
    carrier.partner = partner->second;
    const std::string wanted = carrier.address;
    wanted_.push_back(&carrier);
    advance_wanted();
    const auto still = by_address_.find(wanted);
    if (still == by_address_.end() || still->second != &carrier) return begin_failure_;
    return {};
  }
  if (Status status = begin(carrier); !status.ok()) {
    remove(carrier);
    return status;
  }
  return {};
}

Status Multiplex::begin(Carrier& carrier) {
  carrier.generation = ++generation_;
  random_bytes(&carrier.nonce, sizeof carrier.nonce);
  const auto role = carrier.use == Use::outgoing ? connection::Role::carrier
                                                 : connection::Role::member;
  const auto hello = connection::make_hello(options_.key, peer_of(carrier.address), options_.name,
                                            carrier.generation, carrier.nonce, role);
  SKERRY_TRY(inner_->connect(bytes_of(carrier.address), hello, &carrier.id));
  by_id_[carrier.id] = &carrier;
  carrier.since_ns = monotonic_ns();
  if (carrier.use == Use::outgoing) {
    ++occupied_;
    options_.counters->carriers_opened.fetch_add(1, std::memory_order_relaxed);
    count_carriers();
  }
  return {};
}

void Multiplex::on_connected(EndpointId endpoint, Bytes reply) {
  Carrier* const carrier = carrier_of(endpoint);
  if (carrier == nullptr) return Forward::on_connected(endpoint, reply);
  uint64_t applied = 0;
  const connection::Hello hello{options_.name, carrier->generation, carrier->nonce, {}};
  if (Status status = connection::check_answer(options_.key, peer_of(carrier->address), hello,
                                               reply, &applied);
      !status.ok()) {
    inner_->close(endpoint);
    lose(*carrier, CloseReason::protocol_error, status.message());
    return;
  }
  carrier->connected = true;
  carrier->since_ns = monotonic_ns();
  if (carrier->use == Use::link) link_id_.store(endpoint, std::memory_order_relaxed);
  serve(endpoint);
}

void Multiplex::on_connect_request(fabric::RequestId request, Bytes bytes,
                                   std::string_view peer_name) {
  const connection::Peer self = peer_of(own_address_);
  connection::Hello hello;
  if (is_hub() &&
      connection::check_hello(options_.key, self, bytes, &hello, connection::Role::carrier).ok())
    return admit(request, Use::incoming, hello);
  if (is_hub() &&
      connection::check_hello(options_.key, self, bytes, &hello, connection::Role::member).ok())
    return admit(request, Use::member, hello);
  Forward::on_connect_request(request, bytes, peer_name);
}

void Multiplex::admit(fabric::RequestId request, Use use, const connection::Hello& hello) {
  uint32_t& newest = generations_[static_cast<uint64_t>(use) << 32 | hello.rank];
  if (hello.generation <= newest)
    return inner_->reject(request);  // recorded, or overtaken by its successor
  newest = hello.generation;
  // Its earlier one broke without our noticing, or is just closing.
  for (Carrier& old : carriers_) {
    if (old.use != use || old.name != hello.rank) continue;
    inner_->close(old.id);
    lose(old, CloseReason::reset, "its peer opened another one");
    break;
  }
  EndpointId id = fabric::no_endpoint;
  if (!inner_
           ->accept(request, connection::make_answer(options_.key, peer_of(own_address_), hello, 0),
                    &id)
           .ok())
    return;  // gone meanwhile
  Carrier& carrier = carriers_.emplace_back();
  carrier.place = std::prev(carriers_.end());
  carrier.id = id;
  carrier.use = use;
  carrier.connected = true;
  carrier.name = hello.rank;
  by_id_[id] = &carrier;
}

// ---- closing ----------------------------------------------------------------------------------

void Multiplex::on_closed(EndpointId endpoint, CloseReason reason, std::string_view detail) {
  Carrier* const carrier = carrier_of(endpoint);
  if (carrier == nullptr) return Forward::on_closed(endpoint, reason, detail);
  // Whoever opened it ends it. Otherwise it is lost, and that is no answer to a bye of its
  // channels.
  lose(*carrier, carrier->is_ours() && reason == CloseReason::by_peer ? CloseReason::reset : reason,
       detail);
}

// Its endpoint is closed: so are the channels on it.
void Multiplex::lose(Carrier& carrier, CloseReason reason, std::string_view detail) {
  const auto channels = std::move(carrier.channels);
  carrier.channels.clear();
  std::vector<EndpointId> ends;
  std::vector<std::pair<Transit*, int>> transits;
  for (const auto& [channel, route] : channels) {
    if (route.end != nullptr) {
      route.end->carrier = nullptr;
      route.end->in_line = false;
      ends.push_back(route.end->id);
    } else {
      Half& half = route.transit->half[route.side];  // its line goes with the carrier
      half.carrier = nullptr;
      half.in_line = false;
      half.waiting.clear();
      transits.emplace_back(route.transit, route.side);
    }
  }
  remove(carrier);
  for (const auto& [transit, side] : transits) leave_transit(*transit, side, reason, detail);
  for (const EndpointId id : ends) fail(id, reason, detail);
}

// Forgets it. Its channels have gone.
void Multiplex::remove(Carrier& carrier) {
  if (const auto found = by_address_.find(carrier.address);
      found != by_address_.end() && found->second == &carrier)
    by_address_.erase(found);
  if (carrier.use == Use::link) link_id_.store(fabric::no_endpoint, std::memory_order_relaxed);
  if (carrier.id == fabric::no_endpoint) {
    std::erase(wanted_, &carrier);
  } else {
    by_id_.erase(carrier.id);
    if (carrier.use == Use::outgoing) {
      if (options_.policy && partner_carrier_[carrier.partner] == &carrier) {
        options_.policy->closed(carrier.partner, false);
        partner_carrier_[carrier.partner] = nullptr;
      }
      --(carrier.leaving ? leaving_ : occupied_);
      count_carriers();
    }
  }
  carriers_.erase(carrier.place);
}

void Multiplex::remove_if_unused(Carrier& carrier) {
  if (carrier.use != Use::outgoing || !carrier.channels.empty()) return;
  if (carrier.id != fabric::no_endpoint) {
    if (carrier.connected) (void)inner_->flush(carrier.id);
    inner_->close(carrier.id);
  }
  remove(carrier);
  if (!wanted_.empty()) want_dispatch();
}

void Multiplex::count_carriers() {
  Counters& counters = *options_.counters;
  const uint64_t now = occupied_ + leaving_;
  counters.carriers.store(now, std::memory_order_relaxed);
  if (now > counters.carriers_peak.load(std::memory_order_relaxed))
    counters.carriers_peak.store(now, std::memory_order_relaxed);
}

// ---- sending ----------------------------------------------------------------------------------

// False: nothing was taken; on_writable or on_connected follows.
bool Multiplex::try_send(Carrier& carrier, Bytes header, Bytes payload, bool more) {
  if (!carrier.may_send()) return false;
  switch (inner_->send(carrier.id, header, payload, more, 0)) {
    case SendResult::accepted:
    case SendResult::closed: break;  // on_closed follows, and tells its channels
    case SendResult::would_block: carrier.blocked = true; return false;
  }
  return true;
}

void Multiplex::control(Carrier& carrier, Kind kind, uint32_t channel, Bytes rest, Bytes payload,
                        uint64_t taken) {
  const Header header(Prefix{version, static_cast<uint8_t>(kind), 0, channel, taken}, rest);
  if (!try_send(carrier, header.get(), payload, false))
    carrier.control.emplace_back(header.get(), payload);
}

void Multiplex::on_writable(EndpointId endpoint) {
  Carrier* const carrier = carrier_of(endpoint);
  if (carrier == nullptr) return Forward::on_writable(endpoint);
  carrier->blocked = false;
  serve(endpoint);
}

// Sends what waits for room, a message of each channel in turn.
void Multiplex::serve(EndpointId id) {
  Carrier* carrier = carrier_of(id);
  while (!carrier->control.empty()) {
    const Message message = std::move(carrier->control.front());
    carrier->control.pop_front();
    std::deque<Message> rest;
    rest.swap(carrier->control);  // they do not stand in its way
    const bool sent = try_send(*carrier, message.header, message.payload, true);
    rest.swap(carrier->control);
    if (!sent) {
      carrier->control.push_front(message);
      return;
    }
  }
  while (carrier != nullptr && carrier->may_send() && !carrier->line.empty()) {
    const Waiter waiter = carrier->line.front();
    carrier->line.pop_front();
    if (waiter.transit == nullptr) {
      if (End* end = end_of(waiter.end)) {
        end->in_line = false;
        ++upcalls_;
        outer_->on_writable(waiter.end);
      }
    } else {
      Half& half = waiter.transit->half[waiter.side];
      const Message& message = half.waiting.front();
      if (!try_send(*carrier, message.header, message.payload, true)) {
        carrier->line.push_front(waiter);
        return;
      }
      half.waiting.pop_front();
      half.in_line = !half.waiting.empty();
      if (half.in_line) carrier->line.push_back(waiter);
      else if (waiter.transit->half[1 - waiter.side].carrier == nullptr) finish(*waiter.transit);
    }
    carrier = carrier_of(id);
  }
  if (carrier != nullptr && carrier->connected) (void)inner_->flush(id);
}

void Multiplex::leave_line(Carrier& carrier, const Waiter& waiter) {
  std::erase_if(carrier.line, [&](const Waiter& w) {
    return w.end == waiter.end && w.transit == waiter.transit && w.side == waiter.side;
  });
}

// ---- places -----------------------------------------------------------------------------------

// Gives places in the order of asking: to who asks, and to who waits at the end of each dispatch.
// Not from within what happened there: a newcomer that fails at once takes its channels with it,
// which may be just those that lose or on_message is about to tell.
void Multiplex::advance_wanted() {
  while (!wanted_.empty()) {
    if (occupied_ >= options_.max_carriers && !make_place()) return;
    Carrier& carrier = *wanted_.front();
    wanted_.pop_front();
    const Status status = begin(carrier);
    if (status.ok()) {
      options_.policy->opened(carrier.partner);
      partner_carrier_[carrier.partner] = &carrier;
      continue;
    }
    for (const auto& [channel, route] :
         carrier.channels)  // told in dispatch: we may be inside connect
      if (route.end != nullptr)
        defer({Deferred::What::fail, route.end->id, CloseReason::unreachable, status.message()});
    std::erase_if(carrier.channels, [](const auto& one) {
      if (one.second.end != nullptr) one.second.end->carrier = nullptr;
      return one.second.end != nullptr;
    });
    begin_failure_ = status;
    lose(carrier, CloseReason::unreachable, status.message());
  }
}

// One at a time leaves, and the newcomer opens meanwhile. False: somebody is leaving already, or
// all are fresh; that ends.
bool Multiplex::make_place() {
  if (leaving_ > 0) return false;
  const int64_t now_ns = monotonic_ns();
  const auto victim = options_.policy->choose([&](connection::Partner partner) {
    const Carrier* const carrier = partner_carrier_[partner];
    if (carrier == nullptr || !carrier->connected || carrier->leaving) return true;
    if (carrier->unanswered == 0 || now_ns - carrier->since_ns >= fresh_ns) return false;
    note_deadline(carrier->since_ns + fresh_ns);
    return true;
  });
  if (!victim) return false;
  evict(*partner_carrier_[*victim]);
  return true;
}

void Multiplex::evict(Carrier& carrier) {
  options_.counters->carriers_evicted.fetch_add(1, std::memory_order_relaxed);
  options_.policy->closed(carrier.partner, true);
  partner_carrier_[carrier.partner] = nullptr;
  by_address_.erase(carrier.address);
  carrier.leaving = true;
  --occupied_;
  ++leaving_;
  carrier.since_ns = carrier.heard_ns = monotonic_ns();
  note_deadline(carrier.since_ns + quiet_ns);
  for (const auto& [channel, route] : carrier.channels)
    if (route.transit != nullptr && route.transit->half[0].carrier != nullptr)
      (void)pass(*route.transit, 0, Prefix{version, static_cast<uint8_t>(Kind::leave), 0, 0, 0}, {},
                 {});
}

void Multiplex::run_deadlines() {
  const int64_t now_ns = monotonic_ns();
  if (now_ns < deadline_ns_.load(std::memory_order_relaxed)) return;
  deadline_ns_.store(INT64_MAX, std::memory_order_relaxed);
  std::vector<EndpointId> late;
  for (const auto& [id, end] : ends_) {
    if (end->state != State::opening) continue;
    if (end->deadline_ns <= now_ns) late.push_back(id);
    else note_deadline(end->deadline_ns);
  }
  for (const EndpointId id : late) {
    End* const end = end_of(id);
    if (end == nullptr) continue;
    if (Carrier* const carrier = std::exchange(end->carrier, nullptr)) {
      carrier->channels.erase(end->channel);
      control(*carrier, Kind::closed, end->channel,
              bytes_of(closed_text(CloseReason::timed_out, {})), {});
      remove_if_unused(*carrier);
    }
    fail(id, CloseReason::timed_out, "the data server did not answer in time");
  }
  Carrier* overdue = nullptr;
  for (Carrier& carrier : carriers_) {
    if (!carrier.leaving) continue;
    const int64_t until_ns = std::min(carrier.since_ns + leave_ns, carrier.heard_ns + quiet_ns);
    if (until_ns <= now_ns) overdue = &carrier;  // one at a time leaves
    else note_deadline(until_ns);
  }
  if (overdue != nullptr) {
    inner_->close(overdue->id);
    lose(*overdue, CloseReason::reset, "its place was needed");
  }
}

}  // namespace skerry::share
