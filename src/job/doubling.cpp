#include "job/doubling.hpp"

#include <bit>
#include <utility>

#include "core/pure/assert.hpp"
#include "core/pure/copy_bytes.hpp"
#include "job/job.hpp"
#include "job/segment.hpp"

namespace skerry::job {

void Doubling::open(Departure& departure, Segment& slices, uint64_t counters_at, uint64_t slots_at,
                    std::vector<Rank> leaders, int32_t place) {
  departure_ = &departure;
  slices_ = &slices;
  counters_at_ = counters_at;
  slots_at_ = slots_at;
  leaders_ = std::move(leaders);
  place_ = static_cast<uint64_t>(place);
  taken_.assign(swaps(static_cast<int32_t>(leaders_.size())), 0);
}

Status Doubling::swap(uint32_t bit, bool adds, std::span<const std::byte> given,
                      const std::byte** came) {
  static constexpr std::byte nothing{};
  constexpr bool is_fenced = false;  // what the partner sends next says that it arrived
  SKERRY_INVARIANT(given.size() <= slot_bytes, "half of the blocks fit a message");
  const Rank partner = leaders_[place_ ^ uint64_t{1} << bit];
  const uint64_t at = adds ? taken_.size() / 2 + bit : bit;
  const uint64_t counter = counters_at_ + 8 * at;
  const uint64_t slot = slots_at_ + (2 * at + taken_[at] % 2) * slot_bytes;
  if (given.empty()) given = {&nothing, 0};
  SKERRY_TRY(slices_->put_notify(partner, slot, given, {counter, 1}, is_fenced));
  SKERRY_TRY(departure_->wait(*slices_, counter, ++taken_[at], partner));
  *came = slices_->own() + slot;
  return {};
}

Status Doubling::gather_all(std::byte* base, const BlockAt& block_at) {
  const std::byte* came = nullptr;
  for (uint64_t bit = 0; bit < taken_.size() / 2; ++bit) {
    const uint64_t blocks = uint64_t{1} << bit, mine = place_ & ~(blocks - 1);
    const uint64_t theirs = mine ^ blocks;
    const auto part = [&](uint64_t first) {
      return std::span(base + block_at(first), block_at(first + blocks) - block_at(first));
    };
    SKERRY_TRY(swap(static_cast<uint32_t>(bit), false, part(mine), &came));
    copy_bytes(part(theirs).data(), came, part(theirs).size());
  }
  return {};
}

// The last messages are pushed out: nobody waits for this rank while it computes.
Status Doubling::gather(std::byte* base, const BlockAt& block_at) {
  Job& job = slices_->job();
  const Job::Borrowed server(job);
  SKERRY_TRY(gather_all(base, block_at));
  job.engine().look();
  return job.engine().push_out();
}

Status Doubling::allreduce(const Reduction& how, std::byte* buffer, uint64_t bytes) {
  Job& job = slices_->job();
  const Job::Borrowed server(job);
  const uint64_t nodes = leaders_.size(), unit = how.unit(), units = bytes / unit;
  const auto block_at = [&](uint64_t block) { return units * block / nodes * unit; };
  const std::byte* came = nullptr;
  uint64_t first = 0;  // of the blocks that it has, of which there are twice as many as `half`
  for (uint64_t half = nodes / 2; half > 0; half /= 2) {
    const uint64_t kept = first + (place_ & half), other = first + (~place_ & half);
    const auto part = [&](uint64_t from) {
      return std::span(buffer + block_at(from), block_at(from + half) - block_at(from));
    };
    const auto bit = static_cast<uint32_t>(std::countr_zero(half));
    SKERRY_TRY(swap(bit, true, part(other), &came));
    const std::span<std::byte> mine = part(kept);
    how.combine(mine.data(), came, mine.size());
    first = kept;
  }
  SKERRY_TRY(gather_all(buffer, block_at));
  job.engine().look();
  return job.engine().push_out();
}

}  // namespace skerry::job
