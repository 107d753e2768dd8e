#include "locks/machine.hpp"

#include <algorithm>

namespace skerry::lock::machine {

std::string_view to_string(Domain domain) {
  switch (domain) {
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
    case Note::performed: return "performed";
    case Note::not_performed: return "not performed";
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

bool may_touch(const Config& config, Label label, const Action& action) {
  if (config.domain != Domain::nic || action.kind == Action::Kind::load) return true;
  switch (label) {
    case Label::cpu: return action.unit == Unit::cpu;
    case Label::network: return action.unit == Unit::network;
    case Label::both: return action.kind == Action::Kind::store;
  }
  return false;
}

Action swap(Unit unit, Place place, uint8_t word, uint64_t value) {
  return {.kind = Action::Kind::swap, .unit = unit, .place = place, .word = word, .value = value};
}

Action pause_for_turns(const Config& config, Unit unit, uint32_t ahead) {
  const int64_t longest_ns = std::min<int64_t>(longest_pause_ns, config.turn_ns * ahead);
  return {.kind = Action::Kind::pause, .unit = unit, .value = static_cast<uint64_t>(longest_ns)};
}

}  // namespace skerry::lock::machine
