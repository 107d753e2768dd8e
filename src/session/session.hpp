// Sessions: what both ends remember so that a request is applied exactly once however often the
// connection under it is replaced. Pure: no threads, clocks or sockets. An OriginSession belongs to
// one origin process and one data server; its twin is the TargetSession.
//
// Numbers. Requests of a session are 1, 2, 3, ... in issue order. The server applies them in that
// order and tells `applied`, the highest number such that it and all before it are remote done.
// Every fence waits for this one cumulative acknowledgement.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/pure/assert.hpp"
#include "core/pure/rule.hpp"
#include "core/pure/status.hpp"

namespace skerry::session {

// Credits of one link: what an origin may have unacknowledged at a server. Each one reserves room
// for its answer there, too.
struct Credits {
  uint32_t requests = 4096;
  uint64_t bytes = 4u << 20;  // small payloads that the server may have to keep while it parks the
                              // session
};

// What an origin waits for on one connection, and what follows from it: may the connection go, what
// does its loss lose, may requests go along with the hello. The driver counts, this decides.
struct Outstanding {
  uint64_t unapplied = 0;       // requests that went out and are not acknowledged
  uint64_t queued = 0;          // requests that wait for the next connection
  uint32_t answers = 0;         // of all requests: answers to come, those of locks included
  uint32_t queued_answers = 0;  // of these, to requests that are queued
  uint32_t parked_locks = 0;  // of these, to locks whose request the server has acknowledged: they
                              // wait for another's unlock, not for the network
  uint32_t locks = 0;         // of these, to locks, parked or not
  uint32_t rma = 0;           // puts and gets of the fabric's own that are not done
  bool refusals = false;      // of requests that a break hid: which ones were refused is told next
  bool batch = false;         // small puts are collected and not sent
  bool batch_queues = false;  // such a batch could be queued for the next connection

  // Anything that must be done before the connection may go. What is queued waits for the next one.
  // A parked lock keeps no connection: the server finds another way to tell of its grant.
  bool keeps_connection() const {
    return unapplied > 0 || answers - queued_answers > parked_locks || rma > 0 || refusals ||
           (batch && !batch_queues);
  }
  // Anything that is not done, be it queued: a fence waits for it.
  bool keeps_fence() const {
    return unapplied > 0 || queued > 0 || answers > parked_locks || rma > 0 || refusals || batch;
  }
  // Something is to be sent again on the next connection if this one is lost. A break loses the
  // grants of parked locks as well. A server that said farewell loses none: it remembers them. A
  // farewell does not count if such a lock was asked for again, after a break, and the question
  // crossed it.
  bool is_lost_with_it(bool farewell) const {
    return keeps_connection() || (locks > 0 && !farewell);
  }
  // The next connection must learn how far the server has come, and go on from there.
  bool must_resume() const {
    return unapplied > 0 || answers > queued_answers || rma > 0 || refusals;
  }
  // Queued requests may go right behind the hello: the server need not say first how far it has
  // come.
  bool may_go_early() const { return queued > 0 && !keeps_connection() && locks == 0; }
};

class OriginSession {
 public:
  OriginSession(uint32_t incarnation, Credits credits)
      : credits_(credits), incarnation_(incarnation) {}

  // May one more request with `bytes` of copied payload be issued now? A request larger than all
  // credits is allowed when alone.
  bool may_issue(uint64_t bytes) const {
    return issued_ == applied_ || (issued_ - applied_ < credits_.requests &&
                                   issued_bytes_ - applied_bytes_ + bytes <= credits_.bytes);
  }
  // Less than half of the credits are in use: the server may take its time to acknowledge. Beyond
  // that it must not, or an origin out of credits would wait for an acknowledgement that waits for
  // its next request.
  bool at_ease() const {
    return issued_ - applied_ < credits_.requests / 2 &&
           issued_bytes_ - applied_bytes_ < credits_.bytes / 2;
  }
  // Takes the next number. The caller checked may_issue.
  uint64_t issue(uint64_t bytes) {
    issued_bytes_ += bytes;
    return ++issued_;
  }
  // The server says everything up to `applied` is remote done. Late and duplicate acknowledgements
  // (smaller numbers) are ignored: they come after a reconnect, or when a reply and an
  // acknowledgement overtake each other in two servers. Errors: internal, if never issued.
  Status acknowledge(uint64_t applied) {
    if (applied > issued_)
      return error(Code::internal, "server acknowledged request ", applied, ", but only ", issued_,
                   " were issued");
    if (applied > applied_) {
      applied_ = applied;
      // Bytes are returned in bulk: exact once nothing is outstanding, conservative (late) in
      // between. The mark moves with both, or what was returned would be taken back.
      if (applied_ >= mark_number_) {
        applied_bytes_ = applied_ == issued_ ? issued_bytes_ : mark_bytes_;
        mark_number_ = issued_;
        mark_bytes_ = issued_bytes_;
      }
    }
    return {};
  }
  // A connection was replaced: the server says how far it had come. What lies beyond is to be sent
  // again. Errors: internal, if it knows less than it acknowledged before (it lost the session:
  // never "start from here") or more than was issued.
  // `refusals_follow`: it refused some of these, and says which before anything else that it sends
  // on this connection. Until then nobody may take the number for good news (refusal_due).
  Status resume(uint64_t applied, bool refusals_follow = false) {
    if (applied < applied_)
      return error(Code::internal, "the server has lost the session: it acknowledged request ",
                   applied_, " before and now knows ", applied);
    refusal_due_ = refusals_follow;
    return acknowledge(applied);
  }
  // A one-way request was refused, and which one is not here yet: a fence that looked at applied()
  // alone would report success. The first message that is no refusal ends it.
  bool refusal_due() const { return refusal_due_; }
  void refusal_told() { refusal_due_ = false; }
  // The result of request `number` arrived. Results are confirmed cumulatively only when all
  // earlier requests are acknowledged, too.
  void result_received(uint64_t number) {
    if (number > results_received_) results_received_ = number;
  }

  uint32_t incarnation() const { return incarnation_; }
  uint64_t issued() const { return issued_; }
  uint64_t applied() const { return applied_; }
  uint64_t results_received() const {
    return results_received_ < applied_ ? results_received_ : applied_;
  }
  bool drained() const { return issued_ == applied_ && !refusal_due_; }

 private:
  Credits credits_;
  uint32_t incarnation_;
  bool refusal_due_ = false;
  uint64_t issued_ = 0;            // number of the newest request
  uint64_t applied_ = 0;           // highest acknowledged number; <= issued_
  uint64_t results_received_ = 0;  // highest request whose result is here
  uint64_t issued_bytes_ = 0;      // copied payload bytes of requests 1..issued_
  uint64_t applied_bytes_ = 0;     // lower bound of those of 1..applied_
  uint64_t mark_number_ = 0;       // when applied_ passes it, mark_bytes_ are known to be applied
  uint64_t mark_bytes_ = 0;
};

// What the server does with a request of a session.
enum class Order {
  apply,      // the next one
  duplicate,  // applied before (a replay): answer again, do not execute
  gap,        // requests are missing before it: the connection is broken or the peer is
};

// What was answered to a request and may have to be answered again.
struct Kept {
  uint64_t number;
  uint64_t result;  // of a read-modify-write
  int32_t code;     // 0, or why the request failed
  bool one_way;     // the request has no reply slot: its origin does not ask again, it must be told
                    // again
  std::string payload;  // why it failed, in words; or the old elements of a fetching update
};

// The server's memory of one origin process: 32 bytes while no result waits for its confirmation.
class TargetSession {
 public:
  explicit TargetSession(uint32_t incarnation, uint64_t applied = 0)
      : applied_(applied), incarnation_(incarnation) {}

  Order classify(uint64_t number) const {
    if (number == applied_ + 1) return Order::apply;
    return number <= applied_ ? Order::duplicate : Order::gap;
  }
  void applied_next() {
    ++applied_;
    progress_ = 0;
  }

  // A request may be applied in steps, with its connection lost in between: the next one goes on
  // where the last one stopped. Of request applied() + 1: bytes of its payload that are applied,
  // and whether all of them are and only its notification is missing.
  uint32_t progress_bytes() const { return progress_ & (lock_taken_bit - 1); }
  bool notify_pending() const { return (progress_ & notify_pending_bit) != 0; }
  void add_progress(uint64_t bytes) {
    SKERRY_ASSERT(bytes < lock_taken_bit - progress_bytes(), "a message is not that long");
    progress_ += static_cast<uint32_t>(bytes);
  }
  void set_notify_pending() { progress_ |= notify_pending_bit; }
  // Its lock was taken for it, and it waits for something else.
  bool lock_taken() const { return (progress_ & lock_taken_bit) != 0; }
  void set_lock_taken() { progress_ |= lock_taken_bit; }

  // Results of read-modify-writes and fetching updates are kept until the origin confirms them, so
  // that a replay is answered and not executed twice; failures, so that no break swallows one. At
  // most as many as the link has credits; usually one.
  void keep_result(uint64_t number, uint64_t result) { keep({number, result, 0, false, {}}); }
  void keep_answer(uint64_t number, std::string payload) {
    keep({number, 0, 0, false, std::move(payload)});
  }
  void keep_failure(uint64_t number, int32_t code, bool one_way, std::string text) {
    keep({number, 0, code, one_way, std::move(text)});
  }
  // Where the old elements of request applied() + 1 go, a fetching update of `bytes`: kept from its
  // first step on, as its progress is. Valid until something else is kept or forgotten.
  std::byte* fetched(uint64_t bytes) {
    Kept* room = find(applied_ + 1);
    if (room == nullptr) {
      keep_now({applied_ + 1, 0, 0, false, std::string(bytes, 0)});
      room = &kept_->back();
    }
    SKERRY_ASSERT(room->payload.size() == bytes, "a request that comes again is the same");
    return reinterpret_cast<std::byte*>(room->payload.data());
  }
  void forget(uint64_t number) {
    if (kept_) std::erase_if(*kept_, [=](const Kept& k) { return k.number == number; });
  }
  // Null: none is kept for this request, which was applied.
  const Kept* kept(uint64_t number) const { return find(number); }
  // All that are kept, oldest first.
  std::span<const Kept> kept() const { return kept_ ? *kept_ : std::span<const Kept>(); }
  // The origin has all results up to `results_received`.
  void confirm(uint64_t results_received) {
    if (!kept_ || kept_->empty() || kept_->front().number > results_received) return;
    std::erase_if(*kept_, [=](const Kept& k) { return k.number <= results_received; });
  }
  // The origin said bye: it has the answers to all it waits for, and was told of every one-way
  // request that was refused. Kept are refused requests with an answer only: a mutex that is waited
  // for does not keep its connection, so its refusal may have been lost.
  void confirm_bye() {
    if (!kept_) return;
    std::erase_if(*kept_, [](const Kept& k) { return k.code == 0 || k.one_way; });
    tidy();
  }
  // While there is no connection: what was kept once takes no memory for ever.
  void tidy() {
    if (kept_ && kept_->empty()) kept_.reset();
  }
  // The origin must be told once more that one-way requests were refused.
  bool owes_refusals() const {
    return kept_ &&
           std::any_of(kept_->begin(), kept_->end(), [](const Kept& k) { return k.one_way; });
  }

  uint32_t incarnation() const { return incarnation_; }
  uint64_t applied() const { return applied_; }
  // Its two numbers say all of it: nothing is kept, and no request is applied in part.
  bool is_plain() const { return progress_ == 0 && (!kept_ || kept_->empty()); }
  // Of what is kept beside this object.
  uint64_t memory_bytes() const {
    if (!kept_) return 0;
    uint64_t bytes = sizeof *kept_ + kept_->capacity() * sizeof(Kept);
    for (const Kept& k : *kept_) bytes += k.payload.capacity();
    return bytes;
  }

 private:
  static constexpr uint32_t notify_pending_bit = uint32_t{1} << 31;
  static constexpr uint32_t lock_taken_bit = uint32_t{1} << 30;

  Kept* find(uint64_t number) const {
    if (kept_)
      for (Kept& k : *kept_)
        if (k.number == number) return &k;
    return nullptr;
  }
  void keep(Kept kept) {
    if (SKERRY_RULE(keep_results)) keep_now(std::move(kept));
  }
  void keep_now(Kept kept) {
    if (!kept_) kept_ = std::make_unique<std::vector<Kept>>();
    kept_->push_back(std::move(kept));
  }

  uint64_t applied_;
  std::unique_ptr<std::vector<Kept>> kept_;  // ascending numbers; null: none is kept
  uint32_t incarnation_;
  uint32_t progress_ = 0;  // bytes, notify_pending_bit, lock_taken_bit
};
static_assert(sizeof(TargetSession) <= 32, "the server keeps this for every origin it ever served");

}  // namespace skerry::session
