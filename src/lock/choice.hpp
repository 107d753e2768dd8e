// What SKERRY_LOCK says: `fair`, `migrating`, `migrating:POLICY`, or LIBRARY.so:NAME for a protocol
// of a shared library (machines.hpp).
#pragma once

#include <string_view>

#include "core/pure/status.hpp"
#include "lock/machines.hpp"

namespace skerry::lock {

struct Choice {
  const machine::Machines* machines = nullptr;  // null: the fair queue (mutex.hpp)
  machine::Migration migration = machine::Migration::always;
};
// Opens the library, which stays, so that this process's data server knows the protocol as well.
// Errors: config, with the values that work.
Status choose(std::string_view text, Choice* choice);

// The protocol that a lock's record names; null: this process does not know it. Any thread.
const machine::Machines* protocol_of(uint8_t id);
// From now on it does. (choose does it.)
void make_known(const machine::Machines& machines);

}  // namespace skerry::lock
