// Access epochs of a window: which members this rank may access now, by lock, lock_all, start or
// fence, and what ends that. Of each member accessed it keeps a record (target.hpp).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "window/context.hpp"
#include "window/exposure.hpp"
#include "window/window_locks.hpp"
#include "window/memory.hpp"
#include "window/target.hpp"

namespace skerry::window {

// Which synchronization lets this rank access others now.
enum class Epoch : uint8_t { none, fence, start, lock, lock_all };
std::string_view to_string(Epoch epoch);

constexpr uint32_t no_check = 1, no_store = 2, no_put = 4, no_precede = 8, no_succeed = 16;

// Where an access goes.
struct Place {
  Rank rank = no_rank;
  uint64_t at = 0;  // displacement, in the target's units
  uint64_t bytes = 0;
};

class Epochs final : private job::AskedLock {
 public:
  Epochs(WindowContext& context, const Memory& memory, WindowLocks& locks)
      : job_(context.job), context_(context), memory_(memory), locks_(locks) {}

  void open(const Desk& desk) {
    exposure_.open(*context_.group, *desk.signals, desk.signals_at,
                   memory_.flavor() == Flavor::created ? static_cast<std::byte*>(memory_.own())
                                                       : nullptr);
  }
  // Errors: invalid (an epoch is open).
  Status check_may_free() const;
  void forget_targets();

  // ---- passive target ----
  Status lock(lock::Holder mode, Rank rank, uint32_t promises);  // mode: 0 or lock::shared_bit
  Status unlock(Rank rank);
  Status lock_all(uint32_t promises);
  Status unlock_all();
  enum class Done : uint8_t { here, there };
  Status flush(Rank rank, Done where);
  Status flush_all(Done where);
  Status sync() const {
    full_fence();
    return {};
  }

  // ---- active target ----
  Status fence(uint32_t promises);
  Status post(std::span<const Rank> ranks, uint32_t promises);
  Status start(std::span<const Rank> ranks, uint32_t promises);
  Status complete();
  Status wait() {
    bool done = false;
    return await_completes("wait", -1, &done);
  }
  Status test(bool* done) { return await_completes("test", 0, done); }

  // ---- the shortest ways, for one element or block on this node ----
  // Each is done, or nothing has happened: then the long way does it, or says what is wrong.
  bool lock_quickly(lock::Holder mode, Rank rank);
  bool unlock_quickly(Rank rank);
  // Exclusive, if no other rank holds the lock or waits for it. Inline all the way: a call within
  // would make the calling function save registers.
  ShortWay lock_if_free(Rank rank) {
    Target* const target = lockable(rank);
    const ShortWay taken = target == nullptr ? ShortWay::no : locks_.take_free(*target);
    if (taken == ShortWay::done) note_locked(*target, false);
    return taken;
  }
  ShortWay unlock_unasked(Rank rank) {
    Target* const target = unlockable(rank);
    const ShortWay given = target == nullptr || target->shared ? ShortWay::no
                                                               : locks_.give_back_unasked(*target);
    if (given == ShortWay::done) note_unlocked(*target);
    return given;
  }
  // Right behind those, which found the lock open.
  bool pass_queue() {
    if (!locks_.pass_queue(*quick_)) return false;
    note_locked(*quick_, false);
    return true;
  }
  bool leave_open() {
    if (!locks_.leave_open(*quick_)) return false;
    note_unlocked(*quick_);
    return true;
  }
  bool flush_quickly(Rank rank) {
    const Target* const target = quick_;
    if (target == nullptr || target->rank != rank || target->hold == Hold::none ||
        (!target->own_epoch && epoch_ != Epoch::lock_all) || !job_.is_alive()) [[unlikely]]
      return false;
    context_.complete_stores();
    return true;
  }
  // Plain memory that the present epoch may access; null: the long way. `offset`: in it.
  const memory::Region* find_quickly(const Place& place, memory::SpanKind kind,
                                     uint64_t* offset) const {
    const Target* const target = quick_;
    if (target == nullptr || target->rank != place.rank || target->plain == nullptr ||
        (target->hold < Hold::held && epoch_ != Epoch::fence) || !job_.is_alive()) [[unlikely]]
      return nullptr;
    const memory::Region& region = *target->plain;
    if (__builtin_mul_overflow(place.at, target->unit, offset) || *offset < target->plain_from ||
        *offset > region.bytes || place.bytes > region.bytes - *offset || job_.spans().is_due(kind))
        [[unlikely]]
      return nullptr;
    job_.local_counters().add(place.bytes);
    if (kind == memory::SpanKind::put) context_.will_store();
    return &region;
  }

  // ---- the long way ----
  // Ready for an access: an epoch allows it, its lock is held, and the bytes are inside. `offset`:
  // in bytes.
  // With `may_wait`, a member elsewhere may still want its lock: then the access is deferred.
  Status begin_access(const Place& place, bool may_wait, Target** found, uint64_t* offset);
  // A put to memory that another process of this node gave may go with complete (exposure.hpp).
  // False: it is to be done now.
  bool keep_for_complete(Rank rank, uint64_t offset, const void* data, uint64_t bytes) {
    return epoch_ == Epoch::start && memory_.flavor() == Flavor::created && !context_.multiple &&
           context_.check == nullptr && !context_.completes_at_once &&
           exposure_.keep(rank, offset, data, bytes);
  }

 private:
  // State is guarded where threads may call at the same time; never while a call waits.
  using StateLock = std::unique_lock<std::mutex>;  // owns nothing below thread level multiple
  StateLock guard() const { return context_.multiple ? StateLock(mutex_) : StateLock(); }
  // Of this node, known, and free to be locked, or locked by itself; null: the long way.
  Target* lockable(Rank rank) const {
    Target* const target = quick_;
    const bool may = target != nullptr && target->rank == rank && target->hold == Hold::none &&
                     target->mutex != nullptr && epoch_ <= Epoch::fence &&
                     job_.asked_lock_ == nullptr && job_.is_alive();
    return may ? target : nullptr;
  }
  Target* unlockable(Rank rank) const {
    Target* const target = quick_;
    const bool may = target != nullptr && target->rank == rank && target->hold == Hold::held &&
                     target->own_epoch && target->mutex != nullptr && job_.is_alive();
    return may ? target : nullptr;
  }
  void note_locked(Target& target, bool shared) {
    SKERRY_INVARIANT(target.hold == Hold::none && target.deferred == nullptr, "free before");
    target.shared = shared;
    target.own_epoch = true;
    target.hold = Hold::held;
    epoch_ = Epoch::lock;
    ++locked_;
  }
  void note_unlocked(Target& target) {
    SKERRY_INVARIANT(target.hold == Hold::held && locked_ > 0, "held, and counted");
    target.hold = Hold::none;
    if (--locked_ == 0) epoch_ = Epoch::none;
  }
  Status check_group(std::span<const Rank> ranks) const;  // members, and none of them twice
  Status check_promises(uint32_t promises, uint32_t allowed, std::string_view call) const;
  Status check_passive(std::string_view call) const;  // in an epoch of lock or lock_all
  Status check_outside(std::string_view call) const;  // in none, or of a fence
  Status check_epoch(const Target& target) const;
  Status put_kept(const Target& target);
  Status await_completes(std::string_view call, int64_t longest_ns, bool* done);
  Status out_of_range(const Target& target, const Place& place) const;
  // The record of a member, made at first use. Errors: invalid (no member).
  Status target(Rank rank, Target** found) {
    if (recent_ != nullptr && recent_->rank == rank) [[likely]] {
      *found = recent_;
      return {};
    }
    return find_target(rank, found);
  }
  Status find_target(Rank rank, Target** found);
  Status locked_target(Rank rank, std::string_view call, StateLock& state, Target** found);
  // In an epoch that `call` may complete something of.
  Status passive_target(Rank rank, std::string_view call, StateLock& state, Target** found);
  // `state` is released while they wait and held again on return.
  void await_settled(const Target& target, StateLock& state) const;
  void settle(Target& target, Hold hold, StateLock& state) const;
  std::vector<Target*> targets_in_use(StateLock& state);
  Status take(Target& target, StateLock& state);
  Status release(Target& target, StateLock& state);
  Status flush_deferred(Target& target, StateLock& state);
  Status issue_for_flush(Target& target, Done where, StateLock& state);
  void forget_asked(const Target& target);
  Status take_asked() override;
  // Everything issued is done; its lock, which was held as `before` says, is not held.
  Status end_epoch(Target& target, Hold before);

  job::Job& job_;
  WindowContext& context_;
  const Memory& memory_;
  WindowLocks& locks_;
  Epoch epoch_ = Epoch::none;
  uint32_t locked_ = 0;        // targets with a lock of this rank, lock_all's not counted
  uint32_t all_promises_ = 0;  // of lock_all
  // Below thread level multiple alone:
  Target* recent_ = nullptr;  // the last one asked for
  Target* quick_ = nullptr;   // the same, if it is of this node and there is no debug mode
  Target* asked_ = nullptr;   // its lock is asked for and not taken yet: at most one in all windows
                              // of the job, which knows it
  std::unordered_map<Rank, Target> targets_;  // their places stay
  std::vector<Rank> started_;                 // of the present start
  Exposure exposure_;
  mutable std::mutex mutex_;
  mutable std::condition_variable settled_;  // some target's hold is no longer busy
};

}  // namespace skerry::window
