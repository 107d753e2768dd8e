// Collectives that go on while the program computes (the _nb forms). For each group that uses them
// a thread makes them, in the order in which they were begun, on a *twin*: a group of its own with
// the same members. So they wait for none of the program's other collectives, and those wait for
// none of them. One thread each, for members may begin collectives of different groups in different
// orders.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "core/pure/status.hpp"
#include "core/thread.hpp"
#include "origin/description.hpp"

namespace skerry::job {

class Group;
class Job;

// Of one job. Any threads.
class Background {
 public:
  explicit Background(Job& job) : job_(job) {}
  ~Background() { (void)finish(); }

  using What = std::function<Status(Group& twin)>;
  // Begins it; what it names stays as it is until it is done. Collective over the group: the first
  // one of a group makes the twin. Errors: of that; no_memory (there is no thread to be had).
  Status begin(Group& group, What what, origin::Handle* handle);
  // No other handle has this bit.
  static bool names(origin::Handle handle) { return handle >> 63 != 0; }
  // Until it is done; sets *handle to 0. Errors: its own; invalid (it is not under way).
  Status wait(origin::Handle* handle);
  Status test(origin::Handle* handle, bool* done);

  // The group goes: what was begun is done first. Collective.
  Status free_twin(Group& group);
  // This rank leaves the job, and begins nothing more. Each twin leaves it (Group::part_with) when
  // what was begun is done: others may wait for this rank there.
  void leave();
  bool is_twin(const Group& group);
  // Until what was begun is done. Errors: the first of those that nobody waited for.
  Status finish();

 private:
  struct Line {  // of one group
    Group* twin = nullptr;
    std::deque<std::pair<origin::Handle, What>> begun;  // the first one is being made
    bool ends = false;    // the thread does, when all of `begun` is done
    Condition changed;
    Thread thread;
  };
  struct Result {
    bool is_done = false;
    Status status;
  };
  void run(Line& line);
  void end(Lock& lock, Line& line);
  Status take(std::map<origin::Handle, Result>::iterator one, origin::Handle* handle);

  Job& job_;
  // Guards all of it. Held by none that makes a collective, nor before any other mutex but the
  // engine's.
  Mutex mutex_;
  Condition done_;
  bool leaves_ = false;  // the job
  std::map<const Group*, std::unique_ptr<Line>> lines_;
  uint64_t last_ = 0;
  std::map<origin::Handle, Result> results_;  // of what was begun and not waited for
};

}  // namespace skerry::job
