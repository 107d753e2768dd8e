// A member that leaves the job while others are in a collective of a group on several nodes, or
// come to one: how those find it. (On one node flags tell: flags.hpp.)
//
// The member waits until all that it sent has been applied. Then it says in its own memory, in each
// of its groups, from which call on nothing comes from it, and who leaves. Who waits for long reads
// that word where it is, and looks once more for the message: what it does not find now never
// comes. It writes the same into its own word, for those that wait for it.
//
// In a job that goes on without its dead the leaver waits for all others before it ends. So who
// waits for it in vain has it ended (Views::await_end_of). That is a death, and ends the call as
// each does.
//
// In the world's sweeps nobody looks, unless the job goes on: the leaver itself comes to one
// (Group::leave). So after another call has failed all members come to a meeting there
// (Group::apart).
//
// Calls that are no sweeps (one_way.hpp, ring.hpp) are counted, alike on all members: their
// messages may be under way while the sender is in the next call.
#pragma once

#include <cstdint>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::job {

class Segment;

// The error of a collective that lacks a member, since `leaver` leaves the job.
Status departed(Rank leaver);

class Departure {
 public:
  // The word lies at an offset of each member's slice of the group's area.
  void open(Segment& area, uint64_t at) {
    area_ = &area;
    at_ = at;
  }
  void begin_call() { ++calls_; }

  // From the present call (`now`), or the next one, this member takes part in none, since `leaver`
  // leaves the job. All that it sent in sweeps has arrived. What was told of an earlier call stays.
  void tell(Rank leaver, bool now);
  // Until a counter of this member's slice of `slots` is at least so much: a member of another node
  // adds to it. Errors: of the end of the job; invalid: `from` comes to no more calls.
  Status wait(Segment& slots, uint64_t counter, uint64_t at_least, Rank from) {
    return wait(slots, counter, at_least, from, true, false);
  }
  // The same of a counter of the area, in a sweep. `from_nodes`: as of Segment::wait_counter.
  Status wait_in_sweep(uint64_t counter, uint64_t at_least, Rank from, bool from_nodes) {
    return wait(*area_, counter, at_least, from, from_nodes, true);
  }
  // Who a member that was waited for says leaves the job; no_rank: nobody found one.
  Rank leaver() const { return leaver_; }
  // Reads the member's word. *leaver: nothing comes from it that is not there by now, since that
  // one leaves the job; no_rank: not so. Errors: of the request; of the end of the job.
  Status look_at(Rank member, bool in_sweep, Rank* leaver);

 private:
  Status wait(Segment& slots, uint64_t counter, uint64_t at_least, Rank from, bool from_nodes,
              bool in_sweep);

  Segment* area_ = nullptr;
  uint64_t at_ = 0;
  uint64_t calls_ = 0;
  Rank leaver_ = no_rank;
};

}  // namespace skerry::job
