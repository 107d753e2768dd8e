// The requests of one session as their origin keeps them: numbers, replay log, what waits for a
// connection, how far sending again has come, and which were refused. Pure; its parts agree on the
// newest request.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "core/pure/status.hpp"
#include "session/backlog.hpp"
#include "session/replay_log.hpp"
#include "session/session.hpp"
#include "wire/message.hpp"

namespace skerry::session {

class Requests {
 public:
  Requests(uint32_t incarnation, uint32_t index)
      : session_(incarnation, Credits{}), backlog(index) {}

  const OriginSession& session() const { return session_; }
  uint64_t issued() const { return session_.issued(); }
  uint64_t applied() const { return session_.applied(); }
  const ReplayLog* log() const { return log_.get(); }  // null: nothing is outstanding
  bool is_logged() const { return log_ && !log_->empty(); }
  // Results that the server need not keep any more. None from a request on whose answer is missing:
  // after a break the server tells first what it refused, and only then answers earlier requests
  // again.
  uint64_t results_received() const {
    const uint64_t received = session_.results_received();
    return is_logged() ? std::min(received, log_->first_number() - 1) : received;
  }

  // ---- issuing ---------------------------------------------------------------------------------
  // Room in the log for one more request: see ReplayLog::reserve.
  std::byte* reserve(uint64_t bytes) {
    if (!log_) log_ = std::make_unique<ReplayLog>();
    return log_->reserve(bytes);
  }
  // What was put there is the next request. Returns its number.
  uint64_t commit(uint64_t credit_bytes, uint64_t payload_bytes, uint32_t header_bytes,
                  bool awaits_reply, const std::byte* reference) {
    const uint64_t number = session_.issue(credit_bytes);
    log_->commit(number, payload_bytes, header_bytes, awaits_reply, reference);
    return number;
  }
  // Fences wait for this one.
  void note_fenced(uint64_t number) { fenced_ = number; }
  uint64_t fenced() const { return fenced_; }  // the newest such; 0: none
  void check() const {
    SKERRY_INVARIANT(backlog.issued == issued() && log_->last_number() == issued(),
                     "session, backlog and replay log know the same newest request");
  }

  // ---- what the server says --------------------------------------------------------------------
  // Everything up to `applied` is remote done. *news: some of it was not known. Errors: internal.
  Status acknowledge(uint64_t applied_now, bool* news) {
    const uint64_t before = applied();
    SKERRY_TRY(session_.acknowledge(applied_now));
    *news = applied() != before;
    if (*news && log_) log_->acknowledge(applied_now);
    return {};
  }
  Status resume(uint64_t applied_now, bool refusals_follow = false) {
    return session_.resume(applied_now, refusals_follow);
  }
  void answered(uint64_t number) {
    if (log_) log_->answered(number);
  }
  void result_received(uint64_t number) { session_.result_received(number); }
  // All refusals that a break hid were told.
  void refusals_told() { session_.refusal_told(); }
  // It refused a one-way request. It tells so again after a break: false if we have heard of it.
  bool refused(uint64_t number) {
    result_received(number);
    return number > std::exchange(failure_number_, std::max(number, failure_number_));
  }
  // The first refusal that no fence or wait has reported yet.
  void note_failure(Status why) { failure_.also(std::move(why)); }
  bool has_failure() const { return !failure_.ok(); }
  Status take_failure() { return std::exchange(failure_, Status()); }

  // Implicit by-reference puts are done when this is acknowledged; 0: there are none.
  uint64_t implicit_number() const { return implicit_number_; }
  void set_implicit_number(uint64_t number) { implicit_number_ = number; }

  // The oldest request that waits for its acknowledgement or its answer, in words. Empty: none.
  std::string oldest() const {
    wire::Request request;
    const bool known = log_ && !log_->empty() &&
                       wire::decode(log_->request(log_->first_number()).header, &request).ok();
    return known ? to_string(request.header) : std::string();
  }

  // ---- memory ----------------------------------------------------------------------------------
  void drop() { log_.reset(); }  // nothing is sent again
  void release() {
    if (log_ && log_->empty()) log_.reset();
  }
  void trim() {
    if (log_ && log_->empty()) log_->trim();
  }
  uint64_t memory_bytes() const { return log_ ? sizeof *log_ + log_->memory_bytes() : 0; }

 private:
  OriginSession session_;
  std::unique_ptr<ReplayLog> log_;
  uint64_t fenced_ = 0;
  uint64_t failure_number_ = 0;  // newest request of whose refusal we heard
  uint64_t implicit_number_ = 0;
  Status failure_;

 public:
  Backlog::Part backlog;  // which went out, and which wait for a connection
  ReplayCursor replay;    // running: what was lost goes again before anything new
};

}  // namespace skerry::session
