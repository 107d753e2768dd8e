// What a lower layer asks of those above it. The parts of an engine are layers:
//
//   Slots, Operations   answers that are waited for, and what waits for them
//   Progress            the thread that sends and receives
//   Links               connections to data servers
//   Sender              requests on their way out
//   Batches             puts held back to be sent together
//   Transfers           accesses, cut into requests
//   Rma                 the fabric's own puts and gets
//   Resume              after a break
//
// Each calls those before it directly, and those behind it through this alone; Layers passes on.
// Everything with the mutex held.
#pragma once

#include <cstdint>

#include "core/pure/status.hpp"
#include "operation/link.hpp"

namespace skerry::operation {

class Upward {
 public:
  // ---- what a thread that makes progress has to move ----
  virtual bool is_held_back() const = 0;    // something, to be sent together
  virtual void flush() = 0;                 // it goes out, as far as that goes at once
  virtual bool anyone_waits() const = 0;    // links want a connection
  virtual void advance() = 0;               // gives them slots, as far as there are any
  virtual int64_t patience_ns() const = 0;  // how long to sleep at most
  virtual bool any_unacknowledged() = 0;
  virtual void open_queued() = 0;
  virtual bool queues() const = 0;    // as Links says
  virtual void release_unused() = 0;  // all has been quiet

  // ---- what a connection's life means for its requests ----
  virtual bool send_batch(Link& link) = 0;     // as Batches::send
  virtual bool send_queued(Link& link) = 0;    // as Sender::send_queued
  virtual void resume_all(Link& link) = 0;     // it opened again: a break may have lost all
  virtual void resume_queued(Link& link) = 0;  // it opened: nothing was lost
  virtual void go_on(Link& link) = 0;          // it takes messages again
  virtual void abandon(Link& link, const Status& why) = 0;  // its server is lost

  // ---- requests on their way out ----
  virtual void cork(Link& link) = 0;  // as Batches::cork

 protected:
  ~Upward() = default;
};

}  // namespace skerry::operation
