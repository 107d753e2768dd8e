// Locks hosted by this node, as its data server and its ranks ask for them. src/lock decides which
// requester gets one. Here are the guard, the slots that grants fill, and the requests that wait.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "lock/protocol.hpp"
#include "memory/control.hpp"
#include "placement/node_map.hpp"

namespace skerry::lock {

// The records of waiters that all locks of a node share.
WaiterPool waiter_pool(const memory::Control& control);
// The lines by which its ranks share locks without a trace in their words.
ReaderLines reader_lines(const memory::Control& control);

// Of a lock whose memory somebody wrote over.
Status damaged_lock(Rank rank, uint64_t index);

// What drives src/lock from a process of the node: a rank that may sleep for the guard, or its data
// server, which tries once and tells ranks of other nodes as well. Copies nothing: lives on the
// stack of one call.
class LockCaller final : public Caller {
 public:
  enum class Patience : uint8_t { sleeps, tries_once };
  // `tell_others`: null if this process cannot tell ranks of other nodes.
  LockCaller(const memory::Control& control, uint32_t member_index, const placement::NodeMap& map,
             NodeId node, Patience patience, const std::function<void(const Waiter&)>* tell_others)
      : control_(control),
        member_index_(member_index),
        map_(map),
        node_(node),
        patience_(patience),
        tell_others_(tell_others) {}
  bool acquire(OwnerWord& guard) override;
  void release(OwnerWord& guard) override;
  bool reaches(const Waiter& waiter) const override;
  void tell(const Waiter& waiter) override;
  bool invites(const Waiter& waiter) const override;
  void record_freed() override;

 private:
  const memory::Control& control_;
  uint32_t member_index_;  // as which it signs guards
  const placement::NodeMap& map_;
  NodeId node_;
  Patience patience_;
  const std::function<void(const Waiter&)>* tell_others_;
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
class Locks {
 public:
  struct Asked {
    SegmentId segment;
    Rank rank = no_rank;  // whose lock: it hosts it
    uint64_t index = 0;
    Waiter waiter;
    uint64_t number = 0;  // of the request in its origin's session
  };
  enum class Answer : uint8_t {
    granted,
    waits,    // the grant follows, through Outlet::grant
    refused,  // *failure says why
  };
  // What comes of it later.
  class Outlet {
   public:
    virtual ~Outlet() = default;
    virtual void grant(const Waiter& waiter) = 0;
    // A request that was kept cannot be served any more: its segment is gone, or its holder has the
    // lock already.
    virtual void refuse(const Asked& request, const Status& why) = 0;
  };

  Locks(LockMemory& memory, Outlet& outlet);
  // Before the first request.
  void open(const memory::Control& control, uint32_t member_index, const placement::NodeMap& map,
            NodeId node);

  Answer request(const Asked& request, Status* failure);
  // Only if it is free now: granted, waits (it is not; nothing was changed), or refused.
  Answer try_request(SegmentId segment, Rank rank, uint64_t index, Holder holder, Status* failure);
  // Releases what try_request granted: now, or as soon as the guard can be had.
  void release_soon(SegmentId segment, Rank rank, uint64_t index, Holder holder);
  // Released and handed on; `busy`: not now, the guard is taken.
  Status release(SegmentId segment, Rank rank, uint64_t index, Holder holder, bool* busy);
  // Has a lock request been granted meanwhile? (Its origin lost its connection, and with it perhaps
  // the grant.)
  Status holds(SegmentId segment, Rank rank, uint64_t index, Holder holder, bool* granted);
  // Tries those that are kept again, in their order.
  void retry();
  bool keeps_any() const { return !kept_.empty() || !owed_.empty(); }
  uint64_t memory_bytes() const { return (kept_.capacity() + owed_.capacity()) * sizeof(Asked); }

 private:
  Answer attempt(const Asked& request, bool* again, Status* failure);
  LockCaller caller() const;
  static bool same_lock(const Asked& a, const Asked& b) {
    return a.segment == b.segment && a.rank == b.rank && a.index == b.index;
  }

  LockMemory& memory_;
  const std::function<void(const Waiter&)> tell_others_;
  Outlet& outlet_;
  memory::Control control_;
  uint32_t member_index_ = 0;
  const placement::NodeMap* map_ = nullptr;
  NodeId node_ = no_node;
  bool is_owed(const Asked& request) const;
  std::vector<Asked> kept_;  // longest kept first; at most one for a completion slot of the job
  std::vector<Asked> owed_;  // releases that found the guard taken
};

}  // namespace skerry::lock
