// Locks hosted by this node, as its data server and its ranks ask for them. src/lock decides which
// requester gets one. Here are the guard, the slots that grants fill, and the requests that wait.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "lock/mutex.hpp"
#include "memory/control.hpp"
#include "placement/node_map.hpp"

namespace skerry::lock {

// The records of waiters that all locks of a node share.
WaiterPool waiter_pool(const memory::Control& control);
// The lines by which its ranks share locks without a trace in their words.
ReaderLines reader_lines(const memory::Control& control);

// Why mutex `index` of `rank` was not taken, or not given back, in the name of `by`.
Status refusal(LockAnswer answer, Holder by, Rank rank, uint64_t index);
Status refusal(UnlockAnswer answer, Holder by, Rank rank, uint64_t index);

// A request of another node, for a lock of this one.
struct Asked {
  SegmentId segment;
  Rank rank = no_rank;  // whose lock: it hosts it
  uint64_t index = 0;
  Waiter waiter;
  uint64_t number = 0;  // of the request in its origin's session
  bool is_for_lock_of(const Asked& other) const {
    return segment == other.segment && rank == other.rank && index == other.index;
  }
};

// What comes of such a request later. Implemented by the data server.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void grant(const Waiter& waiter) = 0;
  // A request that was kept cannot be served any more: its segment is gone, or its holder has the
  // lock already.
  virtual void refuse(const Asked& request, const Status& why) = 0;
};

// Who asks src/lock in a process of the node. A rank sleeps for the guard and tells ranks of its
// node alone. Its data server tries once and tells others through `outlet`.
class LockCaller final : public Caller {
 public:
  // `control` and `map` must outlive it. `outlet`: null for a rank.
  LockCaller(const memory::Control& control, uint32_t member_index, const placement::NodeMap& map,
             NodeId node, Outlet* outlet = nullptr)
      : Caller(waiter_pool(control)),
        control_(control),
        member_index_(member_index),
        map_(map),
        node_(node),
        outlet_(outlet),
        sleeps_(outlet == nullptr) {}
  bool acquire(OwnerWord& guard) override;
  void release(OwnerWord& guard) override;
  bool reaches(const Waiter& waiter) const override;
  void tell(const Waiter& waiter) override;
  bool invites(const Waiter& waiter) const override { return is_of_this_node(waiter); }
  void record_freed() override;

  // From now on this waiter sleeps for the guard.
  void be_patient() { sleeps_ = true; }
  // And takes over a guard whose owner died: for bury alone.
  void take_over() { takes_over_ = true; }
  const memory::Control& control() const { return control_; }

 private:
  bool is_of_this_node(const Waiter& waiter) const {
    return map_.node_of(rank_of(waiter.holder)) == node_;
  }

  const memory::Control& control_;
  uint32_t member_index_;  // as which it signs guards
  const placement::NodeMap& map_;
  NodeId node_;
  Outlet* outlet_;
  bool sleeps_;
  bool takes_over_ = false;
};

// Where the locks of this node lie. Implemented by the job room, which maps memory.
class LockMemory {
 public:
  virtual ~LockMemory() = default;
  // Errors: freed (no such segment), invalid (it holds no locks), range.
  virtual Status find_lock(SegmentId segment, Rank rank, uint64_t index, Mutex** lock) = 0;
};

// Lock requests of other nodes. Server's thread only.
//
// A request that cannot be queued now (no record for one more waiter, or the guard is taken) is
// kept here and tried again. It never stops its session: the unlock that would end its waiting may
// be next in line.
class LockRequests {
 public:
  LockRequests(LockMemory& memory, Outlet& outlet) : memory_(memory), outlet_(outlet) {}
  // Before the first request.
  void open(const memory::Control& control, uint32_t member_index, const placement::NodeMap& map,
            NodeId node);

  // *granted: it has the lock; otherwise the grant follows, through Outlet::grant.
  Status request(const Asked& request, bool* granted);
  // Only if it is free now; otherwise nothing was changed.
  Status try_request(const Asked& request, bool* granted);
  // Releases what try_request granted: now, or as soon as the guard can be had.
  void release_soon(const Asked& held);
  // Released and handed on; `busy`: not now, the guard is taken.
  Status release(const Asked& held, bool* busy);
  // Has a lock request been granted meanwhile? (Its origin lost its connection, and with it perhaps
  // the grant.)
  Status holds(const Asked& request, bool* granted);
  // Of a rank that died nothing is kept.
  void forget(Rank dead);
  // Takes those that died out of a mutex of this node.
  void bury(Mutex& mutex, IsDead is_dead, const void* context);
  // Of the lock's holder, once: see take_death.
  Status take_death(const Asked& held, Rank* died);
  // Tries those that are kept again, in their order.
  void retry();
  bool keeps_any() const { return !kept_.empty() || !owed_.empty(); }
  uint64_t memory_bytes() const { return (kept_.capacity() + owed_.capacity()) * sizeof(Asked); }

 private:
  // *again: it must be kept, and asked again.
  Status attempt(const Asked& request, const std::vector<Asked>& before, bool* granted,
                 bool* again);
  bool is_owed(const Asked& request) const;
  LockCaller& caller();

  LockMemory& memory_;
  Outlet& outlet_;
  memory::Control control_;
  std::optional<LockCaller> caller_;
  std::vector<Asked> kept_;  // longest kept first; at most one for a completion slot of the job
  std::vector<Asked> owed_;  // releases that found the guard taken
};

}  // namespace skerry::lock
