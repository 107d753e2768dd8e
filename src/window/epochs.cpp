#include "window/epochs.hpp"

#include <algorithm>
#include <utility>

namespace skerry::window {

std::string_view to_string(Epoch epoch) {
  switch (epoch) {
    case Epoch::none: return "no";
    case Epoch::fence: return "a fence";
    case Epoch::start: return "a start";
    case Epoch::lock: return "a lock";
    case Epoch::lock_all: return "a lock_all";
  }
  return "unknown";
}

// ---- checks -----------------------------------------------------------------------------------

Status Epochs::check_may_free() const {
  if (epoch_ != Epoch::none && epoch_ != Epoch::fence)
    return error(Code::invalid, "the window is freed inside ", to_string(epoch_),
                 " epoch: end it first");
  if (exposure_.is_open())
    return error(Code::invalid, "the window is freed between post and wait: wait first");
  return {};
}

Status Epochs::check_promises(uint32_t promises, uint32_t allowed, std::string_view call) const {
  if ((promises & ~allowed) == 0) return {};
  return error(Code::invalid, "promises ", promises, " of ", call, ": it takes a sum of ", allowed,
               "'s bits only");
}

Status Epochs::check_outside(std::string_view call) const {
  if (epoch_ == Epoch::none || epoch_ == Epoch::fence) return {};
  return error(Code::invalid, "rank ", job_.rank(), " calls ", call, " inside ", to_string(epoch_),
               " epoch of the same window: end that first");
}

Status Epochs::check_passive(std::string_view call) const {
  if (epoch_ == Epoch::lock_all || epoch_ == Epoch::lock) return {};
  return error(Code::invalid, "rank ", job_.rank(), " calls ", call, " in ", to_string(epoch_),
               " epoch: it needs lock or lock_all");
}

// ---- members ----------------------------------------------------------------------------------

Status Epochs::find_target(Rank rank, Target** found) {
  auto known = targets_.find(rank);
  if (known == targets_.end()) {
    SKERRY_TRY(context_.check_member(rank));
    known = targets_.try_emplace(rank).first;
    Target& target = known->second;
    target.rank = rank;
    target.node = job_.map().node_of(rank);
    memory_.describe(target);
    locks_.describe(target);
    SKERRY_INVARIANT(target.mutex == nullptr || target.machine == nullptr,
                     "a member's lock is a queue's or a machine's");
  }
  SKERRY_INVARIANT(known->second.rank == rank, "a record is found by its rank");
  *found = &known->second;
  if (context_.multiple) return {};
  recent_ = *found;
  quick_ = context_.check == nullptr && recent_->region != nullptr ? recent_ : nullptr;
  return {};
}

void Epochs::forget_targets() {
  SKERRY_INVARIANT(asked_ == nullptr && locked_ == 0, "no epoch of lock is open");
  recent_ = quick_ = nullptr;
  targets_.clear();
}

// Where several threads call: a thread takes or gives back this lock right now, outside `state`.
void Epochs::await_settled(const Target& target, StateLock& state) const {
  if (context_.multiple) settled_.wait(state, [&] { return target.hold != Hold::busy; });
}

void Epochs::settle(Target& target, Hold hold, StateLock& state) const {
  if (context_.multiple && !state.owns_lock()) state.lock();
  SKERRY_INVARIANT(!context_.multiple || target.hold == Hold::busy,
                   "who settles a hold was busy with it");
  target.hold = hold;
  if (context_.multiple) settled_.notify_all();
}

// Members that an epoch has reached: the map changes while others wait outside `state`.
std::vector<Target*> Epochs::targets_in_use(StateLock& state) {
  std::vector<Target*> found;
  for (auto& [rank, target] : targets_)
    if (target.hold != Hold::none) found.push_back(&target);
  for (Target* target : found) await_settled(*target, state);
  return found;
}

Status Epochs::locked_target(Rank rank, std::string_view call, StateLock& state, Target** found) {
  SKERRY_TRY(target(rank, found));
  await_settled(**found, state);
  if ((*found)->hold != Hold::none && (*found)->own_epoch) [[likely]]
    return {};
  return error(Code::invalid, "rank ", job_.rank(), " calls ", call, " for rank ", rank,
               ", which it has not locked");
}

Status Epochs::passive_target(Rank rank, std::string_view call, StateLock& state, Target** found) {
  SKERRY_TRY(target(rank, found));
  return epoch_ == Epoch::lock_all ? Status() : locked_target(rank, call, state, found);
}

// ---- a lock that is asked for -----------------------------------------------------------------
// A rank waits for locks in the order in which it asked for them. `asked_` is a lock that was asked
// for and not taken yet. The rank takes it before it waits for a lock of any other window, and
// before it locks a mutex.

Status Epochs::take_asked() {
  SKERRY_INVARIANT(asked_ != nullptr && asked_->hold == Hold::wanted && !context_.multiple,
                   "what the job knows to be asked for is wanted");
  StateLock state;  // below thread level multiple alone
  return flush_deferred(*asked_, state);
}

void Epochs::forget_asked(const Target& target) {
  if (asked_ != &target) return;
  asked_ = nullptr;
  job_.asked_lock_ = nullptr;
}

// On success the target's lock is held; after an error it is held or wanted as before the call. The
// calling thread waits without `state`, so that other threads go on.
Status Epochs::take(Target& target, StateLock& state) {
  SKERRY_INVARIANT(target.hold == Hold::none || target.hold == Hold::wanted,
                   "a lock is taken once");
  const Hold before = target.hold;
  if (context_.multiple) {
    target.hold = Hold::busy;
    state.unlock();
  }
  const Status status = locks_.take(target);
  settle(target, status.ok() ? Hold::held : before, state);
  return status;
}

// The epoch goes on: the lock is taken after all.
Status Epochs::flush_deferred(Target& target, StateLock& state) {
  forget_asked(target);
  SKERRY_TRY(take(target, state));
  const std::unique_ptr<Deferred> deferred = std::move(target.deferred);
  return deferred == nullptr ? Status() : job_.engine().issue(deferred->access);
}

// ---- lock and unlock --------------------------------------------------------------------------

Status Epochs::end_epoch(Target& target, Hold before) {
  Status issued;
  if (before == Hold::wanted && locks_.travels_with_access(target)) {
    forget_asked(target);
    const std::unique_ptr<Deferred> deferred = std::move(target.deferred);
    if (deferred == nullptr) return {};  // nothing was accessed: the lock was never needed
    // Lock, access and unlock in one.
    origin::Access& access = deferred->access;
    access.guard = locks_.guard(target);
    const Status status = job_.engine().issue(access);
    if (status.code() != Code::contended) return status;
    // Others have the lock: queue up for it. Whatever comes of the access, it is given back.
    SKERRY_TRY(locks_.take(target));
    access.guard.reset();
    issued = job_.engine().issue(access);
    before = Hold::held;
  }
  SKERRY_INVARIANT(target.deferred == nullptr, "an access is deferred only for a lock");
  if (before == Hold::held) issued.also(locks_.give_back(target));
  else if (before == Hold::free) issued.also(context_.finish(target));
  return issued;
}

Status Epochs::release(Target& target, StateLock& state) {
  const Hold before = std::exchange(target.hold, context_.multiple ? Hold::busy : Hold::none);
  SKERRY_INVARIANT(before != Hold::none && before != Hold::busy, "what ends had begun");
  if (!context_.multiple) return end_epoch(target, before);
  state.unlock();
  const Status status = end_epoch(target, before);
  settle(target, Hold::none, state);
  return status;
}

Status Epochs::lock(lock::Holder mode, Rank rank, uint32_t promises) {
  SKERRY_TRY(check_promises(promises, no_check, "lock"));
  StateLock state = guard();
  Target* target = nullptr;
  SKERRY_TRY(this->target(rank, &target));
  await_settled(*target, state);
  if (epoch_ != Epoch::none && epoch_ != Epoch::fence && epoch_ != Epoch::lock) [[unlikely]]
    return error(Code::invalid, "rank ", job_.rank(), " locks rank ", rank, " inside ",
                 to_string(epoch_), " epoch of the same window: end that first");
  if (target->hold != Hold::none) [[unlikely]]
    return error(Code::invalid, "rank ", job_.rank(), " locks rank ", rank,
                 " again: unlock it first (a shared lock cannot become an exclusive one)");
  target->shared = mode != 0;
  target->own_epoch = true;
  epoch_ = Epoch::lock;
  ++locked_;
  if (promises != 0) {
    target->hold = Hold::free;
    return {};
  }
  // Where several threads call, an access must not be the one that waits for the lock.
  const bool lazily = locks_.travels_with_access(*target) && !context_.multiple;
  const Status status = lazily ? job_.take_asked_lock() : take(*target, state);
  if (!status.ok()) [[unlikely]] {
    if (--locked_ == 0) epoch_ = Epoch::none;
    return status;
  }
  if (lazily) {
    SKERRY_INVARIANT(asked_ == nullptr && job_.asked_lock_ == nullptr,
                     "one lock at most is only asked for, in all windows");
    SKERRY_INVARIANT(target->deferred == nullptr, "a new epoch has accessed nothing");
    target->hold = Hold::wanted;
    asked_ = target;
    job_.asked_lock_ = this;
  }
  return {};
}

bool Epochs::lock_quickly(lock::Holder mode, Rank rank) {
  Target* const target = lockable(rank);
  if (target == nullptr) return false;
  target->shared = mode != 0;
  if (!locks_.take_quickly(*target)) return false;
  note_locked(*target, target->shared);
  return true;
}

bool Epochs::unlock_quickly(Rank rank) {
  Target* const target = unlockable(rank);
  if (target == nullptr || !locks_.give_back_quickly(*target)) return false;
  note_unlocked(*target);
  return true;
}

Status Epochs::unlock(Rank rank) {
  StateLock state = guard();
  Target* target = nullptr;
  SKERRY_TRY(locked_target(rank, "unlock", state, &target));
  SKERRY_INVARIANT(epoch_ == Epoch::lock && locked_ > 0, "a lock that is given back was counted");
  if (--locked_ == 0) epoch_ = Epoch::none;
  return context_.done_there(rank, release(*target, state));
}

Status Epochs::lock_all(uint32_t promises) {
  SKERRY_TRY(check_promises(promises, no_check, "lock_all"));
  const StateLock state = guard();
  SKERRY_TRY(check_outside("lock_all"));
  SKERRY_INVARIANT(locked_ == 0, "outside epochs no lock is counted");
  epoch_ = Epoch::lock_all;
  all_promises_ = promises;
  return {};
}

Status Epochs::unlock_all() {
  StateLock state = guard();
  if (epoch_ != Epoch::lock_all)
    return error(Code::invalid, "rank ", job_.rank(), " calls unlock_all without lock_all");
  epoch_ = Epoch::none;
  const std::vector<Target*> used = targets_in_use(state);
  std::vector<Hold> before;
  for (Target* target : used) before.push_back(std::exchange(target->hold, Hold::busy));
  if (state.owns_lock()) state.unlock();
  Status first = context_.wait_issued();
  for (size_t i = 0; i < used.size(); ++i) first.also(end_epoch(*used[i], before[i]));
  for (Target* target : used) settle(*target, Hold::none, state);
  return context_.done_there(no_rank, first);
}

// ---- flush ------------------------------------------------------------------------------------
// They wait outside `state`, too.

// A deferred access is issued now, unless what it copied is all that must be done here.
Status Epochs::issue_for_flush(Target& target, Done where, StateLock& state) {
  if (target.deferred == nullptr) return {};
  if (where == Done::here && !target.deferred->access.returns_data()) return {};
  return flush_deferred(target, state);
}

Status Epochs::flush(Rank rank, Done where) {
  const bool there = where == Done::there;
  StateLock state = guard();
  Target* target = nullptr;
  SKERRY_TRY(passive_target(rank, there ? "flush" : "flush_local", state, &target));
  SKERRY_TRY(issue_for_flush(*target, where, state));
  if (state.owns_lock()) state.unlock();
  if (there) return context_.done_there(rank, context_.finish(*target));
  return context_.done_here(rank, target->region != nullptr ? Status() : context_.wait_issued());
}

Status Epochs::flush_all(Done where) {
  const bool there = where == Done::there;
  StateLock state = guard();
  SKERRY_TRY(check_passive(there ? "flush_all" : "flush_local_all"));
  Status first;
  std::vector<Target*> used = targets_in_use(state);
  for (Target* target : used) first.also(issue_for_flush(*target, where, state));
  std::erase_if(used, [](const Target* target) {
    return target->hold != Hold::held && target->hold != Hold::free;
  });
  if (state.owns_lock()) state.unlock();
  first.also(context_.wait_issued());
  if (!there) return context_.done_here(no_rank, first);
  for (const Target* target : used) first.also(context_.finish(*target));
  return context_.done_there(no_rank, first);
}

// ---- with the target's part: fence; post, start, complete, wait ---------------------------------

Status Epochs::fence(uint32_t promises) {
  SKERRY_TRY(check_promises(promises, no_store | no_put | no_precede | no_succeed, "fence"));
  StateLock state = guard();
  SKERRY_TRY(check_outside("fence"));
  epoch_ = (promises & no_succeed) != 0 ? Epoch::none : Epoch::fence;
  if (state.owns_lock()) state.unlock();
  Status status = context_.wait_issued();
  // With no_precede nobody has issued anything; what MPI then still asks for is that no access of
  // the next epoch comes before everybody is here.
  job::Group& group = *context_.group;
  const Status synced = (promises & no_precede) != 0 ? group.barrier() : group.sync();
  status.also(synced);
  if (context_.check == nullptr) [[likely]]
    return status;
  if (synced.ok()) status.also(context_.check->compare(group));
  return context_.done_there(no_rank, status);
}

Status Epochs::check_group(std::span<const Rank> ranks) const {
  for (Rank rank : ranks) SKERRY_TRY(context_.check_member(rank));
  std::vector<Rank> ascending(ranks.begin(), ranks.end());
  std::ranges::sort(ascending);
  const auto twice = std::ranges::adjacent_find(ascending);
  if (twice == ascending.end()) return {};
  // One post is one byte, and a second start would wait for another post for ever.
  return error(Code::invalid, "rank ", *twice, " is in the group twice: name each member once");
}

Status Epochs::post(std::span<const Rank> ranks, uint32_t promises) {
  SKERRY_TRY(check_promises(promises, no_check | no_store | no_put, "post"));
  SKERRY_TRY(check_group(ranks));
  if (exposure_.is_open())
    return error(Code::invalid, "rank ", job_.rank(), " posts again: wait for the last post first");
  return exposure_.post(ranks);
}

Status Epochs::start(std::span<const Rank> ranks, uint32_t promises) {
  SKERRY_TRY(check_promises(promises, no_check, "start"));
  SKERRY_TRY(check_group(ranks));
  StateLock state = guard();
  SKERRY_TRY(check_outside("start"));
  if (state.owns_lock()) state.unlock();
  SKERRY_TRY(exposure_.await_posts(ranks));
  state = guard();
  for (Rank rank : ranks) {
    Target* target = nullptr;
    SKERRY_TRY(this->target(rank, &target));
    SKERRY_INVARIANT(target->hold == Hold::none, "outside epochs nothing is held");
    target->hold = Hold::free;
    target->own_epoch = false;
  }
  started_.assign(ranks.begin(), ranks.end());
  epoch_ = Epoch::start;
  return {};
}

Status Epochs::complete() {
  StateLock state = guard();
  if (epoch_ != Epoch::start)
    return error(Code::invalid, "rank ", job_.rank(), " calls complete without start");
  epoch_ = Epoch::none;
  for (Rank rank : started_) {
    Target& target = targets_.at(rank);
    SKERRY_INVARIANT(target.hold == Hold::free && target.deferred == nullptr,
                     "an epoch of start needs no lock");
    target.hold = Hold::none;
  }
  if (state.owns_lock()) state.unlock();
  Status status = context_.wait_issued();
  // The targets wait for this even if an access was refused.
  status.also(exposure_.complete(started_));
  return context_.done_there(no_rank, status);
}

Status Epochs::await_completes(std::string_view call, int64_t longest_ns, bool* done) {
  if (exposure_.is_open()) return exposure_.wait(longest_ns, done);
  return error(Code::invalid, "rank ", job_.rank(), " calls ", call, " without post");
}

// ---- the way into an access -------------------------------------------------------------------

// The slow ways into an access: a lock that is taken only now, or an error.
Status Epochs::check_epoch(const Target& target) const {
  if (epoch_ == Epoch::fence || epoch_ == Epoch::lock_all) return {};
  if (epoch_ == Epoch::none)
    return error(Code::invalid, "rank ", job_.rank(), " accesses rank ", target.rank,
                 " outside an epoch: call lock, lock_all, start or fence first");
  return error(Code::invalid, "rank ", job_.rank(), " accesses rank ", target.rank, " in ",
               to_string(epoch_), " epoch that does not cover it");
}

Status Epochs::out_of_range(const Target& target, const Place& place) const {
  const std::string at = target.unit == 1
                             ? concat("byte ", place.at)
                             : concat("displacement ", place.at, " (unit ", target.unit, ")");
  return error(Code::range, place.bytes, " bytes at ", at, " lie outside the ", target.bytes,
               " bytes of rank ", target.rank, "'s memory");
}

// What waits for complete is done before the next access to the same member.
Status Epochs::put_kept(const Target& target) {
  Exposure::Box box;
  if (!exposure_.give_up(target.rank, &box)) return {};
  return memory::put(target.region_of(box.offset, box.bytes), box.offset, box.data, box.bytes);
}

Status Epochs::begin_access(const Place& place, bool may_wait, Target** found, uint64_t* offset) {
  StateLock state = guard();
  SKERRY_TRY(target(place.rank, found));
  Target& target = **found;
  if (exposure_.keeps_any()) [[unlikely]]
    SKERRY_TRY(put_kept(target));
  await_settled(target, state);
  if (target.hold == Hold::none && epoch_ == Epoch::lock_all) {
    target.own_epoch = false;
    target.shared = true;
    target.hold = all_promises_ != 0 ? Hold::free : Hold::wanted;
  }
  if (target.hold == Hold::none) SKERRY_TRY(check_epoch(target));
  if (__builtin_mul_overflow(place.at, target.unit, offset) || *offset > target.bytes ||
      place.bytes > target.bytes - *offset) [[unlikely]]
    return out_of_range(target, place);
  if (target.hold != Hold::wanted) [[likely]]
    return {};
  if (may_wait && target.mutex == nullptr && target.own_epoch && !context_.multiple &&
      target.deferred == nullptr)
    return {};
  SKERRY_INVARIANT(target.own_epoch || epoch_ == Epoch::lock_all, "only these epochs want locks");
  return flush_deferred(target, state);
}

}  // namespace skerry::window
