// What handles of the program name: segments, groups and mutexes, each on a shelf of its kind, and
// which segment holds an address. Any threads; one mutex guards all of it, also which segments are
// freed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "job/address_index.hpp"
#include "job/shelf.hpp"

namespace skerry::job {

class Group;
class Job;
class Mutexes;
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

  Segment* keep(std::unique_ptr<Segment> segment);
  Group* keep(std::unique_ptr<Group> group);
  Mutexes* keep(std::unique_ptr<Mutexes> mutexes);
  void discard(Segment* segment);
  void discard(Group* group);
  void discard(Mutexes* mutexes);
  // A freed group stays while segments of it live: they know their members by it.
  void discard_if_unused(Group* group);

  // Called at the end of the job, by owner: memory of the program is among its segments.
  void before_end(const void* owner, std::function<void()> call);
  void forget(const void* owner);

  AddressIndex& address_index() { return address_index_; }
  // Of the lists of members of groups; of the tables of live segments. Not while another thread
  // makes or frees any.
  uint64_t group_bytes();
  uint64_t segment_table_bytes();

  std::mutex& mutex() { return mutex_; }
  std::shared_ptr<void> windows_;  // what src/window and src/capi keep of this job; null: nothing

 private:
  void list_slices(Rank rank, std::vector<AddressIndex::Slice>* slices);

  std::mutex mutex_;
  Shelf<Segment> segments_;
  Shelf<Group> groups_;
  Shelf<Mutexes> mutexes_;
  std::map<const void*, std::function<void()>> before_end_;
  AddressIndex address_index_;
};

}  // namespace skerry::job
