#include "job/objects.hpp"

#include "job/group.hpp"
#include "job/job.hpp"
#include "job/mutexes.hpp"

namespace skerry::job {

Objects::Objects()
    : address_index_(mutex_, [this](Rank rank, std::vector<AddressIndex::Slice>* slices) {
        list_slices(rank, slices);
      }) {}
Objects::~Objects() = default;

void Objects::start(Job& job) {
  shelf<Segment>().freed = Segment::stand_in(job);
  shelf<Group>().freed = Group::stand_in(job);
}

void Objects::end() {
  for (auto& [owner, call] : before_end_) call();
  shelf<Segment>().for_each([](Segment& segment) {
    if (!segment.is_freed()) (void)segment.close();
  });
}

void Objects::discard_if_unused(Group* group) {
  if (group->is_freed() && group->segments() == 0) discard(group);
}

void Objects::before_end(const void* owner, std::function<void()> call) {
  const std::lock_guard guard(mutex_);
  before_end_[owner] = std::move(call);
}
void Objects::forget(const void* owner) {
  const std::lock_guard guard(mutex_);
  before_end_.erase(owner);
}

void Objects::list_slices(Rank rank, std::vector<AddressIndex::Slice>* slices) {
  shelf<Segment>().for_each([&](Segment& segment) {
    if (segment.is_freed() || segment.purpose() != purpose_program) return;
    if (const uint64_t address = segment.address_of(rank); address != 0)
      slices->push_back({address, segment.bytes_of(rank), &segment});
  });
}

uint64_t Objects::group_bytes() {
  const std::lock_guard guard(mutex_);
  uint64_t bytes = 0;
  shelf<Group>().for_each([&](Group& group) { bytes += group.member_bytes(); });
  return bytes;
}

uint64_t Objects::segment_table_bytes() {
  const std::lock_guard guard(mutex_);
  uint64_t bytes = 0;
  shelf<Segment>().for_each([&](Segment& segment) { bytes += segment.table_bytes(); });
  return bytes;
}

}  // namespace skerry::job
