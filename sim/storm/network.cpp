#include "sim/storm/network.hpp"

#include <algorithm>

namespace skerry::sim {

Time Network::arrival(Link& link, Side from) {
  Time& last = link.last[static_cast<int>(from)];
  last = std::max(last + 1, queue_.now() + latency_ns_ + random_.between(0, jitter_ns_));
  return last;
}

ConnectionId Network::connect(uint32_t origin, uint32_t server, Bytes hello) {
  const ConnectionId id = static_cast<ConnectionId>(links_.size());
  links_.push_back({});
  links_[id].origin = origin;
  links_[id].server = server;
  if (seen_.size() < 8) seen_.push_back({origin, server, hello});
  else seen_[random_.below(8)] = {origin, server, hello};
  const Time at = arrival(links_[id], Side::origin);
  queue_.schedule(at, [this, id, hello = std::move(hello)] {
    Link& link = links_[id];
    if (link.lost_from[0] == 0) return;  // cut before it got here
    link.open[1] = true;
    servers_[link.server]->on_connect_request(id, hello);
  });
  return id;
}

void Network::accept(ConnectionId id, Bytes answer) {
  Link& link = links_[id];
  if (link.stranger) return;
  const Time at = arrival(link, Side::server);
  const uint64_t number = link.sent[1]++;
  queue_.schedule(at, [this, id, number, answer = std::move(answer)] {
    Link& l = links_[id];
    if (!l.open[0] || number >= l.lost_from[1]) return;
    ++l.arrived[1];
    origins_[l.origin]->on_connected(id, answer);
  });
}

void Network::send(ConnectionId id, Side from, Frame frame) {
  Link& link = links_[id];
  const int side = static_cast<int>(from);
  if (!link.open[side] || link.stranger) return;
  const Time at = arrival(link, from);
  const uint64_t number = link.sent[side]++;
  queue_.schedule(at, [this, id, from, side, number, frame = std::move(frame)]() mutable {
    Link& l = links_[id];
    if (!l.open[1 - side] || number >= l.lost_from[side]) return;
    ++l.arrived[side];
    if (from == Side::origin) servers_[l.server]->on_message(id, std::move(frame));
    else origins_[l.origin]->on_message(id, frame);
  });
}

void Network::tell_closed(ConnectionId id, Side to, Time at) {
  queue_.schedule(at, [this, id, to] {
    Link& link = links_[id];
    if (!link.open[static_cast<int>(to)]) return;
    link.open[static_cast<int>(to)] = false;
    if (to == Side::server) servers_[link.server]->on_closed(id);
    else if (!link.stranger) origins_[link.origin]->on_closed(id);
  });
}

void Network::close(ConnectionId id, Side by) {
  Link& link = links_[id];
  const int side = static_cast<int>(by);
  if (!link.open[side]) return;
  link.open[side] = false;
  // Closing with something unread resets the connection: then what was sent last may be lost as
  // well.
  if (random_.chance(0.3))
    link.lost_from[side] = std::min(
        link.lost_from[side],
        link.arrived[side] +
            random_.below(static_cast<uint32_t>(link.sent[side] - link.arrived[side]) + 1));
  tell_closed(id, other(by), arrival(link, by));
}

void Network::send_to_slot(uint32_t origin, Frame frame) {
  queue_.schedule(queue_.now() + latency_ns_ + random_.between(0, jitter_ns_),
                  [this, origin, frame = std::move(frame)] { origins_[origin]->on_slot(frame); });
}

void Network::cut(ConnectionId id) {
  Link& link = links_[id];
  ++cuts_;
  for (int side = 0; side < 2; ++side)
    link.lost_from[side] = std::min(
        link.lost_from[side],
        link.arrived[side] +
            random_.below(static_cast<uint32_t>(link.sent[side] - link.arrived[side]) + 1));
  // A reset is noticed at once, silence only by a time-out; either end may be the last to know.
  for (const Side to : {Side::origin, Side::server}) {
    const int64_t patience = random_.chance(0.3) ? 50 * (latency_ns_ + jitter_ns_)
                                                 : latency_ns_ + jitter_ns_;
    const Time at = std::max(queue_.now(), link.last[1 - static_cast<int>(to)]) + 1 +
                    random_.between(0, patience);
    tell_closed(id, to, at);
  }
}

void Network::replay_hello() {
  if (seen_.empty()) return;
  const Seen seen = seen_[random_.below(static_cast<uint32_t>(seen_.size()))];
  const ConnectionId id = connect(seen.origin, seen.server, seen.hello);
  links_[id].stranger = true;
  queue_.schedule(queue_.now() + random_.between(0, 20 * (latency_ns_ + jitter_ns_)),
                  [this, id] { close(id, Side::origin); });
}

ConnectionId Network::random_connection() {
  std::vector<ConnectionId> open;
  for (size_t i = links_.size() > 64 ? links_.size() - 64 : 0; i < links_.size(); ++i)
    if (links_[i].open[0] || links_[i].open[1]) open.push_back(static_cast<ConnectionId>(i));
  return open.empty() ? no_connection : open[random_.below(static_cast<uint32_t>(open.size()))];
}

uint32_t Network::open_ends() const {
  uint32_t ends = 0;
  for (const Link& link : links_) ends += (link.open[0] && !link.stranger) + link.open[1];
  return ends;
}

}  // namespace skerry::sim
