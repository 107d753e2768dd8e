// A lock protocol for tests: its manager grants one requester after the other.
#pragma once

#include "lock/machine.hpp"

namespace skerry::server::test {

class TurnsManager {
 public:
  lock::machine::Action step(const lock::machine::Event& event, const lock::machine::Config&,
                             lock::machine::Links links) {
    using lock::machine::Note;
    if (event.note == Note::request) queue_.push(event.from, event.mode, event.local, links);
    if (event.note == Note::release) queue_.pop(links);
    // Event::result: a grant went out.
    const bool is_new = event.note == Note::request ? queue_.size() == 1
                                                    : event.note == Note::release;
    if (!is_new || queue_.empty()) return lock::machine::wait();
    return lock::machine::tell(queue_.front(), Note::granted);
  }

 private:
  lock::machine::RequesterQueue queue_;  // its front holds the lock
};

class NoClient {
 public:
  explicit NoClient(const lock::machine::Self&) {}
  lock::machine::Action step(const lock::machine::Event&, const lock::machine::Config&) {
    return lock::machine::refused();
  }
};

inline const lock::machine::Machines& turns() {
  static constexpr lock::machine::Machines
      machines = lock::machine::machines_of<NoClient, TurnsManager>(
          {.id = lock::machine::most_protocols - 1});
  lock::machine::make_known(machines);
  return machines;
}

}  // namespace skerry::server::test
