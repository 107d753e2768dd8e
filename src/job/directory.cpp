#include "job/directory.hpp"

#include "job/mutexes.hpp"
#include "memory/given.hpp"

namespace skerry::job {

// A segment that the broker releases meanwhile may be found here once more. That does no harm: it
// stays mapped until this server's thread has run Server::forget, which is between two requests.
// The broker counted the release before it posted that, so from then on this thread sees the new
// count, and asks the broker. Ids are not used again, so an entry is never another segment's.
memory::LocalSegment NodeDirectory::look_up(SegmentId segment) {
  if (const uint64_t releases = broker_.releases(); releases != releases_) {
    found_.fill({});
    releases_ = releases;
  }
  // Another life of the same memory is recognised by what the memory says of itself.
  memory::LocalSegment& found = found_[(segment.owner ^ segment.generation) % found_.size()];
  if (found && found.id() == segment && found.is_here()) return found;
  const memory::LocalSegment local = broker_.find(segment);
  if (!local || !local.is_here()) return {};  // or not yet: somebody asked too early
  return found = local;
}

Status NodeDirectory::find(SegmentId segment, Rank rank, memory::Region* region) {
  const memory::LocalSegment local = look_up(segment);
  // Only what locks and unlocks them changes mutexes.
  if (local && local.purpose() == purpose_mutexes)
    return error(Code::invalid, "segment (", segment.owner, ", ", segment.generation,
                 ") holds mutexes, and is not to be read or written");
  return find_in(local, segment, rank, region);
}

Status NodeDirectory::find_in(const memory::LocalSegment& local, SegmentId segment, Rank rank,
                              memory::Region* region) const {
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
  const memory::LocalSegment local = look_up(segment);
  memory::Region region;
  SKERRY_TRY(find_in(local, segment, rank, &region));  // of mutexes: mapped
  if (local.purpose() != purpose_mutexes)
    return error(Code::invalid, "segment (", segment.owner, ", ", segment.generation,
                 ") holds no mutexes");  // a peer gone wrong: its bytes are no queue
  if (index >= region.bytes / sizeof(lock::Mutex))
    return error(Code::range, "mutex ", index, " of rank ", rank, ", which hosts ",
                 region.bytes / sizeof(lock::Mutex));
  *mutex = reinterpret_cast<lock::Mutex*>(region.base) + index;
  return {};
}

}  // namespace skerry::job
