// What a lock request of another node goes through at this server. Who gets a lock is decided in
// src/lock (fair_queue.cpp).
#include "lock/host/locks.hpp"

#include <algorithm>
#include <utility>

#include "core/futex.hpp"
#include "core/owner_lock.hpp"
#include "core/pure/assert.hpp"
#include "memory/slots.hpp"

namespace skerry::lock {

static_assert(memory::waiter_record_bytes == waiter_record_bytes);
static_assert(memory::reader_line_bytes == reader_line_bytes);

ReaderLines reader_lines(const memory::Control& control) {
  return {reinterpret_cast<ReaderLine*>(control.reader_lines()), control.layout().members};
}

WaiterPool waiter_pool(const memory::Control& control) {
  return WaiterPool(control.waiters(), control.layout().waiters - 1, reader_lines(control));
}

Status damaged_lock(Rank rank, uint64_t index) {
  return error(Code::internal, "mutex ", index, " of rank ", rank,
               " is damaged: the program wrote over memory that is not its own");
}

// ---- the caller -------------------------------------------------------------------------------

bool LockCaller::acquire(OwnerWord& guard) {
  const OwnerWatch watch = control_.watch();
  return (patience_ == Patience::sleeps
              ? lock_word(guard, member_index_, watch)
              : try_lock_word(guard, member_index_, watch)) == LockResult::locked;
}

void LockCaller::release(OwnerWord& guard) { unlock_word(guard); }

bool LockCaller::reaches(const Waiter& waiter) const {
  return tell_others_ != nullptr || map_.node_of(rank_of(waiter.holder)) == node_;
}

void LockCaller::tell(const Waiter& waiter) {
  const Rank rank = rank_of(waiter.holder);
  if (map_.node_of(rank) != node_) {
    SKERRY_ASSERT(tell_others_ != nullptr, "the protocol asked whether this waiter is in reach");
    (*tell_others_)(waiter);
    return;
  }
  const uint32_t slots = control_.layout().slots_per_member;
  const uint32_t slot = slot_of(waiter) - 1;
  if (slot >= slots) return;  // a peer broke the protocol: no slot to fill
  const uint32_t member = static_cast<uint32_t>(map_.index_in_node(rank));
  memory::fill_slot(control_.slot(member * slots + slot), tag_of(waiter), 0, 0);
}

// Ranks of this node wait by wait_for_lock, which looks for itself.
bool LockCaller::invites(const Waiter& waiter) const {
  return map_.node_of(rank_of(waiter.holder)) == node_;
}

void LockCaller::record_freed() {
  WaiterPool pool = waiter_pool(control_);
  if (pool.starving().load(std::memory_order_seq_cst) != 0) futex_wake(&pool.freed(), INT32_MAX);
}

// ---- requests of other nodes ------------------------------------------------------------------

Locks::Locks(LockMemory& memory, Outlet& outlet)
    : memory_(memory),
      tell_others_([&outlet](const Waiter& waiter) { outlet.grant(waiter); }),
      outlet_(outlet) {}

void Locks::open(const memory::Control& control, uint32_t member_index,
                 const placement::NodeMap& map, NodeId node) {
  control_ = control;
  member_index_ = member_index;
  map_ = &map;
  node_ = node;
}

LockCaller Locks::caller() const {
  SKERRY_ASSERT(map_ != nullptr, "a lock request came before the node's memory was there");
  return {control_, member_index_, *map_, node_, LockCaller::Patience::tries_once, &tell_others_};
}

Locks::Answer Locks::attempt(const Asked& request, bool* again, Status* failure) {
  // Its last use of the lock is over, and not released yet.
  *again = is_owed(request);
  if (*again) return Answer::waits;
  Mutex* mutex = nullptr;
  if (*failure = memory_.find_lock(request.segment, request.rank, request.index, &mutex);
      !failure->ok())
    return Answer::refused;
  WaiterPool pool = waiter_pool(control_);
  LockCaller us = caller();
  switch (fair_queue().request(*mutex, request.waiter, pool, us)) {
    case Request::granted: return Answer::granted;
    case Request::queued: return Answer::waits;
    case Request::no_record:
    case Request::no_guard: *again = true; return Answer::waits;
    case Request::damaged:
      *failure = damaged_lock(request.rank, request.index);
      return Answer::refused;
    case Request::recursive: break;
  }
  *failure = error(Code::invalid, "rank ", rank_of(request.waiter.holder), " locks mutex ",
                   request.index, " of rank ", request.rank, " again, which it holds");
  return Answer::refused;
}

// The same requester's, to share or not.
bool Locks::is_owed(const Asked& request) const {
  return std::any_of(owed_.begin(), owed_.end(), [&](const Asked& r) {
    return same_lock(r, request) && same_requester(r.waiter.holder, request.waiter.holder);
  });
}

Locks::Answer Locks::try_request(SegmentId segment, Rank rank, uint64_t index, Holder holder,
                                 Status* failure) {
  const Asked asked{segment, rank, index, {holder, {}}, 0};
  const bool others_first = std::any_of(kept_.begin(), kept_.end(),
                                        [&](const Asked& r) { return same_lock(r, asked); });
  Mutex* mutex = nullptr;
  if (*failure = memory_.find_lock(segment, rank, index, &mutex); !failure->ok())
    return Answer::refused;
  if (others_first || is_owed(asked)) return Answer::waits;
  switch (try_lock(*mutex, holder)) {
    case LockAnswer::granted: return Answer::granted;
    case LockAnswer::contended: return Answer::waits;
    case LockAnswer::recursive:
    case LockAnswer::queued:
    case LockAnswer::no_record:
    case LockAnswer::guard_failed:
    case LockAnswer::damaged: break;
  }
  *failure = error(Code::invalid, "rank ", rank_of(holder), " locks mutex ", index, " of rank ",
                   rank, " again, which it holds");
  return Answer::refused;
}

void Locks::release_soon(SegmentId segment, Rank rank, uint64_t index, Holder holder) {
  bool busy = false;
  // An error: the segment was freed meanwhile, and the lock with it.
  (void)release(segment, rank, index, holder, &busy);
  if (busy) owed_.push_back({segment, rank, index, {holder, {}}, 0});
}

Locks::Answer Locks::request(const Asked& request, Status* failure) {
  // An earlier use of the same slot is over, or its rank would not have asked again.
  std::erase_if(kept_,
                [&](const Asked& r) { return r.waiter.reply[0] == request.waiter.reply[0]; });
  // Nobody overtakes those that are kept for the same lock, but one that may join sharers: those
  // kept may wait for what it holds.
  bool again = !joins(request.waiter.holder) &&
               std::any_of(kept_.begin(), kept_.end(),
                           [&](const Asked& r) { return same_lock(r, request); });
  const Answer answer = again ? Answer::waits : attempt(request, &again, failure);
  if (again) kept_.push_back(request);
  return answer;
}

void Locks::retry() {
  for (const Asked& request : std::exchange(owed_, {}))
    release_soon(request.segment, request.rank, request.index, request.waiter.holder);
  std::vector<Asked> still;
  for (size_t i = 0; i < kept_.size(); ++i) {
    const Asked& request = kept_[i];
    bool again = !joins(request.waiter.holder) &&
                 std::any_of(still.begin(), still.end(),
                             [&](const Asked& r) { return same_lock(r, request); });
    if (!again) {
      Status failure;
      const Answer answer = attempt(request, &again, &failure);
      if (answer == Answer::granted) outlet_.grant(request.waiter);
      if (answer == Answer::refused) outlet_.refuse(request, failure);
    }
    if (again) still.push_back(request);
  }
  kept_ = std::move(still);
}

Status Locks::release(SegmentId segment, Rank rank, uint64_t index, Holder holder, bool* busy) {
  *busy = false;
  Mutex* mutex = nullptr;
  SKERRY_TRY(memory_.find_lock(segment, rank, index, &mutex));
  WaiterPool pool = waiter_pool(control_);
  LockCaller us = caller();
  switch (fair_queue().release(*mutex, holder, pool, us)) {
    case Release::released: return {};
    case Release::no_guard: *busy = true; return {};
    case Release::damaged: return damaged_lock(rank, index);
    case Release::not_holder: break;
    case Release::out_of_reach: SKERRY_ASSERT(false, "a data server reaches everybody");
  }
  return error(Code::invalid, "rank ", rank_of(holder), " unlocks mutex ", index, " of rank ", rank,
               ", which it does not hold");
}

Status Locks::holds(SegmentId segment, Rank rank, uint64_t index, Holder holder, bool* granted) {
  Mutex* mutex = nullptr;
  SKERRY_TRY(memory_.find_lock(segment, rank, index, &mutex));
  const Asked asked{segment, rank, index, {holder, {}}, 0};
  *granted = std::none_of(kept_.begin(), kept_.end(), [&](const Asked& r) {
    return same_lock(r, asked) && r.waiter.holder == holder;
  });
  if (!*granted) return {};
  WaiterPool pool = waiter_pool(control_);
  // It sleeps for the guard, which is held for a few dozen instructions: only after a break, and
  // the origin could not be told to ask again.
  LockCaller us(control_, member_index_, *map_, node_, LockCaller::Patience::sleeps, &tell_others_);
  const Holds answer = fair_queue().holds(*mutex, holder, pool, us);
  if (answer == Holds::no_guard)
    return error(Code::peer_dead, "mutex ", index, " of rank ", rank,
                 ": a rank died while changing its queue");
  *granted = answer == Holds::yes;
  return {};
}

}  // namespace skerry::lock
