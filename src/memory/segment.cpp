#include "memory/segment.hpp"

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
  header().id.store(id_.packed(), std::memory_order_relaxed);
  header().members.store(members, std::memory_order_release);
  SliceEntry& mine = header().slices[index];
  mine.rank = rank;
  mine.offset = offset;
  mine.bytes = bytes;
  mine.owner_address = bytes == 0 ? 0 : reinterpret_cast<uint64_t>(base_ + offset);
  mine.published.store(1, std::memory_order_release);
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
