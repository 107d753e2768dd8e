// Short broadcasts, and reductions to a root, between nodes. A member that only gives waits for
// nobody. The leaders of a group's nodes form a tree, whose top is the node of the root:
//   - up to 256 bytes and eight leaders all others hang below the top;
//   - over 1 KiB up to four leaders form a chain: its top sends once, which counts on a slow link;
//   - otherwise the tree is binomial.
// Where a member has a cap on connections each message of the top may evict one. So there the first
// kind is binomial too, and what is over 1 KiB goes round the ring (ring.hpp). Where ranks share
// cores each message of the top may wake a rank, which takes its core. So there tiny broadcasts go
// down a binomial tree.
//
// Each message has a slot and a counter at its recipient. Both belong to one *call* and one branch.
// A group has three kinds of slots, by the length of messages, made when it uses them. A slot is as
// long as the longest message of its kind. Places that followed from the bytes of each call would
// let one mistaken call spoil all later ones in silence.
//
// Slots need no credits: they serve `calls_` calls, and then a meeting of all members comes
// (Group::sweep), before which each has taken all that was sent to it. The calls are counted alike
// on all members. Which branches of a call bring a message depends on its root, so each leader
// counts how often it has taken one from a slot. There are as many calls as fit most_slots_bytes.
// Where ranks share cores the meeting is what makes them take turns: who sends or receives many
// messages in its turn needs few switches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "job/departure.hpp"
#include "job/leaders.hpp"
#include "job/reduction.hpp"
#include "memory/control.hpp"

namespace skerry::job {

class Group;
class Segment;

class OneWay {
 public:
  // Which messages: up to tiny_bytes, then up to short_bytes, then longer ones.
  enum class Kind : uint8_t { tiny, small, large };
  static constexpr uint64_t tiny_bytes = 256, short_bytes = 1024;
  static constexpr Kind kind_of(uint64_t bytes) {
    return bytes <= tiny_bytes ? Kind::tiny : bytes <= short_bytes ? Kind::small : Kind::large;
  }
  // Of a longer message between so many nodes.
  static constexpr uint64_t most_bytes(int32_t nodes) {
    return nodes <= most_in_chain ? most_chain_bytes : most_tree_bytes;
  }

  explicit OneWay(Kind kind) : kind_(kind) {}
  void set_departure(Departure& departure) { departure_ = &departure; }
  // Makes the slots when a few calls would have used them. `place`: of a leader; others: -1.
  // *ready: there is memory for them, on all nodes, and no cap that longer messages would meet.
  // Collective over the whole group.
  Status prepare(Group& group, int32_t place, const std::function<Leaders()>& leaders_of,
                 bool* ready);
  Status close();

  // All slots were used: a meeting comes before the next call.
  bool is_due() const { return call_ == calls_; }
  void note_meeting() { call_ = 0; }
  void begin() { ++call_; }

  // Collective over the leaders, after begin. `root`: a node. Errors: of the end of the job;
  // invalid: somebody who is waited for has left, and nothing was sent.
  Status broadcast(std::byte* buffer, uint64_t bytes, NodeId root);
  // The sum goes into the root's buffer, in an order that depends on the root alone. The other
  // buffers are spoilt.
  Status reduce(const Reduction& how, std::byte* buffer, uint64_t bytes, NodeId root);

 private:
  // So many calls first do without slots of their own: a group may live for one broadcast.
  static constexpr uint32_t calls_before = 3;
  // To send so many messages of so few bytes takes a leader less time than one crossing.
  static constexpr uint32_t most_below = 7;
  // Between two meetings, on all members alike. Of slots that do not fit there are the fewest.
  static constexpr uint32_t least_calls = 16, most_calls = 128;
  static constexpr uint64_t most_slots_bytes = 256 << 10;  // of a leader and a kind
  static constexpr int32_t most_in_chain = 4;
  static constexpr uint64_t most_chain_bytes = 8 << 10, most_tree_bytes = 4 << 10;

  uint32_t leaders() const { return static_cast<uint32_t>(all_.at.size()); }
  enum class Shape : uint8_t { flat, binomial, chain };
  // By places relative to the root's. A child may lie beyond the last place.
  class Tree {
   public:
    Tree(Shape shape, uint32_t leaders) : leaders_(leaders), shape_(shape) {}
    uint32_t branches_below(uint32_t at) const;
    uint32_t child(uint32_t at, uint32_t branch) const;
    uint32_t parent(uint32_t at) const;
    uint32_t branch_to(uint32_t at) const;  // from its parent

   private:
    uint32_t leaders_;
    Shape shape_;
  };
  // At most: `down_` has no more of them.
  uint32_t branches() const { return Tree(up_, leaders()).branches_below(0); }
  // And how many calls come between two meetings. The arguments are of any member.
  void choose_shapes(bool is_capped, bool is_crowded);
  uint64_t slots() const { return uint64_t{calls_} * branches(); }
  uint64_t slot_bytes() const;
  uint64_t messages_at() const { return memory::round_up(8 * slots(), 64); }
  uint64_t slot(uint32_t branch) const { return (call_ - 1) * uint64_t{branches()} + branch; }
  uint64_t counter(uint32_t branch) const { return 8 * slot(branch); }
  uint64_t message(uint32_t branch) const {
    return messages_at() + slot(branch) * slot_bytes();
  }
  // Places relative to that of a root, modulo their number.
  uint32_t relative_to(NodeId root) const;
  Rank leader_at(uint32_t relative, NodeId root) const;
  Status send(Rank to, uint32_t branch, const std::byte* data, uint64_t bytes);
  Status take(Rank from, uint32_t branch, const std::byte** data);

  Kind kind_;
  Departure* departure_ = nullptr;
  int32_t place_ = -1;        // -1: no leader
  Shape up_ = Shape::binomial, down_ = Shape::binomial;  // of reductions, of broadcasts
  Leaders all_;               // empty until the slots are made
  Segment* slots_ = nullptr;  // null: none
  bool refused_ = false, preparing_ = false;
  uint32_t unprepared_ = 0;      // calls that did without
  uint32_t calls_ = 0;           // between two meetings; written when the slots are made
  uint32_t call_ = 0;            // the present one since the last meeting, from 1
  std::vector<uint64_t> taken_;  // by slot: messages so far
};

}  // namespace skerry::job
