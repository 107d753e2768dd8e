// Segments: memory that the members of a group own slices of, and every operation on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "memory/apply.hpp"
#include "memory/node_memory.hpp"
#include "memory/segment.hpp"
#include "origin/engine/engine.hpp"
#include "placement/member_values.hpp"

namespace skerry::job {

class Job;
class Group;
struct MemorySurvey;

// What a segment's slices are. Addresses lead the program to its own segments alone.
constexpr uint32_t purpose_program = 0;  // memory that the program allocated as a segment
constexpr uint32_t purpose_mutexes = 1;  // arrays of lock::Mutex
constexpr uint32_t purpose_given = 2;    // memory::Given, which describes the memory
constexpr uint32_t purpose_homes = 3;    // lock::machine::Home
constexpr uint32_t purpose_window = 4;   // memory of a window, and signals
constexpr uint32_t purpose_group = 5;    // places for the messages of collectives

class Segment {
 public:
  // Whether the pages of a slice are taken when it is made, or each when it is first touched.
  enum class Pages : uint8_t { reserved, when_touched };
  // Maps nothing yet: alloc and open do. `group` null: it stands for freed ones.
  Segment(Job& job, Group* group, SegmentId id);
  // Collective over the group; equal answers on all members.
  static Status alloc(Group& group, uint64_t bytes, uint32_t purpose, Segment** segment,
                      Pages pages = Pages::reserved);
  // Collective; completes operations on it first. `is_idle`: its group is freed and no member will
  // use it again, so that each may free it when it likes.
  Status free(bool is_idle = false);
  // The second half of free: no member uses it any more, and all know that. `keeps`: the group's
  // reserve may have its memory; the same on all members. This object stands for a freed segment
  // afterwards.
  Status release(bool keeps);
  // The first half: nothing of this member's is under way, then a barrier. *any_holds: a member
  // holds views of it (memory::hold), and its memory is not to be kept. `segment` null: there is
  // none to look at here.
  static Status end_use(Group& group, const Segment* segment, bool* any_holds);

 private:
  using Sizes = placement::MemberValues::Builder;
  // Of this node's part.
  struct Layout {
    NodeId node = no_node;
    std::vector<Rank> local_ranks;       // of this node, ascending
    std::vector<int32_t> local_members;  // their positions in the group
    std::vector<uint64_t> slice_bytes;   // theirs
    uint64_t room = 0;                   // as of room_
    memory::SegmentPlan plan;
    uint64_t sizes_offset = 0;  // of the table of sizes_, if it takes any
    uint64_t bases_offset = 0;  // likewise of bases_; the last part
    uint64_t total_bytes = 0;
    uint32_t own = 0;  // position among the local members
    Pages pages = Pages::reserved;
    bool others_read_on = false;  // after this member's part in it

    void find_local(const Group& group);
    // What all members ask for, by position: this node's of it, and all of it.
    void list_sizes(std::span<const uint64_t> all, Sizes* sizes);
    // Room for so many bytes of tables behind the slices. Errors: no_memory.
    Status arrange(uint64_t sizes_bytes, uint64_t bases_bytes);
  };

 public:
  // Memory of a freed segment that a member has made ready for the next one, in advance of the
  // exchange in which the members find that they agree. None: there is no such memory.
  class Ready {
   public:
    // Not collective. Of what the group keeps, in case all members ask for about as much.
    Ready(Group& group, uint64_t bytes, uint32_t purpose);
    Ready(const Ready&) = delete;
    ~Ready() { put_back(); }  // does nothing once it has begun, or if there is none
    // What all members must have alike; 0: none.
    uint64_t id() const;
    std::byte* own() const;
    // All members have this one, and know the `bytes` of each, by position. *is_known: nobody reads
    // what another member writes now, otherwise a barrier comes first. Null: it is put back, on all
    // alike.
    Segment* begin(std::span<const uint64_t> bytes, bool* is_known);
    void put_back();

   private:
    friend class Segment;
    Segment* begin(const Layout& layout, const Sizes& sizes, bool* is_known);
    Segment* kept_ = nullptr;  // null: none
  };
  // For a group's own area: the sizes are known and the caller provides the barrier after it.
  // `local_bytes`: of this node's members.
  static Status open(Group& group, SegmentId id, const std::map<Rank, uint64_t>& local_bytes,
                     Segment** segment);
  Status close();
  // What stands for every freed segment of the job.
  static std::unique_ptr<Segment> stand_in(Job& job);
  // The group has moved to where it stays.
  void set_group(Group& group) { group_ = &group; }

  // What the data server checks before it takes bytes for something else than memory.
  uint32_t purpose() const { return local_.purpose(); }

  Job& job() const { return *job_; }
  Group& group() const { return *group_; }
  SegmentId id() const { return id_; }
  bool is_freed() const { return freed_; }
  // False in a forked child, where nothing of the job works.
  bool is_alive() const { return alive_->load(std::memory_order_relaxed) == 1; }

  // The slice of a rank of this node; null if it is elsewhere or no member. A few instructions: the
  // fast path of everything.
  const memory::Region* local(Rank rank) const {
    const memory::Region* const region = in_table(rank);
    return region == nullptr && has_no_table() ? find_sparse(rank) : region;
  }
  // The same, if the ranks of this node are close enough together for a table.
  const memory::Region* in_table(Rank rank) const {
    const uint32_t at = static_cast<uint32_t>(rank - first_local_);
    if (at >= dense_count_) [[unlikely]]
      return nullptr;
    return dense_[at].base != nullptr || dense_is_member_[at] ? &dense_[at] : nullptr;
  }
  bool has_no_table() const { return dense_count_ == 0; }
  // The same for the fast paths: also null in a forked child, which then takes the slow path and
  // its error.
  const memory::Region* usable(Rank rank) const { return is_alive() ? local(rank) : nullptr; }
  // Is [offset, offset + bytes) inside the slice of a rank of another node? No error: false says
  // only that the long way is to be taken.
  bool remote_holds(Rank rank, uint64_t offset, uint64_t bytes) const {
    if (rank != recent_rank_) return note_recent(rank);
    return offset <= recent_bytes_ && bytes <= recent_bytes_ - offset;
  }
  uint64_t bytes_of(Rank rank) const;    // 0 if not a member
  uint64_t address_of(Rank rank) const;  // in the rank's own address space
  std::byte* own() const;
  // How far apart slices of a node lie; 0: as far as each is long.
  uint64_t room() const { return room_; }
  // Of pages that are kept between two lives. Of one that its group keeps.
  uint64_t kept_bytes() const { return local_.kept_bytes(own_index_); }
  // Its memory goes, which its group kept.
  Status give_up();
  // A view of it may outlive it (memory::hold).
  bool is_held() const { return memory::is_held(local_.base()); }
  // Of what says how large and where slices are; 0 if they are all alike.
  uint64_t table_bytes() const { return sizes_.table_bytes() + bases_.table_bytes(); }

  // Checks what a caller gave: live, member, and that [offset, offset + bytes) is inside. Errors:
  // freed, invalid, range.
  Status check(Rank rank, uint64_t offset, uint64_t bytes) const;
  Status check_shape(Rank rank, uint64_t offset, const Shape& shape, uint64_t* stream) const;

  // The shortest way for one element on this node: true if it is done. False, with nothing done, if
  // anything about it is not plain: another node, no member, out of range, freed, a complex number
  // or a long double. The general way then finds out what, and says so. `scale` null: one.
  bool accumulate_here(Rank rank, uint64_t offset, ElementType type, const void* scale,
                       const void* origin);
  // The type has the operation. `old` null: not wanted.
  bool update_here(Rank rank, uint64_t offset, ElementType type, Operation operation,
                   const void* origin, void* old);
  // The same for a word; `old` as in memory::rmw.
  bool read_modify_write_here(Rank rank, uint64_t offset, wire::Rmw op, uint64_t operand,
                              uint64_t expected, uint64_t* old);
  // The shortest way for a small put or accumulate to another node: see Engine::join_batch. Of an
  // accumulate the elements are aligned.
  bool join_batch(Rank rank, const origin::Accumulate* what, uint64_t offset, const void* origin,
                  uint64_t bytes, origin::Mode mode);

  // What names an access's target here.
  origin::Target target(Rank rank) const { return {rank, id_}; }
  // Any rank, local or remote; arguments have been checked. Of a fetching update both sides are
  // contiguous. `handle` as of Engine::issue.
  Status issue(const origin::Access& access, origin::Handle* handle = nullptr);
  // Source done on return, unless it `stays`; afterwards a counter of the same slice grows.
  // `is_fenced`, `stays` as of Access.
  Status put_notify(Rank rank, uint64_t offset, std::span<const std::byte> data,
                    const origin::Notify& notify, bool is_fenced = true, bool stays = false);
  Status read_modify_write(Rank rank, uint64_t offset, wire::Rmw op, uint64_t operand,
                           uint64_t expected, uint64_t* old);
  // `from_nodes`: other nodes alone add to it, and there is no limit. `look`: of a long wait, now
  // and then; null: none. If it answers true the wait ends as at its limit.
  Status wait_counter(uint64_t counter_offset, uint64_t at_least, int64_t timeout_ns,
                      uint64_t* value, bool from_nodes = false,
                      const std::function<bool()>* look = nullptr);

 private:
  // Of small groups each member has a table of sizes of its own, so that nobody waits for another
  // to write it.
  bool has_own_table() const;
  bool writes_table(const Layout& layout) const { return layout.own == 0 || has_own_table(); }
  bool set_sizes(const Sizes& sizes, bool writes);
  Status learn_sizes(Group& group, const MemorySurvey& all, uint64_t mine, Layout* layout,
                     Sizes* sizes) const;
  // Kept memory becomes a segment again: wake_up makes this member's slice ready, go_back undoes
  // that, begin_life is for when all members have made theirs ready.
  Status wake_up(uint64_t bytes, uint32_t purpose);
  void go_back();
  static Segment* begin_life(Segment* kept, Layout layout, const Sizes& sizes, bool* is_known);
  static Status revive(Group& group, uint64_t bytes, uint32_t purpose, const Layout& layout,
                       const Sizes& sizes, Segment** segment, bool* is_known);
  static Status make(std::unique_ptr<Segment> made, const MemorySurvey& all, uint64_t bytes,
                     uint32_t purpose, Layout* layout, const Sizes& sizes, Segment** segment);
  static Segment* show(std::unique_ptr<Segment> made);
  void keep_pages(uint64_t bytes);
  Status attach_together(Group& group, const Layout& layout, uint64_t most_bytes, uint32_t purpose);
  Status learn_bases(Group& group, bool are_equal, const Layout& layout);
  // `address`: where the segment should be mapped; 0: anywhere.
  Status attach(const Layout& layout, uint64_t address, uint32_t purpose);
  uint64_t offset_of(Rank rank, int32_t member) const;
  void index_local(const Layout& layout);
  void hide();
  void forget_local();
  [[gnu::noinline]] const memory::Region* find_sparse(Rank rank) const;
  // Of an element of a local slice, for the fast paths; null if anything about it is not plain.
  const memory::Region* plain_element(Rank rank, uint64_t offset, ElementType type) const {
    const memory::Region* region = local(rank);
    const uint64_t bytes = element_bytes(type);
    if (region == nullptr || freed_ || !memory::goes_alone(type) || (offset & (bytes - 1)) != 0 ||
        offset > region->bytes || bytes > region->bytes - offset) [[unlikely]]
      return nullptr;
    return region;
  }
  bool note_recent(Rank rank) const;

  Job* job_;
  const std::atomic<uint32_t>* alive_;  // the job's
  Group* group_;
  SegmentId id_;  // of its present life, or the last one
  bool freed_ = false;
  uint64_t room_ = 0;          // bytes from one slice of a node to the next; 0: as long as each is
  uint64_t own_offset_ = 0;    // of the own slice in the node's part
  uint64_t pages_bytes_ = 0;   // whole pages of it that exist, from its start
  uint64_t sizes_offset_ = 0;  // of the table of sizes_ in the node's part ...
  uint64_t sizes_room_ = 0;    // ... and the bytes that are there for it
  uint32_t own_index_ = 0;     // among the members of the node
  uint32_t local_count_ = 0;   // of those
  memory::LocalSegment local_;
  // By group index. A table, where one is needed, is in shared memory, behind the slices. A group's
  // area has neither.
  bool has_tables_ = false;
  placement::MemberValues sizes_;
  placement::MemberValues bases_;  // where the member's process maps its node's part
  std::vector<std::byte> own_table_;  // of sizes_, of a small group
  // The remote rank last asked for by remote_holds; the calling thread's own below thread level
  // multiple, never written at multiple.
  mutable Rank recent_rank_ = no_rank;
  mutable uint64_t recent_bytes_ = 0;
  Rank first_local_ = 0;
  uint32_t dense_count_ = 0;           // ranks first_local_ ... that dense_ covers; 0: use sparse_
  std::vector<memory::Region> dense_;  // by rank - first_local_
  std::vector<uint8_t> dense_is_member_;
  std::vector<std::pair<Rank, memory::Region>>
      sparse_;  // ascending by rank: nodes whose ranks are far apart
};

}  // namespace skerry::job
