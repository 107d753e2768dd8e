#include "job/panel.hpp"

#include <algorithm>
#include <cstring>

namespace skerry::job {

Status Labels::set(SegmentId segment, std::string_view name, std::string_view text) {
  if (name.size() >= Label::name_bytes || text.size() >= Label::text_bytes)
    return error(Code::invalid, "the name \"", name, "\" has ", name.size(),
                 " bytes, and its description ", text.size(), ": at most ", Label::name_bytes - 1,
                 " and ", Label::text_bytes - 1);
  const std::lock_guard guard(mutex_);
  const auto labels = [&](uint64_t id) {
    return std::ranges::find_if(labels_, [&](const Label& each) { return each.segment == id; });
  };
  auto at = labels(segment.packed());
  if (at == labels_.end() && name.empty()) return {};
  if (at == labels_.end()) at = labels(0);
  if (at == labels_.end()) at = labels_.emplace(labels_.end());
  at->segment.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  if (name.empty()) return {};
  std::memset(at->name, 0, sizeof at->name);
  std::memset(at->text, 0, sizeof at->text);
  name.copy(at->name, name.size());
  text.copy(at->text, text.size());
  at->segment.store(segment.packed(), std::memory_order_release);
  if (&*at == &labels_.front()) first_.store(&*at, std::memory_order_release);
  else std::prev(at)->next.store(&*at, std::memory_order_release);
  return {};
}

}  // namespace skerry::job
