// The machines of one protocol behind a table, for drivers that learn at run time which it is. The
// product has one protocol with machines, `migrating`. A shared library may bring others: it has a
// function `skerry_lock_machines(name)`, and SKERRY_LOCK=LIBRARY.so:NAME asks it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>

#include "core/pure/status.hpp"
#include "lock/machine.hpp"

namespace skerry::lock::machine {

// A client or manager of any protocol. Without pointers: a manager may lie in shared memory.
struct MachineBytes {
  alignas(8) std::array<std::byte, 40> bytes = {};
};

struct Machines {
  // What a lock's record in memory says (home.hpp): 0 `migrating`; below `most_protocols`.
  uint8_t id = 0;
  bool has_readers = false;     // shared requests are granted together; otherwise one by one
  bool has_manager = false;     // otherwise asking it is a mistake
  bool manager_pauses = false;  // those that wait let it go on
  bool tells_directly = false;  // to give the lock back may be a message to its next holder
  // In the order of Action::word; those of each place are counted together.
  std::span<const Word> words = {};
  uint64_t (*initial_value)(uint8_t word, const Config& config) = nullptr;
  void (*make_client)(MachineBytes* client, const Self& self) = nullptr;
  Action (*step_client)(MachineBytes* client, const Event& event, const Config& config) = nullptr;
  void (*make_manager)(MachineBytes* manager) = nullptr;
  Action (*step_manager)(MachineBytes* manager, const Event& event, const Config& config,
                         Links links) = nullptr;
};
constexpr uint8_t most_protocols = 16;

class NoManager;  // of a protocol whose clients ask nobody

// Fills in the functions of a table.
template <class Client, class Manager>
constexpr Machines machines_of(Machines table) {
  static_assert(sizeof(Client) <= sizeof(MachineBytes) && sizeof(Manager) <= sizeof(MachineBytes));
  static_assert(alignof(Client) <= 8 && alignof(Manager) <= 8);
  static_assert(std::is_trivially_copyable_v<Client> && std::is_trivially_copyable_v<Manager>);
  table.has_manager = !std::is_same_v<Manager, NoManager>;
  table.make_client = [](MachineBytes* client, const Self& self) {
    new (client->bytes.data()) Client(self);
  };
  table.step_client = [](MachineBytes* client, const Event& event, const Config& config) {
    return std::launder(reinterpret_cast<Client*>(client->bytes.data()))->step(event, config);
  };
  table.make_manager = [](MachineBytes* manager) { new (manager->bytes.data()) Manager(); };
  table.step_manager = [](MachineBytes* manager, const Event& event, const Config& config,
                          Links links) {
    return std::launder(reinterpret_cast<Manager*>(manager->bytes.data()))
        ->step(event, config, links);
  };
  return table;
}

const Machines& migrating();

// The protocol that a lock's record names; null: this process does not know it. Any thread.
const Machines* protocol_of(uint8_t id);
// From now on it does. (choose does it.)
void make_known(const Machines& machines);

}  // namespace skerry::lock::machine

namespace skerry::lock {

// What SKERRY_LOCK says: `fair`, `migrating`, `migrating:POLICY`, or LIBRARY.so:NAME.
struct Choice {
  const machine::Machines* machines = nullptr;  // null: the fair queue (mutex.hpp)
  machine::Migration migration = machine::Migration::always;
};
// Opens the library, which stays, so that this process's data server knows the protocol as well.
// Errors: config, with the values that work.
Status choose(std::string_view text, Choice* choice);

}  // namespace skerry::lock
