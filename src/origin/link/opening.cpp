#include "origin/link/links.hpp"

#include <utility>

#include "wire/message.hpp"

namespace skerry::origin {

using connection::Action;
using connection::Cap;
using connection::Dialer;
using connection::Event;
using connection::State;
using fabric::CloseReason;
using Room = Connection::Room;
using Trust = Connection::Trust;

// ---- opening and closing ----------------------------------------------------------------------

// Feeds the machine and performs what it answers.
void Links::drive(Link& link, Event event) {
  switch (step(link, event)) {
    case Action::send_queued:  // threads that wait for the link look again
      if (event == Event::want && link.has_queued() && !link.requests.replay.running())
        user_.opened(link, false);  // otherwise it is on its way there
      return;
    case Action::none: return;
    case Action::connect: return connect(link);
    case Action::close_endpoint: return disconnect(link, false);
    case Action::send_bye:
      // A victim's bye is held back until the newcomer's connect is on its way: the server that
      // gets the bye may preempt us.
      send_bye(link, evicting_);
      if (evicting_) held_bye_ = link.connection.endpoint_;
      else if (context_.can().close_delivers) close_behind_bye(link);
      return;
    case Action::broken:
      ++context_.counters.connections_broken;
      attempt_failed(link, Dialer::Failure::broken, CloseReason::reset, "the connection was lost");
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
  Connection& c = link.connection;
  const auto hello = c.dialer_.dial(caller(), peer_of(link));
  c.room_ = Room::free;
  c.trust_ = Trust::plain_hello;
  c.leaves_later_ = false;
  c.asked_again_ = 0;
  end_resume(link);
  const Status status = context_.fabric->connect(context_.address_of(link.server), hello,
                                                 &c.endpoint_);
  if (!status.ok()) {
    // For example no descriptor is free. Like any failed attempt it may succeed in a moment.
    c.endpoint_ = fabric::no_endpoint;
    (void)step(link, Event::closed);
    return attempt_failed(link, Dialer::Failure::attempt, CloseReason::unreachable,
                          status.message());
  }
  attach(c.endpoint_, link);
  // What is queued goes right behind the hello, unless the server must first say how far it came.
  if (context_.can().early_messages && outstanding(link).may_go_early()) {
    c.trust_ = Trust::early_requests;
    user_.writable(link);
  }
  (void)context_.fabric->flush(c.endpoint_);
}

void Links::disconnect(Link& link, bool drained) {
  Connection& c = link.connection;
  if (c.endpoint_ == fabric::no_endpoint) return;
  detach(c.endpoint_);
  if (drained) context_.fabric->close_drained(c.endpoint_);
  else context_.fabric->close(c.endpoint_);
  c.endpoint_ = fabric::no_endpoint;
  ++context_.counters.connections_closed;
  link.requests.release();
  user_.drained(link);
}

// The link is drained, but the fabric may be full with what others send through it: then
// on_writable comes back for this. If the endpoint died meanwhile, on_closed follows and ends it.
void Links::send_bye(Link& link, bool more) {
  Connection& c = link.connection;
  const wire::CloseHeader bye{wire::version, static_cast<uint8_t>(wire::CloseKind::bye), 0,
                              link.requests.session().incarnation(), link.requests.backlog.sent};
  SKERRY_INVARIANT(!outstanding(link).keeps_connection(), "a bye says that nothing is outstanding");
  const auto bytes = std::as_bytes(std::span(&bye, 1));
  if (context_.fabric->send(c.endpoint_, bytes, {}, more, 0) == fabric::SendResult::would_block)
    c.room_ = Room::full_before_bye;
}

// Its server remembers the session with or without its answer. Somebody may wait for the
// connection that this one shares.
void Links::close_behind_bye(Link& link) {
  Connection& c = link.connection;
  if (c.room_ != Room::free || link.answers.locks() > 0 || !progress_.may_close()) return;
  disconnect(link, true);
  (void)step(link, Event::closed);
}

void Links::please_close(Link& link) {
  // In the middle of a transfer, draining would wait for acknowledgements of its last part.
  if (link.connection.transfers_ > 0) link.connection.leaves_later_ = true;
  else drive(link, Event::please_close);
}

void Links::transfer_ended(Link& link) {
  context_.assert_held();
  SKERRY_INVARIANT(link.connection.transfers_ > 0, "transfers end as often as they begin");
  if (--link.connection.transfers_ == 0 && std::exchange(link.connection.leaves_later_, false))
    drive(link, Event::please_close);
}

bool Links::close_idle() {
  context_.assert_held();
  bool have_gone = true;
  for (Link* link : all()) {
    Connection& c = link->connection;
    c.is_invited_ = false;
    cap_.withdraw(c.claim_);  // one that is being resumed has nothing outstanding any more
    if (c.state() == State::open && !link->requests.replay.running()) drive(*link, Event::evict);
    have_gone = have_gone && c.state() == State::idle;
  }
  return have_gone;
}

// An attempt failed that may succeed later. Outstanding requests wait for the next one. A link that
// was given up is opened when it is wanted next.
void Links::attempt_failed(Link& link, Dialer::Failure failure, CloseReason reason,
                           std::string_view what) {
  Connection& c = link.connection;
  context_.assert_held();
  SKERRY_INVARIANT(c.endpoint_ == fabric::no_endpoint, "what failed is closed");
  const int64_t now_ns = monotonic_ns();
  uint32_t random = 0;
  random_bytes(&random, sizeof random);
  if (!c.dialer_.failed(now_ns, context_.config.reconnect_limit_ns, random, failure)) {
    const bool refused = is_refusal(reason);  // then somebody lives there
    return fail(
        link, error(refused ? Code::network : Code::peer_dead, "rank ", context_.config.rank,
                    " cannot reach the data server of node ", link.server.node, " for ",
                    c.dialer_.failing_for_ns(now_ns) / 1'000'000'000, " s: ", what,
                    refused ? ""
                            : ". A rank there has ended or was stopped, or the network between the "
                              "nodes failed for longer than SKERRY_RECONNECT_TIMEOUT"));
  }
  if (!unacknowledged(link) && link.answers.locks() == 0 && c.waiters_ == 0)
    return c.dialer_.restart_clock();
  open(link);
  progress_.call_helper(false);  // should the program be computing
}

// Nobody gives up a server whose process lives. Its death is told by other means.
void Links::wait_for_stopped(Link& link) {
  context_.assert_held();
  link.connection.dialer_.restart_clock();
  if (std::exchange(link.connection.told_of_stop_, true)) return;
  warn(concat(
      "rank ", context_.config.rank, " waits for the data server of node ", link.server.node,
      ": its host takes connections, but it has not answered for SKERRY_CONNECT_TIMEOUT. Its "
      "process seems to be stopped, as under a debugger"));
}

void Links::fail(Link& link, Status why) {
  context_.assert_held();
  if (link.connection.has_failed()) return;
  link.connection.failure_ = std::move(why);
  link.connection.is_invited_ = false;
  cap_.withdraw(link.connection.claim_);
  backlog_.drop(link.requests.backlog);
  user_.broken(link);
  link.requests.drop();
  end_resume(link);
}

void Links::fail_and_close(Link& link, Status why) {
  disconnect(link, false);
  fail(link, std::move(why));
  while (link.connection.state() != State::idle) (void)step(link, Event::closed);
}

void Links::abandon_transfers() {
  for (Link* link : all())
    if (link->direct.outstanding() > 0) fail_and_close(*link, context_.abort_status());
}

void Links::trim() {
  context_.assert_held();
  for (const auto& [endpoint, link] : by_endpoint()) link->requests.trim();
}

// ---- waiting ----------------------------------------------------------------------------------

Status Links::wait_open(Lock& lock, Link& link) {
  Connection& c = link.connection;
  // A server that needs the slot may have closed an idle connection. What is sent then is lost, and
  // the origin notices only later.
  if (context_.config.servers_drop && link.is_ready() && !unacknowledged(link))
    progress_.look(lock);
  if (link.is_ready()) [[likely]]
    return {};
  const bool was_open = c.state() == State::open;
  const int64_t begin_ns = was_open ? 0 : monotonic_ns();
  ++c.waiters_;
  Status status;
  while (status.ok() && !link.is_ready()) {
    if (c.has_failed()) {
      status = c.failure_;
      break;
    }
    if (c.state() != State::open) open(link);
    const auto opened = [&] {
      return link.is_ready() || c.has_failed() ||
             (connection::hold_of(c.state()) != Cap::Hold::occupied &&
              !c.waits());
    };
    status = progress_.wait_until(lock, opened, {.node = link.server.node});
  }
  --c.waiters_;
  if (!was_open)
    context_.counters.setup_exposed_ns += static_cast<uint64_t>(monotonic_ns() - begin_ns);
  return status;
}

// ---- the fabric's upcalls ---------------------------------------------------------------------

// The server's answer proves its identity and says how far the session has come.
Status Links::check_answer(Link& link, fabric::Bytes answer, uint64_t* applied) {
  bool refusals_follow = false;
  const Dialer& dialer = link.connection.dialer_;
  SKERRY_TRY(dialer.check(caller(), peer_of(link), answer, applied, &refusals_follow));
  // Everything the server has applied counts from now on; what follows is sent again before
  // anything new.
  if (*applied < link.requests.applied()) return link.requests.resume(*applied);  // an error
  SKERRY_TRY(acknowledge(link, *applied));
  return link.requests.resume(*applied, refusals_follow);
}

// The server is there and this link waits for its turn. Only failures from now on count.
void Links::on_held(fabric::EndpointId endpoint) {
  if (Link* link = of(endpoint)) link->connection.dialer_.restart_clock();
}

void Links::on_connected(fabric::EndpointId endpoint, fabric::Bytes answer) {
  Link* link = of(endpoint);
  if (link == nullptr) return;  // late: closed meanwhile
  const bool must_resume = link->connection.trust_ != Trust::early_requests &&
                           outstanding(*link).must_resume();
  uint64_t applied = 0;
  Status status = check_answer(*link, answer, &applied);
  if (!status.ok()) return fail_and_close(*link, std::move(status));
  opened(*link, must_resume);
  maybe_drained(*link);
}

void Links::opened(Link& link, bool must_resume) {
  Connection& c = link.connection;
  ++context_.counters.connections_opened;
  if (must_resume) ++context_.counters.connections_resumed;
  if (!must_resume || !outstanding(link).keeps_connection())
    c.dialer_.succeeded();  // nothing will be acknowledged that would say so
  c.trust_ = Trust::unproven;
  c.told_of_stop_ = false;
  cap_.withdraw(c.claim_);
  drive(link, Event::connected);
  SKERRY_INVARIANT(c.state() == State::open, "it was opening");
  // All was applied; only the server's word was missing. Other links may be waiting for the slot.
  if (must_resume && context_.config.servers_drop && c.waiters_ == 0 &&
      link.answers.locks() == 0 && !unacknowledged(link))
    return drive(link, Event::please_close);
  user_.opened(link, must_resume);
}

void Links::on_writable(fabric::EndpointId endpoint) {
  Link* link = of(endpoint);
  if (link == nullptr) return;
  Connection& c = link->connection;
  const bool bye_waits = c.room_ == Room::full_before_bye;
  c.room_ = Room::free;
  if (bye_waits) send_bye(*link, false);
  user_.writable(*link);
  maybe_drained(*link);
}

void Links::on_closed(fabric::EndpointId endpoint, CloseReason reason, std::string_view detail) {
  Link* link = of(endpoint);
  if (link == nullptr) return;
  Connection& c = link->connection;
  detach(endpoint);
  c.endpoint_ = fabric::no_endpoint;
  c.room_ = Room::free;
  const State before = c.state();
  if (before == State::opening) {
    end_resume(*link);
    (void)step(*link, Event::closed);
    const std::string what = concat(to_string(reason), detail.empty() ? "" : ", ", detail);
    if (reason == CloseReason::unanswered) wait_for_stopped(*link);
    if (reason != CloseReason::protocol_error)
      return attempt_failed(*link, Dialer::Failure::attempt, reason, what);
    // Another attempt would fail likewise.
    return fail(
        *link, error(Code::network, "rank ", context_.config.rank,
                     " cannot connect to the data server of node ", link->server.node, ": ", what));
  }
  ++context_.counters.connections_closed;
  if (before == State::open) c.dialer_.was_open(monotonic_ns() - c.claim_.since_ns);
  if (c.trust_ == Trust::farewell) {
    ++context_.counters.connections_dropped;
    link->requests.replay.forget_portion();
  }
  // What was not sent again yet may be the question for a lock: no farewell answers that.
  if (link->requests.replay.running()) c.note_asked_again();
  end_resume(*link);
  drive(*link, Event::closed);
  if (c.state() == State::idle) {
    link->requests.release();
    user_.drained(*link);
  }
  // The connection broke before the server had our bye, so a mutex's grant may be lost. Ask again.
  // (A close in order is the server's answer to the bye, unless we asked for a lock again: then it
  // answers in words.)
  if (before == State::closing && link->answers.locks() > 0 &&
      (reason != CloseReason::by_peer || c.asked_again_ != 0))
    open(*link);
  if (link->has_queued() && before != State::closing)
    open(*link);  // it broke with the queue half sent
}

}  // namespace skerry::origin
