#include "job/mutexes.hpp"

#include <unistd.h>

#include "job/job.hpp"
#include "lock/host/wait.hpp"

namespace skerry::job {

namespace {

// At thread level multiple a mutex belongs to the thread that locked it; below, to the rank,
// whichever of its threads comes.
lock::Holder holder_of(const Job& job) {
  if (job.options().thread_level != ThreadLevel::multiple) return lock::make_holder(job.rank(), 1);
  static thread_local const uint32_t thread = static_cast<uint32_t>(gettid());
  return lock::make_holder(job.rank(), thread);
}

lock::LockCaller caller_of(const Job& job) {
  return {job.control(), job.member_index(), job.map(), job.node()};
}

// What the answer of a lock of this node means to the caller: the job may be ending.
template <class Answer>
Status refusal(const Job& job, Answer answer, lock::Holder holder, Rank rank, uint32_t index) {
  if (answer == Answer::no_guard) SKERRY_TRY(job.check_abort());
  return lock::refusal(answer, holder, rank, index);
}

}  // namespace

Status Mutexes::create(Group& group, uint32_t count, Mutexes** mutexes) {
  auto made = std::make_unique<Mutexes>();
  made->job_ = &group.job();
  made->readers_ = lock::reader_lines(made->job_->control());
  made->member_ = made->job_->member_index();
  SKERRY_TRY(Segment::alloc(group, uint64_t{count} * sizeof(lock::Mutex), purpose_mutexes,
                            &made->segment_));
  *mutexes = group.job().objects().keep(std::move(made));
  return {};
}

Status Mutexes::free() { return segment_->free(); }

Status Mutexes::find(Rank rank, uint32_t index, lock::Mutex** mutex) const {
  SKERRY_TRY(segment_->check(rank, 0, 0));
  const uint64_t count = segment_->bytes_of(rank) / sizeof(lock::Mutex);
  if (index >= count)
    return error(Code::range, "mutex ", index, " of rank ", rank, ", which hosts ", count);
  const memory::Region* region = segment_->local(rank);
  *mutex = region == nullptr ? nullptr : reinterpret_cast<lock::Mutex*>(region->base) + index;
  return {};
}

bool Mutexes::lock_here(Rank rank, uint32_t index) {
  lock::Mutex* const mutex = local(rank, index);
  if (mutex == nullptr || job_->asked_lock_ != nullptr || job_->spans().is_on()) return false;
  const lock::Holder holder = holder_of(*job_);
  return lock::lock_if_free(*mutex, holder) == 0 ||
         lock::try_lock(*mutex, holder) == lock::LockAnswer::granted;
}

bool Mutexes::unlock_here(Rank rank, uint32_t index) {
  lock::Mutex* const mutex = local(rank, index);
  if (mutex == nullptr) return false;
  const lock::Holder holder = holder_of(*job_);
  return lock::unlock_unasked(*mutex, holder) == holder ||
         lock::try_unlock(*mutex, holder) == lock::UnlockAnswer::released;
}

Status Mutexes::lock(Rank rank, uint32_t index) {
  SKERRY_TRY(job_->take_asked_lock());
  const lock::Holder holder = holder_of(*job_);
  if (!job_->options().goes_on) return lock_as(rank, index, holder);
  uint64_t asks = 1;
  SKERRY_TRY(lock_as(rank, index, holder, &asks));
  return asks != 0 ? tell_death(rank, index, holder) : Status();
}

// The caller holds the mutex. Did the one before it die with it?
Status Mutexes::tell_death(Rank rank, uint32_t index, lock::Holder holder) {
  Rank died = no_rank;
  lock::Mutex* mutex = nullptr;
  SKERRY_TRY(find(rank, index, &mutex));
  if (mutex != nullptr) {
    died = lock::take_death(*mutex);
  } else {
    uint64_t answer = 0;
    SKERRY_TRY(job_->engine().read_modify_write({rank, segment_->id()}, index,
                                                wire::Rmw::take_death, holder, 0, &answer));
    died = static_cast<Rank>(answer) - 1;
  }
  if (died == no_rank) return {};
  return error(Code::owner_died, "mutex ", index, " of rank ", rank,
               " is the caller's now; rank ", died,
               " died while it held it: what it guards may be half changed");
}

Status Mutexes::unlock(Rank rank, uint32_t index) {
  return unlock_as(rank, index, holder_of(*job_));
}

Status Mutexes::lock_as(Rank rank, uint32_t index, lock::Holder holder, uint64_t* asks) {
  const memory::CallSpan call(&job_->spans(), memory::SpanKind::lock, rank, 0);
  lock::Mutex* mutex = local(rank, index);
  if (mutex == nullptr) SKERRY_TRY(find(rank, index, &mutex));
  if (mutex == nullptr)
    return job_->engine().lock({rank, segment_->id()}, index, holder, asks);
  const lock::LockAnswer quick = lock::try_lock(*mutex, holder);
  if (quick == lock::LockAnswer::granted) return {};
  if (quick == lock::LockAnswer::recursive) return refusal(*job_, quick, holder, rank, index);
  // Contended: queue up with a completion slot, then sleep on it until somebody hands the mutex
  // over.
  const memory::Control& control = job_->control();
  SKERRY_TRY(job_->engine().push_out());
  uint32_t slot = 0;
  SKERRY_TRY(job_->engine().borrow_slot(&slot));
  memory::CompletionSlot& mine = control.slot(
      job_->member_index() * control.layout().slots_per_member + slot);
  lock::LockCaller caller = caller_of(*job_);
  SKERRY_INVARIANT(slot < control.layout().slots_per_member, "a borrowed slot is this member's");
  memory::NoteWait note(&control.member(job_->member_index()).waits);
  const memory::LockName name{segment_->id(), rank, index};
  const int64_t began_ns = monotonic_ns();
  const memory::WaitSpan span(&job_->spans(), [&] { return memory::text_of(name); }, name);
  const lock::LockAnswer answer = lock::wait_for_lock(
      *mutex, holder, slot, mine, caller, [&](int64_t until_ns, auto&& wait) {
        return job_->wait_working(until_ns, [&](int64_t slice_ns) {
          return memory::wait_and_tell(note, began_ns, slice_ns, wait,
                                       [&] { note.tell(began_ns, name); });
        });
      });
  memory::free_slot(mine);
  job_->engine().return_slot(slot);
  if (answer == lock::LockAnswer::granted) return {};
  return refusal(*job_, answer, holder, rank, index);
}

Status Mutexes::unlock_as(Rank rank, uint32_t index, lock::Holder holder) {
  lock::Mutex* mutex = local(rank, index);
  if (mutex == nullptr) SKERRY_TRY(find(rank, index, &mutex));
  if (mutex == nullptr) return job_->engine().unlock({rank, segment_->id()}, index, holder);
  // The next holder must see what we did to this node's memory. Our stores are visible already,
  // and no operation of ours on our own node is ever outstanding.
  if (lock::try_unlock(*mutex, holder) == lock::UnlockAnswer::released) [[likely]]
    return {};
  lock::LockCaller caller = caller_of(*job_);
  const lock::UnlockAnswer answer = lock::release(*mutex, holder, caller);
  if (answer == lock::UnlockAnswer::released) return {};
  if (answer != lock::UnlockAnswer::out_of_reach)
    return refusal(*job_, answer, holder, rank, index);
  // The next waiter is on another node: our data server tells it, and hands over in our name.
  SKERRY_TRY(job_->engine().unlock({rank, segment_->id()}, index, holder));
  // Our next lock of it goes straight to the word: the server must have given it away by then.
  return job_->engine().fence_node(job_->node());
}

}  // namespace skerry::job
