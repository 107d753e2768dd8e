// One data server that this process has talked to, in five parts. Each part has one owner, who
// alone changes it (its friend); everybody may ask. `Requests` keeps itself consistent.
//
//   requests     the session: numbers, replay log, queue, refusals    itself
//   connection   what the requests travel over                        Links
//   answers      slots that wait for this server                      Slots
//   direct       puts and gets of the fabric's own                    RmaLog
//   held         small puts that are collected for one message        Batches
#pragma once

#include <memory>
#include <unordered_map>

#include "connection/cap.hpp"
#include "connection/dialer.hpp"
#include "connection/machine.hpp"
#include "core/pure/status.hpp"
#include "fabric/fabric.hpp"
#include "placement/node_map.hpp"
#include "session/requests.hpp"

namespace skerry::origin {

using session::Requests;

class Connection {
 public:
  // How far the present connection has come. The machine knows whether it is open; this, what it is
  // worth.
  enum class Trust : uint8_t {
    plain_hello,     // it opens: the hello went alone
    early_requests,  // it opens: requests went right behind the hello
    unproven,        // open, and nothing was acknowledged on it yet
    proven,          // open, and something was
    farewell,        // the server said that it needs the slot; the end follows
  };
  // Does the fabric take messages for it? Cleared by on_writable.
  enum class Room : uint8_t {
    free,
    full,             // a message was refused
    full_before_bye,  // it was the bye: on_writable sends that
  };

  connection::State state() const { return machine_.state(); }
  bool is_sendable() const { return machine_.sendable(); }
  bool has_room() const { return room_ == Room::free; }
  bool is_early() const {  // requests may go before the server has answered
    return state() == connection::State::opening && trust_ == Trust::early_requests;
  }
  bool waits() const { return claim_.waits; }  // for a slot
  // Of the present connection; no_endpoint: there is none.
  const fabric::EndpointId& endpoint() const { return endpoint_; }
  // Not ok: the server cannot be reached any more.
  const Status& failure() const { return failure_; }
  bool has_failed() const { return !failure_.ok(); }
  // Its node died, and the job goes on. Fences say so once, if they waited for anything there.
  bool is_lost() const { return loss_ != Loss::none; }

  // ---- what others tell Links ------------------------------------------------------------------
  // The fabric refused a message: on_writable or on_closed follows.
  void note_full() { room_ = Room::full; }
  // A lock was asked for once more.
  void note_asked_again() { ++asked_again_; }
  // A thread begins to send something in parts. Links::transfer_ended follows.
  void note_transfer() { ++transfers_; }
  // The server needs the slot, and has heard of so many locks that were asked for again. The end of
  // the connection follows; what crosses it is sent again.
  void note_farewell(uint16_t asked_again) {
    trust_ = Trust::farewell;
    if (asked_again == asked_again_) asked_again_ = 0;
  }

 private:
  friend class Links;
  friend class Losses;
  explicit Connection(uint32_t index) : claim_(index) {}

  connection::Cap::Claim claim_;  // its partner: the index among all links
  connection::Dialer dialer_;     // of opening it
  connection::Machine machine_;
  Trust trust_ = Trust::plain_hello;
  Room room_ = Room::free;
  enum class Loss : uint8_t { none, to_tell, told };
  Loss loss_ = Loss::none;
  bool told_of_stop_ = false;  // the user knows that its server does not answer though it lives
  bool leaves_later_ = false;  // the server asked for the connection in the middle of a transfer
  bool is_invited_ = false;    // it opens since a connection that it shares does
  bool is_listed_ = false;     // in Links' list of those that something is outstanding on
  uint16_t asked_again_ = 0;  // lock requests sent once more on this connection, whose grants may
                              // have been lost with the one before; until the server says it knows
  fabric::EndpointId endpoint_ = fabric::no_endpoint;
  Status failure_;
  uint32_t waiters_ = 0;    // threads in wait_open
  uint32_t transfers_ = 0;  // sent in parts by threads that are at it: the server acknowledges
                            // the parts together, so none is left half sent
  friend struct Link;
};

class Answers {
 public:
  uint32_t waiting() const { return waiting_; }  // armed slots
  uint32_t locks() const { return locks_; }      // of these, requests for mutexes
  uint32_t gets() const { return gets_; }        // of these, gets: see Pending::from
  // Of fetching updates whose answers are not here: the server keeps so much for us if we send
  // nothing more.
  uint64_t fetching_bytes() const { return fetching_bytes_; }

 private:
  friend class Slots;
  uint32_t waiting_ = 0;
  uint32_t locks_ = 0;
  uint32_t gets_ = 0;
  uint64_t fetching_bytes_ = 0;
};

// On fabrics with puts and gets of their own.
class Direct {
 public:
  uint32_t outstanding() const { return outstanding_; }  // puts and gets that are not done
  // Of these the gets: whatever is sent before they are done might change what they read.
  uint32_t gets() const { return gets_; }
  // The number of the last message to this rank since the session was last drained; 0: none.
  uint64_t last_message(Rank to) const {
    if (!last_messages_) return 0;
    const auto last = last_messages_->find(to);
    return last == last_messages_->end() ? 0 : last->second;
  }

 private:
  friend class RmaLog;
  uint32_t outstanding_ = 0;
  uint32_t gets_ = 0;
  std::unique_ptr<std::unordered_map<Rank, uint64_t>> last_messages_;  // null: none
};

class Held {
 public:
  bool any() const { return any_; }  // its puts come before whatever is sent next
  bool is_corked() const { return is_corked_; }  // the fabric holds messages back until flush

 private:
  friend class Batches;
  bool any_ = false;
  bool is_corked_ = false;
};

struct Link {
  const placement::ServerRef server;
  Requests requests;
  Connection connection;
  Answers answers;
  Direct direct;
  Held held;

  Link(placement::ServerRef s, uint32_t index, uint32_t incarnation)
      : server(s), requests(incarnation, index), connection(index) {}
  uint32_t index() const { return requests.backlog.owner; }
  bool has_queued() const { return !requests.backlog.empty(); }
  // How a loss of its node is to be told: by a fence, if one would have waited.
  Connection::Loss loss_now() const {
    const bool waits = requests.applied() < requests.fenced() || direct.outstanding() > 0 ||
                       held.any();
    return waits ? Connection::Loss::to_tell : Connection::Loss::told;
  }
  bool takes_messages() const { return connection.has_room() && !requests.replay.running(); }
  bool is_ready() const {
    return connection.state() == connection::State::open && takes_messages();
  }
  bool may_send() const {
    return connection.is_sendable() && takes_messages() && !has_queued();
  }
};

// What a process keeps for a data server it has talked to, for the rest of the job, beside a map
// entry; nothing for those it has not.
static_assert(sizeof(Link) <= 328);

}  // namespace skerry::origin
