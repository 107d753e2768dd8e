// Connections to data servers: opened on demand, making way for each other under the cap, retried,
// resumed when they break, closed. ACTS: A. Vishnu, M. Krishnan, P. Balaji, "Dynamic Time-Variant
// Connection Management for PGAS Models on InfiniBand", section IV.
//
// The decisions are pure classes in src/connection. `Machine` has the states, `Cap` says which link
// gets a slot and which is evicted, `Dialer` when to try again. `Outstanding` (src/session) says
// when a link may close. This performs them on the fabric. A victim is chosen in Cap::ask, with
// what standing() says of each.
#pragma once

#include <string_view>
#include <vector>

#include "connection/cap.hpp"
#include "origin/context.hpp"
#include "origin/link/slots.hpp"
#include "origin/link/table.hpp"
#include "origin/progress/progress.hpp"

namespace skerry::origin {

class Links : public LinkTable {
 public:
  // Those who send, as links see them.
  class User {
   public:
    // It is open, or stays open though it was to close: what waits for it goes. `must_resume`: a
    // break may have lost something, which goes again first.
    virtual void opened(Link& link, bool must_resume) = 0;
    // Its server cannot be reached any more: everything that waits for an answer fails with the
    // link's failure.
    virtual void broken(Link& link) = 0;
    // It takes messages, once more or already while it opens: what did not fit goes on.
    virtual void writable(Link& link) = 0;
    // It is about to close, or has closed, with nothing outstanding: what is held back goes if it
    // can, and memory that it does not need now.
    virtual void drained(Link& link) = 0;

   protected:
    ~User() = default;
  };

  Links(EngineContext& context, Progress& progress, Slots& slots, User& user)
      : LinkTable(context), progress_(progress), slots_(slots), user_(user) {}

  // ---- what is outstanding ---------------------------------------------------------------------
  // Something is, or may soon be, outstanding on it.
  void list(Link& link) {
    if (!std::exchange(link.connection.is_listed_, true)) listed_.push_back(&link);
  }
  // Links on which something is outstanding, or whose refusals nobody has heard. A caller that
  // gives up the mutex starts from the front again. Forgets links on which nothing is left.
  const std::vector<Link*>& listed();
  bool any_unacknowledged();
  // What a break lost is sent again, in portions that wait for answers.
  bool any_resumes() const { return resumes_ > 0; }
  void begin_resume(Link& link, uint64_t from, session::ReplayCursor::Scope scope,
                    uint64_t oldest = 0) {
    if (!link.requests.replay.running()) ++resumes_;
    link.requests.replay.start(from, scope, oldest);
  }
  void end_resume(Link& link) {
    if (link.requests.replay.running()) --resumes_;
    link.requests.replay.stop();
  }

  session::Outstanding outstanding(const Link& link) const;
  bool unacknowledged(const Link& link) const { return outstanding(link).keeps_fence(); }
  // Some of what was sent is still here: a portion that has to go again, or what the network has
  // not taken yet.
  bool has_unsent(const Link& link) const {
    const fabric::EndpointId endpoint = link.connection.endpoint();
    return link.requests.replay.running() ||
           (endpoint != fabric::no_endpoint && context_.fabric->unsent_bytes(endpoint) > 0);
  }
  // The server says that everything up to `applied` is remote done. Errors: internal (not so).
  Status acknowledge(Link& link, uint64_t applied);
  // Something that was waited for arrived on its connection: an acknowledgement, an answer, the end
  // of a transfer. The next break is a first one.
  void got_through(Link& link);
  // If it drains and nothing keeps it any more: it says bye. To be called after whatever may have
  // been the last thing outstanding.
  void maybe_drained(Link& link);

  // ---- requests that wait for their link's connection ------------------------------------------
  const session::Backlog& backlog() const { return backlog_; }
  // The request that was just committed waits.
  void queue(Link& link, uint64_t copied_bytes, bool awaits_reply) {
    backlog_.add(link.requests.backlog, copied_bytes, awaits_reply, monotonic_ns());
  }
  // The request that was just committed went out.
  void sent(Link& link, uint64_t number) {
    session::Backlog::passed(link.requests.backlog, number);
    cap_.used(link.connection.claim_);
  }
  // One that was queued went out.
  void queued_sent(Link& link, uint64_t number) {
    const bool awaits_reply = link.requests.log()->awaits_reply(number);
    if (backlog_.sent(link.requests.backlog, number, awaits_reply))
      cap_.used(link.connection.claim_);
  }
  void restart_queue_clock() { backlog_.restart_clock(monotonic_ns()); }
  // Do answers come that a program which computes leaves to the helper? `unwaited`: it will come
  // back for some.
  bool answers_come(bool unwaited) const {
    return resumes_ > 0 ||
           (unwaited && (backlog_.empty() || slots_.in_use() > backlog_.replies()));
  }

  // ---- opening and closing ---------------------------------------------------------------------
  bool is_limited() const { return cap_.limit() != 0 || fabric_limits_; }
  // Can it be opened without another making way?
  bool has_room_for(const Link& link) const;
  Status limit(uint32_t connections);
  // It is opened as soon as it gets a slot.
  void open(Link& link);
  // Do requests that nobody waits for queue while their server has no connection? Only under a cap:
  // otherwise opening early costs nothing. Without the helper nobody would see to those of a
  // program that stops calling us; and the fabric's own transfers take no number in the log.
  bool queues() const;
  // Asks for every link that has something queued.
  void open_queued();
  // Gives slots to those that wait for one.
  void advance();
  bool anyone_waits() const { return cap_.anyone_waits(); }
  // How long to sleep at most: until the next attempt is due.
  int64_t patience_ns() const;
  // Returns with the link open and the fabric taking messages.
  Status wait_open(Lock& lock, Link& link);
  // The server asks us to leave: now, or after the transfer that is under way.
  void please_close(Link& link);
  void transfer_ended(Link& link);
  void bye_answered(Link& link) { drive(link, connection::Event::bye_answer); }
  // The end of the job: everything that is open says bye. True: all have gone.
  bool close_idle();
  // Its server cannot be reached any more. Everything that waits for it fails with `why`.
  void fail(Link& link, Status why);
  // Likewise, and its endpoint is closed: whatever is under way on it is neither placed nor read
  // from our buffers any more.
  void fail_and_close(Link& link, Status why);
  // Likewise, because the job is ending, those with transfers of the fabric's own. These would go
  // on in memory that is the program's again once the call that waits for them fails.
  void abandon_transfers();
  // What idle links hold beyond their records goes.
  void trim();

  // ---- the fabric's upcalls --------------------------------------------------------------------
  void on_held(fabric::EndpointId endpoint);
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes answer);
  void on_writable(fabric::EndpointId endpoint);
  void on_closed(fabric::EndpointId endpoint, fabric::CloseReason reason, std::string_view detail);

  // ---- what it takes ---------------------------------------------------------------------------
  void account(fabric::ConnectionsMemory* taken) const;  // adds
  void count(EngineCounters* counters) const;

 private:
  connection::Action step(Link& link, connection::Event event);
  void drive(Link& link, connection::Event event);
  void serve(Link& link);
  bool take_slot(Link& link);
  connection::Cap::Standing standing(const Link& link) const;
  bool close_leavers();
  void evict(Link& link);
  void connect(Link& link);
  void invite();
  void send_bye(Link& link, bool more);
  void close_behind_bye(Link& link);
  void disconnect(Link& link, bool drained);
  void attempt_failed(Link& link, connection::Dialer::Failure failure, fabric::CloseReason reason,
                      std::string_view what);
  void wait_for_stopped(Link& link);
  void opened(Link& link, bool must_resume);
  connection::Caller caller() const {
    return {context_.config.key, static_cast<uint32_t>(context_.config.rank)};
  }
  Status check_answer(Link& link, fabric::Bytes answer, uint64_t* applied);

  Progress& progress_;
  Slots& slots_;
  User& user_;
  session::Backlog backlog_;
  std::vector<Link*> listed_;
  uint32_t resumes_ = 0;  // links whose replay runs
  connection::Cap cap_;
  bool fabric_limits_ = false;  // the fabric keeps a limit, since links share its connections
  int64_t next_due_ns_ = 0;     // earliest attempt of those that wait; 0: none waits for its time
  fabric::EndpointId
      held_bye_ = fabric::no_endpoint;  // a bye that goes out when the newcomer's connect has
  bool evicting_ = false;               // its bye is to be held
};

}  // namespace skerry::origin
