// Mutexes hosted by the members of a group: a segment whose slices are arrays of lock::Mutex.
#pragma once

#include <cstdint>

#include "job/group.hpp"
#include "job/segment.hpp"
#include "lock/mutex.hpp"

namespace skerry::job {

class Job;

class Mutexes {
 public:
  // Collective over the group.
  static Status create(Group& group, uint32_t count, Mutexes** mutexes);
  Status free();  // collective
  // owner_died: it is locked nevertheless.
  Status lock(Rank rank, uint32_t index);
  Status unlock(Rank rank, uint32_t index);
  // The shortest way, for a mutex of this node that is free, or that nobody waits for. False:
  // nothing was done, and the general ways above do all.
  bool lock_here(Rank rank, uint32_t index);
  bool unlock_here(Rank rank, uint32_t index);
  // The same in the name of any holder of this rank; `lock::shared_bit` in it asks to share.
  // *asks as of Engine::lock.
  Status lock_as(Rank rank, uint32_t index, lock::Holder holder, uint64_t* asks = nullptr);
  Status unlock_as(Rank rank, uint32_t index, lock::Holder holder);
  // A mutex of this node, without waiting. False: the long way, by lock_as and unlock_as.
  bool share_here(lock::Mutex& mutex, lock::Holder holder) const {
    return lock::share(mutex, readers_, member_, holder);
  }
  bool unshare_here(lock::Mutex& mutex) const { return lock::unshare(mutex, readers_, member_); }
  bool is_freed() const { return segment_->is_freed(); }
  Segment& segment() { return *segment_; }

 private:
  Status find(Rank rank, uint32_t index, lock::Mutex** mutex) const;
  Status tell_death(Rank rank, uint32_t index, lock::Holder holder);
  // The fast path: a mutex on this node; null: the long way.
  lock::Mutex* local(Rank rank, uint32_t index) const {
    const memory::Region* region = segment_->usable(rank);
    return region != nullptr && index < region->bytes / sizeof(lock::Mutex)
               ? reinterpret_cast<lock::Mutex*>(region->base) + index
               : nullptr;
  }

  Job* job_ = nullptr;
  Segment* segment_ = nullptr;
  lock::ReaderLines readers_;  // of the node's ranks
  uint32_t member_ = 0;        // this rank among them
};

}  // namespace skerry::job
