#include "memory/given.hpp"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/pure/assert.hpp"
#include "memory/copy.hpp"

namespace skerry::memory {

// ---- the owner --------------------------------------------------------------------------------

void Given::give_one(void* base, uint64_t bytes) {
  SKERRY_INVARIANT(is_many.load(std::memory_order_relaxed) == 0, "one area, or lists of areas");
  one.address.store(reinterpret_cast<uint64_t>(base), std::memory_order_relaxed);
  one.bytes.store(bytes, std::memory_order_relaxed);
  process.store(getpid(), std::memory_order_release);
}

void Given::give_many() {
  is_many.store(1, std::memory_order_relaxed);
  process.store(getpid(), std::memory_order_release);
}

void Given::take_back() {
  const bool has_lists = is_many.load(std::memory_order_relaxed) != 0;
  for (std::atomic<uint64_t>* word :
       {&version, &one.address, &one.bytes, &moved_from, &moved_bytes})
    word->store(0, std::memory_order_relaxed);
  if (has_lists) lists[0].count.store(0, std::memory_order_relaxed);
  is_many.store(0, std::memory_order_relaxed);
  process.store(0, std::memory_order_release);
}

namespace {

void copy_area(Given::Area& to, const Given::Area& from) {
  to.address.store(from.address.load(std::memory_order_relaxed), std::memory_order_relaxed);
  to.bytes.store(from.bytes.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace

template <class Change>
void Given::change(Change&& change) {
  SKERRY_INVARIANT(is_many.load(std::memory_order_relaxed) != 0, "one area never changes");
  const uint64_t now = version.load(std::memory_order_relaxed);
  // Release: a reader of the old list that sees part of the new one also sees that the version has
  // moved on by now. (The last change made it `now`; this fence keeps our stores behind that.)
  std::atomic_thread_fence(std::memory_order_release);
  List& next = lists[(now + 1) % 2];
  change(static_cast<const List&>(lists[now % 2]), next);
  SKERRY_INVARIANT(next.count.load(std::memory_order_relaxed) <= most_areas,
                   "a list has room for what is in it");
  version.store(now + 1, std::memory_order_release);
}

Status Given::add(const void* base, uint64_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(base);
  if (base == nullptr || bytes == 0 || address + bytes < address)
    return error(Code::invalid, bytes, " bytes at address ", address, " are no memory");
  const List& list = lists[version.load(std::memory_order_relaxed) % 2];
  const uint32_t now = list.count.load(std::memory_order_relaxed);
  if (now == most_areas)
    return error(Code::no_memory, now, " areas are attached, as many as can be: detach one first");
  uint32_t at = now;
  for (; at > 0 && list.areas[at - 1].address.load(std::memory_order_relaxed) > address; --at) {
  }
  const auto overlaps = [&](uint32_t i) {
    const uint64_t begin = list.areas[i].address.load(std::memory_order_relaxed);
    const uint64_t end = begin + list.areas[i].bytes.load(std::memory_order_relaxed);
    return begin < address + bytes && address < end;
  };
  if ((at > 0 && overlaps(at - 1)) || (at < now && overlaps(at)))
    return error(Code::invalid, bytes, " bytes at address ", address,
                 " overlap memory that is attached");
  change([&](const List& from, List& to) {
    for (uint32_t i = 0; i < at; ++i) copy_area(to.areas[i], from.areas[i]);
    to.areas[at].address.store(address, std::memory_order_relaxed);
    to.areas[at].bytes.store(bytes, std::memory_order_relaxed);
    for (uint32_t i = at; i < now; ++i) copy_area(to.areas[i + 1], from.areas[i]);
    to.count.store(now + 1, std::memory_order_relaxed);
  });
  return {};
}

Status Given::remove(const void* base) {
  const auto address = reinterpret_cast<uint64_t>(base);
  const List& list = lists[version.load(std::memory_order_relaxed) % 2];
  const uint32_t now = list.count.load(std::memory_order_relaxed);
  uint32_t at = 0;
  while (at < now && list.areas[at].address.load(std::memory_order_relaxed) != address) ++at;
  if (at == now) return error(Code::invalid, "nothing is attached at address ", address);
  change([&](const List& from, List& to) {
    for (uint32_t i = 0; i < at; ++i) copy_area(to.areas[i], from.areas[i]);
    for (uint32_t i = at + 1; i < now; ++i) copy_area(to.areas[i - 1], from.areas[i]);
    to.count.store(now - 1, std::memory_order_relaxed);
  });
  return {};
}

// ---- any process ------------------------------------------------------------------------------

bool Given::find_among(const List& list, uint64_t offset, uint64_t bytes, uint64_t* address) const {
  const uint32_t areas_now = list.count.load(std::memory_order_relaxed);
  uint32_t low = 0, high = areas_now;  // the last area that begins at or before the offset
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (list.areas[middle].address.load(std::memory_order_relaxed) <= offset) low = middle;
    else high = middle;
  }
  if (low >= areas_now) return false;
  const uint64_t begin = list.areas[low].address.load(std::memory_order_relaxed);
  uint64_t end = begin + list.areas[low].bytes.load(std::memory_order_relaxed);
  if (offset < begin || offset > end) return false;
  // Areas without a gap between them are one: programs attach memory piece by piece.
  while (bytes > end - offset) {
    if (++low >= areas_now || list.areas[low].address.load(std::memory_order_relaxed) != end)
      return false;
    end += list.areas[low].bytes.load(std::memory_order_relaxed);
  }
  *address = offset;
  return true;
}

bool Given::find(uint64_t offset, uint64_t bytes, uint64_t* address) const {
  if (is_many.load(std::memory_order_relaxed) == 0) {
    const uint64_t size = one.bytes.load(std::memory_order_relaxed);
    if (offset > size || bytes > size - offset) return false;
    *address = one.address.load(std::memory_order_relaxed) + offset;
    return true;
  }
  for (;;) {
    const uint64_t before = version.load(std::memory_order_acquire);
    const bool found = find_among(lists[before % 2], offset, bytes, address);
    // The owner begins to overwrite this list when it has made the other one valid.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version.load(std::memory_order_relaxed) == before) return found;
  }
}

namespace {

Status explain(int number, int32_t process, bool writes) {
  switch (number) {
    case ESRCH:
      return error(Code::peer_dead, "process ", process, ", whose memory it is, has ended");
    case EPERM:
      return error(
          Code::unsupported, "the system does not let this process ", writes ? "write" : "read",
          " the memory of process ", process,
          ": let it be dumpable (prctl PR_SET_DUMPABLE), set kernel.yama.ptrace_scope to 0 "
          "or 1, or let the container trace its processes (SYS_PTRACE); or allocate the "
          "window");
    case EFAULT:
      return error(Code::invalid, "process ", process, " has unmapped memory of the window");
    default: break;
  }
  return error(Code::unsupported, writes ? "writing" : "reading", " the memory of process ",
               process, ": ", std::strerror(number));
}

Status outside(uint64_t offset, uint64_t bytes, bool many) {
  return error(Code::range, bytes, " bytes at ", many ? "address " : "offset ",
               many ? concat(offset) : concat(as_written(offset)),
               " lie outside the memory that its owner gave");
}

auto* kernel_move(bool writes) { return writes ? process_vm_writev : process_vm_readv; }

// 0, or the error's number. One call may move less than asked for.
int move_bytes(int32_t process, std::byte* here, uint64_t address, uint64_t bytes, bool writes) {
  for (uint64_t moved = 0; moved < bytes;) {
    const iovec local{here + moved, bytes - moved};
    const iovec remote{reinterpret_cast<void*>(address + moved), bytes - moved};
    const ssize_t now = kernel_move(writes)(process, &local, 1, &remote, 1, 0);
    if (now > 0) moved += static_cast<uint64_t>(now);
    else if (now == 0) return EFAULT;
    else if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

bool read_process(int32_t process, uint64_t address, void* to, uint64_t bytes) {
  return move_bytes(process, static_cast<std::byte*>(to), address, bytes, false) == 0;
}

Status Given::move_all(std::byte* here, uint64_t offset, uint64_t bytes, bool writes) const {
  uint64_t address = 0;
  if (!find(offset, bytes, &address)) return outside(offset, bytes, is_many.load() != 0);
  const int32_t owner = process.load(std::memory_order_relaxed);
  if (owner == getpid()) {
    auto* const there = reinterpret_cast<std::byte*>(address);
    if (writes) copy<Shared::to>(there, here, bytes);
    else copy<Shared::from>(here, there, bytes);
    return {};
  }
  const int wrong = move_bytes(owner, here, address, bytes, writes);
  return wrong == 0 ? Status() : explain(wrong, owner, writes);
}

Status Given::read(void* to, uint64_t offset, uint64_t bytes) const {
  return move_all(static_cast<std::byte*>(to), offset, bytes, false);
}

Status Given::write(uint64_t offset, const void* from, uint64_t bytes) const {
  auto* const here = static_cast<std::byte*>(const_cast<void*>(from));
  return move_all(here, offset, bytes, true);
}

// What the kernel did not move, if anything, goes part by part, which also says what is wrong.
Status Given::move_parts(std::span<const Part> parts, bool writes) const {
  std::array<iovec, most_parts> here, there;
  for (size_t k = 0; k < parts.size(); ++k) {
    uint64_t address = 0;
    if (!find(parts[k].offset, parts[k].bytes, &address))
      return outside(parts[k].offset, parts[k].bytes, is_many.load() != 0);
    here[k] = {parts[k].here, parts[k].bytes};
    there[k] = {reinterpret_cast<void*>(address), parts[k].bytes};
  }
  const int32_t owner = process.load(std::memory_order_relaxed);
  const ssize_t moved = owner == getpid() ? 0
                                          : kernel_move(writes)(owner, here.data(), parts.size(),
                                                                there.data(), parts.size(), 0);
  uint64_t left_out = moved > 0 ? static_cast<uint64_t>(moved) : 0;
  for (const Part& part : parts) {
    if (part.bytes <= left_out) {
      left_out -= part.bytes;
      continue;
    }
    SKERRY_TRY(
        move_all(part.here + left_out, part.offset + left_out, part.bytes - left_out, writes));
    left_out = 0;
  }
  return {};
}

Status Given::read_parts(std::span<const Part> parts) const { return move_parts(parts, false); }

Status Given::write_parts(std::span<const Part> parts) const { return move_parts(parts, true); }

Status allow_given() {
  // Where only relatives may trace a process, it may name others. Not needed, and refused with
  // EINVAL, where the kernel has no such rule.
  (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  char probe = 0, seen = 1;
  const iovec local{&seen, 1}, remote{&probe, 1};
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1) return {};
  return error(Code::unsupported, "this system forbids process_vm_readv (", std::strerror(errno),
               "): allow it in the container's system call filter, or "
               "allocate the window");
}

Status check_reach(int32_t process) {
  if (process == getpid()) return {};
  // The address is this process's: the system looks at the right to read before the memory.
  char seen = 0;
  const iovec local{&seen, 1}, remote{&seen, 1};
  if (process_vm_readv(process, &local, 1, &remote, 1, 0) < 0 && errno == EPERM)
    return explain(EPERM, process, false);
  return {};
}

}  // namespace skerry::memory
