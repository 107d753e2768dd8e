// The asymmetric lock: one queue of the requesters of the lock's node, who use the processor alone,
// and one of all others, who use the network alone; Peterson's algorithm between the fronts of the
// two (ALock: Baran, Nelson-Slivon, Tseng, Palmieri, SPAA 2024, arXiv 2404.17980, algorithms 1 to
// 4). For the domain `nic`, without a manager and without migration. A queue hands over inside at
// most Config::hand_overs times; then its front steps back behind the other queue, so neither
// starves.
//
//   word          label    value
//   local tail    cpu      0 nobody; otherwise the last in line, its number + 1
//   remote tail   network  the same
//   victim        both     which queue goes second if both want the lock: 0 the local, 1 the remote
//
// A tail that is not 0 says that its queue wants the lock: it is Peterson's flag. The order of
// a requester's own actions matters: its tail, then the victim, then the other tail. Drivers
// perform an action completely before the next one (no store may still be under way).
//
// What is passed inside a queue: how many hand-overs it may still do; 0: step back first.
#pragma once

#include "lock/machine.hpp"
#include "locks/queue.hpp"

namespace skerry::lock::machine {

class AsymmetricClient {
 public:
  explicit AsymmetricClient(const Self& self) : place_(self.me), local_(self.local) {}
  Action step(const Event& event, const Config& config);
  bool in_line() const { return place_.joined(); }

 private:
  enum class State : uint8_t {
    idle,
    joining,
    stepping_back,    // writes the victim
    looking_at_tail,  // the other queue's
    looking_at_victim,
    pausing,
    held,
    leaving,
  };
  QueuePlace::Where where(const Config& config) const;
  Action on_front(const Config& config);
  Action look();
  Action try_later(const Config& config);

  QueuePlace place_;
  uint32_t left_ = 0;  // hand-overs that the queue may still do
  State state_ = State::idle;
  bool local_;
  uint8_t attempt_ = 0;
  uint8_t unused_ = 0;
};

}  // namespace skerry::lock::machine
