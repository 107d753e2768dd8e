#include "operation/engine.hpp"

#include <algorithm>
#include <cstring>

#include "core/futex.hpp"
#include "memory/slots.hpp"

namespace skerry::operation {
Engine::Engine(EngineConfig config, std::unique_ptr<fabric::Fabric> fabric)
    : config_(std::move(config)), fabric_(std::move(fabric)) {
  const uint32_t slots = config_.control.layout().slots_per_member;
  pending_.resize(slots);
  free_slots_.reserve(slots);
  for (uint32_t i = slots; i > 0; --i) free_slots_.push_back(i - 1);
  implicit_.used = true;
}

Engine::~Engine() { stop_helper(); }

void Engine::stop_helper() {
  {
    const Lock lock(mutex_);
    helper_stop_ = true;
    helper_call_.notify_one();
  }
  if (!helper_.joinable()) return;
  fabric_->wake();
  helper_.join();
}

Status Engine::abort_status() const {
  const memory::ControlHeader& header = config_.control.header();
  return Status(Code::peer_dead,
                concat("the job is ending: ", static_cast<const char*>(header.abort_text)));
}

// ---- completion -------------------------------------------------------------------------------

Status Engine::op_status(Op& op) {
  Status status = std::move(op.status);
  op.status = {};
  if (status.ok() && op.number != 0 && op.link->session.applied() < op.number)
    status = op.link->failure;
  return status;
}

Status Engine::wait(Handle* handle) {
  if (*handle == 0) return {};
  Lock lock(mutex_);
  Op* op = find_op(*handle);
  if (op == nullptr)
    return error(Code::invalid, "handle ", *handle,
                 " is not outstanding: it was waited for already, or is not a handle");
  if (op->link != nullptr && !op_done(*op)) SKERRY_TRY(wait_connected(lock, *op->link));
  SKERRY_TRY(wait_until(lock, [&] { return op_done(*op); }));
  *handle = 0;
  --open_handles_;
  Status status = op_status(*op);
  free_op(op);
  return status;
}

Status Engine::test(Handle* handle, bool* done) {
  if (*handle == 0) {
    *done = true;
    return {};
  }
  Lock lock(mutex_);
  Op* op = find_op(*handle);
  if (op == nullptr)
    return error(Code::invalid, "handle ", *handle,
                 " is not outstanding: it was waited for already, or is not a handle");
  if (!op_done(*op)) {
    if (op->link != nullptr && op->link->has_queued()) want(*op->link);
    poke(lock);
  }
  if (is_ending()) return abort_status();
  *done = op_done(*op);
  if (!*done) return {};
  *handle = 0;
  --open_handles_;
  Status status = op_status(*op);
  free_op(op);
  return status;
}

Status Engine::wait_implicit() {
  Lock lock(mutex_);
  for (Link* link : std::vector<Link*>(queued_))
    if (link->has_queued() && (link->queued_replies > 0 || link->implicit_number > link->sent))
      want(*link);
  SKERRY_TRY(wait_until(lock, [&] { return implicit_.waiting_replies == 0; }));
  for (size_t i = 0; i < all_links_.size(); ++i) {  // it may grow: the mutex is given up in between
    Link& l = *all_links_[i];
    SKERRY_TRY(wait_until(
        lock, [&] { return l.session.applied() >= l.implicit_number || !l.failure.ok(); }));
    if (l.session.applied() < l.implicit_number) return l.failure;
    l.implicit_number = 0;
  }
  return op_status(implicit_);
}

Status Engine::fence(placement::ServerRef server) {
  Lock lock(mutex_);
  ++counters_.fences;
  const auto found = links_.find(link_key(server));
  if (found == links_.end()) return {};
  Link& link = *found->second;
  if (link.has_batch()) SKERRY_TRY(wait_sendable(lock, link, link.batch->bytes, true));
  SKERRY_TRY(wait_connected(lock, link));
  const uint64_t newest = link.session.issued();
  if (link.rma_outstanding > 0)
    SKERRY_TRY(wait_until(lock, [&] { return link.rma_outstanding == 0 || !link.failure.ok(); }));
  if (SKERRY_RULE(fence_acknowledged) && link.session.applied() < newest) {
    const bool alone = config_.one_thread_at_a_time && slots_in_use_ == 0;
    SKERRY_TRY(wait_until(
        lock, [&] { return link.session.applied() >= newest || !link.failure.ok(); },
        alone ? &link : nullptr));
    if (link.session.applied() < newest) return link.failure;
  }
  if (!link.request_failure.ok()) return std::exchange(link.request_failure, Status());
  return {};
}

Status Engine::fence_all() {
  std::vector<placement::ServerRef> servers;
  {
    Lock lock(mutex_);
    flush_corked();
    open_queued();
    for (const auto& [key, link] : links_)
      if (unacknowledged(*link) || !link->request_failure.ok()) servers.push_back(link->server);
    ++counters_.fences;
  }
  Status first;
  for (const placement::ServerRef server : servers) {
    Status status = fence(server);
    if (first.ok() && !status.ok()) first = std::move(status);
  }
  return first;
}

// A thread about to sleep elsewhere leaves nothing unsent: what is in the kernel's hands reaches
// the server without us. Nor may replies be left to nobody: a server that cannot send them parks
// our session, and with it what we sent behind them, which others may be waiting for. The helper
// takes them in; without it, we do so here, and see that what we sent has arrived.
Status Engine::push_out() {
  Lock lock(mutex_);
  flush_corked();
  if (!queued_.empty()) {
    open_queued();
    for (size_t i = 0; i < all_links_.size(); ++i) {
      Link& l = *all_links_[i];
      const uint64_t newest = l.session.issued();
      if (l.has_queued())
        SKERRY_TRY(wait_until(lock, [&] { return l.sent >= newest; }));  // also if it failed
    }
  }
  for (size_t i = 0; i < all_links_.size(); ++i) {  // it may grow: the mutex is given up in between
    Link& l = *all_links_[i];
    if (l.has_batch()) SKERRY_TRY(wait_sendable(lock, l, l.batch->bytes));
    if (l.endpoint == fabric::no_endpoint || fabric_->unsent_bytes(l.endpoint) == 0) continue;
    SKERRY_TRY(wait_until(lock, [&] {
      return l.endpoint == fabric::no_endpoint || fabric_->unsent_bytes(l.endpoint) == 0;
    }));
  }
  if (config_.helper) return {};
  auto taken_in = [&] {
    if (std::any_of(all_links_.begin(), all_links_.end(),
                    [&](const Link* l) { return l->failure.ok() && unacknowledged(*l); }))
      return false;
    return implicit_.waiting_replies == 0 &&
           std::none_of(ops_.begin(), ops_.end(), [](const auto& op) {
             return op->used && op->open && op->waiting_replies > 0;
           });
  };
  return wait_until(lock, taken_in);
}

// A request that failed is reported, but keeps no connection from being closed.
Status Engine::close_all() {
  Status first = wait_implicit();
  if (Status fenced = fence_all(); first.ok()) first = std::move(fenced);
  Lock lock(mutex_);
  Status closed = wait_until(lock, [&] {
    bool all = true;
    for (Link* link : all_links_) {
      unwant(*link);  // one that is being resumed has nothing outstanding any more
      if (link->machine.state() == connection::State::open && link->replay_next == 0)
        drive(*link, connection::Event::evict);
      all = all && link->machine.state() == connection::State::idle;
    }
    return all;
  });
  return first.ok() ? closed : first;
}

EngineCounters Engine::counters() {
  Lock lock(mutex_);
  counters_.connections_now = occupied_ + leaving_;
  counters_.links = all_links_.size();
  const EngineMemory taken = account();
  counters_.link_bytes = taken.connection_bytes + taken.known_bytes +
                         (policy_ ? policy_->bytes() : 0);
  return counters_;
}

Status Engine::trace_requests(const std::string& prefix) {
  const Lock lock(mutex_);
  return RequestTrace::open(prefix, config_.rank, config_.map->ranks(), config_.map->nodes(),
                            &trace_);
}

fabric::Fabric::Traffic Engine::traffic() {
  Lock lock(mutex_);
  return fabric_->traffic();
}

// ---- operations and slots ---------------------------------------------------------------------

Engine::Op* Engine::new_op() {
  if (free_ops_.empty()) {
    ops_.push_back(std::make_unique<Op>());
    ops_.back()->index = static_cast<uint32_t>(ops_.size() - 1);
    free_ops_.push_back(ops_.back()->index);
  }
  Op* op = ops_[free_ops_.back()].get();
  free_ops_.pop_back();
  op->used = true;
  op->open = false;
  op->waiting_replies = 0;
  op->number = 0;
  op->link = nullptr;
  return op;
}

void Engine::free_op(Op* op) {
  op->used = false;
  ++op->generation;
  free_ops_.push_back(op->index);
}

Handle Engine::handle_of(const Op* op) const {
  return Handle{op->generation} << 32 | (op->index + 1);
}

Engine::Op* Engine::find_op(Handle handle) {
  const uint64_t index = (handle & 0xffffffff) - 1;
  if (index >= ops_.size()) return nullptr;
  Op* op = ops_[index].get();
  return op->used && op->generation == handle >> 32 ? op : nullptr;
}

memory::CompletionSlot& Engine::slot(uint32_t index) const {
  return config_.control.slot(config_.member_index * config_.control.layout().slots_per_member +
                              index);
}

bool Engine::take_slot(uint32_t* index, Wait wait) {
  if (!has_slot(wait)) return false;
  *index = free_slots_.back();
  free_slots_.pop_back();
  ++slots_in_use_;
  return true;
}

Status Engine::borrow_slot(uint32_t* slot) {
  Lock lock(mutex_);
  while (!take_slot(slot, Wait::for_ever)) SKERRY_TRY(wait_slot(lock, Wait::for_ever));
  return {};
}

void Engine::return_slot(uint32_t slot) {
  const Lock lock(mutex_);
  free_slots_.push_back(slot);
  --slots_in_use_;
  if (free_slots_.size() > 1) return;
  // There was none: another thread may be waiting for one, asleep or in the fabric.
  if (sleepers_ > 0) changed_.notify_all();
  if (role_taken_) fabric_->wake();
}

void Engine::arm(uint32_t index, Op* op, Link* link) {
  pending_[index].op = op;
  pending_[index].link = link;
  if (op != &implicit_) op->link = link;
  memory::arm_slot(slot(index));
  ++op->waiting_replies;
  ++link->waiting_replies;
}

void Engine::release(uint32_t index) {
  Pending& p = pending_[index];
  const bool was_lock = p.lock_request != nullptr;
  if (p.number != 0 && p.link->log) p.link->log->answered(p.number);
  --p.op->waiting_replies;
  --p.link->waiting_replies;
  Link* link = p.link;
  if (p.from.end != p.from.begin) --link->gets_waiting;
  if (was_lock) --link->lock_waits;
  p = Pending{};
  memory::free_slot(slot(index));
  if (was_lock) futex_wake(&slot(index).word, 1, Sharing::node);  // finish_lock may sleep on it
  free_slots_.push_back(index);
  --slots_in_use_;
  maybe_drained(*link);
}

}  // namespace skerry::operation
