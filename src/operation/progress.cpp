// Moving things along: what is held back goes out, what arrived is dispatched, by who waits or by
// the helper thread.
#include <algorithm>

#include "operation/engine.hpp"

namespace skerry::operation {

// Sends what was held back. Never waits: a batch for which there is no credit now stays corked.
void Engine::flush_corked() {
  if (is_ending()) return;
  std::vector<Link*> lost;  // closed with a batch that nobody has sent: opened for it
  std::erase_if(corked_, [&](Link* link) {
    if (link->has_batch() && link->failure.ok()) {
      const bool sendable = may_queue(*link, link->batch->bytes) ||
                            (link->may_send() && link->session.may_issue(link->batch->bytes) &&
                             link->rma_outstanding == 0);
      if (!sendable || !send_batch(*link)) {
        if (link->machine.state() == connection::State::idle && !link->wanted) lost.push_back(link);
        return false;
      }
    }
    link->corked = false;
    if (link->endpoint != fabric::no_endpoint) (void)fabric_->flush(link->endpoint);
    return true;
  });
  for (Link* link : lost) want(*link);
  if (!queued_.empty() && !at_limit()) push(*queued_.front());
}

// ---- the helper -------------------------------------------------------------------------------

// Non-blocking operations leave something to do: requests held back to be sent together, replies to
// receive. The helper sleeps unless there is; it never keeps the progress role from a thread that
// waits.
void Engine::call_helper(bool eager) {
  if (!config_.helper || helper_stop_) return;
  if (eager) helper_eager_ = true;
  if (helper_awake_) {
    if (eager && !role_taken_) helper_call_.notify_one();
    return;
  }
  helper_awake_ = true;
  if (helper_.joinable()) {
    helper_call_.notify_one();
    return;
  }
  helper_ = Thread("skerry-progress", [this] { help(); });
}

// A put is source done when it is on its way: its program may compute, or sleep on a counter, while
// the connection breaks under it. So the helper looks now and then as long as anything is
// unacknowledged, and sleeps for good when nothing was sent for a while.
void Engine::keep_watch(Lock& lock) {
  // Where a server may close a connection just when a request is on its way to it, more often.
  const int64_t look_every_ns = config_.servers_drop ? 2'000'000 : 100'000'000;
  constexpr int quiet_looks = 20;
  constexpr int64_t longest_queued_ns = 2'000'000'000;
  auto called = [&] { return helper_stop_ || helper_awake_; };
  helper_watches_ = true;
  int stale = 0;  // looks in a row that found requests queued and no new ones
  for (int quiet = 0; quiet < quiet_looks;) {
    const uint64_t sent = requests_sent_, rounds = user_rounds_;
    if (helper_call_.wait_for(lock, look_every_ns, called) || is_ending()) break;
    const bool waiting = std::any_of(all_links_.begin(), all_links_.end(), [&](const Link* link) {
      return link->failure.ok() && unacknowledged(*link);
    });
    // A program that issues more is left to open connections when it needs them, within reason; one
    // that has stopped may wait for what it queued.
    stale = queued_.empty() || sent != requests_sent_ ? 0 : stale + 1;
    if (!queued_.empty() && (stale >= 2 || monotonic_ns() - queued_since_ns_ > longest_queued_ns)) {
      open_queued();
      queued_since_ns_ = monotonic_ns();
    }
    if (waiting) poke(lock);
    quiet = waiting || sent != requests_sent_ ? 0 : quiet + 1;
    const bool program_is_at_it = role_taken_ || sleepers_ > 0 || rounds != user_rounds_;
    if (help_is_needed() && !(queues() && program_is_at_it && corked_.empty()))
      helper_awake_ = true;
  }
  helper_watches_ = false;
  if (!is_ending()) helper_call_.wait(lock, called);
}

void Engine::help() {
  // How long held-back requests may wait for company, and how long the program must have left the
  // role alone before the helper takes it.
  constexpr int64_t hold_ns = 500'000;
  // The helper stays up this many rounds without work, so that a program that issues a few
  // operations at a time does not pay for waking it.
  constexpr int idle_rounds = 20;
  Lock lock(mutex_);
  int idle = 0;
  uint64_t seen_rounds = user_rounds_;
  while (!helper_stop_) {
    if (is_ending()) {  // nothing moves any more
      helper_call_.wait(lock, [&] { return helper_stop_; });
      return;
    }
    // Under a cap a program's own waits see to nearly everything: they open the connections.
    const bool is_needed = help_is_needed() &&
                           !(queues() && corked_.empty() &&
                             (role_taken_ || sleepers_ > 0 || seen_rounds != user_rounds_));
    if (!is_needed && ++idle > idle_rounds) {
      helper_awake_ = false;
      keep_watch(lock);
      idle = 0;
      seen_rounds = user_rounds_;
      continue;
    }
    const bool receive = answers_come() || !wanted_.empty();
    const bool program_is_at_it = role_taken_ || sleepers_ > 0 || seen_rounds != user_rounds_;
    seen_rounds = user_rounds_;
    if (!receive || role_taken_ || sleepers_ > 0 || (program_is_at_it && !helper_eager_)) {
      helper_eager_ = false;
      helper_call_.wait_for(lock, hold_ns);
      if (!corked_.empty()) {
        flush_corked();
        idle = 0;
      }
      continue;
    }
    helper_eager_ = false;
    idle = 0;
    if (!wanted_.empty()) advance_links();
    role_taken_ = helper_has_role_ = true;
    if (!corked_.empty()) flush_corked();
    const int64_t timeout_ns = patience_ns();
    lock.unlock();
    fabric_->poll(timeout_ns, fabric::no_endpoint);
    lock.lock();
    dispatch();
    role_taken_ = helper_has_role_ = false;
    if (sleepers_ > 0) changed_.notify_all();
  }
}

// One look without sleeping.
void Engine::poke(Lock& lock) {
  if (!wanted_.empty()) advance_links();
  if (!corked_.empty()) flush_corked();
  if (role_taken_ || is_ending()) return;
  role_taken_ = true;
  lock.unlock();
  fabric_->poll(0, fabric::no_endpoint);
  lock.lock();
  dispatch();
  role_taken_ = false;
  if (sleepers_ > 0) changed_.notify_all();
}

}  // namespace skerry::operation
