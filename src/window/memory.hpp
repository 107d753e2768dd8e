// The memory that a window gives access to: of its members, where it lies, and how this rank
// reaches it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "job/segment.hpp"
#include "memory/given.hpp"
#include "memory/moved.hpp"
#include "window/context.hpp"
#include "window/target.hpp"

namespace skerry::window {

class Memory {
 public:
  // `keeps`: the group may keep the data for the next window. `base` and `bytes`: the own memory;
  // base null if it is allocated.
  Memory(WindowContext& context, Flavor flavor, void* base, uint64_t bytes, bool keeps)
      : context_(context), flavor_(flavor), keeps_data_(keeps), base_(base), base_bytes_(bytes) {}
  Memory(const Memory&) = delete;
  ~Memory() { forget_moved(); }

  // ---- life; all collective, but for the first two ---- What the group keeps of freed windows is
  // made ready, so that the others may look at it after the next collective. Returns what all must
  // have alike (job::Segment::Ready::id).
  uint64_t make_ready();
  // This process reaches the given memory of this node's members. The others of the group look for
  // themselves, so each pair of this node's members is looked at.
  Status check_reach() const;
  // All members' sizes and units; does some member want its given memory moved? Have all made the
  // same ready?
  void take_note(std::vector<uint64_t> bytes, std::vector<uint64_t> units, bool any_moves,
                 bool all_are_ready);
  // *is_known: all members know that the others' data are ready.
  Status open(bool* is_known);
  // The program's own pages go back to where they were.
  Status move_out();
  // As of job::Segment.
  Status end_use(bool* any_holds) const;
  // Nobody accesses it any more, and all members know that. `keeps`: the group may keep it.
  void give_up(bool keeps);

  // ---- dynamic windows ----
  Status attach(void* base, uint64_t bytes);
  Status detach(void* base);

  // ---- where it is ----
  Flavor flavor() const { return flavor_; }
  SegmentId id() const { return data_->id(); }
  void* own() const { return flavor_ == Flavor::allocated ? data_->own() : base_; }
  std::byte* pointer(Rank rank) const;  // null unless allocated, and of a member on this node
  uint64_t bytes_of(Rank rank) const;   // 0 if not a member
  uint64_t unit_of(Rank rank) const;    // 0 if not a member
  // Whose rank is set: its sizes, and its region if it is of this node.
  void describe(Target& target) const;
  // Where requests for this member's memory go.
  origin::Target address(const Target& target) const {
    return {target.rank, data_->id(), flavor_ != Flavor::allocated};
  }

 private:
  uint64_t slice_bytes() const;  // of the own memory, or of its description
  Status make_data();
  void give(std::byte* description) const;
  void move_in(const memory::Pages& pages);
  void forget_moved();
  void describe_given(Target& target) const;
  memory::Given* given() const { return reinterpret_cast<memory::Given*>(data_->own()); }

  WindowContext& context_;
  const Flavor flavor_;
  const bool keeps_data_;
  void* const base_;
  const uint64_t base_bytes_;
  std::optional<job::Segment::Ready> ready_;  // until it is open
  job::Segment* data_ = nullptr;  // allocated: the memory. Otherwise its description (target.hpp)
  bool any_moves_ = false;        // some member wants its given memory moved
  memory::Moved moved_;           // of created: its own pages that are shared now
  PerMember bytes_, unit_;
  std::mutex areas_mutex_;                // threads may attach and detach at the same time
  std::vector<const void*> empty_areas_;  // of dynamic: attached with no bytes
};

}  // namespace skerry::window
