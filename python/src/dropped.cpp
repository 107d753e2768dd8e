#include "dropped.hpp"

#include <algorithm>

namespace skpy {

Dropped& dropped() {
  static auto* all = new Dropped();
  return *all;
}

void Dropped::forget(const void* owner) {
  std::erase_if(live_, [&](const Entry& entry) { return entry.owner == owner; });
}

void Dropped::drop(const void* owner, Left&& left) {
  for (auto& entry : live_)
    if (entry.owner == owner) {
      entry = {nullptr, std::move(left)};
      return;
    }
  // Of a smaller group: the job frees it at its end.
  std::visit([](auto& held) { held.release(); }, left);
}

void Dropped::free_common(const sk::Group& world) {
  if (live_.empty()) return;  // alike on all ranks
  std::int64_t mask = 0;
  const std::size_t n = std::min<std::size_t>(live_.size(), 63);
  for (std::size_t i = 0; i < n; ++i)
    if (live_[i].owner == nullptr) mask |= std::int64_t{1} << i;
  std::vector<Left> freed;
  {
    nb::gil_scoped_release waits;
    mask = world.allreduce(mask, sk::Reduction::bit_and);
  }
  std::vector<Entry> kept;
  for (std::size_t i = 0; i < live_.size(); ++i) {
    if (i < n && (mask >> i & 1)) freed.push_back(std::move(live_[i].left));
    else kept.push_back(std::move(live_[i]));
  }
  live_ = std::move(kept);
  nb::gil_scoped_release waits;
  for (auto& left : freed) std::visit([](auto& held) { held.free(); }, left);
}

void Dropped::end() {
  for (auto& entry : live_) std::visit([](auto& held) { held.release(); }, entry.left);
  live_.clear();
}

}  // namespace skpy
