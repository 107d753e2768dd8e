#include "origin/progress/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace skerry::origin {

using Chore = Work::Chore;

void Progress::tell(memory::NoteWait& note, const std::source_location& where, const Until& until) {
  if (until.lock) return note.tell(monotonic_ns(), until.lock);
  const std::string oldest = until.requests != nullptr ? until.requests->oldest() : std::string();
  note.tell(monotonic_ns(), concat(text_of(where, until.node), oldest.empty() ? "" : ": ", oldest));
}

std::string Progress::text_of(const std::source_location& where, NodeId node) {
  const std::string_view function = memory::short_name(where.function_name());
  return node == no_node ? std::string(function) : concat(function, ", node ", node);
}

void Progress::rest(Lock& lock, const Until& until) {
  int64_t slice_ns = until.slice_ns;
  if (until.deadline_ns != no_deadline)
    slice_ns = std::clamp<int64_t>(until.deadline_ns - monotonic_ns(), 0, slice_ns);
  if (role_ != Role::free) {
    // What we wait for may be held back itself, and the holder of the role sleeps in the fabric.
    work_.flush();
    // A thread that waits is closer to its data than the helper: it takes over.
    if (role_ == Role::helper) context_.fabric->wake();
    ++sleepers_;
    changed_.wait_for(lock, slice_ns);
    --sleepers_;
    return;
  }
  ++user_rounds_;
  fabric::EndpointId only = until.only != nullptr ? *until.only : fabric::no_endpoint;
  if (only != fabric::no_endpoint) {
    // What is sent again on another link goes on with its answers.
    const Work::Need need = work_.need(Chore::none);
    if (need.wants_connection || need.resumes) only = fabric::no_endpoint;
  }
  take_role(lock, Role::program, slice_ns, only);
}

void Progress::take_role(Lock& lock, Role role, int64_t timeout_ns, fabric::EndpointId only) {
  SKERRY_ASSERT(role_ == Role::free, "one thread at a time has the role");
  role_ = role;
  struct GiveBack {  // also when memory runs out: others would wait for the role for ever
    Progress& self;
    Lock& lock;
    Role role;
    ~GiveBack() {
      if (!lock.owns_lock()) lock.lock();
      self.dispatching_ = false;
      SKERRY_INVARIANT(self.role_ == role, "the role is given back by its holder");
      self.role_ = Role::free;
      if (self.sleepers_ > 0) self.changed_.notify_all();
    }
  } const give_back{*this, lock, role};
  work_.flush();
  timeout_ns = std::min(timeout_ns, work_.need(Chore::none).patience_ns);
  lock.unlock();
  context_.fabric->poll(timeout_ns, only);
  lock.lock();
  dispatching_ = true;
  if (!context_.is_ending()) context_.fabric->dispatch(sink_);
}

void Progress::look(Lock& lock) {
  (void)work_.advance(false);
  work_.flush();
  if (role_ == Role::free && !context_.is_ending())
    take_role(lock, Role::program, 0, fabric::no_endpoint);
}

void Progress::wake_waiters() {
  context_.assert_held();
  if (sleepers_ > 0) changed_.notify_all();
  if (role_ != Role::free) context_.fabric->wake();
}

// ---- the helper -------------------------------------------------------------------------------

void Progress::call_helper(bool eager) {
  context_.assert_held();
  if (!context_.config.helper) return;
  if (eager) eager_ = true;
  switch (helper_) {
    case Helper::stopped: return;
    case Helper::awake:
      if (eager && role_ == Role::free) helper_call_.notify_one();
      return;
    case Helper::asleep:
    case Helper::watching: break;
  }
  helper_ = Helper::awake;
  if (helper_thread_.joinable()) return helper_call_.notify_one();
  try {
    helper_thread_ = Thread("skerry-progress", [this] { help(); });
  } catch (const std::system_error& why) {  // the request that asked for help was issued: it stays
    helper_ = Helper::stopped;
    context_.helper_is_missing.store(true, std::memory_order_relaxed);
    std::fprintf(stderr,
                 "skerry: rank %d has no progress thread (%s): transfers progress in its calls "
                 "alone; raise the limit of processes (ulimit -u), or set "
                 "SKERRY_PROGRESS_THREAD=0\n",
                 context_.config.rank, why.what());
  }
}

void Progress::stop_helper() {
  {
    const Lock lock(context_.mutex);
    helper_ = Helper::stopped;
    helper_call_.notify_one();
  }
  if (!helper_thread_.joinable()) return;
  context_.fabric->wake();
  helper_thread_.join();
}

// A put is source done when the fabric has it. Its program may compute, or sleep on a counter,
// while the connection breaks. So the helper looks now and then while anything is unacknowledged,
// and sleeps until it is called when nothing was sent for a while.
void Progress::keep_watch(Lock& lock) {
  // More often where a server may close a connection just as a request is on its way to it.
  const int64_t look_every_ns = context_.config.servers_drop ? 2'000'000 : 100'000'000;
  constexpr int quiet_looks = 20;
  constexpr int64_t longest_queued_ns = 2'000'000'000;
  int stale = 0;  // looks in a row that found requests queued and no new ones
  helper_ = Helper::watching;
  for (int quiet = 0; helper_ == Helper::watching && quiet < quiet_looks;) {
    const uint64_t issued = work_.need(Chore::none).issued, rounds = user_rounds_;
    const bool called = helper_call_.wait_for(lock, look_every_ns,
                                              [&] { return helper_ != Helper::watching; });
    if (called || context_.is_ending()) break;
    const Work::Need need = work_.need(Chore::look_for_breaks);
    // A program that issues more opens connections when it needs them, so the helper leaves it
    // alone for a while. One that has stopped may be waiting for what it queued.
    stale = need.queued_since_ns == 0 || issued != need.issued ? 0 : stale + 1;
    if (need.queued_since_ns != 0 &&
        (stale >= 2 || monotonic_ns() - need.queued_since_ns > longest_queued_ns))
      (void)work_.need(Chore::open_queued);
    if (need.unacknowledged) look(lock);
    const bool is_quiet = !need.unacknowledged && issued == work_.need(Chore::none).issued;
    quiet = is_quiet ? quiet + 1 : 0;
    const Work::Need after = work_.need(quiet == quiet_looks ? Chore::tidy : Chore::none);
    const bool left_to_the_program = after.has_cap && program_is_at_it(rounds) && !after.held_back;
    if (help_is_needed() && !left_to_the_program && helper_ == Helper::watching)
      helper_ = Helper::awake;
  }
  if (helper_ == Helper::watching) helper_ = Helper::asleep;
  if (!context_.is_ending()) helper_call_.wait(lock, [&] { return helper_ != Helper::asleep; });
}

void Progress::help() {
  Lock lock(context_.mutex);
  int idle = 0;
  uint64_t seen_rounds = user_rounds_;
  while (helper_ != Helper::stopped) {
    if (context_.is_ending()) {  // nothing moves any more
      helper_call_.wait(lock, [&] { return helper_ == Helper::stopped; });
      return;
    }
    help_once(lock, &seen_rounds, &idle);
  }
}

void Progress::help_once(Lock& lock, uint64_t* seen_rounds, int* idle) {
  // How long held-back requests may wait for company, and how long the program must have left the
  // role alone before the helper takes it.
  constexpr int64_t hold_ns = 500'000;
  // The helper stays up this many rounds without work, so that a program that issues a few
  // operations at a time does not pay for waking it.
  constexpr int idle_rounds = 20;
  const bool at_it = program_is_at_it(*seen_rounds);
  // Under a cap a program's own waits open nearly all connections.
  const Work::Need need = work_.need(Chore::none);
  const bool left_to_the_program = need.has_cap && !need.held_back && at_it;
  if ((!help_is_needed() || left_to_the_program) && ++*idle > idle_rounds) {
    keep_watch(lock);
    *idle = 0;
    *seen_rounds = user_rounds_;
    return;
  }
  const bool receive = need.answers_come || need.wants_connection;
  *seen_rounds = user_rounds_;
  if (!receive || role_ != Role::free || sleepers_ > 0 || (at_it && !eager_)) {
    eager_ = false;
    helper_call_.wait_for(lock, hold_ns);
    if (work_.need(Chore::none).held_back) {
      work_.flush();
      // Its connection broke, or it has no credit: what changes that has to be received.
      if (work_.need(Chore::none).held_back) look(lock);
      *idle = 0;
    }
    return;
  }
  eager_ = false;
  *idle = 0;
  (void)work_.advance(false);
  take_role(lock, Role::helper, wait_slice_ns, fabric::no_endpoint);
}

}  // namespace skerry::origin
