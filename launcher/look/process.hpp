// The memory of a process of a running job, read from outside by the kernel's leave: it shows it to
// the same user and to root. Nothing is asked of the process. Nothing in it is changed, but for
// the word that `skerry trace` sets (memory/spans.hpp).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/pure/ids.hpp"
#include "core/pure/status.hpp"
#include "launcher/unique_fd.hpp"

namespace skerry::look {

// A segment that the process maps: its first page, and how long it is.
struct Mapped {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

class Process {
 public:
  // Errors: invalid (there is none, it belongs to somebody else, or the kernel forbids a look).
  static Status open(pid_t pid, Process* process);
  pid_t pid() const { return pid_; }

  // False: it has ended, or maps nothing there.
  bool read(uint64_t address, void* into, size_t bytes) const;
  template <class T>
  bool read(uint64_t address, T* into) const {
    return read(address, static_cast<void*>(into), sizeof *into);
  }
  template <class T>
  bool read(const T* address, T* into) const {  // an address in the process
    return read(reinterpret_cast<uint64_t>(address), static_cast<void*>(into), sizeof *into);
  }

  // One aligned word. False: it has ended, or the kernel forbids it.
  bool write(uint64_t address, int64_t word) const;

  // Shared memory of Skerry that it maps. False: it has ended.
  bool find_mappings(std::vector<Mapped>* found) const;
  // Its segments but the control segments, by SegmentId::packed.
  std::map<uint64_t, Mapped> segments() const;

 private:
  pid_t pid_ = 0;
  launcher::UniqueFd memory_;
};

// Of /proc/PID/status, in KiB: 0 if it is not there.
struct Resident {
  uint64_t own_bytes = 0;     // anonymous and files
  uint64_t shared_bytes = 0;  // shared memory that it touched
};
Resident resident(pid_t pid);

// The processes of this machine that map Skerry's shared memory and may be looked at.
std::vector<pid_t> candidates();
// 0: it has ended.
pid_t parent_of(pid_t pid);
// `pid` and all processes that it started.
std::vector<pid_t> with_children(pid_t pid);

}  // namespace skerry::look
