// A running job as its memory on this machine shows it. One reader for all who look: `skerry
// stacks`, `top`, `matrix`, and sk.attach in Python.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/panel.hpp"
#include "launcher/look/process.hpp"
#include "lock/mutex.hpp"
#include "memory/control.hpp"
#include "memory/wait_note.hpp"

namespace skerry::look {

struct Wait {
  int64_t since_ns = 0;  // monotonic clock
  std::string text;
  memory::LockName lock;  // false: it waits for no lock
};

// A rank on this machine.
struct RankView {
  Rank rank = no_rank;
  uint32_t member = 0;   // its index on its node
  uint64_t control = 0;  // where its process maps its node's control segment ...
  uint64_t entry = 0;    // ... and in it the rank's memory::Member
  uint64_t panel_at = 0;
  std::shared_ptr<Process> process;
  std::map<uint64_t, Mapped> segments;  // of its process
  job::Panel panel;                     // of that process: its pointers lead there
};

struct JobView {
  std::string name;
  std::vector<RankView> ranks;  // ascending; those of this machine
  int32_t all_ranks() const { return ranks.front().panel.ranks; }
  int32_t nodes() const { return ranks.front().panel.nodes; }
  // Null: it is on another machine, or has left.
  const RankView* find(Rank rank) const;
  std::string program() const;
};

// All jobs that may be looked at; each has a rank. *remarks: a line for each process that runs
// another version.
std::vector<JobView> find_jobs(std::vector<std::string>* remarks);
// `word`: a job's name, the beginning of one, or the process of a rank or of its launcher; empty:
// the only job. Errors: invalid, with the jobs that there are.
Status find_job(const std::string& word, JobView* job);

memory::ControlLayout layout_of(const RankView& rank);
// Its job has begun to end, or its process has ended.
bool has_left(const RankView& rank);
// None: it does not wait, or the note is being changed.
std::optional<Wait> wait_of(const RankView& rank);

// Who holds a lock now.
struct Holders {
  bool is_known = false;    // false: its home is on another machine, or gone
  uint64_t word = 0;        // see lock/mutex.hpp
  std::vector<Rank> ranks;  // the exclusive holder, or sharers whose names are known
  uint64_t unnamed = 0;     // sharers beside them
};
Holders holders_of(const JobView& job, const memory::LockName& lock);

// Locks of the fair queue that somebody holds, of homes on this machine; of each slice the first
// ones.
struct LockSample {
  memory::LockName lock;
  Holders holders;
};
std::vector<LockSample> locks_held(const JobView& job);

// The slice of `rank` of a segment. None: it is on another machine, or was freed.
struct Slice {
  const RankView* home = nullptr;
  uint64_t address = 0;  // in that process
  uint64_t bytes = 0;
};
std::optional<Slice> slice_of(const JobView& job, uint64_t segment, Rank rank);

}  // namespace skerry::look
