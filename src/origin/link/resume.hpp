// How a broken connection is resumed. The server says in its answer to the next opening how far it
// had come; then, oldest first and before anything new:
//
//   - requests that it has not applied are sent again from the replay log,
//   - requests that it has applied but whose answer is not here are asked for again,
//   - transfers of the fabric's own are issued again, between the messages where they belong,
//   - mutexes that are waited for are asked for again.
//
// It stops where the fabric is full, and goes on when it is writable; and where a portion ends,
// until its answers have come (session::ReplayCursor).
#pragma once

#include "origin/link/links.hpp"
#include "origin/link/rma_log.hpp"
#include "origin/link/slots.hpp"

namespace skerry::origin {

class Resume {
 public:
  Resume(EngineContext& context, Links& links, Slots& slots, RmaLog& rma)
      : context_(context), links_(links), slots_(slots), rma_(rma) {}

  // Everything that a break may have lost.
  void all(Link& link);
  // Nothing was lost: what was queued, or already sent along with the hello, continues.
  void queued(Link& link);
  // The fabric takes messages again. The caller looks afterwards whether the link is drained.
  void go_on(Link& link);
  // Sends what is queued right behind the hello, in order. Where the fabric is full, on_writable or
  // the opening's end goes on.
  void send_early(Link& link);

 private:
  // False: the fabric is full.
  bool requests(Link& link);
  bool locks(Link& link);
  bool send(Link& link, fabric::Bytes header, fabric::Bytes payload, uint64_t number);

  EngineContext& context_;
  Links& links_;
  Slots& slots_;
  RmaLog& rma_;
};

}  // namespace skerry::origin
