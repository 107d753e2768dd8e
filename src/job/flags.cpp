#include "job/flags.hpp"

#include <utility>

#include "core/pure/assert.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "job/waiting.hpp"
#include "memory/doorbell.hpp"

namespace skerry::job {

void Flags::open(Job& job, std::vector<Member> members, uint32_t own) {
  SKERRY_INVARIANT(own < members.size() && step_ == 0, "opened once, by a member");
  job_ = &job;
  members_ = std::move(members);
  own_ = own;
}

void Flags::post() {
  line(own_, step_).step.store(step_, std::memory_order_seq_cst);
  if (sleep(0).asleep.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    wake();
}

void Flags::leave(Rank leaver, Gone why, uint64_t from) {
  Sleep& mine = sleep(own_);
  mine.leaver.store(leaver, std::memory_order_relaxed);
  mine.gone.store(static_cast<uint32_t>(why), std::memory_order_relaxed);
  for (uint64_t s = 0; s < lines; ++s)
    line(own_, s).left.store(from, std::memory_order_seq_cst);
  post();
}

void Flags::wake() {
  for (uint32_t m = 0; m < count(); ++m) {
    if (sleep(m).waits_for.load(std::memory_order_relaxed) != own_ + 1) continue;
    const auto index = static_cast<uint32_t>(job_->member_of(members_[m].rank));
    memory::ring_doorbell(job_->control().member(index));
  }
}

// The member has posted `step`, or has left the job.
Status Flags::await_line(uint32_t member, uint64_t step) {
  const Line& there = line(member, step);
  const auto ready = [&] {
    return there.step.load(std::memory_order_acquire) >= step ||
           there.left.load(std::memory_order_acquire) != 0;
  };
  // Where every rank has a core the other is often just about to post.
  constexpr int moment = 200;
  if (!job_->is_crowded())
    for (int i = 0; i < moment; ++i)
      if (ready()) return {};
  if (ready()) return {};
  // What the other waits for may depend on what this rank sent.
  SKERRY_TRY(job_->engine().push_out());
  sleep(own_).waits_for.store(member + 1, std::memory_order_relaxed);
  const Survivors& survivors = group_->survivors_;
  const auto ends = [&] { return ready() || survivors.ends_wait_for(members_[member].rank); };
  const WaitResult result = wait_here(*job_, -1, &sleep(0).asleep, ends, [&] {
    return concat("rank ", members_[member].rank, " to come to a collective call");
  });
  sleep(own_).waits_for.store(0, std::memory_order_relaxed);
  if (result != WaitResult::reached) return job_->check_abort();
  // What the dead posted last was posted before anybody heard of its death.
  return ready() ? Status() : survivors.death();
}

// All others have read what they wanted of the steps before this one.
Status Flags::await_readers(uint64_t read_before, uint32_t* leaver) {
  for (uint32_t m = 0; m < count(); ++m) {
    if (m == own_) continue;
    SKERRY_TRY(await_line(m, read_before));
    if (line(m, read_before).step.load(std::memory_order_relaxed) < read_before) *leaver = m;
  }
  met_ = read_before;
  return {};
}

Status Flags::await_long(uint32_t member, bool* has_left) {
  SKERRY_TRY(await_line(member, step_));
  const uint64_t left = line(member, step_).left.load(std::memory_order_acquire);
  *has_left = *has_left || (left != 0 && left <= step_);
  return {};
}

}  // namespace skerry::job
