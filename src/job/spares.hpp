// Ranks that wait in the start of a job that goes on until a group takes them in, in the places of
// the dead (`skerry run --spares`). They have joined as all others: nodes, addresses and servers
// are there from the start. Only the program's world leaves them out, and that of a spare is itself
// alone.
#pragma once

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "job/bootstrap/bootstrap.hpp"

namespace skerry::job {

class Group;
class Job;

class Spares {
 public:
  // At the end of the start, when views are there. A spare waits here. Errors: those of a group
  // that is made of the living; peer_dead (the job is ending).
  Status enter(Job& job, Rank count);
  // Of a spare: until a group takes it in, or the job is over. Errors: those of a meeting.
  Status wait(Job& job);
  // How many there were at the start: the last ranks.
  Rank count() const { return count_; }
  bool is_one() const { return is_one_; }
  // The job ends, and nobody has taken this one in.
  bool is_unneeded() const { return is_one_ && taken_in_.came.empty(); }
  // Who came to the meeting that has taken this one in, and with what.
  const News::Met& taken_in() const { return taken_in_; }
  // What the program has for the world; null: the job has no spares.
  Group* world() const { return world_; }

 private:
  Rank count_ = 0;
  bool is_one_ = false;
  Group* world_ = nullptr;
  News::Met taken_in_;
};

}  // namespace skerry::job
