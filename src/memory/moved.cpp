#include "memory/moved.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

namespace skerry::memory {
namespace {

// One mapping of this process, as /proc/self/smaps has it.
struct Mapping {
  uint64_t begin = 0, end = 0, offset = 0, inode = 0;
  std::string access, device, name;
  std::string flags;  // of the kernel, two letters each
};

bool read_head(const std::string& line, Mapping* mapping) {
  char access[8] = {}, device[16] = {};
  int name_at = 0;
  if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %15s %" SCNu64 " %n",
                  &mapping->begin, &mapping->end, access, &mapping->offset, device, &mapping->inode,
                  &name_at) < 6)
    return false;
  mapping->access = access;
  mapping->device = device;
  mapping->name = line.substr(static_cast<size_t>(name_at));
  return true;
}

// Calls use(mapping) for those that meet [begin, end), ascending; stops when it says false.
void for_mappings(uint64_t begin, uint64_t end, const std::function<bool(const Mapping&)>& use) {
  std::ifstream file("/proc/self/smaps");
  Mapping mapping;
  for (std::string line; std::getline(file, line);) {
    Mapping next;
    if (read_head(line, &next)) {
      if (next.begin >= end) return;
      mapping = next;
    } else if (line.starts_with("VmFlags:")) {  // the last line of each
      mapping.flags = line.substr(8);
      if (mapping.end > begin && !use(mapping)) return;
    }
  }
}

bool may_move(const Mapping& mapping) {
  if (mapping.access != "rw-p" || mapping.inode != 0) return false;
  if (!mapping.name.empty() && mapping.name != "[heap]" && !mapping.name.starts_with("[anon:"))
    return false;
  // locked; kept from children, as registered memory is; of a device; hugetlbfs; grows down (a
  // stack); watched or write-protected by userfaultfd
  for (const char* flag : {" lo", " dc", " io", " pf", " ht", " gd", " um", " uw"})
    if (mapping.flags.find(flag) != std::string::npos) return false;
  return true;
}

// Is it mapped without a hole, each part as `right` wants it?
bool all_mapped(const Pages& pages, const std::function<bool(const Mapping&)>& right) {
  const auto begin = reinterpret_cast<uint64_t>(pages.begin);
  uint64_t at = begin;
  for_mappings(begin, begin + pages.bytes, [&](const Mapping& mapping) {
    if (mapping.begin > at || !right(mapping)) return false;
    at = mapping.end;
    return true;
  });
  return at >= begin + pages.bytes;
}

}  // namespace

Pages movable_pages(void* base, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uint64_t>(base);
  const uint64_t begin = (address + page - 1) / page * page;
  const uint64_t end = (address + bytes) / page * page;
  if (address == 0 || begin < address || begin >= end) return {};
  const Pages pages{reinterpret_cast<std::byte*>(begin), end - begin};
  return all_mapped(pages, may_move) ? pages : Pages{};
}

bool Moved::move_in(const Pages& pages, std::byte* shared) {
  if (pages.bytes == 0) return false;
  // Now: to move out must not fail for want of address space.
  void* const room = mmap(nullptr, pages.bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return false;
  std::memcpy(shared, pages.begin, pages.bytes);
  // From length 0: a second mapping of the same shared pages. It takes the place of the old ones.
  if (mremap(shared, 0, pages.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages.begin) == pages.begin) {
    pages_ = pages;
    shared_ = shared;
    room_ = static_cast<std::byte*>(room);
    return true;
  }
  // It may have failed behind the point where it removed the old ones. Their contents are here.
  if (!all_mapped(pages, may_move) &&
      mremap(room, pages.bytes, pages.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages.begin) ==
          pages.begin)
    std::memcpy(pages.begin, shared, pages.bytes);
  else munmap(room, pages.bytes);
  return false;
}

// Are the program's pages still those that were moved in?
bool Moved::is_mapped() const {
  Mapping source;
  const auto from = reinterpret_cast<uint64_t>(shared_);
  for_mappings(from, from + 1, [&](const Mapping& mapping) {
    source = mapping;
    return false;
  });
  const uint64_t at = source.offset + (from - source.begin);
  const auto begin = reinterpret_cast<uint64_t>(pages_.begin);
  return source.inode != 0 && all_mapped(pages_, [&](const Mapping& mapping) {
           return mapping.inode == source.inode && mapping.device == source.device &&
                  mapping.offset + begin == at + mapping.begin;
         });
}

Status Moved::move_out() {
  if (shared_ == nullptr) return {};
  const bool moves = is_mapped();
  Status status;
  if (moves) {
    std::memcpy(room_, pages_.begin, pages_.bytes);
    if (mremap(room_, pages_.bytes, pages_.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages_.begin) !=
        pages_.begin)
      status = error(
          Code::no_memory, pages_.bytes,
          " bytes of the window's memory could not be given back: ", std::strerror(errno));
  } else {
    munmap(room_, pages_.bytes);
  }
  shared_ = nullptr;
  return status;
}

}  // namespace skerry::memory
