// The origins that have a connection to a data server, and what is kept of every rank that ever had
// one. Server's thread only.
#pragma once

#include <algorithm>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "connection/doorkeeper.hpp"
#include "connection/quota.hpp"
#include "core/pure/pointer_table.hpp"
#include "fabric/fabric.hpp"
#include "server/node.hpp"
#include "session/resting.hpp"
#include "session/session.hpp"
#include "wire/message.hpp"

namespace skerry::server {

// One open connection of an origin.
struct Client {
  enum class State : uint8_t {
    serving,
    receiving,  // a long payload of it is on its way
    parked,     // its next message waits: for a busy stripe, or for room for its answer
    owing,      // it said bye, and the fabric did not take our answer yet
    leaving,    // its bye is answered: what is sent now may not be read any more
  };
  fabric::EndpointId endpoint = fabric::no_endpoint;
  session::TargetSession* session = nullptr;
  Rank rank = no_rank;
  connection::Quota::Id quota = 0;  // 0: without a limit
  State state = State::serving;
  bool acknowledge = false;  // requests were applied that no answer has told of yet: Answers knows
  uint8_t quiet_notes = 0;   // notifications of these that may wait longer
  uint16_t asked_again = 0;  // lock requests that came once more, after a break
  uint32_t quiet_bytes = 0;  // applied since the last acknowledgement
  struct Answer {
    wire::ReplyHeader header;
    std::vector<std::byte> payload;
    SegmentId segment;  // where the payload lies instead; none: here
  };
  struct Unsent {
    std::list<Answer> late;     // that the fabric did not take; sent first when it is writable
    std::list<Answer> sending;  // that it still reads from; oldest first
  };
  std::unique_ptr<Unsent> unsent;  // null: there is none, as mostly
  SegmentId receives_into;         // receiving: that segment

  bool said_bye() const { return state == State::owing || state == State::leaving; }
  size_t late() const { return unsent ? unsent->late.size() : 0; }
  Unsent& keep() {
    if (!unsent) unsent = std::make_unique<Unsent>();
    return *unsent;
  }
  void tidy_unsent() {
    if (unsent && unsent->late.empty() && unsent->sending.empty()) unsent.reset();
  }
  // The fabric writes into the segment's memory, or reads from it, for this client.
  bool uses(SegmentId segment) const {
    const SegmentId memory = segment.first_life();
    return (state == State::receiving && receives_into.first_life() == memory) ||
           (unsent && std::ranges::any_of(unsent->sending, [=](const Answer& answer) {
              return answer.segment.first_life() == memory;
            }));
  }
};
static_assert(sizeof(Client) <= 56, "there is one for each connected rank");

struct Known : connection::Visitor {  // what is kept of a rank between its connections
  explicit Known(uint32_t incarnation, uint64_t applied = 0) : session(incarnation, applied) {}
  session::TargetSession session;
  connection::Quota::Id quota = 0;  // 0, unless it is connected or waits, under a limit
};
static_assert(sizeof(Known) <= 48);

class Clients {
 public:
  explicit Clients(Counters& counters) : counters_(counters) {}
  ~Clients();
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // Null: it is none of an origin, or is closed.
  Client* find(fabric::EndpointId endpoint);
  // Null: the rank is not connected.
  Client* of(Rank rank) {
    const auto known = known_.find(rank);
    return known == known_.end() ? nullptr : find(known->second.endpoint);
  }
  // What is known of a rank, from wherever it is; a new rank: nothing yet. Valid for this turn, and
  // for as long as it is connected, waits for a slot or has left an answer.
  Known& recall(Rank rank);
  // Its Known names its connection.
  Client& add(Rank rank, Known& known);
  // Forgets a connection that has ended, or is ended by the caller.
  void drop(Client& client);
  // The end of a turn: ranks that left in it and wait for nothing take a few bytes from now on.
  void let_rest();

  size_t size() const { return table_.size(); }
  auto begin() const { return table_.begin(); }
  auto end() const { return table_.end(); }
  uint64_t ranks_known() const { return known_.size() + resting_.size(); }
  uint64_t connection_bytes() const;
  uint64_t known_bytes() const;
  uint64_t memory_bytes() const { return left_.capacity() * sizeof(Rank); }  // beside those

 private:
  struct EndpointOf {
    uint64_t operator()(const Client* client) const { return client->endpoint; }
  };
  Counters& counters_;
  PointerTable<Client*, EndpointOf> table_;  // owned
  // Every rank that ever connected is in one of these: those that are connected, wait for something
  // or have left an answer; and all others.
  std::unordered_map<Rank, Known> known_;
  session::Resting resting_;
  std::vector<Rank> left_;  // perhaps, in this turn
  Client* last_ = nullptr;  // cache of the last look-up
};

}  // namespace skerry::server
