#include "job/directory.hpp"

#include "core/futex.hpp"
#include "job/mutexes.hpp"
#include "memory/stripes.hpp"

namespace skerry::job {

void NodeDirectory::open(const memory::Control& control, uint32_t member_index,
                         const placement::NodeMap& map, NodeId node, server::Server& server) {
  control_ = control;
  member_index_ = member_index;
  map_ = &map;
  node_ = node;
  server_ = &server;
}

Status NodeDirectory::find(SegmentId segment, Rank rank, memory::Region* region) {
  const memory::LocalSegment local = broker_.find_owner(segment);
  if (!local)
    return error(Code::freed, "segment (", segment.owner, ", ", segment.generation,
                 ") does not exist on node ", node_, ": it was freed");
  if (!local.find(rank, region))
    return error(Code::invalid, "rank ", rank, " has no slice of segment (", segment.owner, ", ",
                 segment.generation, ") on node ", node_);
  return {};
}

namespace {

Status find_mutex(NodeDirectory& directory, const memory::Broker& broker, SegmentId segment,
                  Rank rank, uint64_t index, lock::Mutex** mutex) {
  memory::Region region;
  SKERRY_TRY(directory.find(segment, rank, &region));
  if (broker.find_owner(segment).purpose() != purpose_mutexes)
    return error(Code::invalid, "segment (", segment.owner, ", ", segment.generation,
                 ") holds no mutexes");  // a peer gone wrong: its bytes are no queue
  if (index >= region.bytes / sizeof(lock::Mutex))
    return error(Code::range, "mutex ", index, " of rank ", rank, ", which hosts ",
                 region.bytes / sizeof(lock::Mutex));
  *mutex = reinterpret_cast<lock::Mutex*>(region.base) + index;
  return {};
}

}  // namespace

Status NodeDirectory::lock(SegmentId segment, Rank rank, uint64_t index, Rank origin, uint32_t slot,
                           uint32_t tag, uint64_t holder, server::LockOutcome* outcome) {
  lock::Mutex* mutex = nullptr;
  SKERRY_TRY(find_mutex(*this, broker_, segment, rank, index, &mutex));
  lock::WaiterPool pool = waiter_pool(control_);
  const lock::Waiter waiter{
      holder, {static_cast<uint64_t>(static_cast<uint32_t>(origin)) << 32 | slot, tag}};
  switch (lock::lock_request(*mutex, waiter, pool, MutexGuard(control_, member_index_, false))) {
    case lock::LockAnswer::granted: *outcome = server::LockOutcome::granted; return {};
    case lock::LockAnswer::queued: *outcome = server::LockOutcome::queued; return {};
    case lock::LockAnswer::recursive:
      return error(Code::invalid, "rank ", origin, " locks mutex ", index, " of rank ", rank,
                   " again, which it holds");
    case lock::LockAnswer::no_record:
    case lock::LockAnswer::contended:
    case lock::LockAnswer::guard_failed: *outcome = server::LockOutcome::busy; return {};
  }
  return error(Code::internal, "a lock request had no answer");
}

Status NodeDirectory::holds(SegmentId segment, Rank rank, uint64_t index, uint64_t holder,
                            bool* granted) {
  lock::Mutex* mutex = nullptr;
  SKERRY_TRY(find_mutex(*this, broker_, segment, rank, index, &mutex));
  *granted = (mutex->word.load(std::memory_order_acquire) & ~lock::queued_bit) == holder;
  return {};
}

Status NodeDirectory::unlock(SegmentId segment, Rank rank, uint64_t index, Rank origin,
                             uint64_t holder, server::LockOutcome* outcome) {
  lock::Mutex* mutex = nullptr;
  SKERRY_TRY(find_mutex(*this, broker_, segment, rank, index, &mutex));
  lock::WaiterPool pool = waiter_pool(control_);
  lock::Waiter next;
  *outcome = server::LockOutcome::granted;
  switch (lock::unlock(*mutex, holder, pool, &next, MutexGuard(control_, member_index_, false))) {
    case lock::UnlockAnswer::released: return {};
    case lock::UnlockAnswer::handed_over:
      if (!grant_local(control_, *map_, node_, next))
        server_->grant(lock::rank_of(next.holder), static_cast<uint32_t>(next.reply[0]),
                       static_cast<uint32_t>(next.reply[1]));
      if (pool.starving().load(std::memory_order_seq_cst) != 0)
        futex_wake(&pool.freed(), INT32_MAX, Sharing::node);
      return {};
    case lock::UnlockAnswer::not_holder:
      return error(Code::invalid, "rank ", origin, " unlocks mutex ", index, " of rank ", rank,
                   ", which it does not hold");
    case lock::UnlockAnswer::contended:
    case lock::UnlockAnswer::guard_failed: *outcome = server::LockOutcome::busy; return {};
  }
  return error(Code::internal, "an unlock request had no answer");
}

}  // namespace skerry::job
