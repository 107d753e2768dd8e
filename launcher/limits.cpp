#include "launcher/limits.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace skerry::launcher {
namespace {

// Of its agent: the control socket, two pipes, the process itself.
constexpr uint64_t descriptors_per_rank = 4;
constexpr uint64_t descriptors_per_host = 2;  // the agent's connection, its command's input
constexpr uint64_t descriptors_else = 64;
constexpr uint64_t least_bytes_per_rank = 1 << 20;  // no program does with less

uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word == "max" ? 0 : std::strtoull(word.c_str(), nullptr, 10);
}

void lower(uint64_t* limit, uint64_t other) {
  if (other != 0 && (*limit == 0 || other < *limit)) *limit = other;
}

}  // namespace

Room room_here() {
  Room room;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    room.descriptors = limit.rlim_cur;
  if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    lower(&room.processes, limit.rlim_cur);
  lower(&room.processes, number_in("/proc/sys/kernel/pid_max"));
  lower(&room.processes, number_in("/proc/sys/kernel/threads-max"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::"))
      lower(&room.processes, number_in("/sys/fs/cgroup" + line.substr(3) + "/pids.max"));
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);)
    if (line.starts_with("MemAvailable:"))
      room.memory_bytes = std::strtoull(line.c_str() + 13, nullptr, 10) << 10;
  return room;
}

Status check_room(int ranks_here, const Room& room) {
  const uint64_t ranks = static_cast<uint64_t>(ranks_here);
  const char* const remedy = "; start fewer, or use more hosts (--hosts)";
  if (room.descriptors != 0 && ranks * descriptors_per_rank + descriptors_else > room.descriptors)
    return error(Code::config, ranks, " ranks on this host need ",
                 ranks * descriptors_per_rank + descriptors_else, " open files, but ",
                 room.descriptors, " are allowed (ulimit -n)", remedy);
  if (room.processes != 0 && ranks >= room.processes)
    return error(Code::config, ranks,
                 " ranks on this host are more processes than may run here: ", room.processes,
                 " (ulimit -u, pids.max of the cgroup, kernel.pid_max)", remedy);
  if (room.memory_bytes != 0 && room.memory_bytes / ranks < least_bytes_per_rank)
    return error(Code::config, ranks, " ranks on this host would have ",
                 (room.memory_bytes / ranks) >> 10, " KiB of memory each", remedy);
  return {};
}

Status check_room_for_hosts(int hosts, const Room& room) {
  const uint64_t needed = static_cast<uint64_t>(hosts) * descriptors_per_host + descriptors_else;
  if (room.descriptors == 0 || needed <= room.descriptors) return {};
  return error(Code::config, hosts, " hosts need ", needed, " open files here, but ",
               room.descriptors, " are allowed: raise `ulimit -n`");
}

}  // namespace skerry::launcher
