// The locks of a window, one for each member: the fair queue (job::Mutexes) or, as SKERRY_LOCK
// says, a protocol's machines. A rank has a member's lock or has it not; its threads share it.
#pragma once

#include <cstdint>
#include <memory>

#include "job/mutexes.hpp"
#include "window/context.hpp"
#include "window/machine_locks.hpp"
#include "window/desks.hpp"
#include "window/target.hpp"

namespace skerry::window {

// What became of the shortest way to a lock of this node. `open`: nothing has happened, but others
// wait for it, and it may be passed to and fro before their turn comes (lock/mutex.hpp).
enum class ShortWay : uint8_t { done, open, no };

class WindowLocks {
 public:
  explicit WindowLocks(WindowContext& context)
      : job_(context.job), multiple_(context.multiple), context_(context) {}

  // Collective; all members have the same choice. The queue is the desk's.
  Status open(job::Group& group, const Desk& desk, const lock::Choice& choice);
  // No member needs them any more, and all members know that.
  void close();
  // This member's lock, as far as this rank reaches it.
  void describe(Target& target) const;
  // May it be asked for by the access, in one message? Only the queue's, of a member elsewhere.
  bool travels_with_access(const Target& target) const {
    return target.mutex == nullptr && machines_ == nullptr;
  }
  origin::Guard guard(const Target& target) const {
    return {queue_->segment().id(), index_, holder_of(target)};
  }

  // Blocks until it is held. First the one that this rank has asked for, of whatever window.
  Status take(Target& target);
  // Behind everything that was issued under it. Blocks until that is done there.
  Status give_back(Target& target);
  // A lock of this node that needs no wait. False: nothing has happened. To give it back so: below
  // thread level multiple.
  bool take_quickly(const Target& target);
  bool give_back_quickly(Target& target);
  // The same for itself alone, without any call, if nobody else has it or wants it.
  ShortWay take_free(Target& target) {
    const uint64_t met = lock::lock_if_free(*target.mutex, own_holder());
    if (met != 0) return met == lock::open_word ? ShortWay::open : ShortWay::no;
    count_held(1);
    return ShortWay::done;
  }
  ShortWay give_back_unasked(Target& target) {
    const lock::Holder holder = own_holder();
    const uint64_t met = lock::unlock_unasked(*target.mutex, holder);
    if (met != holder) return met == (holder | lock::open_word) ? ShortWay::open : ShortWay::no;
    context_.complete_stores_after_rmw();
    count_held(-1);
    return ShortWay::done;
  }
  // Behind those, which met a lock that is open.
  bool pass_queue(Target& target) {
    if (!lock::pass_queue(*target.mutex, own_holder())) return false;
    count_held(1);
    return true;
  }
  bool leave_open(Target& target) {
    if (!lock::leave_open(*target.mutex, own_holder())) return false;
    context_.complete_stores_after_rmw();
    count_held(-1);
    return true;
  }

 private:
  // Locks belong to the rank: any of its threads may unlock.
  static constexpr uint32_t holder_thread = 1;
  lock::Holder own_holder() const { return lock::make_holder(job_.rank(), holder_thread); }
  lock::Holder holder_of(const Target& target) const {
    return own_holder() | (target.shared ? lock::shared_bit : 0);
  }
  void count_held(int32_t more) const {  // locks of this rank, in all windows
    std::atomic<uint32_t>& held = job_.window_locks_;
    SKERRY_INVARIANT(more > 0 || held.load(std::memory_order_relaxed) > 0,
                     "a lock that is given back was counted");
    const auto change = static_cast<uint32_t>(more);
    if (multiple_) held.fetch_add(change, std::memory_order_relaxed);
    else held.store(held.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  lock::Holder asking_holder(const Target& target) const;
  bool give_back_here(const Target& target);
  Status give_back_queued(Target& target);
  Status give_back_machine(Target& target);

  job::Job& job_;
  const bool multiple_;
  WindowContext& context_;
  job::Mutexes* queue_ = nullptr;  // the desk's; null: `machines_`
  uint32_t index_ = 0;             // in `queue_`
  std::unique_ptr<MachineLocks> machines_;
};

}  // namespace skerry::window
