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
#pragma once

#include <cstdint>
#include <source_location>

#include "core/futex.hpp"
#include "memory/spans.hpp"
#include "origin/context.hpp"
#include "origin/link/link.hpp"

namespace skerry::origin {

// How long a wait goes on at most, how often it asks, and which node it is about (no_node: none
// in particular), for those who look at the job.
struct Until {
  int64_t deadline_ns = no_deadline;
  int64_t slice_ns = wait_slice_ns;
  NodeId node = no_node;
  memory::LockName lock{};  // that is waited for; none: no lock, or it is noted already
};

class Progress : Part {
 public:
  Progress(Context& context, Layers& layers, fabric::Sink& sink)
      : Part(context, layers), sink_(sink) {}
  ~Progress() { stop_helper(); }

  // Makes progress until done(), the deadline or the end of the job. The mutex is given up in
  // between. `only`: nothing but this link's endpoint can make it done (see Fabric::poll). Returns
  // ok at the deadline, too: the caller looks. Errors: peer_dead (the job is ending). A wait that
  // goes on is noted under the name of the function that `where` is in.
  template <class Done>
  Status wait_until(Lock& lock, Done&& done, const Link* only = nullptr, Until until = {},
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
  Status give_up();
  // What somebody waits for may have changed by another way than an upcall.
  void wake_waiters();
  // Do answers come that a program which computes leaves to the helper?
  bool answers_come() const;

 private:
  enum class Role : uint8_t { free, program, helper };
  enum class Helper : uint8_t {
    asleep,    // until called; not started before the first call
    watching,  // looks by itself now and then: nobody need wake it for requests that none waits for
    awake,     // moves things
    stopped,
  };

  // A thread that waits gives connections to those that want one, if it can. True: it tried, so
  // that what it waits for may have failed.
  bool advance_links();
  // Takes the role for one look, or sleeps while another has it.
  void rest(Lock& lock, const Link* only, Until until);
  void take_role(Lock& lock, Role role, int64_t timeout_ns, fabric::EndpointId only);
  static void tell(memory::NoteWait& note, const std::source_location& where, NodeId node,
                   const memory::LockName& lock);
  static std::string text_of(const std::source_location& where, NodeId node);
  void help();
  void help_once(Lock& lock, uint64_t* seen_rounds, int* idle);
  void keep_watch(Lock& lock);
  bool help_is_needed() const;
  bool program_is_at_it(uint64_t seen_rounds) const {
    return role_ != Role::free || sleepers_ > 0 || seen_rounds != user_rounds_;
  }

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
Status Progress::wait_until(Lock& lock, Done&& done, const Link* only, Until until,
                            std::source_location where) {
  context_.assert_held();
  const NodeId node = only != nullptr ? only->server.node : until.node;
  memory::NoteWait note(context_.wait_note());
  const memory::WaitSpan span(
      context_.config.spans, [&] { return text_of(where, node); }, until.lock);
  for (int rests = 0; !done(); ++rests) {
    // While another thread is in the fabric, nothing can be closed.
    if (context_.is_ending() && may_close()) return give_up();
    if (until.deadline_ns != no_deadline && monotonic_ns() >= until.deadline_ns) return {};
    if (advance_links() && done()) break;
    // The first rest ends most waits.
    if (rests == 1) tell(note, where, node, until.lock);
    rest(lock, only, until);
  }
  return {};
}

}  // namespace skerry::origin
