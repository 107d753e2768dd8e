#include "connection/core/dialer.hpp"

#include <algorithm>

#include "core/pure/assert.hpp"

namespace skerry::connection {

bool Dialer::failed(int64_t now_ns, int64_t limit_ns, uint32_t random, Pause pause) {
  SKERRY_INVARIANT(now_ns > 0, "0 says that nothing has failed");
  if (failing_since_ns_ == 0) failing_since_ns_ = now_ns;
  if (now_ns - failing_since_ns_ >= limit_ns) return false;
  const int64_t longest_ns = pause == Pause::brief ? longest_brief_pause_ns : longest_pause_ns;
  const int64_t pause_ns = std::min(first_pause_ns << std::min(failures_, 10u), longest_ns);
  const auto half_ns = static_cast<uint64_t>(pause_ns / 2);
  const auto spread_ns = static_cast<int64_t>(half_ns * random >> 32);
  due_ns_ = pause == Pause::none ? 0 : now_ns + pause_ns / 2 + spread_ns;
  if (failures_ < UINT32_MAX) ++failures_;
  return true;
}

}  // namespace skerry::connection
