// What members of a group tell each other about memory, merged in every order.
#include "job/memory_survey.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace skerry::job {
namespace {

MemorySurvey member(uint64_t bytes, uint64_t taken = 0, uint64_t cgroup = 0) {
  return {.least_bytes = bytes,
          .most_bytes = bytes,
          .usual_bytes = bytes,
          .votes = 1,
          .generation = 0,
          .lowest_ready = 0,
          .highest_ready = 0,
          .taken_bytes = taken,
          .lowest_machine = 1,
          .highest_machine = 1,
          .cgroup = cgroup,
          .virtual_nodes = 0,
          .bytes_of = {}};
}

MemorySurvey merged(const std::vector<MemorySurvey>& all, size_t from, size_t to) {
  if (to - from == 1) return all[from];
  MemorySurvey left = merged(all, from, (from + to) / 2);
  left.merge(merged(all, (from + to) / 2, to));
  return left;
}

TEST(MemorySurvey, FindsTheSizeOfMoreThanHalfInEveryOrder) {
  std::vector<uint64_t> sizes = {8, 64, 64, 64, 4096};
  do {
    std::vector<MemorySurvey> all;
    for (const uint64_t bytes : sizes) all.push_back(member(bytes));
    const MemorySurvey found = merged(all, 0, all.size());
    EXPECT_EQ(found.usual_bytes, 64u) << testing::PrintToString(sizes);
    EXPECT_EQ(found.least_bytes, 8u);
    EXPECT_EQ(found.most_bytes, 4096u);
  } while (std::next_permutation(sizes.begin(), sizes.end()));
}

TEST(MemorySurvey, AddsWhatIsTakenAndStopsAtTheLargestNumber) {
  MemorySurvey all = member(0, UINT64_MAX - 10, 3);
  all.merge(member(0, 10, 3));
  EXPECT_EQ(all.taken_bytes, UINT64_MAX);
  all.merge(member(0, 4096, 3));
  EXPECT_EQ(all.taken_bytes, UINT64_MAX);
}

TEST(MemorySurvey, KnowsWhetherThoseThatTakeShareACgroup) {
  const MemorySurvey none = member(8);
  MemorySurvey all = none;
  all.merge(none);
  EXPECT_EQ(all.cgroup, MemorySurvey::nobody_takes);
  all.merge(member(8, 8, 5));
  all.merge(none);
  all.merge(member(8, 8, 5));
  EXPECT_EQ(all.cgroup, 5u);
  all.merge(member(8, 8, 7));
  EXPECT_EQ(all.cgroup, MemorySurvey::several_cgroups);
  all.merge(member(8, 8, 7));
  EXPECT_EQ(all.cgroup, MemorySurvey::several_cgroups);
}

TEST(MemorySurvey, PagesOfTheLargestNumberStayCountable) {
  EXPECT_EQ(whole_pages(0), 0u);
  EXPECT_EQ(whole_pages(1), 4096u);
  EXPECT_EQ(whole_pages(UINT64_MAX - 1), UINT64_MAX);
}

}  // namespace
}  // namespace skerry::job
