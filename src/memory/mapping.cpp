#include "memory/mapping.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "core/futex.hpp"
#include "memory/control.hpp"
#include "memory/node_memory.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1; older kernels answer EINVAL and we stay with small pages
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels answer EINVAL
#endif

namespace skerry::memory {
namespace {

constexpr uint64_t
    reserve_chunk_bytes = uint64_t{16}
                          << 20;  // some 10 ms of work: an abort is noticed between chunks

// The most time that huge pages may take. Usually 0.2 ms each. Where free memory is fragmented the
// kernel moves pages for many times as long, and an allocation that takes seconds is worse than
// small pages.
constexpr int64_t huge_page_budget_ns = 1'000'000;
constexpr int64_t huge_page_first_budget_ns = 50'000'000;

rlim_t limit_of(int resource) {  // RLIM_INFINITY: none
  rlimit limit{};
  return getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0 ? limit.rlim_cur
                                                                          : RLIM_INFINITY;
}

// What to do about it: which limit was met, the kernel tells by the number of the error.
std::string remedy(int reason) {
  switch (reason) {
    case EFBIG:
      return concat("files of this process have at most ", limit_of(RLIMIT_FSIZE),
                    " bytes, and shared memory is one: raise that limit (ulimit -f)");
    case EMFILE:
      return concat("this process has at most ", limit_of(RLIMIT_NOFILE),
                    " descriptors: raise that limit (ulimit -n)");
    case ENFILE: return "this machine has no descriptors left: raise fs.file-max";
    case ENOSYS:
    case EPERM: return "the system does not allow it: look for a seccomp rule of the container";
    default: break;
  }
  const rlim_t space = limit_of(RLIMIT_AS);
  return concat("ask for less, or raise the memory (and memory cgroup) limit of this machine",
                space == RLIM_INFINITY
                    ? ""
                    : concat(", or the limit of this process's addresses, which is ", space,
                             " bytes (ulimit -v)"));
}

Status out_of_memory(const char* step, uint64_t bytes, int reason) {
  return error(Code::no_memory, step, " of ", bytes,
               " bytes of shared memory failed: ", std::strerror(reason), "; ", remedy(reason));
}

// The mapped memfds of this process. An address space is one for all jobs of a process, and so is
// this table. It stays for ever: the last view may go after everything else.
class Mappings {
 public:
  static Mappings& all() {
    static auto* const one = [] {
      // A child of fork has this table, and not the threads: one that held the mutex would be
      // waited for in vain when the child's views go.
      pthread_atfork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); },
                     [] { all().mutex_.unlock(); });
      return new Mappings();
    }();
    return *one;
  }
  void add(std::byte* base, uint64_t bytes) {
    const std::lock_guard guard(mutex_);
    mapped_[base] = {bytes, 0, false};
  }
  void unmap(std::byte* base, uint64_t bytes) {
    const std::lock_guard guard(mutex_);
    if (const auto found = mapped_.find(base); found != mapped_.end()) {
      found->second.is_left = true;
      if (found->second.holds > 0) return;
      mapped_.erase(found);
    }
    munmap(base, bytes);
  }
  bool hold(const void* address) {
    const std::lock_guard guard(mutex_);
    const auto found = around(address);
    if (found == mapped_.end()) return false;
    ++found->second.holds;
    return true;
  }
  void unhold(const void* address) {
    const std::lock_guard guard(mutex_);
    const auto found = around(address);
    if (found == mapped_.end() || --found->second.holds > 0 || !found->second.is_left) return;
    munmap(found->first, found->second.bytes);
    mapped_.erase(found);
  }
  bool is_held(const void* address) {
    const std::lock_guard guard(mutex_);
    const auto found = around(address);
    return found != mapped_.end() && found->second.holds > 0;
  }

 private:
  struct Mapping {
    uint64_t bytes;
    uint32_t holds;
    bool is_left;  // unmap was called: only holds keep it
  };
  std::map<std::byte*, Mapping>::iterator around(const void* address) {
    auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
    const auto next = mapped_.upper_bound(at);
    if (next == mapped_.begin()) return mapped_.end();
    const auto found = std::prev(next);
    return at < found->first + found->second.bytes ? found : mapped_.end();
  }

  std::mutex mutex_;  // guards mapped_; unmapping under it, so that no address comes back earlier
  std::map<std::byte*, Mapping> mapped_;  // by base
};

Status map_anywhere(int fd, uint64_t bytes, uint64_t address, std::byte** base) {
  if (address != 0 || bytes < huge_page_bytes) {
    // A hint: the kernel takes it if nothing is there.
    auto* const wanted = reinterpret_cast<void*>(address);
    void* mapped = mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED && (mapped == wanted || bytes < huge_page_bytes)) {
      *base = static_cast<std::byte*>(mapped);
      return {};
    }
    if (mapped != MAP_FAILED) munmap(mapped, bytes);
    else if (bytes < huge_page_bytes) return out_of_memory("mmap", bytes, errno);
  }
  // Take more address space than needed, put the file at the first 2 MiB boundary in it and give
  // the rest back.
  void* room = mmap(nullptr, bytes + huge_page_bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return out_of_memory("mmap", bytes, errno);
  auto* start = static_cast<std::byte*>(room);
  std::byte* aligned = start + (round_up(reinterpret_cast<uint64_t>(start), huge_page_bytes) -
                                reinterpret_cast<uint64_t>(start));
  if (mmap(aligned, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int reason = errno;
    munmap(room, bytes + huge_page_bytes);
    return out_of_memory("mmap", bytes, reason);
  }
  if (aligned > start) munmap(start, static_cast<size_t>(aligned - start));
  std::byte* end = aligned + bytes;
  std::byte* room_end = start + bytes + huge_page_bytes;
  if (room_end > end) munmap(end, static_cast<size_t>(room_end - end));
  *base = aligned;
  return {};
}

// Pages of [at, at + bytes), by the descriptor or, without one (-1), through the mapping. 0, or
// errno.
int take_pages(int fd, std::byte* base, uint64_t at, uint64_t bytes) {
  if (fd >= 0)
    return fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  if (madvise(base + at, bytes, MADV_POPULATE_WRITE) == 0) return 0;
  if (errno != EINVAL) return errno == EFAULT ? ENOMEM : errno;
  for (uint64_t page = at; page < at + bytes; page += page_bytes)
    *const_cast<volatile std::byte*>(base + page) = std::byte{0};
  return 0;
}

}  // namespace

bool hold(const void* address) { return Mappings::all().hold(address); }
void unhold(const void* address) { Mappings::all().unhold(address); }
bool is_held(const void* address) { return Mappings::all().is_held(address); }

Status create_memfd(uint64_t bytes, int* fd) {
  const int made = memfd_create("skerry", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0) return out_of_memory("memfd_create", bytes, errno);
  // Asked first, because ftruncate would end the process by SIGXFSZ.
  if (bytes > limit_of(RLIMIT_FSIZE)) {
    close(made);
    return out_of_memory("ftruncate", bytes, EFBIG);
  }
  if (ftruncate(made, static_cast<off_t>(bytes)) != 0) {
    const int reason = errno;
    close(made);
    return out_of_memory("ftruncate", bytes, reason);
  }
  // All members have mapped this size: no process may shrink it.
  fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  *fd = made;
  return {};
}

Status map_memfd(int fd, uint64_t bytes, uint64_t address, std::byte** base) {
  SKERRY_TRY(map_anywhere(fd, bytes, address, base));
  Mappings::all().add(*base, bytes);
  return {};
}

void unmap(std::byte* base, uint64_t bytes) {
  if (base != nullptr) Mappings::all().unmap(base, bytes);
}

Status reserve(int fd, std::byte* base, uint64_t offset, uint64_t bytes, bool huge_pages,
               const std::atomic<uint32_t>* abort) {
  const uint64_t end = offset + bytes;
  uint64_t collapsed = round_up(offset, huge_page_bytes);  // up to here huge pages were tried
  int64_t spare_ns = huge_page_first_budget_ns;
  for (uint64_t at = offset; at < end;) {
    const uint64_t next = std::min(end, (at / reserve_chunk_bytes + 1) * reserve_chunk_bytes);
    // Huge pages first, each from a single small page: collapsing copies the pages that exist, and
    // refuses where there are none. Only those wholly inside the own slice: the first process to
    // touch a shared one would decide its place.
    const uint64_t whole = next / huge_page_bytes * huge_page_bytes;
    if (huge_pages && whole > collapsed) {
      const int64_t start_ns = monotonic_ns();
      for (uint64_t seed = collapsed; seed < whole; seed += huge_page_bytes)
        (void)take_pages(fd, base, seed, page_bytes);
      const bool collapsed_now = madvise(base + collapsed, whole - collapsed, MADV_COLLAPSE) == 0;
      spare_ns += static_cast<int64_t>((whole - collapsed) / huge_page_bytes) *
                      huge_page_budget_ns -
                  (monotonic_ns() - start_ns);
      huge_pages = collapsed_now && spare_ns > 0;  // refused or slow: small pages for the rest
      collapsed = whole;
    }
    // What is there already costs nothing.
    while (const int reason = take_pages(fd, base, at, next - at)) {
      if (reason != EINTR && reason != EAGAIN) return out_of_memory("fallocate", bytes, reason);
      if (abort != nullptr && abort->load(std::memory_order_acquire) != 0)
        return error(Code::peer_dead, "the job is ending");
    }
    if (abort != nullptr && abort->load(std::memory_order_acquire) != 0)
      return error(Code::peer_dead, "the job is ending");
    at = next;
  }
  return {};
}

void discard(std::byte* base, uint64_t offset, uint64_t bytes) {
  if (bytes != 0 && !is_held(base)) madvise(base + offset, bytes, MADV_REMOVE);
}

void discard_or_clear(std::byte* base, uint64_t offset, uint64_t bytes) {
  if (bytes == 0 || is_held(base)) return;
  if (madvise(base + offset, bytes, MADV_REMOVE) != 0) std::memset(base + offset, 0, bytes);
}

}  // namespace skerry::memory
