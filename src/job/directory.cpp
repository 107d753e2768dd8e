#include "job/directory.hpp"

#include "job/mutexes.hpp"
#include "memory/given.hpp"

namespace skerry::job {

Status NodeDirectory::find(SegmentId segment, Rank rank, memory::Region* region) {
  const memory::LocalSegment local = broker_.find(segment);
  if (!local)
    return error(Code::freed, "segment (", segment.owner, ", ", segment.generation,
                 ") does not exist on node ", node_, ": it was freed");
  if (!local.find(rank, region))
    return error(Code::invalid, "rank ", rank, " has no slice of segment (", segment.owner, ", ",
                 segment.generation, ") on node ", node_);
  const uint32_t purpose = local.purpose();
  if (purpose == purpose_homes) region->kind = memory::Kind::lock_words;
  if (purpose == purpose_given && region->base != nullptr) {
    region->given = reinterpret_cast<const memory::Given*>(region->base);
    region->kind = memory::Kind::given;
    region->base = nullptr;
  }
  return {};
}

Status NodeDirectory::find_lock(SegmentId segment, Rank rank, uint64_t index, lock::Mutex** mutex) {
  memory::Region region;
  SKERRY_TRY(find(segment, rank, &region));  // of mutexes: mapped
  if (broker_.find(segment).purpose() != purpose_mutexes)
    return error(Code::invalid, "segment (", segment.owner, ", ", segment.generation,
                 ") holds no mutexes");  // a peer gone wrong: its bytes are no queue
  if (index >= region.bytes / sizeof(lock::Mutex))
    return error(Code::range, "mutex ", index, " of rank ", rank, ", which hosts ",
                 region.bytes / sizeof(lock::Mutex));
  *mutex = reinterpret_cast<lock::Mutex*>(region.base) + index;
  return {};
}

}  // namespace skerry::job
