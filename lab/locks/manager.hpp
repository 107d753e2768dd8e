// A manager of any protocol, as lock::machine::Client is a client. The product keeps the bytes in
// shared memory instead (lock/home.hpp).
#pragma once

#include "lock/machines.hpp"

namespace skerry::lock::machine {

class Manager {
 public:
  explicit Manager(const Machines& machines) : machines_(&machines) {
    machines.make_manager(&memory_);
  }
  Action step(const Event& event, const Config& config, Links links) {
    return machines_->step_manager(&memory_, event, config, links);
  }
  std::span<const std::byte> bytes() const {
    return std::span(memory_.bytes).first(machines_->manager_bytes);
  }

 private:
  const Machines* machines_;
  MachineBytes memory_;
};

}  // namespace skerry::lock::machine
