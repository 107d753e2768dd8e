// A number for each member of a group, such as the bytes of its slice, as runs of equal ones: if
// all are equal it takes no memory, however large the group. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace skerry::placement {

class MemberValues {
 public:
  struct Run {
    uint64_t value;
    int32_t first;     // member; it ends where the next run begins
    int32_t reserved;  // 0
  };
  MemberValues() = default;
  // All members have the same.
  static MemberValues equal(uint64_t value);
  // `table`: what Builder::store wrote, which outlives this.
  static MemberValues of_runs(const std::byte* table, uint32_t runs);
  static MemberValues of_each(const std::byte* table, int32_t members);

  uint64_t at(int32_t member) const {
    switch (form_) {
      case Form::equal: break;
      case Form::runs: return at_run(member);
      case Form::each: return static_cast<const uint64_t*>(table_)[member];
    }
    return value_;
  }
  bool are_equal() const { return form_ == Form::equal; }
  uint64_t table_bytes() const {
    return form_ == Form::runs ? uint64_t{count_} * sizeof(Run) : uint64_t{count_} * sizeof(value_);
  }

  // Takes the values in order of members.
  class Builder {
   public:
    // keeps false: only counts; for the members that leave the table to one of them.
    Builder(int32_t members, bool keeps) : members_(members), keeps_(keeps) {}
    void add(uint64_t value, int32_t times = 1);
    // How large the table is: 0 if all are equal. All values have been added.
    uint64_t table_bytes() const;
    // Into `table`, of table_bytes(), by the one that keeps.
    void store(std::byte* table) const;
    // On what store wrote, by anybody who added the same.
    MemberValues view(const std::byte* table) const;

   private:
    bool is_dense() const;

    const int32_t members_;
    const bool keeps_;
    int32_t added_ = 0;
    uint32_t run_count_ = 0;
    uint64_t last_ = 0;
    std::vector<Run> runs_;       // empty: does not keep, or too many
    std::vector<uint64_t> each_;  // since runs take more
  };

 private:
  enum class Form : uint8_t { equal, runs, each };
  uint64_t at_run(int32_t member) const;

  Form form_ = Form::equal;
  uint32_t count_ = 0;  // of runs, or of values; equal: 0
  uint64_t value_ = 0;
  const void* table_ = nullptr;  // equal: null
};

}  // namespace skerry::placement
