// What the members of a group tell each other before any of them allocates a segment, and from it
// whether the machines have room for all of it.
#pragma once

#include <cstdint>
#include <mutex>

#include "core/memory_limits.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::job {

class Job;
class Group;

// Whole pages that hold `bytes`; UINT64_MAX if that many can not be counted.
uint64_t whole_pages(uint64_t bytes);

// What the machine has room for, as one rank sees it. To read all limits takes some 200 us. They
// are read again when what was asked for since is a notable part of what was left, or after a
// moment. Any threads.
class MemoryRoom {
 public:
  // Errors: no_memory; before that, what the job's reserves keep on this machine is given back.
  Status check(Job& job, const MemoryAsk& ask);

 private:
  std::mutex mutex_;
  uint64_t left_bytes_ = 0;  // may be asked for without a look
  int64_t looked_ns_ = 0;
};

// Of all members, merged: its size does not depend on how many they are.
struct MemorySurvey {
  // Collective over the group. `bytes`: of this member's slice; `taken`: what of it its machine
  // gives at once; `ready`: the life of kept memory that this member has made ready for it, packed,
  // or 0.
  static Status ask(Group& group, uint64_t bytes, uint64_t taken, uint64_t ready,
                    MemorySurvey* all);
  // All members have made the same kept memory ready.
  bool all_are_ready() const { return lowest_ready == highest_ready && lowest_ready != 0; }
  // Is there room for what this member takes, beside what the others on its machine do? Virtual
  // nodes share one machine: what fits each of them alone may be too much for all. (Of several
  // machines without virtual nodes, the nodes count their own members alone.) `local_bytes`: of
  // this node's slices, `beside_bytes`: of its part of the segment beside those. Errors: no_memory.
  Status check_room(Job& job, uint64_t bytes, uint64_t local_bytes,
                    uint64_t beside_bytes) const;

  uint64_t least_bytes, most_bytes;
  // The bytes that more than half of the members ask for, if there is such a number. It is the
  // majority vote of Boyer and Moore, merged: each vote for another number takes one vote away.
  uint64_t usual_bytes;
  int64_t votes;
  uint64_t generation;  // the lowest member's, unless it is ready; 0 from the others
  uint64_t lowest_ready, highest_ready;
  // Of what their machines' memory gives: whole pages that all take together (UINT64_MAX: as many
  // or more), and the machines, equal if all share one. Then the cgroup of those that take any: an
  // odd hash, or one of these two.
  uint64_t taken_bytes;
  uint64_t lowest_machine, highest_machine;
  uint64_t cgroup;
  uint64_t virtual_nodes;  // not 0: a machine may have several
  static constexpr uint64_t nobody_takes = 0, several_cgroups = 2;
  // Of groups of at most so many: all that the members ask for, by position.
  static constexpr int32_t most_listed = 16;
  uint64_t bytes_of[most_listed];

  void merge(const MemorySurvey& from);
  void add_taken(uint64_t bytes, uint64_t of_cgroup);
};

}  // namespace skerry::job
