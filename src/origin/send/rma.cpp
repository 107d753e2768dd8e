#include "origin/send/rma.hpp"

#include <algorithm>

#include "origin/engine/layers.hpp"

namespace skerry::origin {

bool Rma::takes(const Access& access) const {
  const fabric::Capabilities& can = context_.can();
  // Without the second a late write of a broken connection might be placed after somebody else's:
  // such a fabric gets messages only.
  return can.rma && can.close_fences_rma && can.rma_from_bytes > 0 &&
         access.local.bytes >= can.rma_from_bytes && !access.notify && !access.updates() &&
         !access.target.by_message && access.is_contiguous();
}

Status Rma::key_of(Lock& lock, Link& link, const Target& target, SegmentKey* key) {
  const std::pair slice(target.segment.packed(), target.rank);
  if (const auto found = keys_.find(slice); found != keys_.end()) {
    *key = found->second;
    return {};
  }
  wire::Key answer{};
  SKERRY_TRY(layers_.transfers.ask_key(lock, link, target, &answer));
  if (keys_.size() >= max_keys) keys_.clear();
  *key = keys_[slice] = {{answer.key, answer.base}, answer.offset};
  return {};
}

// Order. Messages and RMA of one connection overtake each other. So an RMA waits until the last
// message to the same target rank is acknowledged. A get also waits for our puts, because it might
// read their places too early. A put also waits for our gets and puts, because one to the same
// place might overtake it or be overtaken. What follows an RMA waits in wait_sendable.
//
// A get that travels as a message is acknowledged before its answer is here. The server may still
// read those bytes, and reads them anew if the connection breaks. So a put (`writes`; empty for a
// get) waits for the answers of gets of the same bytes, too.
Status Rma::wait_turn(Lock& lock, Link& link, const Target& target, const Extent& writes) {
  auto clear = [&] {
    if (!link.failure.ok()) return true;
    if (link.rma.outstanding > 0) return false;
    return link.rma.last_message(target.rank) <= link.session.applied();
  };
  // Small puts that are still held back were issued before this; wait_sendable sends them.
  bool waited = true;  // for a get, with the mutex given up: everything is looked at again
  while (waited) {
    while (link.has_batch()) SKERRY_TRY(layers_.sender.wait_sendable(lock, link, 0));
    SKERRY_TRY(layers_.progress.wait_until(lock, clear));
    SKERRY_TRY(layers_.transfers.wait_unread(lock, link, writes, &waited));
  }
  if (link.rma.last_messages && link.session.drained()) link.rma.last_messages->clear();
  return {};
}

Status Rma::issue(Lock& lock, Link& link, const Access& access, Op* op) {
  context_.assert_held();
  SegmentKey key;
  SKERRY_TRY(key_of(lock, link, access.target, &key));
  const bool is_get = access.kind == wire::Kind::get;
  SKERRY_TRY(wait_turn(lock, link, access.target,
                       is_get ? Extent{} : extent_of(access.target, access.remote)));
  const uint64_t total = access.local.bytes;
  for (uint64_t done = 0; done < total;) {
    SKERRY_TRY(layers_.links.wait_open(lock, link));
    const Running rma{op,
                      &link,
                      is_get,
                      access.local.base + done,
                      key.key,
                      key.offset + access.remote.offset + done,
                      std::min(total - done, Transfers::long_part_bytes),
                      link.session.issued(),
                      link.endpoint};
    const uint64_t cookie = ++last_cookie_;
    if (!hand_over(rma, cookie)) {
      link.room = Link::Room::full;
      continue;
    }
    running_[cookie] = rma;
    ++link.rma.outstanding;
    if (is_get) ++link.rma.gets_outstanding;
    ++op->waiting_replies;
    layers_.links.list(link);
    done += rma.bytes;
  }
  return {};
}

bool Rma::hand_over(const Running& rma, uint64_t cookie) {
  fabric::Fabric& fabric = *context_.fabric;
  return (rma.is_get ? fabric.get(rma.link->endpoint, rma.local, rma.key, rma.at, rma.bytes, cookie)
                     : fabric.put(rma.link->endpoint, rma.local, rma.key, rma.at, rma.bytes,
                                  cookie)) == fabric::SendResult::accepted;
}

Link* Rma::done(uint64_t cookie, bool ok) {
  context_.assert_held();
  const auto found = running_.find(cookie);
  if (found == running_.end()) return nullptr;  // late: its link failed meanwhile
  const Running rma = found->second;
  if (!ok && rma.link->failure.ok())
    return nullptr;  // its connection is going: it is issued again on the next one
  running_.erase(found);
  finish(rma, ok ? Status()
                 : error(Code::peer_dead, "a transfer of rank ", context_.config.rank, " to node ",
                         rma.link->server.node, " failed under way"));
  return rma.link;
}

void Rma::finish(const Running& rma, const Status& failure) {
  Link& link = *rma.link;
  SKERRY_INVARIANT(link.rma.outstanding > 0 && rma.op->waiting_replies > 0 &&
                       link.rma.gets_outstanding >= rma.is_get,
                   "what ends was counted");
  --link.rma.outstanding;
  if (rma.is_get) --link.rma.gets_outstanding;
  --rma.op->waiting_replies;
  if (!failure.ok() && rma.op->status.ok()) rma.op->status = failure;
}

void Rma::abandon(Link& link, const Status& why) {
  context_.assert_held();
  std::erase_if(running_, [&](const auto& entry) {
    if (entry.second.link != &link) return false;
    finish(entry.second, why);
    return true;
  });
  SKERRY_INVARIANT(link.rma.outstanding == 0 && link.rma.gets_outstanding == 0,
                   "all of a lost server's transfers are abandoned");
}

}  // namespace skerry::origin
