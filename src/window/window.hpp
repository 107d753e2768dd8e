// Windows: memory of the members of a group, accessed by the others between synchronization calls,
// with the meaning that MPI gives them (MPI 4.1, chapter 12). Every call acts by itself: the target
// takes no part in lock, access, flush and unlock.
//
// A window is made of its data, a segment; one lock for each member (src/lock; SKERRY_LOCK chooses
// between the fair queue, job::Mutexes, and the machines, machine_locks.hpp); and signals, by which
// post, start, complete and wait tell each other. The group keeps segments for them all
// (reserve.hpp). What is kept of a member begins with the first access to it.
//
// Source: Santhanaraman et al., "Natively Supporting True One-sided Communication in MPI on
// Multi-core Systems with InfiniBand", sections 2 to 4.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/pure/ordering.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "job/mutexes.hpp"
#include "job/segment.hpp"
#include "memory/given.hpp"
#include "memory/moved.hpp"
#include "window/check.hpp"
#include "window/exposure.hpp"
#include "window/machine_locks.hpp"
#include "window/reserve.hpp"
#include "window/target.hpp"

namespace skerry::window {

enum class Flavor : uint8_t {
  allocated,  // by Skerry, in the node's shared memory
  created,    // given by the program: private to its process
  dynamic,    // given later, piece by piece
};
std::string_view to_string(Flavor flavor);

// Which synchronization lets this rank access others now.
enum class Epoch : uint8_t { none, fence, start, lock, lock_all };
std::string_view to_string(Epoch epoch);

constexpr uint32_t no_check = 1, no_store = 2, no_put = 4, no_precede = 8, no_succeed = 16;
constexpr uint32_t all_promises = 31;

// What an access does with the bytes at the target.
struct Access {
  Rank rank = no_rank;
  uint64_t at = 0;  // displacement, in the target's units
  uint64_t bytes = 0;
};

// One piece of an access; `offset` counts bytes, whatever the target's unit.
struct VectorPiece {
  std::byte* origin = nullptr;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

class Window {
 public:
  Window() = default;
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window();
  // All collective over the group; all members get the same answer.
  static Status allocate(job::Group& group, uint64_t bytes, uint64_t unit,
                         std::unique_ptr<Window>* window);
  static Status create(job::Group& group, void* base, uint64_t bytes, uint64_t unit,
                       std::unique_ptr<Window>* window);
  static Status create_dynamic(job::Group& group, std::unique_ptr<Window>* window);
  Status free();
  // What stands for every freed window of the job.
  static std::unique_ptr<Window> stand_in(job::Job& job);

  Status attach(void* base, uint64_t bytes);
  Status detach(void* base);

  // In the debug mode: the program calls from this return address.
  void called_at(const void* site) const {
    if (check_ != nullptr) [[unlikely]]
      check_->enter(site);
  }
  // What the call returns: in the debug mode errors name the window and the place of the call.
  Status located(Status status) const {
    return check_ == nullptr || status.ok() ? std::move(status) : check_->located(status);
  }

  job::Job& job() const { return *job_; }
  job::Group& group() const { return *group_; }
  bool is_freed() const { return group_ == nullptr; }
  Flavor flavor() const { return flavor_; }
  void* own() const { return own_; }
  std::byte* pointer(Rank rank) const;  // null unless allocated, and of a member on this node
  uint64_t bytes_of(Rank rank) const;   // 0 if not a member
  uint64_t unit_of(Rank rank) const;    // 0 if not a member

  // ---- passive target (window.cpp) ----
  Status lock(lock::Holder mode, Rank rank, uint32_t promises);  // mode: 0 or lock::shared_bit
  Status unlock(Rank rank);
  Status lock_all(uint32_t promises);
  Status unlock_all();
  Status flush(Rank rank);
  Status flush_all();
  Status flush_local(Rank rank);
  Status flush_local_all();
  Status sync() const;

  // ---- active target (active.cpp) ----
  Status fence(uint32_t promises);
  Status post(std::span<const Rank> ranks, uint32_t promises);
  Status start(std::span<const Rank> ranks, uint32_t promises);
  Status complete();
  Status wait();
  Status test(bool* done);

  // ---- the shortest ways, for one element or block on this node ----
  // Each is done, or nothing has happened: then the long way does it, or says what is wrong.
  bool lock_quickly(Rank rank);  // for itself alone
  bool unlock_quickly(Rank rank);
  bool flush_quickly(Rank rank) {
    const Target* const target = quick_;
    if (target == nullptr || target->rank != rank || target->hold == Hold::none ||
        (!target->own_epoch && epoch_ != Epoch::lock_all) || !job_->is_alive()) [[unlikely]]
      return false;
    complete_stores();
    return true;
  }
  // Plain memory that the present epoch may access; null: the long way. `offset`: in it. Who puts
  // there calls will_store().
  const memory::Region* find_quickly(const Access& access, memory::SpanKind kind,
                                     uint64_t* offset) const {
    const Target* const target = quick_;
    if (target == nullptr || target->rank != access.rank || target->plain == nullptr ||
        (target->hold < Hold::held && epoch_ != Epoch::fence) || !job_->is_alive()) [[unlikely]]
      return nullptr;
    const memory::Region& region = *target->plain;
    if (__builtin_mul_overflow(access.at, target->unit, offset) || *offset < target->plain_from ||
        *offset > region.bytes || access.bytes > region.bytes - *offset ||
        job_->spans().is_due(kind)) [[unlikely]]
      return nullptr;
    job_->local_counters().add(access.bytes);
    return &region;
  }

  // A put to memory of this node is a plain store. Updates complete by themselves
  // (memory/stripes.hpp).
  void will_store() {
    if (!multiple_) has_stored_ = true;
  }

  // ---- access (access.cpp) ----
  // `handle` null: done at the next synchronization.
  Status put(const Access& to, const void* origin, operation::Handle* handle);
  Status get(const Access& from, void* origin, operation::Handle* handle);
  // target = target (operation) origin for whole elements; the type has the operation.
  Status update(const Access& to, const memory::Update& what, const void* origin,
                operation::Handle* handle);
  // The same; `result` gets the elements before. A no-op reads no `origin`.
  Status fetch_update(const Access& at, const memory::Update& what, const void* origin,
                      void* result, operation::Handle* handle);
  // The same for pieces anywhere in a member's memory. A wrong one: none is accessed.
  Status put_vector(Rank rank, std::span<const VectorPiece> pieces);
  Status get_vector(Rank rank, std::span<const VectorPiece> pieces);
  Status update_vector(Rank rank, const memory::Update& what, std::span<const VectorPiece> pieces);
  // The same for blocks at equal distances: equal but for the strides, and not malformed. `offset`
  // in bytes.
  Status put_strided(Rank rank, uint64_t offset, const Shape& there, const void* origin,
                     const Shape& here);
  Status get_strided(Rank rank, uint64_t offset, const Shape& there, void* origin,
                     const Shape& here);
  // Of 1, 2, 4 or 8 bytes. Blocks until *old is there.
  Status compare_swap(const Access& at, uint64_t expected, uint64_t desired, uint64_t* old);

 private:
  static Status make(job::Group& group, Flavor flavor, void* base, uint64_t bytes, uint64_t unit,
                     std::unique_ptr<Window>* window);
  struct Told;
  static Status compare(job::Group& group, const Told& mine, const Status& status,
                        std::vector<Told>* told);
  static Status agree(job::Group& group, const Window& made, Told mine, const Status& status,
                      std::vector<Told>* told);
  void take_note(const std::vector<Told>& told);
  Status open(void* base, uint64_t bytes, const lock::Choice& choice, bool has_desk);
  Status open_data(void* base, uint64_t bytes, bool* is_known);
  Status make_data(void* base, uint64_t bytes);
  void give(job::Segment& data, void* base, uint64_t bytes) const;
  // The kind under which the group keeps such data, and their shape.
  uint32_t kind() const { return static_cast<uint32_t>(flavor_); }
  PerMember shape() const { return flavor_ == Flavor::allocated ? members_.bytes : PerMember(); }
  void move_in(void* base, const memory::Pages& pages);
  void forget_moved();
  Status close_segments();
  void give_up_segments();
  void describe_given(Target& target) const;
  static void find_plain(Target& target);
  memory::Given* given() const { return reinterpret_cast<memory::Given*>(data_->own()); }
  // Where requests for this member's memory go.
  operation::Target address(const Target& target) const {
    return {target.rank, data_->id(), flavor_ != Flavor::allocated};
  }

  // State is guarded where threads may call at the same time; never while a call waits.
  using State = std::unique_lock<std::mutex>;  // owns nothing below thread level multiple
  State guard() const { return multiple_ ? State(*mutex_) : State(); }
  Status check_usable() const;
  Status check_member(Rank rank) const;
  Status check_group(std::span<const Rank> ranks) const;  // members, and none of them twice
  Status check_reach() const;  // this process reaches the given memory of this node's members
  Status check_promises(uint32_t promises, uint32_t allowed, std::string_view call) const;
  // The record of a member, made at first use. Errors: invalid (no member).
  Status target(Rank rank, Target** found) {
    if (recent_ != nullptr && recent_->rank == rank) [[likely]] {
      *found = recent_;
      return {};
    }
    return find_target(rank, found);
  }
  Status find_target(Rank rank, Target** found);
  // `state` is released while they wait and held again on return.
  void await_settled(const Target& target, State& state) const;
  void settle(Target& target, Hold hold, State& state) const;
  std::vector<Target*> targets_in_use(State& state) const;
  static Status take_lazy(job::Job& job);
  void forget_lazy(const Target& target);
  Status acquire(Target& target);  // it has the lock then
  Status take(Target& target, State& state);
  Status give_back(Target& target);         // of a machine; everything done under it is done
  Status give_back_fairly(Target& target);  // of the fair queue
  Status issue_deferred(Target& target);    // its lock is held
  Status flush_deferred(Target& target, State& state);
  void count_held(int32_t more) const {  // locks of this rank, in all windows
    std::atomic<uint32_t>& held = job_->window_locks_;
    const auto change = static_cast<uint32_t>(more);
    if (multiple_) held.fetch_add(change, std::memory_order_relaxed);
    else held.store(held.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  Status release_at_once(Target& target, bool* released);  // lock, access and unlock in one
  // Everything issued is done; its lock, which was held as `before` says, is not held.
  Status end_epoch(Target& target, Hold before);
  Status release(Target& target, State& state);
  Status wait_issued() const;
  Status finish(const Target& target);  // everything issued is done
  // What this rank put to memory of its node is visible to all before this thread loads again.
  // Where several threads call, any of them may have put: then this always fences.
  void complete_stores() {
    if (!multiple_ && !std::exchange(has_stored_, false)) return;
    full_fence();
  }
  Status locked_target(Rank rank, std::string_view call, State& state, Target** found);
  Status check_passive(std::string_view call) const;  // in an epoch of lock or lock_all
  // Ready for an access: an epoch allows it, its lock is held, and the bytes are inside. `offset`:
  // in bytes.
  // With `may_wait`, a member elsewhere may still want its lock: then the access is deferred.
  Status begin(const Access& access, bool may_wait, Target** found, uint64_t* offset);
  static bool may_defer(const Access& access);  // writes alone
  static bool may_defer(const Access& access, const operation::Handle* handle);
  static Deferred& defer(Target& target, Deferred::Kind kind, uint64_t offset, const void* origin,
                         uint64_t bytes);
  template <class Move>
  Status in_parts(uint64_t bytes, operation::Mode mode, Move&& move) const;
  Status issue_put(Target& target, uint64_t offset, const void* origin, uint64_t bytes,
                   operation::Handle* handle);
  Status issue_get(Target& target, uint64_t offset, void* origin, uint64_t bytes,
                   operation::Handle* handle);
  Status issue_update(Target& target, uint64_t offset, const memory::Update& what,
                      const void* origin, uint64_t bytes, operation::Handle* handle);
  Status issue_fetch_update(Target& target, uint64_t offset, const memory::Update& what,
                            const void* origin, void* result, uint64_t bytes,
                            operation::Handle* handle);
  // The debug mode around issue(result), which issues the access. Null: it has no such buffer.
  template <class Issue>
  Status checked(Rank rank, const Check::Access& access, const void* origin, void* result,
                 operation::Handle* handle, Issue&& issue);
  // Everything issued to `rank` (no_rank: to all) is done here, or there, too, with this answer.
  Status done_here(Rank rank, Status status) const;
  Status done_there(Rank rank, Status status) const;
  Status update_here(const Target& target, uint64_t offset, const memory::Update& what,
                     const void* origin, void* result, uint64_t bytes) const;
  bool is_one_request(const Target& target) const;
  // Memory of this node that the kernel moves: all pieces with few calls.
  bool goes_through_kernel(const Target& target) const {
    return target.region != nullptr && target.plain == nullptr && check_ == nullptr;
  }
  Status move_pieces(const Target& target, std::span<const VectorPiece> pieces, bool is_put);
  Status update_pieces(const Target& target, const memory::Update& what,
                       std::span<const VectorPiece> pieces) const;
  Status begin_strided(Rank rank, uint64_t offset, const Shape& there, Target** found);
  Status begin_vector(Rank rank, std::span<const VectorPiece> pieces, Target** found);
  Status check_alignment(ElementType type, uint64_t offset) const;
  Status check_epoch(const Target& target) const;
  Status out_of_range(const Target& target, const Access& access) const;

  job::Job* job_ = nullptr;
  job::Group* group_ = nullptr;  // null: freed
  Flavor flavor_ = Flavor::allocated;
  bool multiple_ = false;    // several threads may call at the same time
  bool has_stored_ = false;  // put to memory of this node since the last full fence; below thread
                             // level multiple
  void* own_ = nullptr;
  job::Segment* data_ = nullptr;   // allocated: the memory. Otherwise its description (target.hpp)
  bool any_moves_ = false;         // some member wants its given memory moved
  memory::Moved moved_;            // of created: its own pages that are shared now
  bool keeps_data_ = true;         // the group keeps them for the next window
  uint64_t most_bytes_ = 0;        // of a member's memory
  Desk desk_;                      // no signals: none yet
  job::Mutexes* locks_ = nullptr;  // of desk_; null: `machines_`
  uint32_t lock_index_ = 0;        // in `locks_`
  std::unique_ptr<MachineLocks> machines_;
  std::unique_ptr<Check> check_;  // null: not in the debug mode
  Exposure exposure_;
  Members members_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  // Some target's hold is no longer busy.
  std::unique_ptr<std::condition_variable> settled_ = std::make_unique<std::condition_variable>();
  std::unordered_map<Rank, std::unique_ptr<Target>> targets_;
  Target* recent_ = nullptr;  // last one asked for; below thread level multiple
  Target* quick_ = nullptr;   // the same, if it is of this node and there is no debug mode
  Target* lazy_ = nullptr;    // asked for by lock and not taken yet: at most one in all windows of
                              // the job, which knows its window; below thread level multiple
  Epoch epoch_ = Epoch::none;
  uint32_t locked_ = 0;        // targets with a lock of this rank, lock_all's not counted
  uint32_t all_promises_ = 0;  // of lock_all
  std::vector<Rank> started_;  // of the present start
  std::vector<const void*> empty_areas_;  // of dynamic: attached with no bytes
};

}  // namespace skerry::window
