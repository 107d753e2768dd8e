// A member's slice of a lock's memory, for tests.
#pragma once

#include <vector>

#include "lock/home.hpp"

namespace skerry::lock::machine {

class Slice {
 public:
  Slice(const Machines& machines, uint32_t requesters, Domain domain = Domain::server)
      : bytes_(Home::bytes(machines, requesters)), memory_(bytes_ / 64 + 1) {
    Config config;
    config.requesters = requesters;
    config.domain = domain;
    home().make(machines, config);
  }
  Home home() { return Home(base()); }
  std::byte* base() { return memory_.front().bytes; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  uint64_t bytes_;
  std::vector<Line> memory_;
};

inline Event said(Note note, Requester from, Mode mode = Mode::exclusive, uint64_t value = 0) {
  Event event;
  event.kind = Event::Kind::told;
  event.note = note;
  event.from = from;
  event.mode = mode;
  event.value = value;
  return event;
}

}  // namespace skerry::lock::machine
