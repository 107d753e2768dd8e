// What an origin sends again after a break. The replay log: every request of a session that may
// have to be sent again. Nobody has said yet that it was applied, or its reply is not here. The
// replay cursor: how far sending again has come. Pure.
//
// The log is bounded by the session's credits; memory grows with what is really outstanding,
// shrinks again after a burst, and goes with trim().
//
// Bytes lie in one ring: of each request its payload (unless it is referenced: the caller's buffer
// stays valid until then) and behind it its encoded header. Numbers are consecutive, so a request
// is found by its number. When nothing is outstanding the ring starts at its front again: a program
// that fences often keeps using the same few cache lines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/pure/assert.hpp"

namespace skerry::session {

class ReplayLog {
 public:
  struct Request {
    uint64_t number = 0;
    std::span<const std::byte> header;
    std::span<const std::byte> payload;
  };

  // Room for one more request: `bytes` in a row, valid until commit, the next reserve or trim.
  std::byte* reserve(uint64_t bytes);
  // The room's front now holds payload_bytes of payload and then header_bytes of header: they are
  // request `number`, which follows the last one. `reference` not null: the payload is left there,
  // where the caller has it, and the room holds the header alone.
  void commit(uint64_t number, uint64_t payload_bytes, uint32_t header_bytes, bool awaits_reply,
              const std::byte* reference = nullptr) {
    SKERRY_ASSERT(count_ == 0 || number == first_number_ + count_,
                  "requests are logged in the order of their numbers");
    if (count_ == 0) first_number_ = number;
    if (count_ == entries_.size()) grow_entries();
    ++count_;
    Entry& entry = at(number);
    entry = {reference, payload_bytes, reserved_at_, header_bytes, awaits_reply};
    tail_ = entry.end();
  }
  // Everything up to `applied` is remote done: forgotten, but for requests whose reply is not here,
  // and what lies behind them in the ring.
  void acknowledge(uint64_t applied) {
    if (applied > applied_) applied_ = applied;
    release();
  }
  // The reply to request `number` is here, or nobody waits for it any more.
  void answered(uint64_t number) {
    if (number < first_number_ || number - first_number_ >= count_) return;
    at(number).awaits_reply = false;
    if (number == first_number_) release();
  }

  bool empty() const { return count_ == 0; }
  uint64_t first_number() const { return first_number_; }  // of what is kept, if anything is
  uint64_t last_number() const { return first_number_ + count_ - 1; }
  // Is request `number` (kept) to be sent again? Not if it is applied and nobody waits for a reply.
  bool is_wanted(uint64_t number) const { return number > applied_ || at(number).awaits_reply; }
  bool awaits_reply(uint64_t number) const { return at(number).awaits_reply; }
  Request request(uint64_t number) const {
    const Entry& e = at(number);
    const std::byte* payload = e.reference != nullptr ? e.reference : ring_.get() + e.at;
    const std::byte* header = ring_.get() + e.at + (e.reference != nullptr ? 0 : e.payload_bytes);
    return {number, {header, e.header_bytes}, {payload, e.payload_bytes}};
  }
  // Gives memory back if nothing is kept. Its owner calls it when the session has been idle. A ring
  // that a burst made large gives it back by itself when it has drained `drains_before_shrinking`
  // times without a quarter of it being used.
  void trim();
  static constexpr uint64_t small_bytes = 64 * 1024;  // not worth shrinking
  static constexpr uint32_t drains_before_shrinking = 32;
  uint64_t memory_bytes() const { return capacity_ + entries_.capacity() * sizeof(Entry); }

 private:
  struct Entry {
    const std::byte* reference;  // null: the payload lies in the ring
    uint64_t payload_bytes;
    uint64_t at;  // in the ring
    uint32_t header_bytes;
    bool awaits_reply;
    uint64_t end() const { return at + (reference != nullptr ? 0 : payload_bytes) + header_bytes; }
  };

  Entry& at(uint64_t number) { return entries_[number & (entries_.size() - 1)]; }
  const Entry& at(uint64_t number) const { return entries_[number & (entries_.size() - 1)]; }
  void release() {
    while (count_ > 0 && first_number_ <= applied_ && !at(first_number_).awaits_reply) {
      ++first_number_;
      --count_;
    }
    if (count_ > 0) {
      head_ = at(first_number_).at;
      return;
    }
    if (capacity_ > small_bytes && tail_ > 0) note_drained();
    head_ = tail_ = 0;
    wrapped_ = false;
  }
  void note_drained();
  void grow_entries();
  void grow(uint64_t bytes);

  std::unique_ptr<std::byte[]> ring_;
  uint64_t capacity_ = 0;
  uint64_t head_ = 0;  // start of the oldest kept request; equal to tail_ only when empty
  uint64_t tail_ = 0;  // where the next one may begin
  uint64_t reserved_at_ = 0;
  uint64_t busiest_bytes_ = 0;  // most of the ring that was used between two drains, lately
  uint32_t drains_ = 0;         // counted for that
  bool wrapped_ = false;        // the tail went round since the last drain
  uint64_t applied_ = 0;
  uint64_t first_number_ = 1;
  uint64_t count_ = 0;
  std::vector<Entry> entries_;  // a ring indexed by number; its size is 0 or a power of two
};

// Where a session is in sending again what a broken connection may have lost. The driver sends what
// the cursor points to and tells it; when the fabric is full it stops, and goes on later.
//
//   start() -> requests: those of the replay log, oldest first
//           -> parked:   requests that wait for something else than the network, in slots (locks)
//           -> idle
//
// A break while it runs stops it; the next connection starts it again from the front.
//
// After a break, requests go in portions: the next one once the log's oldest request has left the
// last one behind. A break halves a portion under way, each that gets through doubles it. Else a
// network that breaks often enough lets nothing through: all that is outstanding, at once, needs so
// many messages that the next break comes before the first answer.
class ReplayCursor {
 public:
  enum class Phase : uint8_t { idle, requests, parked };
  // What has to be sent again.
  enum class Scope : uint8_t {
    all,     // a connection broke
    queued,  // nothing was lost: requests from `from` on were never sent
  };

  // oldest: the first request that the log keeps; it tells whether the last portion got through.
  void start(uint64_t from, Scope scope, uint64_t oldest = 0) {
    SKERRY_ASSERT(from > 0, "requests are numbered from 1");
    if (scope == Scope::all && portion_end_ > 0 && any_passed_) {
      if (oldest > std::min(portion_end_, number_ - 1)) grow();
      else if (portion_ > 1) portion_ /= 2;
    }
    phase_ = Phase::requests;
    scope_ = scope;
    number_ = from;
    slot_ = 0;
    portion_end_ = 0;
  }
  // The connection ended in order, which says nothing of the network: the portion stays as it is.
  void forget_portion() { portion_end_ = 0; }
  void stop() { phase_ = Phase::idle; }
  bool running() const { return phase_ != Phase::idle; }

  // The next request of the log to look at; 0: it is through. `log` null: nothing is kept.
  uint64_t next(const ReplayLog* log) {
    SKERRY_INVARIANT(running(), "nothing is looked at unless something is to be sent again");
    if (phase_ != Phase::requests || log == nullptr || log->empty()) return 0;
    // What was acknowledged meanwhile is not kept any more.
    number_ = std::max(number_, log->first_number());
    if (scope_ == Scope::all && log->first_number() > portion_end_) {
      if (portion_end_ > 0) grow();
      portion_end_ = log->first_number() + portion_ - 1;
      any_passed_ = false;
    }
    return is_left(log) && !is_portion_sent() ? number_ : 0;
  }
  // `joined`: the answer may wait for the next request's, so that a portion does not end here.
  void passed(uint64_t number, bool joined = false) {
    SKERRY_ASSERT(phase_ == Phase::requests && number == number_, "one after the other");
    if (joined && number == portion_end_) ++portion_end_;
    any_passed_ = true;
    ++number_;
  }
  // next() has nothing, and will have more when answers have come.
  bool waits_for_answers(const ReplayLog* log) const {
    return phase_ == Phase::requests && is_left(log) && is_portion_sent();
  }
  // The log is through. The next slot to look at, of `slots`; equal to `slots`: all are through.
  uint32_t next_slot(uint32_t slots) {
    if (phase_ == Phase::requests) {
      phase_ = Phase::parked;
      slot_ = scope_ == Scope::all ? 0 : slots;
    }
    return slot_;
  }
  void passed_slot() {
    SKERRY_ASSERT(phase_ == Phase::parked, "slots come after the log");
    ++slot_;
  }

 private:
  static constexpr uint32_t first_portion = 64;
  static constexpr uint32_t largest_portion = 8192;  // more than a session has outstanding
  void grow() { portion_ = std::min(2 * portion_, largest_portion); }
  bool is_left(const ReplayLog* log) const {
    return log != nullptr && !log->empty() && number_ <= log->last_number();
  }
  bool is_portion_sent() const { return scope_ == Scope::all && number_ > portion_end_; }

  uint64_t number_ = 0;               // requests: the next one to look at
  uint64_t portion_end_ = 0;          // the last request of this portion; 0: none has begun
  uint32_t portion_ = first_portion;  // requests
  uint32_t slot_ = 0;                 // parked: the next one to look at
  bool any_passed_ = false;           // of this portion
  Phase phase_ = Phase::idle;
  Scope scope_ = Scope::all;
};

}  // namespace skerry::session
