// Transfers cut into requests: puts, accumulates, gets, fetching updates; and requests of one word:
// read-modify-writes, locks, unlocks. Which way a transfer goes (batch, messages, the fabric's own)
// is decided in Engine::issue.
#pragma once

#include "origin/link/operations.hpp"
#include "origin/send/sender.hpp"

namespace skerry::origin {

class Transfers {
 public:
  Transfers(EngineContext& context, Progress& progress, Operations& operations, Slots& slots,
            Links& links, Batches& batches, Sender& sender)
      : context_(context),
        progress_(progress),
        operations_(operations),
        slots_(slots),
        links_(links),
        batches_(batches),
        sender_(sender) {}

  // A put or accumulate as messages, sent or queued when this returns. `op`: done when those that
  // are referenced are acknowledged; null: the implicit set's, or none is referenced.
  Status send(Lock& lock, Link& link, const Access& access, Op* op);
  // A get, or a fetching update: an accumulate whose every message is answered.
  Status request(Lock& lock, Link& link, const Access& access, Op* op);
  // The server keeps old elements until we have confirmed them, with our next request. So only
  // so many bytes are on their way: that much it may have to keep for an origin that has gone
  // quiet.
  static constexpr uint64_t most_fetching_bytes = 128 * 1024;
  // Hands the handle out, or waits, as the mode says. The operation's record is given back if it is
  // over.
  Status finish(Lock& lock, Op* op, Mode mode, uint64_t bytes, Handle* handle);

  struct Word {
    Target target;
    wire::Kind kind = wire::Kind::read_modify_write;  // or lock, lock_note, key
    uint8_t type = 0;
    uint64_t offset = 0;
    wire::Operands operands{};
    uint64_t* result = nullptr;      // null: not wanted
    const Access* access = nullptr;  // with a guard, to be applied under a lock; null: none
    std::byte* into = nullptr;       // the answer's data goes here ...
    uint64_t bytes = 0;              // ... and has this many
  };
  // Blocks until it is answered: a read-modify-write, a lock, or an access under a lock. `work`:
  // what a thread that waits for a lock does meanwhile.
  Status ask(Lock& lock, Link& link, const Word& word, const WaitingWork& work);
  // The same for an access with a guard. Errors: contended (nothing was done).
  Status ask_guarded(Lock& lock, Link& link, const Access& access);
  // The fabric's key to a slice. Blocks until it is answered. `most_bytes`: a longer slice that has
  // no key yet is not given one; 0: each is.
  Status ask_key(Lock& lock, Link& link, const Target& target, uint64_t most_bytes,
                 wire::Key* key);
  // Sent when this returns; not answered.
  Status unlock(Lock& lock, Link& link, const Target& target, uint64_t index, uint64_t holder);

 private:
  class Stream;
  Status send_part(Lock& lock, Stream& stream);
  Status request_part(Lock& lock, Stream& stream);
  Status wait_updatable(Lock& lock, Link& link, const Stream& stream, bool* waited);
  // The part's payload. A part that is packed lies in the replay log's room afterwards.
  void take_payload(Stream& stream, Sender::Message* message);
  // A slot, armed for a request of `kind` that is being built. Null: the mutex was given up to wait
  // for one, look at the link again.
  Status arm(Lock& lock, Link& link, wire::Kind kind, const Target& target, Op* op,
             Slots::Wait wait, wire::Request** request, uint32_t* index);
  // Of the request armed in this slot its number; 0: the mutex was given up, begin again.
  uint64_t send_armed(Link& link, const Sender::Message& message, uint32_t index);
  Status ask_once(Lock& lock, Link& link, const Word& word, Op* op, uint32_t* index, bool* asked);
  Status wait_granted(Lock& lock, Op* op, uint32_t index, const memory::LockName& name,
                      const WaitingWork& work);
  // A link with something unacknowledged cannot make way for another, and without a helper a wait
  // takes the acknowledgements first.
  bool may_be_quiet() const {
    return context_.config.quiet && context_.has_helper() && !links_.queues();
  }
  bool only_this_matters(const Link& link) const;

  EngineContext& context_;
  Progress& progress_;
  Operations& operations_;
  Slots& slots_;
  Links& links_;
  Batches& batches_;
  Sender& sender_;
};

}  // namespace skerry::origin
