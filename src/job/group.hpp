// Groups and their collectives. If all members are on one node, NodeCollectives does them in shared
// memory. Otherwise long ones go round a ring of nodes (ring.hpp). Short ones are one-sided
// operations over a tree with fixed partners
// (docs/design/0006-collectives-in-two-movements.md).
//
// The tree. The members of a node hang below the first of them in a heap of fan-out 4. These node
// leaders form a heap of fan-out 3 over the nodes, often with two tops that exchange what they
// gathered. A level costs two crossings, a second top one: up to four nodes need two crossings, up
// to eight three. So a member has at most 7 children, and a leader at most 4 partners on other
// nodes. A cap of one connection per process is enough.
//
// One movement serves all these: the *sweep*. For each chunk, contributions are combined up
// the tree, then the result goes down. Chunks travel in bursts of `depth`, up and then down,
// without credits. A member sends a burst up only after it has taken the one before from above. A
// parent sends one down only after all its children sent it up. So a buffer of `depth` chunks per
// edge and direction is never overwritten before it was read. Between two tops it is twice as
// large, for a top may send its next burst before the other has read the last. It does not send the
// burst after that: for it, it needs the other's next.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "core/pure/element.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "job/addresses.hpp"
#include "job/bootstrap/exchange.hpp"
#include "job/departure.hpp"
#include "job/node_collectives.hpp"
#include "job/one_way.hpp"
#include "job/reduction.hpp"
#include "job/ring.hpp"
#include "job/reserve.hpp"
#include "job/segment.hpp"
#include "job/survivors.hpp"
#include "placement/members.hpp"

namespace skerry::job {

class Job;

// Of a number that names one: any operation but replace and no_op. Errors: invalid (none, or none
// of this type).
Status check_reduction(ElementType type, int reduction);

class Group {
 public:
  // Without its area, which create_world, split and create open.
  Group(Job& job, placement::Members members);
  // The world: collective over all ranks through the bootstrap.
  static Status create_world(Job& job, Group** group);
  // Collective over the parent; *group null for members that join none. A freed group of the same
  // members, if it left no segments, is used again with all that it keeps.
  static Status split(Group& parent, int color, int key, Group** group);
  // Collective over the exchange's participants only, of which the one at position i is rank
  // ranks[i]; they all get the same answer.
  static Status create(Job& job, std::span<const Rank> ranks, const Exchange& exchange,
                       Group** group);
  Status free();
  // What stands for every freed group of the job.
  static std::unique_ptr<Group> stand_in(Job& job);

  Job& job() const { return *job_; }
  int32_t size() const { return members_.size(); }
  bool is_on_one_node() const { return nodes_ == 1; }
  int32_t index() const { return index_; }  // own position
  // -1 if not a member.
  int32_t index_of(Rank rank) const {
    return is_world_ ? (rank >= 0 && rank < members_.size() ? rank : -1) : members_.index_of(rank);
  }
  // no_rank if out of range.
  Rank rank_of(int32_t index) const { return members_.rank_of(index); }
  Rank lowest() const { return members_.lowest(); }
  // The members on a node, ascending by rank: how many, and how many of them come before `rank`.
  struct OnNode {
    int32_t count = 0;
    int32_t before = 0;
  };
  OnNode on_node(NodeId node, Rank rank) const;
  std::vector<Rank> members_on(NodeId node) const;  // ascending
  uint64_t member_bytes() const { return members_.bytes(); }
  bool is_freed() const { return freed_; }
  int32_t segments() const { return segments_; }  // live ones that were allocated in it
  void forget_segment() { --segments_; }          // one is the group's own

  // What another room keeps for the group, segments of it among them.
  struct Kept {
    virtual ~Kept() = default;
    // All members are past their last use of it: gives up what nothing else needs.
    virtual void group_freed() = 0;
  };
  std::unique_ptr<Kept> kept_;
  Reserve reserve_;      // of its segments
  Survivors survivors_;  // when members die, in a job that goes on
  // Its memory goes: of a freed group, also one that the job kept for one of the same members.
  Status close_area();

  Status barrier();
  // The last collective of the world: a barrier that meets only its like. Errors: invalid, on all
  // members, if some are in another collective meanwhile. Not in a job that goes on.
  Status leave();
  // From now on this member is in no collective here, since `leaver` leaves the job: who waits for
  // it finds that, when all that it sent has arrived. `now`: it drops out of the present one, which
  // is no sweep.
  void part_with(Rank leaver, bool now = false);
  Status sync();
  Status broadcast(void* buffer, uint64_t bytes, Rank root);
  // The type has the operation (check_reduction). `root` no_rank: all get the result.
  Status reduce(ElementType type, Operation reduction, void* buffer, uint64_t count, Rank root);
  Status reduce(const Reduction& how, std::byte* buffer, uint64_t bytes, Rank root);
  Status allgather(const void* in, uint64_t bytes, void* out);
  // What a member has for each other one, or gets from it, by position.
  struct Parts {
    uint64_t each;          // bytes, of all alike
    const uint64_t* sizes;  // null: all alike, one behind the other
    const uint64_t* offsets;
    uint64_t bytes(int32_t i) const { return sizes == nullptr ? each : sizes[i]; }
    uint64_t offset(int32_t i) const {
      return sizes == nullptr ? each * static_cast<uint64_t>(i) : offsets[i];
    }
  };
  // Errors also: no_memory and unsupported (too large a group), on all members.
  Status exchange(const Parts& in, const std::byte* from, const Parts& out, std::byte* to);
  // Of count elements for each member, this one's go to `out`.
  Status reduce_scatter(ElementType type, Operation reduction, const std::byte* in, std::byte* out,
                        uint64_t count);
  // Over the members before this one, and itself if inclusive. In place.
  Status scan(ElementType type, Operation reduction, std::byte* buffer, uint64_t count,
              bool inclusive);
  // All members learn the first failure in member order: equal answers. Collective.
  Status agree(const Status& mine);
  // The second half of agree: `first` is the position of the first member that failed, or size().
  // Collective; every member gives the same.
  Status explain(int32_t first, const Status& mine);
  // Merges what all members give, by merge(T* into, const T& from) in some order; all get the same.
  // T is plain data of at most 4 KiB. Collective.
  template <class T, class Merge>
  Status combine(T* value, Merge&& merge) {
    static_assert(is_plain<T> && sizeof(T) <= NodeCollectives::short_bytes);
    return combine_bytes(value, sizeof(T), [&](std::byte* into, const std::byte* from) {
      merge(reinterpret_cast<T*>(into), *reinterpret_cast<const T*>(from));
    });
  }
  // What the members [from, to) give passes by in order of members: take(std::span<const T> values,
  // int32_t member), the first of them of `member`. Nothing of it is kept. T as of combine.
  // Collective; the others give nothing.
  template <class T, class Take>
  Status collect(const T& mine, int32_t from, int32_t to, Take&& take) {
    static_assert(is_plain<T> && sizeof(T) <= NodeCollectives::short_bytes);
    return gather(&mine, sizeof(T), from, to, sizeof(T),
                  [&](const std::byte* data, uint64_t at, uint64_t bytes) {
                    take(std::span(reinterpret_cast<const T*>(data), bytes / sizeof(T)),
                         from + static_cast<int32_t>(at / sizeof(T)));
                  });
  }

 private:
  // Bytes of a message lie where any such type may.
  template <class T>
  static constexpr bool is_plain = std::is_trivially_copyable_v<T> && alignof(T) <= 8;
  static constexpr uint32_t max_children = 7;
  static constexpr uint32_t depth = 2;
  static constexpr uint64_t slot_bytes = 32768;  // one message: its head (8 bytes,
                                                 // collectives.cpp), then data from byte 8
  static constexpr uint64_t chunk_bytes = slot_bytes - 64;
  // A member's area: its part of the node's flags. In groups of several nodes counters follow, and
  // places for the messages from above, from each child, and at one of two tops from the other.
  static constexpr uint64_t counters_at = Flags::part_bytes;
  static constexpr uint64_t up_counter(uint64_t child) { return counters_at + 8 * child; }
  static constexpr uint64_t down_counter = counters_at + 8 * max_children;
  static constexpr uint64_t counters_bytes = counters_at + 256;
  static constexpr uint64_t gone_at = counters_at + 64;   // Departure's word
  static constexpr uint64_t said_at = counters_at + 128;  // Survivors::Said
  static_assert(down_counter + 8 <= gone_at && gone_at + 8 <= said_at &&
                said_at + sizeof(Survivors::Said) <= counters_bytes);
  static constexpr uint64_t down_data(uint64_t chunk) {
    return counters_bytes + chunk % depth * slot_bytes;
  }
  static constexpr uint64_t up_data(uint64_t child, uint64_t chunk) {
    return counters_bytes + ((1 + child) * depth + chunk % depth) * slot_bytes;
  }
  static constexpr uint64_t top_data(uint64_t children, uint64_t chunk) {
    return up_data(children, 0) + chunk % (2 * depth) * slot_bytes;
  }

  // Takes [from, from + bytes) of the result.
  using Deliver = std::function<void(const std::byte* chunk, uint64_t from, uint64_t bytes)>;
  struct Sweep {
    uint64_t bytes = 0;
    // Contribution of this member for [from, from + bytes) into `chunk`; returns false if it has
    // none (the subtree may still).
    std::function<bool(std::byte* chunk, uint64_t from, uint64_t bytes)> contribute;
    std::function<void(std::byte* into, const std::byte* from, uint64_t bytes)> combine;
    Deliver deliver;      // null: the result is not wanted here
    uint64_t unit = 1;    // chunks hold whole elements of this many bytes
    bool leaves = false;   // the caller leaves the job
    Rank leaver = no_rank;  // known to leave, by one with no part in the call the others are in
    bool is_half = false;  // of a call that Survivors settles
  };
  // Members [first, end) give `bytes` each; all get them, one behind the other, whole units at a
  // time.
  Status gather(const void* mine, uint64_t bytes, int32_t first, int32_t end, uint64_t unit,
                Deliver deliver);
  Status combine_bytes(void* value, uint64_t bytes,
                       const std::function<void(std::byte*, const std::byte*)>& merge);
  // Of a group on several nodes: so many bytes go round a ring, `rounds` times.
  bool is_long(uint64_t bytes, int32_t rounds = 1) const {
    constexpr uint64_t least = 64 << 10, least_by_node = 8 << 10;
    return bytes >= least && bytes / least_by_node >= static_cast<uint64_t>(nodes_ * rounds);
  }
  // *ready: they may.
  Status begin_long(bool* ready);
  // The same of a broadcast or a reduction to a root of so many bytes, if they are enough.
  Status begin_along(uint64_t bytes, bool* ready);
  // Of a group on several nodes: a short one that goes one way. *way null: it may not.
  Status begin_one_way(uint64_t bytes, OneWay** way);
  // `what` is the movement of one that is no sweep. A member that leaves meanwhile is found.
  Status apart(uint64_t bytes, const std::function<Status()>& what);
  // What came for a part. `replaces`: it is the part from then on, and may be received there.
  using TakePart = std::function<void(std::byte* part, const std::byte* came, uint64_t bytes)>;
  Status pass_parts(std::byte* base, uint64_t bytes, uint64_t unit, int32_t first,
                    const TakePart& take, bool replaces);
  // `sum`: what this member gives, `bytes` for each; is overwritten.
  Status scatter_by_ring(const Reduction& how, std::byte* sum, std::byte* out, uint64_t bytes);
  Status gather_by_ring(const std::byte* mine, uint64_t bytes, std::byte* out);
  template <class What>
  Status in_node(uint64_t bytes, What&& what) {
    const memory::CallSpan call(counted(), memory::SpanKind::collective, no_rank, bytes);
    return what();
  }
  memory::Spans* counted();  // one more collective call; where it is recorded
  Status sweep(const Sweep& what);
  Status join_tops(const Sweep& what, std::byte* mine, std::byte* theirs) const;
  Status send_up(const Sweep& what, std::byte* message, uint64_t s, uint64_t from, uint64_t bytes);
  // Returns how large the areas of this node's members are.
  std::map<Rank, uint64_t> build_tree();
  Status send(Rank rank, uint64_t offset, std::span<const std::byte> data, uint64_t counter);
  struct Sender {
    Rank rank;
    bool is_elsewhere;  // on another node
  };
  // *is_late: it has not come, and what is known goes without it.
  Status receive(const Sweep& what, uint64_t counter, uint64_t at_least, Sender from,
                 bool* is_late);
  Status open_area(SegmentId id);
  static Group* keep(std::unique_ptr<Group> group);
  static std::unique_ptr<Group> use_again(std::unique_ptr<Group> kept, bool all_keep,
                                          const placement::Members& members);

  Job* job_;
  bool is_world_ = false;
  bool ends_by_leave_ = false;  // who leaves the job comes to leave(), which is a sweep
  bool freed_ = false;
  placement::Members members_;
  int32_t index_;
  // How it was split off, so that the next like it finds what it left.
  struct Origin {
    uint64_t parent = 0;  // the id of its area; 0: it was not split off
    int32_t color = 0, key = 0;
    friend bool operator==(const Origin&, const Origin&) = default;
  };
  Origin origin_;
  Addresses addresses_;          // of its segments
  Segment* area_ = nullptr;      // null: not open
  int32_t segments_ = 0;         // live ones, written by Segment
  int32_t nodes_ = 0;            // with members
  NodeCollectives node_;         // of this node's members
  std::unique_ptr<Departure> departure_ = std::make_unique<Departure>();
  Ring ring_;                    // of several nodes' first members
  std::array<OneWay, 3> one_way_{OneWay(OneWay::Kind::tiny), OneWay(OneWay::Kind::small),
                                 OneWay(OneWay::Kind::large)};  // likewise, by kind
  Rank parent_ = no_rank;        // no_rank: top of the tree
  Rank other_top_ = no_rank;     // at one of two tops
  bool is_first_top_ = false;    // of two
  uint64_t other_children_ = 0;  // the other top's
  uint64_t child_slot_ = 0;      // which of the parent's children this member is
  std::vector<Rank> children_;
  std::vector<Rank> children_to_;  // the same in the order of sending: leaders_below_ first
  int32_t leaders_below_ = 0;      // children on other nodes
  uint64_t chunk_ = 0;     // number of the next chunk, over all sweeps; equal on all members
  Rank leaver_ = no_rank;  // that left while others were in a collective: none can follow
  // Up to depth messages being combined; as many as were ever needed.
  std::vector<std::byte> buffer_;
  friend class Segment;
  friend class Survivors;
};

}  // namespace skerry::job
