// Who notices that a rank has died. The first data server of a node sees the end of its node's
// processes, and everybody else sees the end of the leader's. The launcher tells of other nodes' if
// the program wants failures returned. Each sets the node's end-of-job flag, which every wait
// watches.
#pragma once

#include <string_view>
#include <vector>

#include "core/thread.hpp"
#include "job/bootstrap/bootstrap.hpp"
#include "memory/control.hpp"
#include "placement/node_map.hpp"
#include "server/server.hpp"

namespace skerry::job {

class Deaths {
 public:
  struct Watched {
    Bootstrap* bootstrap;
    memory::Control control;
    const placement::NodeMap* map;
    NodeId node;
    server::Server* server;  // of the leader; null on other ranks
    bool failures_return;
  };

  // Once, when all members of the node have signed in. Errors: of a launcher that ends the job when
  // a rank dies, though the program wants to go on.
  Status watch(Watched watched);
  // No news are taken any more: the bootstrap serves its caller alone.
  void stop_news();
  // Before the leader may leave.
  void stop();
  // After the servers have stopped: they watch what this closes.
  ~Deaths();

 private:
  void watch_member(memory::Member& member);
  void watch_leader();
  void note_end(memory::Member& member, std::string_view how);
  void take_news();

  Watched watched_{};
  int news_fd_ = -1;  // the bootstrap's, of a leader that is told of deaths; -1: no news come
  std::vector<int> processes_;  // pidfds of the node's other members, which the server watches
  Thread leader_watch_;         // sleeps until the leader's process ends
  int stop_watch_fd_ = -1;      // eventfd that ends leader_watch_
};

}  // namespace skerry::job
