#include "window/window_locks.hpp"

namespace skerry::window {

Status WindowLocks::open(job::Group& group, const Desk& desk, const lock::Choice& choice) {
  if (choice.machines != nullptr) return MachineLocks::create(group, choice, &machines_);
  queue_ = desk.locks;
  index_ = desk.place;
  return {};
}

void WindowLocks::close() {
  queue_ = nullptr;
  if (machines_ == nullptr) return;
  close_segment(machines_->segment);
  machines_.reset();
}

void WindowLocks::describe(Target& target) const {
  if (machines_ != nullptr) target.machine = std::make_unique<MachineLock>(*machines_, target.rank);
  else if (const memory::Region* lock = queue_->segment().local(target.rank); lock != nullptr)
    target.mutex = reinterpret_cast<lock::Mutex*>(lock->base) + index_;
}

lock::Holder WindowLocks::asking_holder(const Target& target) const {
  const lock::Holder holder = holder_of(target);
  // Ranks that hold some locks and wait for others would wait for each other in a circle.
  const bool joins = target.shared && job_.window_locks_.load(std::memory_order_relaxed) != 0;
  return joins ? holder | lock::joins_bit : holder;
}

bool WindowLocks::take_quickly(const Target& target) {
  SKERRY_INVARIANT(target.mutex != nullptr, "only of this node");
  const lock::Holder holder = asking_holder(target);
  const bool taken = target.shared
                         ? queue_->share_here(*target.mutex, holder)
                         : lock::try_lock(*target.mutex, holder) == lock::LockAnswer::granted;
  if (taken) count_held(1);
  return taken;
}

bool WindowLocks::give_back_here(const Target& target) {
  return target.shared
             ? queue_->unshare_here(*target.mutex)
             : lock::try_unlock(*target.mutex, own_holder()) == lock::UnlockAnswer::released;
}

bool WindowLocks::give_back_quickly(Target& target) {
  if (target.shared) context_.complete_stores();
  if (!give_back_here(target)) return false;
  if (!target.shared) context_.complete_stores_after_rmw();
  count_held(-1);
  return true;
}

Status WindowLocks::take(Target& target) {
  SKERRY_TRY(job_.take_asked_lock());
  if (target.mutex != nullptr && take_quickly(target)) return {};
  target.updates_by_adapter = 0;
  SKERRY_TRY(target.machine != nullptr
                 ? target.machine->lock(target.shared)
                 : queue_->lock_as(target.rank, index_, asking_holder(target)));
  count_held(1);
  return {};
}

Status WindowLocks::give_back(Target& target) {
  count_held(-1);
  context_.complete_stores();
  return target.machine != nullptr ? give_back_machine(target) : give_back_queued(target);
}

// What goes to the lock's node behind the accesses takes effect behind them. Only a message to
// another rank could come before, or an atomic of the adapter.
Status WindowLocks::give_back_machine(Target& target) {
  const bool overtakes = machines_->machines->tells_directly || target.machine->is_of_adapter();
  Status status;
  if (overtakes) status = context_.finish(target);
  else if (target.region == nullptr) status = context_.wait_issued();
  status.also(target.machine->unlock());
  if (!overtakes) status.also(context_.finish(target));
  return status;
}

Status WindowLocks::give_back_queued(Target& target) {
  const lock::Holder holder = holder_of(target);
  if (target.mutex != nullptr)
    return give_back_here(target) ? Status() : queue_->unlock_as(target.rank, index_, holder);
  // The gets' data must be here, and the rest is applied in order before the unlock.
  Status status = context_.wait_issued();
  status.also(queue_->unlock_as(target.rank, index_, holder));
  status.also(job_.engine().fence_node(target.node));
  return status;
}

}  // namespace skerry::window
