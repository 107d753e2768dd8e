#include "connection/core/victim.hpp"

#include <utility>

namespace skerry::connection {
namespace {

// The least recently used one goes.
Worth lru(Partner, const Uses& uses, uint64_t) { return {uses.last, 0}; }

// The paper's LRU-M: one LRU queue per number of teardowns, the victim is the tail of the lowest
// queue that is not empty. The queues are kept as an order, by teardowns and then by last use:
// using a connection stays one store, and choosing looks at every open one.
Worth lru_m(Partner, const Uses& uses, uint64_t) { return {uses.teardowns, uses.last}; }

// Evicts the connection whose next use is expected to be farthest away, judged by the interval
// between its last two uses. One idle for less than that interval is expected back when the
// interval is over. One idle for longer has broken its rhythm and is expected to stay away for as
// long again. This recognises partners that come round in a circle wider than the cap (neighbours,
// blocks in order), where least recently used always evicts the wrong one, and a counter that is
// asked regularly.
Worth reuse(Partner, const Uses& uses, uint64_t now) {
  constexpr uint64_t unknown = uint64_t{1} << 40;  // used once: farther away than anything known,
                                                   // the one used longest ago first
  const uint64_t age = now - uses.last;
  if (uses.before == 0) return {~(unknown + age), uses.last};
  const uint64_t interval = uses.last - uses.before;
  return {~(age < interval ? interval - age : age), uses.last};
}

constexpr std::pair<std::string_view, Worth (*)(Partner, const Uses&, uint64_t)> policies[] = {
    {"lru", lru}, {"lru_m", lru_m}, {"reuse", reuse}};

}  // namespace

Status find_policy(std::string_view name, Policy* policy) {
  std::string known;
  for (const auto& [known_name, worth] : policies) {
    if (known_name == name) {
      if (policy != nullptr) *policy = worth;
      return {};
    }
    known += concat(known.empty() ? "" : ", ", known_name);
  }
  return error(Code::config, "SKERRY_VICTIM=", name,
               ": there is no policy of that name; give one of ", known);
}

}  // namespace skerry::connection
