// A number for each member of a group, such as the bytes of its slice, as runs of equal ones. If
// all are equal it takes no memory, however large the group. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/pure/copy_bytes.hpp"

namespace skerry::placement {

class MemberValues {
 public:
  struct Run {
    uint64_t value;
    int32_t first;     // member; it ends where the next run begins
    int32_t reserved;  // 0
  };
  MemberValues() = default;
  explicit MemberValues(uint64_t equal) : equal_(equal) {}  // all members have the same

  uint64_t at(int32_t member) const {
    if (are_equal()) return equal_;
    return (std::ranges::upper_bound(runs_, member, {}, &Run::first) - 1)->value;
  }
  bool are_equal() const { return runs_.empty(); }
  uint64_t table_bytes() const { return runs_.size_bytes(); }

  // Takes the values in order of members.
  class Builder {
   public:
    // keeps false: only counts; for the members that leave the table to one of them.
    explicit Builder(bool keeps) : keeps_(keeps) {}
    void add(uint64_t value, int32_t times = 1) {
      if (times == 0) return;
      if (run_count_ == 0 || value != last_) {
        ++run_count_;
        if (keeps_) runs_.push_back({value, added_, 0});
      }
      added_ += times;
      last_ = value;
    }
    // How large the table is: 0 if all are equal. All values have been added.
    uint64_t table_bytes() const { return run_count_ <= 1 ? 0 : run_count_ * sizeof(Run); }
    // Into `table`, of table_bytes(), by the one that keeps.
    void store(std::byte* table) const {
      copy_bytes(table, runs_.data(), table_bytes());
    }
    // On what store wrote, which outlives the view, by anybody who added the same.
    MemberValues view(const std::byte* table) const {
      MemberValues made(last_);
      if (run_count_ > 1) made.runs_ = {reinterpret_cast<const Run*>(table), run_count_};
      return made;
    }

   private:
    const bool keeps_;
    int32_t added_ = 0;
    uint32_t run_count_ = 0;
    uint64_t last_ = 0;
    std::vector<Run> runs_;  // if it keeps
  };

 private:
  uint64_t equal_ = 0;
  std::span<const Run> runs_;  // empty: all have the same
};

}  // namespace skerry::placement
