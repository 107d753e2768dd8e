// Collectives of the members that a group has on one node, in shared memory.
//
// Short ones take a step of flags: every member gives, every member reads what all gave. In a large
// group the first member reads, and the others read what it found: as many wake-ups as members,
// where each reading each could take the square of that.
//
// Long ones go through *boards* in pieces. To reduce, each member copies what it gives to its
// board, except for its own slice of the piece. It combines that slice of what all gave, and takes
// the others' slices of the result from their boards. So all cores work on each piece. One meeting
// a piece is enough: when the members meet for piece t, all slices of piece t - 1 are ready. A
// board has two halves for what is given, and two quarters for results.
//
// Two members that have a core each read from `direct_bytes` on where it lies what is broadcast,
// gathered or reduced to a root. The kernel makes one copy where boards take two. Who gives says
// where it lies, and comes out when the other has read it. If one of them could not, both learn
// that, and use boards from then on. (Containers may forbid such reads, and some kinds of memory
// are for its own process alone.)
//
// When boards may be overwritten: each long collective ends with a meeting after the last read of
// what others gave. Its results may still be read until the next meeting. Members write results
// after a meeting alone.
//
// Every sum is taken in the order of members.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/pure/status.hpp"
#include "job/flags.hpp"
#include "job/reduction.hpp"

namespace skerry::job {

class Group;
class Segment;

class NodeCollectives {
 public:
  explicit NodeCollectives(Group& group) : group_(&group) {}
  void set_group(Group& group) {  // that has moved to where it stays
    group_ = &group;
    flags_.set_group(group);
  }
  // `parts`: as of Flags::open.
  void open(std::vector<Flags::Member> members, uint32_t own);
  Status close();
  uint32_t count() const { return flags_.count(); }
  Rank rank_of(uint32_t member) const { return flags_.rank_of(member); }
  // Makes the boards when first called. Collective over the whole group, before anything long.
  // `again`: also if there was no memory for them before.
  Status prepare(bool again = false);
  static constexpr uint64_t board_bytes = 384 << 10;
  Segment* boards() { return board_; }  // null: none

  // Positions are those on this node. Errors of all: invalid, if a member leaves the job meanwhile;
  // of the end of the job; no_memory never.
  Status barrier();
  // Returns at a root as soon as its data is safe, or read by all.
  Status broadcast(std::byte* buffer, uint64_t bytes, uint32_t root);
  // `root` null: all get the result.
  Status reduce(const Reduction& how, std::byte* buffer, uint64_t bytes, const uint32_t* root);
  // take(member, data, from, bytes): bytes [from, from + bytes) of what the member gave, from all
  // members, piece by piece.
  using Take = std::function<void(uint32_t member, const std::byte* data, uint64_t from,
                                  uint64_t bytes)>;
  Status gather(const std::byte* mine, uint64_t bytes, const Take& take);
  // place(member): where all that the member gave goes; where the own may lie already.
  using Place = std::function<std::byte*(uint32_t member)>;
  Status gather_to(const std::byte* mine, uint64_t bytes, const Place& place);
  // All leave the job. Errors: invalid, on all, if some do not.
  Status leave();
  // A member died, and this one has been told: every call fails.
  bool has_died() const { return !died_.ok(); }
  // Between calls: this member takes part in no more steps. Others still get out of its last one,
  // in which it has posted all. Does nothing if it has given up already.
  void give_up(const Status& why);
  // From now on all calls of this member answer this.
  void end(const Status& why) {
    died_ = why;
    leaver_ = own();
  }
  // Between calls: this member takes part in no more of them, since `leaver` leaves the job. Those
  // that wait for it here hear of that.
  void part_with(Rank leaver);
  // no_rank: nobody has found one.
  Rank leaver() const { return leaver_ == none ? no_rank : flags_.leaver(leaver_); }

  static constexpr uint64_t short_bytes = Flags::place_bytes;
  // From here on a system call takes less than a second copy. Up to there in a broadcast and a
  // reduction to a root: through boards both members work at a time.
  static constexpr uint64_t direct_bytes = 8 << 10, most_direct_broadcast = 1 << 20,
                            most_direct_reduce = 512 << 10;

 private:
  // Up to so many members read each other; in larger groups the first reads for all.
  static constexpr uint32_t most_direct = 8;
  // What a member gives to a piece, at most. Two such halves are its board's first part.
  static constexpr uint64_t half_bytes = 128 << 10;
  static_assert(board_bytes == 3 * half_bytes);

  bool is_direct() const { return flags_.count() <= most_direct; }
  uint32_t own() const { return flags_.own(); }
  // `bytes`: that this member gives in the step, through its line or place.
  Status next(uint64_t bytes = 0) {
    if (leaver_ == none) [[likely]] {
      Status status = flags_.next(bytes, &leaver_);
      if (!status.ok()) [[unlikely]]
        return fall(std::move(status));
      if (leaver_ == none) [[likely]]
        return {};
      if (is_ended(leaver_)) return fall_with(leaver_);
    }
    return check_together();
  }
  // *has_left as of Flags::await. A death ends the wait with its error.
  Status await(uint32_t member, bool* has_left);
  Status await(uint32_t member);
  Status await_all();
  // Posts this step, and waits until all have.
  Status meet();
  Status check_together() const;
  [[gnu::cold]] Status fall(Status why);
  // Of a member that is gone: somebody died, or will (Departure).
  bool is_ended(uint32_t member) const;
  [[gnu::cold]] Status fall_with(uint32_t member);
  bool note_death(const Status& why, Rank* dead);
  Status reduce_short(const Reduction& how, std::byte* buffer, uint64_t bytes,
                      const uint32_t* root);
  void combine_places(const Reduction& how, const std::byte* mine, std::byte* out,
                      uint64_t bytes) const;
  Status reduce_long(const Reduction& how, std::byte* buffer, uint64_t bytes, const uint32_t* root);
  Status broadcast_long(std::byte* buffer, uint64_t bytes, uint32_t root);

  // Of a group of two. A word in this step's line; what the other's word says, or what lies there
  // in its process.
  uint32_t other() const { return 1 - own(); }
  void write_own(uint64_t word);
  uint64_t read_other() const;
  bool read_other(void* to, uint64_t bytes) const;
  Status try_direct();
  // Whether this call goes without boards: the same on both.
  Status begin_direct(uint64_t bytes, bool* is_direct);
  // `waits`: until the other has read too, and tells whether it could.
  Status end_direct(bool could, bool waits, bool* done);
  Status broadcast_direct(std::byte* buffer, uint64_t bytes, uint32_t root, bool* done);
  // The root reads, and combines.
  Status reduce_direct(const Reduction& how, std::byte* buffer, uint64_t bytes, uint32_t root,
                       bool* done);
  Status gather_direct(const std::byte* mine, uint64_t bytes, const Place& place, bool* done);

  // If there is no memory for boards the places serve as small ones.
  Status begin_long();
  Status end_long();
  uint64_t half() const { return board_ != nullptr ? half_bytes : 2 * Flags::place_bytes; }
  std::byte* board(uint32_t member) const;
  std::byte* given(uint32_t member, uint64_t piece) const {
    return board(member) + piece % 2 * half();
  }
  std::byte* result(uint32_t member, uint64_t piece) const {
    return board(member) + 2 * half() + piece % 2 * (half() / 2);
  }

  Group* group_;
  Flags flags_;
  Segment* board_ = nullptr;  // null: none
  bool board_refused_ = false;
  enum class Direct : uint8_t { untried, yes, no };
  Direct direct_ = Direct::untried;
  static constexpr uint32_t none = UINT32_MAX;
  uint32_t leaver_ = none;  // position of a member that says who left; none can follow
  Status died_;             // not ok: since a member died, and leaver_ is this one
};

}  // namespace skerry::job
