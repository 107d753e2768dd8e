// Requests on their way out of a link: numbered, noted in the replay log, and handed to the fabric;
// or queued, where nobody waits for them yet and their server has no connection
// (docs/design/0018-lazy-opening.md).
//
// A queued request is numbered and put into the replay log as if it had been sent and its
// connection lost: the next opening sends it. So one visit serves all that has come together. A
// free slot is taken at once. Otherwise a thread that waits for a queued request, or might make
// others wait, asks for its link. The helper asks for those that are left.
//
// From wait_sendable to send the mutex is not given up: the request being built and the room
// reserved in the replay log belong to the caller.
#pragma once

#include "origin/context.hpp"
#include "origin/link/link.hpp"
#include "origin/link/slots.hpp"
#include "session/backlog.hpp"

namespace skerry::origin {

class Sender : Part {
 public:
  using Part::Part;

  // Where the payload lies until the request is acknowledged, should it have to be sent again.
  enum class Payload : uint8_t {
    copied,      // send copies it into the replay log
    packed,      // it lies at the front of the room that was just reserved there
    referenced,  // in the caller's buffer, which waits for the acknowledgement
  };
  struct Message {
    fabric::Bytes payload{};
    Payload where = Payload::copied;
    uint64_t credit_bytes = 0;  // of the session's credits
    bool more = false;          // another follows at once: the fabric may hold it back
    bool awaits_reply = false;  // it is answered, and not only acknowledged
  };
  enum class Room : uint8_t {
    connected,  // the link must be open
    or_queue,   // nobody waits for it: it may as well be queued, where its link has no connection
  };

  // The request being built, its header filled in for this target.
  wire::Request& begin(wire::Kind kind, const Target& target, Link& link);
  // Returns with the link open (or the queue taking it), credits for one more request and the
  // fabric taking messages; the mutex was held at that moment and still is. Sends the link's batch
  // first.
  Status wait_sendable(Lock& lock, Link& link, uint64_t copied_bytes, Room room = Room::connected);
  // Encodes the request and sends or queues it; takes its number, and notes it in the replay log.
  // False: it would block; nothing was sent.
  bool send(Link& link, const Message& message, uint64_t* number);
  session::ReplayLog& log_of(Link& link) {
    if (!link.log) link.log = std::make_unique<session::ReplayLog>();
    return *link.log;
  }

  // ---- the queue -------------------------------------------------------------------------------
  bool may_queue(const Link& link, uint64_t copied_bytes) const;
  // Opens what need not wait: there is a slot, or the queue grows long and this link has more than
  // its share of it.
  void push(Link& link);
  void push_oldest();
  // Sends what is queued on a connection that takes it, in order. False: it took not all;
  // on_writable or the opening's end goes on.
  bool send_queued(Link& link);
  // A queued request went out.
  void note_sent(Link& link, uint64_t number);
  // Before waiting for a request of this link: it is sent now, if it was queued.
  Status wait_connected(Lock& lock, Link& link);
  // Takes a completion slot; false in *taken: the mutex was given up to wait for one, so that
  // whatever the caller knew of its link may have changed.
  Status take_slot(Lock& lock, Slots::Wait wait, uint32_t* index, bool* taken);

 private:
  // A caller that sends nevertheless has made sure that the link is ready.
  bool queues_now(const Link& link) const;
  static uint64_t results_received(const Link& link);
  std::byte* reserve(Link& link, const Message& message);

  wire::Request request_;  // the one being built
};

}  // namespace skerry::origin
