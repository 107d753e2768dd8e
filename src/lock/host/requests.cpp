// What a lock request of another node goes through at this server. Who gets a lock is decided in
// src/lock (mutex.cpp).
#include "lock/host/requests.hpp"

#include <algorithm>
#include <utility>

#include "core/futex.hpp"
#include "core/owner_lock.hpp"
#include "core/pure/assert.hpp"
#include "core/pure/rule.hpp"
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

namespace {

Status broken(bool damaged, Rank rank, uint64_t index) {
  if (damaged)
    return error(Code::internal, "mutex ", index, " of rank ", rank,
                 " is damaged: the program wrote over memory that is not its own");
  return error(Code::peer_dead, "mutex ", index, " of rank ", rank,
               ": a rank died while changing its queue");
}

}  // namespace

Status refusal(LockAnswer answer, Holder by, Rank rank, uint64_t index) {
  if (answer != LockAnswer::recursive) return broken(answer == LockAnswer::damaged, rank, index);
  return error(Code::invalid, "rank ", rank_of(by), " locks mutex ", index, " of rank ", rank,
               " again, which it holds");
}

Status refusal(UnlockAnswer answer, Holder by, Rank rank, uint64_t index) {
  if (answer != UnlockAnswer::not_holder)
    return broken(answer == UnlockAnswer::damaged, rank, index);
  return error(Code::invalid, "rank ", rank_of(by), " unlocks mutex ", index, " of rank ", rank,
               ", which it does not hold");
}

// ---- the caller -------------------------------------------------------------------------------

bool LockCaller::acquire(OwnerWord& guard) {
  OwnerWatch watch = control_.watch();
  watch.takes_over = takes_over_;
  for (;;) {
    const LockResult result = sleeps_ ? lock_word(guard, member_index_, watch)
                                      : try_lock_word(guard, member_index_, watch);
    if (result != LockResult::owner_dead || !sleeps_ || !control_.goes_on())
      return result == LockResult::locked;
    // The node's data server is about to take over the guard, and puts the queue right.
    constexpr int64_t moment_ns = 100'000;
    const uint32_t value = guard.value.load(std::memory_order_relaxed);
    if (value != 0) (void)futex_wait(&guard.value, value, moment_ns);
  }
}

void LockCaller::release(OwnerWord& guard) { unlock_word(guard); }

bool LockCaller::reaches(const Waiter& waiter) const {
  return outlet_ != nullptr || is_of_this_node(waiter);
}

void LockCaller::tell(const Waiter& waiter) {
  if (!is_of_this_node(waiter)) {
    SKERRY_ASSERT(outlet_ != nullptr, "the queue asked whether this waiter is in reach");
    outlet_->grant(waiter);
    return;
  }
  const uint32_t slots = control_.layout().slots_per_member;
  const uint32_t slot = slot_of(waiter) - 1;
  if (slot >= slots) return;  // a peer broke the protocol: no slot to fill
  const uint32_t member = static_cast<uint32_t>(map_.index_in_node(rank_of(waiter.holder)));
  memory::fill_slot(control_.slot(member * slots + slot), tag_of(waiter), 0, 0);
}

void LockCaller::record_freed() {
  if (pool.starving().load(std::memory_order_seq_cst) != 0) futex_wake(&pool.freed(), INT32_MAX);
}

// ---- requests of other nodes ------------------------------------------------------------------

namespace {

bool any_for_lock_of(const Asked& request, const std::vector<Asked>& among) {
  return std::ranges::any_of(among, [&](const Asked& r) { return r.is_for_lock_of(request); });
}

}  // namespace

void LockRequests::open(const memory::Control& control, uint32_t member_index,
                        const placement::NodeMap& map, NodeId node) {
  control_ = control;
  caller_.emplace(control_, member_index, map, node, &outlet_);
}

LockCaller& LockRequests::caller() {
  SKERRY_ASSERT(caller_.has_value(), "a lock request came before the node's memory was there");
  return *caller_;
}

// Nobody overtakes those that are kept `before` it for the same lock, but one that may join
// sharers: those kept may wait for what it holds.
Status LockRequests::attempt(const Asked& request, const std::vector<Asked>& before, bool* granted,
                             bool* again) {
  *granted = false;
  // Owed: its last use of the lock is over, and not released yet.
  *again = (!joins(request.waiter.holder) && any_for_lock_of(request, before)) || is_owed(request);
  if (*again) return {};
  Mutex* mutex = nullptr;
  SKERRY_TRY(memory_.find_lock(request.segment, request.rank, request.index, &mutex));
  const LockAnswer answer = lock::request(*mutex, request.waiter, caller());
  switch (answer) {
    case LockAnswer::granted: *granted = true; return {};
    case LockAnswer::queued: return {};
    case LockAnswer::no_record:
    case LockAnswer::no_guard: *again = true; return {};
    case LockAnswer::contended:
    case LockAnswer::recursive:
    case LockAnswer::damaged: break;
  }
  return refusal(answer, request.waiter.holder, request.rank, request.index);
}

// The same requester's, to share or not.
bool LockRequests::is_owed(const Asked& request) const {
  return std::ranges::any_of(owed_, [&](const Asked& r) {
    return r.is_for_lock_of(request) && same_requester(r.waiter.holder, request.waiter.holder);
  });
}

Status LockRequests::try_request(const Asked& request, bool* granted) {
  *granted = false;
  Mutex* mutex = nullptr;
  SKERRY_TRY(memory_.find_lock(request.segment, request.rank, request.index, &mutex));
  if (any_for_lock_of(request, kept_) || is_owed(request)) return {};
  const LockAnswer answer = try_lock(*mutex, request.waiter.holder);
  *granted = answer == LockAnswer::granted;
  if (answer != LockAnswer::recursive) return {};
  return refusal(answer, request.waiter.holder, request.rank, request.index);
}

void LockRequests::release_soon(const Asked& held) {
  bool busy = false;
  // An error: the segment was freed meanwhile, and the lock with it.
  (void)release(held, &busy);
  if (busy) owed_.push_back(held);
}

Status LockRequests::request(const Asked& request, bool* granted) {
  // An earlier use of the same slot is over, or its rank would not have asked again.
  std::erase_if(kept_,
                [&](const Asked& r) { return r.waiter.reply[0] == request.waiter.reply[0]; });
  bool again = false;
  SKERRY_TRY(attempt(request, kept_, granted, &again));
  if (again) kept_.push_back(request);
  return {};
}

void LockRequests::forget(Rank dead) {
  const auto is_its = [&](const Asked& r) { return rank_of(r.waiter.holder) == dead; };
  std::erase_if(kept_, is_its);
  std::erase_if(owed_, is_its);
}

void LockRequests::bury(Mutex& mutex, IsDead is_dead, const void* context) {
  LockCaller us = caller();
  us.be_patient();
  if (SKERRY_RULE(take_over_guards)) us.take_over();
  (void)lock::bury(mutex, us, is_dead, context);
}

Status LockRequests::take_death(const Asked& held, Rank* died) {
  Mutex* mutex = nullptr;
  SKERRY_TRY(memory_.find_lock(held.segment, held.rank, held.index, &mutex));
  if ((mutex->word.load(std::memory_order_acquire) & ~open_word) != held.waiter.holder)
    return refusal(UnlockAnswer::not_holder, held.waiter.holder, held.rank, held.index);
  *died = lock::take_death(*mutex);
  return {};
}

void LockRequests::retry() {
  for (const Asked& held : std::exchange(owed_, {})) release_soon(held);
  std::vector<Asked> still;
  for (size_t i = 0; i < kept_.size(); ++i) {
    bool granted = false, again = false;
    const Status status = attempt(kept_[i], still, &granted, &again);
    if (granted) outlet_.grant(kept_[i].waiter);
    if (!status.ok()) outlet_.refuse(kept_[i], status);
    if (again) still.push_back(kept_[i]);
  }
  kept_ = std::move(still);
}

Status LockRequests::release(const Asked& held, bool* busy) {
  *busy = false;
  Mutex* mutex = nullptr;
  SKERRY_TRY(memory_.find_lock(held.segment, held.rank, held.index, &mutex));
  const UnlockAnswer answer = lock::release(*mutex, held.waiter.holder, caller());
  SKERRY_ASSERT(answer != UnlockAnswer::out_of_reach, "a data server reaches everybody");
  *busy = answer == UnlockAnswer::no_guard;
  if (answer == UnlockAnswer::released || *busy) return {};
  return refusal(answer, held.waiter.holder, held.rank, held.index);
}

Status LockRequests::holds(const Asked& request, bool* granted) {
  Mutex* mutex = nullptr;
  SKERRY_TRY(memory_.find_lock(request.segment, request.rank, request.index, &mutex));
  *granted = std::ranges::none_of(kept_, [&](const Asked& r) {
    return r.is_for_lock_of(request) && r.waiter.holder == request.waiter.holder;
  });
  if (!*granted) return {};
  // It sleeps for the guard, which is held for a few dozen instructions: only after a break, and
  // the origin could not be told to ask again.
  LockCaller us = caller();
  us.be_patient();
  const LockAnswer answer = lock::holds(*mutex, request.waiter.holder, us);
  *granted = answer == LockAnswer::granted;
  return answer == LockAnswer::no_guard
             ? refusal(answer, request.waiter.holder, request.rank, request.index)
             : Status();
}

}  // namespace skerry::lock
