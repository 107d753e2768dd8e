// The control segment: the first memory that the ranks of a node share. One per node, zeroed when
// created; every table that exists once per node lives here or in a segment that this one names.
//
//   | header | members | stripes | completion slots | waiters (mutex queues) | readers' lines |
//   | node tables |
//
// Each part starts on a 4 KiB page.
//
// This file says where the parts are, what their fields mean and which process writes them. The
// rooms that use them own the protocols.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/futex.hpp"
#include "core/owner_lock.hpp"
#include "core/pure/ids.hpp"
#include "memory/wait_note.hpp"

namespace skerry::memory {

constexpr uint64_t page_bytes = 4096;
constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr uint64_t control_magic = 0x6c72'7463'7279'6b73;  // "skryctrl"
constexpr uint32_t control_version = 5;
constexpr uint32_t stripe_count = 1024;  // a power of two

// Records of waiters on a node with `members` of a job's `ranks`: for all ranks and some of their
// threads, but not more than a bound. Past it the data server keeps the requests of other nodes
// itself, in memory that it gives back, and a rank of this node sleeps until a record is free.
constexpr uint32_t waiters_of(uint32_t ranks, uint32_t members) {
  constexpr uint32_t threads = 64, bound = 4096, each = 64;
  const uint64_t all = uint64_t{ranks} + threads, most = bound + uint64_t{each} * members;
  return static_cast<uint32_t>(all < most ? all : most);
}

// What the layout follows from. Equal on every process of the node.
struct ControlSizes {
  uint32_t members = 1;            // ranks on this node
  uint32_t slots_per_member = 64;  // requests of one rank that may await a reply at once
  uint32_t waiters = 0;            // records for requests that wait for a mutex hosted by this node
                                   // (lock/mutex.hpp): waiters_of(); 0: 64
  uint64_t node_table_bytes = 0;   // for the job's tables: addresses of servers, ranks by node
};

struct ControlLayout {
  uint64_t members_offset;
  uint64_t stripes_offset;
  uint64_t slots_offset;
  uint64_t waiters_offset;
  uint64_t reader_lines_offset;
  uint64_t node_table_offset;
  uint64_t total_bytes;  // a multiple of page_bytes
  uint32_t members;
  uint32_t slots;  // members x slots_per_member; member m's are [m x slots_per_member, (m + 1) x
                   // slots_per_member)
  uint32_t waiters;
  uint32_t slots_per_member;
};

// ---- header -----------------------------------------------------------------------------------
struct alignas(64) ControlHeader {
  std::atomic<uint64_t> ready;  // control_magic once the creator has written the rest; 0 before. A
                                // late joiner checks it.
  uint32_t version;             // creator
  uint32_t goes_on;             // creator: 1: the job goes on without its dead (job/views.hpp)
  ControlLayout layout;         // creator; joiners compare with their own
  // The end of the job. 0: running. 1: ending, and the text below is complete. The process that
  // finds the reason first sets it. Every wait watches it. (It is also a futex word, but no thread
  // has to sleep on it.)
  alignas(64) std::atomic<uint32_t> abort;
  std::atomic<uint32_t> abort_claim;  // 0; 1: a process is writing the text
  int32_t abort_rank;     // claimant: the rank that died or failed; no_rank: none in particular
  int32_t abort_status;   // claimant: a skerry_status
  // The leader: how often it has taken dead ranks out of the node's locks. 0: nobody died.
  std::atomic<uint32_t> deaths;
  char abort_text[1024];  // claimant: zero-terminated
};

// ---- members ----------------------------------------------------------------------------------
enum class MemberState : uint32_t {
  absent = 0,  // has not joined yet
  joined = 1,
  left = 2,  // finalized: holds nothing any more
  dead = 3,  // ended without finalizing
};

// One per rank of the node, ascending by rank; the index is the *member index* by which locks name
// their owners.
struct alignas(64) Member {
  std::atomic<uint32_t> state;  // MemberState; the member itself: joined, left; a process that
                                // notices its death: dead
  int32_t rank;                 // the member, before joined
  int32_t pid;                  // the member, before joined
  uint32_t reserved;            // 0
  uint64_t cgroup_hash;  // the member, before joined: of its memory cgroup (memory_limits.hpp);
                         // equal on members charged together
  uint64_t incarnation;  // the member, before joined: of its sessions; never 0
  // The member: where its job::Panel lies in its own address space; 0: not yet, or no more.
  std::atomic<uint64_t> panel;
  // A thread that waits for a counter in this rank's slices (notify) sleeps on `doorbell`. A thread
  // that adds to a counter rings it if `doorbell_sleepers` is not 0.
  alignas(64) std::atomic<uint32_t> doorbell;  // ringers: add 1, then wake
  std::atomic<uint32_t> doorbell_sleepers;     // the member's threads: +1 before looking at the
                                               // counter for the last time, -1 after
  WaitNote waits;                              // the member's threads
};
static_assert(sizeof(Member) == 256);

// ---- stripes ----------------------------------------------------------------------------------
struct alignas(64) Stripe {
  OwnerWord word;  // owner: member index. A node's data server locks as the member that hosts it.
};
static_assert(sizeof(Stripe) == 64, "stripes share no cache line");

// ---- completion slots -------------------------------------------------------------------------
enum class SlotState : uint32_t {
  free = 0,
  waiting = 1,  // armed by its owner; a reply may come
  filling = 2,  // a replier writes the result; lasts a few stores
  done = 3,     // result and status are valid; the owner takes them and makes it free
};
static_assert(static_cast<uint32_t>(SlotState::done) < 4, "a slot's word has two bits for it");

// Where the reply to a request arrives. The word holds state and generation together. A reply names
// the generation it answers and goes waiting -> filling by compare-and-swap, so that a late reply
// to an earlier use of the slot changes nothing.
struct alignas(64) CompletionSlot {
  std::atomic<uint32_t> word;  // futex word: generation << 2 | SlotState. Owner: free -> waiting,
                               // done -> free; replier: the rest
  int32_t status;              // replier: a skerry_status
  uint64_t tag;                // owner: what it waits for (request number); for the owner's own use
  uint64_t result_bytes;       // replier: meaningful bytes of result, or bytes placed directly
                               // elsewhere
  std::byte result[24];        // replier
  uint64_t reserved[2];        // 0

  static constexpr uint32_t make_word(uint32_t generation, SlotState state) {
    return generation << 2 | static_cast<uint32_t>(state);
  }
  static constexpr SlotState state_of(uint32_t word) { return static_cast<SlotState>(word & 3); }
  static constexpr uint32_t generation_of(uint32_t word) { return word >> 2; }  // 30 bits, wraps
};
static_assert(sizeof(CompletionSlot) == 64);

// ---- mutex queues -----------------------------------------------------------------------------
constexpr uint64_t
    waiter_record_bytes = 32;  // src/server asserts that it is lock::waiter_record_bytes
constexpr uint64_t reader_line_bytes = 128;  // and that this is lock::reader_line_bytes

// ---- the whole --------------------------------------------------------------------------------
ControlLayout control_layout(const ControlSizes& sizes);

// A view on a mapped control segment. Copyable; owns nothing. Null base: none.
class Control {
 public:
  Control() = default;
  Control(std::byte* base, const ControlLayout& layout) : base_(base), layout_(layout) {}

  explicit operator bool() const { return base_ != nullptr; }
  const ControlLayout& layout() const { return layout_; }
  ControlHeader& header() const { return *at<ControlHeader>(0); }
  Member& member(uint32_t index) const { return at<Member>(layout_.members_offset)[index]; }
  Stripe* stripes() const { return at<Stripe>(layout_.stripes_offset); }
  CompletionSlot& slot(uint32_t index) const {
    return at<CompletionSlot>(layout_.slots_offset)[index];
  }
  std::byte* waiters() const { return base_ + layout_.waiters_offset; }
  std::byte* reader_lines() const { return base_ + layout_.reader_lines_offset; }
  std::byte* node_table() const { return base_ + layout_.node_table_offset; }
  const std::atomic<uint32_t>* abort_flag() const {
    return base_ == nullptr ? nullptr : &header().abort;
  }

  // The creator, once, on zeroed memory: fills the header; `ready` last.
  void initialise(bool goes_on = false) const;
  // A joiner: is this a control segment with the layout I expect?
  bool matches() const;

  // Records the reason for the end of the job and sets the abort flag; later reasons are dropped
  // (false). Never blocks.
  bool set_abort(Rank rank, int32_t status, std::string_view text) const;
  bool is_aborted() const { return header().abort.load(std::memory_order_acquire) != 0; }

  bool is_dead(uint32_t member_index) const {
    return member(member_index).state.load(std::memory_order_acquire) ==
           static_cast<uint32_t>(MemberState::dead);
  }
  // For locks whose owners are member indices. Points into this object's copy of the view: it must
  // outlive the watch.
  OwnerWatch watch() const;
  // The same for stripes: in a job that goes on, one whose owner died is taken over. What that
  // owner was updating may be half done, and is nobody else's.
  OwnerWatch stripe_watch() const;
  bool goes_on() const { return header().goes_on != 0; }

 private:
  template <class T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  std::byte* base_ = nullptr;
  ControlLayout layout_{};
};

}  // namespace skerry::memory
