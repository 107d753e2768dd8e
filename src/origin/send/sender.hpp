// Requests on their way out of a link. A request is numbered, noted in the replay log, and handed
// to the fabric. It is queued where nobody waits for it yet and its server has no connection
// (docs/design/0018-lazy-opening.md). Small ones are held back to go together (batches.hpp).
//
// A queued request is numbered and put into the replay log as if it had been sent and its
// connection lost: the next opening sends it. So one visit serves all that has come together. A
// free slot is taken at once. Otherwise a thread that waits for a queued request, or might make
// others wait, asks for its link. The helper asks for those that are left.
//
// From wait_sendable to send the mutex is not given up: the request being built and the room
// reserved in the replay log belong to the caller.
#pragma once

#include <source_location>

#include "origin/context.hpp"
#include "origin/description.hpp"
#include "origin/link/links.hpp"
#include "origin/link/slots.hpp"
#include "origin/progress/progress.hpp"
#include "origin/send/batches.hpp"

namespace skerry::origin {

class Sender {
 public:
  Sender(EngineContext& context, Progress& progress, Slots& slots, Links& links, Batches& batches)
      : context_(context), progress_(progress), slots_(slots), links_(links), batches_(batches) {}

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
    bool is_fenced = true;      // fences wait for it
  };
  enum class Room : uint8_t {
    connected,  // the link must be open
    or_queue,   // nobody waits for it: it may as well be queued, where its link has no connection
  };

  // The request being built, its header filled in for this target.
  wire::Request& begin(wire::Kind kind, const Target& target, const Link& link);
  // Returns with the link open (or the queue taking it), credits for one more request and the
  // fabric taking messages; the mutex was held at that moment and still is. Sends the link's batch
  // first.
  Status wait_sendable(Lock& lock, Link& link, uint64_t copied_bytes, Room room = Room::connected);
  // Encodes the request and sends or queues it; takes its number, and notes it in the replay log.
  // False: it would block; nothing was sent.
  bool send(Link& link, const Message& message, uint64_t* number);
  // Asks for a link that need not wait: there is a slot, or the queue grows long and this link has
  // more than its share of it.
  void push(Link& link);
  // Requests so far, queued ones included.
  uint64_t issued() const { return issued_; }

  // ---- held back -------------------------------------------------------------------------------
  // Adds a short contiguous put or accumulate to the link's batch; sends the one before if this
  // does not fit it.
  Status hold(Lock& lock, Link& link, const Access& access);
  // Sends what is held back. Never waits: a batch for which there is no credit now stays.
  void flush() {
    context_.assert_held();
    if (batches_.any_corked()) flush_corked();
  }
  // What is held back for this link goes now if it can, and memory for it that it does not need.
  void drain(Link& link);

  // ---- waiting ---------------------------------------------------------------------------------
  // Before waiting for a request of this link: it is sent now, if it was queued.
  Status wait_connected(Lock& lock, Link& link);
  // Waits for done(), which what is queued on the link may bring. *waited: the mutex was given up.
  template <class Done>
  Status wait_for(Lock& lock, Link& link, Done&& done, bool* waited,
                  std::source_location where = std::source_location::current()) {
    *waited = !done();
    if (!*waited) [[likely]]
      return {};
    if (link.has_queued()) links_.open(link);
    return progress_.wait_until(lock, done, {}, where);
  }
  // Waits until no earlier get, whose answer is not here, reads what is written now.
  Status wait_unread(Lock& lock, Link& link, const Extent& extent, bool* waited) {
    return wait_for(lock, link, [&] { return !slots_.is_being_read(link, extent); }, waited);
  }
  // Takes a completion slot; false in *taken: the mutex was given up to wait for one, so that
  // whatever the caller knew of its link may have changed.
  Status take_slot(Lock& lock, Slots::Wait wait, uint32_t* index, bool* taken);

 private:
  void push_oldest();
  bool may_queue(const Link& link, uint64_t copied_bytes) const;
  // A caller that sends nevertheless has made sure that the link is ready.
  bool queues_now(const Link& link) const {
    return link.has_queued() || (links_.queues() && !link.is_ready());
  }
  bool may_send_batch(const Link& link) const {
    return link.may_send() && link.requests.session().may_issue(batches_.bytes_of(link)) &&
           link.direct.outstanding() == 0;
  }
  // Sends the batch as one vector put or accumulate. The link was found sendable, or its requests
  // queue, and the mutex was held since. False: it would block.
  bool send_batch(Link& link);
  void cork(Link& link) {
    if (batches_.cork(link)) progress_.call_helper(false);
  }
  void flush_corked();

  EngineContext& context_;
  Progress& progress_;
  Slots& slots_;
  Links& links_;
  Batches& batches_;
  wire::Request request_;  // the one being built
  uint64_t issued_ = 0;
};

}  // namespace skerry::origin
