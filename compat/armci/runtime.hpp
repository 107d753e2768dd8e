// What libarmci holds between calls, how a failed call ends, and the macro that defines a function
// under its two names.
//
// ARMCI's interface has no job handle, so there is one Runtime in a process: the one place here
// where a global cannot be avoided.
#pragma once

#include <armci.h>
#include <skerry/skerry.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../text.hpp"

// PROFILED(int, Put, (void* src, ...)) { ... } defines PARMCI_Put, and ARMCI_Put as a weak name of
// it, which a tool may define itself.
#define PROFILED(type, name, arguments)                                                 \
  extern "C" __attribute__((weak, alias("PARMCI_" #name))) type ARMCI_##name arguments; \
  extern "C" type PARMCI_##name arguments

namespace skerry::armci {

// A group that is alive. ARMCI_Group values point here.
struct Group {
  skerry_group* group = nullptr;
  MPI_Comm comm = MPI_COMM_NULL;  // the program's; owned here. MPI_COMM_NULL: of this process's own
                                  // making only (scopes)
  int rank = -1;
  int size = 0;
  uint64_t serial = 0;  // allocations made over it so far; equal on all members
  uintptr_t
      number = 0;  // of this process's groups, from 1; 0: the world and those of the library's own
};

struct Runtime {
  skerry_job* job = nullptr;  // null: not started
  int starts = 0;             // ARMCI_Init not yet matched by ARMCI_Finalize
  int rank = -1;
  int size = 0;
  pid_t process = -1;     // that started
  bool multiple = false;  // several threads at once
  bool owns_mpi = false;  // MPI was initialised here: the end of the process finalises it
  MPI_Comm messages = MPI_COMM_NULL;  // of armci_msg_snd and the like alone, so that the program's
                                      // messages never meet them
  Group world;    // comm: the program's, a duplicate of what ARMCI was started with
  Group node;     // processes of this node
  Group masters;  // the first process of every node; group null elsewhere
  Group* default_group = nullptr;
  int near_from = 0;   // processes [near_from, near_from + near_count) are on this node; there may
                       // be others
  int near_count = 0;  // 0: not started
  std::vector<std::unique_ptr<Group>> groups;  // made by the program and not yet freed
  uintptr_t groups_made = 0;                   // ever
  std::mutex mutex;                            // guards what several threads change, if multiple
};

Runtime& runtime();

// Locks only if several threads may be here at once.
class Guard {
 public:
  Guard() {
    if (!runtime().multiple) return;
    runtime().mutex.lock();
    locked_ = true;
  }
  ~Guard() {
    if (locked_) runtime().mutex.unlock();
  }
  Guard(const Guard&) = delete;

 private:
  bool locked_ = false;
};

using compat::text;

// Ends the job with "ARMCI_<call>: <what>".
[[noreturn]] void die(const char* call, const std::string& what, int code = 1);
// A wrong argument: one line on standard error; answers a number below zero.
int complain(const char* call, const std::string& what);
// A status of Skerry's: 0, or the end of the job.
inline int settle(const char* call, int status) {
  if (status == SKERRY_OK) [[likely]]
    return 0;
  die(call, skerry_last_error());
}
// Ends the job if ARMCI is not started: most programs would go on with nonsense.
inline void need_start(const char* call) {
  if (runtime().job == nullptr) [[unlikely]]
    die(call, "ARMCI is not initialised: call ARMCI_Init first");
}
// The group that a value names. Ends the job if it names none that is alive, or one that the caller
// is no member of.
Group& live(const char* call, const ARMCI_Group* group);
inline bool is_rank(int proc) { return proc >= 0 && proc < runtime().size; }

// Nonzero if MPI can be called: initialised and not finalised.
bool mpi_is_up();
// Over a communicator that outlives its use.
skerry_exchange exchange_over(MPI_Comm* comm);

// Collective parts of start and end, by room.
void start_groups();
void end_groups();
int start_notifications();
void end_memory();
void end_handles();
void forget_group(const Group* group);

}  // namespace skerry::armci
