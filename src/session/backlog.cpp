#include "session/backlog.hpp"

#include <utility>

namespace skerry::session {

void Backlog::add(Part& part, uint64_t copied_bytes, bool awaits_reply, int64_t now_ns) {
  if (parts_.empty()) since_ns_ = now_ns;
  if (part.empty()) parts_.push_back(&part);
  ++part.issued;
  ++requests_;
  part.bytes += copied_bytes;
  bytes_ += copied_bytes;
  part.replies += awaits_reply;
  replies_ += awaits_reply;
}

bool Backlog::sent(Part& part, uint64_t number, bool awaited_reply) {
  SKERRY_ASSERT(!part.empty() && number == part.sent + 1, "what waits goes out in its order");
  SKERRY_INVARIANT(part.replies >= awaited_reply && replies_ >= awaited_reply && requests_ > 0,
                   "what went out was counted");
  part.replies -= awaited_reply;
  replies_ -= awaited_reply;
  --requests_;
  part.sent = number;
  if (!part.empty()) return false;
  bytes_ -= std::exchange(part.bytes, 0);
  std::erase(parts_, &part);
  SKERRY_INVARIANT(!parts_.empty() || (bytes_ == 0 && requests_ == 0 && replies_ == 0),
                   "nothing waits when nobody's does");
  return true;
}

void Backlog::drop(Part& part) {
  if (part.empty()) return;
  requests_ -= part.issued - part.sent;
  bytes_ -= std::exchange(part.bytes, 0);
  replies_ -= std::exchange(part.replies, 0);
  part.sent = part.issued;
  std::erase(parts_, &part);
}

}  // namespace skerry::session
