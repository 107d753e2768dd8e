// One data server that this process has talked to: its session, and the connection under it. Data
// with the few questions that need nothing else; what happens to it is decided in links.hpp
// (connections), sender.hpp (requests) and resume.hpp (after a break).
#pragma once

#include <memory>
#include <unordered_map>

#include "connection/core/cap.hpp"
#include "connection/core/machine.hpp"
#include "connection/core/dialer.hpp"
#include "core/pure/status.hpp"
#include "fabric/fabric.h"
#include "origin/send/batch.hpp"
#include "placement/node_map.hpp"
#include "session/backlog.hpp"
#include "session/replay_log.hpp"
#include "session/session.hpp"

namespace skerry::origin {

struct Link {
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

  // On fabrics with puts and gets of their own.
  struct Rma {
    uint32_t outstanding = 0;       // puts and gets that are not done
    uint32_t gets_outstanding = 0;  // of these the gets: whatever is sent before they are done
                                    // might change what they read
    // The number of the last message to each target rank since the session was last drained; null:
    // none.
    std::unique_ptr<std::unordered_map<Rank, uint64_t>> last_messages;
    void note_message(Rank to, uint64_t number) {
      if (!last_messages) last_messages = std::make_unique<std::unordered_map<Rank, uint64_t>>();
      (*last_messages)[to] = number;
    }
    uint64_t last_message(Rank to) const {  // 0: none
      if (!last_messages) return 0;
      const auto last = last_messages->find(to);
      return last == last_messages->end() ? 0 : last->second;
    }
  };

  placement::ServerRef server;
  connection::Cap::Claim claim;  // its partner: the index among all links
  session::OriginSession session;
  session::Backlog::Part backlog;  // which requests went out, and which wait for a connection
  session::ReplayCursor replay;    // running: what was lost goes again before anything new
  connection::Dialer dialer;       // of opening it
  fabric::EndpointId endpoint = fabric::no_endpoint;
  connection::Machine machine;
  Trust trust = Trust::plain_hello;
  Room room = Room::free;
  bool corked = false;        // in Batches' list: the fabric holds messages of it back until flush
  bool told_of_stop = false;  // the user knows that its server does not answer though it lives
  bool leaves_later = false;  // the server asked for the connection in the middle of a transfer
  bool is_invited = false;    // it opens since a connection that it shares does
  bool is_listed = false;     // in Links' list of those that something is outstanding on
  Status failure;             // not ok: the server cannot be reached any more
  Status request_failure;     // first one-way request that the server refused; reported by the next
                              // fence or wait
  uint64_t failure_number = 0;              // newest request of whose refusal we heard
  std::unique_ptr<session::ReplayLog> log;  // null: nothing is outstanding
  std::unique_ptr<Batch> batch;  // null: none lately. Its puts come before whatever is sent next
  uint64_t implicit_number = 0;  // implicit by-reference puts are done when this is acknowledged;
                                 // 0: there are none
  uint64_t fetching_bytes = 0;   // of fetching updates whose answers are not here: so much
                                 // the server keeps for us if we send nothing more
  uint32_t waiting_replies = 0;  // armed slots
  uint32_t lock_waits = 0;       // of these, requests for mutexes
  uint32_t gets_waiting = 0;     // of these, gets: see Pending::from
  uint32_t waiters = 0;          // threads in wait_open
  uint32_t transfers = 0;        // sent in parts by threads that are at it: the server acknowledges
                                 // the parts together, so none is left half sent
  uint16_t asked_again = 0;  // lock requests sent once more on this connection, whose grants may
                             // have been lost with the one before; until the server says it knows
  Rma rma;

  Link(placement::ServerRef s, uint32_t index, uint32_t incarnation)
      : server(s), claim(index), session(incarnation, session::Credits{}), backlog(index) {}
  uint32_t index() const { return claim.partner; }
  bool has_batch() const { return batch && batch->pieces > 0; }
  bool has_queued() const { return !backlog.empty(); }
  bool takes_messages() const { return room == Room::free && !replay.running(); }
  bool is_ready() const { return machine.state() == connection::State::open && takes_messages(); }
  bool may_send() const { return machine.sendable() && takes_messages() && !has_queued(); }
  bool may_send_batch() const {
    return may_send() && session.may_issue(batch->bytes) && rma.outstanding == 0;
  }
};

// What a process keeps for a data server it has talked to, for the rest of the job, beside a map
// entry; nothing for those it has not.
static_assert(sizeof(Link) <= 320);

}  // namespace skerry::origin
