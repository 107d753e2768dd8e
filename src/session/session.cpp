#include "session/session.hpp"

namespace skerry::session {

std::string_view to_string(Order order) {
  switch (order) {
    case Order::apply: return "apply";
    case Order::duplicate: return "duplicate";
    case Order::gap: return "gap";
  }
  return "unknown";
}

}  // namespace skerry::session
