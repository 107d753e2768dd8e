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

#include "origin/context.hpp"
#include "origin/link/link.hpp"

namespace skerry::origin {

class Resume : Part {
 public:
  using Part::Part;

  // Everything that a break may have lost.
  void all(Link& link);
  // Nothing was lost: what was queued, or already sent along with the hello, continues.
  void queued(Link& link);
  // The fabric takes messages again. The caller looks afterwards whether the link is drained.
  void go_on(Link& link);

 private:
  // False: the fabric is full.
  bool requests(Link& link);
  // Those that were issued before request `up_to` and are not known to be done, in the old order.
  bool transfers(Link& link, uint64_t up_to);
  bool locks(Link& link);
  bool send(Link& link, fabric::Bytes header, fabric::Bytes payload, uint64_t number);
};

}  // namespace skerry::origin
