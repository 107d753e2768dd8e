// What is outstanding on one connection, and what follows from it: may the connection go, what does
// its loss lose, may requests go along with the hello. Pure: the driver counts, this decides.
#pragma once

#include <cstdint>

namespace skerry::connection {

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

}  // namespace skerry::connection
