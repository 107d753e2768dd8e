#include "placement/member_values.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::placement {

MemberValues MemberValues::equal(uint64_t value) {
  MemberValues made;
  made.value_ = value;
  return made;
}

MemberValues MemberValues::of_runs(const std::byte* table, uint32_t runs) {
  MemberValues made;
  made.form_ = Form::runs;
  made.count_ = runs;
  made.table_ = table;
  return made;
}

MemberValues MemberValues::of_each(const std::byte* table, int32_t members) {
  MemberValues made;
  made.form_ = Form::each;
  made.count_ = static_cast<uint32_t>(members);
  made.table_ = table;
  return made;
}

uint64_t MemberValues::at_run(int32_t member) const {
  const std::span all(static_cast<const Run*>(table_), count_);
  const auto after = std::ranges::upper_bound(all, member, {}, &Run::first);
  return (after - 1)->value;
}

// ---- building ---------------------------------------------------------------------------------

// A run takes two numbers' room. Known to all that add the same, whether they keep or not.
bool MemberValues::Builder::is_dense() const {
  return uint64_t{run_count_} * sizeof(Run) > static_cast<uint64_t>(members_) * sizeof(uint64_t);
}

void MemberValues::Builder::add(uint64_t value, int32_t times) {
  if (times == 0) return;
  const bool opens = added_ == 0 || value != last_;
  const int32_t first = added_;
  added_ += times;
  last_ = value;
  if (opens) ++run_count_;
  if (!keeps_) return;
  if (!is_dense()) {
    if (opens) runs_.push_back({value, first, 0});
    return;
  }
  if (each_.empty()) {
    each_.reserve(static_cast<size_t>(members_));
    for (size_t k = 0; k < runs_.size(); ++k)
      each_.resize(static_cast<size_t>(k + 1 < runs_.size() ? runs_[k + 1].first : first),
                   runs_[k].value);
    std::vector<Run>().swap(runs_);
  }
  each_.resize(static_cast<size_t>(added_), value);
}

uint64_t MemberValues::Builder::table_bytes() const {
  if (run_count_ <= 1) return 0;
  return is_dense() ? static_cast<uint64_t>(members_) * sizeof(uint64_t)
                    : uint64_t{run_count_} * sizeof(Run);
}

void MemberValues::Builder::store(std::byte* table) const {
  if (run_count_ <= 1) return;
  std::memcpy(
      table,
      is_dense() ? static_cast<const void*>(each_.data()) : static_cast<const void*>(runs_.data()),
      table_bytes());
}

MemberValues MemberValues::Builder::view(const std::byte* table) const {
  if (run_count_ <= 1) return MemberValues::equal(last_);
  return is_dense() ? of_each(table, members_) : of_runs(table, run_count_);
}

}  // namespace skerry::placement
