// Progress: what is held back goes out and what arrived is dispatched, by a thread of the program
// that waits or by the helper thread.
//
// It is a *role* that at most one thread holds: the holder sleeps in Fabric::poll without the
// mutex, then dispatches with it. A thread that waits takes the role if it is free, otherwise it
// sleeps on `changed_`. The holder that gives the role back wakes the sleepers. Each looks whether
// it is done; if not, one takes the role. No wake-up is lost: the predicate, the role and the
// condition variable are all under the mutex.
//
// The helper moves non-blocking operations while the program computes. It sleeps unless there is
// something to move, and never keeps the role from a thread that waits.
//
// What there is to move it knows as three functions of `Work` alone.
#pragma once

#include <cstdint>
#include <source_location>

#include "core/futex.hpp"
#include "memory/spans.hpp"
#include "origin/context.hpp"
#include "session/requests.hpp"

namespace skerry::origin {

// How long a wait goes on at most, and how often it asks. For those who look at the job: which node
// it is about (no_node: none in particular), and of which session, whose oldest request is named.
struct Until {
  int64_t deadline_ns = no_deadline;
  int64_t slice_ns = wait_slice_ns;
  NodeId node = no_node;
  memory::LockName lock{};  // that is waited for; none: no lock, or it is noted already

  // Nothing but this endpoint can make it done (see Fabric::poll). Looked at before each sleep, for
  // it changes with the connection. Null: anything may.
  const fabric::EndpointId* only = nullptr;
  const session::Requests* requests = nullptr;  // of the session; null: no request is named
};

// What there is to do, as its three functions. Called with the mutex held.
class Work {
 public:
  struct Need {
    bool held_back = false;         // requests wait for others to travel with
    bool wants_connection = false;  // somebody waits for a connection
    bool resumes = false;           // what a break lost is sent again as answers come
    bool answers_come = false;      // that a program which computes leaves to the helper
    bool has_cap = false;           // a program's own waits open nearly all connections
    bool unacknowledged = false;    // of Chore::look_for_breaks only
    uint64_t issued = 0;            // requests so far, queued ones included
    int64_t queued_since_ns = 0;    // requests are queued for a connection; 0: none
    int64_t patience_ns = wait_slice_ns;  // how long to sleep at most
  };
  enum class Chore : uint8_t {
    none,
    look_for_breaks,  // is anything unacknowledged?
    open_queued,      // nobody asked for what was queued long ago: connections for it
    tidy,             // nothing was sent for a while: memory that is not used goes
  };
  // Does this chore of the helper's, and tells what there is to do.
  virtual Need need(Chore also) = 0;
  // What is held back goes out.
  virtual void flush() = 0;
  // Gives connections to those that wait for one. `ending`: the job ends, and no other thread is in
  // the fabric; instead ends what is under way in memory that the program takes back. True: it
  // tried, so that what somebody waits for may have failed.
  virtual bool advance(bool ending) = 0;

 protected:
  ~Work() = default;
};

class Progress {
 public:
  Progress(EngineContext& context, Work& work, fabric::Sink& sink)
      : context_(context), work_(work), sink_(sink) {}
  ~Progress() { stop_helper(); }

  // Makes progress until done(), the deadline or the end of the job. The mutex is given up in
  // between. Returns ok at the deadline, too: the caller looks. Errors: peer_dead (the job is
  // ending). A wait that goes on is noted under the name of the function that `where` is in.
  template <class Done>
  Status wait_until(Lock& lock, Done&& done, const Until& until = {},
                    std::source_location where = std::source_location::current());
  // One look without sleeping.
  void look(Lock& lock);

  // Non-blocking operations leave something to do: requests held back to be sent together, answers
  // to receive. `eager`: a long transfer was issued, the helper takes the role at once if it is
  // free.
  void call_helper(bool eager);
  // The helper looks now and then whether anything is left unacknowledged.
  void watch_over() {
    if (helper_ == Helper::asleep) call_helper(false);
  }
  // Called without the mutex; the helper has ended when it returns. For good.
  void stop_helper();

  bool role_is_free() const { return role_ == Role::free; }
  // No other thread is in the fabric: endpoints may be closed.
  bool may_close() const { return role_ == Role::free || dispatching_; }
  // A call fails as the job is ending: nothing is under way any more in memory that it gave. Why.
  Status give_up() {
    (void)work_.advance(true);
    return context_.abort_status();
  }
  // What somebody waits for may have changed by another way than an upcall.
  void wake_waiters();

 private:
  enum class Role : uint8_t { free, program, helper };
  enum class Helper : uint8_t {
    asleep,    // until called; not started before the first call
    watching,  // looks by itself every look_every_ns: requests that no thread waits for wake nobody
    awake,     // moves things
    stopped,
  };

  // Takes the role for one look, or sleeps while another has it.
  void rest(Lock& lock, const Until& until);
  void take_role(Lock& lock, Role role, int64_t timeout_ns, fabric::EndpointId only);
  static void tell(memory::NoteWait& note, const std::source_location& where, const Until& until);
  static std::string text_of(const std::source_location& where, NodeId node);
  void help();
  void help_once(Lock& lock, uint64_t* seen_rounds, int* idle);
  void keep_watch(Lock& lock);
  bool help_is_needed() {
    const Work::Need need = work_.need(Work::Chore::none);
    return need.answers_come || need.held_back || need.wants_connection;
  }
  bool program_is_at_it(uint64_t seen_rounds) const {
    return role_ != Role::free || sleepers_ > 0 || seen_rounds != user_rounds_;
  }

  EngineContext& context_;
  Work& work_;
  fabric::Sink& sink_;  // receives the upcalls of dispatch
  Condition changed_;
  Condition helper_call_;
  Role role_ = Role::free;
  bool dispatching_ = false;  // the holder of the role is in dispatch, with the mutex
  Helper helper_ = Helper::asleep;
  bool eager_ = false;        // a long transfer waits for the helper
  uint32_t sleepers_ = 0;     // threads in changed_
  uint64_t user_rounds_ = 0;  // times a thread of the program took the role
  Thread helper_thread_;      // started with the first operation that leaves something to do
};

template <class Done>
Status Progress::wait_until(Lock& lock, Done&& done, const Until& until,
                            std::source_location where) {
  context_.assert_held();
  memory::NoteWait note(context_.wait_note());
  const memory::WaitSpan span(
      context_.config.spans, [&] { return text_of(where, until.node); }, until.lock);
  for (int rests = 0; !done(); ++rests) {
    // While another thread is in the fabric, nothing can be closed.
    if (context_.is_ending() && may_close()) return give_up();
    if (until.deadline_ns != no_deadline && monotonic_ns() >= until.deadline_ns) return {};
    if (role_is_free() && work_.advance(false) && done()) break;
    if (rests == 0 && context_.config.before_waiting) context_.config.before_waiting();
    // The first rest ends most waits.
    if (rests == 1) tell(note, where, until);
    rest(lock, until);
  }
  return {};
}

}  // namespace skerry::origin
