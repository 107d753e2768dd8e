#include "job/spares.hpp"

#include "job/group.hpp"
#include "job/job.hpp"

namespace skerry::job {

Status Spares::enter(Job& job, Rank count) {
  count_ = count;
  if (count == 0) return {};
  const Rank others = job.size() - count;
  is_one_ = job.rank() >= others;
  SKERRY_TRY(Survivors::open(job, is_one_ ? job.rank() : 0, is_one_ ? 1 : others, &world_));
  return is_one_ ? wait(job) : Status();
}

Status Spares::wait(Job& job) {
  return job.views_.meet(concat("spare.", job.rank()), -1, {}, {}, &taken_in_);
}

}  // namespace skerry::job
