// Sessions: what both ends remember so that a request is applied exactly once however often the connection under it is replaced.
// Pure: no threads, clocks or sockets. An OriginSession belongs to one origin process and one data server; its twin is the TargetSession.
//
// Numbers. Requests of a session are 1, 2, 3, ... in issue order. The server applies them in that order and tells `applied`, the
// highest number such that it and all before it are remote done: one cumulative acknowledgement that every fence waits for.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/pure/assert.hpp"
#include "core/pure/status.hpp"

namespace skerry::session {

// Credits of one link: what an origin may have unacknowledged at a server. Each one reserves room for its answer there, too.
struct Credits {
  uint32_t requests = 4096;
  uint64_t bytes = 4u << 20;  // small payloads that the server may have to keep while it parks the session
};

class OriginSession {
 public:
  OriginSession(uint32_t incarnation, Credits credits) : credits_(credits), incarnation_(incarnation) {}

  // May one more request with `bytes` of copied payload be issued now? A request larger than all credits is allowed when alone.
  bool may_issue(uint64_t bytes) const {
    return issued_ == applied_ || (issued_ - applied_ < credits_.requests && issued_bytes_ - applied_bytes_ + bytes <= credits_.bytes);
  }
  // Less than half of the credits are in use: the server may take its time to acknowledge. Beyond that it must not, or an origin out of
  // credits would wait for an acknowledgement that waits for its next request.
  bool at_ease() const { return issued_ - applied_ < credits_.requests / 2 && issued_bytes_ - applied_bytes_ < credits_.bytes / 2; }
  // Takes the next number. The caller checked may_issue.
  uint64_t issue(uint64_t bytes) {
    issued_bytes_ += bytes;
    return ++issued_;
  }
  // The server says everything up to `applied` is remote done. Late and duplicate acknowledgements (smaller numbers) are ignored: they come
  // after a reconnect, or when a reply and an acknowledgement overtake each other in two servers. Errors: internal, if never issued.
  Status acknowledge(uint64_t applied) {
    if (applied > issued_) return error(Code::internal, "server acknowledged request ", applied, ", but only ", issued_, " were issued");
    if (applied > applied_) {
      applied_ = applied;
      // Bytes are returned in bulk: exact once nothing is outstanding, conservative (late) in between.
      if (applied_ == issued_) applied_bytes_ = issued_bytes_;
      else if (applied_ >= mark_number_) {
        applied_bytes_ = mark_bytes_;
        mark_number_ = issued_;
        mark_bytes_ = issued_bytes_;
      }
    }
    return {};
  }
  // The result of request `number` arrived. Results are confirmed cumulatively only when all earlier requests are acknowledged, too.
  void result_received(uint64_t number) {
    if (number > results_received_) results_received_ = number;
  }

  uint32_t incarnation() const { return incarnation_; }
  uint64_t issued() const { return issued_; }
  uint64_t applied() const { return applied_; }
  uint64_t results_received() const { return results_received_ < applied_ ? results_received_ : applied_; }
  bool drained() const { return issued_ == applied_; }

 private:
  Credits credits_;
  uint32_t incarnation_;
  uint64_t issued_ = 0;             // number of the newest request
  uint64_t applied_ = 0;            // highest acknowledged number; <= issued_
  uint64_t results_received_ = 0;   // highest request whose result is here
  uint64_t issued_bytes_ = 0;       // copied payload bytes of requests 1..issued_
  uint64_t applied_bytes_ = 0;      // lower bound of those of 1..applied_
  uint64_t mark_number_ = 0;        // when applied_ passes it, mark_bytes_ are known to be applied
  uint64_t mark_bytes_ = 0;
};

// What the server does with a request of a session.
enum class Order {
  apply,      // the next one
  duplicate,  // applied before (a replay): answer again, do not execute
  gap,        // requests are missing before it: the connection is broken or the peer is
};
std::string_view to_string(Order order);

// The server's memory of one origin process: 32 bytes while no result waits for its confirmation.
class TargetSession {
 public:
  explicit TargetSession(uint32_t incarnation) : incarnation_(incarnation) {}

  Order classify(uint64_t number) const {
    if (number == applied_ + 1) return Order::apply;
    return number <= applied_ ? Order::duplicate : Order::gap;
  }
  void applied_next() { ++applied_; }

  // Results of read-modify-writes are kept until the origin confirms them, so that a replay is answered and not executed twice. At most
  // as many as the link has credits; usually one.
  void keep_result(uint64_t number, uint64_t result) {
    if (!kept_) kept_ = std::make_unique<std::vector<Kept>>();
    kept_->push_back({number, result});
  }
  bool kept(uint64_t number, uint64_t* result) const {
    if (!kept_) return false;
    for (const Kept& k : *kept_)
      if (k.number == number) {
        *result = k.result;
        return true;
      }
    return false;
  }
  // The origin has all results up to `results_received`.
  void confirm(uint64_t results_received) {
    if (!kept_ || kept_->empty() || kept_->front().number > results_received) return;
    std::erase_if(*kept_, [=](const Kept& k) { return k.number <= results_received; });
  }

  uint32_t incarnation() const { return incarnation_; }
  uint64_t applied() const { return applied_; }

 private:
  struct Kept {
    uint64_t number;
    uint64_t result;
  };
  uint64_t applied_ = 0;
  std::unique_ptr<std::vector<Kept>> kept_;  // ascending numbers; null: none was ever kept
  uint32_t incarnation_;
};
static_assert(sizeof(TargetSession) <= 32, "the server keeps this for every origin it ever served");

}  // namespace skerry::session
