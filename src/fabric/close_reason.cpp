#include "fabric/fabric.h"

namespace skerry::fabric {

std::string_view to_string(CloseReason reason) {
  switch (reason) {
    case CloseReason::by_us: return "closed by us";
    case CloseReason::by_peer: return "closed by the peer";
    case CloseReason::refused: return "refused";
    case CloseReason::unreachable: return "unreachable";
    case CloseReason::timed_out: return "timed out";
    case CloseReason::unanswered: return "unanswered";
    case CloseReason::reset: return "reset";
    case CloseReason::protocol_error: return "protocol error";
  }
  return "unknown reason";
}

}  // namespace skerry::fabric
