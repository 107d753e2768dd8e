// Puts and gets of the fabric's own (docs/design/0003-rma-order.md), and the keys they need.
#include <algorithm>

#include "memory/slots.hpp"
#include "operation/engine.hpp"

namespace skerry::operation {

bool Engine::use_rma(uint64_t bytes, const Side& a, const Side& b) const {
  const fabric::Capabilities& can = fabric_->capabilities();
  // Without the last a late write of a broken connection might land after somebody else's: such a
  // fabric gets messages only.
  return can.rma && can.close_fences_rma && can.rma_from_bytes > 0 && bytes >= can.rma_from_bytes &&
         a.form == Side::Form::contiguous && b.form == Side::Form::contiguous;
}

Status Engine::key_of(Lock& lock, Link& link, const Target& target, SegmentKey* key) {
  auto& of_segment = keys_[target.segment.packed()];
  if (const auto found = of_segment.find(target.rank); found != of_segment.end()) {
    *key = found->second;
    return {};
  }
  wire::Key answer{};
  Op* op = new_op();
  uint32_t index = 0;
  for (;;) {
    Status status = wait_sendable(lock, link, 0);
    if (status.ok() && !take_slot(&index)) {
      status = wait_slot(lock, Wait::answered);
      if (status.ok()) continue;
    }
    if (!status.ok()) {
      free_op(op);
      return status;
    }
    wire::Request& r = begin(wire::Kind::key, target, link);
    arm(index, op, &link);
    r.header.reply_slot = index + 1;
    r.header.reply_tag = memory::slot_generation(slot(index));
    pending_[index].land = reinterpret_cast<std::byte*>(&answer);
    pending_[index].bytes = sizeof answer;
    uint64_t number = 0;
    if (send(link, {}, Payload::copied, 0, false, true, &number)) {
      pending_[index].number = number;
      break;
    }
    release(index);
  }
  SKERRY_TRY(finish_op(lock, op, Mode::blocking, 0, nullptr));
  key->key = {answer.key, answer.base};
  key->offset = answer.offset;
  if (++keys_count_ > max_keys) {
    keys_.clear();
    keys_count_ = 1;
  }
  keys_[target.segment.packed()][target.rank] = *key;
  return {};
}

// Order. Messages and RMA of one connection overtake each other. So an RMA waits until the last
// message to the same target rank is acknowledged; a get also waits for our puts (they might be
// read too early), a put for our gets and puts (it might be overtaken by, or overtake, one to the
// same place). What follows an RMA waits in wait_sendable.
Status Engine::rma_stream(Lock& lock, Link& link, const Target& target, uint64_t offset,
                          std::byte* local, uint64_t bytes, bool is_put, Op* op) {
  SegmentKey key;
  SKERRY_TRY(key_of(lock, link, target, &key));
  auto clear = [&] {
    if (!link.failure.ok()) return true;
    if (link.rma_outstanding > 0) return false;
    const auto last = link.last_message.find(target.rank);
    return last == link.last_message.end() || last->second <= link.session.applied();
  };
  // Small puts that are still held back were issued before this; wait_sendable sends them.
  while (link.has_batch()) SKERRY_TRY(wait_sendable(lock, link, 0));
  SKERRY_TRY(wait_until(lock, clear));
  if (link.session.drained()) link.last_message.clear();
  for (uint64_t done = 0; done < bytes;) {
    SKERRY_TRY(wait_open(lock, link));
    const uint64_t part = std::min(bytes - done, landing_part_bytes);
    const uint64_t cookie = ++next_cookie_;
    const uint64_t at = key.offset + offset + done;
    const fabric::SendResult sent = is_put ? fabric_->put(link.endpoint, local + done, key.key, at,
                                                          part, cookie)
                                           : fabric_->get(link.endpoint, local + done, key.key, at,
                                                          part, cookie);
    if (sent != fabric::SendResult::accepted) {
      link.blocked = true;
      continue;
    }
    if (trace_) trace_->request(link.server.node, part, !is_put);
    rma_[cookie] = {
        op, &link, !is_put, local + done, key.key, at, part, link.session.issued(), link.endpoint};
    ++link.rma_outstanding;
    if (!is_put) ++link.rma_gets_outstanding;
    ++op->waiting_replies;
    done += part;
  }
  return {};
}

// After a break: issues again, in the old order, those that were issued before request `up_to` and
// are not known to be done. A put that a later message of ours is known to have followed has
// landed, and is not written again: somebody else may have written there since. False: the fabric
// is full.
bool Engine::replay_rma(Link& link, uint64_t up_to) {
  if (link.rma_outstanding == 0) return true;
  std::vector<uint64_t> cookies;
  for (const auto& [cookie, rma] : rma_)
    if (rma.link == &link && rma.endpoint != link.endpoint && rma.after_number < up_to)
      cookies.push_back(cookie);
  std::sort(cookies.begin(), cookies.end());
  for (const uint64_t cookie : cookies) {
    Rma rma = rma_.at(cookie);
    if (!rma.is_get && fabric_->capabilities().am_after_rma_ordered &&
        link.session.applied() > rma.after_number) {
      on_rma_done(link.endpoint, cookie, true);
      continue;
    }
    const uint64_t again = ++next_cookie_;
    const fabric::SendResult sent = rma.is_get ? fabric_->get(link.endpoint, rma.local, rma.key,
                                                              rma.at, rma.bytes, again)
                                               : fabric_->put(link.endpoint, rma.local, rma.key,
                                                              rma.at, rma.bytes, again);
    if (sent != fabric::SendResult::accepted) {
      link.blocked = true;  // on_writable or on_closed follows
      return false;
    }
    ++counters_.requests_replayed;
    rma.endpoint = link.endpoint;
    rma_.erase(cookie);
    rma_[again] = rma;
  }
  return true;
}

}  // namespace skerry::operation
