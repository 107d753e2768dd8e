// The memory that a window gives access to: of its members, where it lies, and how this rank
// reaches it.
#pragma once

#include <cstdint>
#include <mutex>
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
  Memory(Context& context, Flavor flavor, void* base, uint64_t bytes, bool keeps)
      : context_(context), flavor_(flavor), keeps_data_(keeps), base_(base), base_bytes_(bytes) {}
  Memory(const Memory&) = delete;
  ~Memory() { forget_moved(); }

  // ---- life; all collective, but for the first two ----
  // What the group keeps for such a window is made ready, so that the others may look at it after
  // the next collective.
  void give_kept();
  // This process reaches the given memory of this node's members. The others of the group look for
  // themselves, so each pair of this node's members is looked at.
  Status check_reach() const;
  // All members' sizes and units; does some member want its given memory moved?
  void take_note(std::vector<uint64_t> bytes, std::vector<uint64_t> units, bool any_moves);
  // *is_known: all members know that the others' data are ready.
  Status open(bool* is_known);
  // The program's own pages go back to where they were.
  Status move_out();
  // Nobody accesses it any more, and all members know that.
  void give_up();

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
  PerMember shape() const { return flavor_ == Flavor::allocated ? bytes_ : PerMember(); }
  bool keeps_data() const { return keeps_data_ && !any_moves_; }
  Status make_data();
  void give(job::Segment& data) const;
  void move_in(const memory::Pages& pages);
  void forget_moved();
  void describe_given(Target& target) const;
  memory::Given* given() const { return reinterpret_cast<memory::Given*>(data_->own()); }

  Context& context_;
  const Flavor flavor_;
  const bool keeps_data_;
  void* const base_;
  const uint64_t base_bytes_;
  job::Segment* data_ = nullptr;  // allocated: the memory. Otherwise its description (target.hpp)
  bool any_moves_ = false;        // some member wants its given memory moved
  memory::Moved moved_;           // of created: its own pages that are shared now
  PerMember bytes_, unit_;
  std::mutex areas_mutex_;                // threads may attach and detach at the same time
  std::vector<const void*> empty_areas_;  // of dynamic: attached with no bytes
};

}  // namespace skerry::window
