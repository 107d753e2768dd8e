#include "window/reserve.hpp"

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
constexpr uint32_t most_data = 16;              // segments of each kind
constexpr uint64_t longest_kept_bytes = 64 << 10;  // of a member's data

// Returns true.
bool clear(const job::Segment& segment) {
  if (segment.own() != nullptr)
    std::memset(segment.own(), 0, segment.bytes_of(segment.job().rank()));
  return true;
}

}  // namespace

void close_segment(job::Segment* segment) {
  job::Job& job = segment->job();
  (void)segment->release();
  job.objects().discard(segment);
}

Reserve& Reserve::of(job::Group& group) {
  if (group.kept_ == nullptr) group.kept_ = std::make_unique<Reserve>(group);
  return static_cast<Reserve&>(*group.kept_);
}

Reserve::Reserve(job::Group& group)
    : group_(&group),
      place_bytes_((Exposure::slice_bytes(group.size()) + line_bytes - 1) / line_bytes *
                   line_bytes),
      places_(static_cast<uint32_t>(
          std::clamp<uint64_t>(most_desk_bytes / place_bytes_, 1, most_places))) {}

Desk Reserve::desk_at(Shared& shared, uint32_t place) const {
  SKERRY_INVARIANT(place < places_ && (shared.taken >> place & 1) == 0, "a place has one window");
  shared.taken |= 1u << place;
  return {shared.locks, shared.signals, place, place * place_bytes_};
}

bool Reserve::take_desk(Desk* desk) {
  for (Shared& shared : desks_) {
    const auto place = static_cast<uint32_t>(std::countr_one(shared.taken));
    if (place >= places_) continue;
    *desk = desk_at(shared, place);
    std::memset(shared.signals->own() + desk->signals_at, 0, place_bytes_);
    return true;
  }
  return false;
}

Status Reserve::make_desk(Desk* desk) {
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

void Reserve::give_back(const Desk& desk) {
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

void Reserve::close(Shared& shared) {
  job::Segment* const words = &shared.locks->segment();
  group_->job().objects().discard(shared.locks);
  close_segment(words);
  if (shared.signals != nullptr) close_segment(shared.signals);
}

job::Segment* Reserve::find_data(Flavor flavor, const PerMember& bytes) const {
  const auto found = std::ranges::find_if(
      data_, [&](const Data& data) { return data.flavor == flavor && data.bytes == bytes; });
  return found == data_.end() ? nullptr : found->segment;
}

job::Segment* Reserve::take_data(Flavor flavor, const PerMember& bytes) {
  job::Segment* const found = find_data(flavor, bytes);
  std::erase_if(data_, [&](const Data& data) { return data.segment == found; });
  return found;
}

bool Reserve::keep_data(Flavor flavor, const PerMember& bytes, job::Segment* segment,
                        bool is_zero) {
  const auto kept = std::ranges::count(data_, flavor, &Data::flavor);
  if (group_->is_freed() || kept >= most_data || bytes.largest() > longest_kept_bytes) return false;
  SKERRY_INVARIANT(std::ranges::find(data_, segment, &Data::segment) == data_.end(),
                   "a segment is kept once");
  data_.push_back({flavor, bytes, segment, is_zero});
  return true;
}

uint16_t Reserve::held(Flavor flavor) {
  static_assert(most_data <= 16, "a bit for each");
  uint16_t held = 0, bit = 1;
  for (Data& data : data_) {
    if (data.flavor != flavor) continue;
    if (data.segment->is_held()) held |= bit;
    else if (!data.is_zero) data.is_zero = clear(*data.segment);
    bit = static_cast<uint16_t>(bit << 1);
  }
  return held;
}

void Reserve::give_up_held(Flavor flavor, uint16_t held) {
  std::erase_if(data_, [&](const Data& data) {
    if (data.flavor != flavor) return false;
    const bool goes = (held & 1) != 0;
    held = static_cast<uint16_t>(held >> 1);
    if (goes) close_segment(data.segment);
    return goes;
  });
}

// Windows that live on keep their places.
void Reserve::group_freed() {
  for (const Data& data : data_) close_segment(data.segment);
  data_.clear();
  std::erase_if(desks_, [&](Shared& shared) {
    if (shared.taken != 0) return false;
    close(shared);
    return true;
  });
}

}  // namespace skerry::window
