// What handles of the program name: segments, groups, mutexes, protected memory, each on a shelf of
// its kind, and which segment holds an address. Any threads; one mutex guards all of it, also which
// segments are freed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "job/shelf.hpp"

namespace skerry::job {

class Group;
class Job;
class Mutexes;
class Protected;
class Segment;

class Objects {
 public:
  Objects();
  ~Objects();
  // Makes what stands for freed segments and groups.
  void start(Job& job);
  // Before the job's memory goes: calls what before_end was given, closes segments that the program
  // did not free.
  void end();

  template <class T>
  T* keep(std::unique_ptr<T> object) {
    const std::lock_guard guard(mutex_);
    return shelf<T>().keep(std::move(*object));
  }
  template <class T>
  void discard(T* object) {
    const std::lock_guard guard(mutex_);
    shelf<T>().discard(object);
  }
  // Collective: frees the segment, and discards it unless that fails. `segment` may have been freed
  // before. `is_idle`: as of Segment::free.
  Status free(Segment* segment, bool is_idle = false);
  // A freed group stays while segments of it live: they know their members by it.
  void discard_if_unused(Group* group);

  // Called at the end of the job, by owner: memory of the program is among its segments.
  void before_end(const void* owner, std::function<void()> call);
  void forget(const void* owner);

  // A rank's part of a segment that the program allocated, at its address in the rank's process.
  struct Slice {
    uint64_t address;
    uint64_t bytes;
    Segment* segment;
  };
  // The slice of `rank` that holds `address`. False: none does. O(log slices), without a lock if
  // this thread asked for the rank lately and no segment came or went.
  bool find_address(Rank rank, uint64_t address, Slice* slice);
  // A segment of the program has come, or is about to go. With the mutex held.
  void segments_changed();

  // Freed groups whose memory may serve the next group of the same members. Each rank keeps those
  // that it freed last: others may keep others.
  void keep_group(std::unique_ptr<Group> group);
  // The one kept last for which fits(group) is true; null: none.
  std::unique_ptr<Group> take_group(const std::function<bool(const Group&)>& fits);
  void give_up_groups();

  std::vector<Group*> groups();  // those that are not freed

  // Of the lists of members of groups; of the tables of live segments. Not while another thread
  // makes or frees any.
  uint64_t group_bytes();
  uint64_t segment_table_bytes();
  // Pages that this rank keeps in the reserves of all groups.
  uint64_t kept_bytes();

  std::mutex& mutex() { return mutex_; }

 private:
  // Of one rank, made when first asked for, thrown away when a segment comes or goes. A thread
  // keeps those that it used last, so that it asks again without a lock.
  struct Slices {
    uint64_t version;
    Rank rank;
    std::vector<Slice> by_address;
  };
  template <class T>
  Shelf<T>& shelf() {
    return std::get<Shelf<T>>(shelves_);
  }
  std::shared_ptr<const Slices> slices_of(Rank rank);
  static constexpr size_t most_groups = 8;
  std::vector<std::unique_ptr<Group>>::iterator kept_group(
      const std::function<bool(const Group&)>& fits);

  std::mutex mutex_;
  std::tuple<Shelf<Segment>, Shelf<Group>, Shelf<Mutexes>, Shelf<Protected>> shelves_;
  std::vector<std::unique_ptr<Group>> groups_;  // kept; the one kept first comes first
  std::map<const void*, std::function<void()>> before_end_;
  std::atomic<uint64_t> version_;  // differs between jobs and between states of one job
  std::unordered_map<Rank, std::shared_ptr<const Slices>> lists_;  // all of the present version
  uint64_t listed_ = 0;                                            // slices in lists_

 public:
  // What src/window and src/capi keep of this job; null: nothing. Last, so that it goes first:
  // windows that the program did not free still call forget().
  std::shared_ptr<void> windows_;
};

}  // namespace skerry::job
