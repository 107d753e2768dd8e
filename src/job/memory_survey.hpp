// What the members of a group tell each other before any of them allocates a segment, and from it
// whether the machines have room for all of it.
#pragma once

#include <cstdint>

#include "core/pure/status.hpp"

namespace skerry::job {

class Job;
class Group;

// Whole pages that hold `bytes`; UINT64_MAX if that many can not be counted.
uint64_t whole_pages(uint64_t bytes);

// Of all members, merged: its size does not depend on how many they are.
struct MemorySurvey {
  // Collective over the group. `bytes`: of this member's slice; `taken`: what of it its machine
  // gives at once.
  static Status ask(Group& group, uint64_t bytes, uint64_t taken, MemorySurvey* all);
  // Is there room for what this member takes, beside what the others on its machine do? Virtual
  // nodes share one machine: what fits each of them alone may be too much for all. (Of several
  // machines without virtual nodes, the nodes count their own members alone.) `local_bytes`: of
  // this node's slices, `beside_bytes`: of its part of the segment beside those. Errors: no_memory.
  Status check_room(const Job& job, uint64_t bytes, uint64_t local_bytes,
                    uint64_t beside_bytes) const;

  uint64_t least_bytes, most_bytes;
  // The bytes that more than half of the members ask for, if there is such a number (the majority
  // vote of Boyer and Moore, merged: each vote for another one takes one vote away).
  uint64_t usual_bytes;
  int64_t votes;
  uint64_t generation;  // the lowest member's; 0 from the others
  // Of what their machines' memory gives: whole pages that all take together, UINT64_MAX: as many
  // or more; the machines, equal if all share one; and the cgroup of those that take any: an odd
  // hash, or one of these two.
  uint64_t taken_bytes;
  uint64_t lowest_machine, highest_machine;
  uint64_t cgroup;
  uint64_t virtual_nodes;  // not 0: a machine may have several
  static constexpr uint64_t nobody_takes = 0, several_cgroups = 2;

  void merge(const MemorySurvey& from);
  void add_taken(uint64_t bytes, uint64_t of_cgroup);
};

}  // namespace skerry::job
