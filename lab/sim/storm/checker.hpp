// What must hold, checked while a storm runs. The checker knows what the programs asked for and
// believes no message.
//
// Every thread has an area of its own in every rank's memory: what it put there is known exactly at
// any time, and so is what its gets must return. Numbers that several threads change are checked by
// what the operations returned, and by their sums.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/pure/element.hpp"
#include "core/pure/ids.hpp"
#include "core/pure/shape.hpp"
#include "core/pure/status.hpp"
#include "lock/mutex.hpp"
#include "sim/storm/config.hpp"

namespace skerry::sim {

// Where everything lies in a rank's slice. `thread`: of the job, 0..all_threads()-1.
struct Layout {
  explicit Layout(const StormConfig& config);
  uint64_t area(uint32_t thread) const { return thread * area_bytes; }
  uint64_t sum(uint32_t thread, uint32_t index) const {
    return sums_at + (uint64_t{thread} * sums + index) * 8;
  }
  uint64_t mailbox(uint32_t thread) const { return mailboxes_at + thread * 8; }
  uint64_t counter(uint32_t thread) const { return counters_at + thread * 8; }
  uint64_t guarded(uint32_t mutex) const { return guarded_at + mutex * 8; }
  // Two words each, equal whenever nobody has the lock for itself.
  uint64_t counted(uint32_t mutex) const { return counted_at + mutex * 16; }
  uint64_t stamped(uint32_t mutex) const { return stamped_at + mutex * 16; }
  uint64_t registers(uint32_t thread) const {
    return registers_at + uint64_t{thread} * register_words * 8;
  }

  static constexpr uint32_t mutexes = 2;  // of each rank
  uint64_t area_bytes, sums;
  uint64_t sums_at, mailboxes_at, counters_at, guarded_at;
  uint64_t shared_sum, tickets, swapped, compared;
  uint64_t counted_at, stamped_at;
  uint64_t registers_at, register_words;
  uint64_t total_bytes;
};

// Two words that only exclusive holders of a lock change.
using Pair = std::array<uint64_t, 2>;

class Checker {
 public:
  explicit Checker(const StormConfig& config);
  const Layout& layout() const { return layout_; }

  // The first broken rule; empty: none.
  const std::string& failure() const { return failure_; }
  bool failed() const { return !failure_.empty(); }
  template <class... Parts>
  void fail(const Parts&... parts) {
    if (!failure_.empty()) return;
    failure_ = concat(parts...);
    Scheduler::current().stop();
  }
  // Where a rank's memory is, for looking at it.
  void attach(Rank rank, const std::byte* memory) { memory_[static_cast<size_t>(rank)] = memory; }
  void attach_locks(Rank rank, const lock::Mutex* locks, lock::WaiterPool pool) {
    locks_.insert_or_assign(rank, HostedLocks{locks, pool});
  }

  // --- areas and sums of one thread ---
  void put(uint32_t thread, Rank target, std::span<const Piece> pieces,
           const std::vector<std::byte>& stream);
  std::vector<std::byte> expected(uint32_t thread, Rank target,
                                  std::span<const Piece> pieces) const;
  void add(uint32_t thread, Rank target, uint32_t index, int64_t value);
  // Of one sum; answers what it was.
  int64_t update(uint32_t thread, Rank target, uint32_t index, Operation operation, int64_t value);
  // All that the thread issued to this rank has been applied: it is there.
  void applied(uint32_t thread, Rank target);

  // --- shared words ---
  void add_shared(Rank target, int64_t value) { shared_[static_cast<size_t>(target)] += value; }
  void ticket(Rank target, uint64_t old, uint64_t increment);
  void swapped(Rank target, uint64_t old, uint64_t value);
  // A compare-and-swap that returned `old`: it took effect if that is what it expected.
  void compared(Rank target, uint64_t old, uint64_t expected, uint64_t value) {
    if (old == expected) compares_[static_cast<size_t>(target)].emplace(old, value);
  }

  // --- notifications ---
  uint64_t notify(uint32_t thread, Rank target) { return ++notified_[key(thread, target)]; }
  // The call returned: from now on others may wait for it.
  void notify_issued(uint32_t thread, Rank target) { ++waitable_[key(thread, target)]; }
  uint64_t waitable(uint32_t thread, Rank target) const {
    const auto found = waitable_.find(key(thread, target));
    return found == waitable_.end() ? 0 : found->second;
  }
  uint64_t notified(uint32_t thread, Rank target) const {
    const auto found = notified_.find(key(thread, target));
    return found == notified_.end() ? 0 : found->second;
  }

  // --- locks: one holder, or several sharers; waiters are overtaken a bounded number of times ---
  struct Asked {
    Rank target = no_rank;
    uint32_t mutex = 0;
    uint32_t thread = 0;
    lock::Holder holder = 0;  // without how it asks
    bool shares = false;
    bool joins = false;  // holds others already, and may join present sharers
    // Who waited in the queue when it was asked for, and how often each had been granted it before.
    std::vector<std::pair<lock::Holder, uint64_t>> before;
    uint64_t at = 0;
    uint64_t counted = 0;  // all that had been counted under it by then
  };
  // A call that asks for it begins.
  Asked asks(Rank target, uint32_t mutex, uint32_t thread, lock::Holder holder, bool shares);
  void granted(const Asked& asked);
  void released(const Asked& asked);
  // It was taken and released in between.
  void had(const Asked& asked);
  uint64_t guarded(Rank target, uint32_t mutex) { return guarded_[lock_key(target, mutex)]; }
  void count_guarded(Rank target, uint32_t mutex) { ++guarded_[lock_key(target, mutex)]; }

  // --- pairs ---
  // Counts: only grow, by the holder that has the lock for itself. Begins: before the lock is asked
  // for.
  void count_begins(const Asked& asked, uint64_t more);
  // `old`: what it was before, if that is known.
  void count_ended(const Asked& asked, uint64_t more, const std::optional<Pair>& old);
  void count_read(const Asked& asked, const Pair& found);
  // Stamps: the holder that has the lock for itself writes another.
  void stamp_begins(const Asked& asked, uint64_t stamp);
  void stamp_ended(const Asked& asked, uint64_t stamp);
  void stamp_read(const Asked& asked, const Pair& found);

  // --- registers: all words of one get the same value, which only grows ---
  // One writer each, which completes a value before it writes the next. A read that begins after
  // that, anywhere in the job, finds it or a later one: so two that store and then load do not both
  // miss, and who sees a flag sees the data. Nor does a read find what was not written yet, or go
  // back behind what its thread saw before. Each word for itself: a long one may be read half.
  uint64_t write_begins(uint32_t thread, Rank target) {
    return ++registers_[key(thread, target)].begun;
  }
  void write_ended(uint32_t thread, Rank target, uint64_t value) {
    registers_[key(thread, target)].ended = value;
  }
  // Answers the oldest value that it may find.
  uint64_t read_begins(uint32_t reader, uint32_t writer, Rank target);
  void read_ended(uint32_t reader, uint32_t writer, Rank target, uint64_t oldest,
                  std::span<const uint64_t> found);

  // --- refusals of one-way requests: told by a fence that begins after them ---
  // The call begins; answers its name for refused_sent, when it has returned. Another thread's
  // fence may tell of it in between.
  uint64_t refused_begins(Rank rank, NodeId node);
  void refused_sent(Rank rank, NodeId node, uint64_t call);
  // Answers when it began, for fence_ended.
  uint64_t fence_began(Rank rank, NodeId node);
  void fence_ended(Rank rank, NodeId node, uint64_t began, bool told);
  // It failed, as everything does when a rank has died: it says nothing of refusals.
  void fence_failed(Rank rank, NodeId node) { --refusals_[{rank, node}].fences; }

  // All programs have ended.
  void finish();
  uint64_t checks() const { return checks_; }

 private:
  static uint64_t key(uint32_t thread, Rank target) {
    return uint64_t{thread} << 32 | static_cast<uint32_t>(target);
  }
  static uint64_t lock_key(Rank target, uint32_t mutex) {
    return static_cast<uint64_t>(target) * Layout::mutexes + mutex;
  }
  uint64_t word(Rank target, uint64_t offset) const;
  void check_pair(const Asked& asked, const char* what, const Pair& found);
  void finish_pairs(Rank target, uint32_t mutex);
  void finish_shared(Rank target);
  using Chain = std::multimap<uint64_t, uint64_t>;  // old -> new
  void finish_chain(Rank target, const char* what, Chain& chain, uint64_t last);

  struct Refusals {
    std::vector<uint64_t> calls;  // under way; those not told of
    std::vector<uint64_t> sent;   // when; those not told of
    uint64_t all = 0, told = 0;
    uint32_t fences = 0;  // under way
  };

  // Of one lock.
  struct Hold {
    uint32_t thread = 0;
    bool shares = false;
    uint64_t since = 0;
  };
  struct Stamp {
    uint64_t value = 0;
    uint64_t began = 0, ended = 0;  // 0: not yet
  };
  struct Pairs {
    uint64_t begun = 0, ended = 0;  // counted
    std::set<uint64_t> olds;        // what exclusive holders found
    std::vector<Stamp> stamps;
  };
  struct Register {
    uint64_t begun = 0, ended = 0;      // values
    std::map<uint32_t, uint64_t> seen;  // by each reader: no word was older
  };
  // Of one waiter's present wait.
  struct Wait {
    uint64_t grants = 0;  // of this lock to it before
    uint64_t passed = 0;  // by how many that asked after it
    uint64_t most = 0;    // how many may
  };
  struct HostedLocks {
    const lock::Mutex* locks;
    lock::WaiterPool pool;
  };
  std::vector<lock::Waiter> waiting(Rank target, uint32_t mutex);
  void check_turn(const Asked& asked);

  const StormConfig& config_;
  const Layout layout_;
  std::string failure_;
  std::vector<const std::byte*> memory_;
  std::vector<std::vector<std::byte>> areas_;  // of each target, the reference's
  std::vector<std::vector<int64_t>> sums_;
  std::vector<int64_t> shared_;
  std::vector<std::map<uint64_t, uint64_t>> tickets_;  // old -> increment
  std::vector<Chain> swaps_, compares_;
  std::map<uint64_t, uint64_t> notified_, waitable_;
  std::map<Rank, HostedLocks> locks_;
  std::map<uint64_t, std::vector<Hold>> holders_;
  std::map<std::pair<uint64_t, lock::Holder>, uint64_t> grants_;  // lock, requester
  std::map<std::pair<uint64_t, lock::Holder>, Wait> waits_;
  std::map<uint64_t, Pairs> pairs_;
  std::map<uint64_t, uint64_t> guarded_;
  std::map<uint64_t, Register> registers_;
  std::map<std::pair<Rank, NodeId>, Refusals> refusals_;
  uint64_t clock_ = 0;
  uint64_t checks_ = 0;
};

}  // namespace skerry::sim
