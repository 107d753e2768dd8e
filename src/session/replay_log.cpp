#include "session/replay_log.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::session {
namespace {

constexpr uint64_t least_ring_bytes = 4096;
constexpr uint64_t least_entries = 16;

}  // namespace

std::byte* ReplayLog::reserve(uint64_t bytes) {
  // In use is [head_, tail_), or [head_, end of the newest before the wrap) and [0, tail_). The
  // tail never catches up with the head from behind, so that equality means empty.
  if (tail_ >= head_) {
    if (capacity_ - tail_ >= bytes) return reserved_at_ = tail_, ring_.get() + tail_;
    if (head_ > bytes) {
      wrapped_ = true;
      return reserved_at_ = 0, ring_.get();
    }
  } else if (head_ - tail_ > bytes) {
    return reserved_at_ = tail_, ring_.get() + tail_;
  }
  grow(bytes);
  reserved_at_ = tail_;
  return ring_.get() + tail_;
}

// Everything kept moves to the front of a larger ring.
void ReplayLog::grow(uint64_t bytes) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count_; ++i)
    kept += at(first_number_ + i).end() - at(first_number_ + i).at;
  uint64_t capacity = std::max(capacity_, least_ring_bytes);
  while (capacity < 2 * (kept + bytes)) capacity *= 2;
  auto ring = std::make_unique_for_overwrite<std::byte[]>(capacity);
  uint64_t tail = 0;
  for (uint64_t i = 0; i < count_; ++i) {
    Entry& e = at(first_number_ + i);
    const uint64_t size = e.end() - e.at;
    std::memcpy(ring.get() + tail, ring_.get() + e.at, size);
    e.at = tail;
    tail += size;
  }
  ring_ = std::move(ring);
  capacity_ = capacity;
  head_ = 0;
  tail_ = tail;
}

void ReplayLog::grow_entries() {
  std::vector<Entry> larger(std::max<size_t>(entries_.size() * 2, least_entries));
  for (uint64_t i = 0; i < count_; ++i)
    larger[(first_number_ + i) & (larger.size() - 1)] = at(first_number_ + i);
  entries_ = std::move(larger);
}

// The last request left a large ring. Is it still needed?
void ReplayLog::note_drained() {
  SKERRY_INVARIANT(count_ == 0, "a ring that holds requests is in use");
  busiest_bytes_ = std::max(busiest_bytes_, wrapped_ ? capacity_ : tail_);
  if (++drains_ < drains_before_shrinking) return;
  if (busiest_bytes_ <= capacity_ / 4) trim();
  drains_ = 0;
  busiest_bytes_ = 0;
}

void ReplayLog::trim() {
  if (count_ > 0)
    return;  // seldom: a link that closes has nothing outstanding but what waits for a lock
  ring_.reset();
  capacity_ = head_ = tail_ = 0;
  std::vector<Entry>().swap(entries_);
}

}  // namespace skerry::session
