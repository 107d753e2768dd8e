#include "job/memory_survey.hpp"

#include <algorithm>
#include <span>

#include "core/futex.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "memory/node_memory.hpp"

namespace skerry::job {

namespace {

uint64_t add_capped(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

// With virtual nodes on several machines: what this one's members take replaces what all do.
Status count_on_machine(Group& group, const MemorySurvey& own, MemorySurvey* all) {
  struct Taken {
    uint64_t machine, bytes, cgroup;
  } const mine{own.lowest_machine, own.taken_bytes, own.cgroup};
  all->taken_bytes = 0;
  all->cgroup = MemorySurvey::nobody_takes;
  all->lowest_machine = all->highest_machine = mine.machine;
  return group.collect(mine, 0, group.size(), [&](std::span<const Taken> passing, int32_t) {
    for (const Taken& one : passing)
      if (one.machine == mine.machine) all->add_taken(one.bytes, one.cgroup);
  });
}

}  // namespace

uint64_t whole_pages(uint64_t bytes) {
  return bytes > UINT64_MAX - memory::page_bytes ? UINT64_MAX
                                                 : memory::round_up(bytes, memory::page_bytes);
}

Status MemoryRoom::check(Job& job, const MemoryAsk& ask) {
  constexpr uint64_t notable_part = 16;  // of what is left, shared by the ranks of the machine
  constexpr int64_t moment_ns = 200'000'000;
  const std::lock_guard guard(mutex_);
  const int64_t now_ns = monotonic_ns();
  if (now_ns - looked_ns_ < moment_ns && ask.node_bytes <= left_bytes_) {
    left_bytes_ -= ask.node_bytes;
    return {};
  }
  uint64_t left_bytes = 0;
  Status status = check_memory(ask, &left_bytes);
  if (status.code() == Code::no_memory) {
    SKERRY_TRY(job.give_back_kept());
    status = check_memory(ask, &left_bytes);
  }
  left_bytes_ = status.ok() ? left_bytes / (notable_part * job.ranks_of_machine()) : 0;
  looked_ns_ = now_ns;
  return status;
}

void MemorySurvey::add_taken(uint64_t bytes, uint64_t of_cgroup) {
  taken_bytes = add_capped(taken_bytes, bytes);
  if (cgroup == nobody_takes) cgroup = of_cgroup;
  else if (of_cgroup != nobody_takes && of_cgroup != cgroup) cgroup = several_cgroups;
}

void MemorySurvey::merge(const MemorySurvey& from) {
  least_bytes = std::min(least_bytes, from.least_bytes);
  most_bytes = std::max(most_bytes, from.most_bytes);
  if (usual_bytes == from.usual_bytes) {
    votes += from.votes;
  } else if (votes >= from.votes) {
    votes -= from.votes;
  } else {
    usual_bytes = from.usual_bytes;
    votes = from.votes - votes;
  }
  generation |= from.generation;
  lowest_ready = std::min(lowest_ready, from.lowest_ready);
  highest_ready = std::max(highest_ready, from.highest_ready);
  for (int32_t k = 0; k < most_listed; ++k) bytes_of[k] |= from.bytes_of[k];
  add_taken(from.taken_bytes, from.cgroup);
  lowest_machine = std::min(lowest_machine, from.lowest_machine);
  highest_machine = std::max(highest_machine, from.highest_machine);
  virtual_nodes |= from.virtual_nodes;
}

Status MemorySurvey::ask(Group& group, uint64_t bytes, uint64_t taken, uint64_t ready,
                         MemorySurvey* all) {
  Job& job = group.job();
  const bool names = job.rank() == group.lowest() && ready == 0;
  MemorySurvey own{.least_bytes = bytes,
                         .most_bytes = bytes,
                         .usual_bytes = bytes,
                         .votes = 1,
                         .generation = names ? job.next_generation() : 0,
                         .lowest_ready = ready,
                         .highest_ready = ready,
                         .taken_bytes = whole_pages(taken),
                         .lowest_machine = job.machine(),
                         .highest_machine = job.machine(),
                         .cgroup = taken > 0 ? job.cgroup_hash() | 1 : nobody_takes,
                         .virtual_nodes = job.has_virtual_nodes(),
                         .bytes_of = {}};
  if (group.size() <= most_listed) own.bytes_of[group.index()] = bytes;
  *all = own;
  SKERRY_TRY(
      group.combine(all, [](MemorySurvey* into, const MemorySurvey& from) { into->merge(from); }));
  if (all->all_are_ready() || all->virtual_nodes == 0 ||
      all->lowest_machine == all->highest_machine || all->taken_bytes == 0)
    return {};
  return count_on_machine(group, own, all);
}

Status MemorySurvey::check_room(Job& job, uint64_t bytes, uint64_t local_bytes,
                                uint64_t beside_bytes) const {
  const bool is_one = lowest_machine == highest_machine;
  const Status status = job.memory_room().check(
      job, {whole_pages(bytes), add_capped(is_one ? taken_bytes : local_bytes, beside_bytes),
            is_one ? cgroup != several_cgroups : job.node_is_one_cgroup()});
  if (status.ok()) return {};
  return Status(status.code(),
                concat("rank ", job.rank(), " asks for ", bytes, " bytes: ", status.message()));
}

}  // namespace skerry::job
