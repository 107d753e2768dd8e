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
// and a request that crosses a please_close is simply applied. A server short of slots may drop an
// idle connection without asking. That is a break like any other: what crossed it is sent again.
//
// A driver that wants a connection that is closing asks again when it is idle: opening takes a slot
// under the cap, and the driver gives the slots. Each branch that handles crossing events says
// "crossing". Events are of the present connection: the driver knows what comes late by its
// endpoint.
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

}  // namespace skerry::connection
