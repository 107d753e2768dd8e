#include "launcher/look/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "memory/control.hpp"
#include "memory/segment.hpp"

namespace skerry::look {
namespace {

std::string path_of(pid_t pid, const char* file) { return concat("/proc/", pid, "/", file); }

Status refused(pid_t pid, int why) {
  struct stat owner {};
  if (stat(path_of(pid, "").c_str(), &owner) != 0)
    return error(Code::invalid, "there is no process ", pid);
  if (owner.st_uid != geteuid() && geteuid() != 0)
    return error(Code::invalid, "process ", pid, " belongs to user ", owner.st_uid,
                 ": only that user and root may look at it");
  return error(Code::invalid, "the kernel forbids to look at process ", pid, " (",
               std::strerror(why),
               "): start the job with SKERRY_LOOK=1 (the default), set kernel.yama.ptrace_scope to "
               "0, or be root");
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  DIR* const all = opendir("/proc");
  if (all == nullptr) return found;
  while (const dirent* entry = readdir(all))
    if (const int pid = std::atoi(entry->d_name); pid > 0) found.push_back(pid);
  closedir(all);
  std::ranges::sort(found);
  return found;
}

}  // namespace

Status Process::open(pid_t pid, Process* process) {
  Process made;
  made.pid_ = pid;
  made.memory_ = launcher::UniqueFd(::open(path_of(pid, "mem").c_str(), O_RDONLY | O_CLOEXEC));
  if (made.memory_.get() < 0) return refused(pid, errno);
  std::vector<Mapped> found;
  if (!made.find_mappings(&found)) return refused(pid, errno);
  if (!found.empty()) {  // the right to read is looked at only now
    char probe = 0;
    if (pread(made.memory_.get(), &probe, 1, static_cast<off_t>(found.front().address)) < 0 &&
        (errno == EACCES || errno == EPERM))
      return refused(pid, errno);
  }
  *process = std::move(made);
  return {};
}

bool Process::read(uint64_t address, void* into, size_t bytes) const {
  auto* to = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = pread(memory_.get(), to, bytes, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    address += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool Process::write(uint64_t address, int64_t word) const {
  const launcher::UniqueFd memory(::open(path_of(pid_, "mem").c_str(), O_WRONLY | O_CLOEXEC));
  return memory.get() >= 0 &&
         pwrite(memory.get(), &word, sizeof word, static_cast<off_t>(address)) == sizeof word;
}

bool Process::find_mappings(std::vector<Mapped>* found) const {
  found->clear();
  std::ifstream maps(path_of(pid_, "maps"));
  if (!maps) return false;
  uint64_t next = 0;  // where the mapping of the last line would go on
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:skerry") == std::string::npos) continue;
    uint64_t begin = 0, end = 0, offset = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &begin, &end, &offset) !=
        3)
      continue;
    // One mapping may take several lines: parts of it are held, or have huge pages.
    if (offset == 0) found->push_back({begin, end - begin});
    else if (!found->empty() && begin == next) found->back().bytes += end - begin;
    next = end;
  }
  return true;
}

std::map<uint64_t, Mapped> Process::segments() const {
  std::map<uint64_t, Mapped> found;
  std::vector<Mapped> mapped;
  (void)find_mappings(&mapped);
  for (const Mapped& each : mapped) {
    uint64_t magic = 0;
    uint64_t id = 0;
    if (!read(each.address, &magic) || magic == memory::control_magic) continue;
    if (read(each.address + offsetof(memory::SegmentHeader, id), &id) && id != 0) found[id] = each;
  }
  return found;
}

Resident resident(pid_t pid) {
  Resident out;
  std::ifstream status(path_of(pid, "status"));
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t kib = 0;
    words >> name >> kib;
    if (name == "RssAnon:" || name == "RssFile:") out.own_bytes += kib << 10;
    if (name == "RssShmem:") out.shared_bytes = kib << 10;
  }
  return out;
}

std::vector<pid_t> candidates() {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    std::ifstream maps(path_of(pid, "maps"));
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/memfd:skerry") == std::string::npos) continue;
      found.push_back(pid);
      break;
    }
  }
  return found;
}

pid_t parent_of(pid_t pid) {
  std::ifstream file(path_of(pid, "stat"));
  std::string line;
  std::getline(file, line);
  // "pid (name) state parent": the name may hold anything.
  const size_t name_end = line.rfind(')');
  int parent = 0;
  if (name_end == std::string::npos ||
      std::sscanf(line.c_str() + name_end + 1, " %*c %d", &parent) != 1)
    return 0;
  return parent;
}

std::vector<pid_t> with_children(pid_t pid) {
  std::vector<pid_t> found{pid};
  const std::vector<pid_t> all = all_processes();
  for (size_t before = 0; before != found.size();) {
    before = found.size();
    for (const pid_t each : all)
      if (std::ranges::find(found, each) == found.end() &&
          std::ranges::find(found, parent_of(each)) != found.end())
        found.push_back(each);
  }
  return found;
}

}  // namespace skerry::look
