#include "origin/link/links.hpp"

#include <algorithm>
#include <utility>

#include "core/pure/container_bytes.hpp"
#include "origin/link/rma_log.hpp"

namespace skerry::origin {

using connection::Action;
using connection::Cap;
using connection::Event;
using connection::State;
using Trust = Connection::Trust;

// ---- what is outstanding ----------------------------------------------------------------------

const std::vector<Link*>& Links::listed() {
  context_.assert_held();
  std::erase_if(listed_, [&](Link* link) {
    const Requests& requests = link->requests;
    const Connection& c = link->connection;
    if (c.is_lost() ? c.loss_ == Connection::Loss::to_tell || requests.implicit_number() != 0
                    : unacknowledged(*link) || link->answers.locks() > 0 ||
                          requests.implicit_number() != 0 || requests.has_failure())
      return false;
    link->connection.is_listed_ = false;
    return true;
  });
  return listed_;
}

bool Links::any_unacknowledged() {
  return std::any_of(listed().begin(), listed().end(), [&](const Link* link) {
    return !link->connection.has_failed() && unacknowledged(*link);
  });
}

session::Outstanding Links::outstanding(const Link& link) const {
  session::Outstanding out;
  const uint64_t applied = link.requests.applied();
  out.unapplied = link.requests.backlog.sent > applied ? link.requests.backlog.sent - applied : 0;
  out.queued = link.requests.backlog.issued - link.requests.backlog.sent;
  out.answers = link.answers.waiting();
  out.queued_answers = link.requests.backlog.replies;
  out.parked_locks = slots_.parked_locks(link);
  out.locks = link.answers.locks();
  out.rma = link.direct.outstanding();
  out.refusals = link.requests.session().refusal_due();
  out.batch = link.held.any();
  out.batch_queues = queues();
  SKERRY_INVARIANT(out.answers >= out.queued_answers + out.parked_locks && out.locks <= out.answers,
                   "queued requests and parked locks are among those that are waited for");
  return out;
}

Status Links::acknowledge(Link& link, uint64_t applied) {
  context_.assert_held();
  bool news = false;
  SKERRY_TRY(link.requests.acknowledge(applied, &news));
  if (news) got_through(link);
  return {};
}

void Links::got_through(Link& link) {
  context_.assert_held();
  Connection& c = link.connection;
  if (c.trust_ == Trust::unproven) c.trust_ = Trust::proven;
  c.dialer_.succeeded();
}

void Links::maybe_drained(Link& link) {
  context_.assert_held();
  if (link.connection.state() == State::draining && !link.requests.replay.running() &&
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
  const auto parts = backlog_.parts();
  // A copy: opening a link may send all that it has queued.
  for (session::Backlog::Part* part :
       std::vector<session::Backlog::Part*>(parts.begin(), parts.end()))
    if (!part->empty()) open(at(part->owner));
}

// Feeds the machine and keeps count of slots.
Action Links::step(Link& link, Event event) {
  Connection& c = link.connection;
  context_.assert_held();
  const State before = c.state();
  const session::Outstanding out = outstanding(link);
  // Nothing may follow a bye: a link that still has to send again drains first.
  const bool keeps = link.requests.replay.running() ||
                     (event == Event::closed
                          ? out.is_lost_with_it(c.trust_ == Trust::farewell && c.asked_again_ == 0)
                          : out.keeps_connection());
  const Action action = c.machine_.on(event, keeps);
  const State after = c.state();
  if (before == after) return action;
  const int64_t now_ns = monotonic_ns();
  cap_.hold(c.claim_, connection::hold_of(after), now_ns, event == Event::evict);
  if (before == State::opening && after == State::open) cap_.connected(c.claim_, now_ns);
  return action;
}

void Links::open(Link& link) {
  cap_.open(link.connection.claim_);
  advance();
}

void Links::advance() {
  context_.assert_held();
  if (context_.is_ending()) return;
  next_due_ns_ = 0;
  cap_.serve_queue([&](Cap::Claim& claim) { serve(at(claim.partner)); });
}

// Opens a link that waits for a connection, if there is a slot and its time has come.
void Links::serve(Link& link) {
  Connection& c = link.connection;
  if (c.has_failed()) return cap_.withdraw(c.claim_);
  switch (c.state()) {
    case State::open: return cap_.withdraw(c.claim_);
    case State::opening:
    case State::closing: return;
    case State::draining:
      if (cap_.at_limit()) return;  // it leaves, and comes back in its turn
      cap_.withdraw(c.claim_);
      return drive(link, Event::want);
    case State::idle: break;
  }
  if (const Status* const lost = context_.loss_of(link.server.node); lost != nullptr) {
    const Connection::Loss loss = link.loss_now();
    fail(link, *lost);
    c.loss_ = loss;
    return;
  }
  if (!c.dialer_.is_due(monotonic_ns())) {
    if (next_due_ns_ == 0 || c.dialer_.due_ns() < next_due_ns_)
      next_due_ns_ = c.dialer_.due_ns();
    return;
  }
  const bool is_invited = std::exchange(c.is_invited_, false);
  if (is_invited && !has_room_for(link)) return cap_.withdraw(c.claim_);  // others were faster
  const bool brings_others = fabric_limits_ && !is_invited;
  if (take_slot(link)) drive(link, Event::want);
  if (brings_others) invite();
  if (held_bye_ == fabric::no_endpoint) return;
  (void)context_.fabric->flush(std::exchange(held_bye_, fabric::no_endpoint));
  (void)close_leavers();
}

bool Links::has_room_for(const Link& link) const {
  return fabric_limits_ ? context_.fabric->has_room_for(context_.address_of(link.server))
                        : !cap_.at_limit();
}

// A connection that several links share is being opened for one of them. The others that have
// something queued go along.
void Links::invite() {
  for (const session::Backlog::Part* part : backlog_.parts()) {
    Link& link = at(part->owner);
    if (part->empty() || link.connection.waits() || link.connection.state() != State::idle ||
        !has_room_for(link))
      continue;
    link.connection.is_invited_ = true;
    cap_.open(link.connection.claim_);
  }
}

// Returns false if no link could make way yet. Call again after the next event.
bool Links::take_slot(Link& link) {
  SKERRY_INVARIANT(link.connection.claim_.hold == Cap::Hold::none, "one connection has one slot");
  for (;;) {
    const int64_t now_ns = monotonic_ns();
    Cap::Claim* victim = nullptr;
    const auto of = [&](const Cap::Claim& claim) { return standing(at(claim.partner)); };
    switch (cap_.ask(now_ns, of, &victim)) {
      case Cap::Answer::granted: return true;
      case Cap::Answer::wait: return false;
      case Cap::Answer::hasten:
        if (close_leavers()) break;
        cap_.denied(now_ns);
        return false;
      case Cap::Answer::evict:
        evict(at(victim->partner));
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
  const Connection& c = link.connection;
  if (c.state() != State::open || link.requests.replay.running() || c.transfers_ > 0)
    return Cap::Standing::busy;
  return c.trust_ == Trust::unproven && c.waiters_ > 0 ? Cap::Standing::unproven
                                                       : Cap::Standing::settled;
}

// Closes a link that said bye and has nothing outstanding. It waits only for the server's answer,
// and the server remembers the session either way. So when its slot is wanted it closes without
// the answer. Returns false if the link still drains or another thread is in the fabric.
bool Links::close_leavers() {
  if (!progress_.role_is_free()) return false;
  for (size_t i = cap_.leavers().size(); i > 0; --i) {  // it shrinks
    Link& link = at(cap_.leavers()[i - 1]->partner);
    if (link.connection.state() != State::closing || link.answers.locks() > 0)
      continue;  // a grant may be on its way to a thread that waits for a mutex
    disconnect(link, true);
    (void)step(link, Event::closed);
  }
  return cap_.leaving() == 0;
}

void Links::evict(Link& link) {
  user_.drained(link);
  evicting_ = true;
  drive(link, Event::evict);
  evicting_ = false;
}

int64_t Links::patience_ns() const {
  if (next_due_ns_ == 0 || !cap_.anyone_waits()) return wait_slice_ns;
  return std::clamp<int64_t>(next_due_ns_ - monotonic_ns(), 1000, wait_slice_ns);
}

// ---- what it takes ----------------------------------------------------------------------------

void Links::account(fabric::ConnectionsMemory* taken) const {
  LinkTable::account(taken);
  for (const Link* link : all())
    taken->connection_bytes += link->requests.memory_bytes() + RmaLog::memory_bytes(*link);
  taken->known_bytes += vector_bytes(listed_) + cap_.memory_bytes();
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
  counters->links = all().size();
}

}  // namespace skerry::origin
