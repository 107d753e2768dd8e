// The lock protocols that are compared, by name: the product's `migrating`, and those of this room.
#pragma once

#include <cstdint>
#include <string_view>

#include "lock/machine.hpp"

namespace skerry::lock {

enum class ProtocolKind : uint8_t {
  two_sided,      // a manager on the lock's node grants every request from one queue
  one_sided,      // compare-and-swap on one word, and again after a pause: not fair
  migrating,      // the product's: moves between a lock of the processor and one of the network
  queue,          // MCS: one queue of all requesters, handed over directly
  cohort,         // a queue per node; the node hands over inside, then gives the lock back
  asymmetric,     // ALock: a queue of the lock's node and one of all others, in turns
  reader_writer,  // DSLR: tickets for readers and writers
};
constexpr uint8_t protocol_kinds = 7;

std::string_view to_string(ProtocolKind kind);
// False, and *kind unchanged: there is no protocol of this name.
bool from_string(std::string_view name, ProtocolKind* kind);
// Is the number of requesters that overtake one bounded once it stands in line?
bool is_fair(ProtocolKind kind);

const machine::Machines& machines_of(ProtocolKind kind);

// Does this client of the protocol stand in a line that bounds how many requesters overtake it?
bool in_line(ProtocolKind kind, const machine::MachineBytes& client);

}  // namespace skerry::lock
