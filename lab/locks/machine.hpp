// What only the laboratory needs of machines (lock/machine.hpp): names to print, the check that an
// action keeps to its word's label, one atomic and one pause more.
#pragma once

#include "lock/machine.hpp"

namespace skerry::lock::machine {

std::string_view to_string(Domain domain);
std::string_view to_string(Note note);
std::string_view to_string(Action::Kind kind);

// May this atomic action touch a word with this label?
bool may_touch(const Config& config, Label label, const Action& action);

// Can the unit exchange a value in one atomic?
constexpr bool has_swap(const Config& config, Unit unit) {
  return unit == Unit::cpu || config.domain != Domain::nic || config.network_swap;
}
Action swap(Unit unit, Place place, uint8_t word, uint64_t value);

// A pause of one that knows how many stand before it: `ahead` times Config::turn_ns (DSLR, section
// 4.3). It may be long: the line before it takes its time anyway.
constexpr int64_t longest_pause_ns = 1'000'000'000;
Action pause_for_turns(const Config& config, Unit unit, uint32_t ahead);

}  // namespace skerry::lock::machine
