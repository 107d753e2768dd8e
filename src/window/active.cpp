// Access epochs in which the target takes part: fence, and post, start, complete, wait.
#include <algorithm>

#include "window/epochs.hpp"

namespace skerry::window {

Status Epochs::fence(uint32_t promises) {
  SKERRY_TRY(context_.check_usable());
  SKERRY_TRY(check_promises(promises, no_store | no_put | no_precede | no_succeed, "fence"));
  StateLock state = guard();
  SKERRY_TRY(check_outside("fence"));
  epoch_ = (promises & no_succeed) != 0 ? Epoch::none : Epoch::fence;
  if (state.owns_lock()) state.unlock();
  const Status waited = completion_.wait_issued();
  // With no_precede nobody has issued anything; what MPI then still asks for is that no access of
  // the next epoch comes before everybody is here.
  job::Group& group = *context_.group;
  const Status synced = (promises & no_precede) != 0 ? group.barrier() : group.sync();
  const Status status = waited.ok() ? synced : waited;
  if (context_.check == nullptr) [[likely]]
    return status;
  const Status compared = synced.ok() ? context_.check->compare(group) : Status();
  return context_.done_there(no_rank, status.ok() ? compared : status);
}

Status Epochs::check_group(std::span<const Rank> ranks) const {
  for (Rank rank : ranks) SKERRY_TRY(context_.check_member(rank));
  std::vector<Rank> ascending(ranks.begin(), ranks.end());
  std::ranges::sort(ascending);
  const auto twice = std::ranges::adjacent_find(ascending);
  if (twice == ascending.end()) return {};
  // One post is one byte, and a second start would wait for another post for ever.
  return error(Code::invalid, "rank ", *twice, " is in the group twice: name each member once");
}

Status Epochs::post(std::span<const Rank> ranks, uint32_t promises) {
  SKERRY_TRY(context_.check_usable());
  SKERRY_TRY(check_promises(promises, no_check | no_store | no_put, "post"));
  SKERRY_TRY(check_group(ranks));
  if (exposure_.is_open())
    return error(Code::invalid, "rank ", job_.rank(), " posts again: wait for the last post first");
  return exposure_.post(ranks);
}

Status Epochs::start(std::span<const Rank> ranks, uint32_t promises) {
  SKERRY_TRY(context_.check_usable());
  SKERRY_TRY(check_promises(promises, no_check, "start"));
  SKERRY_TRY(check_group(ranks));
  StateLock state = guard();
  SKERRY_TRY(check_outside("start"));
  if (state.owns_lock()) state.unlock();
  SKERRY_TRY(exposure_.await_posts(ranks));
  state = guard();
  for (Rank rank : ranks) {
    Target* target = nullptr;
    SKERRY_TRY(this->target(rank, &target));
    target->hold = Hold::free;
    target->own_epoch = false;
  }
  started_.assign(ranks.begin(), ranks.end());
  epoch_ = Epoch::start;
  return {};
}

Status Epochs::complete() {
  SKERRY_TRY(context_.check_usable());
  StateLock state = guard();
  if (epoch_ != Epoch::start)
    return error(Code::invalid, "rank ", job_.rank(), " calls complete without start");
  epoch_ = Epoch::none;
  for (Rank rank : started_) targets_.at(rank)->hold = Hold::none;
  if (state.owns_lock()) state.unlock();
  const Status waited = completion_.wait_issued();
  // The targets wait for this even if an access was refused.
  const Status told = exposure_.complete(started_);
  return context_.done_there(no_rank, waited.ok() ? told : waited);
}

Status Epochs::wait() {
  SKERRY_TRY(context_.check_usable());
  if (!exposure_.is_open())
    return error(Code::invalid, "rank ", job_.rank(), " calls wait without post");
  SKERRY_TRY(exposure_.wait());
  exposure_.close();
  return {};
}

Status Epochs::test(bool* done) {
  SKERRY_TRY(context_.check_usable());
  if (!exposure_.is_open())
    return error(Code::invalid, "rank ", job_.rank(), " calls test without post");
  SKERRY_TRY(exposure_.test(done));
  if (*done) exposure_.close();
  return {};
}

}  // namespace skerry::window
