// A member that leaves the job while others are in a collective call that is no sweep: one_way.hpp,
// ring.hpp. There they do not meet. A sweep finds it by itself.
//
// The member says in its own memory from which call on nothing comes from it, and who leaves. Who
// waits for long for a message reads that word where it is. It writes the same into its own word,
// for those that wait for it. Then it goes to a meeting, where the one that leaves is
// (Group::apart).
//
// The calls in question are counted alike on all members.
#pragma once

#include <cstdint>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::job {

class Segment;

class Departure {
 public:
  // The word lies at an offset of each member's slice of the group's area.
  void open(Segment& area, uint64_t at) {
    area_ = &area;
    at_ = at;
  }
  void begin_call() { ++calls_; }

  // From the present call (`now`), or the next one, this member takes part in none, since `leaver`
  // leaves the job.
  void tell(Rank leaver, bool now);
  // Until a counter of this member's slice of `slots` is at least so much: a member of another node
  // adds to it. Errors: of the end of the job; invalid: `from` comes to no more calls.
  Status wait(Segment& slots, uint64_t counter, uint64_t at_least, Rank from);
  // Who a member that was waited for says leaves the job; no_rank: nobody found one.
  Rank leaver() const { return leaver_; }

 private:
  Status look_at(Rank member);

  Segment* area_ = nullptr;
  uint64_t at_ = 0;
  uint64_t calls_ = 0;
  Rank leaver_ = no_rank;
};

}  // namespace skerry::job
