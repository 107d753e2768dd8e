// Long collectives between nodes. The first members of a group's nodes, its *leaders*, form a ring.
// Each puts to the next, and counts what comes from the one before. So a leader sends to one
// other node alone, and a cap on connections costs a call no evictions after its first messages.
//
// All leaders send equally many messages in a call, and take as many; some may be empty. Up to
// `window` are under way, so that a leader combines one while others travel. Message k lies in slot
// k modulo the number of slots, which is `window` a node.
//
// Slots need no credits: a leader sends message k after it has taken message k - window. That one
// was sent by a leader that had taken k - 2 window, and so on round the ring. So the right
// neighbour has taken message k - nodes x window, which lay in the same slot. In a broadcast the
// root alone is that far ahead. The others send k after they have taken k - 1, so their neighbour
// has taken k - nodes - window + 1.
//
// An allreduce is a reduce-scatter and an all-gather of the nodes' blocks of a piece; `window`
// pieces go round at once, by turns. A broadcast passes messages on. An allgather passes on what
// each node's members gave.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "fabric/fabric.hpp"
#include "job/reduction.hpp"

namespace skerry::job {

class Group;
class Segment;

class Ring {
 public:
  // Of one message, at most: so much is source done as soon as it is sent.
  static constexpr uint64_t slot_bytes = fabric::inline_payload_bytes;

  // Of a leader: its place among `nodes`, and the leader at the next place. Others: place -1.
  void open(int32_t nodes, int32_t place, Rank right);
  bool leads() const { return place_ >= 0; }
  int32_t nodes() const { return nodes_; }
  int32_t place() const { return place_; }
  // Makes the slots when first called. *ready: there is memory for them, on all nodes. Collective
  // over the whole group.
  Status prepare(Group& group, bool* ready);
  Status close();

  // Collective over the leaders.
  Status allreduce(const Reduction& how, std::byte* buffer, uint64_t bytes);
  Status broadcast(std::byte* buffer, uint64_t bytes, int32_t root);
  // What goes round: piece `piece` of the block for the node at a place, at most slot_bytes.
  struct Block {
    uint64_t piece;
    int32_t place;
  };
  // Passes blocks on, `pieces` for the node at each place. pack(block) returns where it lies, until
  // the next call; unpack(block, from) takes it. Of each piece a leader first sends that of
  // `first`, in each later turn what it took in the one before. `first` is its own place: all get
  // all blocks. The place before: each block visits all leaders, and its own last.
  Status pass_on(int32_t first, uint64_t pieces,
                 const std::function<std::span<const std::byte>(Block)>& pack,
                 const std::function<void(Block, const std::byte*)>& unpack);

 private:
  static constexpr uint64_t counter_at = 0, slots_at = 4096;
  static constexpr uint64_t most_window = 8, most_slots = 128;
  Status send(std::span<const std::byte> data);
  // The last messages of a call are out: nobody waits for this rank while it computes.
  Status finish();
  // *data: what has come, until the next send.
  Status take(const std::byte** data);

  int32_t nodes_ = 0;
  uint64_t window_ = 1;  // messages under way
  int32_t place_ = -1;   // -1: no leader
  Rank right_ = no_rank;
  Segment* slots_ = nullptr;  // null: none
  bool refused_ = false;
  uint64_t sent_ = 0, taken_ = 0;  // over all calls
};

}  // namespace skerry::job
