// Channels on their way through this server, and messages as they arrive on trunks.
#include <algorithm>

#include "core/futex.hpp"
#include "share/multiplex.hpp"

namespace skerry::share {

using fabric::Bytes;
using fabric::CloseReason;
using fabric::EndpointId;
using fabric::Verdict;

namespace {

// Below this a message that is passed on waits for the end of the round, to travel with others.
constexpr uint64_t hold_below_bytes = 8 * 1024;

}  // namespace

Verdict Multiplex::on_message(EndpointId endpoint, Bytes header, Bytes payload) {
  Trunk* const trunk = trunk_of(endpoint);
  if (trunk == nullptr) return Forward::on_message(endpoint, header, payload);
  Prefix prefix;
  if (!decode(header, &prefix)) {
    inner_->close(endpoint);
    lose(*trunk, CloseReason::protocol_error, "what came through it is no message of a channel");
    return Verdict::taken;
  }
  const Bytes rest = header.subspan(sizeof prefix);
  if (static_cast<Kind>(prefix.kind) == Kind::open) {
    if (!trunk->is_ours()) take_open(*trunk, prefix, rest, payload);
    return Verdict::taken;
  }
  const Route route = trunk->channels.find(prefix.channel);
  if (route == Route{}) return Verdict::taken;  // it crossed our close
  const bool is_data = carries_data(static_cast<Kind>(prefix.kind));
  const bool moves = is_data || static_cast<Kind>(prefix.kind) == Kind::taken;
  if (moves && trunk->phase == Phase::leaving) trunk->quiet_since_ns = monotonic_ns();
  if (route.end() != nullptr) {
    take(route.end()->id, prefix, rest, payload);
    return Verdict::taken;
  }
  Transit& transit = *route.transit();
  transit.used = true;
  const int to = 1 - route.side();
  if (is_data && to == 0 && !std::exchange(transit.answered, true)) note_answer(*trunk);
  const Trunk* const next = transit.half[to].trunk;
  if (is_data && to == 1 && next != nullptr && next->phase != Phase::leaving)
    cap_.used(next->claim);
  if (transit.half[to].waiting.bytes() > most_waiting_bytes) {
    drop(transit, beyond_window);
    return Verdict::taken;
  }
  const bool is_last = static_cast<Kind>(prefix.kind) == Kind::closed;
  if (is_last) detach(transit, route.side());
  const bool sent = pass(transit, to, prefix, rest, payload);
  if (is_last) {
    if (sent) finish(transit);
    remove_if_unused(*trunk);
  }
  return Verdict::taken;
}

// Where a channel goes from here. It has passed `servers`, this one included: a mistake in the
// routes, or a forged message, must not send it round in circles.
Status Multiplex::next_server(std::string_view target, uint32_t servers,
                              std::string* address) const {
  NodeId node = no_node;
  if (read_node(target, &node) && node == options_.node)
    return error(Code::invalid, "that was the address of another data server of node ", node);
  if (servers >= options_.guide.routes.most_servers())
    return error(Code::invalid, "a channel to node ", node, " has passed ", servers,
                 " data servers without getting there: do all ranks have the same SKERRY_SHARE and "
                 "SKERRY_CLUSTER_SIZE?");
  return next_hop(target, address);
}

// A channel that ends here, or passes through.
void Multiplex::take_open(Trunk& trunk, const Prefix& prefix, Bytes hello, Bytes address_bytes) {
  if (trunk.channels.contains(prefix.channel)) return;
  std::string address = text_of(address_bytes);
  if (address == own_address_) {
    End& end = new_end(trunk, prefix.channel, State::asking);
    end.window = static_cast<uint32_t>(own_window(trunk, prefix.taken));
    const std::string name = trunk.use == Use::incoming
                                 ? concat("through a data server of node ", node_named(trunk.name))
                                 : concat("rank ", trunk.name);
    ++upcalls_;
    outer_->on_connect_request(end.id, hello, name);
    return;
  }
  Trunk* out = nullptr;
  std::string next;
  Status status = next_server(address, prefix.servers + 1u, &next);
  if (status.ok()) status = trunk_to(std::move(next), &out);
  if (!status.ok()) {
    control(trunk, Kind::closed, prefix.channel,
            bytes_of(closed_text(CloseReason::unreachable, status.message())), {});
    return;
  }
  Transit& transit = *transits_.emplace_back(std::make_unique<Transit>());
  transit.place = static_cast<uint32_t>(transits_.size() - 1);
  transit.half[0].waiting.charge(&pool_of(out->use));
  transit.half[1].waiting.charge(&pool_of(trunk.use));
  transit.half[0].trunk = &trunk;
  transit.half[0].channel = prefix.channel;
  transit.half[1].trunk = out;
  transit.half[1].channel = begin_channel(*out);
  trunk.channels.insert(Route(&transit, 0));
  out->channels.insert(Route(&transit, 1));
  ++out->unanswered;
  options_.counters->channels.fetch_add(1, std::memory_order_relaxed);
  Prefix onward = prefix;
  ++onward.servers;
  onward.taken = own_window(trunk, prefix.taken);
  (void)pass(transit, 1, onward, hello, address_bytes);
  if (out->phase == Phase::waiting) control(trunk, Kind::held, prefix.channel, {}, {});
  rest_some();
}

// Above the limit of channels that pass, those make way that carried nothing since the last look.
// Their ranks are asked to close them; a rank that computes does not hear that, so a quarter above
// the limit they are closed: their sessions resume when they are needed. One without an answer yet
// is nobody's victim. Looks at a few with each new channel, as a clock's hand, and at two of them
// in its place: the number falls while there are idle ones.
void Multiplex::rest_some() {
  const size_t limit = options_.max_passing;
  if (limit == 0 || transits_.size() <= limit) return;
  uint32_t may_ask = 2, may_close = transits_.size() > limit + limit / 4 ? 2 : 0;
  for (size_t looks = std::min<size_t>(transits_.size(), 64); looks > 0 && may_ask + may_close > 0;
       --looks) {
    if (hand_ >= transits_.size()) hand_ = 0;
    Transit& transit = *transits_[hand_++];
    if (std::exchange(transit.used, false) || !transit.answered) continue;
    if (!transit.asked && may_ask > 0) {
      --may_ask;
      transit.asked = true;
      options_.counters->channels_asked.fetch_add(1, std::memory_order_relaxed);
      (void)pass(transit, 0, Prefix{version, static_cast<uint8_t>(Kind::leave), 0, 0, 0}, {}, {});
    } else if (transit.asked && may_close > 0) {
      --may_close;
      options_.counters->channels_closed.fetch_add(1, std::memory_order_relaxed);
      drop(transit, "a data server passes as many channels as it may, and this one was idle");
    }
  }
}

// Sends it on, or keeps it until there is room. True: nothing waits.
bool Multiplex::pass(Transit& transit, int to, Prefix prefix, Bytes rest, Bytes payload) {
  Half& half = transit.half[to];
  if (half.trunk == nullptr) return true;  // nobody is there any more
  Trunk& trunk = *half.trunk;
  prefix.channel = half.channel;
  const Header header(prefix, rest);
  options_.counters->messages.fetch_add(1, std::memory_order_relaxed);
  options_.counters->bytes.fetch_add(header.size + payload.size(), std::memory_order_relaxed);
  const bool hold = dispatching_ && payload.size() < hold_below_bytes;
  if (half.waiting.empty() && try_send(trunk, header.get(), payload, hold)) {
    if (hold && !trunk.dirty) {
      trunk.dirty = true;
      dirty_.push_back(trunk.id);
    }
    return true;
  }
  half.waiting.push(header.get(), payload);
  if (!half.in_line) trunk.line.push_back({fabric::no_endpoint, &transit, to});
  half.in_line = true;
  return false;
}

// The channel ended on this side.
void Multiplex::detach(Transit& transit, int side) {
  Half& half = transit.half[side];
  if (half.trunk == nullptr) return;
  if (half.in_line) leave_line(*half.trunk, {fabric::no_endpoint, &transit, side});
  half.in_line = false;
  half.waiting.clear();
  half.trunk->channels.erase(half.channel);
  if (side == 1 && !transit.answered) --half.trunk->unanswered;
  half.trunk = nullptr;
}

// Its trunk on this side is gone: the other side is told, after what it has not got yet.
void Multiplex::leave_transit(Transit& transit, int side, CloseReason reason,
                              std::string_view detail) {
  const std::string text = closed_text(reason, detail);
  if (pass(transit, 1 - side, Prefix{version, static_cast<uint8_t>(Kind::closed), 0, 0, 0},
           bytes_of(text), {}))
    finish(transit);
}

// This server ends the channel: both sides are told.
void Multiplex::drop(Transit& transit, std::string_view why) {
  const std::string text = closed_text(CloseReason::reset, why);
  for (const Half& half : transit.half)
    if (half.trunk != nullptr) control(*half.trunk, Kind::closed, half.channel, bytes_of(text), {});
  finish(transit);
}

// The window of a new channel that came on `from`: what waits of it here is charged to that pool.
uint64_t Multiplex::own_window(const Trunk& from, uint64_t wish) {
  return window_within(pool_of(from.use), ends_.size() + transits_.size(), wish);
}

// Nothing is left to pass.
void Multiplex::finish(Transit& transit) {
  Trunk* const trunks[2] = {transit.half[0].trunk, transit.half[1].trunk};
  detach(transit, 0);
  detach(transit, 1);
  std::swap(transits_[transit.place], transits_.back());
  transits_[transit.place]->place = transit.place;
  transits_.pop_back();
  options_.counters->channels.fetch_sub(1, std::memory_order_relaxed);
  for (Trunk* trunk : trunks)
    if (trunk != nullptr) remove_if_unused(*trunk);
}

}  // namespace skerry::share
