// The data server: one thread that applies the requests of other nodes to the memory of its own,
// and sleeps when there are none. What cannot go on (a stripe is held, a peer takes no bytes) parks
// that session alone. A request that must wait for another one (a mutex is taken) is kept beside
// its session, which goes on. Only its thread touches anything declared here, but for start, watch
// and stop.
//
// The server may be *lent* to a thread of the leader's program that waits for what other nodes
// send. The borrower takes the turns itself: a message wakes nobody, and no thread must be switched
// to. The server's own thread sleeps meanwhile. `role_` is held for one turn at a time, so "the
// server's thread" is the one that takes the turn.
//
//   a message arrives: Server::on_message   of a session, in order? or once more, after a break?
//          applied by: Applier              memory and locks of this node
//         answered by: Answers              at once, at the end of the turn, or when there is room
//         who connects: Admission, Clients  and what is kept of a rank that left
//       other servers: Relay                grants to ranks that are not connected here
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/thread.hpp"
#include "fabric/fabric.hpp"
#include "server/admission.hpp"
#include "server/answers.hpp"
#include "server/applier.hpp"
#include "server/clients.hpp"
#include "server/node.hpp"
#include "server/relay.hpp"

namespace skerry::server {

class Server final : private fabric::Sink, private lock::Outlet {
 public:
  Server(ServerConfig config, std::unique_ptr<fabric::Fabric> fabric, Directory& directory);
  ~Server() override;

  // Listens and starts the thread. *address is what others connect to. Errors: network.
  Status start(std::vector<std::byte>* address);
  // Before the first origin connects. Runs on the server's thread; returns when it has.
  void open(NodeView view);
  // Before start, or from the server's thread: `readable` runs there whenever fd is readable.
  Status watch(int fd, std::function<void()> readable);
  void unwatch(int fd);
  // Runs `task` on the server's thread soon. Any thread.
  void post(std::function<void()> task);
  // The same, and returns when it has run. Not from the server's thread.
  void call(const std::function<void()>& task);
  // For tests, in place of start: the calling thread is the server's whenever it takes a turn.
  Status listen(std::vector<std::byte>* address);
  // Sleeps until there is something to do, `longest_ns` at most (negative: no limit), and does it.
  void turn(int64_t longest_ns);
  // Lends it to the calling thread. False: it is lent already, or the fabric cannot do that. The
  // borrower takes turns, or is about to: before it waits for anything else it gives the server
  // back.
  bool borrow();
  void give_back();
  // Ends the thread. Connections are closed; nobody may need them any more.
  void stop();

  // Server's thread. Of these ranks nothing is taken any more: what they have sent and this has not
  // read is discarded, and they are refused.
  void bury(std::span<const Rank> dead);
  // Server's thread: of a mutex of the node. `buried`: by all servers of the node, not this alone.
  void pass_on(lock::Mutex& mutex, const std::unordered_set<Rank>& buried);

  // Server's thread, before the segment is unmapped: nothing is read or written there any more.
  void forget(SegmentId segment);
  using Counters = server::Counters;
  const Counters& counters() const { return counters_; }

  // Asks the server's thread and waits for it: not from there, not after stop.
  fabric::ConnectionsMemory memory();

 private:
  // Parts of a long transfer are acknowledged together, but before the origin runs out of credits.
  static constexpr uint64_t quiet_bytes_limit = 512 * 1024;
  static constexpr size_t longest_text = 1024;  // of a refusal

  void run();
  void assert_server_thread() const;
  void count_parked_rounds();
  int64_t time_to_sleep_ns(int64_t longest_ns);
  int64_t next_sleep_ns();
  void take_turn(int64_t longest_ns);
  void retry_parked();
  void retry_waiting_for_room();
  void store_traffic();

  fabric::Verdict finish(Client& client, Applier::Outcome outcome, const Status& failure);
  void refuse_request(Client& client, const Status& why);
  void complain(const Client& client, const Status& why) const;
  fabric::Verdict protocol_error(Client& client, const Status& why);
  fabric::Verdict on_close(Client& client, wire::CloseKind kind, fabric::Bytes header);
  Status check_addressee(const Client& client) const;
  bool is_direct(const Client& client) const;
  Status check_direct(const Client& client, uint64_t payload_bytes) const;
  std::byte* receive(Client& client, std::byte* to);

  // lock::Outlet
  void grant(const lock::Waiter& waiter) override;
  void refuse(const lock::Asked& request, const Status& why) override;

  // fabric::Sink
  void on_connect_request(fabric::RequestId request, fabric::Bytes hello,
                          std::string_view peer) override;
  void on_connected(fabric::EndpointId endpoint, fabric::Bytes answer) override {
    relay_.on_connected(endpoint, answer);
  }
  fabric::Verdict on_message(fabric::EndpointId endpoint, fabric::Bytes header,
                             fabric::Bytes payload) override;
  std::byte* place_directly(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  std::byte* place_inline(fabric::EndpointId endpoint, fabric::Bytes header,
                          uint64_t payload_bytes) override;
  fabric::Verdict on_placed(fabric::EndpointId endpoint, fabric::Bytes header,
                            uint64_t payload_bytes) override;
  void on_writable(fabric::EndpointId endpoint) override;
  void on_sent(fabric::EndpointId endpoint, uint64_t) override {
    if (Client* const client = clients_.find(endpoint)) Answers::on_sent(*client);
  }
  void on_rma_done(fabric::EndpointId, uint64_t, bool) override {}
  void on_closed(fabric::EndpointId endpoint, fabric::CloseReason reason,
                 std::string_view detail) override;
  void on_watched(int fd) override;

  const ServerConfig config_;
  const std::unique_ptr<fabric::Fabric> fabric_;
  NodeView view_;
  Counters counters_;
  Clients clients_;
  Answers answers_;
  Relay relay_;
  Admission admission_;
  lock::LockRequests locks_;
  Applier applier_;
  wire::Request request_;                  // the one being applied
  std::vector<fabric::EndpointId> retry_;  // parked by a busy stripe
  std::vector<fabric::EndpointId> full_;   // parked until there is room for their answers
  std::unordered_map<int, std::function<void()>> watched_;
  uint32_t parked_rounds_ = 0;  // in a row, without anything getting done
  uint64_t requests_before_ = 0;
  std::vector<std::function<void()>> tasks_;  // being run
  Thread thread_;
  Mutex role_;                // held during a turn
  bool may_be_lent_ = false;       // set before the thread starts
  std::atomic<bool> lent_{false};     // written by the borrower
  std::atomic<uint64_t> loans_{0};    // so far; written by borrowers
  std::atomic<bool> settled_{false};  // its own thread sleeps with the role; written by that
#ifndef NDEBUG
  std::atomic<const void*> owner_{nullptr};  // names the thread that took the last turn
#endif
  std::atomic<bool> stopping_{false};
  Mutex posted_mutex_;  // guards posted_ alone
  std::vector<std::function<void()>> posted_;
};

}  // namespace skerry::server
