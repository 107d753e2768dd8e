// How a requester gives one message to its lock's manager. Pure: the driver sends, waits and
// performs. The manager may first want something of the sender that has nothing to do with its
// message: go on, or perform an atomic of the network. A message counts only if the run that it
// came with took it; otherwise it is sent again.
//
//   driver: sends `message`, gets a Rest -> heard
//           performed what `heard` named -> performed, or could not -> not_performed; then it sends
#pragma once

#include "lock/home.hpp"

namespace skerry::lock::machine {

class Asking {
 public:
  enum class Next : uint8_t {
    send,     // `message`
    pause,    // then send
    perform,  // Rest::action, by the network
    done,     // the manager has it
    failed,   // the manager is of no more use: Rest::State::failed
  };

  explicit Asking(const Event& asked) : asked_(asked), message_(asked) {}

  const Event& message() const { return message_; }
  Next heard(const Rest& rest);
  void performed(uint64_t before);
  void not_performed() { message_.note = Note::not_performed; }

 private:
  const Event asked_;
  Event message_;
  bool is_heard_ = false;  // the manager took `asked_`
};

}  // namespace skerry::lock::machine
