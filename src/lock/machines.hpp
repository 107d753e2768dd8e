// The machines of one protocol behind a table, for drivers that learn at run time which it is. The
// product has one protocol with machines, `migrating`. A shared library may bring others: it has a
// function `skerry_lock_machines(name)`, and SKERRY_LOCK=LIBRARY.so:NAME asks it (choice.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <type_traits>

#include "lock/machine.hpp"

namespace skerry::lock::machine {

// A client or manager of any protocol. Without pointers: a manager may lie in shared memory.
struct MachineBytes {
  alignas(8) std::array<std::byte, 40> bytes = {};
};

struct Machines {
  const char* name = "";
  // What a lock's record in memory says (home.hpp): 0 `migrating`; below `most_protocols`.
  uint8_t id = 0;
  bool has_readers = false;     // shared requests are granted together; otherwise one by one
  bool has_manager = false;     // otherwise asking it is a mistake
  bool manager_pauses = false;  // those that wait let it go on
  bool tells_directly = false;  // to give the lock back may be a message to its next holder
  // In the order of Action::word; those of each place are counted together.
  std::span<const Word> words = {};
  uint64_t (*initial_value)(uint8_t word, const Config& config) = nullptr;
  uint8_t client_bytes = 0, manager_bytes = 0;  // that are used of MachineBytes
  void (*make_client)(MachineBytes* client, const Self& self) = nullptr;
  Action (*step_client)(MachineBytes* client, const Event& event, const Config& config) = nullptr;
  bool (*in_line)(const MachineBytes& client) = nullptr;
  void (*make_manager)(MachineBytes* manager) = nullptr;
  Action (*step_manager)(MachineBytes* manager, const Event& event, const Config& config,
                         Links links) = nullptr;
};
constexpr uint8_t most_protocols = 16;

// Is there a word on each node (Place::node), beside those at the lock's home?
bool has_node_word(const Machines& machines);

class NoManager;  // of a protocol whose clients ask nobody

// Fills in the functions of a table.
template <class Client, class Manager>
constexpr Machines machines_of(Machines table) {
  static_assert(sizeof(Client) <= sizeof(MachineBytes) && sizeof(Manager) <= sizeof(MachineBytes));
  static_assert(alignof(Client) <= 8 && alignof(Manager) <= 8);
  static_assert(std::is_trivially_copyable_v<Client> && std::is_trivially_copyable_v<Manager>);
  table.has_manager = !std::is_same_v<Manager, NoManager>;
  table.client_bytes = sizeof(Client);
  table.manager_bytes = sizeof(Manager);
  table.make_client = [](MachineBytes* client, const Self& self) {
    new (client->bytes.data()) Client(self);
  };
  table.step_client = [](MachineBytes* client, const Event& event, const Config& config) {
    return std::launder(reinterpret_cast<Client*>(client->bytes.data()))->step(event, config);
  };
  table.in_line = [](const MachineBytes& client) {
    return std::launder(reinterpret_cast<const Client*>(client.bytes.data()))->in_line();
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

class Client {
 public:
  Client(const Machines& machines, const Self& self) : machines_(&machines) {
    machines.make_client(&memory_, self);
  }
  Action step(const Event& event, const Config& config) {
    return machines_->step_client(&memory_, event, config);
  }
  // Does it stand in a line that bounds how many requesters overtake it?
  bool in_line() const { return machines_->in_line(memory_); }
  // All of its state: two equal machines do the same.
  std::span<const std::byte> bytes() const {
    return std::span(memory_.bytes).first(machines_->client_bytes);
  }

 private:
  const Machines* machines_;
  MachineBytes memory_;
};

}  // namespace skerry::lock::machine
