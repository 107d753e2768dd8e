// Long collectives between nodes. The first members of a group's nodes, its *leaders*, form a ring.
// Each puts to the next, and counts what comes from the one before. So a leader sends to one
// other node alone, and a cap on connections costs a call no evictions after its first messages.
//
// All leaders take the same number of *turns*: in a turn each sends one message, which may be
// empty, then takes one. Message k lies in slot k modulo the number of nodes.
//
// Slots need no credits: a leader sends message k after it has taken message k - 1. That one was
// sent by a leader that had taken k - 2, and so on round the ring. So the right neighbour has taken
// message k minus the number of nodes, which lay in the same slot.
//
// An allreduce is a reduce-scatter and an all-gather of the nodes' blocks of a piece. A broadcast
// passes pieces on, one neighbour a turn. An allgather passes on what each node's members gave.
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
  // Passes blocks of at most slot_bytes on, one for the node at each place. pack(place, to) returns
  // how long that block is, unpack(place, from) takes it. A leader first sends that of `first`, in
  // each later turn what it took in the one before. `first` is its own place: all get all blocks.
  // The place before: each block visits all leaders, and its own last.
  Status pass_on(int32_t first, const std::function<uint64_t(int32_t, std::byte*)>& pack,
                 const std::function<void(int32_t, const std::byte*)>& unpack);

 private:
  static constexpr uint64_t counter_at = 0, slots_at = 4096;
  Status send(std::span<const std::byte> data);
  // *data: what has come, until the next send.
  Status take(const std::byte** data);

  int32_t nodes_ = 0;
  int32_t place_ = -1;  // -1: no leader
  Rank right_ = no_rank;
  Segment* slots_ = nullptr;  // null: none
  bool refused_ = false;
  uint64_t sent_ = 0, taken_ = 0;  // over all calls
};

}  // namespace skerry::job
