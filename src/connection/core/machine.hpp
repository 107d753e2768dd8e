// The life of one connection as seen by its origin: a pure state machine. The driver feeds it
// events and performs its actions.
//
//         want            connected        evict / please_close          drained
//   idle --------> opening ----------> open ---------------------> draining ------> closing
//    ^                |                 |                             |                |
//    |                | closed          | closed                      | closed         | closed,
//    |                |                 |                             |                | bye_answer
//    +----------------+-----------------+-----------------------------+----------------+
//
// One that drains and is wanted again is open again: it has not said bye.
//
// The origin alone closes; a server only asks for it (please_close). So bye and bye never cross,
// and a request that crosses a please_close is simply applied. (A server short of slots may drop an
// idle connection without asking. That is a break like any other: what crossed it is sent again.)
// A driver that wants a connection that is closing asks again when it is idle, because opening
// takes a slot under the cap, and the driver gives the slots. Each branch that handles crossing
// events says "crossing". Events are of the present connection: the driver knows what comes late by
// its endpoint.
#pragma once

#include <cstdint>

namespace skerry::connection {

enum class State : uint8_t { idle, opening, open, draining, closing };

enum class Event : uint8_t {
  want,          // a request is to be sent
  connected,     // the fabric connected us and the server proved its identity
  evict,         // we want to close it (cap, end of the job)
  please_close,  // the server asks us to
  drained,       // nothing is unacknowledged, unsent or waiting
  bye_answer,    // the server has our bye and agrees on the last number
  closed,        // the endpoint is gone, planned or not
};

enum class Action : uint8_t {
  none,
  connect,
  send_queued,  // requests that waited may go
  send_bye,
  close_endpoint,  // release the endpoint
  broken,  // an open connection was lost with requests unacknowledged: want it again and resume
};

class Machine {
 public:
  State state() const { return state_; }
  // Requests may be handed to the endpoint now. While draining they still may: the origin has not
  // said bye.
  bool sendable() const { return state_ == State::open || state_ == State::draining; }

  // `unacknowledged`: is anything outstanding? A connection that is to go drains first then: its
  // driver sends what is queued, and reports `drained` when all is acknowledged.
  Action on(Event event, bool unacknowledged);

 private:
  State state_ = State::idle;
};

// What is outstanding on one connection, and what follows from it: may the connection go, what does
// its loss lose, may requests go along with the hello. The driver counts, this decides.
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
