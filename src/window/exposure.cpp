#include "window/exposure.hpp"

#include <algorithm>
#include <cstring>

#include "core/pure/assert.hpp"
#include "job/job.hpp"

namespace skerry::window {

Status Exposure::send(Rank rank, uint64_t offset, uint64_t bytes, uint64_t counter) {
  static constexpr std::byte one{1};
  return signals_->put_notify(rank, at_ + offset, {&one, bytes}, {at_ + counter, 1});
}

Status Exposure::post(std::span<const Rank> ranks) {
  is_open_ = true;
  posted_to_.assign(ranks.begin(), ranks.end());
  completes_expected_ += ranks.size();
  const auto mine = static_cast<uint64_t>(group_->index());
  for (Rank rank : ranks) SKERRY_TRY(send(rank, posted_at + mine, 1, posts_at));
  return {};
}

Status Exposure::await_posts(std::span<const Rank> ranks) {
  std::byte* const mine = signals_->own() + at_;
  const auto* const posts = reinterpret_cast<const uint64_t*>(mine + posts_at);
  for (Rank rank : ranks) {
    auto* const flag = reinterpret_cast<uint8_t*>(mine + posted_at + group_->index_of(rank));
    for (;;) {
      const uint64_t seen = __atomic_load_n(posts, __ATOMIC_ACQUIRE);
      if (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0) break;
      SKERRY_TRY(signals_->wait_counter(at_ + posts_at, seen + 1, -1, nullptr));
    }
    __atomic_store_n(flag, uint8_t{0}, __ATOMIC_RELAXED);
  }
  keeps_more_ = group_->size() <= most_boxes;
  return {};
}

bool Exposure::keep(Rank rank, uint64_t offset, const void* data, uint64_t bytes) {
  if (!keeps_more_ || bytes > Box::most_bytes) return false;
  SKERRY_INVARIANT(bytes > 0 && std::ranges::find(kept_, rank, &Kept::rank) == kept_.end(),
                   "an access to a rank gives up what is kept for it");
  Kept& kept = kept_.emplace_back();
  kept.rank = rank;
  kept.box.offset = offset;
  kept.box.bytes = static_cast<uint32_t>(bytes);
  std::memcpy(kept.box.data, data, bytes);
  return true;
}

bool Exposure::give_up(Rank rank, Box* box) {
  const auto found = std::ranges::find(kept_, rank, &Kept::rank);
  if (found == kept_.end()) return false;
  *box = found->box;
  kept_.erase(found);
  keeps_more_ = false;
  return true;
}

Status Exposure::complete(std::span<const Rank> ranks) {
  keeps_more_ = false;
  for (const Kept& kept : kept_)
    box(signals_->local(kept.rank)->base, group_->index()) = kept.box;
  kept_.clear();
  for (Rank rank : ranks) SKERRY_TRY(send(rank, completes_at, 0, completes_at));
  return {};
}

// Of those that this rank posted to, which have all completed.
void Exposure::take_out() {
  if (group_->size() > most_boxes) return;
  for (const Rank rank : posted_to_) {
    Box& from = box(signals_->own(), group_->index_of(rank));
    std::memcpy(given_ + from.offset, from.data, from.bytes);
    from.bytes = 0;
  }
}

// A program may call nothing but test until it is done: what this rank has to send, or to close for
// others, goes on here.
Status Exposure::wait(int64_t longest_ns, bool* done) {
  const Status waited = signals_->wait_counter(at_ + completes_at, completes_expected_, longest_ns,
                                               nullptr);
  *done = waited.ok();
  if (*done) {
    is_open_ = false;
    if (given_ != nullptr) take_out();
  }
  return waited.code() == Code::timeout ? Status() : waited;
}

}  // namespace skerry::window
