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
  segments_.freed = Segment::stand_in(job);
  groups_.freed = Group::stand_in(job);
}

void Objects::end() {
  for (auto& [owner, call] : before_end_) call();
  segments_.for_each([](Segment& segment) {
    if (!segment.is_freed()) (void)segment.close();
  });
}

Segment* Objects::keep(std::unique_ptr<Segment> segment) {
  const std::lock_guard guard(mutex_);
  return segments_.keep(std::move(*segment));
}
Group* Objects::keep(std::unique_ptr<Group> group) {
  const std::lock_guard guard(mutex_);
  return groups_.keep(std::move(*group));
}
Mutexes* Objects::keep(std::unique_ptr<Mutexes> mutexes) {
  const std::lock_guard guard(mutex_);
  return mutexes_.keep(std::move(*mutexes));
}

void Objects::discard(Segment* segment) {
  const std::lock_guard guard(mutex_);
  segments_.discard(segment);
}
void Objects::discard(Group* group) {
  const std::lock_guard guard(mutex_);
  groups_.discard(group);
}
void Objects::discard(Mutexes* mutexes) {
  const std::lock_guard guard(mutex_);
  mutexes_.discard(mutexes);
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
  segments_.for_each([&](Segment& segment) {
    if (segment.is_freed() || segment.purpose() != purpose_program) return;
    if (const uint64_t address = segment.address_of(rank); address != 0)
      slices->push_back({address, segment.bytes_of(rank), &segment});
  });
}

uint64_t Objects::group_bytes() {
  const std::lock_guard guard(mutex_);
  uint64_t bytes = 0;
  groups_.for_each([&](Group& group) { bytes += group.member_bytes(); });
  return bytes;
}

uint64_t Objects::segment_table_bytes() {
  const std::lock_guard guard(mutex_);
  uint64_t bytes = 0;
  segments_.for_each([&](Segment& segment) { bytes += segment.table_bytes(); });
  return bytes;
}

}  // namespace skerry::job
