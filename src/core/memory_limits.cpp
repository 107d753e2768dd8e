#include "core/memory_limits.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

namespace skerry {
namespace {

constexpr uint64_t mib = uint64_t{1} << 20;
constexpr uint64_t unlimited = uint64_t{1} << 60;  // v1 says "no limit" by a number close to 2^63

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

// Sum of the named "key value" lines of a memory.stat.
uint64_t sum_of_lines(const std::string& path, const std::string& key_a, const std::string& key_b) {
  std::ifstream file(path);
  std::string key;
  uint64_t value = 0;
  uint64_t sum = 0;
  while (file >> key >> value) {
    if (key == key_a || key == key_b) sum += value;
  }
  return sum;
}

struct Hierarchy {
  bool v2 = false;
  std::string mount;  // where its root is mounted, below `root`
  std::string path;   // of our cgroup below the mount, "" or "/a/b"
};

bool contains_word(const std::string& list, const std::string& word) {
  std::istringstream words(list);
  for (std::string item; std::getline(words, item, ',');) {
    if (item == word) return true;
  }
  return false;
}

// mountinfo: "id parent dev root mountpoint options [optional...] - type source superoptions"
void find_mounts(const std::string& root, Hierarchy* hierarchy) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash));
    std::istringstream after(line.substr(dash + 3));
    std::string skip;
    std::string mounted_root;
    std::string mount_point;
    std::string type;
    std::string source;
    std::string options;
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

std::optional<MemoryLimit> limit_of(const Hierarchy& hierarchy, const std::string& path) {
  const std::string base = hierarchy.mount + path + "/";
  const char* const limit_file = hierarchy.v2 ? "memory.max" : "memory.limit_in_bytes";
  const std::optional<uint64_t> limit = read_number(base + limit_file);
  const std::optional<uint64_t> used = read_number(
      base + (hierarchy.v2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used || *limit >= unlimited) return std::nullopt;
  // The kernel drops file cache under pressure. Shared memory counts as "file" too, but is on other
  // lists.
  const uint64_t cache = hierarchy.v2
                             ? sum_of_lines(base + "memory.stat", "inactive_file", "active_file")
                             : sum_of_lines(base + "memory.stat", "total_inactive_file",
                                            "total_active_file");
  const uint64_t held = *used - std::min(cache, *used);
  MemoryLimit out;
  out.name = concat(limit_file, " of cgroup ", path.empty() ? "/" : path);
  out.limit_bytes = *limit;
  out.left_bytes = *limit - std::min(held, *limit);
  out.reserve_bytes = reserve_of(*limit);
  return out;
}

std::optional<MemoryLimit> machine_limit(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  MemoryLimit out;
  bool found = false;
  for (std::string line; std::getline(file, line);) {
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "MemTotal: %" SCNu64, &kib) == 1) out.limit_bytes = kib * 1024;
    if (std::sscanf(line.c_str(), "MemAvailable: %" SCNu64, &kib) == 1) {
      out.left_bytes = kib * 1024;
      found = true;
    }
  }
  if (!found) return std::nullopt;
  out.name = "MemAvailable of this machine";
  out.reserve_bytes = reserve_of(out.limit_bytes);
  return out;
}

}  // namespace

std::vector<MemoryLimit> memory_limits(const std::string& root) {
  std::vector<MemoryLimit> limits;
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

uint64_t memory_cgroup_hash(const std::string& root) {
  std::string all;
  for (const Hierarchy& hierarchy : find_hierarchies(root))
    all += hierarchy.mount + hierarchy.path + '\n';
  if (all.empty()) return 0;
  const uint64_t hash = std::hash<std::string>{}(all);
  return hash == 0 ? 1 : hash;
}

Status check_memory(const MemoryAsk& ask, const std::string& root) {
  for (const MemoryLimit& limit : memory_limits(root)) {
    const bool own_only = limit.is_leaf && !ask.leaf_is_shared;
    const uint64_t asked_bytes = own_only ? ask.own_bytes : ask.node_bytes;
    const uint64_t usable_bytes = limit.left_bytes -
                                  std::min(limit.reserve_bytes, limit.left_bytes);
    if (asked_bytes <= usable_bytes) continue;
    return error(Code::no_memory, "not enough memory: ",
                 own_only ? "this rank asks" : "the ranks of this machine ask together", " for ",
                 in_mib(asked_bytes), ", but ", limit.name, " leaves ", in_mib(limit.left_bytes),
                 " of ", in_mib(limit.limit_bytes), ", and ", in_mib(limit.reserve_bytes),
                 " of that are kept in reserve; ask for less, spread the job over more nodes, or "
                 "raise the limit");
  }
  return {};
}

}  // namespace skerry
