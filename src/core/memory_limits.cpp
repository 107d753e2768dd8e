#include "core/memory_limits.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <vector>

namespace skerry {
namespace {

constexpr uint64_t mib = uint64_t{1} << 20;
constexpr uint64_t unlimited = uint64_t{1} << 60;  // v1 says "no limit" by a number close to 2^63

struct Limit {
  std::string name;          // "MemAvailable of this machine", "memory.max of cgroup /a/b"
  uint64_t limit_bytes = 0;  // the machine's memory or the cgroup's limit
  uint64_t left_bytes = 0;   // of it, still available: free, or file cache that the kernel would
                             // drop
  bool is_leaf = false;      // the innermost cgroup, which may hold this process only
};

// Kept of a limit, for the kernel, page tables and the program's own heap.
uint64_t reserve_of(uint64_t limit_bytes) {
  return std::clamp(limit_bytes / 64, 16 * mib, 512 * mib);
}

std::string in_mib(uint64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%" PRIu64 ".%" PRIu64 " MiB", bytes / mib,
                bytes % mib * 10 / mib);
  return text;
}

std::optional<uint64_t> read_number(const std::string& path) {  // nullopt: no such file, or "max"
  std::ifstream file(path);
  uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// Sum of the lines "key value ..." with one of these keys; nullopt: there are none.
std::optional<uint64_t> sum_of_lines(const std::string& path,
                                     std::initializer_list<std::string_view> keys) {
  std::optional<uint64_t> sum;
  std::ifstream file(path);
  for (std::string line, key; std::getline(file, line);) {
    uint64_t value = 0;
    if (std::istringstream(line) >> key >> value && std::ranges::count(keys, key) > 0)
      sum = sum.value_or(0) + value;
  }
  return sum;
}

struct Hierarchy {
  bool v2 = false;
  std::string mount;  // where its root is mounted, below `root`
  std::string path;   // of our cgroup below the mount, "" or "/a/b"
};

bool contains_word(const std::string& list, std::string_view word) {
  return concat(",", list, ",").find(concat(",", word, ",")) != std::string::npos;
}

// mountinfo: "id parent dev root mountpoint options [optional...] - type source superoptions"
void find_mounts(const std::string& root, Hierarchy* hierarchy) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash));
    std::istringstream after(line.substr(dash + 3));
    std::string skip, mounted_root, mount_point, type, source, options;
    before >> skip >> skip >> skip >> mounted_root >> mount_point;
    after >> type >> source >> options;
    const bool wanted = hierarchy->v2 ? type == "cgroup2"
                                      : type == "cgroup" && contains_word(options, "memory");
    if (!wanted) continue;
    hierarchy->mount = root + mount_point;
    // A container may see its own cgroup as the root of the mount: what lies above is hidden, as is
    // its part of our path.
    if (mounted_root != "/" && hierarchy->path.rfind(mounted_root, 0) == 0)
      hierarchy->path.erase(0, mounted_root.size());
    if (hierarchy->path == "/") hierarchy->path.clear();
    return;
  }
}

// /proc/self/cgroup: "0::/path" (v2) and "7:memory:/path" (v1; hybrid systems have both, and v1
// then has the memory controller).
std::vector<Hierarchy> find_hierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    Hierarchy hierarchy;
    hierarchy.v2 = line.compare(0, first, "0") == 0 && controllers.empty();
    if (!hierarchy.v2 && !contains_word(controllers, "memory")) continue;
    hierarchy.path = line.substr(second + 1);
    find_mounts(root, &hierarchy);
    if (!hierarchy.mount.empty() && hierarchy.path.find("/..") == std::string::npos)
      found.push_back(hierarchy);
  }
  return found;
}

std::optional<Limit> limit_of(const Hierarchy& hierarchy, const std::string& path) {
  const std::string base = hierarchy.mount + path + "/";
  const char* const limit_file = hierarchy.v2 ? "memory.max" : "memory.limit_in_bytes";
  const std::optional<uint64_t> limit = read_number(base + limit_file);
  const std::optional<uint64_t> used = read_number(
      base + (hierarchy.v2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used || *limit >= unlimited) return std::nullopt;
  // The kernel drops file cache under pressure. Shared memory counts as "file" too, but is on other
  // lists.
  const std::string statistics = base + "memory.stat";
  const auto cache = hierarchy.v2
                         ? sum_of_lines(statistics, {"inactive_file", "active_file"})
                         : sum_of_lines(statistics, {"total_inactive_file", "total_active_file"});
  const uint64_t held = *used - std::min(cache.value_or(0), *used);
  return Limit{concat(limit_file, " of cgroup ", path.empty() ? "/" : path), *limit,
               *limit - std::min(held, *limit)};
}

std::optional<Limit> machine_limit(const std::string& root) {
  const std::string file = root + "/proc/meminfo";
  const auto left_kib = sum_of_lines(file, {"MemAvailable:"});
  if (!left_kib) return std::nullopt;
  return Limit{"MemAvailable of this machine", sum_of_lines(file, {"MemTotal:"}).value_or(0) * 1024,
               *left_kib * 1024};
}

// Unlimited cgroups are left out.
std::vector<Limit> limits_of(const std::string& root) {
  std::vector<Limit> limits;
  if (auto machine = machine_limit(root)) limits.push_back(*machine);
  for (const Hierarchy& hierarchy : find_hierarchies(root)) {
    std::string path = hierarchy.path;
    for (bool leaf = true;; leaf = false) {
      if (auto limit = limit_of(hierarchy, path)) {
        limit->is_leaf = leaf;
        limits.push_back(*limit);
      }
      if (path.empty()) break;
      path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return limits;
}

}  // namespace

uint64_t memory_cgroup_hash(const std::string& root) {
  std::string all;
  for (const Hierarchy& hierarchy : find_hierarchies(root))
    all += hierarchy.mount + hierarchy.path + '\n';
  if (all.empty()) return 0;
  const uint64_t hash = std::hash<std::string>{}(all);
  return hash == 0 ? 1 : hash;
}

Status check_memory(const MemoryAsk& ask, uint64_t* left_bytes, const std::string& root) {
  uint64_t least_left = UINT64_MAX;
  for (const Limit& limit : limits_of(root)) {
    const bool own_only = limit.is_leaf && !ask.leaf_is_shared;
    const uint64_t asked_bytes = own_only ? ask.own_bytes : ask.node_bytes;
    const uint64_t reserve_bytes = reserve_of(limit.limit_bytes);
    const uint64_t room = limit.left_bytes - std::min(reserve_bytes, limit.left_bytes);
    least_left = std::min(least_left, room - std::min(asked_bytes, room));
    if (asked_bytes <= room) continue;
    return error(Code::no_memory, "not enough memory: ",
                 own_only ? "this rank asks" : "the ranks of this machine ask together", " for ",
                 in_mib(asked_bytes), ", but ", limit.name, " leaves ", in_mib(limit.left_bytes),
                 " of ", in_mib(limit.limit_bytes), ", and ", in_mib(reserve_bytes),
                 " of that are kept in reserve; ask for less, spread the job over more nodes, or "
                 "raise the limit");
  }
  if (left_bytes != nullptr) *left_bytes = least_left;
  return {};
}

uint64_t memory_limit(const std::string& root) {
  uint64_t least = UINT64_MAX;
  for (const Limit& limit : limits_of(root)) least = std::min(least, limit.limit_bytes);
  return least;
}

}  // namespace skerry
