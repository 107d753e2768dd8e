#include "session/replay_cursor.hpp"

namespace skerry::session {

std::string_view to_string(ReplayCursor::Phase phase) {
  switch (phase) {
    case ReplayCursor::Phase::idle: return "idle";
    case ReplayCursor::Phase::requests: return "requests";
    case ReplayCursor::Phase::parked: return "parked";
  }
  return "unknown";
}

}  // namespace skerry::session
