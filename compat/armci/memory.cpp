#include "memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <utility>

namespace skerry::armci {
namespace {

struct Allocation {
  skerry_segment* segment;
  Group* group;
  uint64_t serial;  // among the group's, from 1
};

std::deque<Allocation> allocations;  // newest first; guarded by Guard

bool slice_of(const Allocation& allocation, int proc, bool as_owner, Slice* slice) {
  const uint64_t bytes = skerry_segment_bytes(allocation.segment, proc);
  if (bytes == 0) return false;
  char* const shared = static_cast<char*>(skerry_segment_pointer(allocation.segment, proc));
  const uintptr_t low = as_owner ? skerry_segment_address(allocation.segment, proc)
                                 : reinterpret_cast<uintptr_t>(shared);
  if (low == 0) return false;
  *slice = {low, low + bytes, proc, allocation.segment, shared};
  return true;
}

}  // namespace

std::atomic<uint64_t> epoch{1};
thread_local constinit Found* found_here = nullptr;

namespace {

struct FoundOwner {
  ~FoundOwner() { delete std::exchange(found_here, nullptr); }
};

Found& found() {
  static thread_local FoundOwner owner;
  if (found_here == nullptr) found_here = new Found;
  return *found_here;
}

}  // namespace

Place search(int proc, uintptr_t address) {
  Found& mine = found();
  if (mine.epoch != allocation_epoch()) {
    mine = Found{};
    mine.epoch = allocation_epoch();
  }
  Slice* const set = mine.slices[static_cast<unsigned>(proc) % Found::sets];
  for (int way = 1; way < Found::ways; ++way) {
    if (set[way].proc != proc || address < set[way].low || address >= set[way].high) continue;
    std::rotate(set, set + way, set + way + 1);
    return {set[0].segment, address - set[0].low};
  }
  const Guard guard;
  const bool shared = skerry_same_node(runtime().job, proc) == 1;
  // A node's own mappings first: they are what the caller was given. Then what the owner itself was
  // given, and may have told the caller.
  for (const bool as_owner : {false, true}) {
    if (!as_owner && !shared) continue;
    for (const Allocation& allocation : allocations) {
      Slice slice;
      if (!slice_of(allocation, proc, as_owner, &slice) || address < slice.low ||
          address >= slice.high)
        continue;
      std::rotate(set, set + Found::ways - 1, set + Found::ways);
      set[0] = slice;
      return {slice.segment, address - slice.low};
    }
  }
  return {nullptr, 0};
}

namespace {

int allocate(const char* call, void** pointers, armci_size_t bytes, Group& group) {
  need_start(call);
  if (pointers == nullptr) die(call, "the pointer array is null");
  skerry_segment* segment = nullptr;
  // A negative size becomes one that nobody has: refused on all members alike.
  if (const int status = skerry_segment_alloc(group.group, static_cast<uint64_t>(bytes), &segment);
      status != SKERRY_OK) {
    if (status == SKERRY_ERR_PEER_DEAD || status == SKERRY_ERR_NETWORK)
      die(call, skerry_last_error());
    for (int i = 0; i < group.size; ++i) pointers[i] = nullptr;
    return complain(call, skerry_last_error());
  }
  bool is_empty = true;  // on all members alike
  for (int i = 0; i < group.size; ++i) {
    const int rank = skerry_group_rank(group.group, i);
    void* shared = skerry_segment_pointer(segment, rank);
    pointers[i] = shared != nullptr
                      ? shared
                      : reinterpret_cast<void*>(skerry_segment_address(segment, rank));
    is_empty = is_empty && pointers[i] == nullptr;
  }
  if (is_empty)
    return settle(call,
                  // ARMCI_Free could not tell which one its null pointers mean
                  skerry_segment_free(segment));
  const Guard guard;
  allocations.push_front({segment, &group, ++group.serial});
  return 0;
}

int release(const char* call, void* pointer, Group& group) {
  need_start(call);
  // Members without bytes have a null pointer, which names nothing: all agree on what the others
  // mean.
  int64_t mine[3] = {0, INT64_MIN, 0};  // highest serial, minus the lowest, something is wrong
  if (pointer != nullptr) {
    const Guard guard;
    const auto named = std::find_if(
        allocations.begin(), allocations.end(), [&](const Allocation& a) {
          return a.group == &group && skerry_segment_local(a.segment) == pointer;
        });
    if (named == allocations.end()) mine[2] = 1;
    else mine[0] = static_cast<int64_t>(named->serial), mine[1] = -mine[0];
  }
  int64_t agreed[3];
  std::memcpy(agreed, mine, sizeof agreed);
  settle(call, skerry_allreduce(group.group, SKERRY_INT64, SKERRY_MAX, agreed, 3));
  if (agreed[2] != 0 && mine[2] != 0)
    return complain(
        call, text(static_cast<const void*>(pointer),
                   " is not what ARMCI_Malloc gave this process over this group, or was freed"));
  if (agreed[2] != 0)
    return complain(
        call,
        "nothing is freed: another member gave a pointer that is not its own of any allocation");
  if (agreed[0] == 0) return 0;  // null everywhere
  if (agreed[0] != -agreed[1])
    return complain(call, "nothing is freed: members gave pointers of different allocations");
  skerry_segment* segment = nullptr;
  {
    const Guard guard;
    const auto named = std::find_if(
        allocations.begin(), allocations.end(), [&](const Allocation& a) {
          return a.group == &group && a.serial == static_cast<uint64_t>(agreed[0]);
        });
    if (named == allocations.end()) return complain(call, "the allocation was freed already");
    segment = named->segment;
    allocations.erase(named);
    epoch.fetch_add(1, std::memory_order_relaxed);
  }
  return settle(call, skerry_segment_free(segment));
}

}  // namespace

// What was allocated over it stays, and cannot be freed any more.
void forget_group(const Group* group) {
  const Guard guard;
  for (Allocation& allocation : allocations)
    if (allocation.group == group) allocation.group = nullptr;
}

// The segments themselves go with the job.
void end_memory() {
  allocations.clear();
  epoch.fetch_add(1, std::memory_order_relaxed);
}

PROFILED(int, Malloc, (void** pointers, armci_size_t bytes)) {
  return allocate("Malloc", pointers, bytes, runtime().world);
}
PROFILED(int, Malloc_group, (void** pointers, armci_size_t bytes, ARMCI_Group* group)) {
  return allocate("Malloc_group", pointers, bytes, live("Malloc_group", group));
}
PROFILED(int, Malloc_memdev, (void** pointers, armci_size_t bytes, const char*)) {
  return allocate("Malloc_memdev", pointers, bytes, runtime().world);
}
PROFILED(int, Malloc_group_memdev,
         (void** pointers, armci_size_t bytes, ARMCI_Group* group, const char*)) {
  return allocate("Malloc_group_memdev", pointers, bytes, live("Malloc_group_memdev", group));
}
PROFILED(int, Free, (void* pointer)) { return release("Free", pointer, runtime().world); }
PROFILED(int, Free_memdev, (void* pointer)) {
  return release("Free_memdev", pointer, runtime().world);
}
PROFILED(int, Free_group, (void* pointer, ARMCI_Group* group)) {
  return release("Free_group", pointer, live("Free_group", group));
}

PROFILED(void*, Malloc_local, (armci_size_t bytes)) {
  need_start("Malloc_local");
  void* memory = nullptr;
  if (bytes < 0 ||
      skerry_buffer_alloc(runtime().job, static_cast<uint64_t>(bytes), &memory) != SKERRY_OK) {
    complain("Malloc_local", text("no ", bytes, " bytes of private memory"));
    return nullptr;
  }
  return memory;
}
PROFILED(int, Free_local, (void* pointer)) { return skerry_buffer_free(runtime().job, pointer); }

PROFILED(void, Access_begin, (void*)) {}
PROFILED(void, Access_end, (void*)) {}
PROFILED(int, Uses_shm, (void)) { return 1; }
PROFILED(int, Uses_shm_grp, (ARMCI_Group*)) { return 1; }
PROFILED(void, Set_shm_limit, (unsigned long)) {}

}  // namespace skerry::armci
