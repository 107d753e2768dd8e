#include "origin/link/rma_log.hpp"

#include <algorithm>

#include "core/pure/container_bytes.hpp"

namespace skerry::origin {

bool RmaLog::start(const Running& rma) {
  context_.assert_held();
  const uint64_t cookie = ++last_cookie_;
  if (!hand_over(rma, cookie)) return false;
  running_[cookie] = rma;
  ++rma.link->direct.outstanding_;
  if (rma.is_get) ++rma.link->direct.gets_;
  ++rma.op->waiting_replies;
  return true;
}

bool RmaLog::hand_over(const Running& rma, uint64_t cookie) {
  fabric::Fabric& fabric = *context_.fabric;
  const fabric::EndpointId endpoint = rma.link->connection.endpoint();
  if (rma.atomic != nullptr) {
    const fabric::AtomicCall call{rma.atomic->kind,   rma.key,
                                  rma.at,             rma.atomic->value,
                                  rma.atomic->expected, &rma.atomic->before,
                                  cookie};
    return fabric.start_atomic(endpoint, call) == fabric::SendResult::accepted;
  }
  return (rma.is_get ? fabric.get(endpoint, rma.local, rma.key, rma.at, rma.bytes, cookie)
                     : fabric.put(endpoint, rma.local, rma.key, rma.at, rma.bytes, cookie)) ==
         fabric::SendResult::accepted;
}

bool RmaLog::any_conflict(const Running& rma) const {
  return std::ranges::any_of(running_,
                             [&](const auto& entry) { return entry.second.conflicts(rma); });
}

Link* RmaLog::done(uint64_t cookie, bool ok) {
  context_.assert_held();
  const auto found = running_.find(cookie);
  if (found == running_.end()) return nullptr;  // late: its link failed meanwhile
  const Running rma = found->second;
  if (!ok && !rma.link->connection.has_failed())
    return nullptr;  // its connection is going: it is issued again on the next one
  running_.erase(found);
  finish(rma, ok ? Status()
                 : error(Code::peer_dead, "a transfer of rank ", context_.config.rank, " to node ",
                         rma.link->server.node, " failed under way"));
  return rma.link;
}

// A put that a later message of ours is known to have followed is in place, and is not written
// again: somebody else may have written there since.
bool RmaLog::again(Link& link, uint64_t up_to) {
  if (link.direct.outstanding() == 0) return true;
  const fabric::EndpointId endpoint = link.connection.endpoint();
  for (auto next = running_.begin(); next != running_.end();) {
    const auto [cookie, lost] = *next++;
    if (lost.link != &link || lost.endpoint == endpoint || lost.after_number >= up_to) continue;
    if (lost.atomic != nullptr) {
      lost.atomic->is_unknown = true;
      (void)done(cookie, true);
      continue;
    }
    if (!lost.is_get && context_.can().am_after_rma_ordered &&
        link.requests.applied() > lost.after_number) {
      (void)done(cookie, true);
      continue;
    }
    const uint64_t new_cookie = ++last_cookie_;
    if (!hand_over(lost, new_cookie)) return false;
    ++context_.counters.requests_replayed;
    auto running = running_.extract(cookie);  // its new place is the last
    running.key() = new_cookie;
    running.mapped().endpoint = endpoint;
    running_.insert(std::move(running));
  }
  return true;
}

void RmaLog::finish(const Running& rma, const Status& failure) {
  Direct& of = rma.link->direct;
  SKERRY_INVARIANT(of.outstanding_ > 0 && rma.op->waiting_replies > 0 && of.gets_ >= rma.is_get,
                   "what ends was counted");
  --of.outstanding_;
  if (rma.is_get) --of.gets_;
  --rma.op->waiting_replies;
  if (!failure.ok() && rma.op->status.ok()) rma.op->status = failure;
}

void RmaLog::abandon(Link& link, const Status& why) {
  context_.assert_held();
  std::erase_if(running_, [&](const auto& entry) {
    if (entry.second.link != &link) return false;
    finish(entry.second, why);
    return true;
  });
  SKERRY_INVARIANT(link.direct.outstanding() == 0 && link.direct.gets() == 0,
                   "all of a lost server's transfers are abandoned");
}

void RmaLog::note_message(Link& link, Rank to, uint64_t number) {
  auto& last = link.direct.last_messages_;
  if (!last) last = std::make_unique<std::unordered_map<Rank, uint64_t>>();
  (*last)[to] = number;
}

void RmaLog::forget_messages(Link& link, bool free_memory) {
  auto& last = link.direct.last_messages_;
  if (!last || !link.requests.session().drained()) return;
  if (free_memory) last.reset();
  else last->clear();
}

uint64_t RmaLog::memory_bytes(const Link& link) {
  const auto& last = link.direct.last_messages_;
  return last ? sizeof *last + table_bytes(*last) : 0;
}

}  // namespace skerry::origin
