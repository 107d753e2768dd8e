#include "window/desks.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "job/job.hpp"
#include "window/exposure.hpp"

namespace skerry::window {
namespace {

constexpr uint64_t line_bytes = 64;
constexpr uint32_t most_places = 16;            // of a desk
constexpr uint64_t most_desk_bytes = 64 << 10;  // of a member's signals on a desk of several places

}  // namespace

void close_segment(job::Segment* segment, bool keeps) {
  job::Job& job = segment->job();
  (void)segment->release(keeps);
  job.objects().discard(segment);
}

Desks& Desks::of(job::Group& group) {
  if (group.kept_ == nullptr) group.kept_ = std::make_unique<Desks>(group);
  return static_cast<Desks&>(*group.kept_);
}

Desks::Desks(job::Group& group)
    : group_(&group),
      place_bytes_((Exposure::slice_bytes(group.size()) + line_bytes - 1) / line_bytes *
                   line_bytes),
      places_(static_cast<uint32_t>(
          std::clamp<uint64_t>(most_desk_bytes / place_bytes_, 1, most_places))) {}

Desk Desks::desk_at(Shared& shared, uint32_t place) const {
  SKERRY_INVARIANT(place < places_ && (shared.taken >> place & 1) == 0, "a place has one window");
  shared.taken |= 1u << place;
  return {shared.locks, shared.signals, place, place * place_bytes_};
}

bool Desks::take(Desk* desk) {
  for (Shared& shared : desks_) {
    const auto place = static_cast<uint32_t>(std::countr_one(shared.taken));
    if (place >= places_) continue;
    *desk = desk_at(shared, place);
    std::memset(shared.signals->own() + desk->signals_at, 0, place_bytes_);
    return true;
  }
  return false;
}

Status Desks::make(Desk* desk) {
  Shared made;
  SKERRY_TRY(job::Mutexes::create(*group_, places_, &made.locks));
  if (Status status = job::Segment::alloc(*group_, places_ * place_bytes_, job::purpose_window,
                                          &made.signals);
      !status.ok()) {
    close(made);
    return status;
  }
  desks_.push_back(made);
  *desk = desk_at(desks_.back(), 0);
  return {};
}

void Desks::give_back(const Desk& desk) {
  const auto found = std::ranges::find(desks_, desk.signals, &Shared::signals);
  SKERRY_ASSERT(found != desks_.end() && (found->taken >> desk.place & 1) != 0,
                "a desk's place is given back once, to its group");
  found->taken &= ~(1u << desk.place);
  if (found->taken != 0) return;
  // One free desk stays for the next windows: programs that make one at a time would make a desk
  // each time.
  const bool is_spare = std::ranges::none_of(
      desks_, [&](const Shared& s) { return s.taken == 0 && s.signals != desk.signals; });
  if (is_spare && !group_->is_freed()) return;
  close(*found);
  desks_.erase(found);
}

void Desks::close(Shared& shared) {
  job::Segment* const words = &shared.locks->segment();
  group_->job().objects().discard(shared.locks);
  close_segment(words);
  if (shared.signals != nullptr) close_segment(shared.signals);
}

// Before the group is freed: its reserve may take what goes. Windows that live on keep their
// places.
void Desks::group_freed() {
  std::erase_if(desks_, [&](Shared& shared) {
    if (shared.taken != 0) return false;
    close(shared);
    return true;
  });
}

}  // namespace skerry::window
