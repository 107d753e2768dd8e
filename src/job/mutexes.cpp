#include "job/mutexes.hpp"

#include <unistd.h>

#include "core/owner_lock.hpp"
#include "job/job.hpp"
#include "memory/slots.hpp"

namespace skerry::job {

bool MutexGuard::acquire(OwnerWord& word) const {
  const OwnerWatch watch = control_.watch();
  return (wait_ ? lock_word(word, member_index_, watch, Sharing::node)
                : try_lock_word(word, member_index_, watch)) == LockResult::locked;
}

void MutexGuard::release(OwnerWord& word) const { unlock_word(word, Sharing::node); }

bool grant_local(const memory::Control& control, const placement::NodeMap& map, NodeId node,
                 const lock::Waiter& next) {
  const Rank rank = lock::rank_of(next.holder);
  if (map.node_of(rank) != node) return false;
  const uint32_t slot = static_cast<uint32_t>(next.reply[0]) - 1;
  if (slot >= control.layout().slots_per_member)
    return true;  // came over the wire from who does not keep to it: nobody to tell
  const uint32_t member = static_cast<uint32_t>(map.index_in_node(rank));
  memory::fill_slot(control.slot(member * control.layout().slots_per_member + slot),
                    static_cast<uint32_t>(next.reply[1]), 0, 0);
  return true;
}

lock::WaiterPool waiter_pool(const memory::Control& control) {
  const uint64_t bytes = control.layout().waiters * memory::waiter_record_bytes;
  return lock::WaiterPool(control.waiters(),
                          static_cast<uint32_t>(bytes / lock::waiter_record_bytes) - 1);
}

namespace {

// At thread level multiple a mutex belongs to the thread that locked it; below, to the rank,
// whichever of its threads comes.
lock::Holder holder_of(const Job& job) {
  if (job.options().thread_level != ThreadLevel::multiple) return lock::make_holder(job.rank(), 1);
  static thread_local const uint32_t thread = static_cast<uint32_t>(gettid());
  return lock::make_holder(job.rank(), thread);
}

}  // namespace

Status Mutexes::create(Group& group, uint32_t count, Mutexes** mutexes) {
  auto made = std::make_unique<Mutexes>();
  made->job_ = &group.job();
  SKERRY_TRY(Segment::alloc(group, uint64_t{count} * sizeof(lock::Mutex), &made->segment_));
  made->segment_->set_purpose(purpose_mutexes);
  SKERRY_TRY(
      group.barrier());  // servers look at the purpose: it must be there before the first lock
  *mutexes = group.job().keep(std::move(made), &group.job().mutexes_);
  return {};
}

Status Mutexes::free() { return segment_->free(); }

Status Mutexes::find(Rank rank, uint32_t index, lock::Mutex** mutex) const {
  // On this node and plain: the whole check is here. Whatever is wrong is found, and said, below.
  if (const memory::Region* region = segment_->local(rank);
      region != nullptr && !segment_->is_freed() && index < region->bytes / sizeof(lock::Mutex))
      [[likely]] {
    *mutex = reinterpret_cast<lock::Mutex*>(region->base) + index;
    return {};
  }
  SKERRY_TRY(segment_->check(rank, 0, 0));
  const uint64_t count = segment_->bytes_of(rank) / sizeof(lock::Mutex);
  if (index >= count)
    return error(Code::range, "mutex ", index, " of rank ", rank, ", which hosts ", count);
  const memory::Region* region = segment_->local(rank);
  *mutex = region == nullptr ? nullptr : reinterpret_cast<lock::Mutex*>(region->base) + index;
  return {};
}

Status Mutexes::lock(Rank rank, uint32_t index) {
  const lock::Holder holder = holder_of(*job_);
  lock::Mutex* mutex = here(rank, index);
  if (mutex == nullptr) SKERRY_TRY(find(rank, index, &mutex));
  if (mutex == nullptr) return job_->engine().lock({rank, segment_->id()}, index, holder);
  lock::LockAnswer answer = lock::try_lock(*mutex, holder);
  if (answer == lock::LockAnswer::granted) [[likely]]
    return {};
  if (answer == lock::LockAnswer::recursive)
    return error(Code::invalid, "rank ", job_->rank(), " locks mutex ", index, " of rank ", rank,
                 " again, which it holds");

  // Contended: queue up with a completion slot, then sleep on it until somebody hands the mutex
  // over.
  const memory::Control& control = job_->control();
  SKERRY_TRY(job_->engine().push_out());
  uint32_t slot = 0;
  SKERRY_TRY(job_->engine().borrow_slot(&slot));
  memory::CompletionSlot& mine = control.slot(
      job_->member_index() * control.layout().slots_per_member + slot);
  const uint32_t tag = memory::arm_slot(mine);
  lock::WaiterPool pool = waiter_pool(control);
  const lock::Waiter waiter{
      holder, {static_cast<uint64_t>(static_cast<uint32_t>(job_->rank())) << 32 | (slot + 1), tag}};
  Status status;
  for (bool waiting = true; waiting;) {
    const uint32_t given_back = pool.freed().load(std::memory_order_acquire);
    answer = lock::lock_request(*mutex, waiter, pool,
                                MutexGuard(control, job_->member_index(), true));
    waiting = false;
    switch (answer) {
      case lock::LockAnswer::granted: break;
      case lock::LockAnswer::recursive:
        status = error(Code::invalid, "rank ", job_->rank(), " locks mutex ", index, " of rank ",
                       rank, " again, which it holds");
        break;
      case lock::LockAnswer::queued: {
        const uint32_t done = memory::CompletionSlot::make_word(tag, memory::SlotState::done);
        const auto asleep = [&](int64_t until_ns) {
          return wait_until(
              &mine.word, [&](uint32_t word) { return word == done; }, until_ns,
              control.abort_flag(), Sharing::node);
        };
        if (job_->wait_working(no_deadline, asleep) == WaitResult::aborted)
          status = job_->check_abort();
        break;
      }
      case lock::LockAnswer::no_record:
        pool.starving().fetch_add(1, std::memory_order_seq_cst);
        if (pool.freed().load(std::memory_order_seq_cst) == given_back) {
          const auto asleep = [&](int64_t until_ns) {
            return wait_until(
                &pool.freed(), [&](uint32_t freed) { return freed != given_back; }, until_ns,
                control.abort_flag(), Sharing::node);
          };
          (void)job_->wait_working(deadline_after(wait_slice_ns), asleep);
        }
        pool.starving().fetch_sub(1, std::memory_order_relaxed);
        status = job_->check_abort();
        waiting = status.ok();
        break;
      case lock::LockAnswer::contended:
      case lock::LockAnswer::guard_failed:
        status = job_->check_abort();
        if (status.ok())
          status = error(Code::peer_dead, "mutex ", index, " of rank ", rank,
                         ": a rank died while changing its queue");
        break;
    }
  }
  memory::free_slot(mine);
  job_->engine().return_slot(slot);
  return status;
}

Status Mutexes::unlock(Rank rank, uint32_t index) {
  const lock::Holder holder = holder_of(*job_);
  lock::Mutex* mutex = here(rank, index);
  if (mutex == nullptr) SKERRY_TRY(find(rank, index, &mutex));
  if (mutex == nullptr) return job_->engine().unlock({rank, segment_->id()}, index, holder);
  // Whoever gets the mutex next must see what we did to this node's memory; our stores are visible
  // already, and nothing of ours to our own node is ever under way.
  switch (lock::try_unlock(*mutex, holder)) {
    case lock::UnlockAnswer::released: return {};
    case lock::UnlockAnswer::not_holder:
      return error(Code::invalid, "rank ", job_->rank(), " unlocks mutex ", index, " of rank ",
                   rank, ", which it does not hold");
    case lock::UnlockAnswer::contended:
    case lock::UnlockAnswer::handed_over:
    case lock::UnlockAnswer::guard_failed: break;
  }
  const memory::Control& control = job_->control();
  const MutexGuard guard(control, job_->member_index(), true);
  lock::WaiterPool pool = waiter_pool(control);
  if (!guard.acquire(mutex->guard)) {
    SKERRY_TRY(job_->check_abort());
    return error(Code::peer_dead, "mutex ", index, " of rank ", rank,
                 ": a rank died while changing its queue");
  }
  // A waiter on another node can be told by our data server only: it does the hand-over then.
  const Rank next_rank = mutex->first == 0 ? no_rank
                                           : lock::rank_of(pool.at(mutex->first).waiter.holder);
  const bool next_is_local = next_rank != no_rank && job_->map().node_of(next_rank) == job_->node();
  lock::Waiter next;
  lock::UnlockAnswer answer = lock::UnlockAnswer::contended;
  if (next_is_local) answer = lock::unlock_guarded(*mutex, holder, pool, &next);
  guard.release(mutex->guard);
  if (answer == lock::UnlockAnswer::handed_over) {
    (void)grant_local(control, job_->map(), job_->node(), next);
    if (pool.starving().load(std::memory_order_seq_cst) != 0)
      futex_wake(&pool.freed(), INT32_MAX, Sharing::node);
    return {};
  }
  SKERRY_TRY(job_->engine().unlock({rank, segment_->id()}, index, holder));
  // Our next lock of it goes straight to the word: the server must have given it away by then.
  return job_->engine().fence({job_->node(), 0});
}

}  // namespace skerry::job
