#include "job/mutexes.hpp"

#include <unistd.h>

#include "job/job.hpp"
#include "memory/slots.hpp"
#include "server/locks.hpp"

namespace skerry::job {

namespace {

// At thread level multiple a mutex belongs to the thread that locked it; below, to the rank,
// whichever of its threads comes.
lock::Holder holder_of(const Job& job) {
  if (job.options().thread_level != ThreadLevel::multiple) return lock::make_holder(job.rank(), 1);
  static thread_local const uint32_t thread = static_cast<uint32_t>(gettid());
  return lock::make_holder(job.rank(), thread);
}

// A rank asks for itself: it may sleep, and tells ranks of its own node only.
server::LockCaller caller_of(const Job& job) {
  return {job.control(),
          job.member_index(),
          job.map(),
          job.node(),
          server::LockCaller::Patience::sleeps,
          nullptr};
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
  const lock::LockAnswer quick = lock::try_lock(*mutex, holder);
  if (quick == lock::LockAnswer::granted) [[likely]]
    return {};
  if (quick == lock::LockAnswer::recursive)
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
  lock::WaiterPool pool = server::waiter_pool(control);
  server::LockCaller caller = caller_of(*job_);
  const lock::Waiter waiter = lock::make_waiter(holder, job_->rank(), slot + 1, tag);
  Status status;
  for (bool waiting = true; waiting;) {
    const uint32_t given_back = pool.freed().load(std::memory_order_acquire);
    const lock::Request answer = lock::fair_queue().request(*mutex, waiter, pool, caller);
    waiting = false;
    switch (answer) {
      case lock::Request::granted: break;
      case lock::Request::recursive:
        status = error(Code::invalid, "rank ", job_->rank(), " locks mutex ", index, " of rank ",
                       rank, " again, which it holds");
        break;
      case lock::Request::queued: {
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
      case lock::Request::no_record:
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
      case lock::Request::no_guard:
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
  // The next holder must see what we did to this node's memory. Our stores are visible already,
  // and no operation of ours on our own node is ever outstanding.
  if (lock::try_unlock(*mutex, holder) == lock::UnlockAnswer::released) [[likely]]
    return {};
  lock::WaiterPool pool = server::waiter_pool(job_->control());
  server::LockCaller caller = caller_of(*job_);
  switch (lock::fair_queue().release(*mutex, holder, pool, caller)) {
    case lock::Release::released: return {};
    case lock::Release::not_holder:
      return error(Code::invalid, "rank ", job_->rank(), " unlocks mutex ", index, " of rank ",
                   rank, ", which it does not hold");
    case lock::Release::no_guard:
      SKERRY_TRY(job_->check_abort());
      return error(Code::peer_dead, "mutex ", index, " of rank ", rank,
                   ": a rank died while changing its queue");
    case lock::Release::out_of_reach: break;
  }
  // The next waiter is on another node: our data server tells it, and hands over in our name.
  SKERRY_TRY(job_->engine().unlock({rank, segment_->id()}, index, holder));
  // Our next lock of it goes straight to the word: the server must have given it away by then.
  return job_->engine().fence({job_->node(), 0});
}

}  // namespace skerry::job
