// Puts, gets and atomics of the fabric's own (docs/design/0003-rma-order.md), and the keys they
// need. They have no numbers of their own: one takes its turn in the session by waiting for the
// messages before it and by making those after it wait.
#pragma once

#include <map>
#include <utility>

#include "origin/link/rma_log.hpp"
#include "origin/send/sender.hpp"

namespace skerry::origin {

class Rma {
 public:
  Rma(EngineContext& context, Progress& progress, Links& links, RmaLog& log, Sender& sender)
      : context_(context), progress_(progress), links_(links), log_(log), sender_(sender) {}

  // Is this transfer better as the fabric's own?
  bool takes(const Access& access) const;
  struct Key {  // to a target's slice
    fabric::RemoteKey key;
    uint64_t offset = 0;
  };
  // False: its server must be asked, and the answer learnt.
  bool knows(const Target& target, Key* key) const;
  void learn(const Target& target, const wire::Key& answer, Key* key);
  // Issues it, in parts. Waits for messages before it and room; not for its end.
  Status issue(Lock& lock, Link& link, const Access& access, const Key& key, Op* op);
  // An atomic on the word at `offset`. Not ordered with anything else that is under way.
  Status issue(Lock& lock, Link& link, const Key& key, uint64_t offset, RmaLog::Atomic* atomic,
               Op* op);

 private:
  static constexpr size_t max_keys = 1024;
  using Slice = std::pair<uint64_t, Rank>;  // by packed segment id and rank

  static Slice slice_of(const Target& target) { return {target.segment.packed(), target.rank}; }
  Status wait_turn(Lock& lock, Link& link, const Target& target, const RmaLog::Running& all,
                   const Extent& writes);
  Status start(Lock& lock, Link& link, RmaLog::Running* rma);

  EngineContext& context_;
  Progress& progress_;
  Links& links_;
  RmaLog& log_;
  Sender& sender_;
  std::map<Slice, Key> keys_;  // emptied when it has max_keys
};

}  // namespace skerry::origin
