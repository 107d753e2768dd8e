#include "origin/link/links.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/pure/container_bytes.hpp"
#include "origin/engine/layers.hpp"

namespace skerry::origin {

using connection::Action;
using connection::Cap;
using connection::Dialer;
using connection::Event;
using connection::State;

// ---- the table --------------------------------------------------------------------------------

namespace {

uint64_t key_of(placement::ServerRef server) {
  return uint64_t{static_cast<uint32_t>(server.node)} << 16 | server.index;
}

}  // namespace

Link& Links::to(placement::ServerRef server) {
  context_.assert_held();
  if (last_ != nullptr && last_->server == server) return *last_;
  auto& entry = by_server_[key_of(server)];
  if (!entry) {
    entry = std::make_unique<Link>(server, static_cast<uint32_t>(all_.size()),
                                   context_.config.incarnation);
    all_.push_back(entry.get());
  }
  last_ = entry.get();
  return *entry;
}

Link* Links::find(placement::ServerRef server) {
  const auto found = by_server_.find(key_of(server));
  return found == by_server_.end() ? nullptr : found->second.get();
}

Link* Links::of(fabric::EndpointId endpoint) {
  context_.assert_held();
  if (last_ != nullptr && last_->endpoint == endpoint) return last_;
  const auto found = by_endpoint_.find(endpoint);
  return found == by_endpoint_.end() ? nullptr : found->second;
}

const std::vector<Link*>& Links::listed() {
  context_.assert_held();
  std::erase_if(listed_, [&](Link* link) {
    if (unacknowledged(*link) || link->lock_waits > 0 || link->implicit_number != 0 ||
        !link->request_failure.ok())
      return false;
    link->is_listed = false;
    return true;
  });
  return listed_;
}

bool Links::any_unacknowledged() {
  return std::any_of(listed().begin(), listed().end(),
                     [&](const Link* link) { return link->failure.ok() && unacknowledged(*link); });
}

// ---- what is outstanding ----------------------------------------------------------------------

session::Outstanding Links::outstanding(const Link& link) const {
  session::Outstanding out;
  const uint64_t applied = link.session.applied();
  out.unapplied = link.backlog.sent > applied ? link.backlog.sent - applied : 0;
  out.queued = link.backlog.issued - link.backlog.sent;
  out.answers = link.waiting_replies;
  out.queued_answers = link.backlog.replies;
  out.parked_locks = layers_.slots.parked_locks(link);
  out.locks = link.lock_waits;
  out.rma = link.rma.outstanding;
  out.refusals = link.session.refusal_due();
  out.batch = link.has_batch();
  out.batch_queues = queues();
  SKERRY_INVARIANT(out.answers >= out.queued_answers + out.parked_locks && out.locks <= out.answers,
                   "queued requests and parked locks are among those that are waited for");
  return out;
}

Status Links::acknowledge(Link& link, uint64_t applied) {
  context_.assert_held();
  const uint64_t before = link.session.applied();
  SKERRY_TRY(link.session.acknowledge(applied));
  if (link.session.applied() == before) return {};
  got_through(link);
  if (link.log) link.log->acknowledge(applied);
  return {};
}

void Links::got_through(Link& link) {
  context_.assert_held();
  if (link.trust == Link::Trust::unproven) link.trust = Link::Trust::proven;
  link.dialer.succeeded();
}

void Links::maybe_drained(Link& link) {
  context_.assert_held();
  if (link.machine.state() == State::draining && !link.replay.running() &&
      !outstanding(link).keeps_connection())
    drive(link, Event::drained);
}

// ---- slots ------------------------------------------------------------------------------------

Status Links::limit(uint32_t connections) {
  context_.assert_held();
  if (context_.fabric->limits_connections()) {
    SKERRY_TRY(context_.fabric->limit_connections(connections));
    fabric_limits_ = connections != 0;
    open_queued();
    return {};
  }
  SKERRY_TRY(cap_.set_limit(connections, context_.config.victim));
  open_queued();
  return {};
}

bool Links::queues() const { return is_limited() && context_.has_helper() && !context_.can().rma; }

void Links::open_queued() {
  context_.assert_held();
  const auto parts = context_.backlog.parts();
  // A copy: opening a link may send all that it has queued.
  for (session::Backlog::Part* part :
       std::vector<session::Backlog::Part*>(parts.begin(), parts.end()))
    if (!part->empty()) open(at(part->owner));
}

// Feeds the machine and keeps count of slots.
Action Links::step(Link& link, Event event) {
  context_.assert_held();
  const State before = link.machine.state();
  const session::Outstanding out = outstanding(link);
  // Nothing may follow a bye: a link that still has to send again drains first.
  const bool keeps = link.replay.running() ||
                     (event == Event::closed
                          ? out.is_lost_with_it(link.trust == Link::Trust::farewell &&
                                                link.asked_again == 0)
                          : out.keeps_connection());
  const Action action = link.machine.on(event, keeps);
  const State after = link.machine.state();
  if (before == after) return action;
  const int64_t now_ns = monotonic_ns();
  cap_.hold(link.claim, connection::hold_of(after), now_ns, event == Event::evict);
  if (before == State::opening && after == State::open) cap_.connected(link.claim, now_ns);
  return action;
}

void Links::open(Link& link) {
  cap_.open(link.claim);
  advance();
}

void Links::advance() {
  context_.assert_held();
  if (context_.is_ending()) return;
  next_due_ns_ = 0;
  cap_.serve_queue([&](Cap::Claim& claim) { serve(*all_[claim.partner]); });
}

// Opens a link that waits for a connection, if there is a slot and its time has come.
void Links::serve(Link& link) {
  if (!link.failure.ok()) return cap_.withdraw(link.claim);
  switch (link.machine.state()) {
    case State::open: return cap_.withdraw(link.claim);
    case State::opening:
    case State::closing: return;
    case State::draining:
      if (cap_.at_limit()) return;  // it leaves, and comes back in its turn
      cap_.withdraw(link.claim);
      return drive(link, Event::want);
    case State::idle: break;
  }
  if (!link.dialer.is_due(monotonic_ns())) {
    if (next_due_ns_ == 0 || link.dialer.due_ns() < next_due_ns_)
      next_due_ns_ = link.dialer.due_ns();
    return;
  }
  const bool is_invited = std::exchange(link.is_invited, false);
  if (is_invited && !has_room_for(link)) return cap_.withdraw(link.claim);  // others were faster
  const bool brings_others = fabric_limits_ && !is_invited;
  if (take_slot(link)) drive(link, Event::want);
  if (brings_others) invite();
  if (held_bye_ == fabric::no_endpoint) return;
  (void)context_.fabric->flush(std::exchange(held_bye_, fabric::no_endpoint));
  (void)close_leavers();
}

bool Links::has_room_for(const Link& link) const {
  return fabric_limits_
             ? context_.fabric->has_room_for(context_.config.map->server_address(link.server))
             : !cap_.at_limit();
}

// A connection that several links share is being opened for one of them. The others that have
// something queued go along.
void Links::invite() {
  for (const session::Backlog::Part* part : context_.backlog.parts()) {
    Link& link = *all_[part->owner];
    if (part->empty() || link.claim.waits || link.machine.state() != State::idle ||
        !has_room_for(link))
      continue;
    link.is_invited = true;
    cap_.open(link.claim);
  }
}

// Returns false if no link could make way yet. Call again after the next event.
bool Links::take_slot(Link& link) {
  SKERRY_INVARIANT(link.claim.hold == Cap::Hold::none, "one connection has one slot");
  for (;;) {
    const int64_t now_ns = monotonic_ns();
    Cap::Claim* victim = nullptr;
    const auto of = [&](const Cap::Claim& claim) { return standing(*all_[claim.partner]); };
    switch (cap_.ask(now_ns, of, &victim)) {
      case Cap::Answer::granted: return true;
      case Cap::Answer::wait: return false;
      case Cap::Answer::hasten:
        if (close_leavers()) break;
        cap_.denied(now_ns);
        return false;
      case Cap::Answer::evict:
        evict(*all_[victim->partner]);
        cap_.exposed(monotonic_ns() - now_ns);
        if (!cap_.at_limit()) return true;
        cap_.denied(now_ns);
        return false;
    }
  }
}

// Whether a link may be a victim. A link in the middle of something may not, nor one that a thread
// waits for and that has brought no answer yet.
Cap::Standing Links::standing(const Link& link) const {
  if (link.machine.state() != State::open || link.replay.running() || link.transfers > 0)
    return Cap::Standing::busy;
  return link.trust == Link::Trust::unproven && link.waiters > 0 ? Cap::Standing::unproven
                                                                 : Cap::Standing::settled;
}

// Closes a link that said bye and has nothing outstanding. It waits only for the server's answer,
// and the server remembers the session either way. So when its slot is wanted it closes without
// the answer. Returns false if the link still drains or another thread is in the fabric.
bool Links::close_leavers() {
  if (!layers_.progress.role_is_free()) return false;
  for (size_t i = cap_.leavers().size(); i > 0; --i) {  // it shrinks
    Link& link = *all_[cap_.leavers()[i - 1]->partner];
    if (link.machine.state() != State::closing || link.lock_waits > 0)
      continue;  // a grant may be on its way to a thread that waits for a mutex
    disconnect(link, true);
    (void)step(link, Event::closed);
  }
  return cap_.leaving() == 0;
}

void Links::evict(Link& link) {
  if (link.has_batch() && link.may_send_batch()) (void)layers_.batches.send(link);
  evicting_ = true;
  drive(link, Event::evict);
  evicting_ = false;
}

int64_t Links::patience_ns() const {
  if (next_due_ns_ == 0 || !cap_.anyone_waits()) return wait_slice_ns;
  return std::clamp<int64_t>(next_due_ns_ - monotonic_ns(), 1000, wait_slice_ns);
}

// ---- opening and closing ----------------------------------------------------------------------

// Feeds the machine and performs what it answers.
void Links::drive(Link& link, Event event) {
  switch (step(link, event)) {
    case Action::send_queued:  // threads that wait for the link look again
      if (event == Event::want && link.has_queued() && !link.replay.running())
        layers_.resume.queued(link);  // otherwise it is on its way there
      return;
    case Action::none: return;
    case Action::connect: return connect(link);
    case Action::close_endpoint: return disconnect(link, false);
    case Action::send_bye:
      // A victim's bye is held back until the newcomer's connect is on its way: the server that
      // gets the bye may preempt us.
      send_bye(link, evicting_);
      if (evicting_) held_bye_ = link.endpoint;
      else if (context_.can().close_delivers) close_behind_bye(link);
      return;
    case Action::broken:
      ++context_.counters.connections_broken;
      attempt_failed(link, "the connection was lost", Dialer::Failure::broken);
      return;
  }
}

namespace {

connection::Peer peer_of(const Link& link) {
  return {static_cast<uint32_t>(link.server.node), link.server.index, wire::version,
          connection::Role::server};
}

}  // namespace

void Links::connect(Link& link) {
  const auto hello = link.dialer.dial(caller(), peer_of(link));
  link.room = Link::Room::free;
  link.trust = Link::Trust::plain_hello;
  link.leaves_later = false;
  link.asked_again = 0;
  end_resume(link);
  const Status status = context_.fabric->connect(context_.config.map->server_address(link.server),
                                                 hello, &link.endpoint);
  if (!status.ok()) {
    // For example no descriptor is free. Like any failed attempt it may succeed in a moment.
    link.endpoint = fabric::no_endpoint;
    (void)step(link, Event::closed);
    return attempt_failed(link, status.message(), Dialer::Failure::attempt);
  }
  by_endpoint_[link.endpoint] = &link;
  // What is queued goes right behind the hello, unless the server must first say how far it came.
  if (context_.can().early_messages && outstanding(link).may_go_early()) {
    link.trust = Link::Trust::early_requests;
    (void)layers_.sender.send_queued(link);
  }
  (void)context_.fabric->flush(link.endpoint);
}

void Links::disconnect(Link& link, bool drained) {
  if (link.endpoint == fabric::no_endpoint) return;
  by_endpoint_.erase(link.endpoint);
  if (drained) context_.fabric->close_drained(link.endpoint);
  else context_.fabric->close(link.endpoint);
  link.endpoint = fabric::no_endpoint;
  ++context_.counters.connections_closed;
  release_unused(link);
}

// The link is drained, but the fabric may be full with what others send through it: then
// on_writable comes back for this. If the endpoint died meanwhile, on_closed follows and ends it.
void Links::send_bye(Link& link, bool more) {
  const wire::CloseHeader bye{wire::version, static_cast<uint8_t>(wire::CloseKind::bye), 0,
                              link.session.incarnation(), link.backlog.sent};
  SKERRY_INVARIANT(!outstanding(link).keeps_connection(), "a bye says that nothing is outstanding");
  const bool refused = context_.fabric->send(link.endpoint, std::as_bytes(std::span(&bye, 1)), {},
                                             more, 0) == fabric::SendResult::would_block;
  if (refused) link.room = Link::Room::full_before_bye;
}

// Its server remembers the session with or without its answer. Somebody may wait for the
// connection that this one shares.
void Links::close_behind_bye(Link& link) {
  if (link.room != Link::Room::free || link.lock_waits > 0 || !layers_.progress.may_close()) return;
  disconnect(link, true);
  (void)step(link, Event::closed);
}

void Links::please_close(Link& link) {
  // In the middle of a transfer, draining would wait for acknowledgements of its last part.
  if (link.transfers > 0) link.leaves_later = true;
  else drive(link, Event::please_close);
}

void Links::transfer_ended(Link& link) {
  context_.assert_held();
  SKERRY_INVARIANT(link.transfers > 0, "transfers end as often as they begin");
  if (--link.transfers == 0 && std::exchange(link.leaves_later, false))
    drive(link, Event::please_close);
}

bool Links::close_idle() {
  context_.assert_held();
  bool all = true;
  for (Link* link : all_) {
    link->is_invited = false;
    cap_.withdraw(link->claim);  // one that is being resumed has nothing outstanding any more
    if (link->machine.state() == State::open && !link->replay.running()) drive(*link, Event::evict);
    all = all && link->machine.state() == State::idle;
  }
  return all;
}

// An attempt failed that may succeed later. Outstanding requests wait for the next one. A link that
// was given up is opened when it is wanted next.
void Links::attempt_failed(Link& link, std::string_view what, Dialer::Failure failure) {
  context_.assert_held();
  SKERRY_INVARIANT(link.endpoint == fabric::no_endpoint, "what failed is closed");
  const int64_t now_ns = monotonic_ns();
  uint32_t random = 0;
  random_bytes(&random, sizeof random);
  if (!link.dialer.failed(now_ns, context_.config.reconnect_limit_ns, random, failure))
    return fail(link, error(Code::peer_dead, "rank ", context_.config.rank,
                            " cannot reach the data server of node ", link.server.node, " for ",
                            link.dialer.failing_for_ns(now_ns) / 1'000'000'000, " s: ", what,
                            ". A rank there has ended or was stopped, or the network between the "
                            "nodes failed for longer than SKERRY_RECONNECT_TIMEOUT"));
  if (!unacknowledged(link) && link.lock_waits == 0 && link.waiters == 0)
    return link.dialer.restart_clock();
  open(link);
  layers_.progress.call_helper(false);  // should the program be computing
}

// Nobody gives up a server whose process lives. Its death is told by other means.
void Links::wait_for_stopped(Link& link) {
  context_.assert_held();
  link.dialer.restart_clock();
  if (std::exchange(link.told_of_stop, true)) return;
  std::fprintf(stderr,
               "skerry: rank %d waits for the data server of node %d: its host takes connections, "
               "but it has not answered for SKERRY_CONNECT_TIMEOUT. Its process seems to be "
               "stopped, as under a debugger\n",
               context_.config.rank, link.server.node);
}

void Links::fail(Link& link, Status why) {
  context_.assert_held();
  if (!link.failure.ok()) return;
  link.failure = std::move(why);
  link.is_invited = false;
  cap_.withdraw(link.claim);
  context_.backlog.drop(link.backlog);
  layers_.slots.abandon(link, link.failure);
  layers_.rma.abandon(link, link.failure);
  link.log.reset();  // nothing is sent again
  end_resume(link);
}

void Links::fail_and_close(Link& link, Status why) {
  disconnect(link, false);
  fail(link, std::move(why));
  while (link.machine.state() != State::idle) (void)step(link, Event::closed);
}

void Links::abandon_transfers() {
  for (Link* link : all_)
    if (link->rma.outstanding > 0) fail_and_close(*link, context_.abort_status());
}

void Links::release_unused(Link& link) {
  if (link.log && link.log->empty()) link.log.reset();
  if (link.batch && !link.has_batch() && !link.corked) link.batch.reset();
  if (link.session.drained()) link.rma.last_messages.reset();
}

void Links::release_unused() {
  context_.assert_held();
  for (const auto& [endpoint, link] : by_endpoint_)
    if (link->log && link->log->empty()) link->log->trim();
}

// ---- waiting ----------------------------------------------------------------------------------

Status Links::wait_open(Lock& lock, Link& link) {
  // A server that needs the slot may have closed an idle connection. What is sent then is lost, and
  // the origin notices only later.
  if (context_.config.servers_drop && link.is_ready() && !unacknowledged(link))
    layers_.progress.look(lock);
  if (link.is_ready()) [[likely]]
    return {};
  const bool was_open = link.machine.state() == State::open;
  const int64_t begin_ns = was_open ? 0 : monotonic_ns();
  ++link.waiters;
  Status status;
  while (status.ok() && !link.is_ready()) {
    if (!link.failure.ok()) {
      status = link.failure;
      break;
    }
    if (link.machine.state() != State::open) open(link);
    const auto opened = [&] {
      return link.is_ready() || !link.failure.ok() ||
             (connection::hold_of(link.machine.state()) != Cap::Hold::occupied &&
              !link.claim.waits);
    };
    status = layers_.progress.wait_until(lock, opened, nullptr,
                                         {no_deadline, wait_slice_ns, link.server.node});
  }
  --link.waiters;
  if (!was_open)
    context_.counters.setup_exposed_ns += static_cast<uint64_t>(monotonic_ns() - begin_ns);
  return status;
}

// ---- the fabric's upcalls ---------------------------------------------------------------------

// The server's answer proves its identity and says how far the session has come.
Status Links::check_answer(Link& link, fabric::Bytes answer, uint64_t* applied) {
  bool refusals_follow = false;
  SKERRY_TRY(link.dialer.check(caller(), peer_of(link), answer, applied, &refusals_follow));
  // Everything the server has applied counts from now on; what follows is sent again before
  // anything new.
  if (*applied < link.session.applied()) return link.session.resume(*applied);  // an error
  SKERRY_TRY(acknowledge(link, *applied));
  return link.session.resume(*applied, refusals_follow);
}

// The server is there and this link waits for its turn. Only failures from now on count.
void Links::on_held(fabric::EndpointId endpoint) {
  if (Link* link = of(endpoint)) link->dialer.restart_clock();
}

void Links::on_connected(fabric::EndpointId endpoint, fabric::Bytes answer) {
  Link* link = of(endpoint);
  if (link == nullptr) return;  // late: closed meanwhile
  const bool must_resume = link->trust != Link::Trust::early_requests &&
                           outstanding(*link).must_resume();
  uint64_t applied = 0;
  Status status = check_answer(*link, answer, &applied);
  if (!status.ok()) return fail_and_close(*link, std::move(status));
  opened(*link, must_resume);
  maybe_drained(*link);
}

void Links::opened(Link& link, bool must_resume) {
  ++context_.counters.connections_opened;
  if (must_resume) ++context_.counters.connections_resumed;
  if (!must_resume || !outstanding(link).keeps_connection())
    link.dialer.succeeded();  // nothing will be acknowledged that would say so
  link.trust = Link::Trust::unproven;
  link.told_of_stop = false;
  cap_.withdraw(link.claim);
  drive(link, Event::connected);
  SKERRY_INVARIANT(link.machine.state() == State::open, "it was opening");
  // All was applied; only the server's word was missing. Other links may be waiting for the slot.
  if (must_resume && context_.config.servers_drop && link.waiters == 0 && link.lock_waits == 0 &&
      !unacknowledged(link))
    return drive(link, Event::please_close);
  if (must_resume) layers_.resume.all(link);
  else if (link.has_queued()) layers_.resume.queued(link);
}

void Links::on_writable(fabric::EndpointId endpoint) {
  Link* link = of(endpoint);
  if (link == nullptr) return;
  const bool bye_waits = link->room == Link::Room::full_before_bye;
  link->room = Link::Room::free;
  if (bye_waits) send_bye(*link, false);
  // It waited for a slot of a shared connection, and has one: its requests go behind the hello.
  if (link->machine.state() == State::opening && link->trust == Link::Trust::early_requests)
    (void)layers_.sender.send_queued(*link);
  layers_.resume.go_on(*link);
  maybe_drained(*link);
}

void Links::on_closed(fabric::EndpointId endpoint, fabric::CloseReason reason,
                      std::string_view detail) {
  Link* link = of(endpoint);
  if (link == nullptr) return;
  by_endpoint_.erase(endpoint);
  link->endpoint = fabric::no_endpoint;
  link->room = Link::Room::free;
  const State before = link->machine.state();
  if (before == State::opening) {
    end_resume(*link);
    (void)step(*link, Event::closed);
    const std::string what = concat(to_string(reason), detail.empty() ? "" : ", ", detail);
    if (reason == fabric::CloseReason::unanswered) wait_for_stopped(*link);
    if (reason != fabric::CloseReason::protocol_error)
      return attempt_failed(*link, what, Dialer::Failure::attempt);
    // Another attempt would fail likewise.
    return fail(
        *link, error(Code::network, "rank ", context_.config.rank,
                     " cannot connect to the data server of node ", link->server.node, ": ", what));
  }
  ++context_.counters.connections_closed;
  if (before == State::open) link->dialer.was_open(monotonic_ns() - link->claim.since_ns);
  if (link->trust == Link::Trust::farewell) {
    ++context_.counters.connections_dropped;
    link->replay.forget_portion();
  }
  end_resume(*link);
  drive(*link, Event::closed);
  if (link->machine.state() == State::idle) release_unused(*link);
  // The connection broke before the server had our bye, so a mutex's grant may be lost. Ask again.
  // (A close in order is the server's answer to the bye, unless we asked for a lock again: then it
  // answers in words.)
  if (before == State::closing && link->lock_waits > 0 &&
      (reason != fabric::CloseReason::by_peer || link->asked_again != 0))
    open(*link);
  if (link->has_queued() && before != State::closing)
    open(*link);  // it broke with the queue half sent
}

// ---- what it takes ----------------------------------------------------------------------------

void Links::account(fabric::ConnectionsMemory* taken) const {
  taken->connections += by_endpoint_.size();
  taken->connection_bytes += table_bytes(by_endpoint_);
  for (const Link* link : all_) {
    if (link->log) taken->connection_bytes += sizeof *link->log + link->log->memory_bytes();
    if (link->batch) taken->connection_bytes += sizeof *link->batch;
    if (link->rma.last_messages)
      taken->connection_bytes += sizeof *link->rma.last_messages +
                                 table_bytes(*link->rma.last_messages);
  }
  taken->known += all_.size();
  taken->known_bytes += all_.size() * sizeof(Link) + table_bytes(by_server_) + vector_bytes(all_) +
                        vector_bytes(listed_) + cap_.memory_bytes();
}

void Links::count(EngineCounters* counters) const {
  const Cap::Counters& cap = cap_.counters();
  counters->connections_now = cap_.occupied() + cap_.leaving();
  counters->connections_peak = cap.peak;
  counters->connections_evicted = cap.evicted;
  if (context_.fabric->limits_connections()) {
    const fabric::Fabric::Connections shared = context_.fabric->connections();
    counters->connections_now = shared.now;
    counters->connections_peak = shared.peak;
    counters->connections_evicted = shared.evicted;
  }
  counters->setup_ns = cap.setup_ns;
  counters->teardown_ns = cap.teardown_ns;
  counters->teardown_exposed_ns = cap.teardown_exposed_ns;
  counters->teardowns_hidden = cap.teardowns_hidden;
  counters->links = all_.size();
}

}  // namespace skerry::origin
