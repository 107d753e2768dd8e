// Long collectives between nodes. The first members of a group's nodes, its *leaders*, form a ring.
// Each puts to the next, and counts what comes from the one before. So a leader sends to one
// other node alone, and a cap on connections costs a call no evictions after its first messages.
//
// All leaders send equally many messages in a call, and take as many; some may be empty. Up to
// `window` are under way, so that a leader combines one while others travel. It is along_ where
// messages go round once, and at most that elsewhere. Message k lies in slot k modulo the number of
// slots, which is along_ a node.
//
// Slots need no credits: a leader sends message k after it has taken message k - window. That one
// was sent by a leader that had taken k - 2 window, and so on round the ring. So the right
// neighbour has taken message k - nodes x window, which lay in the same slot. In a broadcast the
// root alone is that far ahead. The others send k after they have taken k - 1, so their neighbour
// has taken k - nodes - window + 1.
//
// What comes in its last form goes straight into the program's buffer, not into a slot. A leader
// announces it to the node's data servers (server/landings.hpp), if it has them. No byte that is
// still needed is overwritten. For what comes was made of what this leader sent of that part, or
// is the first that it has of it.
//
// What may have to be sent again is not copied either. It stays in the program's buffer until the
// right neighbour has acknowledged it. The last messages of a call are copied, so that the call
// does not wait for their way there and back. In an allreduce the sum replaces a part that was
// sent, and is made of it: then that was applied, and is not sent again.
//
// An allreduce is a reduce-scatter and an all-gather of the nodes' blocks of a piece; `window`
// pieces go round at once, by turns. A broadcast passes messages on. An allgather passes on what
// each node's members gave. What is not long, of some numbers of nodes, goes by doubling
// (doubling.hpp), whose slots lie behind the ring's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "fabric/fabric.hpp"
#include "job/departure.hpp"
#include "job/doubling.hpp"
#include "job/leaders.hpp"
#include "job/reduction.hpp"
#include "server/landings.hpp"

namespace skerry::job {

class Group;
class Segment;

class Ring {
 public:
  // Of one message, at most: so much is source done as soon as it is sent.
  static constexpr uint64_t slot_bytes = fabric::inline_payload_bytes;
  // What is longer than a slot goes in messages of whole units, at most so many bytes.
  static constexpr uint64_t message_bytes(uint64_t unit) {
    return std::max<uint64_t>(fabric::one_piece_bytes / unit, 1) * unit;
  }
  // `bytes` in pieces of about the same size, for `parts` of which a message has room. They are
  // whole cache lines if that is possible.
  static constexpr uint64_t piece_bytes(uint64_t bytes, uint64_t unit, uint64_t parts = 1) {
    if (bytes <= slot_bytes / parts) return std::max(bytes, unit);
    constexpr uint64_t line = 64;
    if (line % unit == 0 && line * parts <= fabric::one_piece_bytes) unit = line;
    const uint64_t units = (bytes + unit - 1) / unit;
    const uint64_t most = message_bytes(unit * parts) / (unit * parts);
    const uint64_t pieces = (units + most - 1) / most;
    return (units + pieces - 1) / pieces * unit;
  }

  // Of a leader: its place among `nodes`, and the leaders at the places before and behind it.
  // Others: place -1.
  void open(Departure& departure, int32_t nodes, int32_t place, Rank left, Rank right);
  bool leads() const { return place_ >= 0; }
  int32_t nodes() const { return nodes_; }
  int32_t place() const { return place_; }
  // For a broadcast or a reduction to a root that a sweep could carry: the nodes are few, so that
  // hardly more messages come one behind the other. And there are slots, or a few such calls would
  // have used them. Asked once a call, by all members.
  bool pays(uint64_t bytes) {
    return bytes > sweep_bytes && nodes_ <= few_nodes &&
           (slots_ != nullptr || ++unprepared_ > calls_before);
  }
  // What all gave, so many bytes together, goes to all by doubling, where a sweep could carry it.
  // From 256 bytes for each two nodes it pays, and 4 KiB in all: there are more messages than in a
  // sweep, but none brings back what its recipient gave. Between two nodes of several members a
  // sweep takes less. Asked as above.
  bool gathers(uint64_t bytes, bool has_one_a_node) {
    if (nodes_ == 2 && !has_one_a_node) return false;
    const auto n = static_cast<uint64_t>(std::max(nodes_, 4));
    return doubles(bytes, n * n * 256);
  }
  // The same of a sum, from 8 KiB a node on, 32 KiB at least, since it needs twice as many
  // crossings.
  bool sums(uint64_t bytes) { return doubles(bytes, std::max<uint64_t>(nodes_, 4) * 8192); }
  // Makes the slots when first called. *ready: there is memory for them, on all nodes. Collective
  // over the whole group.
  Status prepare(Group& group, const std::function<Leaders()>& leaders, bool* ready);
  int32_t place_of(NodeId node) const { return place_of_[static_cast<size_t>(node)]; }
  Status close();
  // Waits for what earlier calls left to be taken: before the group's last meeting. Errors as of
  // the calls below.
  Status take_owed();

  // Collective over the leaders. Errors: of the end of the job; invalid: one that is waited for
  // leaves the job (Departure).
  Status allreduce(const Reduction& how, std::byte* buffer, uint64_t bytes);
  // The root does not wait for what says that its last messages have arrived.
  Status broadcast(std::byte* buffer, uint64_t bytes, int32_t root);
  // Null: nothing goes by doubling.
  Doubling* doubling() { return doubles_ ? &doubling_ : nullptr; }
  // The sum goes into the root's buffer, in an order that depends on the root alone. The other
  // buffers stay as they are.
  Status reduce(const Reduction& how, std::byte* buffer, uint64_t bytes, int32_t root);
  // What goes round: piece `piece` of the block for the node at a place, at most slot_bytes.
  struct Block {
    uint64_t piece;
    int32_t place;
  };
  // Passes blocks on, `pieces` for the node at each place. pack(block) returns where it lies, until
  // the next call; unpack(block, from) takes it. land(block): where it may go at once, if it is
  // not to be unpacked; empty: nowhere. `stays`: what pack returned is never written over, but by
  // land. Of each piece a leader first sends that of `first`, in each later turn what it took in
  // the one before. `first` is its own place: all get all blocks. The place before: each block
  // visits all leaders, and its own last.
  Status pass_on(int32_t first, uint64_t pieces,
                 const std::function<std::span<const std::byte>(Block)>& pack,
                 const std::function<void(Block, const std::byte*)>& unpack,
                 const std::function<std::span<std::byte>(Block)>& land, bool stays);

 private:
  static constexpr uint64_t counter_at = 0, doubling_counters_at = 64, slots_at = 4096;
  static_assert(doubling_counters_at + Doubling::counters_bytes(Doubling::most_nodes) <= slots_at);
  // Few that are summed or gathered on the way, so that the slots in use stay in the cache.
  static constexpr uint64_t most_window = 3, most_along = 6, most_slots = 128;
  static constexpr uint32_t calls_before = 3;
  static constexpr int32_t few_nodes = 8;
  static constexpr uint64_t sweep_bytes = 1024;
  static constexpr uint64_t sends_a_look = 4;
  class Call;
  // Parts go from the leader at `first`, which gives them, to all others in turn.
  // took(part, came) returns what goes on.
  using OwnPart = std::function<std::span<const std::byte>(uint64_t part)>;
  using TookPart = std::function<std::span<const std::byte>(uint64_t part, const std::byte* came)>;
  // into(part): where it may come at once; empty: nowhere. `stays`: what own and took returned is
  // not written to during the call.
  using IntoPart = std::function<std::span<std::byte>(uint64_t part)>;
  Status pass_along(int32_t first, uint64_t parts, const OwnPart& own, const TookPart& took,
                    const IntoPart& into, bool stays);
  bool doubles(uint64_t bytes, uint64_t least) {
    return bytes >= least && bytes <= Doubling::most_bytes && Doubling::serves(nodes_) &&
           (slots_ != nullptr ? doubles_ : ++unprepared_ > calls_before);
  }
  uint64_t slots() const { return static_cast<uint64_t>(nodes_) * along_; }
  uint64_t doubling_at() const { return slots_at + slots() * slot_bytes; }
  // `count` messages at once, of which only the last has data.
  Status send(std::span<const std::byte> data, uint64_t count = 1);
  // *data: what has come, until the next send: in its slot, or where it was announced.
  Status take(const std::byte** data);
  // Before one is taken, of a call in which so many come. into(k): where the k-th one is wanted;
  // empty: in its slot.
  template <class Into>
  void announce(uint64_t messages, const Into& into);
  uint64_t slot_of(uint64_t message) const { return slots_at + message % slots() * slot_bytes; }

  int32_t nodes_ = 0;
  uint64_t window_ = 1;  // messages under way
  uint64_t along_ = 1;   // likewise, of those that go round once
  int32_t place_ = -1;   // -1: no leader
  Rank left_ = no_rank, right_ = no_rank;
  Departure* departure_ = nullptr;
  std::vector<int32_t> place_of_;  // empty until the slots are made
  Segment* slots_ = nullptr;       // null: none
  Doubling doubling_;
  bool doubles_ = false;  // of all members, none has a cap on connections
  bool refused_ = false;
  uint32_t unprepared_ = 0;
  server::Landings* landings_ = nullptr;  // null: another process has the servers
  uint64_t sent_ = 0, taken_ = 0;         // over all calls
  uint64_t staying_ = 0;     // what is sent up to this message stays where it is; 0: nothing
  uint64_t call_began_ = 0;  // so many were taken when the present call took its first
  uint64_t announced_ = 0;   // it has said of so many, over all calls, where they are wanted
  uint64_t owed_ = 0;  // messages of earlier calls, without data, that were not taken yet
};

}  // namespace skerry::job
