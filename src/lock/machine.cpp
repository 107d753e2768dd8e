#include "lock/machine.hpp"

#include <algorithm>

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

int64_t pause_ns(const Config& config, const Action& pause, uint64_t random) {
  const Pauses& pauses = pauses_of(config, pause.unit);
  const int64_t bound = pause.ahead != 0
                            ? std::min<int64_t>(longest_pause_ns, config.turn_ns * pause.ahead)
                            : pauses.first_ns << std::min(pause.attempt, pauses.doublings);
  const uint64_t half = static_cast<uint64_t>(bound) / 2;
  return bound - static_cast<int64_t>(random % (half + 1));
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

Action load(Unit unit, Place place, uint8_t word) {
  return {.kind = Action::Kind::load, .unit = unit, .place = place, .word = word};
}
Action store(Unit unit, Place place, uint8_t word, uint64_t value) {
  return {.kind = Action::Kind::store, .unit = unit, .place = place, .word = word, .value = value};
}
Action compare_and_swap(Unit unit, Place place, uint8_t word, uint64_t expected, uint64_t value) {
  return {.kind = Action::Kind::compare_and_swap,
          .unit = unit,
          .place = place,
          .word = word,
          .expected = expected,
          .value = value};
}
Action fetch_and_add(Unit unit, Place place, uint8_t word, uint64_t value) {
  return {.kind = Action::Kind::fetch_and_add,
          .unit = unit,
          .place = place,
          .word = word,
          .value = value};
}
Action ask(Note note, Mode mode, uint64_t value) {
  return {.kind = Action::Kind::ask, .note = note, .mode = mode, .value = value};
}
Action tell(Requester to, Note note, uint64_t value) {
  return {.kind = Action::Kind::tell, .note = note, .to = to, .value = value};
}
Action pause(Unit unit, uint8_t attempt, uint32_t ahead) {
  return {.kind = Action::Kind::pause, .unit = unit, .attempt = attempt, .ahead = ahead};
}
Action wait() { return {.kind = Action::Kind::wait}; }
Action granted() { return {.kind = Action::Kind::granted}; }
Action released() { return {.kind = Action::Kind::released}; }
Action refused() { return {.kind = Action::Kind::refused}; }

}  // namespace skerry::lock::machine
