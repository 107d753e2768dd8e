// Puts, gets and atomics of the fabric's own (docs/design/0003-rma-order.md), and the keys they
// need. They have no numbers of their own: one takes its turn in the session by waiting for the
// messages before it and by making those after it wait.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/futex.hpp"
#include "origin/link/rma_log.hpp"
#include "origin/send/sender.hpp"
#include "origin/send/ways.hpp"

namespace skerry::origin {

class Rma {
 public:
  Rma(EngineContext& context, Progress& progress, Links& links, RmaLog& log, Sender& sender)
      : context_(context), progress_(progress), links_(links), log_(log), sender_(sender) {}

  // Is this transfer better as the fabric's own?
  bool takes(const Access& access) const;
  // Of those: is it done without any more calls of ours? An adapter has it as a whole.
  bool goes_by_itself(const Access& access) const {
    return context_.can().rma_of_adapter && access.local.bytes < context_.can().rma_from_bytes;
  }
  // The way and the time of an access that may go by messages or by the adapter (Ways). Does
  // nothing for others, and where no adapter performs RMA.
  class Timed {
   public:
    Timed(Rma& rma, const Link& link, const Access& access);
    bool is_by_adapter() const { return way_ == Ways::Way::adapter; }
    // It is to go as a message in any case.
    void as_message() { way_ = Ways::Way::message; }
    void begin() {
      if (ways_ != nullptr) begin_ns_ = monotonic_ns();
    }
    void end(const Status& status);

   private:
    Ways* ways_ = nullptr;  // null: not timed
    Ways::Way way_ = Ways::Way::message;
    bool is_put_ = false;
    uint64_t bytes_ = 0;
    int64_t begin_ns_ = 0;
  };
  // Null: nothing was timed there.
  Ways* known_ways(const Link& link) {
    return link.index() < ways_.size() ? ways_[link.index()].get() : nullptr;
  }
  uint64_t memory_bytes() const;
  struct Key {  // to a target's slice
    fabric::RemoteKey key;
    uint64_t offset = 0;
  };
  // A server makes all pages of a slice that it registers, and the system keeps them. For short
  // accesses it registers none that is longer, unless it has done so for long ones.
  static constexpr uint64_t longest_for_short_bytes = 4 << 20;
  // False: its server must be asked, and the answer learnt.
  bool knows(const Target& target, Key* key) const;
  void learn(const Target& target, const wire::Key& answer, Key* key);
  // Its server gave no key for short accesses: they go as messages until a long one learns one.
  void refused(const Target& target);
  // Issues it, in parts. Waits for messages before it and room; not for its end.
  Status issue(Lock& lock, Link& link, const Access& access, const Key& key, Op* op);
  // An atomic on the word at `offset`. Not ordered with anything else that is under way.
  Status issue(Lock& lock, Link& link, const Key& key, uint64_t offset, RmaLog::Atomic* atomic,
               Op* op);

 private:
  static constexpr size_t max_keys = 1024;
  using Slice = std::pair<uint64_t, Rank>;  // by packed segment id and rank

  static Slice slice_of(const Target& target) { return {target.segment.packed(), target.rank}; }
  bool can_take(const Access& access) const;
  bool is_refused(const Target& target) const;
  bool may_choose(const Link& link, const Access& access) const;
  void note(const Target& target, const std::optional<Key>& key);
  Ways& ways(const Link& link);  // stays where it is
  Status wait_turn(Lock& lock, Link& link, const Target& target, const RmaLog::Running& all,
                   const Extent& writes);
  Status start(Lock& lock, Link& link, RmaLog::Running* rma);

  EngineContext& context_;
  Progress& progress_;
  Links& links_;
  RmaLog& log_;
  Sender& sender_;
  std::map<Slice, std::optional<Key>> keys_;  // none: refused. Emptied when it has max_keys
  std::vector<std::unique_ptr<Ways>> ways_;  // by link
};

}  // namespace skerry::origin
