// Short broadcasts, and reductions to a root, between nodes. A member that only gives waits for
// nobody. The leaders of a group's nodes form a tree, whose top is the node of the root:
//   - up to 256 bytes and eight leaders all others hang below the top;
//   - over 1 KiB up to four leaders form a chain: its top sends once, which counts on a slow link;
//   - otherwise the tree is binomial.
// Where a member has a cap on connections each message of the top may evict one. So there the first
// kind is binomial too, and what is over 1 KiB goes round the ring (ring.hpp).
//
// Each message has a slot and a counter at its recipient. Both belong to one *call* and one branch.
// A group has two kinds of slots, for messages of up to 1 KiB and for longer ones: most groups need
// the small ones alone.
//
// Slots need no credits: they serve `most_calls` calls, and then a meeting of all members comes
// (Group::sweep), before which each has taken all that was sent to it. The calls are counted alike
// on all members. Which branches of a call bring a message depends on its root, so each leader
// counts how often it has taken one from a slot.
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
  static constexpr uint64_t short_bytes = 1024;  // of a message
  static constexpr uint32_t most_calls = 16;     // between two meetings
  // Of a longer message between so many nodes.
  static constexpr uint64_t most_bytes(int32_t nodes) {
    return nodes <= most_in_chain ? most_chain_bytes : most_tree_bytes;
  }

  // For messages of more than short_bytes, or of no more.
  explicit OneWay(bool is_long) : is_long_(is_long) {}
  void set_departure(Departure& departure) { departure_ = &departure; }
  // Makes the slots when a few calls would have used them. `place`: of a leader; others: -1.
  // *ready: there is memory for them, on all nodes, and no cap that longer messages would meet.
  // Collective over the whole group.
  Status prepare(Group& group, int32_t place, const std::function<Leaders()>& leaders_of,
                 bool* ready);
  Status close();

  // All slots were used: a meeting comes before the next call.
  bool is_due() const { return call_ == most_calls; }
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
  static constexpr uint64_t most_flat_bytes = 256;
  static constexpr int32_t most_in_chain = 4;
  static constexpr uint64_t most_chain_bytes = 8 << 10, most_tree_bytes = 4 << 10;

  uint32_t leaders() const { return static_cast<uint32_t>(all_.at.size()); }
  uint32_t branches() const { return Tree(*this, 0).branches_below(0); }  // at most
  // Of messages of so many bytes, by places relative to the root's. A child may lie beyond the last
  // place.
  class Tree {
   public:
    Tree(const OneWay& all, uint64_t bytes);
    uint32_t branches_below(uint32_t at) const;
    uint32_t child(uint32_t at, uint32_t branch) const;
    uint32_t parent(uint32_t at) const;
    uint32_t branch_to(uint32_t at) const;  // from its parent

   private:
    enum class Shape : uint8_t { flat, binomial, chain };
    uint32_t leaders_;
    Shape shape_;
  };
  uint64_t slots() const { return uint64_t{most_calls} * branches(); }
  uint64_t slot_bytes() const {
    return 64 + (is_long_ ? most_bytes(static_cast<int32_t>(leaders())) : short_bytes);
  }
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

  bool is_long_;
  Departure* departure_ = nullptr;
  int32_t place_ = -1;        // -1: no leader
  bool is_flat_ = false;      // very short ones
  bool is_chain_ = false;
  Leaders all_;               // empty until the slots are made
  Segment* slots_ = nullptr;  // null: none
  bool refused_ = false, preparing_ = false;
  uint32_t unprepared_ = 0;      // calls that did without
  uint32_t call_ = 0;            // the present one since the last meeting, from 1
  std::vector<uint64_t> taken_;  // by slot: messages so far
};

}  // namespace skerry::job
