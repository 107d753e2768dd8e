// What only the laboratory needs of machines (lock/machine.hpp): names to print, the check that an
// action keeps to its word's label, and one atomic more.
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

}  // namespace skerry::lock::machine
