#include "origin/engine/engine.hpp"

#include <algorithm>
#include <utility>

#include "core/pure/rule.hpp"
#include "core/futex.hpp"

namespace skerry::origin {

using memory::CallSpan;
using memory::SpanKind;

Engine::Engine(EngineConfig config, std::unique_ptr<fabric::Fabric> fabric)
    : has_atomics(fabric->capabilities().atomics),
      atomics_pay(has_atomics && fabric->capabilities().atomics_of_adapter &&
                  fabric->capabilities().atomic_ns <= longest_paying_atomic_ns),
      context_{std::move(config), std::move(fabric), {}, {}},
      slots_(context_),
      rma_log_(context_),
      batches_(context_),
      progress_(context_, *this, *this),
      links_(context_, progress_, slots_, *this),
      resume_(context_, links_, slots_, rma_log_),
      sender_(context_, progress_, slots_, links_, batches_),
      transfers_(context_, progress_, operations_, slots_, links_, batches_, sender_),
      rma_(context_, progress_, links_, rma_log_, sender_),
      losses(context_, progress_, links_) {}

Engine::~Engine() { stop_helper(); }

Link& Engine::link_to(Rank target) {
  const placement::NodeMap& map = *context_.config.map;
  return links_.to(placement::server_of(map, target, context_.config.rank));
}

// ---- issuing ----------------------------------------------------------------------------------

Status Engine::issue(const Access& access, Handle* handle) {
  const CallSpan call(context_.config.spans, access.span_kind(), access.target.rank,
                      access.bytes());
  Lock lock(context_.mutex);
  Link& link = link_to(access.target.rank);
  count(link.server.node, access.bytes());
  if (access.guard) return transfers_.ask_guarded(lock, link, access);
  Rma::Timed timed(rma_, link, access);
  Rma::Key key;
  if (timed.is_by_adapter() &&
      !key_of(lock, link, access.target, Rma::longest_for_short_bytes, &key).ok())
    timed.as_message();
  timed.begin();
  if (handle != nullptr) *handle = 0;
  const bool is_rma = timed.is_by_adapter() || rma_.takes(access);
  const Status status = access.returns_data() || is_rma ? start(lock, link, access, is_rma, handle)
                        : joins_batch(link, access)     ? sender_.hold(lock, link, access)
                                                    : send_all(lock, link, access, handle);
  if (access.kind == wire::Kind::accumulate && access.mode == Mode::blocking &&
      access.local.bytes <= Batch::longest_bytes)
    batches_.note_blocking(monotonic_ns());
  timed.end(status);
  return status;
}

// `most_bytes` as of Transfers::ask_key.
Status Engine::key_of(Lock& lock, Link& link, const Target& target, uint64_t most_bytes,
                      Rma::Key* key) {
  if (rma_.knows(target, key)) return {};
  wire::Key answer{};
  const Status asked = transfers_.ask_key(lock, link, target, most_bytes, &answer);
  if (asked.ok()) rma_.learn(target, answer, key);
  else if (asked.code() == Code::unsupported) rma_.refused(target);
  return asked;
}

// What is answered, or the fabric's own: an operation that outlives the call.
Status Engine::start(Lock& lock, Link& link, const Access& access, bool is_rma, Handle* handle) {
  Op* op = access.mode == Mode::implicit ? &operations_.implicit() : operations_.make();
  Status status;
  if (is_rma) {
    Rma::Key key;
    status = key_of(lock, link, access.target, 0, &key);
    if (status.ok()) status = rma_.issue(lock, link, access, key, op);
  } else {
    status = transfers_.request(lock, link, access, op);
  }
  if (!status.ok()) {
    // Answers may still come for the parts that were sent: then its record stays taken for ever.
    if (op->waiting_replies == 0 && !operations_.is_implicit(op)) operations_.free(op);
    return status;
  }
  if (is_rma && access.mode == Mode::implicit && rma_.goes_by_itself(access)) {
    progress_.watch_over();  // a connection that breaks is noticed; to be called costs a switch
    return {};
  }
  return transfers_.finish(lock, op, access.mode, access.local.bytes, handle);
}

// A small contiguous put or accumulate: may it wait for others to travel with? The first one after
// a pause travels alone, and so does one whose place an earlier get may still read. Of those that
// block only accumulates in a stream.
bool Engine::joins_batch(const Link& link, const Access& access) const {
  const bool may_join = access.local.bytes <= Batch::longest_bytes && access.is_contiguous() &&
                        !access.notify &&
                        context_.can().max_payload_bytes >= sizeof(Batch::payload) &&
                        links_.unacknowledged(link) && link.answers.gets() == 0 &&
                        !link.connection.has_failed();
  if (!may_join || access.mode != Mode::blocking) return may_join;
  return access.kind == wire::Kind::accumulate && batches_.in_stream(monotonic_ns());
}

// put and accumulate as messages. Short ones, and those that are packed on the way, are source done
// when this returns: no operation outlives the call.
Status Engine::send_all(Lock& lock, Link& link, const Access& access, Handle* handle) {
  if (access.mode == Mode::implicit || access.local.bytes <= fabric::inline_payload_bytes)
    return transfers_.send(lock, link, access, nullptr);
  Op* op = operations_.make();
  if (Status status = transfers_.send(lock, link, access, op); !status.ok()) {
    operations_.free(op);
    return status;
  }
  return transfers_.finish(lock, op, access.mode, access.local.bytes, handle);
}

Status Engine::read_modify_write(const Target& target, uint64_t offset, wire::Rmw op,
                                 uint64_t operand, uint64_t expected, uint64_t* old) {
  const CallSpan call(context_.config.spans, SpanKind::read_modify_write, target.rank, 8);
  Lock lock(context_.mutex);
  Link& link = link_to(target.rank);
  count(link.server.node, 8);
  return transfers_.ask(lock, link,
                               {target,
                                wire::Kind::read_modify_write,
                                static_cast<uint8_t>(op),
                                offset,
                                {operand, expected},
                                old},
                               work_);
}

Status Engine::atomic(const Target& target, uint64_t offset, RmaLog::Atomic* atomic) {
  const CallSpan call(context_.config.spans, SpanKind::read_modify_write, target.rank, 8);
  Lock lock(context_.mutex);
  Link& link = link_to(target.rank);
  count(link.server.node, 8);
  Rma::Key key;
  SKERRY_TRY(key_of(lock, link, target, 0, &key));
  Op* op = operations_.make();
  if (Status status = rma_.issue(lock, link, key, offset, atomic, op); !status.ok()) {
    operations_.free(op);
    return status;
  }
  return transfers_.finish(lock, op, Mode::blocking, 8, nullptr);
}

Status Engine::lock(const Target& target, uint64_t index, uint64_t holder, uint64_t* asks) {
  Lock lock(context_.mutex);
  Link& link = link_to(target.rank);
  return transfers_.ask(lock, link,
                               {target, wire::Kind::lock, 0, index, {holder, 0}, asks}, work_);
}

Status Engine::unlock(const Target& target, uint64_t index, uint64_t holder) {
  Lock lock(context_.mutex);
  return transfers_.unlock(lock, link_to(target.rank), target, index, holder);
}

Status Engine::lock_note(const Target& target, const wire::NoteWord& note, uint64_t value,
                         wire::NoteAnswer* answer) {
  Transfers::Word word{target, wire::Kind::lock_note, 0, 0, {wire::note_word(note), value}};
  word.into = reinterpret_cast<std::byte*>(answer);
  word.bytes = sizeof *answer;
  Lock lock(context_.mutex);
  return transfers_.ask(lock, link_to(target.rank), word, work_);
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
  Op* op = operations_.find(*handle);
  if (op == nullptr) return not_outstanding(*handle);
  if (op->link != nullptr && !Operations::is_done(*op))
    SKERRY_TRY(sender_.wait_connected(lock, *op->link));
  SKERRY_TRY(progress_.wait_until(lock, [&] { return Operations::is_done(*op); }));
  *handle = 0;
  return operations_.take_back(op);
}

Status Engine::test(Handle* handle, bool* done) {
  if (*handle == 0) {
    *done = true;
    return {};
  }
  Lock lock(context_.mutex);
  Op* op = operations_.find(*handle);
  if (op == nullptr) return not_outstanding(*handle);
  if (!Operations::is_done(*op)) {
    if (op->link != nullptr && op->link->has_queued()) links_.open(*op->link);
    progress_.look(lock);
  }
  if (context_.is_ending())
    return progress_.may_close() ? progress_.give_up() : context_.abort_status();
  *done = Operations::is_done(*op);
  if (!*done) return {};
  *handle = 0;
  return operations_.take_back(op);
}

Status Engine::wait_named() {
  const CallSpan call(context_.config.spans, SpanKind::wait, no_rank, 0);
  Lock lock(context_.mutex);
  if (operations_.all_named_done()) return {};
  links_.open_queued();
  return progress_.wait_until(lock, [&] { return operations_.all_named_done(); });
}

bool Engine::is_outstanding(Handle handle) {
  const Lock lock(context_.mutex);
  return operations_.find(handle) != nullptr;
}

Status Engine::wait_implicit() {
  const CallSpan call(context_.config.spans, SpanKind::wait, no_rank, 0);
  Lock lock(context_.mutex);
  // Links whose queue holds what this waits for.
  for (Link* link : std::vector<Link*>(links_.listed()))
    if (link->has_queued() &&
        (link->requests.backlog.replies > 0 ||
         link->requests.implicit_number() > link->requests.backlog.sent))
      links_.open(*link);
  Op& gets = operations_.implicit();
  SKERRY_TRY(progress_.wait_until(lock, [&] { return gets.waiting_replies == 0; }));
  for (;;) {  // the list changes while the mutex is given up
    const auto& listed = links_.listed();
    const auto next = std::find_if(listed.begin(), listed.end(), [](const Link* link) {
      return link->requests.implicit_number() != 0;
    });
    if (next == listed.end()) return Operations::take_status(gets);
    Link& link = **next;
    const Requests& requests = link.requests;
    SKERRY_TRY(progress_.wait_until(lock, [&] {
      return requests.applied() >= requests.implicit_number() || link.connection.has_failed();
    }));
    const bool failed = requests.applied() < requests.implicit_number();
    if (!failed || link.connection.is_lost()) link.requests.set_implicit_number(0);
    if (failed) return link.connection.failure();
  }
}

Status Engine::fence(placement::ServerRef server, bool tells, bool of_all) {
  Lock lock(context_.mutex);
  if (tells) ++context_.counters.fences;
  Link* const found = links_.find(server);
  if (found == nullptr) return {};
  Link& link = *found;
  if (link.connection.is_lost()) [[unlikely]]
    return tells ? Losses::tell(link) : Status();
  std::optional<Losses::Fence> told_of;
  if (tells) told_of.emplace(link);
  Ways* const ways = rma_.known_ways(link);
  const int64_t begin_ns = ways == nullptr ? 0 : monotonic_ns();
  const session::OriginSession& session = link.requests.session();
  const auto failed = [&] { return link.connection.has_failed(); };
  if (link.held.any())
    SKERRY_TRY(
        sender_.wait_sendable(lock, link, batches_.bytes_of(link), Sender::Room::or_queue));
  SKERRY_TRY(sender_.wait_connected(lock, link));
  const uint64_t newest = of_all ? link.requests.issued() : link.requests.fenced();
  if (link.direct.outstanding() > 0)
    SKERRY_TRY(progress_.wait_until(
        lock, [&] { return link.direct.outstanding() == 0 || failed(); }));
  if (SKERRY_RULE(fence_acknowledged) && session.applied() < newest) {
    Until until{.node = server.node, .requests = &link.requests};
    if (context_.config.one_thread_at_a_time && slots_.in_use() == 0)
      until.only = &link.connection.endpoint();
    SKERRY_TRY(progress_.wait_until(
        lock, [&] { return session.applied() >= newest || failed(); }, until));
    if (session.applied() < newest) return link.connection.failure();
  }
  if (!tells) return {};
  // Every request was dealt with, but some were refused: the server tells which in a moment.
  if (session.refusal_due()) {
    SKERRY_TRY(progress_.wait_until(lock, [&] { return !session.refusal_due() || failed(); }));
    if (session.refusal_due()) return link.connection.failure();
  }
  if (ways != nullptr) ways->fenced(monotonic_ns() - begin_ns);
  return link.requests.take_failure();
}

Status Engine::fence_node(NodeId node, bool tells) {
  const CallSpan call(context_.config.spans, SpanKind::fence, no_rank, 0);
  return fence(placement::server_on(*context_.config.map, node, context_.config.rank), tells);
}

Status Engine::fence_all(bool quietly) {
  const CallSpan call(context_.config.spans, SpanKind::fence, no_rank, 0);
  std::vector<placement::ServerRef> servers;
  {
    const Lock lock(context_.mutex);
    sender_.flush();
    links_.open_queued();
    for (const Link* link : links_.listed()) servers.push_back(link->server);
    if (!quietly) ++context_.counters.fences;
  }
  Status first;
  for (const placement::ServerRef server : servers) first.also(fence(server, !quietly, quietly));
  return quietly ? Status() : first;
}

// ---- before sleeping elsewhere ----------------------------------------------------------------

// Batches go out or join the queue; what is queued now is sent; and the network has all that the
// fabric has taken.
Status Engine::push(Lock& lock, const Until& until) {
  sender_.flush();
  links_.open_queued();
  for (Link* link : std::vector<Link*>(links_.listed())) {
    SKERRY_TRY(progress_.wait_until(
        lock, [&] { return !link->held.any() || link->connection.has_failed(); }, until));
    if (link->has_queued()) links_.open(*link);
    const session::Backlog::Part& queue = link->requests.backlog;
    const uint64_t newest = queue.issued;
    const auto is_gone = [&] {
      return queue.sent >= newest && !links_.has_unsent(*link);  // also if it failed
    };
    SKERRY_TRY(progress_.wait_until(lock, is_gone, until));
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
  return progress_.wait_until(
      lock,
      [&] {
        return !links_.any_unacknowledged() && operations_.all_named_answered();
      },
      until);
}

bool Engine::needs_looks() {
  if (context_.has_helper()) return false;
  const Lock lock(context_.mutex);
  return !links_.listed().empty();
}

void Engine::look() {
  Lock lock(context_.mutex);
  progress_.look(lock);
}

Status Engine::borrow_slot(uint32_t* slot) {
  Lock lock(context_.mutex);
  for (bool taken = false; !taken;)
    SKERRY_TRY(sender_.take_slot(lock, Slots::Wait::for_ever, slot, &taken));
  return {};
}

void Engine::return_slot(uint32_t slot) {
  const Lock lock(context_.mutex);
  slots_.give_back(slot);
  if (slots_.may_be_awaited()) progress_.wake_waiters();
}

// ---- the end, and accounts --------------------------------------------------------------------

// A request that failed is reported, but keeps no connection from being closed.
Status Engine::close_all() {
  Status first = wait_implicit();
  first.also(fence_all());
  Lock lock(context_.mutex);
  Status closed = progress_.wait_until(lock, [&] { return links_.close_idle(); });
  return first.ok() ? closed : first;
}

Status Engine::limit_connections(uint32_t max_connections) {
  const Lock lock(context_.mutex);
  SKERRY_TRY(links_.limit(max_connections));
  // As if a server needed the slot.
  if (max_connections != 0 && context_.fabric->limits_connections())
    context_.config.servers_drop = true;
  return {};
}

EngineCounters Engine::counters() {
  const Lock lock(context_.mutex);
  EngineCounters out = context_.counters;
  links_.count(&out);
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
  links_.account(&out);
  out.connection_bytes += fabric.endpoint_bytes + batches_.memory_bytes();
  out.known_bytes += rma_.memory_bytes();
  out.fixed_bytes = fabric.fixed_bytes + sizeof *this + slots_.memory_bytes() +
                    operations_.memory_bytes();
  return out;
}

}  // namespace skerry::origin
