// Who may connect to a data server, and how long an origin keeps its place when places are short.
// Performs what connection decides: the doorkeeper and the quota. Server's thread only.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "connection/doorkeeper.hpp"
#include "connection/quota.hpp"
#include "fabric/fabric.hpp"
#include "server/answers.hpp"
#include "server/clients.hpp"
#include "server/relay.hpp"

namespace skerry::server {

class Admission {
 public:
  Admission(const ServerConfig& config, fabric::Fabric& fabric, Clients& clients, Answers& answers,
            Relay& relay, Counters& counters);

  void on_connect_request(fabric::RequestId request, fabric::Bytes hello);
  // Does what the quota decides, until it has nothing more to do now.
  void manage_slots();
  // Negative: nothing is due.
  int64_t next_look_ns() const { return quota_.next_look_ns(); }
  // A message of it was taken: a bye, or another.
  void heard(const Client& client);
  void said_bye(const Client& client);
  // Closes its connection.
  void end(Client& client);
  // It has ended, or is about to.
  void drop(Client& client);
  // The rank died, and is refused from now on: its name is nobody's.
  void bury(Rank rank);
  bool is_dead(Rank rank) const { return !dead_.empty() && dead_.contains(rank); }
  uint64_t memory_bytes() const;

 private:
  struct Held {  // request of an origin that is proven and waits for a connection slot
    fabric::RequestId request;
    connection::Hello hello;
  };

  bool admit(fabric::RequestId request, const connection::Hello& hello);
  void wait_for_slot(fabric::RequestId request, const connection::Hello& hello);
  connection::Quota::Busy busy_with(const Client& client) const;

  const ServerConfig& config_;
  fabric::Fabric& fabric_;
  Clients& clients_;
  Answers& answers_;
  Relay& relay_;  // other servers connect to it
  Counters& counters_;
  const connection::Doorkeeper door_;
  connection::RefusalLog refusals_;
  connection::Quota quota_;
  std::unordered_set<Rank> dead_;  // of a job that goes on without them
  std::unordered_map<Rank, Held> held_;  // at most Quota::Limits::held, one for a rank
};

}  // namespace skerry::server
