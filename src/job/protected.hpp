// Memory of a program that outlives deaths, in a job that goes on without its dead. What the
// members of a group have added becomes the *state* to go back to. Of its bytes each member keeps
// two copies in its slice of a segment, and two in that of its partner, a member on another node.
// They alternate, so that the last state stays whole until the next one is. Tiles that differ from
// the copy before the last are written and sent. An agreement makes the new state the valid one:
// on all members, or on none.
//
// After a death the group is refilled, and each copy comes from its owner's node if that lives,
// otherwise from the partner's. docs/design/0058-going-on-without-the-dead.md has the reasons.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::job {

class Group;
class Segment;

class Protected {
 public:
  // Of a spare `group` is its world. `distance`: partners are on the node so much further in the
  // group; 0: none.
  Protected(Group& group, int distance);

  // Which stands for freed ones if the program has freed it.
  Group& group() const;
  void* group_handle() const { return group_; }  // also of one that the program has freed
  int64_t step() const { return step_; }         // of the last state; -1: there is none
  int32_t places() const { return places_; }     // members that the group had which saved it
  uint64_t bytes() const { return bytes_; }      // of each of them
  int32_t recoveries() const { return recoveries_; }  // by next(), so far

  // Memory of the program, which stays where it is until forget() or free().
  void add(std::span<std::byte> memory) { parts_.push_back(memory); }
  void forget() { parts_.clear(); }

  // What was added becomes the state. On a host that is drained it may end the process. Collective.
  // Errors: peer_dead, invalid (members give different steps or sizes; no partner), no_memory.
  Status save(int64_t step);
  // The group is that of those that live, with spares in the places of the dead, and read() has the
  // last state. Collective over those that live. Errors: peer_dead (the state is lost, or the job
  // is over), timeout, no_memory.
  Status recover(int64_t timeout_ns);
  // Of what the member at position `place` had saved. Errors: invalid, peer_dead.
  Status read(int32_t place, uint64_t offset, std::span<std::byte> to) const;

  // What next() calls to take the state if fewer members live than have saved it. Null: that is an
  // error.
  void set_divide(std::function<Status()> divide) { divide_ = std::move(divide); }
  // The loop: from step 0 on, and after its end again. Sets *step to the one to be done now; to
  // `steps` at the end. `has_died`: a death has ended the work on the last one. Collective. Errors
  // end the loop: peer_dead (what cannot be mended), invalid (`steps` or `every` differ among the
  // calls of the loop or among members), those of save(), recover() and the divide.
  Status next(uint64_t steps, uint64_t every, bool has_died, uint64_t* step);
  void end_loop() { is_running_ = false; }

  // Collective over the group; not if the program has freed that one. Copies of a group in which
  // somebody died stay in memory until the job ends.
  Status free();

 private:
  struct Place {
    Rank rank = no_rank;  // no_rank: there is none
    uint64_t offset = 0;
  };
  struct Source {
    Place own, partner;
  };
  // Two copies of each member's bytes, over one group.
  struct Copies {
    uint64_t begin() const { return static_cast<uint64_t>(slot) * room; }
    uint64_t bytes = 0, room = 0;  // of each copy; with what keeps the next one aligned
    size_t me = 0;
    std::vector<Source> sources;  // of each member
    Segment* segment = nullptr;
    int slot = 0;               // of the last state
    bool is_torn = false;       // the other slot is neither of the states before
    bool is_abandoned = false;  // somebody of its group has died
  };
  // Alike on all members of a group.
  struct Has {
    int64_t number, step;
    uint64_t bytes;
    int64_t places;
    int64_t before_loop;
  };

  // What the members of a group must have in common when they save.
  struct Terms {
    uint64_t bytes;
    int64_t step;
    uint64_t steps, every;  // of the loop; 0: none is running
    bool operator==(const Terms&) const = default;
  };

  Status check_terms(const Terms& mine) const;
  Status partners(std::vector<int32_t>* found) const;
  Status make_copies(uint64_t length, std::shared_ptr<Copies>* made) const;
  Status write(Copies& copies, int into, bool everything) const;
  Status agree(const Status& mine);
  Status part() const;
  Rank leader_of(const Place& place) const;
  Status lost_nodes(std::vector<NodeId>* lost) const;
  Status bring_back(bool* is_lost);
  Status give(std::span<const Rank> holders, std::span<const NodeId> lost, const Has& last,
              int32_t* lost_place) const;
  Status go_back(bool* is_lost);
  Status take(bool* is_lost);

  void* group_;  // its handle
  int distance_;
  std::vector<std::span<std::byte>> parts_;
  std::function<Status()> divide_;
  int64_t step_ = -1, number_ = 0;  // of the last state; how many there were
  uint64_t bytes_ = 0;
  int32_t places_ = 0;
  std::shared_ptr<Copies> copies_;  // over group_; null: not made yet
  std::shared_ptr<Copies> state_;   // that has the last state; null: this rank has no part in it
  Segment* held_ = nullptr;   // the state over group_, as recover() has brought it; null: not since
  std::vector<Rank> leaving_;  // as of the last agreement
  bool may_grow_ = false;      // likewise: spares wait for places of the dead
  uint64_t at_ = 0;            // the loop's step
  uint64_t steps_ = 0, every_ = 0;  // as the loop's first call has given them
  bool is_running_ = false;    // the loop is
  int64_t before_loop_ = 0;    // so many states there were when the loop began
  bool is_to_join_;            // a spare, over its own world: it has not come to the others' group
  int32_t recoveries_ = 0;
};

}  // namespace skerry::job
