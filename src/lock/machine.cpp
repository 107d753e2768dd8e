#include "lock/machine.hpp"

#include "core/pure/assert.hpp"

namespace skerry::lock::machine {

std::string_view to_string(Migration policy) {
  switch (policy) {
    case Migration::always: return "always";
    case Migration::hysteresis: return "hysteresis";
    case Migration::history: return "history";
  }
  return "unknown";
}

bool from_string(std::string_view name, Migration* policy) {
  for (const Migration m : {Migration::always, Migration::hysteresis, Migration::history})
    if (name == to_string(m)) return *policy = m, true;
  return false;
}

int64_t pause_ns(const Action& pause, uint64_t random) {
  return static_cast<int64_t>(pause.value - random % (pause.value / 2 + 1));
}

void RequesterQueue::push(Requester who, Mode mode, bool local, Links links) {
  SKERRY_ASSERT(who < links.size(), "a link for each requester");
  links[who] = {who, mode, local, {}};
  if (count_++ == 0) first_ = who;
  else links[last_].next = who;
  last_ = who;
}

void RequesterQueue::pop(Links links) {
  SKERRY_ASSERT(count_ > 0, "a requester waits");
  const Requester gone = first_;
  first_ = --count_ == 0 ? 0 : links[gone].next;
  if (count_ == 0) last_ = 0;
  links[gone] = {};
}

}  // namespace skerry::lock::machine
