#include "memory/segment.hpp"

#include "core/futex.hpp"
#include "core/pure/assert.hpp"
#include "memory/control.hpp"

namespace skerry::memory {

bool plan_segment(std::span<const uint64_t> slice_bytes, SegmentPlan* plan) {
  constexpr uint64_t limit = uint64_t{1} << 62;
  SegmentPlan out;
  uint64_t offset = first_slice_offset(static_cast<uint32_t>(slice_bytes.size()));
  for (const uint64_t bytes : slice_bytes) {
    if (bytes > limit || offset > limit) return false;
    out.offsets.push_back(offset);
    offset += round_up(bytes, page_bytes);
  }
  if (offset > limit) return false;
  out.total_bytes = offset;
  *plan = std::move(out);
  return true;
}

void LocalSegment::publish(uint32_t index, uint32_t members, Rank rank, uint64_t offset,
                           uint64_t bytes) const {
  SKERRY_INVARIANT(index < members && offset % page_bytes == 0,
                   "a slice is one member's, and begins with a page");
  header().id.store(id_.packed(), std::memory_order_relaxed);
  header().members.store(members, std::memory_order_release);
  SliceEntry& mine = header().slices[index];
  mine.rank = rank;
  mine.offset = offset;
  mine.bytes = bytes;
  mine.owner_address = bytes == 0 ? 0 : reinterpret_cast<uint64_t>(base_ + offset);
  mine.published.store(1, std::memory_order_release);
}

void LocalSegment::withdraw(uint32_t index) const {
  header().slices[index].published.store(0, std::memory_order_relaxed);
  // Another member may have stored the next segment's id already, and then stands corrected: this
  // member stores it too, before any member may use that segment.
  header().id.store(0, std::memory_order_release);
}

namespace {
constexpr uint32_t number(SlicePages pages) { return static_cast<uint32_t>(pages); }
}  // namespace

void LocalSegment::keep_pages(uint32_t index, uint64_t bytes) const {
  SliceEntry& mine = header().slices[index];
  SKERRY_INVARIANT(mine.pages.load(std::memory_order_relaxed) == number(SlicePages::used),
                   "only pages in use become kept, by their owner");
  mine.kept_bytes = bytes;
  // Releases: the broker reads kept_bytes, and what the owner wrote goes before the pages do.
  mine.pages.store(number(bytes > 0 ? SlicePages::kept : SlicePages::gone),
                   std::memory_order_release);
}

// The compare-and-swap decides between owner and broker (lab/models/reserve.pml).
Status LocalSegment::take_pages(uint32_t index, const std::atomic<uint32_t>* abort,
                                uint64_t* bytes) const {
  SliceEntry& mine = header().slices[index];
  uint32_t kept = number(SlicePages::kept);
  *bytes = mine.kept_bytes;
  if (mine.pages.compare_exchange_strong(kept, number(SlicePages::used),
                                         std::memory_order_acquire, std::memory_order_acquire))
    return {};
  *bytes = 0;
  const auto is_gone = [](uint32_t pages) { return pages == number(SlicePages::gone); };
  if (wait_until(&mine.pages, is_gone, no_deadline, abort) != WaitResult::reached)
    return error(Code::peer_dead, "the job is ending");
  mine.pages.store(number(SlicePages::used), std::memory_order_relaxed);
  return {};
}

uint64_t LocalSegment::give_back_pages(Discard discard) const {
  uint64_t given = 0;
  for (uint32_t i = 0; i < members(); ++i) {
    SliceEntry& slice = header().slices[i];
    uint32_t kept = number(SlicePages::kept);
    if (!slice.pages.compare_exchange_strong(kept, number(SlicePages::leaving),
                                             std::memory_order_acquire, std::memory_order_relaxed))
      continue;
    discard(base_, slice.offset, slice.kept_bytes);
    given += slice.kept_bytes;
    slice.pages.store(number(SlicePages::gone), std::memory_order_release);
    futex_wake(&slice.pages, 1);
  }
  return given;
}

const SliceEntry* LocalSegment::entry(uint32_t index) const {
  if (index >= members()) return nullptr;
  const SliceEntry* found = &header().slices[index];
  return found->published.load(std::memory_order_acquire) == 1 ? found : nullptr;
}

Region LocalSegment::region(const SliceEntry& entry) const {
  Region region;
  region.base = entry.bytes == 0 ? nullptr : base_ + entry.offset;
  region.bytes = entry.bytes;
  region.seed = stripe_seed(id_, entry.rank);
  region.kind = Kind::node_shared;
  return region;
}

bool LocalSegment::find(Rank rank, Region* region_out) const {
  for (uint32_t low = 0, high = members(); low < high;) {
    const uint32_t middle = low + (high - low) / 2;
    const SliceEntry* candidate = entry(middle);
    if (candidate == nullptr) return false;  // asked before the barrier that ends the allocation
    if (candidate->rank == rank) return *region_out = region(*candidate), true;
    if (candidate->rank < rank) low = middle + 1;
    else high = middle;
  }
  return false;
}

}  // namespace skerry::memory
