// What all parts of a window see: whose it is, and what of all that this rank issued is done by
// now.
#pragma once

#include <memory>
#include <utility>

#include "core/pure/ordering.hpp"
#include "job/group.hpp"
#include "job/job.hpp"
#include "window/check.hpp"
#include "window/target.hpp"

namespace skerry::window {

struct WindowContext {
  job::Job& job;
  job::Group* group;             // null: the window was freed, or stands for all that were
  const bool multiple;           // several threads may call at the same time
  std::unique_ptr<Check> check;  // null: not in the debug mode

  WindowContext(job::Job& of, job::Group* members)
      : job(of),
        group(members),
        multiple(of.options().thread_level == job::ThreadLevel::multiple),
        completes_at_once(of.options().config.complete_at_once) {}

  // What is issued to a member of another node is done there when the call returns.
  const bool completes_at_once;

  // Errors: invalid (no member).
  Status check_member(Rank rank) const {
    if (group->index_of(rank) >= 0) return {};
    if (rank < 0 || rank >= job.size())
      return error(Code::invalid, "rank ", rank, " does not exist: this job has ranks 0 to ",
                   job.size() - 1);
    return error(Code::invalid, "rank ", rank, " is not a member of the window's group");
  }

  // ---- what is done ----
  // A put to memory of this node is a plain store, which other cores do not see at once. Updates
  // complete by themselves (memory/stripes.hpp).
  void will_store() {
    if (!multiple) has_stored_ = true;
  }
  // What this rank put to memory of its node is visible to all before this thread loads again.
  // Where several threads call, any of them may have put: then this always fences.
  void complete_stores() {
    if (!multiple && !std::exchange(has_stored_, false)) return;
    full_fence();
  }
  // The same right behind an atomic read-modify-write. Below thread level multiple alone.
  void complete_stores_after_rmw() {
    full_fence_after_rmw();
    has_stored_ = false;
  }
  // Everything that this rank issued is done here, with handles or without.
  Status wait_issued() const {
    Status status = job.engine().wait_implicit();
    status.also(job.engine().wait_named());
    return status;
  }
  // Everything issued to this member is done there.
  Status finish(const Target& target) {
    if (target.region != nullptr) {
      complete_stores();
      return {};
    }
    Status status = wait_issued();
    status.also(job.engine().fence_node(target.node));
    return status;
  }
  // What the call returns that issued something to this member.
  Status issued(const Target& target, Status status) {
    if (!completes_at_once || target.region != nullptr || !status.ok()) [[likely]]
      return status;
    return finish(target);
  }
  // Everything issued to `rank` (no_rank: to all) is done here, or there, too, with this answer:
  // what the call returns. In the debug mode it may have found something.
  Status done_here(Rank rank, Status status) const {
    if (check != nullptr) status.also(check->done_here(rank));
    return status;
  }
  Status done_there(Rank rank, Status status) const {
    if (check != nullptr) status.also(check->done_there(rank));
    return status;
  }

 private:
  bool has_stored_ = false;  // put to memory of this node since the last full fence; below thread
                             // level multiple
};

}  // namespace skerry::window
