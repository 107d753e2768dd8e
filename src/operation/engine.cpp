#include "operation/engine.hpp"

#include <pthread.h>
#include <signal.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "core/futex.hpp"
#include "memory/slots.hpp"

namespace skerry::operation {
namespace {

uint64_t link_key(placement::ServerRef server) { return uint64_t{static_cast<uint32_t>(server.node)} << 16 | server.index; }

}  // namespace

Engine::Engine(EngineConfig config, std::unique_ptr<fabric::Fabric> fabric) : config_(std::move(config)), fabric_(std::move(fabric)) {
  const uint32_t slots = config_.control.layout().slots_per_member;
  pending_.resize(slots);
  free_slots_.reserve(slots);
  for (uint32_t i = slots; i > 0; --i) free_slots_.push_back(i - 1);
  scratch_.resize(fabric::inline_payload_bytes);
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

// ---- links ------------------------------------------------------------------------------------------------------------------------

Engine::Link& Engine::link_to(placement::ServerRef server) {
  if (last_link_ != nullptr && last_link_->server == server) return *last_link_;
  auto& entry = links_[link_key(server)];
  if (!entry) {
    entry = std::make_unique<Link>(server, config_.incarnation);
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

void Engine::fail(Link& link, Status status) {
  if (!link.failure.ok()) return;
  link.failure = std::move(status);
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
}

void Engine::cut(Link& link, Status status) {
  if (link.endpoint != fabric::no_endpoint) {
    by_endpoint_.erase(link.endpoint);
    fabric_->close(link.endpoint);
    link.endpoint = fabric::no_endpoint;
    ++counters_.connections_closed;
  }
  fail(link, std::move(status));
  // Twice if it was closing and wanted again: a failed link is not opened once more.
  while (link.machine.state() != connection::State::idle) (void)link.machine.on(connection::Event::closed, link.machine.generation(), true);
}

// Feeds the machine and performs what it answers.
Status Engine::drive(Link& link, connection::Event event, uint32_t generation) {
  using connection::Action;
  const Action action = link.machine.on(event, generation, link.unacknowledged());
  auto disconnect = [&] {
    if (link.endpoint == fabric::no_endpoint) return;
    by_endpoint_.erase(link.endpoint);
    fabric_->close(link.endpoint);
    link.endpoint = fabric::no_endpoint;
    ++counters_.connections_closed;
  };
  auto connect = [&]() -> Status {
    link.hello.rank = static_cast<uint32_t>(config_.rank);
    link.hello.generation = link.machine.generation();
    randombytes_buf(&link.hello.nonce, sizeof link.hello.nonce);
    const connection::Peer peer{static_cast<uint32_t>(link.server.node), link.server.index, wire::version, connection::Role::server};
    const auto hello = connection::make_hello(config_.key, peer, link.hello.rank, link.hello.generation, link.hello.nonce);
    link.blocked = false;
    Status status = fabric_->connect(config_.map->server_address(link.server), hello, &link.endpoint);
    if (!status.ok()) {
      link.endpoint = fabric::no_endpoint;
      fail(link, Status(status.code(), concat("rank ", config_.rank, " cannot connect to the data server of node ", link.server.node, ": ", status.message())));
      (void)link.machine.on(connection::Event::closed, link.machine.generation(), true);  // or it would be opening for ever
      return link.failure;
    }
    by_endpoint_[link.endpoint] = &link;
    return {};
  };
  switch (action) {
    case Action::none:
    case Action::send_queued:  // whoever waits for sendable() looks again
    case Action::start_drain:  // maybe_drained reports the end of it
      return {};
    case Action::connect:
      return connect();
    case Action::reopen:
      disconnect();
      return connect();
    case Action::close_endpoint:
      disconnect();
      return {};
    case Action::send_bye: {
      const wire::CloseHeader bye{wire::version, static_cast<uint8_t>(wire::Kind::bye), 0, link.session.incarnation(), link.session.issued()};
      // A bye is tiny and the link is drained, so the fabric has room; if the endpoint died meanwhile, on_closed follows and ends it.
      (void)fabric_->send(link.endpoint, std::as_bytes(std::span(&bye, 1)), {}, false, 0);
      return {};
    }
    case Action::broken:
      fail(link, error(Code::peer_dead, "rank ", config_.rank, " lost its connection to the data server of node ", link.server.node,
                       " with requests outstanding: a rank there has ended, or the network between the nodes failed"));
      return link.failure;
    case Action::refused:
      fail(link, error(Code::network, "rank ", config_.rank, " could not open a connection to the data server of node ", link.server.node));
      return link.failure;
  }
  return {};
}

void Engine::maybe_drained(Link& link) {
  if (link.machine.state() == connection::State::draining && !link.unacknowledged())
    (void)drive(link, connection::Event::drained, link.machine.generation());
}

Status Engine::wait_open(Lock& lock, Link& link) {
  auto ready = [&] { return link.machine.state() == connection::State::open && !link.blocked; };
  for (;;) {
    if (!link.failure.ok()) return link.failure;
    if (ready()) return {};
    if (link.machine.state() != connection::State::open) SKERRY_TRY(drive(link, connection::Event::want, link.machine.generation()));
    const connection::State seen = link.machine.state();
    SKERRY_TRY(wait_until(lock, [&] { return ready() || !link.failure.ok() || link.machine.state() != seen; }, fabric::no_endpoint));
  }
}

// Returns with the link open, credits for one more request and the fabric taking messages; the mutex was held at that moment and still is.
Status Engine::wait_sendable(Lock& lock, Link& link, uint64_t copied_bytes) {
  // A message may overtake a get of the fabric's own before it, and a put unless the fabric says otherwise.
  const bool puts_first = fabric_->capabilities().rma && !fabric_->capabilities().am_after_rma_ordered;
  auto may_issue = [&] { return link.session.may_issue(copied_bytes) && link.rma_gets_outstanding == 0 && (!puts_first || link.rma_outstanding == 0); };
  for (;;) {
    SKERRY_TRY(wait_open(lock, link));
    if (may_issue()) {
      if (!link.has_batch()) return {};
      (void)send_batch(link);  // what was issued before goes before
      continue;
    }
    SKERRY_TRY(wait_until(lock, [&] { return may_issue() || !link.failure.ok(); }, fabric::no_endpoint));
  }
}

// ---- progress ---------------------------------------------------------------------------------------------------------------------

Status Engine::abort_status() const {
  const memory::ControlHeader& header = config_.control.header();
  return Status(Code::peer_dead, concat("the job is ending: ", static_cast<const char*>(header.abort_text)));
}

// Sends what was held back. Never waits: a batch for which there is no credit now stays corked.
void Engine::flush_corked() {
  if (is_ending()) return;
  std::erase_if(corked_, [&](Link* link) {
    if (link->has_batch() && link->failure.ok()) {
      const bool sendable = link->machine.state() == connection::State::open && !link->blocked && link->session.may_issue(link->batch->bytes) &&
                            link->rma_outstanding == 0;
      if (!sendable || !send_batch(*link)) return false;
    }
    link->corked = false;
    if (link->endpoint != fabric::no_endpoint) (void)fabric_->flush(link->endpoint);
    return true;
  });
}

// ---- the helper -------------------------------------------------------------------------------------------------------------------

// Non-blocking operations leave something to do: requests held back to be sent together, replies to receive. The helper sleeps unless there
// is; it never keeps the progress role from a thread that waits.
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
  sigset_t all, before;  // signals are the program's business
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  helper_ = std::thread([this] { help(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Engine::help() {
  // How long held-back requests may wait for company, and how long the program must have left the role alone before the helper takes it.
  constexpr auto hold = std::chrono::microseconds(500);
  // The helper stays up this many rounds without work, so that a program that issues a few operations at a time does not pay for waking it.
  constexpr int idle_rounds = 20;
  pthread_setname_np(pthread_self(), "skerry-progress");
  Lock lock(mutex_);
  int idle = 0;
  uint64_t seen_rounds = user_rounds_;
  while (!helper_stop_) {
    if (is_ending()) {  // nothing moves any more
      helper_call_.wait(lock, [&] { return helper_stop_; });
      return;
    }
    if (!help_is_needed() && ++idle > idle_rounds) {
      helper_awake_ = false;
      helper_call_.wait(lock, [&] { return helper_stop_ || helper_awake_; });
      idle = 0;
      seen_rounds = user_rounds_;
      continue;
    }
    const bool receive = implicit_.waiting_replies > 0 || open_handles_ > 0;
    const bool program_is_at_it = role_taken_ || sleepers_ > 0 || seen_rounds != user_rounds_;
    seen_rounds = user_rounds_;
    if (!receive || role_taken_ || sleepers_ > 0 || (program_is_at_it && !helper_eager_)) {
      helper_eager_ = false;
      helper_call_.wait_for(lock, hold);
      if (!corked_.empty()) {
        flush_corked();
        idle = 0;
      }
      continue;
    }
    helper_eager_ = false;
    idle = 0;
    role_taken_ = helper_has_role_ = true;
    if (!corked_.empty()) flush_corked();
    lock.unlock();
    fabric_->poll(wait_slice_ns, fabric::no_endpoint);
    lock.lock();
    dispatch();
    role_taken_ = helper_has_role_ = false;
    if (sleepers_ > 0) changed_.notify_all();
  }
}

// One look without sleeping.
void Engine::poke(Lock& lock) {
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

// ---- completion -------------------------------------------------------------------------------------------------------------------

Status Engine::op_status(Op& op) {
  Status status = std::move(op.status);
  op.status = {};
  if (status.ok() && op.number != 0 && op.link->session.applied() < op.number) status = op.link->failure;
  return status;
}

Status Engine::wait(Handle* handle) {
  if (*handle == 0) return {};
  Lock lock(mutex_);
  Op* op = find_op(*handle);
  if (op == nullptr) return error(Code::invalid, "handle ", *handle, " is not outstanding: it was waited for already, or is not a handle");
  SKERRY_TRY(wait_until(lock, [&] { return op_done(*op); }, fabric::no_endpoint));
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
  if (op == nullptr) return error(Code::invalid, "handle ", *handle, " is not outstanding: it was waited for already, or is not a handle");
  if (!op_done(*op)) poke(lock);
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
  SKERRY_TRY(wait_until(lock, [&] { return implicit_.waiting_replies == 0; }, fabric::no_endpoint));
  for (size_t i = 0; i < all_links_.size(); ++i) {  // it may grow: the mutex is given up in between
    Link& l = *all_links_[i];
    SKERRY_TRY(wait_until(lock, [&] { return l.session.applied() >= l.implicit_number || !l.failure.ok(); }, fabric::no_endpoint));
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
  if (link.has_batch()) SKERRY_TRY(wait_sendable(lock, link, link.batch->bytes));
  const uint64_t newest = link.session.issued();
  if (link.rma_outstanding > 0)
    SKERRY_TRY(wait_until(lock, [&] { return link.rma_outstanding == 0 || !link.failure.ok(); }, fabric::no_endpoint));
  if (link.session.applied() < newest) {
    const bool alone = config_.one_thread_at_a_time && slots_in_use_ == 0;
    SKERRY_TRY(wait_until(lock, [&] { return link.session.applied() >= newest || !link.failure.ok(); }, alone ? link.endpoint : fabric::no_endpoint));
    if (link.session.applied() < newest) return link.failure;
  }
  if (!link.request_failure.ok()) return std::exchange(link.request_failure, Status());
  return {};
}

Status Engine::fence_all() {
  std::vector<placement::ServerRef> servers;
  {
    Lock lock(mutex_);
    for (const auto& [key, link] : links_)
      if (link->unacknowledged() || !link->request_failure.ok()) servers.push_back(link->server);
    ++counters_.fences;
  }
  Status first;
  for (const placement::ServerRef server : servers) {
    Status status = fence(server);
    if (first.ok() && !status.ok()) first = std::move(status);
  }
  return first;
}

// A thread about to sleep elsewhere leaves nothing unsent: what is in the kernel's hands reaches the server without us. Nor may replies be left to
// nobody: a server that cannot send them parks our session, and with it what we sent behind them, which others may be waiting for. The helper
// takes them in; without it, we do so here.
Status Engine::push_out() {
  Lock lock(mutex_);
  flush_corked();
  for (size_t i = 0; i < all_links_.size(); ++i) {  // it may grow: the mutex is given up in between
    Link& l = *all_links_[i];
    if (l.has_batch()) SKERRY_TRY(wait_sendable(lock, l, l.batch->bytes));
    if (l.endpoint == fabric::no_endpoint || fabric_->unsent_bytes(l.endpoint) == 0) continue;
    SKERRY_TRY(wait_until(lock, [&] { return l.endpoint == fabric::no_endpoint || fabric_->unsent_bytes(l.endpoint) == 0; }, fabric::no_endpoint));
  }
  if (config_.helper) return {};
  auto taken_in = [&] {
    return implicit_.waiting_replies == 0 &&
           std::none_of(ops_.begin(), ops_.end(), [](const auto& op) { return op->used && op->open && op->waiting_replies > 0; });
  };
  return wait_until(lock, taken_in, fabric::no_endpoint);
}

// A request that failed is reported, but keeps no connection from being closed.
Status Engine::close_all() {
  Status first = wait_implicit();
  if (Status fenced = fence_all(); first.ok()) first = std::move(fenced);
  Lock lock(mutex_);
  for (auto& [key, link] : links_) (void)drive(*link, connection::Event::evict, link->machine.generation());
  Status closed = wait_until(
      lock,
      [&] { return std::all_of(links_.begin(), links_.end(), [](const auto& entry) { return entry.second->machine.state() == connection::State::idle; }); },
      fabric::no_endpoint);
  return first.ok() ? closed : first;
}

EngineCounters Engine::counters() {
  Lock lock(mutex_);
  return counters_;
}

fabric::Fabric::Traffic Engine::traffic() {
  Lock lock(mutex_);
  return fabric_->traffic();
}

uint64_t Engine::open_connections() {
  Lock lock(mutex_);
  return by_endpoint_.size();
}

// ---- operations and slots -----------------------------------------------------------------------------------------------------------

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

Handle Engine::handle_of(const Op* op) const { return Handle{op->generation} << 32 | (op->index + 1); }

Engine::Op* Engine::find_op(Handle handle) {
  const uint64_t index = (handle & 0xffffffff) - 1;
  if (index >= ops_.size()) return nullptr;
  Op* op = ops_[index].get();
  return op->used && op->generation == handle >> 32 ? op : nullptr;
}

memory::CompletionSlot& Engine::slot(uint32_t index) const {
  return config_.control.slot(config_.member_index * config_.control.layout().slots_per_member + index);
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
  while (!take_slot(slot, Wait::for_ever)) SKERRY_TRY(wait_until(lock, [&] { return has_slot(Wait::for_ever); }, fabric::no_endpoint));
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
  memory::arm_slot(slot(index));
  ++op->waiting_replies;
  ++link->waiting_replies;
}

void Engine::release(uint32_t index) {
  Pending& p = pending_[index];
  --p.op->waiting_replies;
  --p.link->waiting_replies;
  Link* link = p.link;
  if (p.from.end != p.from.begin) --link->long_gets;
  p = Pending{};
  memory::free_slot(slot(index));
  free_slots_.push_back(index);
  --slots_in_use_;
  maybe_drained(*link);
}

}  // namespace skerry::operation
