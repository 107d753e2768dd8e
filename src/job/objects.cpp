#include "job/objects.hpp"

#include <algorithm>
#include <array>

#include "job/group.hpp"
#include "job/job.hpp"
#include "job/mutexes.hpp"
#include "job/protected.hpp"

namespace skerry::job {

namespace {

constexpr size_t remembered_ranks = 64;             // per thread, by the rank's lowest bits
constexpr uint64_t max_listed = uint64_t{1} << 20;  // slices in all lists: some 24 MiB

// The versions of all jobs of the process are different, as a thread may be in several jobs one
// after the other.
uint64_t next_version() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Objects::Objects() : version_(next_version()) {}
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

Status Objects::free(Segment* segment, bool is_idle) {
  const bool was_freed = segment->is_freed();  // then it stands for all freed ones
  Status status = segment->free(is_idle);
  if (!was_freed && segment->is_freed()) {
    Group* const group = &segment->group();
    discard(segment);
    discard_if_unused(group);
  }
  return status;
}

void Objects::discard_if_unused(Group* group) {
  if (group->is_freed() && group->segments() == 0) discard(group);
}

void Objects::keep_group(std::unique_ptr<Group> group) {
  std::unique_ptr<Group> gone;
  {
    const std::lock_guard guard(mutex_);
    if (groups_.size() == most_groups) {
      gone = std::move(groups_.front());
      groups_.erase(groups_.begin());
    }
    groups_.push_back(std::move(group));
  }
  if (gone != nullptr) (void)gone->close_area();
}

std::vector<std::unique_ptr<Group>>::iterator Objects::kept_group(
    const std::function<bool(const Group&)>& fits) {
  const auto found = std::find_if(groups_.rbegin(), groups_.rend(),
                                  [&](const auto& group) { return fits(*group); });
  return found == groups_.rend() ? groups_.end() : std::prev(found.base());
}

std::unique_ptr<Group> Objects::take_group(const std::function<bool(const Group&)>& fits) {
  const std::lock_guard guard(mutex_);
  const auto found = kept_group(fits);
  if (found == groups_.end()) return nullptr;
  std::unique_ptr<Group> taken = std::move(*found);
  groups_.erase(found);
  return taken;
}

void Objects::give_up_groups() {
  while (const auto group = take_group([](const Group&) { return true; }))
    (void)group->close_area();
}

void Objects::before_end(const void* owner, std::function<void()> call) {
  const std::lock_guard guard(mutex_);
  before_end_[owner] = std::move(call);
}
void Objects::forget(const void* owner) {
  const std::lock_guard guard(mutex_);
  before_end_.erase(owner);
}

void Objects::segments_changed() {
  version_.store(next_version(), std::memory_order_release);
  lists_.clear();
  listed_ = 0;
}

std::shared_ptr<const Objects::Slices> Objects::slices_of(Rank rank) {
  const std::lock_guard guard(mutex_);
  if (const auto found = lists_.find(rank); found != lists_.end()) return found->second;
  auto made = std::make_shared<Slices>();
  made->version = version_.load(std::memory_order_relaxed);
  made->rank = rank;
  shelf<Segment>().for_each([&](Segment& segment) {
    if (segment.is_freed() || segment.purpose() != purpose_program) return;
    if (const uint64_t address = segment.address_of(rank); address != 0)
      made->by_address.push_back({address, segment.bytes_of(rank), &segment});
  });
  std::ranges::sort(made->by_address, {}, &Slice::address);
  if (listed_ + made->by_address.size() > max_listed) {
    lists_.clear();
    listed_ = 0;
  }
  listed_ += made->by_address.size();
  lists_[rank] = made;
  return made;
}

bool Objects::find_address(Rank rank, uint64_t address, Slice* slice) {
  static thread_local std::array<std::shared_ptr<const Slices>, remembered_ranks> remembered;
  auto& mine = remembered[static_cast<uint32_t>(rank) % remembered_ranks];
  if (mine == nullptr || mine->rank != rank ||
      mine->version != version_.load(std::memory_order_acquire))
    mine = slices_of(rank);
  const auto& slices = mine->by_address;
  const auto after = std::ranges::upper_bound(slices, address, {}, &Slice::address);
  if (after == slices.begin()) return false;
  const Slice& candidate = *(after - 1);
  if (address - candidate.address >= candidate.bytes) return false;
  *slice = candidate;
  return true;
}

std::vector<Group*> Objects::groups() {
  const std::lock_guard guard(mutex_);
  std::vector<Group*> groups;
  shelf<Group>().for_each([&](Group& group) {
    if (!group.is_freed()) groups.push_back(&group);
  });
  return groups;
}

uint64_t Objects::group_bytes() {
  const std::lock_guard guard(mutex_);
  uint64_t bytes = 0;
  shelf<Group>().for_each([&](Group& group) { bytes += group.member_bytes(); });
  return bytes;
}

uint64_t Objects::kept_bytes() {
  const std::lock_guard guard(mutex_);
  uint64_t bytes = 0;
  shelf<Group>().for_each([&](Group& group) { bytes += group.reserve_.kept_bytes(); });
  for (const auto& group : groups_) bytes += group->reserve_.kept_bytes();
  return bytes;
}

uint64_t Objects::segment_table_bytes() {
  const std::lock_guard guard(mutex_);
  uint64_t bytes = 0;
  shelf<Segment>().for_each([&](Segment& segment) { bytes += segment.table_bytes(); });
  return bytes;
}

}  // namespace skerry::job
