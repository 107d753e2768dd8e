#include "job/departure.hpp"

#include <cstddef>

#include "job/group.hpp"
#include "job/job.hpp"
#include "job/segment.hpp"
#include "job/waiting.hpp"

namespace skerry::job {

Status departed(Rank leaver) {
  return error(Code::invalid, "rank ", leaver,
               " leaves the job (finalize, or the end of its program) while others are in another "
               "collective call: all ranks make the same collective calls, finalize last");
}

// The word. Bits 63 to 32: the first call without this member, modulo 2^32. Bits 31 to 0: who
// leaves, plus 1. All 0: it takes part in all.
void Departure::tell(Rank leaver, bool now) {
  auto* const gone = reinterpret_cast<uint64_t*>(area_->own() + at_);
  const auto first_without = static_cast<uint32_t>(now ? calls_ : calls_ + 1);
  const auto named = static_cast<uint32_t>(leaver + 1);
  const uint64_t told = __atomic_load_n(gone, __ATOMIC_RELAXED);
  const auto told_first = static_cast<uint32_t>(told >> 32);
  if (told != 0 && static_cast<int32_t>(told_first - first_without) <= 0) return;
  __atomic_store_n(gone, uint64_t{first_without} << 32 | named, __ATOMIC_RELEASE);
}

Status Departure::wait(Segment& slots, uint64_t counter, uint64_t at_least, Rank from,
                       bool from_nodes, bool in_sweep) {
  struct {
    Departure* departure;
    Rank from;
    bool in_sweep;
    Rank leaver;
    Status status;
  } seen{this, from, in_sweep, no_rank, {}};
  const Look look = [&seen] {  // one pointer: std::function allocates nothing for it
    seen.status = seen.departure->look_at(seen.from, seen.in_sweep, &seen.leaver);
    return !seen.status.ok() || seen.leaver != no_rank;
  };
  Job& job = area_->group().job();
  for (;;) {
    // What was there when the word was read is found once more, and then the wait is over.
    const Status status = slots.wait_counter(counter, at_least, -1, nullptr, from_nodes, &look);
    if (status.code() != Code::timeout) return status;
    SKERRY_TRY(seen.status);
    if (!job.options().goes_on) break;
    SKERRY_TRY(job.views_.await_end_of(seen.leaver));
    seen.leaver = no_rank;  // its death ends the wait
  }
  leaver_ = seen.leaver;
  return departed(leaver_);
}

Status Departure::look_at(Rank member, bool in_sweep, Rank* leaver) {
  *leaver = no_rank;
  uint64_t gone = 0;
  origin::Side there, here;
  there.offset = at_;
  there.bytes = here.bytes = sizeof gone;
  here.base = reinterpret_cast<std::byte*>(&gone);
  SKERRY_TRY(area_->issue(
      origin::Access::get(area_->target(member), there, here, origin::Mode::blocking)));
  const auto first_without = static_cast<uint32_t>(gone >> 32);
  const bool is_over =
      in_sweep || static_cast<int32_t>(first_without - static_cast<uint32_t>(calls_)) <= 0;
  if (gone != 0 && is_over) *leaver = static_cast<Rank>(static_cast<uint32_t>(gone)) - 1;
  return {};
}

}  // namespace skerry::job
