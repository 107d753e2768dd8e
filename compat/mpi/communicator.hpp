// Communicators of the program, and the jobs of Skerry that serve them.
//
// A job starts when the first window is made over a communicator whose members are not all in one
// job yet, and consists of the members of that communicator. Programs whose first window is over
// all processes have one job, so do most others. Jobs end when MPI_Finalize is over.
#pragma once

#include <skerry/skerry.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "library.hpp"

namespace skerry::mpi {

// Of what adapters tell each other (Hello, Decision, Told, and the order of their messages): raise
// it with each change, so that a job of differing builds is refused.
constexpr uint32_t adapter_version = 3;

struct Job {
  uint64_t id = 0;                // the same on all members
  skerry_job* job = nullptr;      // null: it has ended
  bool is_multiple = false;       // threads call MPI at the same time
  MPI_Comm comm = MPI_COMM_NULL;  // of our own; its ranks are the job's
  MPI_Group group = MPI_GROUP_NULL;
  skerry_mutexes* mutexes = nullptr;  // update_mutexes at each rank, for updates (update.cpp)
};
constexpr uint32_t update_mutexes = 16;

// What is kept of a communicator over which windows were made: an attribute of it, and of each of
// its windows. It may be freed before they are.
struct Communicator {
  MPI_Comm comm = MPI_COMM_NULL;  // a duplicate of our own
  MPI_Group group = MPI_GROUP_NULL;
  int rank = 0;
  int size = 0;
  std::shared_ptr<Job> job;         // null: windows over it are the library's
  skerry_group* members = nullptr;  // null: as `job`
  // With threads: a window synchronizes over `members`, so others need groups of their own. Two
  // threads may be in collective calls on two windows.
  std::atomic<bool> are_members_taken{false};
  std::vector<int> ranks;  // of the job, by rank of the communicator; empty: the same
  bool is_on_one_node = false;
  std::string why_not;  // if `job` is null

  int job_rank(int of) const { return ranks.empty() ? of : ranks[static_cast<size_t>(of)]; }
  ~Communicator();
};

// Finds it, or starts what is missing. Collective over the communicator. Null: the communicator
// can have no windows of ours (it connects two groups, or is none).
std::shared_ptr<Communicator> communicator_of(MPI_Comm comm);

// Another group of its members, for one window. Collective.
int make_group(Communicator& over, skerry_group** group);

bool is_set(const char* variable);  // in the environment, to something else than 0

}  // namespace skerry::mpi
