#include "job/departure.hpp"

#include <algorithm>
#include <cstddef>

#include "job/segment.hpp"

namespace skerry::job {

// The word. Bits 63 to 32: the first call without this member, modulo 2^32. Bits 31 to 0: who
// leaves, plus 1. All 0: it takes part in all.
void Departure::tell(Rank leaver, bool now) {
  auto* const gone = reinterpret_cast<uint64_t*>(area_->own() + at_);
  const auto first_without = static_cast<uint32_t>(now ? calls_ : calls_ + 1);
  const auto named = static_cast<uint32_t>(leaver + 1);
  __atomic_store_n(gone, uint64_t{first_without} << 32 | named, __ATOMIC_RELEASE);
}

Status Departure::wait(Segment& slots, uint64_t counter, uint64_t at_least, Rank from) {
  constexpr int64_t first_look_ns = 100'000'000, longest_ns = 1'000'000'000;
  constexpr bool from_nodes = true;
  // Under a cap on connections each look evicts one.
  for (int64_t look_ns = first_look_ns;; look_ns = std::min(2 * look_ns, longest_ns)) {
    const Status status = slots.wait_counter(counter, at_least, look_ns, nullptr, from_nodes);
    if (status.code() != Code::timeout) return status;
    SKERRY_TRY(look_at(from));
    if (leaver_ != no_rank) return error(Code::invalid, "rank ", from, " comes to no more calls");
  }
}

Status Departure::look_at(Rank member) {
  uint64_t gone = 0;
  origin::Side there, here;
  there.offset = at_;
  there.bytes = here.bytes = sizeof gone;
  here.base = reinterpret_cast<std::byte*>(&gone);
  SKERRY_TRY(area_->issue(
      origin::Access::get(area_->target(member), there, here, origin::Mode::blocking)));
  const auto first_without = static_cast<uint32_t>(gone >> 32);
  if (gone != 0 && static_cast<int32_t>(first_without - static_cast<uint32_t>(calls_)) <= 0)
    leaver_ = static_cast<Rank>(static_cast<uint32_t>(gone)) - 1;
  return {};
}

}  // namespace skerry::job
