// A client or manager of any protocol, with its memory. The product's driver keeps the bytes itself
// (window/machine_locks.hpp, lock/home.hpp).
#pragma once

#include "lock/machine.hpp"

namespace skerry::lock::machine {

class Client {
 public:
  Client(const Machines& machines, const Self& self) : machines_(&machines) {
    machines.make_client(&memory_, self);
  }
  Action step(const Event& event, const Config& config) {
    return machines_->step_client(&memory_, event, config);
  }
  // All of its state: two equal machines do the same.
  const MachineBytes& memory() const { return memory_; }

 private:
  const Machines* machines_;
  MachineBytes memory_;
};

class Manager {
 public:
  explicit Manager(const Machines& machines) : machines_(&machines) {
    machines.make_manager(&memory_);
  }
  Action step(const Event& event, const Config& config, Links links) {
    return machines_->step_manager(&memory_, event, config, links);
  }
  const MachineBytes& memory() const { return memory_; }

 private:
  const Machines* machines_;
  MachineBytes memory_;
};

}  // namespace skerry::lock::machine
