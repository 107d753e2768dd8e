#include "job/reserve.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/pure/assert.hpp"
#include "job/job.hpp"
#include "job/memory_survey.hpp"
#include "job/segment.hpp"

namespace skerry::job {

bool KeptPages::add(uint64_t bytes) {
  if (bytes > limit_bytes_) return false;
  for (const bool is_counted : {false, true}) {
    if (bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit_bytes_) return true;
    if (is_counted) remove(bytes);
    else bytes_.store(objects_.kept_bytes(), std::memory_order_relaxed);
  }
  return false;
}

// Eight sizes to each doubling: at most an eighth of the address space stays empty, and no page.
uint64_t Reserve::room_for(uint64_t bytes, int32_t members) {
  constexpr uint64_t most_bytes = uint64_t{1} << 43;  // of all slices, were they on one node
  const uint64_t pages = std::max<uint64_t>(whole_pages(bytes), 1) / memory::page_bytes;
  if (pages > most_bytes / memory::page_bytes / static_cast<uint64_t>(members)) return 0;
  const int shift = std::max(0, static_cast<int>(std::bit_width(pages)) - 4);
  const uint64_t room_pages = (pages + (uint64_t{1} << shift) - 1) >> shift << shift;
  return std::max<uint64_t>(room_pages, 1) * memory::page_bytes;
}

Reserve::Reserve(Job& job) : job_(&job) {}
Reserve::Reserve(Reserve&&) noexcept = default;
Reserve::~Reserve() = default;

Segment* Reserve::find(uint64_t room) const {
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& segment) {
    return segment->room() == room;
  });
  return found == kept_.rend() ? nullptr : found->get();
}

std::unique_ptr<Segment> Reserve::take(Segment* segment) {
  const auto found = std::ranges::find(kept_, segment, &std::unique_ptr<Segment>::get);
  SKERRY_INVARIANT(found != kept_.end(), "what is taken is kept here");
  const std::lock_guard guard(job_->objects().mutex());
  std::unique_ptr<Segment> taken = std::move(*found);
  kept_.erase(found);
  return taken;
}

void Reserve::keep(std::unique_ptr<Segment> segment) {
  if (kept_.size() == most_kept) (void)take(kept_.front().get())->give_up();
  const std::lock_guard guard(job_->objects().mutex());
  kept_.push_back(std::move(segment));
}

void Reserve::clear() {
  while (!kept_.empty()) (void)take(kept_.back().get())->give_up();
}

void Reserve::set_group(Group& group) const {
  for (const auto& segment : kept_) segment->set_group(group);
}

uint64_t Reserve::kept_bytes() const {
  uint64_t bytes = 0;
  for (const auto& segment : kept_) bytes += segment->kept_bytes();
  return bytes;
}

}  // namespace skerry::job
