// Links: connections that are opened on demand, make place for each other under the cap, and are
// resumed when they break. ACTS: A. Vishnu, M. Krishnan, P. Balaji, "Dynamic Time-Variant
// Connection Management for PGAS Models on InfiniBand", section IV.
//
// Places. Opening and open links count towards the cap; besides, at most one link drains or closes.
// Whoever wants a link queues it in wanted_; advance_links gives places in that order: a free one,
// or that of a victim, whose leaving and the newcomer's opening overlap. A fresh link is nobody's
// victim while a thread waits to send on it, nor is one that a transfer in parts is half sent on,
// so everyone who gets a place gets something done: what was sent completes while the link drains.
//
// Breaks. The server says in its answer to the next opening how far it had come; what it has not
// applied is sent again from the replay log, what it has applied but whose answer is not here is
// asked for again (src/session). All upcalls and calls here run with the engine's mutex held.
#include <algorithm>
#include <utility>

#include "memory/slots.hpp"
#include "operation/engine.hpp"

namespace skerry::operation {
namespace {

constexpr int64_t first_retry_ns = 1'000'000;
constexpr int64_t longest_retry_ns = 1'000'000'000;

bool occupies(connection::State state) {
  return state == connection::State::opening || state == connection::State::open;
}
bool leaves(connection::State state) {
  return state == connection::State::draining || state == connection::State::closing;
}

}  // namespace

Engine::Link& Engine::link_to(placement::ServerRef server) {
  if (last_link_ != nullptr && last_link_->server == server) return *last_link_;
  auto& entry = links_[link_key(server)];
  if (!entry) {
    entry = std::make_unique<Link>(server, static_cast<uint32_t>(all_links_.size()),
                                   config_.incarnation);
    all_links_.push_back(entry.get());
  }
  last_link_ = entry.get();
  return *entry;
}

Engine::Link* Engine::link_of(fabric::EndpointId endpoint) {
  if (last_link_ != nullptr && last_link_->endpoint == endpoint) return last_link_;
  const auto found = by_endpoint_.find(endpoint);
  return found == by_endpoint_.end() ? nullptr : found->second;
}

// Locks whose request the server has taken: they wait for somebody's unlock, not for the network.
uint32_t Engine::parked_locks(const Link& link) const {
  if (link.lock_waits == 0) [[likely]]
    return 0;
  return static_cast<uint32_t>(
      std::count_if(pending_.begin(), pending_.end(), [&](const Pending& p) {
        return p.op != nullptr && p.link == &link && p.lock_request && p.number != 0 &&
               p.number <= link.session.applied();
      }));
}

// ---- places -----------------------------------------------------------------------------------

Status Engine::limit_connections(uint32_t max_connections) {
  Lock lock(mutex_);
  // Until those beyond the new limit have left there are more.
  auto policy = connection::VictimPolicy::make(config_.victim,
                                               std::max({max_connections, occupied_, 1u}));
  if (!policy) return connection::VictimPolicy::check_name(config_.victim);
  for (const Link* link : all_links_)
    if (occupies(link->machine.state())) policy->opened(link->index);
  if (max_connections == 0) policy.reset();
  max_connections_ = max_connections;
  policy_ = std::move(policy);
  open_queued();
  return {};
}

// Feeds the machine and keeps count of places.
connection::Action Engine::step(Link& link, connection::Event event) {
  using connection::State;
  const State before = link.machine.state();
  // A break loses parked locks' grants as well; leaving in order does not. Nothing may follow a
  // bye: who still has to send again drains first.
  const bool outstanding = in_flight(link) || link.replay_next != 0 ||
                           (event == connection::Event::closed && link.lock_waits > 0 &&
                            !link.dropped);
  const connection::Action action = link.machine.on(event, link.machine.generation(), outstanding);
  const State after = link.machine.state();
  if (before == after) return action;
  if (occupies(after) && !occupies(before)) {
    ++occupied_;
    if (policy_) policy_->opened(link.index);
  } else if (occupies(before) && !occupies(after)) {
    --occupied_;
    if (policy_) policy_->closed(link.index, event == connection::Event::evict);
  }
  const int64_t now_ns = monotonic_ns();
  if (leaves(after) && !leaves(before)) {
    ++leaving_;
    leave_waited_ = false;
    link.since_ns = now_ns;
  } else if (leaves(before) && !leaves(after)) {
    --leaving_;
    if (leaving_ == 0 && denied_since_ns_ != 0)
      counters_.teardown_exposed_ns += static_cast<uint64_t>(now_ns -
                                                             std::exchange(denied_since_ns_, 0));
    if (after == State::idle) {
      counters_.teardown_ns += static_cast<uint64_t>(now_ns - link.since_ns);
      if (!leave_waited_) ++counters_.teardowns_hidden;
    }
  }
  if (after == State::opening) link.since_ns = now_ns;
  if (before == State::opening && after == State::open)
    counters_.setup_ns += static_cast<uint64_t>(now_ns - link.since_ns);
  counters_.connections_peak = std::max<uint64_t>(counters_.connections_peak, occupied_ + leaving_);
  return action;
}

void Engine::want(Link& link) {
  if (!link.wanted) {
    link.wanted = true;
    wanted_.push_back(&link);
  }
  advance_links();
}

void Engine::unwant(Link& link) {
  if (!link.wanted) return;
  link.wanted = false;
  std::erase(wanted_, &link);
}

void Engine::advance_links() {
  if (is_ending()) return;
  const int64_t now_ns = monotonic_ns();
  next_retry_ns_ = 0;
  for (size_t i = 0; i < wanted_.size();) {
    Link& link = *wanted_[i];
    if (advance(link, now_ns)) unwant(link);  // if its failure has not
    else ++i;
  }
}

// True: it needs nothing more, being open, or failed.
bool Engine::advance(Link& link, int64_t now_ns) {
  using connection::State;
  if (!link.failure.ok()) return true;
  switch (link.machine.state()) {
    case State::open: return true;
    case State::opening:
    case State::closing: return false;
    case State::draining:
      if (at_limit()) return false;  // it leaves, and comes back in its turn
      drive(link, connection::Event::want);
      return true;
    case State::idle: break;
  }
  if (link.retry_at_ns > now_ns) {
    if (next_retry_ns_ == 0 || link.retry_at_ns < next_retry_ns_) next_retry_ns_ = link.retry_at_ns;
    return false;
  }
  const bool has_place = !at_limit() || make_place();
  if (has_place) drive(link, connection::Event::want);
  else if (leaving_ > 0 && denied_since_ns_ == 0)
    denied_since_ns_ = now_ns;  // else it waits for its turn, not for somebody's end
  if (held_bye_ != fabric::no_endpoint) {
    (void)fabric_->flush(std::exchange(held_bye_, fabric::no_endpoint));
    (void)leave_now();
  }
  return has_place && !link.failure.ok();
}

// Who is leaving has said bye and has nothing outstanding: what it still waits for is the server's
// word that it agrees, and the server remembers the session either way. So when its place is wanted
// it closes without that. False: it drains still, or another thread is in the fabric.
bool Engine::leave_now() {
  if (role_taken_) return false;
  for (Link* link : all_links_)
    if (link->machine.state() == connection::State::closing &&
        link->lock_waits == 0) {  // a grant may be on its way to who waits for a mutex
      disconnect(*link, true);
      (void)step(*link, connection::Event::closed);
    }
  return leaving_ == 0;
}

// Evicts whoever is worth least. False: somebody is leaving already, or all are pinned; the next
// acknowledgement changes that.
bool Engine::make_place() {
  const int64_t begin_ns = monotonic_ns();
  if (leaving_ > 0 && !leave_now()) {
    leave_waited_ = true;
    return false;
  }
  const auto victim = policy_->choose([&](connection::Partner partner) {
    const Link& link = *all_links_[partner];
    return link.machine.state() != connection::State::open || link.replay_next != 0 ||
           link.transfers > 0 || (link.fresh && link.waiters > 0);
  });
  if (!victim) return false;
  ++counters_.connections_evicted;
  making_place_ = true;
  Link& leaving = *all_links_[*victim];
  if (leaving.has_batch() && leaving.may_send() && leaving.session.may_issue(leaving.batch->bytes))
    (void)send_batch(leaving);  // while it is open
  drive(leaving, connection::Event::evict);
  making_place_ = false;
  counters_.teardown_exposed_ns += static_cast<uint64_t>(monotonic_ns() - begin_ns);
  return !at_limit();
}

// How long to sleep at most.
int64_t Engine::patience_ns() const {
  if (next_retry_ns_ == 0 || wanted_.empty()) return wait_slice_ns;
  return std::clamp<int64_t>(next_retry_ns_ - monotonic_ns(), 1000, wait_slice_ns);
}

// ---- opening and closing ----------------------------------------------------------------------

void Engine::connect(Link& link) {
  const connection::Peer peer{static_cast<uint32_t>(link.server.node), link.server.index,
                              wire::version, connection::Role::server};
  random_bytes(&link.nonce, sizeof link.nonce);
  const auto hello = connection::make_hello(config_.key, peer, static_cast<uint32_t>(config_.rank),
                                            link.machine.generation(), link.nonce);
  link.blocked = false;
  link.dropped = false;
  link.early = false;
  link.bye_waits = false;
  link.replay_next = 0;
  const Status status = fabric_->connect(config_.map->server_address(link.server), hello,
                                         &link.endpoint);
  if (status.ok()) {
    by_endpoint_[link.endpoint] = &link;
    // What is queued goes right behind the hello, unless the server must first say how far it came.
    if (link.has_queued() && fabric_->capabilities().early_messages && !in_flight(link) &&
        link.lock_waits == 0) {
      link.early = true;
      (void)send_queued(link);
    }
    (void)fabric_->flush(link.endpoint);
    return;
  }
  link.endpoint = fabric::no_endpoint;
  (void)step(link, connection::Event::closed);  // or it would be opening for ever
  fail(link, Status(status.code(),
                    concat("rank ", config_.rank, " cannot connect to the data server of node ",
                           link.server.node, ": ", status.message())));
}

void Engine::disconnect(Link& link, bool drained) {
  if (link.endpoint == fabric::no_endpoint) return;
  by_endpoint_.erase(link.endpoint);
  if (drained) fabric_->close_drained(link.endpoint);
  else fabric_->close(link.endpoint);
  link.endpoint = fabric::no_endpoint;
  ++counters_.connections_closed;
  tidy(link);
}

// Feeds the machine and performs what it answers.
void Engine::drive(Link& link, connection::Event event) {
  using connection::Action;
  switch (step(link, event)) {
    case Action::send_queued:  // whoever waits for the link looks again
      if (event == connection::Event::want && link.has_queued() && link.replay_next == 0)
        resume(link, link.sent + 1);  // else it is on its way there
      return;
    case Action::none:
    case Action::start_drain:  // maybe_drained reports the end of it
      return;
    case Action::connect: connect(link); return;
    case Action::close_endpoint: disconnect(link); return;
    case Action::send_bye:
      // While making place it is held back until the newcomer's connect is on its way: who gets the
      // bye may preempt us.
      send_bye(link, making_place_);
      if (making_place_) held_bye_ = link.endpoint;
      return;
    case Action::broken:
      ++counters_.connections_broken;
      trouble(link, "the connection was lost", link.retries == 0);
      return;
    case Action::refused:  // on_closed has seen to it
      return;
  }
}

// The link is drained, but the fabric may be full with what others send through it: then
// on_writable comes back for this. If the endpoint died meanwhile, on_closed follows and ends it.
void Engine::send_bye(Link& link, bool more) {
  const wire::CloseHeader bye{wire::version, static_cast<uint8_t>(wire::Kind::bye), 0,
                              link.session.incarnation(), link.sent};
  link.bye_waits = fabric_->send(link.endpoint, std::as_bytes(std::span(&bye, 1)), {}, more, 0) ==
                   fabric::SendResult::would_block;
}

// Something failed that may work again later. Requests outstanding wait for it; what was given up
// is opened when it is wanted next.
void Engine::trouble(Link& link, std::string_view what, bool at_once) {
  const int64_t now_ns = monotonic_ns();
  if (link.trouble_since_ns == 0) link.trouble_since_ns = now_ns;
  if (now_ns - link.trouble_since_ns >= config_.reconnect_limit_ns) {
    fail(link,
         error(Code::peer_dead, "rank ", config_.rank, " cannot reach the data server of node ",
               link.server.node, " for ", (now_ns - link.trouble_since_ns) / 1'000'000'000,
               " s: ", what, ". A rank there has ended, or the network between the nodes failed"));
    return;
  }
  const int64_t backoff_ns = std::min(first_retry_ns << std::min(link.retries, 10u),
                                      longest_retry_ns);
  // Spread by up to a half, so that origins that lost the same server do not come back all at once.
  link.retry_at_ns = at_once ? 0
                             : now_ns + backoff_ns / 2 +
                                   static_cast<int64_t>(
                                       random_below(static_cast<uint32_t>(backoff_ns / 2)));
  ++link.retries;
  if (!unacknowledged(link) && link.lock_waits == 0 &&
      link.waiters == 0) {  // nobody needs it now: the next one starts afresh
    link.trouble_since_ns = 0;
    return;
  }
  want(link);
  call_helper(false);  // should the program be computing
}

void Engine::fail(Link& link, Status status) {
  if (!link.failure.ok()) return;
  link.failure = std::move(status);
  unwant(link);
  forget_queued(link);
  for (uint32_t i = 0; i < pending_.size(); ++i)
    if (pending_[i].op != nullptr && pending_[i].link == &link) {
      Op* op = pending_[i].op;
      if (op->status.ok()) op->status = link.failure;
      release(i);
    }
  std::erase_if(rma_, [&](const auto& entry) {
    if (entry.second.link != &link) return false;
    --entry.second.op->waiting_replies;
    if (entry.second.op->status.ok()) entry.second.op->status = link.failure;
    return true;
  });
  link.rma_outstanding = link.rma_gets_outstanding = 0;
  link.log.reset();  // nothing is sent again
}

void Engine::cut(Link& link, Status status) {
  disconnect(link);
  fail(link, std::move(status));
  while (link.machine.state() != connection::State::idle)
    (void)step(link, connection::Event::closed);
}

void Engine::maybe_drained(Link& link) {
  if (link.machine.state() == connection::State::draining && link.replay_next == 0 &&
      !in_flight(link))
    drive(link, connection::Event::drained);
}

// What a link holds beyond its record goes when it has no connection.
void Engine::tidy(Link& link) {
  if (link.log && link.log->empty()) link.log.reset();
  if (link.batch && !link.has_batch() && !link.corked) link.batch.reset();
  if (link.session.drained()) std::unordered_map<Rank, uint64_t>().swap(link.last_message);
}

// ---- waiting ----------------------------------------------------------------------------------

Status Engine::wait_open(Lock& lock, Link& link) {
  // A server that needs the place may have closed an idle connection: what is sent then is lost,
  // and found out only later.
  if (config_.servers_drop && link.is_ready() && !unacknowledged(link)) poke(lock);
  if (link.is_ready()) [[likely]]
    return {};
  const bool was_open = link.machine.state() == connection::State::open;
  const int64_t begin_ns = was_open ? 0 : monotonic_ns();
  ++link.waiters;
  Status status;
  while (status.ok() && !link.is_ready()) {
    if (!link.failure.ok()) {
      status = link.failure;
      break;
    }
    if (link.machine.state() != connection::State::open) want(link);
    status = wait_until(lock, [&] {
      return link.is_ready() || !link.failure.ok() ||
             (link.machine.state() != connection::State::open &&
              link.machine.state() != connection::State::opening && !link.wanted);
    });
  }
  --link.waiters;
  if (!was_open) counters_.setup_exposed_ns += static_cast<uint64_t>(monotonic_ns() - begin_ns);
  return status;
}

// Returns with the link open, credits for one more request and the fabric taking messages; the
// mutex was held at that moment and still is. `may_wait`: the request may as well be queued, where
// its link has no connection.
Status Engine::wait_sendable(Lock& lock, Link& link, uint64_t copied_bytes, bool may_wait) {
  // A message may overtake a get of the fabric's own before it, and a put unless the fabric says
  // otherwise.
  const bool puts_first = fabric_->capabilities().rma &&
                          !fabric_->capabilities().am_after_rma_ordered;
  auto may_issue = [&] {
    return link.session.may_issue(copied_bytes) && link.rma_gets_outstanding == 0 &&
           (!puts_first || link.rma_outstanding == 0);
  };
  for (;;) {
    if (may_wait && may_queue(link, copied_bytes)) {
      if (!link.has_batch()) return {};
      (void)send_batch(link);
      continue;
    }
    SKERRY_TRY(wait_open(lock, link));
    if (may_issue()) {
      if (!link.has_batch()) return {};
      (void)send_batch(link);  // what was issued before goes before
      continue;
    }
    SKERRY_TRY(wait_until(lock, [&] { return may_issue() || !link.failure.ok(); }));
  }
}

// ---- the queue --------------------------------------------------------------------------------
//
// A request that nobody waits for yet, to a server without a connection, is numbered and put into
// the replay log as if it had been sent and its connection lost: the next opening sends it
// (docs/design/0018-lazy-opening.md). So one visit serves all that has come together. A free place
// is taken at once. Else whoever waits for a queued request, or might make others wait, asks for
// its link; the helper does in the end.

bool Engine::may_queue(const Link& link, uint64_t copied_bytes) const {
  return queues() && link.machine.state() != connection::State::open && link.failure.ok() &&
         link.session.may_issue(copied_bytes) && queued_requests_ < max_queued_requests &&
         queued_bytes_ + copied_bytes <= max_queued_bytes;
}

// The newest request of the session is in the log and not sent.
void Engine::queue(Link& link, uint64_t copied_bytes, bool awaits_reply) {
  if (queued_.empty()) queued_since_ns_ = monotonic_ns();
  if (link.sent + 1 == link.session.issued()) queued_.push_back(&link);
  ++queued_requests_;
  link.queued_bytes += copied_bytes;
  queued_bytes_ += copied_bytes;
  link.queued_replies += awaits_reply;
  queued_replies_ += awaits_reply;
  watch_over();
}

// Opens what need not wait: there is a place, or the queue grows long and this link has more than
// its share of it.
void Engine::push(Link& link) {
  if (!link.has_queued() || link.wanted) return;
  const bool is_long = 2 * queued_bytes_ > max_queued_bytes &&
                       link.queued_bytes * queued_.size() >= queued_bytes_;
  if (is_long || (!at_limit() && link.machine.state() == connection::State::idle)) want(link);
}

void Engine::note_sent(Link& link, uint64_t number) {
  if (link.log->awaits_reply(number)) {
    --link.queued_replies;
    --queued_replies_;
  }
  --queued_requests_;
  link.sent = number;
  if (link.has_queued()) return;
  queued_bytes_ -= std::exchange(link.queued_bytes, 0);
  std::erase(queued_, &link);
  if (policy_) policy_->used(link.index);
}

void Engine::forget_queued(Link& link) {
  if (!link.has_queued()) return;
  queued_requests_ -= link.session.issued() - link.sent;
  link.sent = link.session.issued();
  queued_bytes_ -= std::exchange(link.queued_bytes, 0);
  queued_replies_ -= std::exchange(link.queued_replies, 0);
  std::erase(queued_, &link);
}

// Sends what is queued on a connection that takes it, in order. False: it took not all; on_writable
// or the opening's end goes on.
bool Engine::send_queued(Link& link) {
  while (link.has_queued()) {
    const session::ReplayLog::Request request = link.log->request(link.sent + 1);
    if (fabric_->send(link.endpoint, request.header, request.payload, true, request.number) !=
        fabric::SendResult::accepted)
      return false;
    note_sent(link, request.number);
  }
  return true;
}

void Engine::open_queued() {
  for (Link* link : std::vector<Link*>(queued_))
    if (link->has_queued()) want(*link);
}

// Before waiting for a request of this link: it is sent now, if it was queued.
Status Engine::wait_connected(Lock& lock, Link& link) {
  if (!link.has_queued() && link.machine.state() != connection::State::opening) [[likely]]
    return {};
  const int64_t begin_ns = monotonic_ns();
  want(link);
  Status status = wait_until(lock, [&] {
    return !link.failure.ok() ||
           (!link.has_queued() && link.machine.state() != connection::State::opening);
  });
  counters_.setup_exposed_ns += static_cast<uint64_t>(monotonic_ns() - begin_ns);
  return status;
}

Status Engine::wait_slot(Lock& lock, Wait wait) {
  open_queued();  // their answers may be what has them all
  return wait_until(lock, [&] { return has_slot(wait); });
}

// ---- resuming ---------------------------------------------------------------------------------

Status Engine::acknowledge(Link& link, uint64_t applied) {
  const uint64_t before = link.session.applied();
  SKERRY_TRY(link.session.acknowledge(applied));
  if (link.session.applied() == before) return {};
  link.fresh = false;
  link.trouble_since_ns = 0;
  link.retries = 0;
  if (link.log) link.log->acknowledge(applied);
  return {};
}

void Engine::on_connected(fabric::EndpointId endpoint, fabric::Bytes reply) {
  Link* link = link_of(endpoint);
  if (link == nullptr) return;  // late: closed meanwhile
  const connection::Peer peer{static_cast<uint32_t>(link->server.node), link->server.index,
                              wire::version, connection::Role::server};
  const connection::Hello hello{
      static_cast<uint32_t>(config_.rank), link->machine.generation(), link->nonce, {}};
  uint64_t applied = 0;
  Status status = connection::check_answer(config_.key, peer, hello, reply, &applied);
  const bool resumed = !link->early &&
                       (link->sent > link->session.applied() ||
                        link->waiting_replies > link->queued_replies || link->rma_outstanding > 0);
  if (status.ok() && applied < link->session.applied()) status = link->session.resume(applied);
  if (!status.ok()) {
    cut(*link, std::move(status));
    return;
  }
  // Everything the server has applied counts from now on; what follows is sent again before
  // anything new.
  if (Status known = acknowledge(*link, applied); !known.ok()) {
    cut(*link, std::move(known));
    return;
  }
  ++counters_.connections_opened;
  if (resumed) ++counters_.connections_resumed;
  if (!resumed || !in_flight(*link))
    link->retries = 0,
    link->trouble_since_ns = 0;  // nothing will be acknowledged that would say so
  link->fresh = true;
  unwant(*link);
  drive(*link, connection::Event::connected);
  // All was applied: what was still missing was the server's word. Others may be waiting for the
  // place.
  if (resumed && config_.servers_drop && link->waiters == 0 && link->lock_waits == 0 &&
      !unacknowledged(*link)) {
    drive(*link, connection::Event::please_close);
    maybe_drained(*link);
    return;
  }
  if (resumed || link->has_queued()) resume(*link, resumed ? 1 : link->sent + 1);
}

void Engine::resume(Link& link, uint64_t from) {
  link.replay_next = from;
  link.replay_slot = from <= link.sent ? 0 : static_cast<uint32_t>(pending_.size());
  replay(link);
}

// Sends again what the server has not applied, and asks again for answers that are not here, oldest
// first; then for mutexes that were waited for. Stops when the fabric is full: on_writable goes on.
void Engine::replay(Link& link) {
  if (link.replay_next == 0 || is_ending()) return;
  auto send = [&](fabric::Bytes header, fabric::Bytes payload, uint64_t number) {
    if (fabric_->send(link.endpoint, header, payload, true, number) !=
        fabric::SendResult::accepted) {
      link.blocked = true;  // on_writable or on_closed follows
      return false;
    }
    if (number <= link.sent) ++counters_.requests_replayed;
    else note_sent(link, number);
    return true;
  };
  while (link.log && !link.log->empty() && link.replay_next <= link.log->last_number()) {
    link.replay_next = std::max(link.replay_next, link.log->first_number());
    if (!replay_rma(link, link.replay_next)) return;
    if (SKERRY_RULE(replay) && link.log->is_wanted(link.replay_next)) {
      const session::ReplayLog::Request request = link.log->request(link.replay_next);
      if (!send(request.header, request.payload, request.number)) return;
    }
    ++link.replay_next;
  }
  if (!replay_rma(link, UINT64_MAX)) return;
  for (; link.replay_slot < pending_.size(); ++link.replay_slot) {
    const Pending& p = pending_[link.replay_slot];
    if (p.op == nullptr || p.link != &link || !p.lock_request || p.number > link.session.applied())
      continue;
    if (!send(*p.lock_request, {}, 0)) return;
  }
  link.replay_next = 0;
  (void)fabric_->flush(link.endpoint);
  maybe_drained(link);
}

void Engine::on_writable(fabric::EndpointId endpoint) {
  Link* link = link_of(endpoint);
  if (link == nullptr) return;
  link->blocked = false;
  if (link->bye_waits) send_bye(*link, false);
  replay(*link);
}

void Engine::on_closed(fabric::EndpointId endpoint, fabric::CloseReason reason,
                       std::string_view detail) {
  Link* link = link_of(endpoint);
  if (link == nullptr) return;
  by_endpoint_.erase(endpoint);
  link->endpoint = fabric::no_endpoint;
  link->blocked = false;
  link->replay_next = 0;
  if (link->machine.state() != connection::State::opening) {
    ++counters_.connections_closed;
    if (link->dropped) ++counters_.connections_dropped;
    const bool was_closing = link->machine.state() == connection::State::closing;
    drive(*link, connection::Event::closed);
    if (link->machine.state() == connection::State::idle) tidy(*link);
    // Lost before the server had our bye: it may have sent a mutex's grant into the void. Ask
    // again. (If it closed in order, that is its answer.)
    if (was_closing && link->lock_waits > 0 && reason != fabric::CloseReason::by_peer) want(*link);
    if (link->has_queued() && !was_closing) want(*link);  // it broke with the queue half sent
    return;
  }
  (void)step(*link, connection::Event::closed);
  const std::string what = concat(to_string(reason), detail.empty() ? "" : ", ", detail);
  if (reason == fabric::CloseReason::protocol_error)  // no other attempt will fare better
    fail(*link,
         error(Code::network, "rank ", config_.rank, " cannot connect to the data server of node ",
               link->server.node, ": ", what));
  else trouble(*link, what, false);
}

}  // namespace skerry::operation
