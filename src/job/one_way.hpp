// Short broadcasts, and reductions to a root, between nodes. A member that only gives waits for
// nobody. The leaders of a group's nodes form a tree, whose top is the node of the root:
//   - up to 256 bytes and eight leaders all others hang below the top;
//   - over 1 KiB up to four leaders form a chain: its top sends once, which counts on a slow link;
//   - otherwise the tree is binomial.
// Where a member has a cap on connections each message of the top may evict one. So there the first
// kind is binomial too, and what is over 1 KiB goes round the ring (ring.hpp).
//
// Each message has a counter at its recipient, and *room*. Both belong to one call and one branch.
// They need no credits: they serve `most_calls` calls, or as many as there is room for. Then a
// meeting of all members comes (Group::sweep), before which each has taken all that was sent to it.
// Calls and their bytes are counted alike on all members. Which branches of a call bring a message
// depends on its root, so each leader counts how often it has taken one by a counter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
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
  static constexpr uint64_t most_bytes = 8 << 10;  // of a message, in a chain
  static constexpr uint32_t most_calls = 16;       // between two meetings
  // To send so many messages of so few bytes takes a leader less time than one crossing.
  static constexpr uint32_t most_below = 7;
  static constexpr uint64_t most_flat_bytes = 256;
  static constexpr uint64_t always_bytes = 1024;  // also under a cap
  static constexpr uint32_t most_in_chain = 4;
  static constexpr uint64_t most_tree_bytes = 4 << 10;

  void set_departure(Departure& departure) { departure_ = &departure; }
  // Makes the slots when a few calls would have used them. `place`: of a leader; others: -1.
  // *ready: they carry messages of so many bytes, on all nodes. Collective over the whole group.
  Status prepare(Group& group, int32_t place, uint64_t bytes,
                 const std::function<Leaders()>& leaders_of, bool* ready);
  Status close();
  bool is_open() const { return slots_ != nullptr; }

  // A meeting comes before the next call, of so many bytes: all room was used. Asked if ready.
  bool is_due(uint64_t bytes) const {
    return call_ == most_calls || used_ + room_of(bytes) > room();
  }
  void note_meeting() { call_ = 0, used_ = 0; }
  void begin(uint64_t bytes) {
    ++call_;
    message_at_ = std::exchange(used_, used_ + room_of(bytes));
  }

  // Collective over the leaders, after begin. `root`: a node. Errors: of the end of the job;
  // invalid: somebody who is waited for has left, and nothing was sent.
  Status broadcast(std::byte* buffer, uint64_t bytes, NodeId root);
  // The sum goes into the root's buffer, in an order that depends on the root alone. The other
  // buffers are spoilt.
  Status reduce(const Reduction& how, std::byte* buffer, uint64_t bytes, NodeId root);

 private:
  // So many calls first do without slots of their own: a group may live for one broadcast.
  static constexpr uint32_t calls_before = 3;
  static constexpr uint64_t most_room = 512 << 10;

  uint32_t leaders() const { return static_cast<uint32_t>(all_.at.size()); }
  uint32_t branches() const { return Tree(*this, 0).branches_below(0); }  // at most
  bool carries(uint64_t bytes) const {
    if (bytes <= always_bytes) return true;
    return !is_capped_ && bytes <= (leaders() <= most_in_chain ? most_bytes : most_tree_bytes);
  }
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
  uint64_t messages_at() const { return memory::round_up(8 * slots(), 64); }
  uint64_t slot(uint32_t branch) const { return (call_ - 1) * uint64_t{branches()} + branch; }
  uint64_t counter(uint32_t branch) const { return 8 * slot(branch); }
  // Two messages side by side share no cache line that the processor fetches in pairs.
  static constexpr uint64_t room_of(uint64_t bytes) { return memory::round_up(bytes, 64) + 64; }
  // Of the messages of one branch, between two meetings.
  uint64_t room() const {
    const uint64_t least = most_calls * room_of(always_bytes);
    return is_capped_ ? least : std::max(least, memory::round_up(most_room / branches() - 63, 64));
  }
  uint64_t message(uint32_t branch) const {
    return messages_at() + branch * room() + message_at_;
  }
  // Places relative to that of a root, modulo their number.
  uint32_t relative_to(NodeId root) const;
  Rank leader_at(uint32_t relative, NodeId root) const;
  Status send(Rank to, uint32_t branch, const std::byte* data, uint64_t bytes);
  Status take(Rank from, uint32_t branch, const std::byte** data);

  Departure* departure_ = nullptr;
  int32_t place_ = -1;  // -1: no leader
  bool is_capped_ = false;  // a member has a cap on connections
  bool is_few_ = false;     // all may hang below the top
  Leaders all_;         // empty until the slots are made
  Segment* slots_ = nullptr;  // null: none
  bool refused_ = false, preparing_ = false;
  uint32_t unprepared_ = 0;  // calls that did without
  uint32_t call_ = 0;        // the present one since the last meeting, from 1
  uint64_t message_at_ = 0;  // of the present call, in each branch's room
  uint64_t used_ = 0;        // of each branch's room, since the last meeting
  std::vector<uint64_t> taken_;  // by slot: messages so far
};

}  // namespace skerry::job
