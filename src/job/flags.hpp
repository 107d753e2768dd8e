// Flags by which the members of a group on one node tell each other how far they are.
//
// The collectives of a group are cut into *steps*, which all its members count alike, from 1. In a
// step a member *posts*: it writes what it gives, then the number of the step. Others *await* that
// number, then read. A member's part of the group's area begins with
//
//   lines    one per step, by step modulo `lines`: the number, and room for short data, so that
//            one cache line brings both
//   places   one per step, by step modulo `places`, for longer data
//
// Who may overwrite what when: post of step s means that the member has read all that it wanted of
// the steps before s. So the line of step s, which was step s - lines's, may be written once all
// others have posted step s - lines + 1. The place may be once they have posted s - places + 1.
// next() waits for that. Most collectives are meetings: all await all, and then this is known
// without a look. Who only gives may be `lines` - 1 steps ahead, with longer data `places` - 1.
// Where ranks share cores, each turn of a rank gives or takes as many.
//
// A member that leaves the job writes so into all its lines, with the first step without it. Steps
// before that one are read as usual. Who finds that some leave and some do not does the same, for
// others may wait for it alone: `gone` tells which it is. (This part is not in the model.)
//
// In a job that goes on without its dead, one that died and has not posted a step never will. All
// who wait for it find the same, for what it posted stays. A member that finds it posts that
// itself, so that it is found by all who wait for that one. A member that gives the group up
// between calls is gone from the step after its last: others still come out of that one.
//
// Who sleeps says for whom in `waits_for`, and is counted in `asleep`, at the node's first member.
// Who posts looks at that count alone (job/waiting.hpp: why no wake-up is lost).
//
// The model: lab/models/flags.pml.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"

namespace skerry::job {

class Group;
class Job;

class Flags {
 public:
  static constexpr uint32_t lines = 64, places = 8;
  static constexpr uint64_t place_bytes = 4096;
  static constexpr uint64_t places_at = (1 + lines) * 64;
  static constexpr uint64_t part_bytes = places_at + places * place_bytes;

  // A member of the group on this node, and where its part of the area is mapped.
  struct Member {
    Rank rank;
    std::byte* part;
  };
  // In order of members; `own` is this rank's position. The parts are all zero.
  void open(Job& job, std::vector<Member> members, uint32_t own);
  uint32_t count() const { return static_cast<uint32_t>(members_.size()); }
  uint32_t own() const { return own_; }
  uint64_t step() const { return step_; }
  Rank rank_of(uint32_t member) const { return members_[member].rank; }
  std::byte* part(uint32_t member) const { return members_[member].part; }

  // Begins the next step: what this member writes from here on, up to `bytes`, is that step's.
  // *leaver: a member that left the job before, if it had to be waited for.
  Status next(uint64_t bytes, uint32_t* leaver) {
    ++step_;
    const uint32_t room = bytes <= sizeof Line::data ? lines : places;
    if (step_ - met_ < room) [[likely]]
      return {};
    return await_readers(step_ - room + 1, leaver);
  }
  // Where this step's data of a member lies; of others once it was awaited.
  std::byte* data(uint32_t member, uint64_t bytes) const {
    return bytes <= sizeof Line::data ? line(member, step_).data : place(member, step_);
  }
  // All places of a member, one behind the other: `places` x place_bytes.
  std::byte* all_places(uint32_t member) const { return place(member, 0); }

  void post();
  // Until the member has posted this step. *has_left: it left the job, in this step or before, and
  // posts nothing more. Errors: of the end of the job; peer_dead (it died before).
  Status await(uint32_t member, bool* has_left) {
    const Line& there = line(member, step_);
    if (there.step.load(std::memory_order_acquire) >= step_ &&
        there.left.load(std::memory_order_relaxed) == 0) [[likely]]
      return {};
    return await_long(member, has_left);
  }
  // All members are known to have posted this step.
  void note_met() { met_ = step_; }

  // The group whose members these are, where it stays.
  void set_group(const Group& group) { group_ = &group; }
  // Why a member posts nothing more.
  enum class Gone : uint32_t {
    together,  // all leave the job
    apart,     // `leaver` leaves it while others stay
    died,      // `leaver` died, or gave the group up since somebody did
  };
  // Posts that this member is gone from this step on, or from the next one on.
  void leave(Rank leaver, Gone why) { leave(leaver, why, step_); }
  void leave_from_next(Rank leaver, Gone why) { leave(leaver, why, step_ + 1); }
  // Of a member that has left: who it says leaves, and whether others stay.
  Rank leaver(uint32_t member) const {
    return sleep(member).leaver.load(std::memory_order_relaxed);
  }
  Gone why_gone(uint32_t member) const {
    return static_cast<Gone>(sleep(member).gone.load(std::memory_order_relaxed));
  }

 private:
  struct alignas(64) Line {
    std::atomic<uint64_t> step;  // that the owner posted last here; 0: none
    std::atomic<uint64_t> left;  // the first step that the owner is gone from; 0: none
    std::byte data[48];
  };
  static_assert(sizeof(Line) == 64);
  struct alignas(64) Sleep {
    std::atomic<uint32_t> asleep;     // of the first member's part: how many members sleep
    std::atomic<uint32_t> waits_for;  // the owner, before it sleeps: position of the member + 1
    std::atomic<int32_t> leaver;      // the owner, before it writes Line::left: who leaves
    std::atomic<uint32_t> gone;       // likewise: a Gone
  };
  static constexpr uint64_t lines_at = sizeof(Sleep);
  static_assert(lines_at + lines * sizeof(Line) <= places_at);

  Line& line(uint32_t member, uint64_t step) const {
    return reinterpret_cast<Line*>(members_[member].part + lines_at)[step % lines];
  }
  std::byte* place(uint32_t member, uint64_t step) const {
    return members_[member].part + places_at + step % places * place_bytes;
  }
  Sleep& sleep(uint32_t member) const {
    return *reinterpret_cast<Sleep*>(members_[member].part);
  }
  [[gnu::noinline]] Status await_readers(uint64_t step, uint32_t* leaver);
  [[gnu::noinline]] Status await_long(uint32_t member, bool* has_left);
  [[gnu::noinline]] void wake();
  void leave(Rank leaver, Gone why, uint64_t from);
  Status await_line(uint32_t member, uint64_t step);  // asleep only after a while

  Job* job_ = nullptr;
  const Group* group_ = nullptr;
  std::vector<Member> members_;
  uint32_t own_ = 0;
  uint64_t step_ = 0;  // the present one; equal on all members between collectives
  uint64_t met_ = 0;   // all members are known to have posted this one
};

}  // namespace skerry::job
