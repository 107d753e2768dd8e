#include "origin/send/rma.hpp"

#include <algorithm>

#include "core/pure/container_bytes.hpp"

namespace skerry::origin {

bool Rma::can_take(const Access& access) const {
  const fabric::Capabilities& can = context_.can();
  // Without the second a late write of a broken connection might be placed after somebody else's:
  // such a fabric gets messages only.
  return can.rma && can.close_fences_rma && can.rma_from_bytes > 0 && !access.notify &&
         !access.updates() && !access.target.by_message && access.is_contiguous();
}

bool Rma::takes(const Access& access) const {
  return can_take(access) &&
         (access.local.bytes >= context_.can().rma_from_bytes || access.by_adapter);
}

// Short, and alone on its way. Of several threads one could keep the messages of the others waiting
// (wait_turn).
bool Rma::may_choose(const Link& link, const Access& access) const {
  const bool is_short = access.local.bytes > 0 &&
                        access.local.bytes < context_.can().rma_from_bytes &&
                        access.mode == Mode::blocking && !access.by_adapter;
  if (!is_short || !context_.config.one_thread_at_a_time) return false;
  // A put by the adapter whose connection ends before it is known to have arrived is written again.
  // Servers that close connections would make that usual.
  if (access.kind != wire::Kind::get && context_.config.servers_drop) return false;
  return can_take(access) && link.is_ready() && link.requests.session().drained() &&
         !link.held.any() && link.direct.outstanding() == 0 && link.answers.waiting() == 0 &&
         !is_refused(access.target);
}

Ways& Rma::ways(const Link& link) {
  if (link.index() >= ways_.size()) ways_.resize(link.index() + size_t{1});
  std::unique_ptr<Ways>& ways = ways_[link.index()];
  if (!ways) ways = std::make_unique<Ways>();
  return *ways;
}

Rma::Timed::Timed(Rma& rma, const Link& link, const Access& access) {
  if (!rma.context_.can().rma_of_adapter) [[likely]]
    return;
  Ways& ways = rma.ways(link);
  const bool may_choose = rma.may_choose(link, access);
  is_put_ = access.kind != wire::Kind::get;
  bytes_ = access.local.bytes;
  if (may_choose) {
    ways_ = &ways;
    way_ = ways.next(is_put_ ? Ways::Kind::put : Ways::Kind::get, bytes_);
  }
  if (is_put_) ways.issued_put();
}

void Rma::Timed::end(const Status& status) {
  if (ways_ == nullptr || !status.ok()) return;
  const int64_t taken_ns = monotonic_ns() - begin_ns_;
  if (is_put_) ways_->put_alone(bytes_, way_, taken_ns);
  else ways_->got(bytes_, way_, taken_ns);
}

uint64_t Rma::memory_bytes() const {
  uint64_t bytes = vector_bytes(ways_);
  for (const auto& ways : ways_)
    if (ways) bytes += sizeof *ways;
  return bytes;
}

bool Rma::knows(const Target& target, Key* key) const {
  const auto found = keys_.find(slice_of(target));
  if (found == keys_.end() || !found->second) return false;
  *key = *found->second;
  return true;
}

void Rma::learn(const Target& target, const wire::Key& answer, Key* key) {
  *key = {{answer.key, answer.base}, answer.offset};
  note(target, *key);
}

bool Rma::is_refused(const Target& target) const {
  const auto found = keys_.find(slice_of(target));
  return found != keys_.end() && !found->second;
}

// Another thread may have learnt it meanwhile.
void Rma::refused(const Target& target) {
  if (Key known; !knows(target, &known)) note(target, {});
}

void Rma::note(const Target& target, const std::optional<Key>& key) {
  if (keys_.size() >= max_keys) keys_.clear();
  keys_[slice_of(target)] = key;
}

// Order. Messages and RMA of one connection overtake each other. So an RMA waits until the last
// message to the same target rank is acknowledged. It also waits until no other RMA is under way:
// they might overtake each other. What follows an RMA waits in wait_sendable. Where the adapter has
// atomics, most accesses under locks are short RMA, and an RMA waits only for those of which one
// changes bytes of the other. A thread that always has some under way can then keep the messages of
// other threads waiting.
//
// A get that travels as a message is acknowledged before its answer is here. The server may still
// read those bytes, and reads them anew if the connection breaks. So a put (`writes`; empty for a
// get) waits for the answers of gets of the same bytes, too.
Status Rma::wait_turn(Lock& lock, Link& link, const Target& target, const RmaLog::Running& all,
                      const Extent& writes) {
  const bool by_range = context_.can().atomics;
  auto clear = [&] {
    if (link.connection.has_failed()) return true;
    if (link.direct.outstanding() > 0 && (!by_range || log_.any_conflict(all))) return false;
    return link.direct.last_message(target.rank) <= link.requests.applied();
  };
  // Small puts that are still held back were issued before this; wait_sendable sends them.
  bool waited = true;  // for a get, with the mutex given up: everything is looked at again
  while (waited) {
    while (link.held.any()) SKERRY_TRY(sender_.wait_sendable(lock, link, 0));
    SKERRY_TRY(progress_.wait_until(lock, clear));
    SKERRY_TRY(sender_.wait_unread(lock, link, writes, &waited));
  }
  RmaLog::forget_messages(link, false);
  return {};
}

// As soon as the connection takes it.
Status Rma::start(Lock& lock, Link& link, RmaLog::Running* rma) {
  for (;;) {
    SKERRY_TRY(links_.wait_open(lock, link));
    rma->after_number = link.requests.issued();
    rma->endpoint = link.connection.endpoint();
    if (log_.start(*rma)) break;
    link.connection.note_full();
  }
  links_.list(link);
  return {};
}

Status Rma::issue(Lock& lock, Link& link, const Access& access, const Key& key, Op* op) {
  context_.assert_held();
  const bool is_get = access.kind == wire::Kind::get;
  RmaLog::Running rma{.op = op,
                      .link = &link,
                      .is_get = is_get,
                      .local = access.local.base,
                      .key = key.key,
                      .at = key.offset + access.remote.offset,
                      .bytes = access.local.bytes};
  SKERRY_TRY(wait_turn(lock, link, access.target, rma,
                       is_get ? Extent{} : extent_of(access.target, access.remote)));
  for (uint64_t left = access.local.bytes; left > 0; left -= rma.bytes) {
    rma.bytes = std::min(left, long_part_bytes);
    SKERRY_TRY(start(lock, link, &rma));
    rma.local += rma.bytes;
    rma.at += rma.bytes;
  }
  return {};
}

Status Rma::issue(Lock& lock, Link& link, const Key& key, uint64_t offset, RmaLog::Atomic* atomic,
                  Op* op) {
  context_.assert_held();
  RmaLog::Running rma{.op = op,
                      .link = &link,
                      .is_get = true,
                      .key = key.key,
                      .at = key.offset + offset,
                      .bytes = sizeof(uint64_t),
                      .atomic = atomic};
  return start(lock, link, &rma);
}

}  // namespace skerry::origin
