// Tickets for readers and writers: Lamport's bakery by fetch-and-add, as in DSLR (Yoon, Chowdhury,
// Mozafari, SIGMOD 2018, section 4). First come, first served; readers that stand next to each
// other hold together. No process of the lock's node takes part.
//
// DSLR keeps four counters of 16 bits in one word. Here they are two words of two counters of 32
// bits: enough for any number of ranks, and no counter runs over within 2^32 acquisitions of its
// kind under way. The price is a second atomic for a free lock: a load, which a driver may send
// together with the first.
//
//   word      label    value
//   tickets   network  writers << 32 + readers that ever asked
//   served    network  writers << 32 + readers that ever gave it back
//
// A requester adds itself to `tickets`; what it read there is its ticket. A writer may enter when
// `served` is its ticket: all before it are gone. A reader may enter when all writers before it are
// gone. The sums are of 64 bits: a carry of the readers' half into the writers' is the same in both
// words, and both are only compared by their difference.
//
// A waiter looks again after a pause as long as the line before it (DSLR, section 4.3).
#pragma once

#include "lock/machine.hpp"

namespace skerry::lock::machine {

class ReaderWriterClient {
 public:
  explicit ReaderWriterClient(const Self& self) : me_(self.me), local_(self.local) {}
  Action step(const Event& event, const Config& config);
  bool in_line() const { return state_ != State::idle && state_ != State::taking_ticket; }

 private:
  enum class State : uint8_t { idle, taking_ticket, looking, pausing, held, leaving };
  Action look(const Config& config);
  Action on_served(uint64_t served, const Config& config);

  uint64_t ticket_ = 0;  // what was in `tickets` before this request
  Requester me_;
  State state_ = State::idle;
  bool local_;
  Mode mode_ = Mode::exclusive;
  uint8_t unused_ = 0;
};

}  // namespace skerry::lock::machine
