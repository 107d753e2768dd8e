#include "origin/engine/engine.hpp"

#include <algorithm>
#include <utility>

#include "core/pure/rule.hpp"
#include "core/futex.hpp"

namespace skerry::origin {

using memory::CallSpan;
using memory::SpanKind;

Engine::Engine(EngineConfig config, std::unique_ptr<fabric::Fabric> fabric)
    : context_{std::move(config), std::move(fabric), {}, {}}, layers_(context_, *this) {}

Engine::~Engine() { stop_helper(); }

Link& Engine::link_to(Rank target) {
  const placement::NodeMap& map = *context_.config.map;
  return layers_.links.to(placement::server_of(map, target, context_.config.rank));
}

// ---- issuing ----------------------------------------------------------------------------------

Status Engine::issue(const Access& access, Handle* handle) {
  const CallSpan call(context_.config.spans, access.span_kind(), access.target.rank,
                      access.bytes());
  Lock lock(context_.mutex);
  Link& link = link_to(access.target.rank);
  count(link.server.node, access.bytes());
  if (access.guard) return layers_.transfers.ask_guarded(lock, link, access);
  if (access.returns_data() || layers_.rma.takes(access)) return start(lock, link, access, handle);
  if (handle != nullptr) *handle = 0;
  const Status status = joins_batch(link, access) ? layers_.batches.add(lock, link, access)
                                                  : send_all(lock, link, access, handle);
  if (access.kind == wire::Kind::accumulate && access.mode == Mode::blocking &&
      access.local.bytes <= Batch::longest_bytes)
    layers_.batches.note_blocking(monotonic_ns());
  return status;
}

// What is answered, or the fabric's own: an operation that outlives the call.
Status Engine::start(Lock& lock, Link& link, const Access& access, Handle* handle) {
  Operations& operations = layers_.operations;
  Op* op = access.mode == Mode::implicit ? &operations.implicit() : operations.make();
  if (Status status = layers_.rma.takes(access) ? layers_.rma.issue(lock, link, access, op)
                                                : layers_.transfers.request(lock, link, access, op);
      !status.ok()) {
    // Answers may still come for the parts that were sent: then its record stays taken for ever.
    if (op->waiting_replies == 0 && !operations.is_implicit(op)) operations.free(op);
    return status;
  }
  return layers_.transfers.finish(lock, op, access.mode, access.local.bytes, handle);
}

// A small contiguous put or accumulate: may it wait for others to travel with? The first one after
// a pause travels alone, and so does one whose place an earlier get may still read. Of those that
// block only accumulates in a stream.
bool Engine::joins_batch(const Link& link, const Access& access) const {
  const bool may_join = access.local.bytes <= Batch::longest_bytes && access.is_contiguous() &&
                        !access.notify &&
                        context_.can().max_payload_bytes >= sizeof(Batch::payload) &&
                        layers_.links.unacknowledged(link) && link.gets_waiting == 0 &&
                        link.failure.ok();
  if (!may_join || access.mode != Mode::blocking) return may_join;
  return access.kind == wire::Kind::accumulate && layers_.batches.in_stream(monotonic_ns());
}

// put and accumulate as messages. Short ones, and those that are packed on the way, are source done
// when this returns: no operation outlives the call.
Status Engine::send_all(Lock& lock, Link& link, const Access& access, Handle* handle) {
  if (access.mode == Mode::implicit || access.local.bytes <= fabric::inline_payload_bytes)
    return layers_.transfers.send(lock, link, access, nullptr);
  Op* op = layers_.operations.make();
  if (Status status = layers_.transfers.send(lock, link, access, op); !status.ok()) {
    layers_.operations.free(op);
    return status;
  }
  return layers_.transfers.finish(lock, op, access.mode, access.local.bytes, handle);
}

Status Engine::read_modify_write(const Target& target, uint64_t offset, wire::Rmw op,
                                 uint64_t operand, uint64_t expected, uint64_t* old) {
  const CallSpan call(context_.config.spans, SpanKind::read_modify_write, target.rank, 8);
  Lock lock(context_.mutex);
  Link& link = link_to(target.rank);
  count(link.server.node, 8);
  return layers_.transfers.ask(lock, link,
                               {target,
                                wire::Kind::read_modify_write,
                                static_cast<uint8_t>(op),
                                offset,
                                {operand, expected},
                                old},
                               work_);
}

Status Engine::lock(const Target& target, uint64_t index, uint64_t holder) {
  Lock lock(context_.mutex);
  Link& link = link_to(target.rank);
  return layers_.transfers.ask(lock, link,
                               {target, wire::Kind::lock, 0, index, {holder, 0}, nullptr}, work_);
}

Status Engine::unlock(const Target& target, uint64_t index, uint64_t holder) {
  Lock lock(context_.mutex);
  return layers_.transfers.unlock(lock, link_to(target.rank), target, index, holder);
}

Status Engine::lock_note(const Target& target, const wire::NoteWord& note, uint64_t value,
                         wire::NoteAnswer* answer) {
  Transfers::Word word{target, wire::Kind::lock_note, 0, 0, {wire::note_word(note), value}};
  word.into = reinterpret_cast<std::byte*>(answer);
  word.bytes = sizeof *answer;
  Lock lock(context_.mutex);
  return layers_.transfers.ask(lock, link_to(target.rank), word, work_);
}

// ---- completion -------------------------------------------------------------------------------

namespace {

Status not_outstanding(Handle handle) {
  return error(Code::invalid, "handle ", handle,
               " is not outstanding: it was waited for already, or is not a handle");
}

}  // namespace

Status Engine::wait(Handle* handle) {
  if (*handle == 0) return {};
  const CallSpan call(context_.config.spans, SpanKind::wait, no_rank, 0);
  Lock lock(context_.mutex);
  Op* op = layers_.operations.find(*handle);
  if (op == nullptr) return not_outstanding(*handle);
  if (op->link != nullptr && !Operations::is_done(*op))
    SKERRY_TRY(layers_.sender.wait_connected(lock, *op->link));
  SKERRY_TRY(layers_.progress.wait_until(lock, [&] { return Operations::is_done(*op); }));
  *handle = 0;
  return layers_.operations.take_back(op);
}

Status Engine::test(Handle* handle, bool* done) {
  if (*handle == 0) {
    *done = true;
    return {};
  }
  Lock lock(context_.mutex);
  Op* op = layers_.operations.find(*handle);
  if (op == nullptr) return not_outstanding(*handle);
  if (!Operations::is_done(*op)) {
    if (op->link != nullptr && op->link->has_queued()) layers_.links.open(*op->link);
    layers_.progress.look(lock);
  }
  if (context_.is_ending())
    return layers_.progress.may_close() ? layers_.progress.give_up() : context_.abort_status();
  *done = Operations::is_done(*op);
  if (!*done) return {};
  *handle = 0;
  return layers_.operations.take_back(op);
}

Status Engine::wait_named() {
  const CallSpan call(context_.config.spans, SpanKind::wait, no_rank, 0);
  Lock lock(context_.mutex);
  if (layers_.operations.all_named_done()) return {};
  layers_.links.open_queued();
  return layers_.progress.wait_until(lock, [&] { return layers_.operations.all_named_done(); });
}

bool Engine::is_outstanding(Handle handle) {
  const Lock lock(context_.mutex);
  return layers_.operations.find(handle) != nullptr;
}

Status Engine::wait_implicit() {
  const CallSpan call(context_.config.spans, SpanKind::wait, no_rank, 0);
  Lock lock(context_.mutex);
  // Links whose queue holds what this waits for.
  for (Link* link : std::vector<Link*>(layers_.links.listed()))
    if (link->has_queued() &&
        (link->backlog.replies > 0 || link->implicit_number > link->backlog.sent))
      layers_.links.open(*link);
  Op& gets = layers_.operations.implicit();
  SKERRY_TRY(layers_.progress.wait_until(lock, [&] { return gets.waiting_replies == 0; }));
  for (;;) {  // the list changes while the mutex is given up
    const auto& listed = layers_.links.listed();
    const auto next = std::find_if(listed.begin(), listed.end(),
                                   [](const Link* link) { return link->implicit_number != 0; });
    if (next == listed.end()) return Operations::take_status(gets);
    Link& link = **next;
    SKERRY_TRY(layers_.progress.wait_until(lock, [&] {
      return link.session.applied() >= link.implicit_number || !link.failure.ok();
    }));
    if (link.session.applied() < link.implicit_number) return link.failure;
    link.implicit_number = 0;
  }
}

Status Engine::fence(placement::ServerRef server) {
  Lock lock(context_.mutex);
  ++context_.counters.fences;
  Link* const found = layers_.links.find(server);
  if (found == nullptr) return {};
  Link& link = *found;
  if (link.has_batch())
    SKERRY_TRY(layers_.sender.wait_sendable(lock, link, link.batch->bytes, Sender::Room::or_queue));
  SKERRY_TRY(layers_.sender.wait_connected(lock, link));
  const uint64_t newest = link.session.issued();
  if (link.rma.outstanding > 0)
    SKERRY_TRY(layers_.progress.wait_until(
        lock, [&] { return link.rma.outstanding == 0 || !link.failure.ok(); }));
  if (SKERRY_RULE(fence_acknowledged) && link.session.applied() < newest) {
    const bool alone = context_.config.one_thread_at_a_time && layers_.slots.in_use() == 0;
    SKERRY_TRY(layers_.progress.wait_until(
        lock, [&] { return link.session.applied() >= newest || !link.failure.ok(); },
        alone ? &link : nullptr, {no_deadline, wait_slice_ns, server.node}));
    if (link.session.applied() < newest) return link.failure;
  }
  // Every request was dealt with, but some were refused: the server tells which in a moment.
  if (link.session.refusal_due()) {
    SKERRY_TRY(layers_.progress.wait_until(
        lock, [&] { return !link.session.refusal_due() || !link.failure.ok(); }));
    if (link.session.refusal_due()) return link.failure;
  }
  return std::exchange(link.request_failure, Status());
}

Status Engine::fence_node(NodeId node) {
  const CallSpan call(context_.config.spans, SpanKind::fence, no_rank, 0);
  return fence(placement::server_on(*context_.config.map, node, context_.config.rank));
}

Status Engine::fence_all() {
  const CallSpan call(context_.config.spans, SpanKind::fence, no_rank, 0);
  std::vector<placement::ServerRef> servers;
  {
    const Lock lock(context_.mutex);
    layers_.batches.flush();
    layers_.links.open_queued();
    for (const Link* link : layers_.links.listed()) servers.push_back(link->server);
    ++context_.counters.fences;
  }
  Status first;
  for (const placement::ServerRef server : servers) first.also(fence(server));
  return first;
}

// ---- before sleeping elsewhere ----------------------------------------------------------------

// Batches go out or join the queue; what is queued now is sent; and the network has all that the
// fabric has taken.
Status Engine::push(Lock& lock, const Until& until) {
  layers_.batches.flush();
  layers_.links.open_queued();
  for (Link* link : std::vector<Link*>(layers_.links.listed())) {
    SKERRY_TRY(layers_.progress.wait_until(
        lock, [&] { return !link->has_batch() || !link->failure.ok(); }, nullptr, until));
    if (link->has_queued()) layers_.links.open(*link);
    const uint64_t newest = link->backlog.issued;
    const auto is_gone = [&] {
      return link->backlog.sent >= newest && !layers_.links.has_unsent(*link);  // also if it failed
    };
    SKERRY_TRY(layers_.progress.wait_until(lock, is_gone, nullptr, until));
  }
  return {};
}

// A thread that is about to sleep elsewhere leaves nothing unsent: what the kernel has reaches the
// server without us. Some thread must also take the replies. A server that cannot send them parks
// our session, and with it later requests that other ranks may be waiting for. The helper takes the
// replies. Without a helper we take them here, until what we sent has arrived.
Status Engine::push_out(int64_t deadline_ns) {
  Lock lock(context_.mutex);
  const Until until{deadline_ns, wait_slice_ns};
  SKERRY_TRY(push(lock, until));
  if (context_.has_helper()) return {};
  return layers_.progress.wait_until(
      lock,
      [&] {
        return !layers_.links.any_unacknowledged() && layers_.operations.all_named_answered();
      },
      nullptr, until);
}

bool Engine::needs_looks() {
  if (context_.has_helper()) return false;
  const Lock lock(context_.mutex);
  return !layers_.links.listed().empty();
}

void Engine::look() {
  Lock lock(context_.mutex);
  layers_.progress.look(lock);
}

Status Engine::borrow_slot(uint32_t* slot) {
  Lock lock(context_.mutex);
  for (bool taken = false; !taken;)
    SKERRY_TRY(layers_.sender.take_slot(lock, Slots::Wait::for_ever, slot, &taken));
  return {};
}

void Engine::return_slot(uint32_t slot) {
  const Lock lock(context_.mutex);
  layers_.slots.give_back(slot);
  if (layers_.slots.may_be_awaited()) layers_.progress.wake_waiters();
}

// ---- the end, and accounts --------------------------------------------------------------------

// A request that failed is reported, but keeps no connection from being closed.
Status Engine::close_all() {
  Status first = wait_implicit();
  first.also(fence_all());
  Lock lock(context_.mutex);
  Status closed = layers_.progress.wait_until(lock, [&] { return layers_.links.close_idle(); });
  return first.ok() ? closed : first;
}

Status Engine::limit_connections(uint32_t max_connections) {
  const Lock lock(context_.mutex);
  SKERRY_TRY(layers_.links.limit(max_connections));
  // As if a server needed the slot.
  if (max_connections != 0 && context_.fabric->limits_connections())
    context_.config.servers_drop = true;
  return {};
}

EngineCounters Engine::counters() {
  const Lock lock(context_.mutex);
  EngineCounters out = context_.counters;
  layers_.links.count(&out);
  const fabric::ConnectionsMemory taken = account();
  out.link_bytes = taken.connection_bytes + taken.known_bytes;
  return out;
}

fabric::Fabric::Traffic Engine::traffic() {
  const Lock lock(context_.mutex);
  return context_.fabric->traffic();
}

fabric::ConnectionsMemory Engine::memory() {
  const Lock lock(context_.mutex);
  return account();
}

fabric::ConnectionsMemory Engine::account() const {
  context_.assert_held();
  fabric::ConnectionsMemory out;
  const fabric::Fabric::Memory fabric = context_.fabric->memory();
  layers_.links.account(&out);
  out.connection_bytes += fabric.endpoint_bytes;
  out.fixed_bytes = fabric.fixed_bytes + sizeof *this + layers_.slots.memory_bytes() +
                    layers_.operations.memory_bytes();
  return out;
}

}  // namespace skerry::origin
