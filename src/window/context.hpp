// What all parts of a window see.
#pragma once

#include <memory>
#include <utility>

#include "job/group.hpp"
#include "job/job.hpp"
#include "window/check.hpp"

namespace skerry::window {

struct Context {
  job::Job& job;
  job::Group* group;             // null: the window was freed, or stands for all that were
  const bool multiple;           // several threads may call at the same time
  std::unique_ptr<Check> check;  // null: not in the debug mode

  Context(job::Job& of, job::Group* members)
      : job(of),
        group(members),
        multiple(of.options().thread_level == job::ThreadLevel::multiple) {}

  // Errors: freed.
  Status check_usable() const {
    return group == nullptr ? error(Code::freed, "the window was freed") : Status();
  }
  // Errors: invalid (no member).
  Status check_member(Rank rank) const {
    if (group->index_of(rank) >= 0) return {};
    if (rank < 0 || rank >= job.size())
      return error(Code::invalid, "rank ", rank, " does not exist: this job has ranks 0 to ",
                   job.size() - 1);
    return error(Code::invalid, "rank ", rank, " is not a member of the window's group");
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
};

}  // namespace skerry::window
