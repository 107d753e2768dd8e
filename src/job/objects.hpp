// What handles of the program name: segments, groups and mutexes, each on a shelf of its kind, and
// which segment holds an address. Any threads; one mutex guards all of it, also which segments are
// freed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

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

 private:
  template <class T>
  Shelf<T>& shelf() {
    return std::get<Shelf<T>>(shelves_);
  }
  void list_slices(Rank rank, std::vector<AddressIndex::Slice>* slices);

  std::mutex mutex_;
  std::tuple<Shelf<Segment>, Shelf<Group>, Shelf<Mutexes>> shelves_;
  std::map<const void*, std::function<void()>> before_end_;
  AddressIndex address_index_;

 public:
  // What src/window and src/capi keep of this job; null: nothing. Last, so that it goes first:
  // windows that the program did not free still call forget().
  std::shared_ptr<void> windows_;
};

}  // namespace skerry::job
