// What the measuring programs share: clocks, complaints, and what the operating system says of
// memory.
#pragma once

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "skerry/skerry.h"

namespace skerry::probes {

inline int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline void check(int status, const char* what) {
  if (status == SKERRY_OK) return;
  std::fprintf(stderr, "skerry: %s: %s\n", what, skerry_last_error());
  std::exit(1);
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What this process has counted so far, by the counters' names.
class Counters {
 public:
  explicit Counters(const skerry_job* job) : values_(static_cast<size_t>(skerry_counter_count())) {
    check(skerry_counter_values(job, skerry_counter_count(), values_.data()), "counters");
  }
  uint64_t operator[](const char* name) const {
    const int index = skerry_counter_find(name);
    if (index < 0) check(index, name);
    return values_[static_cast<size_t>(index)];
  }

 private:
  std::vector<uint64_t> values_;
};
inline Counters counters(const skerry_job* job) { return Counters(job); }
inline skerry_memory memory(const skerry_job* job) {
  skerry_memory m{};
  m.size = sizeof m;
  check(skerry_memory_read(job, &m), "memory");
  return m;
}

// Of this process: what its allocator has given out, and pages of its own.
inline double heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}
inline double resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with("RssAnon:")) return std::atof(line.c_str() + 8) * 1024;
  return 0;
}

// Of the whole machine: what the kernel keeps for TCP connections.
struct Kernel {
  bool objects_known = false;  // only root may see them
  double object_bytes = 0;     // of one end: socket, inode, file, directory entry, places in epoll
  double sockets = 0;          // objects of kind "TCP" and "TCPv6"
  double buffer_bytes = 0;     // of all sockets of this network namespace
};
inline Kernel kernel_memory() {
  Kernel k;
  constexpr double page_bytes = 4096;
  std::ifstream slabs("/proc/slabinfo");
  for (std::string line; std::getline(slabs, line);) {
    std::istringstream words(line);
    std::string name;
    double active = 0, all = 0, bytes = 0;
    if (!(words >> name >> active >> all >> bytes)) continue;
    if (name == "TCP" || name == "TCPv6") k.sockets += active;
    for (const char* one :
         {"TCP", "sock_inode_cache", "filp", "dentry", "eventpoll_epi", "eventpoll_pwq"})
      if (name == one) k.object_bytes += bytes;
  }
  k.objects_known = k.object_bytes > 0;
  std::ifstream sockets("/proc/net/sockstat");
  for (std::string line; std::getline(sockets, line);)
    if (const size_t at = line.find(" mem "); line.starts_with("TCP:") && at != std::string::npos)
      k.buffer_bytes = std::atof(line.c_str() + at + 5) * page_bytes;
  return k;
}

}  // namespace skerry::probes
