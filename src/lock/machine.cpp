#include "lock/machine.hpp"

#include <algorithm>

#include "core/pure/assert.hpp"

namespace skerry::lock::machine {

std::string_view to_string(Domain domain) {
  switch (domain) {
    case Domain::cpu: return "cpu";
    case Domain::server: return "server";
    case Domain::nic: return "nic";
  }
  return "unknown";
}

std::string_view to_string(Note note) {
  switch (note) {
    case Note::none: return "none";
    case Note::request: return "request";
    case Note::release: return "release";
    case Note::renew: return "renew";
    case Note::granted: return "granted";
    case Note::granted_by_manager: return "granted by manager";
    case Note::again: return "again";
    case Note::linked: return "linked";
  }
  return "unknown";
}

std::string_view to_string(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::load: return "load";
    case Action::Kind::store: return "store";
    case Action::Kind::compare_and_swap: return "compare and swap";
    case Action::Kind::fetch_and_add: return "fetch and add";
    case Action::Kind::swap: return "swap";
    case Action::Kind::ask: return "ask";
    case Action::Kind::tell: return "tell";
    case Action::Kind::pause: return "pause";
    case Action::Kind::wait: return "wait";
    case Action::Kind::granted: return "granted";
    case Action::Kind::released: return "released";
    case Action::Kind::refused: return "refused";
  }
  return "unknown";
}

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

bool may_touch(const Config& config, Label label, const Action& action) {
  if (config.domain != Domain::nic || action.kind == Action::Kind::load) return true;
  switch (label) {
    case Label::cpu: return action.unit == Unit::cpu;
    case Label::network: return action.unit == Unit::network;
    case Label::both: return action.kind == Action::Kind::store;
  }
  return false;
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
Action swap(Unit unit, Place place, uint8_t word, uint64_t value) {
  return {.kind = Action::Kind::swap, .unit = unit, .place = place, .word = word, .value = value};
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
