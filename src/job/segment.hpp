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
  // Collective; completes operations on it first.
  Status free();
  // The second half of free: no member uses it any more, and all know that.
  Status release();
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
  // or a long double; the general way then finds out what, and says so. `scale` null: one.
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
  // Source done on return; afterwards a counter of the same slice grows.
  Status put_notify(Rank rank, uint64_t offset, std::span<const std::byte> data,
                    const origin::Notify& notify);
  Status read_modify_write(Rank rank, uint64_t offset, wire::Rmw op, uint64_t operand,
                           uint64_t expected, uint64_t* old);
  Status wait_counter(uint64_t counter_offset, uint64_t at_least, int64_t timeout_ns,
                      uint64_t* value);

 private:
  struct Layout {
    std::vector<Rank> local_ranks;       // of this node, ascending
    std::vector<int32_t> local_members;  // their positions in the group
    std::vector<uint64_t> slice_bytes;   // theirs
    memory::SegmentPlan plan;
    uint64_t sizes_offset = 0;  // of the table of sizes_, if it takes any
    uint64_t bases_offset = 0;  // likewise of bases_; the last part
    uint64_t total_bytes = 0;
    uint32_t own = 0;  // position among the local members
    Pages pages = Pages::reserved;
  };
  void find_local(const Group& group, Layout* layout) const;
  // Room for so many bytes of tables behind the slices.
  Status lay_out(uint64_t sizes_bytes, uint64_t bases_bytes, Layout* layout) const;
  Status learn_sizes(Group& group, uint64_t mine, uint64_t usual, Layout* layout,
                     placement::MemberValues::Builder* sizes) const;
  Status attach_together(Group& group, const Layout& layout, uint64_t most_bytes, uint32_t purpose);
  Status learn_bases(Group& group, bool are_equal, const Layout& layout);
  // `address`: where the segment should be mapped; 0: anywhere.
  Status attach(const Layout& layout, uint64_t address, uint32_t purpose);
  uint64_t offset_of(Rank rank, int32_t member) const;
  void index_local(const Layout& layout);
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
  SegmentId id_;
  bool freed_ = false;
  memory::LocalSegment local_;
  // By group index. A table, where one is needed, is in shared memory, behind the slices. A group's
  // area has neither.
  bool has_tables_ = false;
  placement::MemberValues sizes_;
  placement::MemberValues bases_;  // where the member's process maps its node's part
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
